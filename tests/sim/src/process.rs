//! The seam between the simulated world and what runs in it: a process of a member, and its disk.
//!
//! Two things run behind it: the real engine on the simulated disk ([`crate::member`]), and the bare
//! consensus core on a log in memory ([`crate::bare`]), which is faster and reaches more elections.

use std::fmt;

use bytes::Bytes;
use dledger_core::{Load, Message, Millis, Provisional, Role};

use crate::{
    ghost::{Ended, Entry, Log},
    plan::{Fault, Plan},
    random::Random,
};

/// How a process is started.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Its number.
    pub member: usize,
    /// The plan of the run.
    pub plan: Plan,
    /// Which start this is, from 1, over all members.
    pub life: u64,
    /// How the life before ended.
    pub before: Ended,
}

impl Setup {
    /// The id of a member.
    #[must_use]
    pub fn id(member: usize) -> String {
        format!("n{member}")
    }

    /// The number of the member of this id.
    #[must_use]
    pub fn number(id: &str) -> Option<usize> {
        id.strip_prefix('n')?.parse().ok()
    }
}

/// Something that happens to a process.
#[derive(Debug)]
pub enum Incoming<Done> {
    /// Time has passed.
    Tick,
    /// A message came.
    Message {
        /// From whom.
        from: usize,
        /// What its answer is to name.
        call: u64,
        /// The message.
        message: Message,
        /// Entries that came along.
        entries: Bytes,
    },
    /// The connection to a member was closed.
    Gone {
        /// Which member.
        member: usize,
    },
    /// A client submits bodies as one submission.
    Submit {
        /// Its number.
        token: u64,
        /// The bodies.
        bodies: Vec<Vec<u8>>,
    },
    /// A job ended.
    Done(Done),
    /// An operator wants another member to lead.
    Transfer {
        /// Which one; any where there is none.
        to: Option<usize>,
    },
    /// A client asks how far it must read.
    ReadIndex {
        /// Its number.
        call: u64,
    },
}

/// A message on its way out.
#[derive(Debug, Clone)]
pub struct Parcel {
    /// To whom.
    pub to: usize,
    /// The request that it answers.
    pub call: Option<u64>,
    /// The message.
    pub message: Message,
    /// Entries that go along.
    pub entries: Bytes,
}

/// What came of a submission, or of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Committed; hash and position of its last entry.
    Acknowledged {
        /// Its number.
        token: u64,
        /// Position in the log.
        position: u64,
        /// What stands for its bytes.
        hash: u64,
    },
    /// Cut off by another leader: never committed.
    CutOff {
        /// Its number.
        token: u64,
    },
    /// Refused or not written: never committed.
    Refused {
        /// Its number.
        token: u64,
    },
    /// Perhaps committed later.
    TimedOut {
        /// Its number.
        token: u64,
    },
    /// The answer to [`Incoming::ReadIndex`]: how many entries are to be read, if it was given.
    Read {
        /// Its number.
        call: u64,
        /// How many entries.
        entries: Option<u64>,
    },
    /// A transfer ended.
    Transferred {
        /// Whether the other member leads.
        success: bool,
    },
}

/// What a process says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Its role.
    pub role: Role,
    /// Its term.
    pub term: u64,
    /// It leads and has committed the entry that opens its term.
    pub opened: bool,
    /// It has stopped for good.
    pub failed: bool,
}

/// The tables of a member as text, and the log position up to which they are applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Everything before it is applied.
    pub applied: u64,
    /// The tables, as [`crate::model::Model::text`] writes them.
    pub tables: String,
}

/// How a log changed since it was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Its end was cut: the first entry that went.
    Truncated(u64),
    /// Its head was deleted: the first entry that is left.
    Trimmed(u64),
    /// An entry was added.
    Appended(Entry),
}

/// Why a process did not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartFailure {
    /// Its log is damaged, and it does not mend that by itself.
    Rot(String),
    /// Anything else.
    Other(String),
}

impl fmt::Display for StartFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rot(text) | Self::Other(text) => f.write_str(text),
        }
    }
}

/// A process of a member.
pub trait Process: Sized + fmt::Debug {
    /// What survives it.
    type Disk: Disk;
    /// Work that waits for the disk.
    type Job: fmt::Debug;
    /// What came of such work.
    type Done: fmt::Debug;

    /// What a start may take beyond an election, in milliseconds.
    const LEADER_SLACK: u64;

    /// Starts on a disk.
    ///
    /// # Errors
    /// See [`StartFailure`].
    fn start(disk: &Self::Disk, setup: &Setup) -> Result<Self, StartFailure>;

    /// Takes what happened.
    fn handle(&mut self, now: Millis, incoming: Incoming<Self::Done>);

    /// The next message to be sent.
    fn poll_send(&mut self) -> Option<Parcel>;

    /// The next job.
    fn poll_job(&mut self) -> Option<Self::Job>;

    /// Does a job. Its effect on the disk is there at once, the process hears of it later.
    fn run_job(&self, job: Self::Job) -> Self::Done;

    /// Whether a job makes the log durable.
    fn is_flush(job: &Self::Job) -> bool;

    /// Whether a job stores term and vote.
    fn is_vote(job: &Self::Job) -> bool;

    /// What may be done behind, after a job; a failure is told to the process.
    fn write_behind(&mut self, now: Millis);

    /// What came of submissions and questions since the last call.
    fn take_answers(&mut self) -> Vec<Answer>;

    /// When it wants to be woken.
    fn timeout(&self) -> Option<Millis>;

    /// What it says of itself.
    fn standing(&self) -> Standing;

    /// Why it has stopped for good.
    fn failure(&self) -> Option<String>;

    /// Why it says that it may lack what it vouched for, if so.
    fn doubt(&self) -> Option<Provisional>;

    /// Its log begins behind the first entry that there ever was.
    fn lacks_head(&self) -> bool;

    /// Whether such a reason is that the group's rules were broken, and not the disk.
    fn is_violation(reason: &str) -> bool;

    /// Most bytes of entries in one push.
    fn push_bound(plan: &Plan) -> u64;

    /// Where the queues end whose messages lie in the log, in a fixed order.
    fn queue_ends(&self) -> Vec<u64>;

    /// All that waits in it, each with its bound.
    fn loads(&self) -> Vec<Load>;

    /// The last entry that it holds for committed. `log` is its log.
    fn committed(&self, log: &Log) -> Option<u64>;

    /// How its log, as it lies on the disk, differs from `log`.
    fn changes(&mut self, log: &Log) -> Vec<Change>;

    /// Reads a committed entry as a reader would; what stands for its bytes.
    fn read(&self, entry: &Entry) -> Option<u64>;

    /// Deletes the head of the log so that about half of what is committed is left.
    fn trim(&mut self, now: Millis);

    /// The tables that follow from its log; `None` where it has none.
    fn shown(&self) -> Option<Shown> {
        None
    }

    /// Ends in order.
    fn close(&mut self);
}

/// What is left of a machine when its process is gone.
pub trait Disk: Sized + fmt::Debug {
    /// An empty disk.
    fn new(plan: &Plan) -> Self;

    /// After a kill: nothing is lost.
    fn after_kill(&self) -> Self;

    /// After a power cut: any part of what was not synced is lost.
    fn after_power_cut(&self, random: &mut Random) -> Self;

    /// An empty disk in its place.
    fn wiped(&self) -> Self;

    /// An older copy of the log in its place, in a machine that boots once more; `None` where the
    /// member could not know it: nothing beside the log tells of what is missing.
    fn rolled_back(&self, copy: &Self) -> Option<Self>;

    /// Arranges a failing disk; false where there is nothing of the kind.
    fn inject(&self, fault: Fault, random: &mut Random) -> bool;

    /// Ends what [`Disk::inject`] arranged.
    fn heal(&self);

    /// How many calls have failed.
    fn failures(&self) -> u64;

    /// Whether power went in the midst of a call.
    fn is_dark(&self) -> bool;

    /// Flips a bit of one of the committed `entries`; which one was hit.
    fn rot(&self, entries: &[Entry], random: &mut Random) -> Option<u64>;

    /// Deletes what can be derived: index files, checkpoint.
    fn lose_index(&self, random: &mut Random) -> bool;

    /// Term and vote that a power cut would leave.
    fn stored_vote(&self) -> (u64, Option<usize>);

    /// The last entry of `log` up to which, beginning behind `from`, a power cut would leave all
    /// bytes.
    fn durable(&self, log: &Log, from: Option<u64>) -> Option<u64>;

    /// Whether the bytes of an entry are still what they were.
    fn is_sound(&self, entry: &Entry) -> bool;
}
