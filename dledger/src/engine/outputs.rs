//! Doing what the node says.

use dledger_core::{
    Append, EntryId, Input, LogIndex, Message, Millis, NodeId, Output, Refusal, Role, Term,
};

use super::{Engine, Job, Pending, Waiting};
use crate::{
    AppendFailure, Appended, Completed, DiskLog, ENTRY_HEADER, HookError, Tail, Visit,
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
            Output::StoreVote { term, vote } => self.jobs.push_back(Job::StoreVote { term, vote }),
            Output::RoleChanged { role, term, leader } => self.role_changed(role, term, leader),
            Output::Append(append) if append.opening => self.open_term(now, append),
            Output::Append(append) => self.append_proposed(now, append),
            Output::Refused { cause } => self.refuse_proposed(&cause),
            Output::Committed { upto } => self.committed(upto),
            Output::TruncateFrom { index } => self.truncate(index),
            Output::Send { to, message } => dropped(&to, &message),
            Output::ReadRange { peer, .. } => {
                tracing::error!(%peer, "a group of one has nobody to read for");
            }
        }
    }

    fn role_changed(&mut self, role: Role, term: Term, leader: Option<NodeId>) {
        tracing::info!(%role, %term, "role of the log");
        self.status.role = role;
        self.status.term = term.0;
        self.status.leader = leader.map(|id| id.0);
        self.status.opened = false;
        self.opening = None;
        if role == Role::Leader {
            let Some(hook) = &mut self.hook else {
                return self.fail("the log has no owner to open a term".to_owned());
            };
            let mut tail = LogTail { log: &self.log, end: self.writer.end() };
            if let Err(error) = hook.0.elected(term.0, &mut tail) {
                self.fail(format!("the end of the log could not be taken over: {error}"));
            }
        }
    }

    /// Writes the first entry of a term.
    fn open_term(&mut self, now: Millis, append: Append) {
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
                    last: laid.last,
                    end: laid.end,
                    deadline: Millis(u64::MAX),
                    waiting: None,
                }));
                self.note_written(now);
            }
            Err(AppendError::Clean(reason)) => {
                tracing::error!(reason, "the term cannot be opened");
                self.feed(now, Input::NotWritten { from: append.first });
            }
            Err(AppendError::Fatal(reason)) => self.fail(reason),
        }
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
                        let waiting = Some((token, Appended { bytes, lengths }));
                        Pending { last, end, deadline, waiting }
                    },
                ));
                self.note_written(now);
            }
            Err(AppendError::Clean(reason)) => {
                self.complete_unwritten(tokens, &reason);
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
        let result = self.writer.append(append.term, bodies, |group| hook.0.stamp(group));
        match &result {
            Ok(_) => {
                let index = LogIndex(append.first.0 + append.count - 1);
                self.written = Some(EntryId { term: append.term, index });
            }
            Err(_) => hook.0.undo(),
        }
        result
    }

    fn note_written(&mut self, now: Millis) {
        if let Some(upto) = self.written {
            self.feed(now, Input::Written { upto });
        }
    }

    fn complete_unwritten(&mut self, tokens: Vec<(T, Millis)>, reason: &str) {
        for (token, _) in tokens {
            let result = Err(AppendFailure::NotWritten(reason.to_owned()));
            self.completed.push(Completed { token, result });
        }
    }

    fn refuse_proposed(&mut self, cause: &Refusal) {
        let Refusal::NotLeader { term, leader } = cause;
        let leader = leader.as_ref().map_or("unknown", |id| id.0.as_str());
        let reason = format!("not the leader in term {term}; leader is {leader}");
        let tokens: Vec<(T, Millis)> = self
            .proposed
            .drain(..)
            .map(|waiting| (waiting.entries.token, waiting.deadline))
            .collect();
        self.complete_unwritten(tokens, &reason);
    }

    /// Completes the submissions whose last entry is committed.
    fn committed(&mut self, upto: LogIndex) {
        let mut reached = None;
        while let Some(done) = self.pending.pop_front_if(|pending| pending.last.index <= upto) {
            reached = Some((done.end, done.last.index.0 + 1));
            if let Some((token, appended)) = done.waiting {
                self.completed.push(Completed { token, result: Ok(appended) });
            }
        }
        if let Some((end, entries)) = reached {
            self.log.set_committed(end, entries);
        }
        if self.opening.is_some_and(|opening| opening <= upto) {
            self.status.opened = true;
        }
    }

    /// Removes the end of the log. What waited for it is cut off by the leader of this term.
    fn truncate(&mut self, index: LogIndex) {
        match self.log.truncate(index.0) {
            Ok(Some(cursor)) => self.writer.rewind(cursor),
            Ok(None) => return,
            Err(error) => return self.fail(format!("log could not be truncated: {error}")),
        }
        self.written = self.log.last_id();
        self.flushed = self.flushed.min(self.writer.end());
        let mut cut = Vec::new();
        while let Some(pending) = self.pending.pop_back_if(|pending| pending.last.index >= index) {
            cut.extend(pending.waiting);
        }
        let term = self.status.term;
        self.completed.extend(
            cut.into_iter().rev().map(|(token, _)| Completed {
                token,
                result: Err(AppendFailure::Truncated { term }),
            }),
        );
    }
}

/// A group of one speaks to nobody: an answer to a stranger has no connection to go by yet.
fn dropped(to: &NodeId, message: &Message) {
    tracing::debug!(%to, ?message, "message to a node that is no member");
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
