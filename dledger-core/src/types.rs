//! The words of the protocol, each a type of its own.

use std::fmt;

/// A term of leadership. Term 0 is that of a node that never took part in an election; no entry is
/// written in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Term(pub u64);

impl Term {
    /// The term after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
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
        Self(self.0 + count)
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

/// Milliseconds on the driver's monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub u64);

/// A member's id (`dLegerSelfId`), such as `n0`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub String);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

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
