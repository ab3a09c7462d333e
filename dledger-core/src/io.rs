//! What goes into a node and what comes out: the complete vocabulary.

use crate::{
    codes::TransferCode,
    message::Message,
    record::{Record, Violation},
    types::{CallId, EntryId, LogIndex, NodeId, PeerKind, Role, Term, Vote},
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
    ///
    /// Of a push with entries the engine has verified the bytes (sizes, indexes, terms, positions,
    /// checksums; what is bad never comes here) and keeps them under `call` until it is told
    /// [`Output::Accept`] or [`Output::Forget`], one of which follows each push of `Append` and
    /// `Truncate`. A request may stay without an answer: the transport forgets the call after its
    /// time-out.
    Received {
        /// Who.
        from: NodeId,
        /// Of a request: what its answer is to name. Of an answer: not looked at.
        call: CallId,
        /// What.
        message: Message,
    },
    /// Every entry up to and with `upto` is in the log file, perhaps only in the page cache.
    Written {
        /// The last of them.
        upto: EntryId,
    },
    /// The append that began at `from` was not written and left nothing behind. Of several
    /// [`Output::Accept`] all behind the first that failed are to be answered so, too.
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
    /// An [`Output::TruncateFrom`] or [`Output::Restart`] is done, durably.
    Truncated {
        /// The last entry that is left.
        last: Option<EntryId>,
    },
    /// Retention removed entries: the log begins with `first` now. Only what is committed is removed,
    /// and one committed entry at least is left.
    Trimmed {
        /// The first entry that is left.
        first: LogIndex,
    },
    /// The engine keeps the entries of an [`Output::ReadRange`]; the next [`Output::Send`] of an
    /// `Append` to `peer` takes them, if there is one before the next `RangeRead`.
    RangeRead {
        /// For whom.
        peer: NodeId,
        /// The first, as it was asked for.
        first: LogIndex,
        /// How many.
        count: u64,
        /// Their length in the log, in bytes.
        bytes: u64,
    },
    /// The entries of an [`Output::ReadRange`] cannot be had: retention removed them, or they are
    /// damaged.
    RangeLost {
        /// For whom.
        peer: NodeId,
        /// The first, as it was asked for.
        from: LogIndex,
    },
    /// What a member is, or that the connection to it was closed.
    Peer {
        /// Which one.
        id: NodeId,
        /// What it is.
        kind: PeerKind,
    },
    /// An operator wants another member to lead; answered by [`Output::TransferDone`].
    Transfer {
        /// What the answer is to name.
        call: CallId,
        /// Who; `None` leaves the choice to this node.
        to: Option<NodeId>,
    },
    /// Whether this node's disk takes appends. A node starts as healthy.
    Disk {
        /// It does.
        healthy: bool,
    },
    /// Whether this node's disk has room for what clients append. A node starts as if it had. One
    /// that has none can lead, and hands the lead to a member that has.
    Room {
        /// It has.
        enough: bool,
    },
    /// How far must a reader read to see all that was committed before it asked? Answered by
    /// [`Output::ReadIndex`] once a majority has confirmed that this node still leads.
    ReadIndex {
        /// What the answer is to name.
        call: CallId,
    },
}

/// Something to be done, in the order in which it was polled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Send a message. Nothing needs to be durable first: a message that depends on a completion is
    /// only put out after it.
    ///
    /// To a push of `Append` the engine attaches the entries that it keeps for the peer; to a
    /// `Truncate`, and to a `Compare` where the peer is Java, its own entry of that index. Where it
    /// cannot read that one it drops the message, which is sent again later.
    Send {
        /// To whom.
        to: NodeId,
        /// The request that this answers; `None` for a request.
        call: Option<CallId>,
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
    /// Write `count` of the entries that are kept under `call`, beginning with `first` (those before
    /// it are in the log already), then forget them and answer [`Input::Written`] or
    /// [`Input::NotWritten`].
    Accept {
        /// Who sent them.
        from: NodeId,
        /// What they are kept under.
        call: CallId,
        /// The first to be written. It follows the last entry of the log.
        first: LogIndex,
        /// How many.
        count: u64,
    },
    /// Forget the entries that are kept under `call`.
    Forget {
        /// Who sent them.
        from: NodeId,
        /// What they are kept under.
        call: CallId,
    },
    /// Remove the entry at `index` and all behind it, durably, then answer [`Input::Truncated`].
    /// Never below what is committed.
    TruncateFrom {
        /// The first to go.
        index: LogIndex,
    },
    /// Remove the whole log, durably, and let it begin with the entry `at`, which is yet to be
    /// accepted; then answer [`Input::Truncated`] with no entry. The leader has nothing before it.
    /// The node is provisional from then on ([`crate::Provisional::RolledBack`]), also after a
    /// restart, until [`Output::Whole`].
    Restart {
        /// The first entry to come.
        at: EntryId,
        /// Its position.
        position: u64,
    },
    /// Read entries for a member that lacks them, then answer [`Input::RangeRead`] with at least one
    /// entry, or [`Input::RangeLost`]. One for each member at a time.
    ReadRange {
        /// Who wants them.
        peer: NodeId,
        /// The first of them.
        from: LogIndex,
        /// Stop before more bytes than this, but not before the first entry.
        max_bytes: u64,
        /// The last that may be read.
        last: LogIndex,
    },
    /// Every entry up to and with `upto` is committed, and written here.
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
    /// What came of an [`Input::Transfer`].
    TransferDone {
        /// Of the input.
        call: CallId,
        /// What came of it.
        code: TransferCode,
    },
    /// The answer to an [`Input::ReadIndex`].
    ReadIndex {
        /// Of the input.
        call: CallId,
        /// What is to be applied before reading; `None` where nothing is committed.
        answer: Result<Option<LogIndex>, Refusal>,
    },
    /// This node holds all that was committed when it came back: the mark by which the next start
    /// would be provisional can be removed.
    Whole,
    /// For the flight recorder.
    Recorded(Record),
    /// What must never be has happened: the node stops. Nothing comes out after this.
    Stop {
        /// What it is.
        violation: Violation,
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

/// Why a proposal or a question is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// This node does not lead.
    NotLeader {
        /// The term it is in.
        term: Term,
        /// Who leads, where that is known.
        leader: Option<NodeId>,
    },
    /// Another member is about to lead (Java: 506). Nothing of it was appended: it may be kept and
    /// proposed again, or forwarded once a new leader is known.
    Transferring {
        /// Who.
        to: NodeId,
    },
    /// Too much waits for a majority (Java: 503).
    PendingFull {
        /// Entries that are appended and not committed.
        entries: u64,
        /// Their bytes.
        bytes: u64,
    },
}
