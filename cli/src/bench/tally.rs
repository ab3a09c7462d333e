//! What a measured window has seen, and the figures that follow from it.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context;
use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// Failed requests by kind, with the first text of each kind.
pub(crate) type Errors = BTreeMap<String, (u64, String)>;

/// Counts and latencies of one window.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    /// Messages that succeeded.
    pub(crate) messages: u64,
    /// Bytes of their bodies.
    pub(crate) bytes: u64,
    /// What failed.
    pub(crate) errors: Errors,
    /// In microseconds.
    latencies: Histogram<u64>,
}

impl Tally {
    /// Nothing yet.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let latencies = Histogram::new_with_bounds(1, LATENCY_MAX_MICROS, DIGITS)
            .context("a histogram of latencies")?;
        Ok(Self { messages: 0, bytes: 0, errors: Errors::new(), latencies })
    }

    /// Counts messages that succeeded together.
    pub(crate) fn success(&mut self, messages: u64, bytes: u64) {
        self.messages += messages;
        self.bytes += bytes;
    }

    /// Counts the latency of one request or message.
    pub(crate) fn latency(&mut self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.latencies.saturating_record(micros);
    }

    /// Counts a failed request.
    pub(crate) fn error(&mut self, kind: String, text: impl FnOnce() -> String) {
        count_error(&mut self.errors, kind, text);
    }

    /// Number of failed requests.
    pub(crate) fn failed(&self) -> u64 {
        failed(&self.errors)
    }

    /// Messages a second.
    pub(crate) fn rate(&self, took: Duration) -> f64 {
        per_second(self.messages, took)
    }

    /// MiB of bodies a second.
    pub(crate) fn mib_rate(&self, took: Duration) -> f64 {
        per_second(self.bytes, took) / MIB
    }

    /// A latency in milliseconds: that which this part of the requests did not exceed. `None`
    /// where nothing was measured.
    pub(crate) fn quantile(&self, part: f64) -> Option<f64> {
        let some = !self.latencies.is_empty();
        some.then(|| millis(self.latencies.value_at_quantile(part)))
    }

    /// Latencies for programs, in milliseconds.
    pub(crate) fn latencies_json(&self) -> Value {
        let [p50, p99, p999, max] = QUANTILES.map(|(_, part)| self.quantile(part));
        json!({ "p50": p50, "p99": p99, "p99.9": p999, "max": max, "count": self.latencies.len() })
    }
}

/// Counts a failed request.
pub(crate) fn count_error(errors: &mut Errors, kind: String, text: impl FnOnce() -> String) {
    errors.entry(kind).or_insert_with(|| (0, text())).0 += 1;
}

/// Adds what failed elsewhere.
pub(crate) fn add_errors(errors: &mut Errors, more: Errors) {
    for (kind, (count, text)) in more {
        errors.entry(kind).or_insert_with(|| (0, text)).0 += count;
    }
}

/// Number of failed requests.
pub(crate) fn failed(errors: &Errors) -> u64 {
    errors.values().map(|(count, _)| count).sum()
}

/// Counts for programs.
pub(crate) fn errors_json(errors: &Errors) -> Value {
    errors.iter().map(|(kind, (count, _))| (kind.clone(), Value::from(*count))).collect()
}

fn per_second(count: u64, took: Duration) -> f64 {
    let seconds = took.as_secs_f64();
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

fn millis(micros: u64) -> f64 {
    micros as f64 / 1000.0
}

/// Latencies that are shown.
pub(crate) const QUANTILES: [(&str, f64); 4] =
    [("p50 ms", 0.5), ("p99 ms", 0.99), ("p99.9 ms", 0.999), ("max ms", 1.0)];
/// Significant digits of a latency.
const DIGITS: u8 = 3;
/// Longer latencies are counted as this one: an hour.
const LATENCY_MAX_MICROS: u64 = 3_600_000_000;
const MIB: f64 = 1_048_576.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_counts_by_time() {
        let mut tally = Tally::new().unwrap();
        tally.success(32, 32 << 20);
        tally.success(8, 8 << 20);
        assert_eq!(tally.rate(Duration::from_secs(4)), 10.0);
        assert_eq!(tally.mib_rate(Duration::from_millis(500)), 80.0);
        assert_eq!(tally.rate(Duration::ZERO), 0.0);
    }

    #[test]
    fn quantiles_have_three_digits_and_none_of_nothing_is_zero() {
        let mut tally = Tally::new().unwrap();
        assert_eq!(tally.quantile(0.5), None);
        for millis in 1..=1000 {
            tally.latency(Duration::from_millis(millis));
        }
        for (part, expected) in [(0.5, 500.0), (0.99, 990.0), (0.999, 999.0), (1.0, 1000.0)] {
            let found = tally.quantile(part).unwrap();
            assert!((found - expected).abs() <= expected / 1000.0, "{part}: {found}");
        }
        tally.latency(Duration::from_secs(86_400));
        assert!(tally.quantile(1.0).unwrap() >= 3_600_000.0);
    }

    #[test]
    fn errors_of_two_sides_add_up() {
        let mut errors = Errors::from([("A".to_owned(), (1, "one".to_owned()))]);
        let more = ["A", "B"].map(|kind| (kind.to_owned(), (2, "more".to_owned())));
        add_errors(&mut errors, more.into());
        assert_eq!(errors_json(&errors), json!({ "A": 3, "B": 2 }));
        assert_eq!(errors["A"].1, "one");
    }

    #[test]
    fn errors_are_counted_by_kind_with_their_first_text() {
        let mut tally = Tally::new().unwrap();
        tally.error("TIMEOUT".to_owned(), || "first".to_owned());
        tally.error("TIMEOUT".to_owned(), || "second".to_owned());
        tally.error("SYSTEM_BUSY".to_owned(), || "busy".to_owned());
        assert_eq!(tally.failed(), 3);
        assert_eq!(tally.errors["TIMEOUT"], (2, "first".to_owned()));
        assert_eq!(errors_json(&tally.errors), json!({ "SYSTEM_BUSY": 1, "TIMEOUT": 2 }));
    }
}
