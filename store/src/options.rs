//! How a store is opened.

use std::{path::PathBuf, sync::Arc, time::Duration};

use segment::{RealVfs, Vfs};

use crate::{append_log::HEADROOM, delay_level::DelayLevels, retention::RetentionPolicy};

/// Settings of a store; `new` gives Java's defaults.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// The disk.
    pub vfs: Arc<dyn Vfs>,
    /// Root of the store (`storePathRootDir`): consumequeue/, index/, checkpoint and abort lie in it.
    pub root: PathBuf,
    /// Bytes of one consume-queue file (`mappedFileSizeConsumeQueue`), rounded up to whole units.
    pub consume_queue_file_size: u64,
    /// Slots of one index file (`maxHashSlotNum`).
    pub index_slots: u32,
    /// Entries of one index file (`maxIndexNum`).
    pub index_entries: u32,
    /// Whether messages are indexed by key (`messageIndexEnable`).
    pub index_enabled: bool,
    /// Delay of each level (`messageDelayLevel`).
    pub delay_levels: DelayLevels,
    /// Bytes of one log file (`mappedFileSizeCommitLog`): retention works in steps of it.
    pub log_file_size: u64,
    /// How far behind the log's end a message counts as in memory, in bytes
    /// (`accessMessageInMemoryMaxRatio` percent of the machine's memory).
    pub in_memory_bytes: u64,
    /// Units of messages that lie within so many bytes of the log's end are kept in memory.
    pub recent_log_bytes: u64,
    /// How often the place that the derived files have reached is written down.
    pub mark_interval: Duration,
    /// How long the dispatcher sleeps at most when nothing is committed; a stop waits as long.
    pub idle_wait: Duration,
    /// Bounds of one read of a queue.
    pub limits: PullLimits,
    /// When messages expire.
    pub retention: RetentionPolicy,
    /// Where a native commit log in front of the log ends (Java `dividedCommitlogOffset`): below
    /// it a record's physical offset is its log position. 0 where there is none.
    pub native_below: u64,
}

/// Bounds of one read of a queue (Java `maxTransfer*` of `MessageStoreConfig`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PullLimits {
    /// Messages at most, where they are in memory.
    pub memory_messages: usize,
    /// Bytes at most, where they are in memory.
    pub memory_bytes: usize,
    /// Messages at most, where the disk has to be read.
    pub disk_messages: usize,
    /// Bytes at most, where the disk has to be read.
    pub disk_bytes: usize,
    /// Bytes of consume-queue units that a filter may pass over at least
    /// (`maxFilterMessageSize`).
    pub scan_bytes: u64,
}

impl Default for PullLimits {
    fn default() -> Self {
        Self {
            memory_messages: 32,
            memory_bytes: 256 << 10,
            disk_messages: 8,
            disk_bytes: 64 << 10,
            scan_bytes: 16_000,
        }
    }
}

impl StoreOptions {
    /// Java's defaults for a store under `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            vfs: Arc::new(RealVfs),
            root: root.into(),
            consume_queue_file_size: 300_000 * 20,
            index_slots: 5_000_000,
            index_entries: 20_000_000,
            index_enabled: true,
            delay_levels: DelayLevels::default(),
            log_file_size: 1 << 30,
            in_memory_bytes: machine_memory() / 100 * 40,
            recent_log_bytes: 32 << 20,
            mark_interval: Duration::from_secs(5),
            idle_wait: Duration::from_millis(100),
            limits: PullLimits::default(),
            retention: RetentionPolicy::default(),
            native_below: 0,
        }
    }

    /// Log position of the entry whose record has this physical offset.
    pub(crate) fn position_of(&self, physical: u64) -> u64 {
        if physical < self.native_below {
            physical
        } else {
            physical.saturating_sub(HEADROOM as u64)
        }
    }
}

/// Memory of the machine in bytes as Linux reports it, else a guess that fits a small server.
fn machine_memory() -> u64 {
    const GUESS: u64 = 8 << 30;
    let Ok(text) = std::fs::read_to_string("/proc/meminfo") else { return GUESS };
    text.lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok())
        .map_or(GUESS, |kibibytes: u64| kibibytes << 10)
}
