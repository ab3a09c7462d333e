//! The words of the protocol, each a type of its own.

use std::fmt;

/// A term of leadership. Term 0 is that of a node that never took part in an election; only the
/// first leader of a new Java group writes entries in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Term(pub u64);

impl Term {
    /// The term after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of an entry in the log, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LogIndex(pub u64);

impl LogIndex {
    /// The index `count` entries further on.
    #[must_use]
    pub fn plus(self, count: u64) -> Self {
        Self(self.0.saturating_add(count))
    }

    /// The index before this one; `None` before the first.
    #[must_use]
    pub fn before(self) -> Option<Self> {
        self.0.checked_sub(1).map(Self)
    }
}

impl fmt::Display for LogIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which entry: no two entries of one group share both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId {
    /// The term that wrote it. First, so that the derived order is that of the election rule.
    pub term: Term,
    /// Its number.
    pub index: LogIndex,
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.term, self.index)
    }
}

/// Milliseconds on the driver's monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub u64);

impl Millis {
    /// The time `wait` milliseconds later.
    #[must_use]
    pub fn after(self, wait: u64) -> Self {
        Self(self.0.saturating_add(wait))
    }

    /// Milliseconds since `earlier`; 0 where that is not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A member's id (`dLegerSelfId`), such as `n0`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub String);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The request that an answer belongs to, as this node's transport numbers what comes in. No two
/// requests of one life of a node share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CallId(pub u64);

/// One run of a node, from start to stop ([`crate::Config::life`]). An answer of an earlier life
/// speaks for a log that may be gone. 0 is that of a Java member, which does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Life(pub u64);

/// The role of a node (Java: `MemberState.Role`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Takes appends.
    Leader,
    /// Takes entries from a leader.
    Follower,
    /// Looks for votes. Every node starts as one.
    Candidate,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Leader => "LEADER",
            Self::Follower => "FOLLOWER",
            Self::Candidate => "CANDIDATE",
        })
    }
}

/// When an entry counts as kept by a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Once it is in the page cache (`ASYNC_FLUSH`).
    Written,
    /// Once it is fsynced (`SYNC_FLUSH`).
    Flushed,
}

/// For whom a node voted in its current term.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Vote {
    /// For nobody yet.
    #[default]
    None,
    /// For this candidate.
    For(NodeId),
    /// Its record is damaged: it votes for nobody until a higher term.
    Unknown,
}

/// Why a node may lack entries that it once acknowledged. Its vote and its acknowledgements count
/// only as `docs/dledger.md` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Provisional {
    /// Its log is empty: a new node, or one whose directory was wiped.
    Empty,
    /// Its log ends before what it had vouched for.
    RolledBack,
    /// The machine went down with writes that were never flushed (`ASYNC_FLUSH`).
    UncleanBoot,
    /// Its end was torn in a log that acknowledges before it syncs (`ASYNC_FLUSH`).
    TornTail,
    /// A flush had failed in an earlier life.
    FailedFlush,
}

impl fmt::Display for Provisional {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "its log is empty",
            Self::RolledBack => "its log ends before what it had acknowledged",
            Self::UncleanBoot => "the machine went down with unflushed entries",
            Self::TornTail => {
                "the end of the log was torn, and acknowledgements do not wait for the disk"
            }
            Self::FailedFlush => "a flush of its log failed before",
        })
    }
}

/// What a member says of itself in votes and heartbeats, as far as consensus needs it. The
/// transport keeps the rest (version, size of data files, cluster id) and refuses what does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability {
    /// When an entry counts as kept, should that member lead.
    pub policy: Policy,
    /// The timings that hold while it leads.
    pub timings: crate::Timings,
}

/// What is known of a member. What was known last is told again at start from the data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerKind {
    /// It runs LedgerMQ and said so on the connection that is open.
    Own(Capability),
    /// It runs Java's DLedger: it answered without a capability.
    Java,
    /// Nothing is known: it counts as LedgerMQ with this node's own capability.
    Unknown,
    /// The connection to it was closed. What it is stays known; what is in flight to it is lost.
    Gone,
}
