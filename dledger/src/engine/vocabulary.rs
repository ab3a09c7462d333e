//! What goes into an engine and what comes out.

use std::{io, time::Duration};

use bytes::Bytes;
use dledger_core::{
    CallId, ConfigError, EntryId, LogIndex, Message, NodeId, PeerKind, Policy, Progress, Role,
    Term, Timings, TransferCode, Vote,
};

use crate::{
    DiskOptions, Doubt, Entries, EntriesRead, ReadError, RefusalCause, planted::Planted,
    range::CheckedRange, recovery::RecoverError, writer::Cursor,
};

/// How an engine is built. Begin with [`EngineConfig::new`] and change what differs.
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
    /// Which run of the node this is: another number at each start, never 0.
    pub life: u64,
    /// The timings while no member is Java.
    pub timings: Timings,
    /// Members that are to lead where they can (`preferredLeaderId`).
    pub preferred: Vec<String>,
    /// See [`crate::Options::advises`].
    pub advises: bool,
    /// Whether an acknowledgement of a Java member counts under `SYNC_FLUSH`, though it does not
    /// wait for its disk.
    pub count_java_acks: bool,
    /// A flush that takes longer is taken for a disk that hangs: the node does not lead then.
    pub disk_patience: Duration,
    /// Most bytes in flight to one follower.
    pub window_bytes: u64,
    /// Most bytes of one push.
    pub push_bytes: u64,
    /// Most bytes of entries that are appended and not committed.
    pub pending_bytes: u64,
    /// Which faults are planted.
    #[cfg(feature = "planted")]
    pub planted: Planted,
}

impl EngineConfig {
    /// A member with the defaults of a server: `SYNC_FLUSH`, our own timings.
    #[must_use]
    pub fn new(self_id: &str, members: &[&str], disk: DiskOptions) -> Self {
        let timings = Timings::default();
        Self {
            self_id: self_id.to_owned(),
            members: members.iter().map(|id| (*id).to_owned()).collect(),
            policy: Policy::Flushed,
            disk,
            append_timeout: Duration::from_millis(2500),
            seed: 1,
            life: 1,
            timings,
            preferred: Vec::new(),
            advises: false,
            count_java_acks: true,
            disk_patience: Duration::from_millis(timings.election_max),
            window_bytes: 16 * 1024 * 1024,
            push_bytes: 1024 * 1024,
            pending_bytes: 256 * 1024 * 1024,
            #[cfg(feature = "planted")]
            planted: Planted::default(),
        }
    }

    pub(crate) fn planted(&self) -> Planted {
        #[cfg(feature = "planted")]
        return self.planted.clone();
        #[cfg(not(feature = "planted"))]
        Planted
    }
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
    /// Term and vote, or what else is kept beside the log, could not be read.
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
    /// A member said something.
    Received {
        /// Who.
        from: String,
        /// Of a request: what its answer is to name. No two requests share one.
        call: CallId,
        /// What.
        message: Message,
        /// The entries that came with it: whole ones, one behind another, without padding.
        entries: Option<Bytes>,
    },
    /// What a member is, or that the connection to it was closed.
    Peer {
        /// Which one.
        id: String,
        /// What it is.
        kind: PeerKind,
    },
    /// An operator wants another member to lead; answered by [`Answer::TransferDone`].
    Transfer {
        /// What the answer is to name.
        call: CallId,
        /// Who; `None` leaves the choice to this node.
        to: Option<String>,
    },
    /// A reader asks how far it must read to see all that is committed now; answered by
    /// [`Answer::ReadIndex`].
    ReadIndex {
        /// What the answer is to name.
        call: CallId,
    },
    /// Somebody asks how far the log is; answered by [`Answer::Marks`].
    Marks {
        /// What the answer is to name.
        call: CallId,
    },
    /// Retention may have removed entries at the front of the log.
    Trimmed,
    /// Whether there is room for what clients append.
    Room {
        /// There is.
        enough: bool,
    },
}

/// What an operator or a reader asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// What came of [`Event::Transfer`].
    TransferDone {
        /// Of the event.
        call: CallId,
        /// What came of it.
        code: TransferCode,
    },
    /// What came of [`Event::ReadIndex`].
    ReadIndex {
        /// Of the event.
        call: CallId,
        /// The log position behind the last entry that was committed when it was asked for.
        end: Result<u64, RefusalCause>,
    },
    /// How far the log was when [`Event::Marks`] came.
    Marks {
        /// Of the event.
        call: CallId,
        /// How far.
        marks: Marks,
    },
}

/// How far a member's log is, by index of an entry, and how far it knows the others to be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Marks {
    /// The last entry.
    pub end: Option<u64>,
    /// The last one that is written.
    pub written: Option<u64>,
    /// The last one that is durable.
    pub flushed: Option<u64>,
    /// The last one that is known to be committed.
    pub committed: Option<u64>,
    /// The others; their marks where this member leads.
    pub others: Vec<OtherMarks>,
}

/// What a member knows of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherMarks {
    /// Which one.
    pub id: String,
    /// What it runs, as far as it is known.
    pub kind: Option<PeerKind>,
    /// How it follows; `None` where this member does not lead.
    pub progress: Option<Progress>,
}

impl Answer {
    /// The call of the event that it answers.
    pub(crate) fn call(&self) -> CallId {
        match self {
            Self::TransferDone { call, .. }
            | Self::ReadIndex { call, .. }
            | Self::Marks { call, .. } => *call,
        }
    }
}

/// Something to be done that may wait for the disk. Jobs run one at a time, in the order polled; only
/// a [`Job::Read`] and a [`Job::StoreVote`] may run beside the others and end out of order, each kind
/// by itself in the order polled: an election waits for no flush.
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
    /// Remove entries at the end of the log.
    Truncate {
        /// The first to go.
        index: LogIndex,
    },
    /// Remove the whole log.
    Restart {
        /// The entry that it is to begin with.
        at: EntryId,
        /// Its position.
        position: u64,
    },
    /// Read entries for a member.
    Read(ReadJob),
    /// Write entries over rotten ones.
    Mend(Mending),
    /// Delete whole files that lie before a log position: what is rotten there is lost for good.
    GiveUp {
        /// The position of the first entry that any other member has.
        before: u64,
    },
    /// Keep, or settle, that this member may lack entries that it has acknowledged.
    StoreDoubt(Option<Doubt>),
}

/// Entries that a member is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadJob {
    /// Whose.
    pub(crate) peer: NodeId,
    /// The call to be answered, where the member asked for them; `None` for a push.
    pub(crate) call: Option<CallId>,
    pub(crate) from: LogIndex,
    /// The last that may be read.
    pub(crate) upto: LogIndex,
    pub(crate) max_bytes: u64,
}

/// Entries that were fetched for rotten ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mending {
    pub(crate) fetched: CheckedRange,
}

/// Where a log ends after a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEnd(pub(crate) Cursor);

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
    /// The end of the log is cut off.
    Truncated {
        /// The first entry that went.
        from: LogIndex,
        /// Where the log ends now; `None` where there was nothing to cut.
        end: Option<LogEnd>,
    },
    /// The whole log was removed.
    Restarted {
        /// Where it begins.
        end: LogEnd,
    },
    /// Entries were read, or could not be.
    Read {
        /// Which ones, and for whom.
        job: ReadJob,
        /// What came of it.
        result: Result<EntriesRead, ReadError>,
    },
    /// Rotten entries were written anew, or what was fetched does not fit.
    Mended {
        /// The first of them.
        first: LogIndex,
        /// What is wrong.
        result: Result<(), String>,
    },
    /// What was lost for good is deleted, or what the disk said.
    GaveUp {
        /// What went wrong.
        result: Result<(), String>,
    },
    /// The doubt is kept or settled.
    DoubtStored,
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
    /// Why this node may lack entries that it has acknowledged, if so.
    pub doubt: Option<Doubt>,
    /// The disk takes appends, in time, and nothing on it is rotten. A node that is not healthy does
    /// not lead a group of several.
    pub healthy: bool,
    /// The owner's word: there is room for what clients append.
    pub room: bool,
    /// Who is to lead in the place of this node, which leads; see [`crate::Options::advises`].
    pub advised: Option<String>,
}

impl Default for Status {
    fn default() -> Self {
        Self {
            role: Role::Candidate,
            term: 0,
            leader: None,
            opened: false,
            failure: None,
            doubt: None,
            healthy: true,
            room: true,
            advised: None,
        }
    }
}
