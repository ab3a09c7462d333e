//! One member of a group.

use std::collections::{BTreeSet, VecDeque};

use crate::{
    election::{ParseResult, Round, VoteAnswer, VoteReply},
    io::{Append, Input, Message, Output, Refusal},
    marks::Marks,
    types::{EntryId, LogIndex, Millis, NodeId, Policy, Role, Term, Vote},
};

/// What does not change while a node runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// This node.
    pub self_id: NodeId,
    /// All members, this node among them.
    pub members: BTreeSet<NodeId>,
    /// When an entry counts as kept.
    pub policy: Policy,
    /// Where the random part of timings comes from; a group of one draws none.
    pub seed: u64,
}

/// Why a node cannot be built from its configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It would be no member of its own group.
    #[error("self id {self_id} is not among the members {members}: add it to dLegerPeers")]
    NotAMember {
        /// This node.
        self_id: NodeId,
        /// The members.
        members: String,
    },
    /// This version runs groups of one.
    #[error("the group has {count} members: this version runs a group of one, name one peer")]
    SeveralMembers {
        /// How many.
        count: usize,
    },
}

/// What a node knows when it starts, from its disk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct State {
    /// The highest term it took part in.
    pub term: Term,
    /// Its vote in that term.
    pub vote: Vote,
    /// The last entry of its log.
    pub last: Option<EntryId>,
    /// An entry known to be committed.
    pub committed: Option<LogIndex>,
}

/// One member of a group. See the crate's documentation for how it is driven.
#[derive(Debug)]
pub struct Node {
    config: Config,
    term: Term,
    vote: Vote,
    role: Role,
    leader: Option<NodeId>,
    round: Round,
    marks: Marks,
    opening: Option<Opening>,
    outputs: VecDeque<Output>,
}

/// The entry by which this leader opened its term: nothing before it is committed on its own.
#[derive(Debug, Clone, Copy)]
struct Opening {
    first: LogIndex,
    /// The last entry before it.
    before: Option<EntryId>,
}

impl Node {
    /// A node as it starts: a candidate, whatever it was before.
    ///
    /// A term below that of the last entry (its record was lost) is raised to it, with the vote
    /// unknown.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn new(config: Config, state: State) -> Result<Self, ConfigError> {
        if !config.members.contains(&config.self_id) {
            let members: Vec<&str> = config.members.iter().map(|id| id.0.as_str()).collect();
            let members = members.join(", ");
            return Err(ConfigError::NotAMember { self_id: config.self_id, members });
        }
        if config.members.len() > 1 {
            return Err(ConfigError::SeveralMembers { count: config.members.len() });
        }
        let log_term = state.last.map_or(Term(0), |last| last.term);
        let (term, vote) = if state.term < log_term {
            (log_term, Vote::Unknown)
        } else {
            (state.term, state.vote)
        };
        // Java votes again in the term in which it voted before it stopped, and may so lead twice
        // in one term with two different tails. A term that this node may have led is not used
        // again: the first round is in the next one.
        let first =
            if term == Term(0) { ParseResult::WaitToRevote } else { ParseResult::WaitToVoteNext };
        Ok(Self {
            config,
            term,
            vote,
            role: Role::Candidate,
            leader: None,
            round: Round::initial(first),
            marks: Marks::recovered(state.last, state.committed),
            opening: None,
            outputs: VecDeque::new(),
        })
    }

    /// Takes what happened at `now`. What follows from it is then to be polled.
    pub fn handle(&mut self, now: Millis, input: Input) {
        match input {
            Input::Tick => self.tick(now),
            Input::Propose { count, bytes: _ } => self.propose(count),
            Input::Received { from, message } => self.receive(from, message),
            Input::Written { upto } => {
                self.marks.note_written(upto);
                self.advance_commit();
            }
            Input::Flushed { upto } => {
                self.marks.note_flushed(upto);
                self.advance_commit();
            }
            Input::NotWritten { from } => self.withdraw(now, from),
            Input::VoteStored { term } => self.vote_stored(now, term),
        }
    }

    /// What is to be done next, in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Input::Tick`] is due, if nothing happens before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Millis> {
        (self.role == Role::Candidate && self.round.running.is_none())
            .then_some(self.round.next_time)
    }

    /// The role now.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// The term now.
    #[must_use]
    pub fn term(&self) -> Term {
        self.term
    }

    /// The last entry known to be committed.
    #[must_use]
    pub fn committed(&self) -> Option<LogIndex> {
        self.marks.committed
    }

    /// Java: `DLedgerLeaderElector.maintainAsCandidate`.
    fn tick(&mut self, now: Millis) {
        if self.role != Role::Candidate || self.round.running.is_some() {
            return;
        }
        if now < self.round.next_time {
            return;
        }
        if self.round.last_result == ParseResult::WaitToVoteNext {
            self.term = self.term.next();
            self.vote = Vote::None;
            self.round.last_result = ParseResult::WaitToRevote;
        }
        if self.term == Term(0) {
            // Java holds its first round in term 0 and then raises the term; no entry is of term 0.
            self.round.end(ParseResult::WaitToVoteNext, now);
            return;
        }
        self.round.begin(self.term);
        self.vote = Vote::For(self.config.self_id.clone());
        self.outputs.push_back(Output::StoreVote { term: self.term, vote: self.vote.clone() });
    }

    fn vote_stored(&mut self, now: Millis, term: Term) {
        if self.round.running != Some(term) {
            return;
        }
        if self.vote == Vote::For(self.config.self_id.clone()) {
            self.round.accepted.insert(self.config.self_id.clone());
        }
        if self.is_quorum(self.round.accepted.len()) {
            self.round.end(ParseResult::Passed, now);
            self.lead();
        }
    }

    fn lead(&mut self) {
        self.role = Role::Leader;
        self.leader = Some(self.config.self_id.clone());
        self.announce();
        let before = self.marks.last;
        let first = self.append(1, true);
        self.opening = Some(Opening { first, before });
    }

    fn propose(&mut self, count: u64) {
        if self.role == Role::Leader {
            self.append(count, false);
        } else {
            let cause = Refusal::NotLeader { term: self.term, leader: self.leader.clone() };
            self.outputs.push_back(Output::Refused { cause });
        }
    }

    fn append(&mut self, count: u64, opening: bool) -> LogIndex {
        let first = self.marks.next_index();
        let index = LogIndex(first.0 + count.saturating_sub(1));
        self.marks.last = Some(EntryId { term: self.term, index });
        self.outputs.push_back(Output::Append(Append { first, count, term: self.term, opening }));
        first
    }

    /// An append failed cleanly: its indexes are free again. Nothing of it was counted, as
    /// [`Input::Written`] never came. Only an append of the present term can be withdrawn, and its
    /// opening entry is in front of it.
    fn withdraw(&mut self, now: Millis, from: LogIndex) {
        let Some(opening) = self.opening else { return };
        if from == opening.first {
            // Without its opening entry a leader commits nothing: it gives up the term.
            self.marks.last = opening.before;
            self.step_down(Millis(now.0 + RETRY_MILLIS));
        } else if from > opening.first && from < self.marks.next_index() {
            let index = LogIndex(from.0.saturating_sub(1));
            self.marks.last = Some(EntryId { term: self.term, index });
        }
    }

    fn step_down(&mut self, next_time: Millis) {
        self.role = Role::Candidate;
        self.leader = None;
        self.opening = None;
        self.round.end(ParseResult::WaitToVoteNext, next_time);
        self.announce();
    }

    /// An entry is committed once a majority keeps it and it is of the leader's own term; with it
    /// goes everything before it. (Java counts entries of older terms, too, and can so lose one that
    /// it acknowledged: `DLedgerEntryPusher.QuorumAckChecker`.)
    fn advance_commit(&mut self) {
        let (Some(opening), Some(kept)) = (self.opening, self.marks.kept(self.config.policy))
        else {
            return;
        };
        if kept >= opening.first && self.is_quorum(1) && self.marks.committed < Some(kept) {
            self.marks.committed = Some(kept);
            self.outputs.push_back(Output::Committed { upto: kept });
        }
    }

    /// The first rows of Java's vote table (`handleVote`); they decide for every request that can
    /// reach a group of one.
    fn receive(&mut self, from: NodeId, message: Message) {
        let answer = match message {
            Message::Vote(_) if from == self.config.self_id => VoteAnswer::RejectUnexpectedLeader,
            Message::Vote(_) => VoteAnswer::RejectUnknownLeader,
            // This node asked nobody.
            Message::VoteReply(_) => return,
        };
        let message = Message::VoteReply(VoteReply { term: self.term, answer });
        self.outputs.push_back(Output::Send { to: from, message });
    }

    fn is_quorum(&self, count: usize) -> bool {
        count > self.config.members.len() / 2
    }

    fn announce(&mut self) {
        self.outputs.push_back(Output::RoleChanged {
            role: self.role,
            term: self.term,
            leader: self.leader.clone(),
        });
    }
}

/// How long a leader that could not write waits before it tries to lead again.
const RETRY_MILLIS: u64 = 1000;

#[cfg(test)]
mod tests;
