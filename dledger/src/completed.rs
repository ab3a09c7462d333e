//! What becomes of a submission.

use std::time::Duration;

use crate::{Appended, Entries};

/// A submission that was not taken, whole, with the cause.
#[derive(Debug)]
pub struct Refused<T> {
    /// The submission as it came.
    pub entries: Entries<T>,
    /// Why it was refused.
    pub cause: RefusalCause,
}

/// Why a submission was refused. Nothing of it was or will be written.
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
    /// Another member is about to lead: it takes appends in a moment.
    #[error("the lead is going to {to}")]
    Transferring {
        /// Who will lead.
        to: String,
    },
    /// A body is longer than a file can hold, or the whole than what is written at once.
    #[error(
        "append of {length} bytes is longer than the {limit} bytes that can be written at once"
    )]
    TooLarge {
        /// Length of the body or of the whole.
        length: u64,
        /// The bound.
        limit: u64,
    },
    /// The lengths do not describe the buffer.
    #[error("a buffer of {buffer} bytes does not hold bodies of {described} bytes with headers")]
    Malformed {
        /// Length of the buffer.
        buffer: u64,
        /// What the lengths add up to, with headers; 0 where there are none.
        described: u64,
    },
    /// The log is stopping or has failed.
    #[error("log is stopped: {0}")]
    Stopped(String),
}

/// What became of one submission.
#[derive(Debug)]
pub struct Completed<T> {
    /// Its token.
    pub token: T,
    /// Where it stands now, or why it is not known to be committed.
    pub result: Result<Appended, AppendFailure>,
}

/// Why a submission that was taken was not committed, as far as is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendFailure {
    /// Another entry is committed in its place: it will never be committed, sending again is safe.
    #[error("append was cut off by a newer leader in term {term}")]
    Truncated {
        /// The term that cut it off.
        term: u64,
    },
    /// No majority confirmed it in time; it may still be committed.
    #[error("append was not confirmed within {waited:?}")]
    TimedOut {
        /// How long it waited.
        waited: Duration,
    },
    /// It was not written, nothing of it is kept.
    #[error("append was not written: {0}")]
    NotWritten(String),
    /// It was not taken after all: this node ceased to lead, or too much waits. Nothing of it is kept.
    #[error("append was not taken: {0}")]
    Refused(RefusalCause),
    /// There was no room for it, nothing of it is kept; the log goes on.
    #[error("append was not written: {0}")]
    DiskFull(String),
    /// The log stopped before it was confirmed; it may be found committed after a restart.
    #[error("append was not confirmed before the log stopped: {0}")]
    Unconfirmed(String),
}

/// Receives what became of submissions, in log order, a committed group at a time.
///
/// To ensure correctness: called on the log's own thread, so it must not block.
pub trait Sink<T>: Send + Sync + 'static {
    /// Submissions that completed together.
    fn completed(&self, group: Vec<Completed<T>>);
}
