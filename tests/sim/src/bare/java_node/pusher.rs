//! `DLedgerEntryPusher.EntryDispatcher` and `QuorumAckChecker`: a leader's side of the log.

use std::collections::BTreeMap;

use dledger_core::{
    LogIndex, Message, NodeId, Output, Push, PushCode, PushKind, PushName, PushReply, Range, Role,
    Term,
};

use super::{JavaNode, Terms};

/// One follower of a leader.
#[derive(Debug)]
pub(super) struct Pusher {
    peer: NodeId,
    phase: Phase,
    /// The last entry that it is known to hold.
    mark: Option<u64>,
    /// First entry and time of each range in flight, and how many entries.
    pending: BTreeMap<u64, (u64, u64)>,
    next: u64,
    reads: Option<u64>,
    paused: u64,
    pushed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Compare { index: Option<u64>, sent: Option<u64> },
    Truncate { index: u64, sent: Option<u64> },
    Append,
}

/// What a dispatcher wants next.
enum Step {
    Read { from: u64, last: u64 },
    Push(PushKind),
}

impl Pusher {
    pub(super) fn new(peer: NodeId) -> Self {
        Self {
            peer,
            phase: Phase::Compare { index: None, sent: None },
            mark: None,
            pending: BTreeMap::new(),
            next: 0,
            reads: None,
            paused: 0,
            pushed: 0,
        }
    }

    fn compare(&mut self) {
        self.phase = Phase::Compare { index: None, sent: None };
        self.pending.clear();
        self.reads = None;
    }

    pub(super) fn due(&self, now: u64, log: &Terms) -> u64 {
        let due = match self.phase {
            Phase::Compare { .. } if log.terms.is_empty() => u64::MAX,
            Phase::Compare { sent, .. } | Phase::Truncate { sent, .. } => {
                sent.map_or(now, |sent| sent + ANSWER_MILLIS)
            }
            Phase::Append => self.again().map_or(u64::MAX, |(_, _, sent)| sent + PUSH_MILLIS),
        };
        due.min(self.pushed + IDLE_MILLIS).max(self.paused)
    }

    /// The range behind the mark, where it is in flight.
    fn again(&self) -> Option<(u64, u64, u64)> {
        let first = self.mark.map_or(0, |mark| mark + 1);
        self.pending.get(&first).map(|(count, sent)| (first, *count, *sent))
    }

    fn step(&mut self, now: u64, log: &Terms) -> Option<Step> {
        if now < self.paused {
            return None;
        }
        let end = log.end()?.0;
        match &mut self.phase {
            Phase::Compare { sent: Some(sent), .. } | Phase::Truncate { sent: Some(sent), .. } => {
                if now >= *sent + ANSWER_MILLIS {
                    self.compare();
                    self.paused = now + PAUSE_MILLIS;
                }
                None
            }
            Phase::Compare { index, sent } => {
                let at = index.filter(|at| log.term(*at).is_some()).unwrap_or(end);
                (*index, *sent) = (Some(at), Some(now));
                let id = log.id(at)?;
                Some(Step::Push(PushKind::Compare { id, same: None }))
            }
            Phase::Truncate { index, sent } => {
                *sent = Some(now);
                let Some(id) = log.id(*index) else {
                    self.compare();
                    return None;
                };
                let (position, same, next_term) = (0, None, None);
                Some(Step::Push(PushKind::Truncate { id, position, same, next_term }))
            }
            Phase::Append => self.append_step(now, log, end),
        }
    }

    fn append_step(&mut self, now: u64, log: &Terms, end: u64) -> Option<Step> {
        if self.reads.is_some() {
            return None;
        }
        if self.next < log.first {
            self.compare();
            return None;
        }
        let caught_up = self.next > end || self.pending.len() >= PENDING;
        if !caught_up {
            self.reads = Some(self.next);
            return Some(Step::Read { from: self.next, last: end });
        }
        if let Some(mark) = self.mark {
            self.pending.retain(|first, (count, _)| first + *count > mark + 1);
        }
        if let Some((first, count, sent)) = self.again()
            && now >= sent + PUSH_MILLIS
        {
            if log.term(first).is_none() {
                self.compare();
                return None;
            }
            self.reads = Some(first);
            return Some(Step::Read { from: first, last: first + count - 1 });
        }
        (now >= self.pushed + IDLE_MILLIS).then_some(Step::Push(PushKind::Commit))
    }

    /// What an answer to a COMPARE means.
    fn compared(&mut self, reply: &PushReply, log: &Terms, now: u64) {
        let Phase::Compare { index: Some(index), sent: Some(_) } = self.phase else { return };
        if reply.first != Some(LogIndex(index)) {
            return;
        }
        let (begin, own_end) = (log.first, log.end().map(|end| end.0));
        let (their_begin, end) = (reply.begin.map(|at| at.0), reply.end.map(|at| at.0));
        let next = match reply.code {
            PushCode::Success if end == Some(index) => {
                self.mark = self.mark.max(Some(index));
                self.next = index + 1;
                self.phase = Phase::Append;
                return;
            }
            PushCode::Success => Err(index),
            PushCode::InconsistentState
                if end.is_some_and(|end| end < begin) || their_begin > own_end =>
            {
                Err(begin)
            }
            PushCode::InconsistentState if Some(index) < their_begin => Err(begin),
            PushCode::InconsistentState if Some(index) > end => end.ok_or(begin),
            PushCode::InconsistentState => index.checked_sub(1).ok_or(begin),
            _ => {
                self.compare();
                self.paused = now + PAUSE_MILLIS;
                return;
            }
        };
        self.phase = match next {
            Ok(index) if index >= begin => Phase::Compare { index: Some(index), sent: None },
            Ok(_) => Phase::Truncate { index: begin, sent: None },
            Err(index) => Phase::Truncate { index, sent: None },
        };
    }

    fn truncated(&mut self, reply: &PushReply, now: u64) {
        let Phase::Truncate { index, sent: Some(_) } = self.phase else { return };
        if reply.first != Some(LogIndex(index)) {
            return;
        }
        if reply.code == PushCode::Success {
            self.mark = self.mark.max(Some(index));
            self.next = index + 1;
            self.phase = Phase::Append;
        } else {
            self.compare();
            self.paused = now + PAUSE_MILLIS;
        }
    }

    fn appended(&mut self, reply: &PushReply) {
        let Some(first) = reply.first else { return };
        match reply.code {
            PushCode::Success => {
                self.pending.remove(&first.0);
                self.mark = self.mark.max(Some(first.0 + reply.count.saturating_sub(1)));
            }
            PushCode::InconsistentState if self.phase == Phase::Append => self.compare(),
            _ => {}
        }
    }
}

impl JavaNode {
    pub(super) fn push_on(&mut self) {
        let mut pushers = std::mem::take(&mut self.pushers);
        for pusher in &mut pushers {
            while let Some(step) = pusher.step(self.now, &self.log) {
                match step {
                    Step::Read { from, last } => {
                        let (peer, from) = (pusher.peer.clone(), LogIndex(from));
                        let (max_bytes, last) = (PUSH_BYTES, LogIndex(last));
                        self.outputs.push_back(Output::ReadRange { peer, from, max_bytes, last });
                    }
                    Step::Push(kind) => {
                        pusher.pushed = self.now;
                        self.send_push(pusher.peer.clone(), kind);
                    }
                }
            }
        }
        self.pushers = pushers;
    }

    fn send_push(&mut self, to: NodeId, kind: PushKind) {
        let commit = self.committed.map(LogIndex);
        let push = Push { term: self.term(), commit, whole: None, known: None, kind };
        self.say(to, None, Message::Push(push));
    }

    pub(super) fn range_read(&mut self, peer: &NodeId, first: LogIndex, count: u64) {
        let (now, log) = (self.now, &self.log);
        let Some(pusher) = self.pushers.iter_mut().find(|pusher| pusher.peer == *peer) else {
            return;
        };
        let asked = pusher.reads.take() == Some(first.0) && pusher.phase == Phase::Append;
        if !asked || log.term(first.0 + count - 1).is_none() {
            return;
        }
        pusher.pending.insert(first.0, (count, now));
        pusher.next = pusher.next.max(first.0 + count);
        pusher.pushed = now;
        let mut terms: Vec<(Term, LogIndex)> = Vec::new();
        for index in first.0..first.0 + count {
            let term = Term(log.term(index).unwrap_or(0));
            if terms.last().is_none_or(|(last, _)| *last != term) {
                terms.push((term, LogIndex(index)));
            }
        }
        let bytes = count * u64::from(super::super::ENTRY_BYTES);
        let range = Range { before: None, first, count, terms, bytes };
        self.send_push(peer.clone(), PushKind::Append(range));
    }

    pub(super) fn range_lost(&mut self, peer: &NodeId) {
        if let Some(pusher) = self.pushers.iter_mut().find(|pusher| pusher.peer == *peer) {
            pusher.compare();
            pusher.paused = self.now + PAUSE_MILLIS;
        }
    }

    pub(super) fn push_reply(&mut self, from: &NodeId, reply: &PushReply) {
        if reply.request_term != self.term() {
            return;
        }
        let (now, log) = (self.now, &self.log);
        let Some(pusher) = self.pushers.iter_mut().find(|pusher| pusher.peer == *from) else {
            return;
        };
        match reply.kind {
            PushName::Compare => pusher.compared(reply, log, now),
            PushName::Truncate => pusher.truncated(reply, now),
            PushName::Append => pusher.appended(reply),
            PushName::Commit => {}
        }
    }

    /// What a majority holds is committed, where it is of this term: see above what is left out.
    pub(super) fn commit_acknowledged(&mut self) {
        if self.elector.role != Role::Leader {
            return;
        }
        let mut marks: Vec<Option<u64>> = self.pushers.iter().map(|pusher| pusher.mark).collect();
        marks.push(self.log.end().map(|end| end.0));
        marks.sort_unstable_by(|a, b| b.cmp(a));
        let by_all = marks.last().copied().flatten();
        let by_most = marks.get(marks.len() / 2).copied().flatten();
        let of_term = by_most.filter(|index| self.log.term(*index) == Some(self.elector.term));
        if let Some(index) = of_term.max(by_all) {
            self.commit(index);
        }
    }
}

/// How long an answer to COMPARE or TRUNCATE is waited for.
const ANSWER_MILLIS: u64 = 3000;

/// How long a dispatcher rests after something went wrong.
const PAUSE_MILLIS: u64 = 500;

/// A range without an answer is sent again after this.
const PUSH_MILLIS: u64 = 1000;

/// A follower to which nothing was sent for so long is told the commit index.
const IDLE_MILLIS: u64 = 1000;

/// Most ranges in flight to one follower.
const PENDING: usize = 20;

/// Most bytes of a range.
const PUSH_BYTES: u64 = 5 * super::super::ENTRY_BYTES as u64;
