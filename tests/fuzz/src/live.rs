//! A live member of three, whose disk does at once what it is told.
//!
//! Whatever the others say, it does not panic, its term, vote and commit index never go back, what
//! it knows to be committed lies in its log or before its first entry, and one input has an end. It may stop where it is told
//! what must never be; then it says nothing more.

use std::collections::BTreeMap;

use bytes::Bytes;
use dledger_core::{
    Append, CallId, Config, EntryId, Input, LogIndex, Message, Millis, Node, NodeId, Output,
    PushKind, Range, Role, State, Term, Vote, VoteAnswer, VoteReply, VoteRequest,
};

/// What one input may lead to; a healthy member needs some dozen.
const OUTPUTS: usize = 10_000;
/// Bytes of an entry, where the disk is asked for some.
const ENTRY: u64 = 100;
/// Entries that it holds at first, of the terms 1 and 3, half of them committed.
const HELD: u64 = 10;

pub(crate) struct Live {
    node: Node,
    now: u64,
    calls: u64,
    /// The term of each entry of its log.
    log: BTreeMap<u64, Term>,
    /// The first entry that its log holds, or would hold: the leader has none before it.
    begins: u64,
    /// Pushes whose entries are kept until the node has taken or forgotten them.
    kept: BTreeMap<CallId, Range>,
    committed: Option<LogIndex>,
    term: Term,
    vote: Vote,
    stopped: bool,
    /// Both others vote for it, whatever it asks.
    elected: bool,
}

impl Live {
    /// A member that has just started, one that asks for votes, and one that leads.
    pub(crate) fn beginnings() -> impl Iterator<Item = Self> {
        [Role::Follower, Role::Candidate, Role::Leader].into_iter().map(|role| {
            let mut live = Self::new();
            if role != Role::Follower {
                live.wait(3_000);
            }
            if role == Role::Leader {
                live.wins();
            }
            live
        })
    }

    fn wins(&mut self) {
        self.elected = true;
        for _ in 0..20 {
            self.wait(500);
            if self.node.role() == Role::Leader {
                break;
            }
        }
        assert_eq!(self.node.role(), Role::Leader);
        self.elected = false;
    }

    fn new() -> Self {
        let members = ["n0", "n1", "n2"].map(name);
        let config = Config::new(name("n0"), members.into_iter().collect());
        let terms = vec![(Term(1), LogIndex(0)), (Term(3), LogIndex(HELD / 2))];
        let log = (0..HELD).map(|index| (index, Term(if index < HELD / 2 { 1 } else { 3 })));
        let state = State {
            term: Term(3),
            vote: Vote::None,
            first: LogIndex(0),
            last: Some(EntryId { term: Term(3), index: LogIndex(HELD - 1) }),
            terms,
            committed: Some(LogIndex(HELD / 2)),
            provisional: None,
        };
        let node = Node::new(config, state).unwrap();
        Self {
            committed: node.committed(),
            term: node.term(),
            vote: node.vote().clone(),
            node,
            now: 0,
            calls: 0,
            log: log.collect(),
            begins: 0,
            kept: BTreeMap::new(),
            stopped: false,
            elected: false,
        }
    }

    /// A member says something, and a moment passes.
    pub(crate) fn hears(&mut self, from: &str, mut message: Message, entries: Option<&Bytes>) {
        let from = if from == "n2" { "n2" } else { "n1" };
        self.calls += 1;
        let call = CallId(self.calls);
        if let Message::Push(push) = &mut message {
            match &mut push.kind {
                PushKind::Append(range) if entries.is_none() || !is_sound(range) => return,
                PushKind::Append(range) => drop(self.kept.insert(call, range.clone())),
                PushKind::Compare { id, same, .. } => {
                    *same = entries.map(|_| self.holds(*id));
                }
                PushKind::Truncate { id, same, .. } if entries.is_some() => {
                    *same = Some(self.holds(*id));
                    self.kept.insert(call, alone(*id));
                }
                PushKind::Truncate { .. } => {}
                PushKind::Commit => {}
            }
        }
        self.give(Input::Received { from: name(from), call, message });
        self.wait(10);
    }

    fn holds(&self, id: EntryId) -> bool {
        self.log.get(&id.index.0) == Some(&id.term)
    }

    /// All that was said, and is late, takes its effect; and then nothing more is said.
    pub(crate) fn goes_on(mut self) {
        for _ in 0..40 {
            self.wait(100);
        }
        assert!(self.stopped || self.node.term() >= self.term);
    }

    fn wait(&mut self, millis: u64) {
        self.now += millis;
        self.give(Input::Tick);
    }

    fn give(&mut self, input: Input) {
        self.node.handle(Millis(self.now), input);
        let mut outputs = 0;
        while let Some(output) = self.node.poll_output() {
            assert!(!self.stopped, "it goes on after a stop: {output:?}");
            outputs += 1;
            assert!(outputs < OUTPUTS, "one input never ends: {output:?}");
            self.does(output);
            self.keeps_its_promises();
        }
    }

    fn does(&mut self, output: Output) {
        match output {
            Output::Send { to, message: Message::Vote(asked), .. } if self.elected => {
                let VoteRequest { term, pre_vote, .. } = asked;
                let answer = VoteAnswer::Accept;
                let provisional = false;
                let reply = VoteReply { term, answer, request_term: term, pre_vote, provisional };
                let (call, message) = (CallId(0), Message::VoteReply(reply));
                self.answer(Input::Received { from: to, call, message });
            }
            Output::StoreVote { term, .. } => self.answer(Input::VoteStored { term }),
            Output::Append(Append { first, count, term, .. }) => {
                self.writes((first.0..).zip(0..count).map(|(index, _)| (index, term)).collect());
            }
            Output::Accept { call, first, count, .. } => {
                // One that came without its entries cannot be written.
                let Some(range) = self.kept.remove(&call) else {
                    return self.answer(Input::NotWritten { from: first });
                };
                let last = first.0.checked_add(count - 1).unwrap();
                assert!(range.first <= first && last <= range.last_index().0, "{range:?}");
                self.writes(
                    (first.0..=last).map(|index| (index, term_of(&range, index))).collect(),
                );
            }
            Output::Forget { call, .. } => drop(self.kept.remove(&call)),
            Output::TruncateFrom { index } => {
                assert!(self.committed < Some(index), "{index} is committed");
                drop(self.log.split_off(&index.0));
                let last = self.log.last_key_value();
                let last =
                    last.map(|(index, term)| EntryId { term: *term, index: LogIndex(*index) });
                self.answer(Input::Truncated { last });
            }
            Output::Restart { at, .. } => {
                assert!(self.committed < Some(at.index), "{at} is committed");
                self.log.clear();
                self.begins = at.index.0;
                self.answer(Input::Truncated { last: None });
            }
            Output::ReadRange { peer, from, last, .. } => {
                assert!(from <= last);
                let held = self.log.contains_key(&from.0);
                self.answer(match held {
                    true => Input::RangeRead { peer, first: from, count: 1, bytes: ENTRY },
                    false => Input::RangeLost { peer, from },
                });
            }
            Output::Committed { upto } => {
                assert!(self.committed <= Some(upto), "{upto} after {:?}", self.committed);
            }
            Output::Stop { .. } => self.stopped = true,
            _ => {}
        }
    }

    fn writes(&mut self, entries: Vec<(u64, Term)>) {
        let Some((index, term)) = entries.last().copied() else { return };
        self.log.extend(entries);
        let upto = EntryId { term, index: LogIndex(index) };
        self.answer(Input::Written { upto });
        self.answer(Input::Flushed { upto });
    }

    /// The disk is done; what follows is polled by who polls now.
    fn answer(&mut self, input: Input) {
        self.node.handle(Millis(self.now), input);
    }

    fn keeps_its_promises(&mut self) {
        if self.stopped {
            return;
        }
        let (committed, term) = (self.node.committed(), self.node.term());
        assert!(committed >= self.committed, "{committed:?} after {:?}", self.committed);
        assert!(term >= self.term, "term {term} after {}", self.term);
        let same_vote = self.vote == Vote::None || *self.node.vote() == self.vote;
        assert!(term > self.term || same_vote, "{:?} after {:?}", self.node.vote(), self.vote);
        let held = |index: &u64| *index < self.begins || self.log.contains_key(index);
        assert!(committed.is_none_or(|index| held(&index.0)), "{committed:?}");
        (self.committed, self.term, self.vote) = (committed, term, self.node.vote().clone());
    }
}

fn name(id: &str) -> NodeId {
    NodeId(id.to_owned())
}

/// What the engine looks at before a node hears of entries: that they can follow each other.
fn is_sound(range: &Range) -> bool {
    range.count > 0
        && range.first.0.checked_add(range.count).is_some()
        && range.terms.windows(2).all(|pair| pair[0].0 < pair[1].0)
        && range.before.is_none_or(|before| before.index.0.checked_add(1) == Some(range.first.0))
}

/// The entry that comes along with a cut.
fn alone(id: EntryId) -> Range {
    let terms = vec![(id.term, id.index)];
    Range { before: None, first: id.index, count: 1, terms, bytes: ENTRY }
}

fn term_of(range: &Range, index: u64) -> Term {
    let run = range.terms.iter().rev().find(|(_, first)| first.0 <= index);
    run.map(|(term, _)| *term).unwrap()
}
