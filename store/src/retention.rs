//! Which messages have expired (Java `DefaultMessageStore.CleanCommitLogService`).

use std::time::Duration;

/// When messages expire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// How long a message is kept (`fileReservedTime`).
    pub reserved: Duration,
    /// Local hours in which expired messages are removed (`deleteWhen`).
    pub delete_hours: Vec<u8>,
    /// Above this used share of the disk, in percent, expired messages go at any hour
    /// (`diskMaxUsedSpaceRatio`).
    pub max_used_percent: u8,
    /// Above this used share of the disk, in percent, the oldest messages go even if they have not
    /// expired (`diskSpaceCleanForciblyRatio`).
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
