//! What goes into a node and what comes out: the complete vocabulary.

use crate::{
    election::{VoteReply, VoteRequest},
    types::{EntryId, LogIndex, NodeId, Role, Term, Vote},
};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Time has passed; nothing else happened.
    Tick,
    /// Bodies wait to be appended.
    Propose {
        /// How many. Never 0.
        count: u64,
        /// Their length together, in bytes.
        bytes: u64,
    },
    /// A member said something.
    Received {
        /// Who.
        from: NodeId,
        /// What.
        message: Message,
    },
    /// Every entry up to and with `upto` is in the log file, perhaps only in the page cache.
    Written {
        /// The last of them.
        upto: EntryId,
    },
    /// The append that began at `from` was not written and left nothing behind.
    NotWritten {
        /// Its first entry.
        from: LogIndex,
    },
    /// Every entry up to and with `upto` is durable.
    Flushed {
        /// The last of them.
        upto: EntryId,
    },
    /// The term and vote of an [`Output::StoreVote`] are durable.
    VoteStored {
        /// Its term.
        term: Term,
    },
}

/// What members say to each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// `VOTE`.
    Vote(VoteRequest),
    /// The answer to `VOTE`.
    VoteReply(VoteReply),
}

/// Something to be done, in the order in which it was polled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Send a message. Nothing needs to be durable first: a message that depends on a completion is
    /// only put out after it.
    Send {
        /// To whom.
        to: NodeId,
        /// What.
        message: Message,
    },
    /// Make term and vote durable, then answer [`Input::VoteStored`]. A failure is fatal.
    StoreVote {
        /// The term.
        term: Term,
        /// The vote in it.
        vote: Vote,
    },
    /// Write the oldest proposal that has no answer yet (or, where `opening` is set, the entry that
    /// opens the term), then answer [`Input::Written`] or [`Input::NotWritten`].
    Append(Append),
    /// The oldest proposal that has no answer yet is not taken.
    Refused {
        /// Why.
        cause: Refusal,
    },
    /// Remove the entry at `index` and all behind it, durably. Never below what is committed.
    TruncateFrom {
        /// The first to go.
        index: LogIndex,
    },
    /// Read entries for a member that lacks them.
    ReadRange {
        /// Who wants them.
        peer: NodeId,
        /// The first of them.
        from: LogIndex,
        /// Stop once this many bytes are read.
        max_bytes: u64,
    },
    /// Every entry up to and with `upto` is committed.
    Committed {
        /// The last of them.
        upto: LogIndex,
    },
    /// The role, the term or the known leader is another one.
    RoleChanged {
        /// The role now.
        role: Role,
        /// The term now.
        term: Term,
        /// Who leads, where that is known.
        leader: Option<NodeId>,
    },
}

/// Entries to be written one behind another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Append {
    /// Index of the first.
    pub first: LogIndex,
    /// How many.
    pub count: u64,
    /// The term of all of them.
    pub term: Term,
    /// Whether this is the entry by which a new leader opens its term.
    pub opening: bool,
}

/// Why a proposal is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// This node does not lead.
    NotLeader {
        /// The term it is in.
        term: Term,
        /// Who leads, where that is known.
        leader: Option<NodeId>,
    },
}
