//! Figures of two brokers under the same loads, and the table of their ratios.

use anyhow::{Context, Result};
use serde_json::Value;

/// What one load on one broker cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Messages a second.
    pub rate: f64,
    /// Latency in milliseconds that 99 of 100 requests or messages did not exceed.
    pub p99: f64,
    /// Microseconds of the broker's processor time for each message.
    pub cpu: f64,
    /// MiB of RssAnon and RssShmem of the broker, right after the load.
    pub memory: f64,
    /// MiB of VmRSS of the broker.
    pub resident: f64,
    /// Failed requests.
    pub failed: f64,
}

impl Figures {
    /// The figures that `ledgermq bench --json` measured itself; the others are 0.
    ///
    /// # Errors
    /// Where one is missing.
    pub fn of_line(line: &Value) -> Result<Self> {
        let number = |value: &Value, name: &str| {
            value.as_f64().with_context(|| format!("{name} is missing in {line}"))
        };
        Ok(Self {
            rate: number(&line["messagesPerSecond"], "messagesPerSecond")?,
            p99: number(&line["latencyMs"]["p99"], "latencyMs.p99")?,
            failed: number(&line["failed"], "failed")?,
            cpu: 0.0,
            memory: 0.0,
            resident: 0.0,
        })
    }
}

type Figure = fn(&Figures) -> f64;

/// One load with the figures of both brokers, a pair for each round.
#[derive(Debug)]
pub struct Row {
    /// Durability of the brokers.
    pub durability: &'static str,
    /// The load.
    pub load: &'static str,
    /// Apache's and ours.
    pub rounds: Vec<(Figures, Figures)>,
}

/// Median of some numbers.
#[must_use]
pub fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

/// The table: for each load a line with the ratios ours / Apache, median and range of the rounds,
/// and below it the medians themselves.
#[must_use]
pub fn tables(rows: &[Row]) -> String {
    let columns: [(&str, Figure); 5] = [
        ("msg/s", |figures| figures.rate),
        ("p99", |figures| figures.p99),
        ("CPU a message", |figures| figures.cpu),
        ("memory", |figures| figures.memory),
        ("VmRSS", |figures| figures.resident),
    ];
    let mut text = String::from("Ratio LedgerMQ / Apache, median (lowest to highest round):\n\n");
    text += "| flushDiskType | load |";
    for (name, _) in columns {
        write_to(&mut text, format_args!(" {name} |"));
    }
    text += "\n|---|---|---:|---:|---:|---:|---:|\n";
    for row in rows {
        write_to(&mut text, format_args!("| {} | {} |", row.durability, row.load));
        for (_, figure) in columns {
            write_to(&mut text, format_args!(" {} |", ratio(&row.rounds, figure)));
        }
        text.push('\n');
    }
    text += "\nMedians, Apache / LedgerMQ:\n\n";
    text += "| flushDiskType | load | msg/s | p99 ms | CPU us a message | memory MiB | VmRSS MiB | failed requests |\n";
    text += "|---|---|---:|---:|---:|---:|---:|---:|\n";
    for row in rows {
        write_to(&mut text, format_args!("| {} | {} |", row.durability, row.load));
        for (_, figure) in columns {
            write_to(&mut text, format_args!(" {} |", pair(&row.rounds, figure)));
        }
        let failed = pair(&row.rounds, |figures| figures.failed);
        write_to(&mut text, format_args!(" {failed} |\n"));
    }
    text
}

/// `document` with the section under `heading` replaced by `body`, or added at its end.
#[must_use]
pub fn replace_section(document: &str, heading: &str, body: &str) -> String {
    let mut kept = String::new();
    let mut inside = false;
    let mut placed = false;
    for line in document.lines() {
        if line == heading {
            inside = true;
            placed = true;
            write_to(&mut kept, format_args!("{heading}\n\n{}\n\n", body.trim_end()));
            continue;
        }
        inside = inside && !line.starts_with("## ");
        if !inside {
            kept += line;
            kept.push('\n');
        }
    }
    if !placed {
        write_to(&mut kept, format_args!("\n{heading}\n\n{}\n", body.trim_end()));
    }
    kept.trim_end().to_owned() + "\n"
}

fn ratio(rounds: &[(Figures, Figures)], figure: Figure) -> String {
    let ratios: Vec<f64> = rounds
        .iter()
        .map(|(apache, ours)| figure(ours) / figure(apache))
        .filter(|ratio| ratio.is_finite())
        .collect();
    let lowest = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = ratios.iter().copied().fold(0.0, f64::max);
    match median(&ratios) {
        Some(median) => format!("{median:.2} ({lowest:.2} to {highest:.2})"),
        None => "-".to_owned(),
    }
}

fn pair(rounds: &[(Figures, Figures)], figure: Figure) -> String {
    let of = |numbers: Vec<f64>| match median(&numbers) {
        Some(number) if number >= 100.0 => format!("{number:.0}"),
        Some(number) => format!("{number:.1}"),
        None => "-".to_owned(),
    };
    let apache = of(rounds.iter().map(|(apache, _)| figure(apache)).collect());
    let ours = of(rounds.iter().map(|(_, ours)| figure(ours)).collect());
    format!("{apache} / {ours}")
}

fn write_to(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    *text += &arguments.to_string();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(rate: f64) -> Figures {
        Figures { rate, p99: 2.0, cpu: 10.0, memory: 100.0, resident: 200.0, failed: 0.0 }
    }

    #[test]
    fn a_median_of_an_even_number_lies_between() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn ratios_are_made_round_by_round() {
        let rounds = [(100.0, 300.0), (200.0, 400.0), (100.0, 400.0)];
        let rounds = rounds.map(|(apache, ours)| (figures(apache), figures(ours))).to_vec();
        let text = tables(&[Row { durability: "SYNC_FLUSH", load: "x", rounds }]);
        assert!(
            text.contains("| SYNC_FLUSH | x | 3.00 (2.00 to 4.00) | 1.00 (1.00 to 1.00) |"),
            "{text}"
        );
        assert!(
            text.contains("| SYNC_FLUSH | x | 100 / 400 | 2.0 / 2.0 | 10.0 / 10.0 |"),
            "{text}"
        );
    }

    #[test]
    fn a_section_is_replaced_and_the_others_stay() {
        let document = "# P\n\n## A\n\none\n\n## B\n\ntwo\n";
        let replaced = replace_section(document, "## A", "new\n");
        assert_eq!(replaced, "# P\n\n## A\n\nnew\n\n## B\n\ntwo\n");
        let added = replace_section(document, "## C", "new\n");
        assert_eq!(added, "# P\n\n## A\n\none\n\n## B\n\ntwo\n\n## C\n\nnew\n");
        assert_eq!(replace_section(&added, "## C", "new\n"), added);
    }

    #[test]
    fn a_line_of_a_bench_without_a_figure_is_refused() {
        let line = serde_json::json!({
            "messagesPerSecond": 5.0, "latencyMs": { "p99": 1.5 }, "failed": 2,
        });
        let figures = Figures::of_line(&line).unwrap();
        assert_eq!((figures.rate, figures.p99, figures.failed), (5.0, 1.5, 2.0));
        let error = Figures::of_line(&serde_json::json!({ "failed": 0 })).unwrap_err();
        assert!(error.to_string().contains("messagesPerSecond"), "{error}");
    }
}
