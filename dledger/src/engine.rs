//! Consensus, log on disk and hook as one value.
//!
//! [`Engine::handle`] takes the time and what happened, writes where it must, and leaves what is to
//! be done elsewhere to be polled: jobs that wait for the disk, messages to members, completed
//! submissions. It has no thread and no clock, so a simulator runs the same engine as a server.

mod answers;
mod disk;
mod jobs;
mod kept;
mod outputs;
mod replication;
mod rotten;
mod submissions;
mod vocabulary;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    sync::Arc,
    time::Duration,
};

use dledger_core::{
    Config, EntryId, Life, Load, LogIndex, Millis, Node, NodeId, PeerKind, Policy, Role, State,
};
use segment::Vfs;

use self::{
    disk::{Flushes, Health},
    kept::{Accepts, Kept},
    rotten::Mends,
    submissions::{Pending, Waiting},
};
use crate::{
    Completed, DiskLog, Doubt, EntriesRead, Hook,
    planted::{careless, planted},
    recorder::FlightRecorder,
    recovery::{Group, Recovered, recover},
    state_files::{DoubtFile, HardState},
    transport::Outgoing,
    writer::Writer,
};

pub(crate) use self::jobs::Workshop;
pub use self::vocabulary::{
    Answer, Done, EngineConfig, EngineError, Event, Job, LogEnd, Marks, Mending, OtherMarks,
    ReadJob, Status,
};

/// One member of a group with its log.
#[derive(Debug)]
pub struct Engine<T> {
    node: Node,
    /// All members but this one.
    others: Vec<NodeId>,
    log: Arc<DiskLog>,
    workshop: Workshop,
    writer: Writer,
    hook: Option<HookBox>,
    waiting: VecDeque<Waiting<T>>,
    /// Submissions are not proposed before this: the lead goes to another member.
    hold_until: Millis,
    /// The group that was proposed to the node just now.
    proposed: Vec<Waiting<T>>,
    pending: VecDeque<Pending<T>>,
    /// Written submissions that were cut off, in log order.
    doomed: VecDeque<Pending<T>>,
    /// How many at the front of `pending` nobody waits for any more.
    told: usize,
    jobs: VecDeque<Job>,
    completed: Vec<Completed<T>>,
    sends: VecDeque<Outgoing>,
    answers: VecDeque<Answer>,
    status: Status,
    opening: Option<LogIndex>,
    /// The owner has seen the end of the log that this node leads.
    taken_over: bool,
    /// The last entry that is written.
    written: Option<EntryId>,
    flushes: Flushes,
    health: Health,
    mends: Mends,
    /// A job takes entries off the log: nothing is written meanwhile.
    cutting: bool,
    kept: Kept,
    accepts: Accepts,
    /// Entries that were read for a follower and are on their way into a push.
    reads: BTreeMap<NodeId, EntriesRead>,
    peers: BTreeMap<NodeId, PeerKind>,
    recorder: Arc<FlightRecorder>,
    policy: Policy,
    append_timeout: Duration,
    body_limit: u64,
    submission_limit: u64,
}

struct HookBox(Box<dyn Hook>);

impl std::fmt::Debug for HookBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hook")
    }
}

impl<T> Engine<T> {
    /// Recovers the log in `config.disk.directory` and builds the node on it. It takes part in
    /// elections once [`Engine::start`] has given it its owner.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub fn open(vfs: &Arc<dyn Vfs>, config: EngineConfig) -> Result<Self, EngineError> {
        let file_size = config.disk.file_size;
        if file_size < 4096 {
            return Err(EngineError::FileSize { file_size });
        }
        let planted = config.planted();
        let group = Group { members: config.members.len(), policy: config.policy, planted };
        let found = recover(vfs, config.disk.clone(), &group)?;
        let workshop = Workshop {
            log: Arc::clone(&found.log),
            hard_state: Arc::new(HardState::new(
                careless(vfs, &group.planted),
                &config.disk.directory,
            )),
            doubt: Arc::new(DoubtFile::new(Arc::clone(vfs), &config.disk.directory)),
        };
        let (state, doubt) =
            state_of(&found, &workshop, group.is_one()).map_err(EngineError::HardState)?;
        let node = Node::new(core_config(&config), state)?;
        let status = Status { term: node.term().0, doubt, ..Status::default() };
        let writer = Writer::new(Arc::clone(&found.log), found.cursor);
        let others = config.members.iter().filter(|id| **id != config.self_id);
        Ok(Self {
            node,
            others: others.cloned().map(NodeId).collect(),
            body_limit: writer.body_limit(),
            submission_limit: writer.submission_limit(),
            log: found.log,
            workshop,
            writer,
            hook: None,
            waiting: VecDeque::new(),
            hold_until: Millis(0),
            proposed: Vec::new(),
            pending: VecDeque::new(),
            doomed: VecDeque::new(),
            told: 0,
            jobs: VecDeque::new(),
            completed: Vec::new(),
            sends: VecDeque::new(),
            answers: VecDeque::new(),
            status,
            opening: None,
            taken_over: false,
            written: found.last.as_ref().map(EntryId::from),
            flushes: Flushes::new(found.cursor.position),
            health: Health::new(config.disk_patience),
            mends: Mends::default(),
            cutting: false,
            kept: Kept::default(),
            accepts: Accepts::default(),
            reads: BTreeMap::new(),
            peers: BTreeMap::new(),
            recorder: Arc::default(),
            policy: config.policy,
            append_timeout: config.append_timeout,
        })
    }

    /// Gives the node its owner; without one it takes no part in anything.
    pub fn start(&mut self, hook: Box<dyn Hook>) {
        self.hook = Some(HookBox(hook));
    }

    /// Takes what happened. Afterwards jobs, messages, answers, completed submissions and the status
    /// are to be polled.
    pub fn handle(&mut self, now: Millis, event: Event<T>) {
        match event {
            Event::Submitted(submitted) => self.submitted(now, submitted),
            Event::Done(done) => self.done(now, done),
            _ if self.hook.is_none() => {}
            Event::Tick => self.feed(now, dledger_core::Input::Tick),
            Event::Received { from, call, message, entries } => {
                self.received(now, NodeId(from), call, (message, entries));
            }
            Event::Peer { id, kind } => self.peer(now, NodeId(id), kind),
            Event::Transfer { call, to } => self.transfer(now, call, to),
            Event::ReadIndex { call } => self.feed(now, dledger_core::Input::ReadIndex { call }),
            Event::Marks { call } => self.tell_marks(call),
            Event::Trimmed => self.trimmed(now),
            Event::Room { enough } => {
                self.status.room = enough;
                self.feed(now, dledger_core::Input::Room { enough });
            }
        }
        self.write_accepted(now);
        self.write_waiting(now);
        self.start_flush(now);
        self.look_after_disk(now);
        self.expire(now);
        self.note_advice();
    }

    fn note_advice(&mut self) {
        let advised = self.node.advised();
        if advised.map(|id| id.0.as_str()) != self.status.advised.as_deref() {
            self.status.advised = advised.map(|id| id.0.clone());
        }
    }

    /// What is to be done next on a thread that may wait.
    pub fn poll_job(&mut self) -> Option<Job> {
        self.jobs.pop_front()
    }

    /// The next message to a member.
    pub fn poll_send(&mut self) -> Option<Outgoing> {
        self.sends.pop_front()
    }

    /// The next answer to an operator or a reader.
    pub fn poll_answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    /// Does a job.
    pub fn run_job(&self, job: Job) -> Done {
        self.workshop.run(job)
    }

    /// What came of submissions since the last call, in log order.
    pub fn take_completed(&mut self) -> Vec<Completed<T>> {
        std::mem::take(&mut self.completed)
    }

    /// When [`Event::Tick`] is due, if nothing happens before.
    #[must_use]
    pub fn timeout(&self) -> Option<Millis> {
        if self.status.failure.is_some() {
            return None;
        }
        let pending = self.pending.range(self.told..).find(|pending| pending.waits());
        let deadlines = [
            self.node.poll_timeout(),
            self.flush_due(),
            self.disk_due(),
            pending.map(|pending| pending.deadline),
            self.doomed.iter().map(|doomed| doomed.deadline).min(),
            self.waiting.front().map(|waiting| waiting.deadline),
            self.held_until(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// What others may know.
    #[must_use]
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// The log on disk, for readers.
    #[must_use]
    pub fn log(&self) -> &Arc<DiskLog> {
        &self.log
    }

    /// The turns of this node's life.
    #[must_use]
    pub fn recorder(&self) -> &Arc<FlightRecorder> {
        &self.recorder
    }

    /// Most bytes that a body may have.
    #[must_use]
    pub fn body_limit(&self) -> u64 {
        self.body_limit
    }

    /// Most bytes that a submission may have, headers and all.
    #[must_use]
    pub fn submission_limit(&self) -> u64 {
        self.submission_limit
    }

    /// Position behind the last entry, committed or not.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.writer.end()
    }

    /// The last entry that is written, committed or not.
    #[must_use]
    pub fn last(&self) -> Option<EntryId> {
        self.written
    }

    /// The last entry that this node knows to be committed.
    #[must_use]
    pub fn committed(&self) -> Option<LogIndex> {
        self.node.committed()
    }

    /// All that others can make wait in this member, each with its bound.
    #[must_use]
    pub fn loads(&self) -> Vec<Load> {
        let mut loads = self.node.loads();
        let ahead = self.writer.end().saturating_sub(self.flushes.durable);
        let window = self.log.options.unflushed_window;
        loads.push(Load::new("bytes ahead of a flush", ahead, window));
        let (ranges, bytes) = self.kept.waiting();
        if ranges > 1 {
            loads.push(Load::new("bytes that members sent", bytes as u64, kept::LIMIT as u64));
        }
        let (served, most) = self.mends.served_at_once();
        loads.push(Load::new("members served with what rotted", served as u64, most as u64));
        loads
    }

    /// What may lag behind an acknowledgement: the index, and about every 3 s a checkpoint.
    ///
    /// # Errors
    /// What the disk answers, other than that it is full; the log must then stop.
    pub fn write_behind(&self, now: Millis) -> io::Result<()> {
        self.log.write_behind(now)
    }

    pub(crate) fn workshop(&self) -> &Workshop {
        &self.workshop
    }

    /// Whether everything that was submitted has completed.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
            && self.pending.iter().all(|pending| !pending.waits())
            && !self.flushes.running()
            && !self.cutting
    }

    /// Ends an orderly stop: what waits is failed, the log is made durable and marked clean.
    ///
    /// # Errors
    /// What the disk answers.
    pub fn close(&mut self) -> io::Result<()> {
        let failed = self.status.failure.is_some();
        self.fail_all("the log was shut down");
        if failed {
            return Ok(());
        }
        self.log.close(self.writer.end())
    }

    fn done(&mut self, now: Millis, done: Done) {
        match done {
            Done::Flushed { upto, end } => self.flushed(now, upto, end),
            Done::VoteStored { term } => self.feed(now, dledger_core::Input::VoteStored { term }),
            Done::Truncated { from, end } => self.truncated(now, from, end),
            Done::Restarted { end } => self.restarted(now, end),
            Done::Read { job, result } => self.read(now, job, result),
            Done::Mended { first, result } => self.mended(first, result),
            Done::GaveUp { result } => self.gave_up(now, result),
            Done::DoubtStored => {}
            Done::Failed(reason) => self.fail(reason),
        }
    }

    fn held_until(&self) -> Option<Millis> {
        (self.hold_until > Millis(0) && !self.waiting.is_empty()).then_some(self.hold_until)
    }

    fn leads(&self) -> bool {
        self.status.role == Role::Leader
    }

    fn is_alone(&self) -> bool {
        self.others.is_empty()
    }
}

fn core_config(config: &EngineConfig) -> Config {
    let members: BTreeSet<NodeId> = config.members.iter().cloned().map(NodeId).collect();
    Config {
        policy: config.policy,
        seed: config.seed,
        life: Life(config.life),
        timings: config.timings,
        preferred: config.preferred.iter().cloned().map(NodeId).collect(),
        advises: config.advises,
        count_java_acks: config.count_java_acks,
        window_bytes: config.window_bytes,
        push_bytes: config.push_bytes,
        pending_bytes: config.pending_bytes,
        // What waits is bounded by its bytes.
        pending_entries: u64::MAX,
        #[cfg(feature = "planted")]
        planted: config.planted.clone(),
        ..Config::new(NodeId(config.self_id.clone()), members)
    }
}

/// What the node knows at its start, and why it may lack what it has acknowledged.
fn state_of(
    found: &Recovered,
    workshop: &Workshop,
    alone: bool,
) -> io::Result<(State, Option<Doubt>)> {
    let (term, vote, known) = jobs::load_vote(&workshop.hard_state)?;
    let last = found.last.as_ref().map(EntryId::from);
    let mut doubt = found.doubt;
    if alone {
        if let Some(last) = &found.last {
            // Recovery has made all of it durable, and there is no other member that could lead
            // with less: it is committed before the next term is opened.
            found.log.set_committed(found.cursor.position, last.index + 1);
        }
        if let Some(doubt) = doubt {
            tracing::warn!(
                ?doubt,
                "entries that were acknowledged may be lost, and nobody has them"
            );
        }
    } else if !known && last.is_some() && doubt.is_none() && !planted!(found.log.planted, P18) {
        // It may have voted in a term that its log does not show.
        workshop.doubt.store(Some(Doubt::RolledBack))?;
        doubt = Some(Doubt::RolledBack);
    }
    let state = State {
        term,
        vote,
        first: LogIndex(found.log.first_index()?.unwrap_or(found.cursor.index)),
        last,
        terms: if alone { Vec::new() } else { found.log.terms()? },
        committed: found.committed.map(LogIndex),
        provisional: doubt.filter(|_| !alone).map(Into::into),
    };
    Ok((state, doubt))
}

fn after(now: Millis, wait: Duration) -> Millis {
    now.after(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
