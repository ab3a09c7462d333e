//! A member of Java's DLedger (0.3.1.2), as far as it shows to others: the vote table in Java's order,
//! heartbeats, and pushes. It takes and gives what the core takes and gives, so that all around it is
//! the same.
//!
//! Left out, as each is a fault of Java's own by which a group can lose what it acknowledged: that
//! entries of older terms are committed by counting (here they are once all members have them), that
//! votes are told before they are durable, and power cuts, as nothing waits for a flush.

mod elector;
mod follower;
mod pusher;

use std::collections::{BTreeMap, VecDeque};

use dledger_core::{
    Append, CallId, EntryId, Input, LogIndex, Message, Millis, NodeId, Output, Refusal, Role,
    State, Term, TransferCode, TransferReply, Vote,
};

use self::{elector::Elector, follower::Cut, pusher::Pusher};
use crate::random::Random;

/// A member of Java's.
#[derive(Debug)]
pub(super) struct JavaNode {
    id: NodeId,
    others: Vec<NodeId>,
    random: Random,
    now: u64,
    elector: Elector,
    log: Terms,
    committed: Option<u64>,
    /// While it leads.
    pushers: Vec<Pusher>,
    /// Pushes that came before those in front of them.
    early: BTreeMap<u64, follower::Early>,
    cut: Option<Cut>,
    /// How often term and vote were to be stored, and how often they were.
    stores: u64,
    stored: u64,
    /// What is said once so many of them are done.
    held: VecDeque<(u64, Output)>,
    outputs: VecDeque<Output>,
}

/// The terms of a log's entries.
#[derive(Debug, Default)]
struct Terms {
    first: u64,
    terms: Vec<u64>,
}

impl Terms {
    fn of(state: &State) -> Self {
        let first = state.first.0;
        let next = state.last.map_or(first, |last| last.index.0 + 1);
        let term_at = |index: u64| {
            let begun = state.terms.iter().rev().find(|(_, begin)| begin.0 <= index);
            begun.map_or(0, |(term, _)| term.0)
        };
        Self { first, terms: (first..next).map(term_at).collect() }
    }

    fn next(&self) -> u64 {
        self.first + self.terms.len() as u64
    }

    fn last(&self) -> Option<EntryId> {
        let term = Term(*self.terms.last()?);
        Some(EntryId { term, index: LogIndex(self.next() - 1) })
    }

    fn term(&self, index: u64) -> Option<u64> {
        let nth = usize::try_from(index.checked_sub(self.first)?).ok()?;
        self.terms.get(nth).copied()
    }

    fn id(&self, index: u64) -> Option<EntryId> {
        Some(EntryId { term: Term(self.term(index)?), index: LogIndex(index) })
    }

    fn extend(&mut self, term: u64, count: u64) {
        self.terms.extend((0..count).map(|_| term));
    }

    fn cut(&mut self, from: u64) {
        let left = from.saturating_sub(self.first);
        self.terms.truncate(usize::try_from(left).unwrap_or(usize::MAX));
    }

    fn begin(&self) -> Option<LogIndex> {
        (!self.terms.is_empty()).then_some(LogIndex(self.first))
    }

    fn end(&self) -> Option<LogIndex> {
        self.last().map(|last| last.index)
    }

    fn trim(&mut self, first: u64) {
        let gone = usize::try_from(first.saturating_sub(self.first)).unwrap_or(0);
        self.terms.drain(..gone.min(self.terms.len()));
        self.first = self.first.max(first);
    }
}

impl JavaNode {
    pub(super) fn new(id: NodeId, others: Vec<NodeId>, seed: u64, state: &State) -> Self {
        Self {
            id,
            others,
            random: Random::stream(seed, 8),
            now: 0,
            elector: Elector::new(state),
            log: Terms::of(state),
            committed: state.committed.map(|index| index.0),
            pushers: Vec::new(),
            early: BTreeMap::new(),
            cut: None,
            stores: 0,
            stored: 0,
            held: VecDeque::new(),
            outputs: VecDeque::new(),
        }
    }

    pub(super) fn handle(&mut self, now: Millis, input: Input) {
        self.now = self.now.max(now.0);
        match input {
            Input::Received { from, call, message } => self.receive(from, call, message),
            Input::Propose { count, .. } => self.propose(count),
            Input::VoteStored { .. } => self.vote_stored(),
            Input::Truncated { .. } => self.truncated(),
            Input::Trimmed { first } => self.log.trim(first.0),
            Input::RangeRead { peer, first, count, .. } => self.range_read(&peer, first, count),
            Input::RangeLost { peer, .. } => self.range_lost(&peer),
            Input::Transfer { call, .. } => {
                let code = TransferCode::NotLeader;
                self.outputs.push_back(Output::TransferDone { call, code });
            }
            Input::ReadIndex { call } => {
                let answer = Err(self.not_leader());
                self.outputs.push_back(Output::ReadIndex { call, answer });
            }
            Input::Tick
            | Input::Written { .. }
            | Input::NotWritten { .. }
            | Input::Flushed { .. }
            | Input::Peer { .. }
            | Input::Disk { .. }
            | Input::Room { .. } => {}
        }
        self.elect();
        self.expire_early();
        self.push_on();
        self.commit_acknowledged();
    }

    pub(super) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    pub(super) fn poll_timeout(&self) -> Option<Millis> {
        let pushers = self.pushers.iter().map(|pusher| pusher.due(self.now, &self.log));
        let due = pushers.chain([self.elector.due()]).chain(self.early_due()).min()?;
        Some(Millis(due.max(self.now + 1)))
    }

    pub(super) fn term(&self) -> Term {
        Term(self.elector.term)
    }

    pub(super) fn role(&self) -> Role {
        self.elector.role
    }

    pub(super) fn last(&self) -> Option<EntryId> {
        self.log.last()
    }

    fn receive(&mut self, from: NodeId, call: CallId, message: Message) {
        match message {
            Message::Vote(request) => self.vote_request(from, call, &request),
            Message::VoteReply(reply) => self.vote_reply(&from, &reply),
            Message::Heartbeat(beat) => self.heartbeat(from, call, beat),
            Message::HeartbeatReply(reply) => self.heartbeat_reply(&from, &reply),
            Message::Push(push) => self.push(from, call, push),
            Message::PushReply(reply) => self.push_reply(&from, &reply),
            Message::Transfer(request) => {
                // It is not asked to lead here: it says that it could not.
                let reply = TransferReply {
                    term: self.term(),
                    request_term: request.term,
                    code: TransferCode::TakeLeadershipFailed,
                };
                self.say(from, Some(call), Message::TransferReply(reply));
            }
            Message::TransferReply(_) | Message::Fetch(_) | Message::FetchReply(_) => {}
        }
    }

    fn propose(&mut self, count: u64) {
        if self.elector.role != Role::Leader {
            let cause = self.not_leader();
            return self.outputs.push_back(Output::Refused { cause });
        }
        let (first, term) = (LogIndex(self.log.next()), self.term());
        self.log.extend(term.0, count);
        self.outputs.push_back(Output::Append(Append { first, count, term, opening: false }));
    }

    fn not_leader(&self) -> Refusal {
        Refusal::NotLeader { term: self.term(), leader: self.elector.leader.clone() }
    }

    /// What is said waits until term and vote are stored, as Java writes them before it answers.
    fn say(&mut self, to: NodeId, call: Option<CallId>, message: Message) {
        let output = Output::Send { to, call, message };
        if self.stored < self.stores {
            self.held.push_back((self.stores, output));
        } else {
            self.outputs.push_back(output);
        }
    }

    fn store(&mut self) {
        self.stores += 1;
        let vote = self.elector.vote.clone().map_or(Vote::None, Vote::For);
        self.outputs.push_back(Output::StoreVote { term: self.term(), vote });
    }

    fn vote_stored(&mut self) {
        self.stored += 1;
        while let Some((_, output)) = self.held.pop_front_if(|(after, _)| *after <= self.stored) {
            self.outputs.push_back(output);
        }
    }

    fn commit(&mut self, upto: u64) {
        let upto = self.log.end().map(|end| end.0.min(upto));
        if let Some(index) = upto.filter(|index| Some(*index) > self.committed) {
            self.committed = Some(index);
            self.outputs.push_back(Output::Committed { upto: LogIndex(index) });
        }
    }
}
