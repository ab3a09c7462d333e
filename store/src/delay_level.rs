//! The table of delay levels (`messageDelayLevel`, Java `DefaultMessageStore.parseDelayLevel`).

use std::str::FromStr;

/// Java's default: levels 1 to 18.
pub const DEFAULT_LEVELS: &str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h";

/// Property of a message in the schedule topic: how many milliseconds it waits from its store time on, as
/// the table of the master that took it had it. Java has none: each of its brokers takes its own table of
/// the moment in which it derives the queue, so that two of them may deliver at different times.
pub const OWN_DELAY: &str = "LEDGERMQ_DELAY_MS";

/// Delay in milliseconds of each level, level 1 first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelayLevels(Vec<u64>);

/// Why a table of delay levels was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DelayLevelError {
    /// One entry is not a number with a unit.
    #[error(
        "messageDelayLevel: level {level} is {text:?}; write a number and a unit of s, m, h or d, such as 30s"
    )]
    Entry {
        /// Number of the level, from 1.
        level: usize,
        /// What stands there.
        text: String,
    },
    /// There is no entry.
    #[error("messageDelayLevel is empty; name at least one level, such as 1s")]
    Empty,
}

impl DelayLevels {
    /// Number of levels.
    pub fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// Delay of `level` in milliseconds. A level above the last counts as the last (Java
    /// `ScheduleMessageService`); 0 and less have no delay.
    pub fn delay_ms(&self, level: i32) -> Option<u64> {
        let index = usize::try_from(level).ok()?.checked_sub(1)?;
        self.0.get(index).or_else(|| self.0.last()).copied()
    }

    /// When a message of `level` stored at `store_timestamp` is due, in milliseconds.
    pub fn deliver_at(&self, level: i32, store_timestamp: u64) -> u64 {
        store_timestamp.saturating_add(self.delay_ms(level).unwrap_or(0))
    }
}

impl Default for DelayLevels {
    fn default() -> Self {
        const S: u64 = 1000;
        const M: u64 = 60 * S;
        Self(vec![
            S,
            5 * S,
            10 * S,
            30 * S,
            M,
            2 * M,
            3 * M,
            4 * M,
            5 * M,
            6 * M,
            7 * M,
            8 * M,
            9 * M,
            10 * M,
            20 * M,
            30 * M,
            60 * M,
            120 * M,
        ])
    }
}

impl FromStr for DelayLevels {
    type Err = DelayLevelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let levels = text
            .split_whitespace()
            .enumerate()
            .map(|(index, entry)| {
                milliseconds(entry).ok_or_else(|| DelayLevelError::Entry {
                    level: index + 1,
                    text: entry.to_owned(),
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        if levels.is_empty() { Err(DelayLevelError::Empty) } else { Ok(Self(levels)) }
    }
}

fn milliseconds(entry: &str) -> Option<u64> {
    let unit = entry.chars().last()?;
    let factor = match unit {
        's' => 1000,
        'm' => 60 * 1000,
        'h' => 60 * 60 * 1000,
        'd' => 24 * 60 * 60 * 1000,
        _ => return None,
    };
    let number = entry.get(..entry.len() - unit.len_utf8())?;
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_is_the_parsed_default_text() {
        let parsed: DelayLevels = DEFAULT_LEVELS.parse().unwrap();
        assert_eq!(parsed, DelayLevels::default());
        assert_eq!(parsed.count(), 18);
        assert_eq!(parsed.delay_ms(18), Some(7_200_000));
        assert_eq!(parsed.delay_ms(99), Some(7_200_000));
        assert_eq!(parsed.delay_ms(0), None);
        assert_eq!(parsed.deliver_at(3, 1000), 11_000);
    }

    #[test]
    fn a_bad_entry_is_named() {
        for text in ["1s x", "1s 5", "1s 5w", "1s \u{e9}"] {
            let error = text.parse::<DelayLevels>().unwrap_err();
            assert!(matches!(error, DelayLevelError::Entry { level: 2, .. }), "{text}: {error}");
        }
        assert_eq!(" ".parse::<DelayLevels>(), Err(DelayLevelError::Empty));
    }
}
