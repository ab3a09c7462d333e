//! What members say to each other. Java's forms are those of `DLedgerRpcNettyService`; absence,
//! which Java writes as -1, is `None` here and turned at the wire.

use crate::{
    codes::{HeartbeatCode, PushCode, TransferCode, VoteAnswer},
    types::{EntryId, Life, LogIndex, NodeId, Term},
};

/// A request or an answer. The leader of a heartbeat or a push, and the candidate of a vote, is who
/// sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// `VOTE` (51001), or our own request code where it is a pre-vote.
    Vote(VoteRequest),
    /// The answer to it.
    VoteReply(VoteReply),
    /// `HEART_BEAT` (51002).
    Heartbeat(Heartbeat),
    /// The answer to it.
    HeartbeatReply(HeartbeatReply),
    /// `PUSH` (51004), or our own request code where entries go as raw bytes.
    Push(Push),
    /// The answer to it.
    PushReply(PushReply),
    /// `LEADERSHIP_TRANSFER` (51005) from the leader to who is to lead.
    Transfer(TransferRequest),
    /// The answer to it.
    TransferReply(TransferReply),
    /// An own request: entries of which the asking member's own copies are rotten. The engines of
    /// both sides deal with it; a node passes over it.
    Fetch(Fetch),
    /// The answer to it; the entries go along.
    FetchReply(FetchReply),
}

impl Message {
    /// Whether this asks for an answer, so that it came with a call to be answered.
    #[must_use]
    pub fn is_request(&self) -> bool {
        match self {
            Self::Vote(_)
            | Self::Heartbeat(_)
            | Self::Push(_)
            | Self::Transfer(_)
            | Self::Fetch(_) => true,
            Self::VoteReply(_)
            | Self::HeartbeatReply(_)
            | Self::PushReply(_)
            | Self::TransferReply(_)
            | Self::FetchReply(_) => false,
        }
    }
}

/// A member asks another one for entries that rotted on its own disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetch {
    /// The first of them.
    pub first: LogIndex,
    /// The last of them.
    pub last: LogIndex,
}

/// The answer to a [`Fetch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchReply {
    /// Of the request: its first entry.
    pub first: LogIndex,
    /// How many go along, from `first` on; 0 where this member does not have them, or its copies
    /// cannot be read. May be fewer than were asked for.
    pub count: u64,
    /// Why it has none of them, where that will not change by itself.
    pub lost: Option<Lost>,
}

/// Why a member that is asked for entries has none to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// Its log begins behind the first of them: with this entry.
    Trimmed(LogIndex),
    /// Its own copies have rotted as well.
    Rotten,
}

/// A candidate asks for a vote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoteRequest {
    /// The term it wants to lead.
    pub term: Term,
    /// Its last entry; `None` where its log is empty.
    pub last: Option<EntryId>,
    /// It only asks how a vote would be answered; nobody's term or vote changes by it. Never sent
    /// to a Java member.
    pub pre_vote: bool,
    /// The leader itself asked it to take over. Java does not carry this.
    pub transfer: bool,
}

/// The answer to a [`VoteRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoteReply {
    /// The term of the member that answers.
    pub term: Term,
    /// Its answer.
    pub answer: VoteAnswer,
    /// Of the request: its term.
    pub request_term: Term,
    /// Of the request: whether it was a pre-vote.
    pub pre_vote: bool,
    /// The member that answers may lack what it once acknowledged. Java does not carry this.
    pub provisional: bool,
}

/// A leader says that it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    /// Its term.
    pub term: Term,
    /// Numbers the leader's rounds. Not on the wire: the transport keeps the request and puts the
    /// number into the answer.
    pub round: u64,
}

/// The answer to a [`Heartbeat`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeartbeatReply {
    /// The term of the member that answers, where it tells (Java: mostly -1).
    pub term: Option<Term>,
    /// Its answer.
    pub code: HeartbeatCode,
    /// Of the request: its term.
    pub request_term: Term,
    /// Of the request: its round.
    pub round: u64,
    /// Its disk takes appends, so that it may be given the lead. Java does not carry this: true.
    pub healthy: bool,
    /// Its disk has room for what clients append. Java does not carry this: true.
    pub roomy: bool,
}

/// A leader brings a follower's log in step with its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Push {
    /// Its term.
    pub term: Term,
    /// How far its log is committed.
    pub commit: Option<LogIndex>,
    /// To the follower's life that is named: it holds all that was committed when it came back, so
    /// it is provisional no more. Java does not carry this.
    pub whole: Option<Life>,
    /// The follower's life as the leader knew it when it sent this. It stays with the sender, whose
    /// transport puts it into the answer.
    pub known: Option<Life>,
    /// What is to be done.
    pub kind: PushKind,
}

/// The four kinds of a push (Java: `PushEntryRequest.Type`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PushKind {
    /// Does the follower hold this entry?
    Compare {
        /// Which one.
        id: EntryId,
        /// Where the entry itself came along (Java's form has it): whether the follower's bytes at
        /// that index are equal, told by the follower's engine. The sender leaves it `None`.
        same: Option<bool>,
    },
    /// The follower's log shall end with this entry. Who does not hold it, and has nothing committed
    /// at or behind it, starts its log anew at it.
    Truncate {
        /// Which one.
        id: EntryId,
        /// Its position in the log. The sender's engine fills it in.
        position: u64,
        /// As in `Compare`.
        same: Option<bool>,
        /// The term of the leader's entry behind it: only a follower's entry of another term is cut,
        /// so that a request that comes late cuts nothing. Java does not carry this.
        next_term: Option<Term>,
    },
    /// Entries to be appended.
    Append(Range),
    /// Nothing but the commit index.
    Commit,
}

impl PushKind {
    /// Which of the four.
    #[must_use]
    pub fn name(&self) -> PushName {
        match self {
            Self::Compare { .. } => PushName::Compare,
            Self::Truncate { .. } => PushName::Truncate,
            Self::Append(_) => PushName::Append,
            Self::Commit => PushName::Commit,
        }
    }
}

/// The kind of a push without what it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PushName {
    /// `COMPARE`.
    Compare,
    /// `TRUNCATE`.
    Truncate,
    /// `APPEND`.
    Append,
    /// `COMMIT`.
    Commit,
}

impl PushName {
    /// Java's name of it.
    #[must_use]
    pub fn java_name(self) -> &'static str {
        match self {
            Self::Compare => "COMPARE",
            Self::Truncate => "TRUNCATE",
            Self::Append => "APPEND",
            Self::Commit => "COMMIT",
        }
    }
}

/// Entries that lie one behind another in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The sender's entry before the first. `None` where there is none, and from Java, which does
    /// not tell.
    pub before: Option<EntryId>,
    /// Index of the first.
    pub first: LogIndex,
    /// How many. Never 0.
    pub count: u64,
    /// Where terms begin in it, ascending; the first is that of the first entry.
    pub terms: Vec<(Term, LogIndex)>,
    /// Their length in the log, in bytes.
    pub bytes: u64,
}

impl Range {
    /// Index of the last.
    #[must_use]
    pub fn last_index(&self) -> LogIndex {
        LogIndex(self.first.0.saturating_add(self.count.saturating_sub(1)))
    }

    /// The last entry; `None` where no term is told.
    #[must_use]
    pub fn last(&self) -> Option<EntryId> {
        self.terms.last().map(|(term, _)| EntryId { term: *term, index: self.last_index() })
    }
}

/// The answer to a [`Push`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushReply {
    /// The term of the member that answers. Java gives the request's.
    pub term: Term,
    /// Its answer.
    pub code: PushCode,
    /// Of the request: its kind.
    pub kind: PushName,
    /// Of the request: its term.
    pub request_term: Term,
    /// Of the request: its first entry, or the one that is compared or cut behind. `None` for COMMIT.
    pub first: Option<LogIndex>,
    /// Of the request: how many entries; 0 but for APPEND and what Java sends with TRUNCATE.
    pub count: u64,
    /// Of the request: the life that its sender knew.
    pub known: Option<Life>,
    /// The first entry of the log of the member that answers. An empty log that begins behind index 0
    /// has a `begin` and no `end`.
    pub begin: Option<LogIndex>,
    /// The last one.
    pub end: Option<LogIndex>,
    /// Up to where that log is written and known to be the leader's. From Java: the last entry that
    /// an answer 200 acknowledges.
    pub written: Option<LogIndex>,
    /// Up to where that is durable, too. From Java: `None`.
    pub flushed: Option<LogIndex>,
    /// The life of the member that answers.
    pub life: Life,
    /// It may lack what it once acknowledged.
    pub provisional: bool,
}

/// A leader asks a follower to take over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferRequest {
    /// The leader's term.
    pub term: Term,
    /// Who is to lead: the member that this is sent to.
    pub transferee: NodeId,
    /// It starts once its log reaches so far (`takeLeadershipLedgerIndex`).
    pub index: Option<LogIndex>,
}

/// The answer to a [`TransferRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferReply {
    /// The term of the member that answers.
    pub term: Term,
    /// Of the request: its term.
    pub request_term: Term,
    /// What came of it.
    pub code: TransferCode,
}
