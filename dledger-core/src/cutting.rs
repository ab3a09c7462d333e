//! TRUNCATE: the end of a follower's log, which another leader wrote, is cut off.

use crate::{
    codes::PushCode,
    config::planted,
    follower::Unanswered,
    io::Output,
    message::PushName,
    node::Node,
    record::{Event, Violation},
    types::{CallId, EntryId, LogIndex, NodeId, Provisional, Role, Term},
};

/// What a leader asks for: the log shall end with `id`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut {
    pub(crate) id: EntryId,
    pub(crate) position: u64,
    pub(crate) same: Option<bool>,
    pub(crate) next_term: Option<Term>,
}

/// A cut that the disk has not done yet. Pushes wait for it; votes do not.
#[derive(Debug)]
pub(crate) struct Cutting {
    to: NodeId,
    call: CallId,
    term: Term,
    id: EntryId,
    /// Whether the entry `id`, which came along, is to be appended then.
    accepts: bool,
    expected: Option<EntryId>,
}

impl Node {
    pub(crate) fn truncate_push(&mut self, from: NodeId, call: CallId, cut: Cut) {
        if self.cutting.is_some() {
            self.forget(&from, call, PushName::Truncate);
            let code = (PushCode::PushRequestIsFull, PushName::Truncate);
            return self.answer(from, call, code, Some((cut.id.index, 0)));
        }
        if self.holds(cut.id, cut.same) {
            self.forget(&from, call, PushName::Truncate);
            self.cut_behind(from, call, cut);
        } else {
            self.begin_with(from, call, cut);
        }
    }

    /// The entry is here: what lies behind it goes, if it is another leader's.
    fn cut_behind(&mut self, from: NodeId, call: CallId, cut: Cut) {
        let next = cut.id.index.plus(1);
        if !self.may_cut(next, cut.next_term) {
            self.follow.note_matched(cut.id.index);
            return self.answer_truncated(from, call, cut.id.index);
        }
        if self.would_cut_committed(&from, next) {
            return;
        }
        self.record(Event::Truncated { from: next, last: self.ledger.last() });
        #[cfg(feature = "planted")]
        if planted!(self.config, P5) {
            self.ledger.last_index().iter().for_each(|end| self.ledger.force_commit(*end));
        }
        self.ledger.cut(next);
        self.outputs.push_back(Output::TruncateFrom { index: next });
        self.cutting = Some(Cutting {
            to: from,
            call,
            term: self.term,
            id: cut.id,
            accepts: false,
            expected: self.ledger.last(),
        });
    }

    /// Whether the entry at `next` and all behind it contradict the leader's log. A request that
    /// comes late, or twice, finds there what the leader itself has sent since.
    fn may_cut(&self, next: LogIndex, next_term: Option<Term>) -> bool {
        let Some(ours) = self.ledger.term_at(next) else { return false };
        let is_leaders =
            ours == self.term || next_term == Some(ours) || self.follow.matched() >= Some(next);
        !is_leaders || planted!(self.config, P7)
    }

    /// What is committed is never cut (Java cuts it silently): the node stops.
    fn would_cut_committed(&mut self, leader: &NodeId, index: LogIndex) -> bool {
        let Some(committed) = self.ledger.committed().filter(|committed| *committed >= index)
        else {
            return false;
        };
        let is_here = self.ledger.last().is_some() && index >= self.ledger.first();
        if planted!(self.config, P5) || !is_here {
            return false;
        }
        let (leader, term) = (leader.clone(), self.term);
        self.stop(Violation::CutBelowCommit { leader, term, index, committed });
        true
    }

    /// The entry is not here, and the leader has none before it that is: the log begins with it, or
    /// goes on with it where all before it is committed.
    fn begin_with(&mut self, from: NodeId, call: CallId, cut: Cut) {
        let index = cut.id.index;
        if self.would_cut_committed(&from, index) {
            return;
        }
        let accepts = cut.same.is_some();
        if !accepts {
            self.forget(&from, call, PushName::Truncate);
        }
        let last = self.ledger.last();
        let goes_on = match index.before() {
            None => self.ledger.first() == index,
            Some(before) => last.is_some() && self.ledger.committed() >= Some(before),
        };
        if goes_on && last.is_some_and(|last| last.index >= index) {
            self.record(Event::Truncated { from: index, last });
            self.ledger.cut(index);
            self.outputs.push_back(Output::TruncateFrom { index });
        } else if !goes_on {
            self.record(Event::Restarted { at: cut.id, last });
            self.ledger.restart(index);
            self.become_provisional(Provisional::RolledBack);
            self.outputs.push_back(Output::Restart { at: cut.id, position: cut.position });
        } else if self.ledger.next_index() == index {
            let cutting = self.cutting_of(from, call, cut.id, accepts);
            return self.cut_done(cutting);
        }
        self.cutting = Some(self.cutting_of(from, call, cut.id, accepts));
    }

    fn cutting_of(&self, to: NodeId, call: CallId, id: EntryId, accepts: bool) -> Cutting {
        Cutting { to, call, term: self.term, id, accepts, expected: self.ledger.last() }
    }

    /// What a completion says of the log while a cut waits for the disk: it was begun before the cut,
    /// so of what it covers all in front of the cut is there.
    pub(crate) fn left_of(&self, upto: EntryId) -> EntryId {
        match self.ledger.last() {
            Some(last) if self.cutting.is_some() && last.index < upto.index => last,
            _ => upto,
        }
    }

    /// The disk has done what was asked.
    pub(crate) fn truncated(&mut self, last: Option<EntryId>) {
        let Some(cutting) = self.cutting.take() else { return };
        if last != cutting.expected {
            let expected = cutting.expected;
            return self.stop(Violation::WrongEnd { expected, found: last });
        }
        self.cut_done(cutting);
        self.take_early();
        self.follow_commit();
    }

    fn cut_done(&mut self, cutting: Cutting) {
        let Cutting { to, call, term, id, accepts, .. } = cutting;
        if !self.follows(&to, term) || self.role != Role::Follower {
            if accepts {
                self.forget(&to, call, PushName::Truncate);
            }
            return;
        }
        if accepts {
            self.ledger.extend(id.term, 1);
            self.outputs.push_back(Output::Accept {
                from: to.clone(),
                call,
                first: id.index,
                count: 1,
            });
        }
        if self.ledger.holds(id) {
            self.follow.note_matched(id.index);
            self.answer_truncated(to, call, id.index);
        } else {
            // What is committed here is the leader's, too, though it has it no more: its first entry
            // may follow without naming the one before.
            if let Some(last) = self.ledger.last_index()
                && self.ledger.committed() >= Some(last)
            {
                self.follow.note_matched(last);
            }
            let code = (PushCode::Success, PushName::Truncate);
            self.answer(to, call, code, Some((id.index, 0)));
        }
    }

    fn answer_truncated(&mut self, to: NodeId, call: CallId, index: LogIndex) {
        self.answer_when_kept(Unanswered {
            to,
            call,
            kind: PushName::Truncate,
            first: index,
            count: 0,
            last: index,
        });
    }
}
