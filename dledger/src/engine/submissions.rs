//! Submissions on their way from the inbox to their commit.

use std::collections::VecDeque;

use dledger_core::{EntryId, Input, LogIndex, Millis, Refusal};

use super::{Engine, after, answers::cause_of};
use crate::{AppendFailure, Appended, Completed, Entries};

/// Most bytes of a group that is written together, unless one submission has more.
const GROUP_BYTES: u64 = 4 * 1024 * 1024;

/// How long submissions are held before they are proposed again while the lead goes to another member.
const HOLD_MILLIS: u64 = 20;

/// A submission that is written and waits for its commit, under this leader or the next.
#[derive(Debug)]
pub(super) struct Pending<T> {
    pub(super) first: LogIndex,
    pub(super) last: EntryId,
    /// Position behind its last entry.
    pub(super) end: u64,
    pub(super) deadline: Millis,
    /// `None` where the submitter was told already, or is the node itself.
    pub(super) waiting: Option<(T, Appended)>,
}

impl<T> Pending<T> {
    /// Whether somebody waits for it.
    pub(super) fn waits(&self) -> bool {
        self.waiting.is_some()
    }
}

/// A submission that is not written yet.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    pub(super) entries: Entries<T>,
    pub(super) deadline: Millis,
}

impl<T> Waiting<T> {
    fn bytes(&self) -> u64 {
        self.entries.buffer.len() as u64
    }
}

impl<T> Engine<T> {
    pub(super) fn submitted(&mut self, now: Millis, submitted: Vec<Entries<T>>) {
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

    /// Proposes what waits, a group at a time, as long as not too much is written ahead of a flush.
    pub(super) fn write_waiting(&mut self, now: Millis) {
        while self.status.failure.is_none()
            && !self.cutting
            && now >= self.hold_until
            && let Some(next) = self.waiting.front()
            && self.writer.has_window(self.flushes.durable, next.bytes())
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
            self.feed(now, Input::Propose { count, bytes });
        }
    }

    fn fits_group(&self, bytes: u64) -> bool {
        bytes <= GROUP_BYTES && self.writer.has_window(self.flushes.durable, bytes)
    }

    pub(super) fn complete_unwritten(&mut self, tokens: Vec<(T, Millis)>, failure: &AppendFailure) {
        for (token, _) in tokens {
            self.completed.push(Completed { token, result: Err(failure.clone()) });
        }
    }

    /// While the lead goes to another member, what waits goes on waiting: the transfer may fail, and
    /// then it is appended here, or this node follows, and then who asked is told so.
    pub(super) fn refuse_proposed(&mut self, now: Millis, cause: Refusal) {
        if let Refusal::Transferring { .. } = cause {
            self.hold_until = now.after(HOLD_MILLIS);
            for waiting in self.proposed.drain(..).rev() {
                self.waiting.push_front(waiting);
            }
            return;
        }
        let failure = AppendFailure::Refused(cause_of(cause));
        let tokens: Vec<(T, Millis)> = self
            .proposed
            .drain(..)
            .map(|waiting| (waiting.entries.token, waiting.deadline))
            .collect();
        self.complete_unwritten(tokens, &failure);
    }

    /// Completes the submissions whose last entry is committed; tells where the last of them ends.
    pub(super) fn complete_upto(&mut self, upto: LogIndex) -> Option<(LogIndex, u64)> {
        let mut reached = None;
        while let Some(done) = self.pending.pop_front_if(|pending| pending.last.index <= upto) {
            reached = Some((done.last.index, done.end));
            self.told = self.told.saturating_sub(1);
            if let Some((token, appended)) = done.waiting {
                self.completed.push(Completed { token, result: Ok(appended) });
            }
        }
        reached
    }

    /// Entry `from` and all behind it were cut off. That alone decides nothing: another member may
    /// still have them and lead next. What is committed in their place does.
    pub(super) fn cut_pending(&mut self, from: LogIndex) {
        while let Some(pending) = self.pending.pop_back_if(|pending| pending.last.index >= from) {
            if pending.waits() {
                self.doomed.push_front(pending);
            }
        }
        self.told = self.told.min(self.pending.len());
    }

    /// Answers submissions that were cut off once the log is committed where they were: by the terms
    /// there it is seen whether they came back.
    pub(super) fn judge_doomed(&mut self, upto: LogIndex) {
        let mut undecided = VecDeque::new();
        for mut pending in std::mem::take(&mut self.doomed) {
            let verdict = self.verdict(&pending, upto);
            match (verdict, pending.waiting.take()) {
                (Some(verdict), Some((token, appended))) => {
                    let result = verdict.map(|()| appended);
                    self.completed.push(Completed { token, result });
                }
                (_, waiting) => undecided.push_back(Pending { waiting, ..pending }),
            }
        }
        self.doomed = undecided;
    }

    /// What stands committed up to `upto` in the place of a submission that was cut off; `None` where
    /// nothing does yet.
    fn verdict(&self, cut: &Pending<T>, upto: LogIndex) -> Option<Result<(), AppendFailure>> {
        if cut.first > upto {
            return None;
        }
        let unsure = |reason: &str| Some(Err(AppendFailure::Unconfirmed(reason.to_owned())));
        match self.log.term_of(cut.first.0) {
            Ok(term) if term == cut.last.term => {}
            Ok(_) => return Some(Err(AppendFailure::Truncated { term: self.status.term })),
            Err(_) => return unsure("what was committed in its place cannot be found any more"),
        }
        if cut.last.index > upto {
            return None;
        }
        match self.log.term_of(cut.last.index.0) {
            Ok(term) if term == cut.last.term => Some(Ok(())),
            Ok(_) | Err(_) => unsure("a newer leader kept a part of it"),
        }
    }

    /// Fails what has waited too long. Deadlines are in order, so the front is looked at.
    pub(super) fn expire(&mut self, now: Millis) {
        let failure = AppendFailure::TimedOut { waited: self.append_timeout };
        while let Some(pending) = self.pending.get_mut(self.told)
            && (pending.deadline <= now || !pending.waits())
        {
            self.told += 1;
            if let Some((token, _)) = pending.waiting.take() {
                self.completed.push(Completed { token, result: Err(failure.clone()) });
            }
        }
        if self.doomed.iter().any(|doomed| doomed.deadline <= now) {
            let (late, rest) = std::mem::take(&mut self.doomed)
                .into_iter()
                .partition::<VecDeque<_>, _>(|doomed| doomed.deadline <= now);
            self.doomed = rest;
            self.completed.extend(late.into_iter().filter_map(|late| {
                let (token, _) = late.waiting?;
                Some(Completed { token, result: Err(failure.clone()) })
            }));
        }
        while let Some(late) = self.waiting.pop_front_if(|waiting| waiting.deadline <= now) {
            self.completed
                .push(Completed { token: late.entries.token, result: Err(failure.clone()) });
        }
    }

    /// The log stops for good.
    pub(super) fn fail(&mut self, reason: String) {
        tracing::error!(reason, "the log has stopped");
        self.fail_all(&reason);
        self.jobs.clear();
        self.sends.clear();
        self.status.opened = false;
        self.status.healthy = false;
        if self.status.failure.is_none() {
            self.status.failure = Some(reason);
        }
    }

    pub(super) fn fail_all(&mut self, reason: &str) {
        self.fail_pending(reason);
        for waiting in self.proposed.drain(..).chain(self.waiting.drain(..)) {
            let result = Err(AppendFailure::NotWritten(reason.to_owned()));
            self.completed.push(Completed { token: waiting.entries.token, result });
        }
    }

    pub(super) fn fail_pending(&mut self, reason: &str) {
        self.told = 0;
        for pending in self.doomed.drain(..).chain(self.pending.drain(..)) {
            if let Some((token, _)) = pending.waiting {
                let result = Err(AppendFailure::Unconfirmed(reason.to_owned()));
                self.completed.push(Completed { token, result });
            }
        }
    }
}
