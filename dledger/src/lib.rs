//! DLedger: a replicated append-only log that keeps no state machine.
//!
//! [`Dledger`] is such a log: open it, read it, start it with the owner's [`Hook`], append with [`Dledger::submit`], read with [`Dledger::read`], watch
//! role and commit with [`Dledger::status`] and [`Dledger::wait_committed`]. Underneath, [`Engine`]
//! joins the consensus core, the log on disk and the owner's [`Hook`] to one value that threads and
//! simulators drive alike.
//!
//! ```text
//! submit -> inbox -> driver: positions, Hook::stamp, headers, one write -> hot ring, page cache
//!                       |                                                      |
//!                     Node  <-- written, flushed --  flusher: one fdatasync in flight, index, marks
//!                       |
//!                    committed -> Sink::completed (once a group), readers
//! ```
//!
//! A failed sync or write is fatal: the log stops, every append fails, [`Status::failure`] says why,
//! and the process should exit. A full disk is not: appends fail until there is room again.

use std::{fmt, path::PathBuf, time::Duration};

use bytes::{Bytes, BytesMut};

mod completed;
mod disk_log;
mod driver;
mod engine;
mod entry;
mod flusher;
mod handle;
mod index_log;
mod peers;
mod reader;
mod recovery;
mod ring;
mod scan;
mod state_files;
mod writer;

pub use completed::{AppendFailure, Completed, RefusalCause, Refused, Sink};
pub use disk_log::{Bounds, DiskLog, DiskOptions};
pub use dledger_core::{Policy, Role};
pub use engine::{Done, Engine, EngineConfig, EngineError, Event, Job, Status};
pub use handle::{Dledger, OpenError, StartError};
pub use peers::{Peer, Peers, PeersError};
pub use reader::{ReadError, Run};
pub use recovery::{RecoverError, Rot};

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

impl Options {
    /// A group of one in `directory` with the defaults of a broker: 1 GiB files (Java:
    /// `mappedFileSizeCommitLog`), fsync before acknowledgement, 32 MiB of recent entries in memory,
    /// 256 MiB of appends that wait, each for 2.5 s at most (Java:
    /// `DLedgerConfig.maxWaitAckTimeMs`).
    #[must_use]
    pub fn one_node(directory: PathBuf) -> Self {
        Self {
            group: "broker-a".to_owned(),
            self_id: "n0".to_owned(),
            peers: "n0-127.0.0.1:40911".to_owned(),
            directory,
            file_size: 1024 * 1024 * 1024,
            durability: Durability::Sync,
            hot_ring_bytes: 32 * 1024 * 1024,
            pending_bytes: 256 * 1024 * 1024,
            append_timeout: Duration::from_millis(2500),
        }
    }
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

impl Appended {
    /// Position and body of each entry, in order.
    pub fn entries(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut at = 0;
        self.lengths.iter().filter_map(move |length| {
            let head = self.bytes.get(at..at + ENTRY_HEADER)?;
            let body = at + ENTRY_HEADER;
            at = body + *length as usize;
            Some((entry::be_u64(head, 24)?, self.bytes.get(body..at)?))
        })
    }
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
    ///
    /// # Errors
    /// A text that stops the node.
    fn elected(&mut self, term: u64, tail: &mut dyn Tail) -> Result<(), HookError>;

    /// Body of the first entry of `term`. It is then stamped, as a group of one.
    fn opening(&mut self, term: u64) -> Vec<u8>;

    /// Called once for each group, in log order, before headers and CRCs are filled.
    ///
    /// # Errors
    /// A text that fails the whole group: it is not written, and [`Hook::undo`] is called.
    fn stamp(&mut self, group: &mut [Body<'_>]) -> Result<(), HookError>;

    /// The group stamped last was not written: take its effects back.
    fn undo(&mut self);
}

/// Privileged reading of entries that may not be committed.
pub trait Tail {
    /// Calls `visit(position, body)` for each entry from log position `from` to the end of the log.
    ///
    /// # Errors
    /// What `visit` answers, or why the log could not be read.
    fn visit(&mut self, from: u64, visit: &mut Visit<'_>) -> Result<(), HookError>;
}

/// Takes the position and the body of an entry.
pub type Visit<'a> = dyn FnMut(u64, &[u8]) -> Result<(), HookError> + 'a;

/// Why the owner of the bodies could not go on. It stops the node.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct HookError(pub String);

impl From<ReadError> for HookError {
    fn from(error: ReadError) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sync => "SYNC_FLUSH",
            Self::Async => "ASYNC_FLUSH",
        })
    }
}
