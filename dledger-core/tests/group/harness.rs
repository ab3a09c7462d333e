//! A group in one thread: nodes, what lies on their disks, and the wire between them.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use dledger_core::{
    Append, CallId, Config, EntryId, Input, Life, LogIndex, Message, Millis, Node, NodeId, Output,
    PeerKind, PushKind, Range, Record, Refusal, State, Term, TransferCode, Vote,
};

use crate::telling;

#[cfg(feature = "planted")]
thread_local! {
    /// The fault that every group of this thread has.
    pub(crate) static PLANTED: std::cell::RefCell<dledger_core::Planted> = Default::default();
}

/// One entry: which, and what its body is. Bodies are numbers that the test's senders count up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: EntryId,
    pub(crate) body: u64,
}

/// A message on its way.
#[derive(Debug, Clone)]
pub(crate) struct Letter {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) call: Option<CallId>,
    pub(crate) message: Message,
    /// The entries that go with a push.
    pub(crate) entries: Vec<Entry>,
}

/// What does not answer at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Held {
    Votes,
    /// What a leader sent waits, as where too much is ahead of a flush.
    Writes,
    Flushes,
    Cuts,
}

/// One node with its disk.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) node: Node,
    pub(crate) config: Config,
    /// The log: entries from `first` on.
    pub(crate) log: Vec<Entry>,
    pub(crate) first: u64,
    pub(crate) vote: (Term, Vote),
    pub(crate) committed: Option<u64>,
    pub(crate) held: BTreeSet<Held>,
    pub(crate) full: bool,
    flushed: usize,
    waiting: VecDeque<Input>,
    kept: HashMap<CallId, Vec<Entry>>,
    read: HashMap<String, Vec<Entry>>,
    proposed: VecDeque<u64>,
    calls: u64,
    /// [`dledger_core::Push::known`] of each push that came.
    known: HashMap<CallId, Option<Life>>,
    pub(crate) records: Vec<Record>,
    pub(crate) refused: Vec<Refusal>,
    pub(crate) transfers: Vec<TransferCode>,
    pub(crate) reads: Vec<Result<Option<LogIndex>, Refusal>>,
    pub(crate) stopped: Option<String>,
    pub(crate) whole: bool,
}

/// The group.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) members: BTreeMap<String, Member>,
    pub(crate) down: BTreeSet<String>,
    pub(crate) now: u64,
    pub(crate) wire: VecDeque<Letter>,
    /// Ways on which nothing passes, from and to.
    pub(crate) cut: BTreeSet<(String, String)>,
    /// What was said, one line each.
    pub(crate) said: Vec<String>,
    bodies: u64,
    lives: u64,
}

pub(crate) fn id(term: u64, index: u64) -> EntryId {
    EntryId { term: Term(term), index: LogIndex(index) }
}

pub(crate) fn name(id: &str) -> NodeId {
    NodeId(id.to_owned())
}

/// A log of `(term, count)` runs.
pub(crate) fn runs(runs: &[(u64, u64)]) -> Vec<Entry> {
    let mut log = Vec::new();
    for (term, count) in runs {
        for _ in 0..*count {
            let index = log.len() as u64;
            log.push(Entry { id: id(*term, index), body: term * 1_000_000 + index });
        }
    }
    log
}

impl Group {
    /// Nodes n0, n1, ... with empty logs.
    pub(crate) fn new(count: usize) -> Self {
        Self::with(count, |_| {})
    }

    pub(crate) fn with(count: usize, change: impl Fn(&mut Config)) -> Self {
        Self::of(&vec![(0, Vec::new()); count], change)
    }

    /// Nodes with the term that they were in and the log that they have.
    pub(crate) fn of(states: &[(u64, Vec<Entry>)], change: impl Fn(&mut Config)) -> Self {
        let ids: BTreeSet<NodeId> = (0..states.len()).map(|nth| name(&format!("n{nth}"))).collect();
        let mut group = Self {
            members: BTreeMap::new(),
            down: BTreeSet::new(),
            now: 0,
            wire: VecDeque::new(),
            cut: BTreeSet::new(),
            said: Vec::new(),
            bodies: 0,
            lives: 0,
        };
        for (id, (term, log)) in ids.iter().zip(states) {
            let mut config = Config::new(id.clone(), ids.clone());
            change(&mut config);
            #[cfg(feature = "planted")]
            PLANTED.with_borrow(|planted| config.planted.clone_from(planted));
            group.lives += 1;
            config.seed = group.lives;
            config.life = Life(group.lives);
            let state = state_of(Term(*term), Vote::None, 0, log, None);
            let node = Node::new(config.clone(), state).unwrap();
            let member = Member {
                node,
                config,
                log: log.clone(),
                first: 0,
                vote: (Term(*term), Vote::None),
                committed: None,
                held: BTreeSet::new(),
                full: false,
                flushed: log.len(),
                waiting: VecDeque::new(),
                kept: HashMap::new(),
                read: HashMap::new(),
                proposed: VecDeque::new(),
                calls: 0,
                known: HashMap::new(),
                records: Vec::new(),
                refused: Vec::new(),
                transfers: Vec::new(),
                reads: Vec::new(),
                stopped: None,
                whole: false,
            };
            group.members.insert(id.0.clone(), member);
        }
        group
    }

    pub(crate) fn member(&mut self, id: &str) -> &mut Member {
        self.members.get_mut(id).unwrap()
    }

    pub(crate) fn node(&self, id: &str) -> &Node {
        &self.members[id].node
    }

    /// Gives a node an input, does what it says; what it sends lies on the wire then.
    pub(crate) fn give(&mut self, id: &str, input: Input) {
        let now = Millis(self.now);
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let member = self.members.get_mut(id).unwrap();
            member.node.handle(now, input);
            while let Some(output) = member.node.poll_output() {
                telling::output(id, &output, &mut self.said);
                member.carry_out(id, output, &mut inputs, &mut self.wire);
            }
            member.check();
        }
    }

    pub(crate) fn tick(&mut self, id: &str) {
        self.give(id, Input::Tick);
    }

    /// A sender's entries; the bodies are told apart.
    pub(crate) fn propose(&mut self, id: &str, count: u64) {
        for _ in 0..count {
            self.bodies += 1;
            let body = self.bodies;
            self.member(id).proposed.push_back(body);
        }
        self.give(id, Input::Propose { count, bytes: 100 * count });
    }

    /// Passes on one letter. `false` where there is none.
    pub(crate) fn pass(&mut self) -> bool {
        let Some(letter) = self.wire.pop_front() else { return false };
        self.deliver(letter);
        true
    }

    pub(crate) fn deliver(&mut self, letter: Letter) {
        let way = (letter.from.clone(), letter.to.clone());
        if self.cut.contains(&way) || self.down.contains(&letter.to) {
            return;
        }
        assert_eq!(letter.call.is_none(), letter.message.is_request());
        let member = self.members.get_mut(&letter.to).unwrap();
        let mut message = letter.message;
        let mut call = CallId(0);
        if message.is_request() {
            member.calls += 1;
            call = CallId(member.calls);
            // What is told to the receiver's core names the way back.
            self.said.push(telling::letter(&letter.from, &letter.to, &message));
            member.fill_in(&mut message, &letter.entries);
            if let Message::Push(push) = &message {
                member.known.insert(call, push.known);
            }
            member.kept.insert(call, letter.entries);
        } else {
            self.said.push(telling::letter(&letter.from, &letter.to, &message));
        }
        let to = letter.to.clone();
        self.give(&to, Input::Received { from: name(&letter.from), call, message });
    }

    /// Passes on all letters, and those that follow from them.
    pub(crate) fn settle(&mut self) {
        for _ in 0..100_000 {
            if !self.pass() {
                return;
            }
        }
        panic!("the conversation does not end: {:?}", &self.said[self.said.len() - 20..]);
    }

    /// The next thing that is due, and one round of the letters that lie there.
    pub(crate) fn run_once(&mut self) {
        for _ in 0..self.wire.len() {
            self.pass();
        }
        let due = self.up().into_iter().filter_map(|id| {
            let at = self.members[&id].node.poll_timeout()?;
            Some((at.0.max(self.now), id))
        });
        if let Some((at, id)) = due.min() {
            self.now = at;
            self.tick(&id);
        }
    }

    /// Lets time pass, with all that happens in it.
    pub(crate) fn run(&mut self, millis: u64) {
        let end = self.now + millis;
        for _ in 0..1_000_000 {
            self.settle();
            let due = self.up().into_iter().filter_map(|id| {
                let at = self.members[&id].node.poll_timeout()?;
                Some((at.0.max(self.now), id))
            });
            match due.min() {
                Some((at, id)) if at <= end => {
                    self.now = at;
                    self.tick(&id);
                }
                _ => {
                    self.now = end;
                    return;
                }
            }
        }
        panic!("time stands still at {}", self.now);
    }

    pub(crate) fn up(&self) -> Vec<String> {
        self.members.keys().filter(|id| !self.down.contains(*id)).cloned().collect()
    }

    /// Runs until a node leads and has opened its term.
    pub(crate) fn elect(&mut self) -> String {
        for _ in 0..400 {
            self.run(50);
            if let Some(leader) = self.leader() {
                return leader;
            }
        }
        panic!("no leader: {}", self.history());
    }

    /// Who leads, with its opening entry committed, in the largest term.
    pub(crate) fn leader(&self) -> Option<String> {
        let opened = self.up().into_iter().filter(|id| {
            let node = self.node(id);
            node.opening().is_some_and(|opening| node.committed() >= Some(opening))
        });
        opened.max_by_key(|id| self.node(id).term())
    }

    /// n0 asks for votes, the others answer, its log is opened everywhere.
    pub(crate) fn elect_first(&mut self) {
        for _ in 0..40 {
            self.tick("n0");
            self.settle();
            self.now += 20;
            if self.leader().is_some() {
                return;
            }
        }
        panic!("no leader: {}", self.history());
    }

    pub(crate) fn cut_off(&mut self, id: &str) {
        for other in self.members.keys().cloned().collect::<Vec<_>>() {
            self.cut.insert((id.to_owned(), other.clone()));
            self.cut.insert((other, id.to_owned()));
        }
    }

    pub(crate) fn heal(&mut self) {
        self.cut.clear();
    }

    /// The process ends; its unflushed entries survive (the machine runs on).
    pub(crate) fn kill(&mut self, id: &str) {
        self.down.insert(id.to_owned());
        self.wire.retain(|letter| letter.from != id && letter.to != id);
        for other in self.up() {
            self.give(&other, Input::Peer { id: name(id), kind: PeerKind::Gone });
        }
    }

    /// Starts on what its disk has.
    pub(crate) fn restart(&mut self, id: &str) {
        self.restart_with(id, |_| {});
    }

    pub(crate) fn restart_with(&mut self, id: &str, change: impl Fn(&mut State)) {
        self.down.remove(id);
        self.lives += 1;
        let lives = self.lives;
        let member = self.member(id);
        member.config.life = Life(lives);
        let (term, vote) = member.vote.clone();
        let committed = member.committed.map(LogIndex);
        let mut state = state_of(term, vote, member.first, &member.log, committed);
        change(&mut state);
        member.node = Node::new(member.config.clone(), state).unwrap();
        member.waiting.clear();
        member.kept.clear();
        member.read.clear();
        member.proposed.clear();
        member.flushed = member.log.len();
    }

    /// The directory is removed, and the node started.
    pub(crate) fn wipe(&mut self, id: &str) {
        let member = self.member(id);
        member.log.clear();
        member.first = 0;
        member.vote = (Term(0), Vote::None);
        member.committed = None;
        self.restart(id);
    }

    /// What the disk held back comes now.
    pub(crate) fn release(&mut self, id: &str) {
        let member = self.member(id);
        member.held.clear();
        let waiting = std::mem::take(&mut member.waiting);
        for input in waiting {
            self.give(id, input);
        }
    }

    /// The log without bodies, as runs of terms.
    pub(crate) fn shape(&self, id: &str) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for entry in &self.members[id].log {
            match runs.last_mut() {
                Some((term, count)) if *term == entry.id.term.0 => *count += 1,
                _ => runs.push((entry.id.term.0, 1)),
            }
        }
        runs
    }

    pub(crate) fn assert_equal_logs(&self) {
        let mut up = self.up().into_iter();
        let first = up.next().unwrap();
        for other in up {
            assert_eq!(
                self.shape(&first),
                self.shape(&other),
                "{first} {other}: {}",
                self.history()
            );
            assert_eq!(self.members[&first].log, self.members[&other].log, "{first} {other}");
        }
    }

    pub(crate) fn history(&self) -> String {
        self.said[self.said.len().saturating_sub(60)..].join("\n")
    }

    /// What was said since the last time, compared with the whole conversation as it should be.
    pub(crate) fn told(&mut self, expected: &str) {
        let said = std::mem::take(&mut self.said).join("\n");
        let expected: Vec<&str> =
            expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        assert_eq!(said, expected.join("\n"), "\n{said}\n");
    }

    pub(crate) fn hush(&mut self) {
        self.said.clear();
    }
}

fn state_of(
    term: Term,
    vote: Vote,
    first: u64,
    log: &[Entry],
    committed: Option<LogIndex>,
) -> State {
    let mut terms: Vec<(Term, LogIndex)> = Vec::new();
    for entry in log {
        if terms.last().is_none_or(|(term, _)| *term != entry.id.term) {
            terms.push((entry.id.term, entry.id.index));
        }
    }
    let last = log.last().map(|entry| entry.id);
    State { term, vote, first: LogIndex(first), last, terms, committed, provisional: None }
}

impl Member {
    fn next(&self) -> u64 {
        self.first + self.log.len() as u64
    }

    /// What an engine fills in: whether the entry that came along is here.
    fn fill_in(&self, message: &mut Message, entries: &[Entry]) {
        let Message::Push(push) = message else { return };
        let (PushKind::Compare { id, same, .. } | PushKind::Truncate { id, same, .. }) =
            &mut push.kind
        else {
            return;
        };
        if let Some(entry) = entries.first() {
            let index = usize::try_from(id.index.0.wrapping_sub(self.first)).unwrap_or(usize::MAX);
            *same = Some(self.log.get(index) == Some(entry));
        }
    }

    fn carry_out(
        &mut self,
        self_id: &str,
        output: Output,
        inputs: &mut VecDeque<Input>,
        wire: &mut VecDeque<Letter>,
    ) {
        match output {
            Output::Send { to, call, mut message } => {
                if let Message::PushReply(reply) = &mut message {
                    let known = call.and_then(|call| self.known.remove(&call));
                    reply.known = known.flatten();
                }
                let entries = self.entries_for(&to, &message);
                wire.push_back(Letter {
                    from: self_id.to_owned(),
                    to: to.0,
                    call,
                    message,
                    entries,
                });
            }
            Output::StoreVote { term, vote } => {
                if self.held.contains(&Held::Votes) {
                    self.waiting.push_back(Input::VoteStored { term });
                } else {
                    self.vote = (term, vote);
                    inputs.push_back(Input::VoteStored { term });
                }
            }
            Output::Append(append) => self.append(append, inputs),
            Output::Accept { call, first, count, .. } => self.accept((call, first, count), inputs),
            Output::Forget { call, .. } => {
                assert!(self.kept.remove(&call).is_some(), "{call:?} is not kept");
            }
            Output::Refused { cause } => {
                self.proposed.clear();
                self.refused.push(cause);
            }
            Output::TruncateFrom { index } => {
                self.log.truncate((index.0 - self.first) as usize);
                self.cut_done(inputs);
            }
            Output::Restart { at, .. } => {
                self.log.clear();
                self.first = at.index.0;
                self.cut_done(inputs);
            }
            Output::ReadRange { peer, from, max_bytes, last } => {
                inputs.push_back(self.read_range(peer, from, max_bytes, last));
            }
            Output::Committed { upto } => {
                assert!(self.committed < Some(upto.0), "commit index falls to {upto}");
                self.committed = Some(upto.0);
            }
            Output::RoleChanged { .. } => {}
            Output::TransferDone { code, .. } => self.transfers.push(code),
            Output::ReadIndex { answer, .. } => self.reads.push(answer),
            Output::Whole => self.whole = true,
            Output::Recorded(record) => self.records.push(record),
            Output::Stop { violation } => self.stopped = Some(violation.to_string()),
        }
    }

    fn append(&mut self, append: Append, inputs: &mut VecDeque<Input>) {
        assert_eq!(append.first.0, self.next());
        if self.full {
            self.proposed.drain(..self.proposed.len().min(append.count as usize));
            inputs.push_back(Input::NotWritten { from: append.first });
            return;
        }
        for nth in 0..append.count {
            let body = if append.opening { 0 } else { self.proposed.pop_front().unwrap_or(1) };
            let id = EntryId { term: append.term, index: append.first.plus(nth) };
            self.log.push(Entry { id, body });
        }
        self.written(inputs);
    }

    fn accept(
        &mut self,
        (call, first, count): (CallId, LogIndex, u64),
        inputs: &mut VecDeque<Input>,
    ) {
        let kept = self.kept.remove(&call).unwrap();
        if self.full || first.0 != self.next() {
            inputs.push_back(Input::NotWritten { from: first });
            return;
        }
        let taken = kept.into_iter().filter(|entry| entry.id.index >= first);
        let taken: Vec<Entry> = taken.take(count as usize).collect();
        assert_eq!(taken.len() as u64, count);
        self.log.extend(taken);
        self.written(inputs);
    }

    fn written(&mut self, inputs: &mut VecDeque<Input>) {
        let Some(last) = self.log.last() else { return };
        let written = Input::Written { upto: last.id };
        let flushed = Input::Flushed { upto: last.id };
        if self.held.contains(&Held::Writes) {
            self.waiting.extend([written, flushed]);
            return;
        }
        inputs.push_back(written);
        if self.held.contains(&Held::Flushes) {
            self.waiting.push_back(flushed);
        } else {
            self.flushed = self.log.len();
            inputs.push_back(flushed);
        }
    }

    fn cut_done(&mut self, inputs: &mut VecDeque<Input>) {
        self.flushed = self.flushed.min(self.log.len());
        let done = Input::Truncated { last: self.log.last().map(|entry| entry.id) };
        if self.held.contains(&Held::Cuts) {
            self.waiting.push_back(done);
        } else {
            inputs.push_back(done);
        }
    }

    fn read_range(
        &mut self,
        peer: NodeId,
        from: LogIndex,
        max_bytes: u64,
        last: LogIndex,
    ) -> Input {
        let Some(begin) = from.0.checked_sub(self.first) else {
            return Input::RangeLost { peer, from };
        };
        let most = (max_bytes / 100).clamp(1, last.0 + 1 - from.0) as usize;
        let entries: Vec<Entry> =
            self.log.iter().skip(begin as usize).take(most).copied().collect();
        if entries.is_empty() {
            return Input::RangeLost { peer, from };
        }
        let count = entries.len() as u64;
        self.read.insert(peer.0.clone(), entries);
        Input::RangeRead { peer, first: from, count, bytes: 100 * count }
    }

    fn entries_for(&mut self, to: &NodeId, message: &Message) -> Vec<Entry> {
        let Message::Push(push) = message else { return Vec::new() };
        match &push.kind {
            PushKind::Append(Range { first, count, .. }) => {
                let entries = self.read.remove(&to.0).unwrap();
                assert_eq!((entries[0].id.index, entries.len() as u64), (*first, *count));
                entries
            }
            PushKind::Truncate { id, .. } => {
                self.log.iter().filter(|entry| entry.id == *id).copied().collect()
            }
            PushKind::Compare { .. } | PushKind::Commit => Vec::new(),
        }
    }

    /// What must hold after every step.
    fn check(&self) {
        if let Some(stopped) = &self.stopped {
            panic!("{} stopped: {stopped}", self.config.self_id);
        }
    }
}
