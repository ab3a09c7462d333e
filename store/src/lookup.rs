//! Offsets by time (Java `ConsumeQueue.getOffsetInQueueByTime`).

/// Which of several messages a time means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Boundary {
    /// The first message stored at the time or later.
    #[default]
    Lower,
    /// The last message stored at the time or earlier.
    Upper,
}

/// How many messages before the one found are looked at for a clock that stepped back: a log of
/// ours never runs backwards, one written by Java can.
const STEP_BACK: u64 = 16;

/// Offset in [min, max] that `boundary` means for `timestamp`; `time(offset)` is when the message
/// there was stored, `None` where it cannot be read.
///
/// Lower: all older gives max, all newer gives min. Upper: all older gives the last message, all
/// newer gives min. An empty queue gives min.
pub(crate) fn offset_by_time(
    (min, max): (u64, u64),
    timestamp: u64,
    boundary: Boundary,
    time: impl Fn(u64) -> Option<u64>,
) -> u64 {
    let before = |offset: u64| match (boundary, time(offset)) {
        (Boundary::Lower, Some(stored)) => stored < timestamp,
        (Boundary::Upper, Some(stored)) => stored <= timestamp,
        // Only messages at the start vanish while we look: they count as old.
        (_, None) => true,
    };
    let (mut low, mut high) = (min, max);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    match boundary {
        Boundary::Lower => {
            let from = low.saturating_sub(STEP_BACK).max(min);
            (from..low).find(|offset| !before(*offset)).unwrap_or(low)
        }
        Boundary::Upper => low.saturating_sub(1).max(min),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(times: &[u64], timestamp: u64, boundary: Boundary) -> u64 {
        let max = times.len() as u64;
        offset_by_time((0, max), timestamp, boundary, |offset| times.get(offset as usize).copied())
    }

    /// Case 40 of the known faults: equal times, both ends, and a clock that stepped back.
    #[test]
    fn equal_times_and_both_ends() {
        let times = [100, 100, 100, 200, 200, 300];
        let asked = [50, 100, 150, 200, 300, 301];
        let lower = asked.map(|timestamp| search(&times, timestamp, Boundary::Lower));
        assert_eq!(lower, [0, 0, 3, 3, 5, 6]);
        let upper = asked.map(|timestamp| search(&times, timestamp, Boundary::Upper));
        assert_eq!(upper, [0, 2, 2, 4, 5, 5]);
    }

    #[test]
    fn a_step_back_does_not_skip_messages() {
        let times = [100, 100, 100, 200, 200, 300, 250, 260];
        assert_eq!(search(&times, 260, Boundary::Lower), 5);
        assert_eq!(search(&times, 301, Boundary::Lower), 8);
    }

    #[test]
    fn an_empty_queue_gives_its_start() {
        assert_eq!(offset_by_time((7, 7), 5, Boundary::Lower, |_| None), 7);
        assert_eq!(offset_by_time((7, 7), 5, Boundary::Upper, |_| None), 7);
    }
}
