//! How many timers come and go.

use super::{
    now_millis,
    window::{Amount, Measure, Meter, Span},
};

/// Timers that were found in their queue, and those that went to their own topics.
#[derive(Debug)]
pub(crate) struct Timers {
    found: Meter,
    delivered: Meter,
}

impl Timers {
    pub(super) fn new(now: u64) -> Self {
        Self { found: Meter::new(now), delivered: Meter::new(now) }
    }

    /// Counts what one turn of the delivery did.
    pub(crate) fn moved(&self, found: u64, delivered: u64) {
        for (meter, messages) in [(&self.found, found), (&self.delivered, delivered)] {
            if messages > 0 {
                meter.add(Amount { messages, ..Amount::default() });
            }
        }
    }

    /// How many were found and delivered per second over the last minute.
    pub(crate) fn rates(&self) -> (f64, f64) {
        let now = now_millis();
        let rate = |meter: &Meter| meter.figures(Span::Minute, Measure::Messages, now).tps;
        (rate(&self.found), rate(&self.delivered))
    }

    pub(super) fn sample(&self, now: u64) {
        self.found.sample(now);
        self.delivered.sample(now);
    }
}
