//! Consensus, log on disk and hook as one value.
//!
//! [`Engine::handle`] takes the time and what happened, writes where it must, and leaves what is to
//! be done elsewhere to be polled: jobs that wait for the disk, and completed submissions. It has no
//! thread and no clock, so a simulator runs the same engine as a server.

mod outputs;
mod vocabulary;

use std::{collections::VecDeque, io, sync::Arc, time::Duration};

use dledger_core::{Config, EntryId, LogIndex, Millis, Node, NodeId, Policy, State, Term, Vote};
use segment::Vfs;

use crate::{
    AppendFailure, Appended, Completed, DiskLog, Entries, Hook,
    entry::Previous,
    recovery::{Recovered, recover},
    state_files::{HardState, LoadedState},
    writer::{Cursor, Writer},
};

pub use self::vocabulary::{Done, EngineConfig, EngineError, Event, Job, Status};

/// Most bytes of a group that is written together, unless one submission has more.
const GROUP_BYTES: u64 = 4 * 1024 * 1024;

/// Time between two flushes that no acknowledgement waits for.
const ASYNC_MILLIS: u64 = 200;
/// Bytes behind which such a flush does not wait.
const ASYNC_BYTES: u64 = 8 * 1024 * 1024;

/// A submission that is written and waits for its commit.
#[derive(Debug)]
struct Pending<T> {
    last: EntryId,
    /// Position behind its last entry.
    end: u64,
    deadline: Millis,
    /// `None` where the submitter was told already, or is the node itself.
    waiting: Option<(T, Appended)>,
}

/// A submission that is not written yet.
#[derive(Debug)]
struct Waiting<T> {
    entries: Entries<T>,
    deadline: Millis,
}

/// One member of a group with its log.
#[derive(Debug)]
pub struct Engine<T> {
    node: Node,
    log: Arc<DiskLog>,
    hard_state: Arc<HardState>,
    writer: Writer,
    hook: Option<HookBox>,
    waiting: VecDeque<Waiting<T>>,
    /// The group that was proposed to the node just now.
    proposed: Vec<Waiting<T>>,
    pending: VecDeque<Pending<T>>,
    jobs: VecDeque<Job>,
    completed: Vec<Completed<T>>,
    status: Status,
    opening: Option<LogIndex>,
    /// The last entry that is written.
    written: Option<EntryId>,
    /// Position up to which the log is durable.
    flushed: u64,
    flushing: bool,
    /// When the last flush was begun.
    flush_begun: Millis,
    policy: Policy,
    append_timeout: Duration,
    body_limit: u64,
    submission_limit: u64,
}

impl<T> Waiting<T> {
    fn bytes(&self) -> u64 {
        self.entries.buffer.len() as u64
    }
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
        let directory = config.disk.directory.clone();
        let Recovered { log, last, end, committed } = recover(vfs, config.disk)?;
        let hard_state = HardState::new(Arc::clone(vfs), &directory);
        let (term, vote) = load_vote(&hard_state).map_err(EngineError::HardState)?;
        let last_id =
            last.map(|last| EntryId { term: Term(last.term), index: LogIndex(last.index) });
        if config.members.len() == 1
            && let Some(last) = &last
        {
            // Recovery has made all of it durable, and there is no other member that could lead
            // with less: it is committed before the next term is opened.
            log.set_committed(end, last.index + 1);
        }
        let node = Node::new(
            Config {
                self_id: NodeId(config.self_id),
                members: config.members.into_iter().map(NodeId).collect(),
                policy: config.policy,
                seed: config.seed,
            },
            State { term, vote, last: last_id, committed: committed.map(LogIndex) },
        )?;
        let cursor = Cursor {
            position: end,
            index: last.map_or(0, |last| last.index + 1),
            previous: last.as_ref().map_or(Previous::Start, Previous::of),
        };
        let status = Status { term: node.term().0, ..Status::default() };
        let writer = Writer::new(Arc::clone(&log), cursor);
        Ok(Self {
            node,
            body_limit: writer.body_limit(),
            submission_limit: writer.submission_limit(),
            log,
            hard_state: Arc::new(hard_state),
            writer,
            hook: None,
            waiting: VecDeque::new(),
            proposed: Vec::new(),
            pending: VecDeque::new(),
            jobs: VecDeque::new(),
            completed: Vec::new(),
            status,
            opening: None,
            written: last_id,
            flushed: end,
            flushing: false,
            flush_begun: Millis(0),
            policy: config.policy,
            append_timeout: config.append_timeout,
        })
    }

    /// Gives the node its owner; without one it never leads.
    pub fn start(&mut self, hook: Box<dyn Hook>) {
        self.hook = Some(HookBox(hook));
    }

    /// Takes what happened. Afterwards jobs, completed submissions and the status are to be polled.
    pub fn handle(&mut self, now: Millis, event: Event<T>) {
        match event {
            Event::Tick if self.hook.is_none() => {}
            Event::Tick => self.feed(now, dledger_core::Input::Tick),
            Event::Submitted(submitted) => self.submitted(now, submitted),
            Event::Done(done) => self.done(now, done),
        }
        self.write_waiting(now);
        self.start_flush(now);
        self.expire(now);
    }

    /// What is to be done next on a thread that may wait.
    pub fn poll_job(&mut self) -> Option<Job> {
        self.jobs.pop_front()
    }

    /// Does a job.
    pub fn run_job(&self, job: Job) -> Done {
        run_job(&self.log, &self.hard_state, job)
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
        let pending = self.pending.iter().find(|pending| pending.waiting.is_some());
        let deadlines = [
            self.node.poll_timeout(),
            self.flush_due(),
            pending.map(|pending| pending.deadline),
            self.waiting.front().map(|waiting| waiting.deadline),
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

    /// What may lag behind an acknowledgement: the index, and about every 3 s a checkpoint.
    ///
    /// # Errors
    /// What the disk answers, other than that it is full; the log must then stop.
    pub fn write_behind(&self, now: Millis) -> io::Result<()> {
        self.log.write_behind(now)
    }

    pub(crate) fn hard_state(&self) -> &Arc<HardState> {
        &self.hard_state
    }

    /// Whether everything that was submitted has completed.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.pending.is_empty() && !self.flushing
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

    fn submitted(&mut self, now: Millis, submitted: Vec<Entries<T>>) {
        let deadline = after(now, self.append_timeout);
        for entries in submitted {
            if let Some(failure) = &self.status.failure {
                let failure = AppendFailure::NotWritten(failure.clone());
                self.completed.push(Completed { token: entries.token, result: Err(failure) });
            } else {
                self.waiting.push_back(Waiting { entries, deadline });
            }
        }
    }

    fn done(&mut self, now: Millis, done: Done) {
        match done {
            Done::Flushed { upto, end } => {
                self.flushing = false;
                self.flushed = self.flushed.max(end);
                self.feed(now, dledger_core::Input::Flushed { upto });
            }
            Done::VoteStored { term } => self.feed(now, dledger_core::Input::VoteStored { term }),
            Done::Failed(reason) => self.fail(reason),
        }
    }

    /// Proposes what waits, a group at a time, as long as not too much is written ahead of a flush.
    fn write_waiting(&mut self, now: Millis) {
        while self.status.failure.is_none()
            && let Some(next) = self.waiting.front()
            && self.writer.has_window(self.flushed, next.bytes())
        {
            let mut bytes = 0;
            let mut count = 0;
            while let Some(next) = self.waiting.front()
                && (self.proposed.is_empty() || self.fits_group(bytes + next.bytes()))
                && let Some(next) = self.waiting.pop_front()
            {
                bytes += next.bytes();
                count += next.entries.lengths.len() as u64;
                self.proposed.push(next);
            }
            self.feed(now, dledger_core::Input::Propose { count, bytes });
        }
    }

    fn fits_group(&self, bytes: u64) -> bool {
        bytes <= GROUP_BYTES && self.writer.has_window(self.flushed, bytes)
    }

    fn start_flush(&mut self, now: Millis) {
        if self.flush_due().is_none_or(|due| now < due) {
            return;
        }
        if let Some(upto) = self.written {
            self.flushing = true;
            self.flush_begun = now;
            self.jobs.push_back(Job::Flush { upto, end: self.writer.end() });
        }
    }

    /// When the next flush is to begin, if there is anything to flush. Where acknowledgements do not
    /// wait for it, flushes are some time apart.
    fn flush_due(&self) -> Option<Millis> {
        let ahead = self.writer.end().saturating_sub(self.flushed);
        if self.flushing || ahead == 0 || self.status.failure.is_some() {
            return None;
        }
        let at_once = self.policy == Policy::Flushed || !self.status.opened || ahead >= ASYNC_BYTES;
        Some(if at_once { Millis(0) } else { Millis(self.flush_begun.0 + ASYNC_MILLIS) })
    }

    /// Fails what has waited too long. Deadlines are in order, so the front is looked at.
    fn expire(&mut self, now: Millis) {
        let failure = AppendFailure::TimedOut { waited: self.append_timeout };
        for pending in &mut self.pending {
            if pending.deadline > now && pending.waiting.is_some() {
                break;
            }
            if let Some((token, _)) = pending.waiting.take() {
                self.completed.push(Completed { token, result: Err(failure.clone()) });
            }
        }
        while let Some(late) = self.waiting.pop_front_if(|waiting| waiting.deadline <= now) {
            self.completed
                .push(Completed { token: late.entries.token, result: Err(failure.clone()) });
        }
    }

    /// The log stops for good.
    fn fail(&mut self, reason: String) {
        tracing::error!(reason, "the log has stopped");
        self.fail_all(&reason);
        self.jobs.clear();
        self.status.opened = false;
        if self.status.failure.is_none() {
            self.status.failure = Some(reason);
        }
    }

    fn fail_all(&mut self, reason: &str) {
        for pending in self.pending.drain(..) {
            if let Some((token, _)) = pending.waiting {
                let result = Err(AppendFailure::Unconfirmed(reason.to_owned()));
                self.completed.push(Completed { token, result });
            }
        }
        for waiting in self.proposed.drain(..).chain(self.waiting.drain(..)) {
            let result = Err(AppendFailure::NotWritten(reason.to_owned()));
            self.completed.push(Completed { token: waiting.entries.token, result });
        }
    }
}

/// Does a job on the calling thread.
pub(crate) fn run_job(log: &DiskLog, hard_state: &HardState, job: Job) -> Done {
    match job {
        Job::Flush { upto, end } => match log.flush(end) {
            Ok(()) => Done::Flushed { upto, end },
            Err(error) => Done::Failed(format!("log could not be synced: {error}")),
        },
        Job::StoreVote { term, vote } => match hard_state.store(term, &vote) {
            Ok(()) => Done::VoteStored { term },
            Err(error) => Done::Failed(format!("term and vote could not be stored: {error}")),
        },
    }
}

fn load_vote(hard_state: &HardState) -> io::Result<(Term, Vote)> {
    Ok(match hard_state.load()? {
        LoadedState::Missing => (Term(0), Vote::None),
        LoadedState::Found { term, vote } => (term, vote),
        LoadedState::Damaged(reason) => {
            tracing::warn!(reason, "term and vote are lost: the term of the last entry is taken");
            (Term(0), Vote::Unknown)
        }
    })
}

fn after(now: Millis, wait: Duration) -> Millis {
    Millis(now.0.saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)))
}
