//! Which messages have expired (Java `DefaultMessageStore.CleanCommitLogService`).

use std::time::Duration;

use crate::{append_log::Bounds, timeline::Timeline};

/// When messages expire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// How long a message is kept (`fileReservedTime`).
    pub reserved: Duration,
    /// Local hours in which expired messages are removed (`deleteWhen`).
    pub delete_hours: Vec<u8>,
    /// From this used share of the disk on, in percent, expired messages go at any hour
    /// (`diskMaxUsedSpaceRatio`).
    pub max_used_percent: u8,
    /// From this used share of the disk on, in percent, the oldest messages go even if they have
    /// not expired (`diskSpaceCleanForciblyRatio`).
    pub force_used_percent: u8,
    /// Whether messages may go before they expire (`cleanFileForciblyEnable`).
    pub force_enabled: bool,
}

impl Default for RetentionPolicy {
    fn default() -> Self {
        Self {
            reserved: Duration::from_secs(72 * 3600),
            delete_hours: vec![4],
            max_used_percent: 75,
            force_used_percent: 85,
            force_enabled: true,
        }
    }
}

/// The time at which retention looks at a store, and how full the disk is then.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// Milliseconds since 1970.
    pub now_ms: u64,
    /// Hour of the day where the operator lives, 0 to 23.
    pub local_hour: u8,
    /// Used share of the fullest file system that holds data, 0 to 1; 0 where it is not known.
    pub used_ratio: f64,
}

/// What retention has to decide about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) timeline: &'a Timeline,
    pub(crate) bounds: Bounds,
    /// Bytes of a log file: what one forced step frees.
    pub(crate) file_size: u64,
}

/// Log position up to which the log may be trimmed; `None` where nothing has expired.
pub(crate) fn trim_to(policy: &RetentionPolicy, moment: Moment, facts: &Facts<'_>) -> Option<u64> {
    let used = moment.used_ratio * 100.0;
    let due = policy.delete_hours.contains(&moment.local_hour)
        || used >= f64::from(policy.max_used_percent);
    let reserved = u64::try_from(policy.reserved.as_millis()).unwrap_or(u64::MAX);
    let expired = facts.timeline.older_than(moment.now_ms.saturating_sub(reserved)).filter(|_| due);
    let force = policy.force_enabled && used >= f64::from(policy.force_used_percent);
    let one_file = facts.bounds.min.saturating_add(facts.file_size);
    let forced = facts.timeline.at_or_behind(one_file).filter(|_| force);
    expired.max(forced).filter(|position| *position > facts.bounds.min)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn decide(local_hour: u8, used_ratio: f64) -> Option<u64> {
        let samples = (0..10).map(|nth| (nth * 100, nth * 10 * HOUR)).collect();
        let timeline = Timeline::from_samples(samples);
        let bounds = Bounds { min: 0, committed: 1000 };
        let facts = Facts { timeline: &timeline, bounds, file_size: 250 };
        let moment = Moment { now_ms: 100 * HOUR, local_hour, used_ratio };
        trim_to(&RetentionPolicy::default(), moment, &facts)
    }

    /// 100 hours on, messages of the first 28 hours have expired: samples 0, 10 and 20.
    #[test]
    fn expired_messages_go_at_the_hour_or_when_the_disk_fills() {
        assert_eq!(decide(3, 0.5), None);
        assert_eq!(decide(4, 0.5), Some(200));
        assert_eq!(decide(3, 0.75), Some(200));
    }

    #[test]
    fn a_nearly_full_disk_takes_one_file_at_a_time() {
        assert_eq!(decide(3, 0.86), Some(300));
        let policy = RetentionPolicy { force_enabled: false, ..RetentionPolicy::default() };
        let timeline = Timeline::from_samples(vec![(0, 99 * HOUR), (300, 99 * HOUR)]);
        let bounds = Bounds { min: 0, committed: 1000 };
        let facts = Facts { timeline: &timeline, bounds, file_size: 250 };
        let moment = Moment { now_ms: 100 * HOUR, local_hour: 4, used_ratio: 0.9 };
        assert_eq!(trim_to(&policy, moment, &facts), None);
        assert_eq!(trim_to(&RetentionPolicy::default(), moment, &facts), Some(300));
    }
}
