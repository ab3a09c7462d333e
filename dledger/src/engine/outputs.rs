//! Doing what the node says.

use dledger_core::{Append, EntryId, Input, LogIndex, Millis, NodeId, Output, Role, Term};

use super::{
    Answer, Engine, Job, ReadJob,
    submissions::{Pending, Waiting},
};
use crate::{
    AppendFailure, Appended, Completed, DiskLog, ENTRY_HEADER, HookError, Tail, Visit,
    planted::planted,
    writer::{AppendError, Bodies, Laid},
};

impl<T> Engine<T> {
    /// Hands an input to the node and does all that follows from it.
    pub(super) fn feed(&mut self, now: Millis, input: Input) {
        if self.status.failure.is_some() {
            return;
        }
        self.node.handle(now, input);
        while let Some(output) = self.node.poll_output() {
            self.carry_out(now, output);
            if self.status.failure.is_some() {
                return;
            }
        }
    }

    fn carry_out(&mut self, now: Millis, output: Output) {
        match output {
            Output::Send { to, call, message } => self.send(to, call, message),
            Output::StoreVote { term, vote } => self.jobs.push_back(Job::StoreVote { term, vote }),
            Output::RoleChanged { role, term, leader } => self.role_changed(role, term, leader),
            Output::Append(append) if append.opening => self.open_term(now, append),
            Output::Append(append) => self.append_proposed(now, append),
            Output::Refused { cause } => self.refuse_proposed(now, cause),
            Output::Accept { from, call, first, count } => {
                self.accept(now, (from, call), first, count);
            }
            Output::Forget { from, call } => drop(self.kept.take(from, call)),
            Output::Committed { upto } => self.reach(upto),
            Output::TruncateFrom { index } => self.cut(Job::Truncate { index }),
            Output::Restart { at, position } => self.cut(Job::Restart { at, position }),
            Output::ReadRange { peer, from, max_bytes, last } => {
                let job = ReadJob { peer, call: None, from, upto: last, max_bytes };
                self.read_range(now, job);
            }
            Output::TransferDone { call, code } => {
                self.answers.push_back(Answer::TransferDone { call, code });
            }
            Output::ReadIndex { call, answer } => self.answer_read_index(call, answer),
            Output::Whole => {
                self.status.doubt = None;
                self.jobs.push_back(Job::StoreDoubt(None));
            }
            Output::Recorded(record) => {
                tracing::info!(%record, "consensus");
                self.recorder.push(record);
            }
            Output::Stop { violation } => self.fail(violation.to_string()),
        }
    }

    /// Nothing is written until the job has ended. A leader only appends.
    fn cut(&mut self, job: Job) {
        if self.status.role == Role::Leader {
            return self.fail(format!("a leader was to cut its log: {job:?}"));
        }
        self.cutting = true;
        self.accepts.0.clear();
        self.jobs.push_back(job);
    }

    fn role_changed(&mut self, role: Role, term: Term, leader: Option<NodeId>) {
        tracing::info!(%role, %term, "role of the log");
        let led = self.leads();
        self.status.role = role;
        self.status.term = term.0;
        self.status.leader = leader.map(|id| id.0);
        self.status.opened = false;
        self.opening = None;
        self.hold_until = Millis(0);
        self.reads.clear();
        self.kept.only_of(self.status.leader.as_deref());
        let Some(hook) = &mut self.hook else {
            if role == Role::Leader {
                self.fail("the log has no owner to open a term".to_owned());
            }
            return;
        };
        if role == Role::Leader {
            let mut tail = LogTail { log: &self.log, end: self.writer.end() };
            let taken = hook.0.elected(term.0, &mut tail);
            self.taken_over = taken.is_ok();
            // With an entry that is rotten this node gives up the lead and fetches it.
            if let Err(error) = taken
                && (self.is_alone() || !self.convict())
            {
                self.fail(format!("the end of the log could not be taken over: {error}"));
            }
        } else if led {
            hook.0.deposed();
        }
    }

    /// Writes the first entry of a term.
    fn open_term(&mut self, now: Millis, append: Append) {
        if !self.taken_over {
            return self.not_opened(now, &append, "the end of the log cannot be read");
        }
        let Some(hook) = &mut self.hook else { return };
        let body = hook.0.opening(append.term.0);
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
        if u64::from(length) > self.body_limit || body.is_empty() {
            self.fail(format!("opening entry of {} bytes cannot be written", body.len()));
            return;
        }
        let mut buffer = bytes::BytesMut::zeroed(ENTRY_HEADER);
        buffer.extend_from_slice(&body);
        let bodies = vec![Bodies { buffer, lengths: vec![length] }];
        match self.write(append, bodies) {
            Ok(laid) => {
                self.opening = Some(append.first);
                self.pending.extend(laid.into_iter().map(|laid| Pending {
                    first: laid.last.index,
                    last: laid.last,
                    end: laid.end,
                    deadline: Millis(u64::MAX),
                    waiting: None,
                }));
                self.note_written(now);
            }
            Err(AppendError::Clean(reason) | AppendError::Unfit(reason)) => {
                self.not_opened(now, &append, &reason);
            }
            Err(AppendError::Full(reason)) => {
                self.health.is_full(now);
                self.not_opened(now, &append, &reason);
            }
            Err(AppendError::Fatal(reason)) => self.fail(reason),
        }
    }

    fn not_opened(&mut self, now: Millis, append: &Append, reason: &str) {
        tracing::error!(reason, "the term cannot be opened");
        self.feed(now, Input::NotWritten { from: append.first });
    }

    fn append_proposed(&mut self, now: Millis, append: Append) {
        let mut tokens = Vec::with_capacity(self.proposed.len());
        let mut bodies = Vec::with_capacity(self.proposed.len());
        for Waiting { entries, deadline } in self.proposed.drain(..) {
            tokens.push((entries.token, deadline));
            bodies.push(Bodies { buffer: entries.buffer, lengths: entries.lengths });
        }
        match self.write(append, bodies) {
            Ok(laid) => {
                self.pending.extend(laid.into_iter().zip(tokens).map(
                    |(Laid { bytes, lengths, last, end }, (token, deadline))| {
                        let first = LogIndex(last.index.0 + 1 - lengths.len() as u64);
                        let waiting = Some((token, Appended { bytes, lengths }));
                        Pending { first, last, end, deadline, waiting }
                    },
                ));
                self.note_written(now);
            }
            Err(AppendError::Clean(reason) | AppendError::Unfit(reason)) => {
                self.complete_unwritten(tokens, &AppendFailure::NotWritten(reason));
                self.feed(now, Input::NotWritten { from: append.first });
            }
            Err(AppendError::Full(reason)) => {
                self.health.is_full(now);
                self.complete_unwritten(tokens, &AppendFailure::DiskFull(reason));
                self.feed(now, Input::NotWritten { from: append.first });
            }
            Err(AppendError::Fatal(reason)) => {
                // Part of it may be in the log, and found there after a restart.
                let failure = AppendFailure::Unconfirmed(reason.clone());
                self.completed.extend(
                    tokens
                        .into_iter()
                        .map(|(token, _)| Completed { token, result: Err(failure.clone()) }),
                );
                self.fail(reason);
            }
        }
    }

    fn write(&mut self, append: Append, bodies: Vec<Bodies>) -> Result<Vec<Laid>, AppendError> {
        let Some(hook) = &mut self.hook else {
            return Err(AppendError::Clean("the log has no owner".to_owned()));
        };
        let next = self.writer.next_index();
        if append.first.0 != next {
            let reason = format!(
                "entry {} was to be appended, and the log ends before {next}",
                append.first
            );
            return Err(AppendError::Fatal(reason));
        }
        let at = (append.term, self.flushes.durable);
        let result = self.writer.append(at, bodies, |group| hook.0.stamp(group));
        match &result {
            Ok(_) => {
                let index = LogIndex(append.first.0 + append.count - 1);
                self.written = Some(EntryId { term: append.term, index });
            }
            Err(_) => hook.0.undo(),
        }
        result
    }

    pub(super) fn note_written(&mut self, now: Millis) {
        if let Some(upto) = self.written {
            self.feed(now, Input::Written { upto });
            if planted!(self.log.planted, P11) {
                self.feed(now, Input::Flushed { upto });
            }
        }
    }

    /// Completes the submissions whose last entry is committed, and lets readers see it.
    fn reach(&mut self, upto: LogIndex) {
        let end = match self.complete_upto(upto) {
            Some((last, end)) if last == upto => Ok(end),
            _ => self.log.end_of(upto.0),
        };
        match end {
            Ok(end) => self.log.set_committed(end, upto.0 + 1),
            Err(error) => return self.fail(format!("a committed entry cannot be found: {error}")),
        }
        if !self.doomed.is_empty() {
            self.judge_doomed(upto);
        }
        if self.opening.is_some_and(|opening| opening <= upto) {
            self.status.opened = true;
        }
    }
}

/// The end of the log for a hook that takes it over.
struct LogTail<'a> {
    log: &'a DiskLog,
    end: u64,
}

impl Tail for LogTail<'_> {
    fn visit(&mut self, from: u64, visit: &mut Visit<'_>) -> Result<(), HookError> {
        self.log.visit((from, self.end), visit)
    }
}
