//! The append seam: the one way by which messages enter the commit log and are read back.
//!
//! Two logs implement [`AppendLog`]: the DLedger log (in the broker, which is the only crate that
//! names both) and an in-memory log for tests. Both must pass the exported suite of this crate.
//!
//! Positions. A *log position* is a byte offset in the concatenation of all log files; it is an
//! entry boundary wherever this trait takes or returns one. A *physical offset* is the position of
//! a message record, which is its entry's position plus [`HEADROOM`].

pub mod suite;

use std::time::Duration;

use bytes::{Bytes, BytesMut};

/// Bytes kept free before each record of a batch for the log's entry header
/// (DLedger: `DLedgerEntry.BODY_OFFSET`).
pub const HEADROOM: usize = 48;

/// The finished records of one request, in order.
///
/// `buffer` holds, for each record, [`HEADROOM`] free bytes and then the record. A record is
/// complete but for its queue offset, physical offset and store timestamp, which the log's stamp
/// writes in place; its length never depends on them.
#[derive(Debug)]
pub struct Batch<T> {
    /// Headroom and record, alternating.
    pub buffer: BytesMut,
    /// Length in bytes of each record, without headroom. Never empty.
    pub lengths: Vec<u32>,
    /// Given back when the batch is committed, failed or refused.
    pub token: T,
}

/// A batch that was not taken, whole, with the cause.
#[derive(Debug)]
pub struct Refused<T> {
    /// The batch as it was submitted.
    pub batch: Batch<T>,
    /// Why it was refused.
    pub cause: RefusalCause,
}

/// Why a log refused a batch. Nothing of a refused batch was or will be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusalCause {
    /// The queue of pending appends is full.
    #[error("append queue is full: {pending_bytes} of {limit_bytes} bytes are waiting")]
    Full {
        /// Bytes that wait now.
        pending_bytes: u64,
        /// The bound.
        limit_bytes: u64,
    },
    /// This node is not the leader.
    #[error("not the leader in term {term}; leader is {}", leader.as_deref().unwrap_or("unknown"))]
    NotLeader {
        /// The term this node is in.
        term: u64,
        /// The leader's id, where one is known.
        leader: Option<String>,
    },
    /// The disk has no room for more.
    #[error("disk is full")]
    DiskFull,
    /// A record is longer than the log can hold.
    #[error("record of {length} bytes is longer than the {limit} bytes an entry can hold")]
    TooLarge {
        /// Length of the record in bytes.
        length: u64,
        /// The bound in bytes.
        limit: u64,
    },
    /// The log is stopping or has failed.
    #[error("log is stopped: {0}")]
    Stopped(String),
}

/// What became of one submitted batch.
#[derive(Debug)]
pub struct Completed<T> {
    /// The token of the batch.
    pub token: T,
    /// Where it stands now, or why it is not known to be committed.
    pub result: Result<Placed, AppendFailure>,
}

/// A committed batch: its bytes as they lie in the log.
#[derive(Debug, Clone)]
pub struct Placed {
    /// Entry header and stamped record, alternating, shared with the log's hot ring.
    pub bytes: Bytes,
    /// Length of each record, as submitted.
    pub lengths: Vec<u32>,
}

impl Placed {
    /// The stamped records, in order.
    pub fn records(&self) -> impl Iterator<Item = &[u8]> {
        let mut at = 0;
        self.lengths.iter().filter_map(move |length| {
            let start = at + HEADROOM;
            at = start + *length as usize;
            self.bytes.get(start..at)
        })
    }
}

/// Why a batch that was taken was not committed, as far as is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendFailure {
    /// It is in no log any more: sending again is safe.
    #[error("append was cut off by a newer leader in term {term}")]
    Truncated {
        /// The term that cut it off.
        term: u64,
    },
    /// It was taken and then not written, because this node leads no more: nothing of it is kept,
    /// and sending again is safe.
    #[error("append was not written: {0}")]
    Refused(RefusalCause),
    /// No majority confirmed it in time; it may still be committed.
    #[error("append was not confirmed within {waited:?}")]
    TimedOut {
        /// How long it waited.
        waited: Duration,
    },
    /// Writing failed, nothing was kept.
    #[error("append could not be written: {0}")]
    Write(String),
    /// There was no room for it, nothing was kept; the log goes on.
    #[error("append could not be written: {0}")]
    DiskFull(String),
    /// The log stopped before it was confirmed; it may be found committed after a restart.
    #[error("append was not confirmed before the log stopped: {0}")]
    Unconfirmed(String),
}

/// Receives what became of batches, in log order, a committed group at a time.
///
/// To ensure correctness: called on the log's own thread, so it must not block and must not call
/// back into [`AppendLog::submit`] in a way that waits.
pub trait CommitSink<T>: Send + Sync {
    /// A group of batches that completed together.
    fn completed(&self, group: Vec<Completed<T>>);
}

/// First and end of what can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// Log position of the first entry that is kept.
    pub min: u64,
    /// Log position behind the last committed entry.
    pub committed: u64,
}

/// Consecutive committed records.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// Each record with its physical offset.
    pub records: Vec<(u64, Bytes)>,
    /// Log position behind the last of them: where the next run begins.
    pub next: u64,
}

/// Why a read failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Before the first entry or behind the last committed one.
    #[error("offset {offset} is outside the committed log [{min}, {committed})")]
    OutOfRange {
        /// What was asked for.
        offset: u64,
        /// First readable position.
        min: u64,
        /// End of the committed log.
        committed: u64,
    },
    /// The bytes there are not a sound entry.
    #[error("entry at {position} is damaged: {reason}")]
    Damaged {
        /// Log position of the entry.
        position: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The disk refused.
    #[error("log could not be read at {position}: {reason}")]
    Io {
        /// Log position.
        position: u64,
        /// Text of the system.
        reason: String,
    },
}

/// An append-only log of message records. Readers see committed bytes only.
pub trait AppendLog<T: Send>: Send + Sync {
    /// Hands over a batch. Never blocks; the order of calls on one thread is log order.
    ///
    /// To ensure correctness: on `Ok` the batch's token reaches the [`CommitSink`] exactly once,
    /// unless the process dies. On `Err` the batch comes back whole and is not written.
    fn submit(&self, batch: Batch<T>) -> Result<(), Refused<T>>;

    /// What can be read now. Both ends only grow.
    fn bounds(&self) -> Bounds;

    /// The committed record of `size` bytes at physical offset `physical`; may wait for the disk.
    fn read(&self, physical: u64, size: u32) -> Result<Bytes, ReadError>;

    /// As [`AppendLog::read`] where the bytes are in memory, else `None` at once.
    fn read_if_cached(&self, physical: u64, size: u32) -> Option<Bytes>;

    /// The committed record at physical offset `physical`, its size taken from the entry there.
    fn read_unsized(&self, physical: u64) -> Result<Bytes, ReadError>;

    /// Committed records from log position `from` on: at least one where there is one, and no more
    /// once `max_bytes` are reached. Padding at the end of a file is passed over.
    fn read_forward(&self, from: u64, max_bytes: usize) -> Result<Run, ReadError>;

    /// Waits until more than `beyond` is committed or `timeout` is over; returns the committed end.
    fn wait_committed(&self, beyond: u64, timeout: Duration) -> u64;
}
