//! What is derived from the log, shared by dispatcher and readers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::{options::StoreOptions, queue_table::QueueTable};

/// Queues, index and how far they have come.
#[derive(Debug)]
pub(crate) struct Derived {
    pub(crate) options: StoreOptions,
    pub(crate) queues: QueueTable,
    pub(crate) counters: Counters,
    pub(crate) stopping: AtomicBool,
    dispatched: AtomicU64,
}

/// Things that should not happen, counted.
#[derive(Debug, Default)]
pub struct Counters {
    /// Records whose offset differs from the unit they got.
    pub misplaced: AtomicU64,
    /// Committed records that cannot be read as messages.
    pub unreadable: AtomicU64,
}

impl Derived {
    pub(crate) fn new(options: StoreOptions) -> Self {
        Self {
            options,
            queues: QueueTable::default(),
            counters: Counters::default(),
            stopping: AtomicBool::new(false),
            dispatched: AtomicU64::new(0),
        }
    }

    /// Log position before which everything is derived.
    pub(crate) fn dispatched(&self) -> u64 {
        self.dispatched.load(Ordering::Acquire)
    }

    pub(crate) fn set_dispatched(&self, position: u64) {
        self.dispatched.store(position, Ordering::Release);
    }
}
