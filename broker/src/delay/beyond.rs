//! Messages that are due later than their level's delay from now on.
//!
//! That is so where the table of levels was shortened after they were stored, or where the clock
//! stepped back. The time that stands with a message does not tell which, so that delivery at once
//! would be early by as much as the clock stepped. Such a message waits for its level's delay once
//! more from when it was first met, by a clock that does not step: it cannot come early, for it was
//! stored before it was met, and it cannot hold up those behind it for longer than that.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// The messages of each level that were met.
#[derive(Debug, Default)]
pub(super) struct Beyond {
    levels: BTreeMap<u32, Met>,
}

/// Messages below an offset.
#[derive(Debug, Clone, Copy)]
struct Met {
    since: Instant,
    below: u64,
}

/// A message that waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    /// When it is due, in milliseconds since 1970.
    pub(super) due: u64,
    /// Its offset in the queue of its level.
    pub(super) offset: u64,
    /// The next offset of that queue.
    pub(super) end: u64,
}

impl Beyond {
    /// In how many milliseconds a message of `level` is delivered; 0 for now. `delay` is that of the
    /// level, and `clock` tells the time since 1970 and the one that does not step.
    pub(super) fn wait(
        &mut self,
        (level, delay): (u32, u64),
        message: Waiting,
        (now, steady): (u64, Instant),
    ) -> u64 {
        let left = message.due.saturating_sub(now);
        if left <= delay {
            return left;
        }
        let known = self.levels.get(&level).copied().filter(|met| message.offset < met.below);
        let met = known.unwrap_or_else(|| {
            let met = Met { since: steady, below: message.end };
            self.levels.insert(level, met);
            let (offset, millis) = (message.offset, left);
            tracing::warn!(
                level, offset, millis, delay,
                "messages are due later than the delay of their level, which was shortened, or the clock was set back; they wait for that delay from now on"
            );
            met
        });
        let waited = steady.saturating_duration_since(met.since);
        let left = Duration::from_millis(delay).saturating_sub(waited);
        // Not a part of a millisecond early.
        u64::try_from(left.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
    }

    /// Forgets what was met: another node leads.
    pub(super) fn forget(&mut self) {
        self.levels.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn message(due: u64, offset: u64) -> Waiting {
        Waiting { due, offset, end: if offset < 10 { 10 } else { 20 } }
    }

    #[test]
    fn a_message_within_its_delay_is_due_when_it_says() {
        let (mut beyond, steady) = (Beyond::default(), Instant::now());
        let mut wait = |due, now| beyond.wait((1, 1_000), message(due, 0), (now, steady));
        assert_eq!(wait(5_000, 4_000), 1_000);
        assert_eq!(wait(5_000, 4_999), 1);
        assert_eq!(wait(5_000, 5_000), 0);
        assert_eq!(wait(5_000, 9_000), 0);
    }

    /// A level of two hours became one of a second: all that is there waits for one second together.
    #[test]
    fn messages_of_a_shortened_level_come_after_its_new_delay() {
        let (mut beyond, steady) = (Beyond::default(), Instant::now());
        let mut at = |offset, millis| {
            let clock = (millis, steady + Duration::from_millis(millis));
            beyond.wait((1, 1_000), message(2 * HOUR + offset, offset), clock)
        };
        assert_eq!(at(0, 0), 1_000);
        assert_eq!(at(0, 400), 600);
        assert_eq!(at(0, 1_000), 0);
        assert_eq!(at(1, 1_000), 0, "it was there when the first one was met");
        assert_eq!(at(9, 1_001), 0);
        assert_eq!(at(10, 1_001), 1_000, "it came later");
        assert_eq!(at(10, 2_001), 0);
    }

    /// The clock stepped back by an hour: what is delayed by ten seconds comes neither at once nor an
    /// hour late.
    #[test]
    fn a_clock_that_steps_back_makes_nothing_early() {
        let (mut beyond, steady) = (Beyond::default(), Instant::now());
        let stored_just_before = message(2 * HOUR + 10_000, 0);
        let mut at = |passed| {
            let clock = (HOUR + passed, steady + Duration::from_millis(passed));
            beyond.wait((3, 10_000), stored_just_before, clock)
        };
        assert_eq!(at(0), 10_000);
        assert_eq!(at(9_999), 1);
        assert_eq!(at(10_000), 0);
    }

    #[test]
    fn levels_wait_by_themselves_and_another_lead_begins_anew() {
        let (mut beyond, steady) = (Beyond::default(), Instant::now());
        let later = steady + Duration::from_secs(1);
        assert_eq!(beyond.wait((1, 1_000), message(HOUR, 0), (0, steady)), 1_000);
        assert_eq!(beyond.wait((2, 1_000), message(HOUR, 0), (0, later)), 1_000);
        assert_eq!(beyond.wait((1, 1_000), message(HOUR, 0), (0, later)), 0);
        beyond.forget();
        assert_eq!(beyond.wait((1, 1_000), message(HOUR, 0), (0, later)), 1_000);
    }
}
