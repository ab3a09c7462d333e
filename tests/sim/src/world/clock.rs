//! A member's own clock.

/// Milliseconds on a clock that runs at its own rate, in sixteenths of the true one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    true_base: u64,
    own_base: u64,
    rate: u64,
}

/// The rate of a true clock.
pub(super) const TRUE_RATE: u64 = 16;

impl Clock {
    /// A true clock.
    pub(super) fn new() -> Self {
        Self { true_base: 0, own_base: 1, rate: TRUE_RATE }
    }

    /// What it shows at the true time `now`.
    pub(super) fn read(&self, now: u64) -> u64 {
        self.own_base + now.saturating_sub(self.true_base) * self.rate / TRUE_RATE
    }

    /// The true time at which it first shows `own`.
    pub(super) fn when(&self, own: u64) -> u64 {
        let ahead = own.saturating_sub(self.own_base).saturating_mul(TRUE_RATE);
        self.true_base.saturating_add(ahead.div_ceil(self.rate))
    }

    /// Goes on at another rate, without a jump.
    pub(super) fn set_rate(&mut self, now: u64, rate: u64) {
        *self = Self { true_base: now, own_base: self.read(now), rate: rate.max(1) };
    }

    /// Whether it runs as the true one does.
    pub(super) fn is_true(&self) -> bool {
        self.rate == TRUE_RATE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_clock_shows_a_time_no_earlier_than_it_is_reached() {
        for rate in [8, 11, 16, 27, 32] {
            let mut clock = Clock::new();
            clock.set_rate(1000, rate);
            for own in [1001, 1100, 1999, 5000] {
                let when = clock.when(own);
                assert!(clock.read(when) >= own, "{rate}");
                assert!(when == 1000 || clock.read(when - 1) < own, "{rate}");
            }
        }
    }
}
