//! When a message of the timer topic is due.
//!
//! The unit of such a message holds the time in the place of the hash of its tag, as Java does it for
//! the schedule topic, so that the consume queue is the index by which timers are found again. Java
//! has the hash there, and reads neither: its timers lie in files of its own.

use protocol::message::properties::{self, key};

/// Java gives TIMER_OUT_MS in whole units of this many milliseconds, rounded down, so that a message
/// is due this much later.
pub const PRECISION_MILLIS: i64 = 1_000;
/// Smaller numbers in a unit are hashes of tags.
const SMALLEST: i64 = 1 << 32;

/// When a message of the timer topic with these properties, in their text form, is due, in
/// milliseconds since 1970; `None` where it does not say. One that takes another back is due a
/// millisecond before that.
#[must_use]
pub fn due(text: &str) -> Option<i64> {
    let out: i64 = properties::find(text, key::TIMER_OUT_MS)?.parse().ok()?;
    let takes_back = properties::find(text, key::TIMER_DEL_UNIQKEY).is_some();
    let due = out.clamp(SMALLEST, i64::MAX - PRECISION_MILLIS) + PRECISION_MILLIS;
    Some(due - i64::from(takes_back))
}

/// The time that a unit of the timer topic holds; `None` where it is the hash of a tag, because a
/// Java broker derived it.
#[must_use]
pub fn due_of_unit(tags_code: i64) -> Option<u64> {
    u64::try_from(tags_code).ok().filter(|_| tags_code >= SMALLEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_tells_times_from_hashes() {
        let text = "TIMER_OUT_MS\u{1}1700000000000\u{2}";
        assert_eq!(due(text), Some(1_700_000_001_000));
        let back = format!("{text}TIMER_DEL_UNIQKEY\u{1}T+k\u{2}");
        assert_eq!(due(&back), Some(1_700_000_000_999), "before the one that it takes back");
        assert_eq!(due_of_unit(1_700_000_001_000), Some(1_700_000_001_000));
        for hash in [0, i64::from(i32::MIN), i64::from(i32::MAX)] {
            assert_eq!(due_of_unit(hash), None);
        }
        assert_eq!(due("TAGS\u{1}a\u{2}"), None);
        assert_eq!(due("TIMER_OUT_MS\u{1}soon\u{2}"), None);
        assert!(due("TIMER_OUT_MS\u{1}-5\u{2}").and_then(due_of_unit).is_some(), "at once");
        assert!(due("TIMER_OUT_MS\u{1}9223372036854775807\u{2}").and_then(due_of_unit).is_some());
    }
}
