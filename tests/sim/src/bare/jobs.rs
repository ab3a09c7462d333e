//! What the disk of a bare core is asked for.

use dledger_core::{EntryId, Term, Vote};

/// Work of the disk.
#[derive(Debug, Clone)]
pub enum Job {
    /// Makes the log durable.
    Flush(EntryId),
    /// Stores term and vote.
    StoreVote(Term, Vote),
    /// Cuts the log.
    Truncate(u64),
    /// Removes the log; the next entry has this index.
    Restart(u64),
}

/// What came of it.
#[derive(Debug, Clone)]
pub enum Done {
    /// The log is durable up to there.
    Flushed(EntryId),
    /// Term and vote are stored.
    VoteStored(Term),
    /// The log was cut or removed; its last entry.
    Truncated(Option<EntryId>),
}
