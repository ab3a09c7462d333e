//! DLedger: a replicated append-only log that keeps no state machine.
//!
//! **Begin with [`Log`]**, which takes plain bodies: [`Log::append`] and [`Log::append_batch`] are
//! answered once they are committed, [`Log::get`] and [`Log::entries`] read what is, [`Log::status`]
//! and [`Log::committed`] watch role and commit, [`Log::metadata`] says who is who. All of them are
//! in `examples/append.rs`; `examples/kv` is a server on it.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let log = dledger::Log::open(dledger::Options::one_node("data/dledger-n0".into()))?;
//! log.start()?;
//! log.status().wait_for(|status| status.opened).await?;
//! let entry = log.append(b"a body").await?;
//! assert_eq!(log.get(entry.index)?.body, "a body");
//! # Ok(())
//! # }
//! ```
//!
//! [`Dledger`] below it is for an owner who changes bodies in place and takes outcomes in groups, as a
//! broker does: open it, start it with the owner's [`Hook`], append with [`Dledger::submit`], read
//! with [`Dledger::read`], watch role and commit with [`Dledger::status`] and
//! [`Dledger::wait_committed`]. Underneath, [`Engine`] joins the consensus core, the log on disk and
//! the owner's [`Hook`] to one value that threads and simulators drive alike.
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

mod client;
mod completed;
mod disk_log;
mod driver;
mod engine;
mod entry;
#[cfg(test)]
mod fixture;
mod flusher;
mod forced;
mod handle;
mod index_log;
mod library;
mod mailbox;
mod peers;
mod planted;
mod range;
mod reader;
mod recorder;
mod recovery;
mod ring;
mod scan;
mod server;
mod state_files;
pub mod transport;
pub mod verify;
pub mod wire;
mod writer;

pub use client::{GroupClient, GroupError};
pub use completed::{AppendFailure, Completed, RefusalCause, Refused, Sink};
pub use disk_log::{Bounds, DiskLog, DiskOptions, rot::RottenRange};
pub use dledger_core::{
    CallId, Capability, PeerKind, Policy, Progress, Role, Timings, TransferCode,
};
pub use engine::{
    Answer, Done, Engine, EngineConfig, EngineError, Event, Job, LogEnd, Marks, Mending,
    OtherMarks, ReadJob, Status,
};
pub use forced::{FORCED_TERMS, ForceError, Standing, StoppedLog};
pub use handle::{AskError, Dledger, OpenError, StartError};
pub use library::{AnyBodies, Log, LogError, Metadata};
pub use peers::{Peer, Peers, PeersError};
pub use range::{EntriesRead, Entry, RangeFault};
pub use reader::{ReadError, Run};
pub use recorder::FlightRecorder;
pub use recovery::{RecoverError, Rot};
pub use server::{LogServer, ServerError, ServerOptions};
pub use state_files::Doubt;
pub use transport::{Alone, Inbox, Incoming, Outgoing, Transport};

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

impl Durability {
    pub(crate) fn policy(self) -> Policy {
        match self {
            Self::Sync => Policy::Flushed,
            Self::Async => Policy::Written,
        }
    }
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
    /// How long members wait for each other, while none of them is Java.
    pub timings: Timings,
    /// Members that are to lead where they can (`preferredLeaderId`).
    pub preferred: Vec<String>,
    /// Whether a leader only tells who is to lead in its place ([`Status::advised`]): a member that is
    /// preferred, or one with room where it has none. The owner then hands the lead over by
    /// [`Dledger::transfer`]. Else the log does so by itself, and refuses appends meanwhile.
    pub advises: bool,
    /// Whether an acknowledgement of a Java member counts under `SYNC_FLUSH`, though it does not wait
    /// for its disk: it does while a Java group is taken over node by node.
    pub count_java_acks: bool,
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
            timings: Timings::default(),
            preferred: Vec::new(),
            advises: false,
            count_java_acks: true,
        }
    }

    /// What this member says of itself to the others, and holds them to.
    #[must_use]
    pub fn introduction(&self, cluster: Option<String>) -> wire::capability::Introduction {
        let policy = self.durability.policy();
        let capability = Capability { policy, timings: self.timings };
        let file_size = self.file_size;
        wire::capability::Introduction { client: None, cluster, file_size, capability }
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

    /// The entries with their numbers, in order.
    #[must_use]
    pub fn all(&self) -> Vec<Entry> {
        let mut at = 0;
        let entries = self.lengths.iter().filter_map(|length| {
            let head = self.bytes.get(at..at + ENTRY_HEADER)?;
            let body = at + ENTRY_HEADER;
            at = body + *length as usize;
            Some(Entry {
                index: entry::be_u64(head, 8)?,
                term: entry::be_u64(head, 16)?,
                position: entry::be_u64(head, 24)?,
                body: (at <= self.bytes.len()).then(|| self.bytes.slice(body..at))?,
            })
        });
        entries.collect()
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

    /// This node leads no more: what it stamped and is not committed may be cut off. The next
    /// election calls [`Hook::elected`] with what is then in the log.
    fn deposed(&mut self) {}

    /// Log position from which on the owner cannot do without any entry yet. Where entries in front of
    /// it are rotten and no other member has them any more, the log is trimmed as by retention.
    fn needed_from(&mut self) -> u64 {
        u64::MAX
    }
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
