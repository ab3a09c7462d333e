//! The times in which no message was acknowledged.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Acknowledgements in the order in which they came.
#[derive(Debug)]
pub(super) struct Gaps {
    begun: Instant,
    /// When the last one came.
    last: Instant,
    /// Shorter ones are no gaps.
    least: Duration,
    found: Vec<Gap>,
}

/// A time without an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gap {
    /// When it began, from the beginning of the run.
    from: Duration,
    /// How long it was.
    length: Duration,
}

impl Gaps {
    /// A run that begins now.
    pub(super) fn begin(least: Duration) -> Self {
        let now = Instant::now();
        Self { begun: now, last: now, least, found: Vec::new() }
    }

    /// A message was acknowledged.
    pub(super) fn acknowledged(&mut self, at: Instant) {
        self.close(at);
        self.last = self.last.max(at);
    }

    /// The run is over: what is still open ends as well.
    pub(super) fn end(&mut self, at: Instant) {
        self.close(at);
    }

    fn close(&mut self, at: Instant) {
        let length = at.saturating_duration_since(self.last);
        if length >= self.least && self.found.len() < GAPS_MAX {
            self.found.push(Gap { from: self.last - self.begun, length });
        }
    }

    /// Adds the figures to the facts of a report.
    pub(super) fn tell(&self, facts: &mut Value) {
        let mut lengths: Vec<Duration> = self.found.iter().map(|gap| gap.length).collect();
        lengths.sort_unstable();
        let at = |percent| quantile(&lengths, percent).map(millis);
        facts["gapAtLeastMs"] = json!(millis(self.least));
        facts["gaps"] = json!(lengths.len());
        facts["gapSumMs"] = json!(millis(lengths.iter().sum()));
        facts["gapP50Ms"] = json!(at(50));
        facts["gapP99Ms"] = json!(at(99));
        facts["gapLongestMs"] = json!(at(100));
        let each = self.found.iter();
        facts["gapList"] = each
            .map(|gap| json!({ "atSeconds": gap.from.as_secs_f64(), "ms": millis(gap.length) }))
            .collect();
    }
}

/// The smallest length that this percentage does not exceed.
fn quantile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// Milliseconds with three digits behind the point.
fn millis(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}

/// Gaps that are kept; more of them are no gaps but the rate.
const GAPS_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_time_without_an_acknowledgement() {
        let mut gaps = Gaps::begin(Duration::from_millis(100));
        let at = |millis| gaps.begun + Duration::from_millis(millis);
        // The third one was seen late.
        let acknowledged = [10, 20, 15, 300, 310, 1310].map(at);
        let end = at(3310);
        for one in acknowledged {
            gaps.acknowledged(one);
        }
        gaps.end(end);
        let seen: Vec<_> =
            gaps.found.iter().map(|gap| (gap.from.as_millis(), gap.length.as_millis())).collect();
        assert_eq!(seen, [(20, 280), (310, 1000), (1310, 2000)]);
        let mut facts = json!({});
        gaps.tell(&mut facts);
        assert_eq!((&facts["gaps"], &facts["gapLongestMs"]), (&json!(3), &json!(2000.0)));
        assert_eq!((&facts["gapP50Ms"], &facts["gapP99Ms"]), (&json!(1000.0), &json!(2000.0)));
        assert_eq!(facts["gapSumMs"], json!(3280.0));
    }

    #[test]
    fn a_run_without_a_gap_has_no_longest_one() {
        let mut facts = json!({});
        Gaps::begin(Duration::from_secs(1)).tell(&mut facts);
        assert_eq!((&facts["gaps"], &facts["gapLongestMs"]), (&json!(0), &Value::Null));
    }

    #[test]
    fn quantiles_are_lengths_that_occurred() {
        let lengths: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        let at = |percent| quantile(&lengths, percent).unwrap().as_millis();
        assert_eq!((at(50), at(99), at(100)), (100, 198, 200));
        assert_eq!(quantile(&[], 50), None);
    }
}
