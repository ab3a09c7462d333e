//! Votes (Java: `DLedgerLeaderElector`).

use std::collections::BTreeSet;

use crate::types::{EntryId, Millis, NodeId, Term};

/// What the last round of votes came to (Java: `VoteResponse.ParseResult`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseResult {
    /// Ask again in the same term.
    WaitToRevote,
    /// Raise the term before the next round.
    WaitToVoteNext,
    /// This node leads.
    Passed,
}

/// A candidate asks for a vote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoteRequest {
    /// The term it wants to lead.
    pub term: Term,
    /// Its last entry; `None` where its log is empty.
    pub last: Option<EntryId>,
}

/// The answer to a [`VoteRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoteReply {
    /// The term of the member that answers.
    pub term: Term,
    /// Its answer.
    pub answer: VoteAnswer,
}

/// How a vote was answered (Java: `VoteResponse.RESULT`; the names on the wire are Java's).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VoteAnswer {
    /// `REJECT_UNKNOWN_LEADER`: the candidate is no member of the group.
    RejectUnknownLeader,
    /// `REJECT_UNEXPECTED_LEADER`: the candidate bears the id of the member that it asks.
    RejectUnexpectedLeader,
}

/// The present round of a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Round {
    /// What the round before came to.
    pub(crate) last_result: ParseResult,
    /// When the next round may begin.
    pub(crate) next_time: Millis,
    /// The term of the round that is running.
    pub(crate) running: Option<Term>,
    /// Who has granted its vote in it, durably.
    pub(crate) accepted: BTreeSet<NodeId>,
}

impl Round {
    /// The state at start: the first round may begin at once.
    pub(crate) fn initial(last_result: ParseResult) -> Self {
        Self { last_result, next_time: Millis(0), running: None, accepted: BTreeSet::new() }
    }

    pub(crate) fn begin(&mut self, term: Term) {
        self.running = Some(term);
        self.accepted.clear();
    }

    pub(crate) fn end(&mut self, result: ParseResult, next_time: Millis) {
        self.running = None;
        self.last_result = result;
        self.next_time = next_time;
    }
}
