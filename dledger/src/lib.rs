//! DLedger: a replicated append-only log that keeps no state machine.
//!
//! This file names the seam that everything else uses; see the modules for how it runs.

use std::{path::PathBuf, time::Duration};

use bytes::{Bytes, BytesMut};

/// Length in bytes of an entry's header (`DLedgerEntry.BODY_OFFSET`).
pub const ENTRY_HEADER: usize = 48;

/// When an entry counts as kept by this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Once it is fsynced (`SYNC_FLUSH`).
    Sync,
    /// Once it is in the page cache (`ASYNC_FLUSH`).
    Async,
}

/// How a log is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// Name of the group (`dLegerGroup`).
    pub group: String,
    /// This node's id (`dLegerSelfId`), one character and a number.
    pub self_id: String,
    /// All members, `id-host:port;...` (`dLegerPeers`).
    pub peers: String,
    /// The folder `dledger-<selfId>`, which holds data/, index/, currterm and checkpoint.
    pub directory: PathBuf,
    /// Bytes of one data file (`mappedFileSizeCommitLog`).
    pub file_size: u64,
    /// When an entry counts as kept.
    pub durability: Durability,
    /// Bytes of recent entries kept in memory for readers.
    pub hot_ring_bytes: usize,
    /// Bound in bytes of appends that wait.
    pub pending_bytes: u64,
    /// How long an append may wait for its commit.
    pub append_timeout: Duration,
}

/// Bodies to append, in order: `buffer` holds [`ENTRY_HEADER`] free bytes and a body, alternating.
#[derive(Debug)]
pub struct Entries<T> {
    /// Header room and body, alternating.
    pub buffer: BytesMut,
    /// Length of each body in bytes.
    pub lengths: Vec<u32>,
    /// Given back with the outcome.
    pub token: T,
}

/// Committed entries as they lie in the log.
#[derive(Debug, Clone)]
pub struct Appended {
    /// Header and body, alternating.
    pub bytes: Bytes,
    /// Length of each body in bytes.
    pub lengths: Vec<u32>,
}

/// One body of a group that is about to be written; its entry's position is already fixed.
#[derive(Debug)]
pub struct Body<'a> {
    /// Position of the entry in the log; the body lies [`ENTRY_HEADER`] bytes behind it.
    pub position: u64,
    /// The body, to be changed in place.
    pub bytes: &'a mut [u8],
}

/// What the owner of the bodies does on the driver's thread. It must not block.
pub trait Hook: Send + 'static {
    /// This node won an election of `term`. `tail` gives every entry that follows what the owner
    /// has already seen, committed or not; called before [`Hook::opening`].
    fn elected(&mut self, term: u64, tail: &mut dyn Tail) -> Result<(), HookError>;

    /// Body of the first entry of `term`.
    fn opening(&mut self, term: u64) -> Vec<u8>;

    /// Called once for each group, in log order, before headers and CRCs are filled.
    fn stamp(&mut self, group: &mut [Body<'_>]);

    /// The group stamped last was not written: take its effects back.
    fn undo(&mut self);
}

/// Privileged reading of entries that may not be committed.
pub trait Tail {
    /// Calls `visit(position, body)` for each entry from log position `from` to the end of the log.
    fn visit(
        &mut self,
        from: u64,
        visit: &mut dyn FnMut(u64, &[u8]) -> Result<(), HookError>,
    ) -> Result<(), HookError>;
}

/// Why the owner of the bodies could not go on. It stops the node.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct HookError(pub String);
