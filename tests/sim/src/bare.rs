//! The bare consensus core on a log in memory: no bytes, no files, just entries.
//!
//! It does what [`dledger_core`] asks of an engine, in the simplest way. Runs are many times as fast
//! as with the real engine, so that more elections and more divergent logs are met in the same time.

mod core;
mod disk;
mod java;
mod java_node;
mod jobs;
mod submissions;
mod wire;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use dledger_core::{
    Append, CallId, Config, EntryId, Input, Life, Load, LogIndex, Message, Millis, Node, NodeId,
    Output, PeerKind, Policy, Provisional, PushKind, Role, State, Term, TransferCode,
};

use self::{
    core::Core,
    java_node::JavaNode,
    submissions::{Submission, Submissions},
    wire::{WIRE, decode, encode},
};
pub use self::{
    disk::MemoryDisk,
    jobs::{Done, Job},
};
use crate::{
    ghost::{Entry, Log},
    java::JavaMembers,
    plan::{Keeping, Plan},
    process::{Answer, Change, Incoming, Parcel, Process, Setup, Standing, StartFailure},
};

/// Bytes that every entry counts for.
pub(crate) const ENTRY_BYTES: u32 = 100;
/// Bytes that may be on their way to one follower.
const WINDOW_BYTES: u64 = 40 * ENTRY_BYTES as u64;
/// How long a submission may wait, in milliseconds of the member's clock.
pub(crate) const APPEND_TIMEOUT: u64 = 2500;
/// How long a flush may take, in milliseconds.
const DISK_PATIENCE: u64 = 1200;

/// A process of the bare core.
#[derive(Debug)]
pub struct Bare {
    node: Core,
    number: usize,
    java: JavaMembers,
    disk: MemoryDisk,
    jobs: VecDeque<Job>,
    sends: VecDeque<Parcel>,
    answers: Vec<Answer>,
    /// Submissions that are proposed just now: their numbers.
    proposed: VecDeque<u64>,
    submissions: Submissions,
    kept: BTreeMap<(NodeId, u64), Vec<Entry>>,
    /// Entries that go along with the next append to a member.
    ranges: BTreeMap<NodeId, Vec<Entry>>,
    /// Since when a flush runs.
    flushing: Option<Millis>,
    flushed: Option<EntryId>,
    now: Millis,
    standing: Standing,
    opening: Option<u64>,
    committed: Option<u64>,
    stop: Option<String>,
    healthy: bool,
}

impl Process for Bare {
    type Disk = MemoryDisk;
    type Job = Job;
    type Done = Done;

    const LEADER_SLACK: u64 = 0;

    fn start(disk: &MemoryDisk, setup: &Setup) -> Result<Self, StartFailure> {
        let members = (0..setup.plan.members).map(|member| NodeId(Setup::id(member))).collect();
        let mut config = Config::new(NodeId(Setup::id(setup.member)), members);
        config.policy = match setup.plan.keeping {
            Keeping::Flushed => Policy::Flushed,
            Keeping::Written => Policy::Written,
        };
        config.seed = setup.plan.seed ^ setup.life.wrapping_mul(0x9e37_79b9);
        config.life = Life(setup.life);
        // Small windows reach the bounds.
        config.window_bytes = WINDOW_BYTES;
        config.push_bytes = 10 * u64::from(ENTRY_BYTES);
        config.early_bytes = 40 * u64::from(ENTRY_BYTES);
        config.pending_entries = 200;
        #[cfg(feature = "planted")]
        {
            config.planted = setup.plan.planted.clone();
        }
        let state = disk.state(config.policy);
        let standing = Standing { role: Role::Candidate, term: 0, opened: false, failed: false };
        let committed = state.committed.map(|index| index.0);
        let flushed = state.last;
        let java = setup.plan.java;
        let node = core_of(config, state, setup)?;
        let standing = Standing { term: node.term().0, ..standing };
        Ok(Self {
            node,
            number: setup.member,
            java,
            disk: disk.clone(),
            jobs: VecDeque::new(),
            sends: VecDeque::new(),
            answers: Vec::new(),
            proposed: VecDeque::new(),
            submissions: Submissions::default(),
            kept: BTreeMap::new(),
            ranges: BTreeMap::new(),
            flushing: None,
            healthy: true,
            flushed,
            now: Millis(0),
            standing,
            opening: None,
            committed,
            stop: None,
        })
    }

    fn handle(&mut self, now: Millis, incoming: Incoming<Done>) {
        self.now = now;
        match incoming {
            Incoming::Tick => self.feed(Input::Tick),
            Incoming::Message { from, call, message, entries } => {
                self.receive(from, call, message, entries);
            }
            Incoming::Gone { member } => {
                let id = NodeId(Setup::id(member));
                self.feed(Input::Peer { id, kind: PeerKind::Gone });
            }
            Incoming::Submit { token, bodies } => self.submit(token, &bodies),
            Incoming::Done(Done::Flushed(upto)) => {
                self.flushing = None;
                self.flushed = Some(upto);
                self.feed(Input::Flushed { upto });
            }
            Incoming::Done(Done::VoteStored(term)) => self.feed(Input::VoteStored { term }),
            Incoming::Done(Done::Truncated(last)) => {
                self.flushed = self.flushed.min(last);
                self.feed(Input::Truncated { last });
            }
            Incoming::Transfer { to } => {
                let to = to.map(|member| NodeId(Setup::id(member)));
                self.feed(Input::Transfer { call: CallId(0), to });
            }
            Incoming::ReadIndex { call } => self.feed(Input::ReadIndex { call: CallId(call) }),
        }
        self.start_flush();
        self.look_after_disk();
        self.submissions.expire(self.now, &mut self.answers);
    }

    fn poll_send(&mut self) -> Option<Parcel> {
        self.sends.pop_front()
    }

    fn poll_job(&mut self) -> Option<Job> {
        self.jobs.pop_front()
    }

    fn run_job(&self, job: Job) -> Done {
        match job {
            Job::Flush(upto) => {
                self.disk.flush(upto.index.0);
                Done::Flushed(upto)
            }
            Job::StoreVote(term, vote) => {
                self.disk.store_vote(term.0, &vote);
                Done::VoteStored(term)
            }
            Job::Truncate(from) => {
                self.disk.truncate(from);
                Done::Truncated(self.disk.last_id())
            }
            Job::Restart(first) => {
                self.disk.restart(first);
                Done::Truncated(None)
            }
        }
    }

    fn is_flush(job: &Job) -> bool {
        matches!(job, Job::Flush(_))
    }

    fn is_vote(job: &Job) -> bool {
        matches!(job, Job::StoreVote(..))
    }

    fn write_behind(&mut self, _now: Millis) {
        if let Some(committed) = self.committed {
            self.disk.checkpoint(committed);
        }
    }

    fn take_answers(&mut self) -> Vec<Answer> {
        std::mem::take(&mut self.answers)
    }

    fn timeout(&self) -> Option<Millis> {
        if self.standing.failed {
            return None;
        }
        let deadline = self.submissions.deadline();
        let patience = self.flushing.filter(|_| self.healthy);
        let patience = patience.map(|since| since.after(DISK_PATIENCE));
        [self.node.poll_timeout(), deadline, patience].into_iter().flatten().min()
    }

    fn standing(&self) -> Standing {
        self.standing
    }

    fn failure(&self) -> Option<String> {
        self.stop.clone()
    }

    fn doubt(&self) -> Option<Provisional> {
        self.node.provisional()
    }

    fn lacks_head(&self) -> bool {
        self.disk.first() > 0
    }

    fn is_violation(_reason: &str) -> bool {
        true
    }

    fn push_bound(_plan: &Plan) -> u64 {
        10 * WIRE as u64
    }

    fn queue_ends(&self) -> Vec<u64> {
        Vec::new()
    }

    fn loads(&self) -> Vec<Load> {
        self.node.loads()
    }

    fn committed(&self, log: &Log) -> Option<u64> {
        self.committed.filter(|committed| log.get(*committed).is_some())
    }

    fn changes(&mut self, log: &Log) -> Vec<Change> {
        self.disk.changes(log)
    }

    fn read(&self, entry: &Entry) -> Option<u64> {
        if self.committed < Some(entry.index) {
            return None;
        }
        self.disk.entry(entry.index).map(|entry| entry.hash)
    }

    fn trim(&mut self, now: Millis) {
        let Some(committed) = self.committed else { return };
        if let Some(first) = self.disk.trim(committed) {
            self.now = now;
            self.feed(Input::Trimmed { first: LogIndex(first) });
        }
    }

    fn close(&mut self) {}
}

/// What decides in this member, told who is Java's.
fn core_of(config: Config, state: State, setup: &Setup) -> Result<Core, StartFailure> {
    let (java, number) = (setup.plan.java, setup.member);
    let others = (0..setup.plan.members).filter(|other| *other != number);
    if java.models(number) {
        let others = others.map(|other| NodeId(Setup::id(other))).collect();
        let node = JavaNode::new(config.self_id, others, config.seed, &state);
        return Ok(Core::Java(Box::new(node)));
    }
    let mut node =
        Node::new(config, state).map_err(|error| StartFailure::Other(error.to_string()))?;
    for other in others.filter(|other| java.between(number, *other)) {
        let (id, kind) = (NodeId(Setup::id(other)), PeerKind::Java);
        node.handle(Millis(0), Input::Peer { id, kind });
    }
    Ok(Core::Ours(Box::new(node)))
}

impl Bare {
    fn feed(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            if self.standing.failed {
                return;
            }
            self.node.handle(self.now, input);
            while let Some(output) = self.node.poll_output() {
                inputs.extend(self.carry_out(output));
            }
        }
    }

    /// Does what the core asks for; gives what is at once to be told to it.
    fn carry_out(&mut self, output: Output) -> Option<Input> {
        match output {
            Output::Send { to, call, message } => self.send(&to, call, message),
            Output::StoreVote { term, vote } => self.jobs.push_back(Job::StoreVote(term, vote)),
            Output::Append(append) => return self.append(append),
            Output::Refused { .. } => {
                let token = self.proposed.pop_front().unwrap_or_default();
                self.answers.push(Answer::Refused { token });
            }
            Output::Accept { from, call, first, count } => {
                return self.accept((from, call.0), first.0, count);
            }
            Output::Forget { from, call } => drop(self.kept.remove(&(from, call.0))),
            Output::TruncateFrom { index } => {
                self.submissions.cut(index.0);
                self.jobs.push_back(Job::Truncate(index.0));
            }
            Output::Restart { at, .. } => {
                self.submissions.give_up(&mut self.answers);
                self.jobs.push_back(Job::Restart(at.index.0));
            }
            Output::ReadRange { peer, from, max_bytes, last } => {
                return Some(self.read_range(peer, from, max_bytes, last));
            }
            Output::Committed { upto } => self.commit(upto.0),
            Output::RoleChanged { role, term, .. } => {
                self.standing = Standing { role, term: term.0, opened: false, failed: false };
                self.opening = None;
            }
            Output::TransferDone { code, .. } => {
                self.answers.push(Answer::Transferred { success: code == TransferCode::Success });
            }
            Output::ReadIndex { call, answer } => {
                let entries = answer.ok().map(|index| index.map_or(0, |index| index.0 + 1));
                self.answers.push(Answer::Read { call: call.0, entries });
            }
            Output::Whole => self.disk.trust(),
            Output::Recorded(_) => {}
            Output::Stop { violation } => {
                self.stop = Some(violation.to_string());
                self.standing.failed = true;
            }
        }
        None
    }

    fn receive(&mut self, number: usize, call: u64, message: Message, entries: Bytes) {
        let carried = decode(entries);
        let heard = if self.java.between(self.number, number) {
            self.hear_java(number, call, message, &carried)
        } else {
            Some(message)
        };
        let Some(message) = heard else { return };
        let from = NodeId(Setup::id(number));
        if let Message::Push(push) = &message
            && let PushKind::Append(_) | PushKind::Truncate { same: Some(_), .. } = &push.kind
        {
            self.kept.insert((from.clone(), call), carried);
        }
        self.feed(Input::Received { from, call: CallId(call), message });
    }

    fn send(&mut self, to: &NodeId, call: Option<CallId>, message: Message) {
        let Some(number) = Setup::number(&to.0) else { return };
        let mut entries = Bytes::new();
        let mut message = message;
        if let Message::Push(push) = &mut message {
            if self.java.between(self.number, number) {
                let Ok(entry) = self.entry_for_java(&push.kind) else { return };
                entries = encode(entry.as_slice());
            }
            match &mut push.kind {
                PushKind::Append(range) => {
                    let kept = self.ranges.remove(to).unwrap_or_default();
                    debug_assert_eq!(kept.first().map(|entry| entry.index), Some(range.first.0));
                    entries = encode(&kept);
                }
                PushKind::Truncate { id, position, .. } => {
                    *position = self.disk.entry(id.index.0).map_or(0, |entry| entry.position);
                }
                PushKind::Compare { .. } | PushKind::Commit => {}
            }
        }
        self.sends.push_back(Parcel {
            to: number,
            call: call.map(|call| call.0),
            message,
            entries,
        });
    }

    fn submit(&mut self, token: u64, bodies: &[Vec<u8>]) {
        if self.standing.failed {
            self.answers.push(Answer::Refused { token });
            return;
        }
        self.proposed.push_back(token);
        let count = bodies.len().max(1) as u64;
        self.feed(Input::Propose { count, bytes: count * u64::from(ENTRY_BYTES) });
    }

    fn append(&mut self, append: Append) -> Option<Input> {
        let Append { first, count, term, opening } = append;
        let token = if opening { None } else { self.proposed.pop_front() };
        for nth in 0..count {
            let token = token.unwrap_or(0);
            let hash = if opening { term.0 << 32 } else { (token << 8) + nth };
            let index = first.0 + nth;
            let position = index * u64::from(ENTRY_BYTES);
            let (size, term) = (ENTRY_BYTES, term.0);
            let (chain, place) = (0, None);
            let entry = Entry { index, term, position, size, chain, hash, token, opening, place };
            self.disk.push(entry);
        }
        let id = EntryId { term, index: LogIndex(first.0 + count.saturating_sub(1)) };
        if opening {
            self.opening = Some(first.0);
        }
        if let Some(token) = token {
            let deadline = self.now.after(APPEND_TIMEOUT);
            self.submissions.wrote(Submission { token, first: first.0, last: id, deadline });
        }
        Some(Input::Written { upto: id })
    }

    fn accept(&mut self, key: (NodeId, u64), first: u64, count: u64) -> Option<Input> {
        let kept = self.kept.remove(&key).unwrap_or_default();
        let taken = kept.iter().filter(|entry| (first..first + count).contains(&entry.index));
        let mut last = None;
        for entry in taken {
            self.disk.push(*entry);
            last = Some(EntryId { term: Term(entry.term), index: LogIndex(entry.index) });
        }
        Some(match last {
            Some(upto) => Input::Written { upto },
            None => Input::NotWritten { from: LogIndex(first) },
        })
    }

    fn read_range(
        &mut self,
        peer: NodeId,
        from: LogIndex,
        max_bytes: u64,
        last: LogIndex,
    ) -> Input {
        let most = (max_bytes / u64::from(ENTRY_BYTES)).max(1);
        let range = from.0..=last.0.min(from.0 + most - 1);
        let entries: Vec<Entry> = range.map_while(|index| self.disk.entry(index)).collect();
        if entries.is_empty() {
            return Input::RangeLost { peer, from };
        }
        let count = entries.len() as u64;
        self.ranges.insert(peer.clone(), entries);
        Input::RangeRead { peer, first: from, count, bytes: count * u64::from(ENTRY_BYTES) }
    }

    fn commit(&mut self, upto: u64) {
        self.committed = self.committed.max(Some(upto));
        if self.opening.is_some_and(|opening| opening <= upto) {
            self.standing.opened = true;
        }
        self.submissions.committed(upto, &self.disk, &mut self.answers);
    }

    fn start_flush(&mut self) {
        let last = self.disk.last_id();
        if self.flushing.is_some() || self.standing.failed || last <= self.flushed {
            return;
        }
        if let Some(last) = last {
            self.flushing = Some(self.now);
            self.jobs.push_back(Job::Flush(last));
        }
    }

    /// A flush that takes too long is one of a disk that hangs.
    fn look_after_disk(&mut self) {
        let hangs = self.flushing.is_some_and(|since| self.now >= since.after(DISK_PATIENCE));
        if self.healthy == hangs {
            self.healthy = !hangs;
            self.feed(Input::Disk { healthy: !hangs });
        }
    }
}
