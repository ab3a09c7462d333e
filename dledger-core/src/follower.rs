//! A follower (Java: `DLedgerEntryPusher.EntryHandler`).

use std::collections::{BTreeMap, VecDeque};

use crate::{
    codes::PushCode,
    config::planted,
    heartbeat::NotFollowed,
    io::Output,
    message::{Message, Push, PushKind, PushName, PushReply, Range},
    node::Node,
    terms::{describes, term_within},
    types::{CallId, EntryId, LogIndex, Millis, NodeId, Role, Term},
};

/// The follower's side of replication, for one leader in one term.
#[derive(Debug, Default)]
pub(crate) struct Follow {
    /// Up to here the log is known to be the leader's.
    matched: Option<LogIndex>,
    leader_commit: Option<LogIndex>,
    /// Pushes that came before those in front of them, by first index.
    early: BTreeMap<LogIndex, Early>,
    early_bytes: u64,
    /// Pushes whose answer waits for the disk, in log order.
    unanswered: VecDeque<Unanswered>,
}

#[derive(Debug)]
struct Early {
    from: NodeId,
    call: CallId,
    range: Range,
    at: Millis,
}

/// An answer that waits until this node keeps `last`.
#[derive(Debug)]
pub(crate) struct Unanswered {
    pub(crate) to: NodeId,
    pub(crate) call: CallId,
    pub(crate) kind: PushName,
    pub(crate) first: LogIndex,
    pub(crate) count: u64,
    pub(crate) last: LogIndex,
}

impl Follow {
    /// Nothing is known of a new leader's log.
    pub(crate) fn begin(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn matched(&self) -> Option<LogIndex> {
        self.matched
    }

    pub(crate) fn note_matched(&mut self, index: LogIndex) {
        self.matched = self.matched.max(Some(index));
    }

    /// Bytes of the pushes that came early, how many these are, and how many wait for an answer.
    pub(crate) fn waiting(&self) -> (u64, usize, usize) {
        (self.early_bytes, self.early.len(), self.unanswered.len())
    }

    /// When the oldest push that came early is given up.
    pub(crate) fn due(&self) -> Option<Millis> {
        self.early.values().map(|early| early.at.after(EARLY_MILLIS)).min()
    }
}

impl Node {
    pub(crate) fn push(&mut self, from: NodeId, call: CallId, push: Push) {
        let name = push.kind.name();
        let (first, count) = match &push.kind {
            PushKind::Compare { id, .. } | PushKind::Truncate { id, .. } => (Some(id.index), 0),
            PushKind::Append(range) => (Some(range.first), range.count),
            PushKind::Commit => (None, 0),
        };
        if let Err(not_followed) = self.hear_leader(&from, push.term) {
            self.forget(&from, call, name);
            let code = match not_followed {
                NotFollowed::UnknownMember => PushCode::Other(401),
                NotFollowed::UnexpectedMember => PushCode::Other(402),
                NotFollowed::ExpiredTerm => PushCode::ExpiredTerm,
                NotFollowed::OtherLeader => PushCode::InconsistentLeader,
            };
            let mut reply = self.push_reply_of(code, name, first, count);
            reply.request_term = push.term;
            self.send(from, Some(call), Message::PushReply(reply));
            return;
        }
        self.told_whole(push.whole);
        self.follow.leader_commit = self.follow.leader_commit.max(push.commit);
        match push.kind {
            PushKind::Compare { id, same } => self.compare_push(from, call, id, same),
            PushKind::Truncate { id, position, same, next_term } => {
                let cut = crate::cutting::Cut { id, position, same, next_term };
                self.truncate_push(from, call, cut);
            }
            PushKind::Append(range) => {
                self.append_push(from, call, range);
                self.take_early();
            }
            PushKind::Commit => self.answer(from, call, (PushCode::Success, name), None),
        }
        self.follow_commit();
    }

    /// A push that carries entries and is not taken.
    pub(crate) fn forget(&mut self, from: &NodeId, call: CallId, kind: PushName) {
        if matches!(kind, PushName::Append | PushName::Truncate) {
            self.outputs.push_back(Output::Forget { from: from.clone(), call });
        }
    }

    pub(crate) fn answer(
        &mut self,
        to: NodeId,
        call: CallId,
        (code, kind): (PushCode, PushName),
        range: Option<(LogIndex, u64)>,
    ) {
        let (first, count) = range.map_or((None, 0), |(first, count)| (Some(first), count));
        let reply = self.push_reply_of(code, kind, first, count);
        self.send(to, Some(call), Message::PushReply(reply));
    }

    fn push_reply_of(
        &self,
        code: PushCode,
        kind: PushName,
        first: Option<LogIndex>,
        count: u64,
    ) -> PushReply {
        let ledger = &self.ledger;
        let begins = ledger.last().is_some() || ledger.first() > LogIndex(0);
        PushReply {
            term: self.term,
            code,
            kind,
            request_term: self.term,
            first,
            count,
            known: None,
            begin: begins.then(|| ledger.first()),
            end: ledger.last_index(),
            written: self.follow.matched.min(ledger.written()),
            flushed: self.follow.matched.min(ledger.flushed()),
            life: self.config.life,
            provisional: self.provisional.is_some() && !planted!(self.config, P20),
        }
    }

    fn compare_push(&mut self, from: NodeId, call: CallId, id: EntryId, same: Option<bool>) {
        let kind = PushName::Compare;
        if self.peers.is_java(&from) && !planted!(self.config, P33) {
            self.forget_early();
        }
        let code = if self.cutting.is_some() {
            PushCode::PushRequestIsFull
        } else if self.holds(id, same) {
            self.follow.note_matched(id.index);
            if self.peers.is_java(&from) && !planted!(self.config, P32) {
                // Java takes this answer for an acknowledgement, too, as it has no marks to look at.
                let (first, count, last) = (id.index, 0, id.index);
                return self.answer_when_kept(Unanswered {
                    to: from,
                    call,
                    kind,
                    first,
                    count,
                    last,
                });
            }
            PushCode::Success
        } else {
            PushCode::InconsistentState
        };
        self.answer(from, call, (code, kind), Some((id.index, 0)));
    }

    /// Whether this log has the entry. What retention removed was committed, and so the leader's.
    pub(crate) fn holds(&self, id: EntryId, same: Option<bool>) -> bool {
        let removed = self.ledger.last().is_some() && id.index < self.ledger.first();
        removed || self.ledger.holds(id) && same != Some(false)
    }

    /// Takes entries that follow the log or lie in it; keeps those that come early.
    fn append_push(&mut self, from: NodeId, call: CallId, range: Range) {
        let last = range.last_index();
        let next = self.ledger.next_index();
        let bound = EntryId { term: self.term, index: last };
        if range.count == 0 || !describes(&range.terms, range.first, bound) {
            return self.refuse_append(from, call, &range, PushCode::InconsistentState);
        }
        if self.cutting.is_some() || range.first > next {
            return self.keep_early(from, call, range);
        }
        let fits = if range.first == next {
            self.follows_log(&range)
        } else {
            self.overlaps(&range, next)
        };
        if !fits {
            return self.refuse_append(from, call, &range, PushCode::InconsistentState);
        }
        if last < next {
            // A repeat is answered with what is known to be equal, not with an error.
            self.forget(&from, call, PushName::Append);
        } else {
            self.accept(&from, call, &range, next);
        }
        self.follow.note_matched(last);
        let (first, count) = (range.first, range.count);
        self.answer_when_kept(Unanswered {
            to: from,
            call,
            kind: PushName::Append,
            first,
            count,
            last,
        });
    }

    fn refuse_append(&mut self, from: NodeId, call: CallId, range: &Range, code: PushCode) {
        self.forget(&from, call, PushName::Append);
        self.answer(from, call, (code, PushName::Append), Some((range.first, range.count)));
    }

    /// Whether the first entry belongs behind this node's last. Java does not tell the entry before
    /// it: then the whole log must be known to be the leader's.
    fn follows_log(&self, range: &Range) -> bool {
        match (range.before, self.ledger.last()) {
            (Some(before), Some(last)) => before == last,
            (None, Some(last)) => self.follow.matched == Some(last.index),
            (Some(_) | None, None) => true,
        }
    }

    /// Whether the part that lies in this log already is equal. One term suffices: entries of one
    /// index and term are one entry, and so are all before them.
    fn overlaps(&self, range: &Range, next: LogIndex) -> bool {
        let upto = next.before().min(Some(range.last_index()));
        match upto {
            Some(upto) if self.ledger.last().is_some() => {
                upto < self.ledger.first()
                    || self.ledger.term_at(upto) == term_within(&range.terms, upto)
            }
            Some(_) | None => false,
        }
    }

    /// Appends what lies in the range from `next` on.
    fn accept(&mut self, from: &NodeId, call: CallId, range: &Range, next: LogIndex) {
        let end = range.last_index().plus(1);
        let begins = range.terms.iter().skip(1).map(|(_, begin)| *begin);
        let ends: Vec<LogIndex> = begins.chain(std::iter::once(end)).collect();
        for ((term, begin), end) in range.terms.iter().zip(ends) {
            let begin = (*begin).max(next);
            self.ledger.extend(*term, end.0.saturating_sub(begin.0));
        }
        self.outputs.push_back(Output::Accept {
            from: from.clone(),
            call,
            first: next,
            count: end.0 - next.0,
        });
    }

    /// Answers once this node keeps what the answer says.
    pub(crate) fn answer_when_kept(&mut self, answer: Unanswered) {
        if self.follow.unanswered.len() == UNANSWERED {
            // Its sender asks again.
            self.follow.unanswered.pop_front();
        }
        self.follow.unanswered.push_back(answer);
        self.answer_kept();
    }

    /// Answers what is kept by now.
    pub(crate) fn answer_kept(&mut self) {
        let kept = self.ledger.kept(self.policy_followed());
        while let Some(done) =
            self.follow.unanswered.pop_front_if(|waiting| Some(waiting.last) <= kept)
        {
            let range = Some((done.first, done.count));
            self.answer(done.to, done.call, (PushCode::Success, done.kind), range);
        }
    }

    fn keep_early(&mut self, from: NodeId, call: CallId, range: Range) {
        if let Some(old) = self.follow.early.remove(&range.first) {
            // The later one is a repeat, whose call is the one that is still waited for.
            self.follow.early_bytes -= old.range.bytes;
            self.forget(&old.from, old.call, PushName::Append);
        }
        let bytes = self.follow.early_bytes.saturating_add(range.bytes);
        if bytes > self.config.early_bytes || self.follow.early.len() >= EARLY {
            return self.refuse_append(from, call, &range, PushCode::PushRequestIsFull);
        }
        self.follow.early_bytes = bytes;
        let at = self.now;
        self.follow.early.insert(range.first, Early { from, call, range, at });
    }

    /// Takes what came early and follows now.
    pub(crate) fn take_early(&mut self) {
        while self.cutting.is_none()
            && let Some(entry) = self.follow.early.first_entry()
            && *entry.key() <= self.ledger.next_index()
        {
            let early = entry.remove();
            self.follow.early_bytes -= early.range.bytes;
            self.append_push(early.from, early.call, early.range);
        }
    }

    /// A Java leader that compares has given up all that it pushed before, and sends it again in other
    /// ranges. An answer to one of the old ones would move its mark to where none of the new ones
    /// begins, and it repeats only the range that begins behind its mark (`doCheckBatchAppendResponse`):
    /// what was lost on its way would come with the next append only. Java's followers forget them, too.
    fn forget_early(&mut self) {
        self.follow.early_bytes = 0;
        for early in std::mem::take(&mut self.follow.early).into_values() {
            self.forget(&early.from, early.call, PushName::Append);
        }
    }

    /// What waited long for those in front of it shows that this node lost some: COMPARE tells.
    pub(crate) fn expire_early(&mut self) {
        let now = self.now;
        let late: Vec<LogIndex> = self
            .follow
            .early
            .iter()
            .filter(|(_, early)| early.at.after(EARLY_MILLIS) <= now)
            .map(|(first, _)| *first)
            .collect();
        for first in late {
            let Some(early) = self.follow.early.remove(&first) else { continue };
            self.follow.early_bytes -= early.range.bytes;
            let code = PushCode::InconsistentState;
            self.refuse_append(early.from, early.call, &early.range, code);
        }
    }

    /// The commit index is the leader's, but never beyond what is known to be equal and is written.
    pub(crate) fn follow_commit(&mut self) {
        if self.role != Role::Follower {
            return;
        }
        let known = self.follow.matched.min(self.ledger.written());
        let upto = self.follow.leader_commit.min(known);
        #[cfg(feature = "planted")]
        let upto = self.planted_commit(upto, known);
        if let Some(upto) = upto {
            self.commit(upto);
            self.whole_under_java();
        }
    }

    #[cfg(feature = "planted")]
    fn planted_commit(
        &mut self,
        upto: Option<LogIndex>,
        written: Option<LogIndex>,
    ) -> Option<LogIndex> {
        if planted!(self.config, P19) {
            return written;
        }
        let leaders = self.follow.leader_commit;
        if planted!(self.config, P4)
            && leaders > self.ledger.committed()
            && let Some(upto) = leaders
        {
            self.ledger.force_commit(upto);
            self.outputs.push_back(Output::Committed { upto });
            return None;
        }
        upto
    }

    /// Entries from `from` on could not be written, and are not in the log.
    pub(crate) fn not_accepted(&mut self, from: LogIndex) {
        if from >= self.ledger.next_index() || self.ledger.committed() >= Some(from) {
            return;
        }
        self.ledger.cut(from);
        self.follow.matched = self.follow.matched.min(from.before());
        let waiting = std::mem::take(&mut self.follow.unanswered);
        for answer in waiting {
            if answer.last >= from {
                let range = Some((answer.first, answer.count));
                self.answer(answer.to, answer.call, (PushCode::DiskFull, answer.kind), range);
            } else {
                self.follow.unanswered.push_back(answer);
            }
        }
    }

    /// Follows nobody: what waits is dropped with an answer, so that nobody waits for it.
    pub(crate) fn stop_following(&mut self) {
        let follow = std::mem::take(&mut self.follow);
        for early in follow.early.into_values() {
            self.refuse_append(early.from, early.call, &early.range, PushCode::NotFollower);
        }
        for answer in follow.unanswered {
            let range = Some((answer.first, answer.count));
            self.answer(answer.to, answer.call, (PushCode::NotFollower, answer.kind), range);
        }
    }

    /// Whether this node follows `leader` in `term`.
    pub(crate) fn follows(&self, leader: &NodeId, term: Term) -> bool {
        self.role == Role::Follower && self.leader.as_ref() == Some(leader) && self.term == term
    }
}

/// How long a push waits for those in front of it (Java: `maxPushTimeOutMs`).
const EARLY_MILLIS: u64 = 1000;

/// Most pushes that wait for those in front of them.
pub(crate) const EARLY: usize = 1024;

/// Most answers that wait for the disk.
pub(crate) const UNANSWERED: usize = 4096;
