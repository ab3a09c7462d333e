//! Operators and readers.

use dledger_core::{CallId, Input, LogIndex, Millis, NodeId, Refusal};

use super::{Answer, Engine, Marks, OtherMarks};
use crate::RefusalCause;

impl<T> Engine<T> {
    pub(super) fn transfer(&mut self, now: Millis, call: CallId, to: Option<String>) {
        self.feed(now, Input::Transfer { call, to: to.map(NodeId) });
    }

    /// Retention removed files: the node learns where the log begins now.
    pub(super) fn trimmed(&mut self, now: Millis) {
        match self.log.first_index() {
            Ok(Some(first)) => self.feed(now, Input::Trimmed { first: LogIndex(first) }),
            Ok(None) => {}
            Err(error) => self.fail(format!("the first entry could not be read: {error}")),
        }
    }

    /// How far the log is, and those of the others.
    pub(super) fn tell_marks(&mut self, call: CallId) {
        let mut progress = self.node.progress();
        let number = |index: Option<LogIndex>| index.map(|index| index.0);
        let others = self.others.iter().map(|id| OtherMarks {
            id: id.0.clone(),
            kind: self.peers.get(id).copied(),
            progress: progress.iter().position(|one| one.peer == *id).map(|at| progress.remove(at)),
        });
        let marks = Marks {
            others: others.collect(),
            end: number(self.node.last().map(|last| last.index)),
            written: number(self.node.written()),
            flushed: number(self.node.flushed()),
            committed: number(self.node.committed()),
        };
        self.answers.push_back(Answer::Marks { call, marks });
    }

    pub(super) fn answer_read_index(
        &mut self,
        call: CallId,
        answer: Result<Option<LogIndex>, Refusal>,
    ) {
        let end = match answer {
            Ok(Some(index)) => match self.log.end_of(index.0) {
                Ok(end) => Ok(end),
                Err(error) => Err(RefusalCause::Stopped(error.to_string())),
            },
            Ok(None) => Ok(self.log.bounds().committed),
            Err(refusal) => Err(cause_of(refusal)),
        };
        self.answers.push_back(Answer::ReadIndex { call, end });
    }
}

/// What a submitter or a reader is told.
pub(super) fn cause_of(refusal: Refusal) -> RefusalCause {
    match refusal {
        Refusal::NotLeader { term, leader } => {
            RefusalCause::NotLeader { term: term.0, leader: leader.map(|id| id.0) }
        }
        Refusal::Transferring { to } => RefusalCause::Transferring { to: to.0 },
        Refusal::PendingFull { entries: _, bytes } => {
            RefusalCause::Full { pending_bytes: bytes, limit_bytes: bytes }
        }
    }
}
