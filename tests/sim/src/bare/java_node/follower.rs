//! `DLedgerEntryPusher.EntryHandler`: the log of a follower.

use dledger_core::{
    CallId, EntryId, Life, LogIndex, Message, NodeId, Output, Push, PushCode, PushKind, PushName,
    PushReply, Range, Role, Term,
};

use super::JavaNode;

/// A push that waits for those in front of it.
#[derive(Debug)]
pub(super) struct Early {
    from: NodeId,
    call: CallId,
    range: Range,
    term: Term,
    at: u64,
}

/// A cut that the disk does: what is to be said after it.
#[derive(Debug)]
pub(super) struct Cut {
    from: NodeId,
    call: CallId,
    term: Term,
    id: EntryId,
    /// The entry itself is to be appended.
    appends: bool,
    commit: Option<u64>,
}

impl JavaNode {
    pub(super) fn push(&mut self, from: NodeId, call: CallId, push: Push) {
        let (term, commit) = (push.term, push.commit.map(|index| index.0));
        let follows = self.elector.role == Role::Follower && self.cut.is_none();
        match push.kind {
            PushKind::Append(range) if follows => {
                self.append_push((from, call, term), range, commit);
                self.take_early(commit);
            }
            // It stays without an answer.
            PushKind::Append(_) => self.outputs.push_back(Output::Forget { from, call }),
            kind if !follows => {
                let (name, first) = (kind.name(), first_of(&kind));
                if name == PushName::Truncate {
                    self.outputs.push_back(Output::Forget { from: from.clone(), call });
                }
                self.answer((from, call, term), (PushCode::NotFollower, name), (first, 0));
            }
            PushKind::Compare { id, same } => {
                self.forget_early();
                let equal = same == Some(true) && self.log.id(id.index.0) == Some(id);
                let code = if equal { PushCode::Success } else { PushCode::InconsistentState };
                let first = Some(id.index);
                self.answer((from, call, term), (code, PushName::Compare), (first, 0));
            }
            PushKind::Truncate { id, position, same, .. } => {
                self.forget_early();
                let cut = Cut { from, call, term, id, appends: same != Some(true), commit };
                self.truncate(cut, position);
            }
            PushKind::Commit => {
                self.update_committed(term, commit);
                self.answer((from, call, term), (PushCode::Success, PushName::Commit), (None, 0));
            }
        }
    }

    fn answer(
        &mut self,
        (to, call, term): (NodeId, CallId, Term),
        (code, kind): (PushCode, PushName),
        (first, count): (Option<LogIndex>, u64),
    ) {
        let reply = PushReply {
            term,
            code,
            kind,
            request_term: term,
            first,
            count,
            known: None,
            begin: self.log.begin(),
            end: self.log.end(),
            written: None,
            flushed: None,
            life: Life::default(),
            provisional: false,
        };
        self.say(to, Some(call), Message::PushReply(reply));
    }

    /// Whether entries of this leader may be written.
    fn takes_from(&self, from: &NodeId, term: Term) -> bool {
        self.elector.role == Role::Follower
            && self.elector.leader.as_ref() == Some(from)
            && self.term() == term
    }

    fn append_push(
        &mut self,
        (from, call, term): (NodeId, CallId, Term),
        range: Range,
        commit: Option<u64>,
    ) {
        let (first, count, next) = (range.first, range.count, self.log.next());
        let begins = self.log.terms.is_empty() && next == first.0;
        if first.0 > next {
            let early = Early { from, call, range, term, at: self.now };
            if let Some(old) = self.early.insert(first.0, early) {
                // Java keeps the first and answers 413 to the other; the later call is waited for here.
                self.outputs.push_back(Output::Forget { from: old.from, call: old.call });
            }
            return;
        }
        let whole = first.0 == next || begins;
        let code = if whole && self.takes_from(&from, term) {
            for index in 0..count {
                let at = first.plus(index);
                let begun = range.terms.iter().rev().find(|(_, begin)| *begin <= at);
                self.log.extend(begun.map_or(0, |(term, _)| term.0), 1);
            }
            let from = from.clone();
            self.outputs.push_back(Output::Accept { from, call, first, count });
            PushCode::Success
        } else {
            self.outputs.push_back(Output::Forget { from: from.clone(), call });
            if !whole && self.has(&range) { PushCode::Success } else { PushCode::InconsistentState }
        };
        self.answer((from, call, term), (code, PushName::Append), (Some(first), count));
        if code == PushCode::Success {
            self.update_committed(term, commit);
        }
    }

    /// Whether all of the range is in the log.
    fn has(&self, range: &Range) -> bool {
        (0..range.count).all(|nth| {
            let at = range.first.plus(nth);
            let begun = range.terms.iter().rev().find(|(_, begin)| *begin <= at);
            self.log.term(at.0).is_some() && self.log.term(at.0) == begun.map(|(term, _)| term.0)
        })
    }

    fn take_early(&mut self, commit: Option<u64>) {
        while let Some(entry) = self.early.first_entry()
            && *entry.key() <= self.log.next()
        {
            let early = entry.remove();
            self.append_push((early.from, early.call, early.term), early.range, commit);
        }
    }

    fn forget_early(&mut self) {
        for early in std::mem::take(&mut self.early).into_values() {
            self.outputs.push_back(Output::Forget { from: early.from, call: early.call });
        }
    }

    pub(super) fn early_due(&self) -> Option<u64> {
        self.early.first_key_value().map(|(_, early)| early.at + EARLY_MILLIS)
    }

    /// The tail in front of what came early was lost.
    pub(super) fn expire_early(&mut self) {
        if self.early_due().is_none_or(|due| self.now < due) {
            return;
        }
        if let Some((_, early)) = self.early.pop_first() {
            let (first, count) = (Some(early.range.first), early.range.count);
            self.outputs.push_back(Output::Forget { from: early.from.clone(), call: early.call });
            let code = (PushCode::InconsistentState, PushName::Append);
            self.answer((early.from, early.call, early.term), code, (first, count));
        }
    }

    fn truncate(&mut self, cut: Cut, position: u64) {
        let index = cut.id.index.0;
        if !self.takes_from(&cut.from, cut.term) {
            self.outputs.push_back(Output::Forget { from: cut.from.clone(), call: cut.call });
            let code = (PushCode::InconsistentState, PushName::Truncate);
            return self.answer((cut.from, cut.call, cut.term), code, (Some(cut.id.index), 0));
        }
        if !cut.appends {
            self.outputs.push_back(Output::Forget { from: cut.from.clone(), call: cut.call });
        }
        let from = if cut.appends { index } else { index + 1 };
        let next = self.log.next();
        if from < self.log.first || from > next {
            self.log = super::Terms { first: index, terms: Vec::new() };
            self.committed = None;
            self.outputs.push_back(Output::Restart { at: cut.id, position });
            self.cut = Some(cut);
        } else if from < next {
            self.log.cut(from);
            self.outputs.push_back(Output::TruncateFrom { index: LogIndex(from) });
            self.cut = Some(cut);
        } else {
            self.cut_done(cut);
        }
    }

    pub(super) fn truncated(&mut self) {
        if let Some(cut) = self.cut.take() {
            self.cut_done(cut);
        }
    }

    fn cut_done(&mut self, cut: Cut) {
        let Cut { from, call, term, id, appends, commit } = cut;
        if appends {
            self.log.extend(id.term.0, 1);
            let (from, first) = (from.clone(), id.index);
            self.outputs.push_back(Output::Accept { from, call, first, count: 1 });
        }
        self.answer(
            (from, call, term),
            (PushCode::Success, PushName::Truncate),
            (Some(id.index), 0),
        );
        self.update_committed(term, commit);
    }

    fn update_committed(&mut self, term: Term, commit: Option<u64>) {
        if let Some(commit) =
            commit.filter(|commit| term >= self.term() && *commit >= self.log.first)
        {
            self.commit(commit);
        }
    }
}

fn first_of(kind: &PushKind) -> Option<LogIndex> {
    match kind {
        PushKind::Compare { id, .. } | PushKind::Truncate { id, .. } => Some(id.index),
        PushKind::Append(range) => Some(range.first),
        PushKind::Commit => None,
    }
}

/// How long a push waits for those in front of it.
const EARLY_MILLIS: u64 = 1000;
