//! What goes into an engine and what comes out.

use std::{io, time::Duration};

use dledger_core::{ConfigError, EntryId, Policy, Role, Term, Vote};

use crate::{DiskOptions, Entries, recovery::RecoverError};

/// How an engine is built.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// This node's id.
    pub self_id: String,
    /// The ids of all members.
    pub members: Vec<String>,
    /// When an entry counts as kept.
    pub policy: Policy,
    /// The log on disk.
    pub disk: DiskOptions,
    /// How long a submission may wait for its commit.
    pub append_timeout: Duration,
    /// Where the random part of timings comes from.
    pub seed: u64,
}

/// Why an engine could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The log on disk.
    #[error(transparent)]
    Recover(#[from] RecoverError),
    /// The membership.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Term and vote could not be read.
    #[error("term and vote could not be read: {0}")]
    HardState(io::Error),
    /// A file is too small or the index would not fit.
    #[error("data files of {file_size} bytes are too small: use at least 4096 bytes")]
    FileSize {
        /// What was asked for.
        file_size: u64,
    },
}

/// Something that happened.
#[derive(Debug)]
pub enum Event<T> {
    /// Nothing but time.
    Tick,
    /// Submissions to be appended, in this order.
    Submitted(Vec<Entries<T>>),
    /// A job ended.
    Done(Done),
}

/// Something to be done that may wait for the disk. One job runs at a time, in the order polled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Job {
    /// Sync the log.
    Flush {
        /// Its last entry.
        upto: EntryId,
        /// Position behind that.
        end: u64,
    },
    /// Store term and vote.
    StoreVote {
        /// The term.
        term: Term,
        /// The vote.
        vote: Vote,
    },
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// The log is durable up to there.
    Flushed {
        /// Its last entry.
        upto: EntryId,
        /// Position behind that.
        end: u64,
    },
    /// Term and vote are durable.
    VoteStored {
        /// The term.
        term: Term,
    },
    /// The log must stop: the disk failed.
    Failed(String),
}

/// What others may know about the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Its role.
    pub role: Role,
    /// Its term.
    pub term: u64,
    /// The leader's id, where it is known.
    pub leader: Option<String>,
    /// This node leads, and the entry that opens its term is committed: everything that earlier
    /// terms left is committed with it.
    pub opened: bool,
    /// Why the log has stopped for good, if it has.
    pub failure: Option<String>,
}

impl Default for Status {
    fn default() -> Self {
        Self { role: Role::Candidate, term: 0, leader: None, opened: false, failure: None }
    }
}
