//! What a run tells at its end.

use serde_json::{Value, json};

use super::{
    tally::{Errors, QUANTILES, errors_json, failed},
    windows::Measured,
};
use crate::output;

/// The measured windows of a run with its parameters.
#[derive(Debug)]
pub(crate) struct Report {
    /// Parameters, and facts about the whole run: a JSON object.
    pub(crate) facts: Value,
    /// Name of what is counted, for programs: `acknowledged`, `sent`, `received`.
    pub(crate) counted: &'static str,
    /// The windows.
    pub(crate) measured: Vec<Measured>,
    /// What failed outside of the windows.
    pub(crate) outside: Errors,
}

impl Report {
    /// Prints it.
    ///
    /// # Errors
    /// Where standard output is gone, and for a run without a success.
    pub(crate) fn print(&self, as_json: bool) -> anyhow::Result<()> {
        if as_json {
            for index in 0..self.measured.len() {
                output::line(&self.json(index).to_string())?;
            }
        } else {
            self.print_table()?;
        }
        anyhow::ensure!(!self.measured.is_empty(), "the run ended before anything was measured");
        let all: u64 = self.measured.iter().map(|measured| measured.tally.messages).sum();
        if all == 0 {
            let why = self.first_error().map(|text| format!(": {text}")).unwrap_or_default();
            anyhow::bail!("no message was {}{why}", self.counted);
        }
        Ok(())
    }

    fn json(&self, index: usize) -> Value {
        let mut line = self.facts.clone();
        let Some(Measured { tally, took }) = self.measured.get(index) else { return line };
        line["measured"] = json!(index + 1);
        line["seconds"] = json!(took.as_secs_f64());
        line[self.counted] = json!(tally.messages);
        line["failed"] = json!(tally.failed());
        line["errors"] = errors_json(&tally.errors);
        line["errorsOutside"] = errors_json(&self.outside);
        line["messagesPerSecond"] = json!(tally.rate(*took));
        line["mibPerSecond"] = json!(tally.mib_rate(*took));
        line["latencyMs"] = tally.latencies_json();
        // A client cannot know what the broker's answer is worth.
        line["durability"] = Value::Null;
        line
    }

    fn print_table(&self) -> anyhow::Result<()> {
        let facts = self.facts.as_object().into_iter().flatten();
        let facts = facts.filter(|(_, value)| !value.is_array() && !value.is_null());
        let facts: Vec<String> = facts.map(|(name, value)| format!("{name}={value}")).collect();
        output::line(&facts.join("  ").replace('"', ""))?;
        let mut head = vec!["window", "seconds", self.counted, "failed", "msg/s", "MiB/s"];
        head.extend(QUANTILES.map(|(name, _)| name));
        let mut table = output::table(&head);
        for (index, Measured { tally, took }) in self.measured.iter().enumerate() {
            let mut row = vec![
                (index + 1).to_string(),
                format!("{:.2}", took.as_secs_f64()),
                tally.messages.to_string(),
                tally.failed().to_string(),
                format!("{:.0}", tally.rate(*took)),
                format!("{:.2}", tally.mib_rate(*took)),
            ];
            let latencies = QUANTILES.map(|(_, part)| tally.quantile(part));
            row.extend(latencies.map(|latency| match latency {
                Some(millis) => format!("{millis:.3}"),
                None => "-".to_owned(),
            }));
            table.add_row(row);
        }
        output::line(&table.trim_fmt())?;
        for (index, measured) in self.measured.iter().enumerate() {
            print_errors(&measured.tally.errors, &format!("window {}", index + 1))?;
        }
        print_errors(&self.outside, "outside of the windows")
    }

    fn first_error(&self) -> Option<&str> {
        let inside = self.measured.iter().map(|measured| &measured.tally.errors);
        let mut all = inside.chain([&self.outside]).flat_map(|errors| errors.values());
        all.next().map(|(_, text)| text.as_str())
    }
}

fn print_errors(errors: &Errors, place: &str) -> anyhow::Result<()> {
    if failed(errors) > 0 {
        output::line(&format!("Failed requests, {place}:"))?;
    }
    for (kind, (count, text)) in errors {
        output::line(&format!("  {count} x {kind}, the first: {}", output::printable(text)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::bench::tally::Tally;

    fn report(messages: u64) -> Report {
        let mut tally = Tally::new().unwrap();
        tally.success(messages, 1024 * messages);
        tally.error("TIMEOUT".to_owned(), || "no answer".to_owned());
        Report {
            facts: json!({ "bench": "produce" }),
            counted: "acknowledged",
            measured: vec![Measured { tally, took: Duration::from_secs(2) }],
            outside: Errors::new(),
        }
    }

    #[test]
    fn a_line_for_programs_has_every_figure() {
        let line = report(2048).json(0);
        assert_eq!(line["bench"], "produce");
        assert_eq!(line["acknowledged"], 2048);
        assert_eq!(line["errors"], json!({ "TIMEOUT": 1 }));
        assert_eq!(line["messagesPerSecond"], 1024.0);
        assert_eq!(line["mibPerSecond"], 1.0);
        assert_eq!(line["latencyMs"]["p99.9"], Value::Null);
        assert_eq!(line.get("durability"), Some(&Value::Null));
    }

    #[test]
    fn a_run_without_a_success_fails_and_says_why() {
        assert!(report(1).print(true).is_ok());
        let error = report(0).print(true).unwrap_err().to_string();
        assert_eq!(error, "no message was acknowledged: no answer");
        let none = Report { measured: Vec::new(), ..report(1) };
        assert!(none.print(false).is_err());
    }
}
