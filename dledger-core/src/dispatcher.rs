//! One follower as its leader sees it (Java: `DLedgerEntryPusher.EntryDispatcher`).
//!
//! ```text
//!            end of the log or a gap that does not close
//!      +--------------------------------------------------+
//!      v                                                  |
//!   COMPARE --- nothing equal, or its end differs --> TRUNCATE --> APPEND <--> COMMIT when idle
//!      |                                                            ^
//!      +------------------- its end is equal -----------------------+
//! ```

use std::collections::VecDeque;

use crate::{
    codes::{PushCode, Verdict},
    config::{Config, planted},
    leader::{KnownLife, Progress},
    ledger::Ledger,
    message::{PushKind, PushName, PushReply, Range},
    record::Event,
    search::{Found, Search},
    standing::Standing,
    types::{EntryId, Life, LogIndex, Millis, NodeId, Policy, Term},
};

/// The leader's state for one follower.
#[derive(Debug)]
pub(crate) struct EntryDispatcher {
    pub(crate) peer: NodeId,
    phase: Phase,
    /// The next entry to be read for it.
    next: LogIndex,
    written: Option<LogIndex>,
    flushed: Option<LogIndex>,
    in_flight: VecDeque<InFlight>,
    in_flight_bytes: u64,
    /// What the engine was asked to read, and has not given.
    reading: Option<Reading>,
    /// Nothing is sent before.
    paused: Millis,
    /// When it was last sent anything.
    pushed: Millis,
    /// The commit index that it was told last.
    told: Option<LogIndex>,
    standing: Standing,
    pub(crate) life: KnownLife,
    /// When it was last heard of.
    pub(crate) heard: Millis,
    /// Its connection was lost, and it has not answered since.
    pub(crate) gone: bool,
    pub(crate) healthy: bool,
    pub(crate) roomy: bool,
    /// The last round of heartbeats that it confirmed.
    pub(crate) confirmed: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Compare { search: Search, sent: Option<Millis> },
    Truncate { id: EntryId, next_term: Option<Term>, sent: Option<Millis> },
    Append,
}

#[derive(Debug, Clone, Copy)]
struct InFlight {
    first: LogIndex,
    last: LogIndex,
    bytes: u64,
    sent: Millis,
    /// How often it was sent.
    tries: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reading {
    first: LogIndex,
    again: bool,
}

/// What a dispatcher may look at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) config: &'a Config,
    pub(crate) now: Millis,
    /// The follower is a Java member.
    pub(crate) java: bool,
    pub(crate) push_wait: u64,
}

/// What a dispatcher wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Read { from: LogIndex, max_bytes: u64, last: LogIndex },
    Push(PushKind),
}

impl EntryDispatcher {
    pub(crate) fn new(peer: NodeId, now: Millis, ledger: &Ledger) -> Self {
        Self {
            peer,
            phase: Phase::Compare { search: Search::new(ledger, None), sent: None },
            next: ledger.next_index(),
            written: None,
            flushed: None,
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
            reading: None,
            paused: now,
            pushed: now,
            told: None,
            standing: Standing::Firm,
            life: None,
            heard: now,
            gone: false,
            healthy: true,
            roomy: true,
            confirmed: 0,
        }
    }

    /// Begins anew: nothing is in flight any more. What it acknowledged stays acknowledged.
    pub(crate) fn compare(&mut self, ledger: &Ledger, end: Option<LogIndex>) {
        self.phase = Phase::Compare { search: Search::new(ledger, end), sent: None };
        self.in_flight.clear();
        self.in_flight_bytes = 0;
        self.told = None;
    }

    /// The last entry that it is known to have written.
    pub(crate) fn matched(&self) -> Option<LogIndex> {
        self.written
    }

    pub(crate) fn is_provisional(&self) -> bool {
        self.standing.is_provisional()
    }

    /// Whom to tell that it holds all again.
    pub(crate) fn whole(&self) -> Option<Life> {
        if self.standing == Standing::Whole { self.life } else { None }
    }

    /// Up to where its word counts for a commit.
    pub(crate) fn vouched(&self, java: bool, config: &Config) -> Option<LogIndex> {
        let mark = match config.policy {
            Policy::Written => self.written,
            Policy::Flushed if java => self.written.filter(|_| config.count_java_acks),
            Policy::Flushed => self.flushed,
        };
        self.standing.counts(mark)
    }

    /// How many pushes are on their way, and their bytes.
    pub(crate) fn in_flight(&self) -> (usize, u64) {
        (self.in_flight.len(), self.in_flight_bytes)
    }

    pub(crate) fn progress(&self, now: Millis) -> Progress {
        Progress {
            peer: self.peer.clone(),
            written: self.written,
            flushed: self.flushed,
            in_flight: self.in_flight_bytes,
            silent: now.since(self.heard),
            healthy: self.healthy,
            provisional: self.is_provisional(),
        }
    }

    /// When something is to be sent, if nothing happens before.
    pub(crate) fn due(&self, push_wait: u64) -> Millis {
        let at = match &self.phase {
            Phase::Compare { sent, .. } | Phase::Truncate { sent, .. } => {
                sent.map_or(self.paused, |sent| sent.after(push_wait))
            }
            Phase::Append if self.reading.is_some() => Millis(u64::MAX),
            Phase::Append => match self.in_flight.front() {
                Some(front) => front.sent.after(push_wait),
                None => self.pushed.after(IDLE_MILLIS),
            },
        };
        at.max(self.paused)
    }

    /// The next thing to be done.
    pub(crate) fn poll(&mut self, view: &View<'_>) -> Option<Step> {
        if view.now < self.paused {
            return None;
        }
        let kind = match &mut self.phase {
            Phase::Append => return self.poll_append(view),
            Phase::Compare { sent: Some(sent), .. } | Phase::Truncate { sent: Some(sent), .. }
                if view.now < sent.after(view.push_wait) =>
            {
                return None;
            }
            Phase::Compare { search, sent } => match search.found() {
                Found::Probe(index) => {
                    *sent = Some(view.now);
                    let id = view.ledger.id_at(index);
                    let Some(id) = id else {
                        // Retention took the front of the log meanwhile.
                        self.compare(view.ledger, None);
                        return self.poll(view);
                    };
                    PushKind::Compare { id, same: None }
                }
                Found::Match(index) => return self.cut_behind(Some(index), view),
                Found::Nothing => return self.cut_behind(None, view),
            },
            Phase::Truncate { id, next_term, sent } => {
                *sent = Some(view.now);
                PushKind::Truncate { id: *id, position: 0, same: None, next_term: *next_term }
            }
        };
        self.pushed = view.now;
        Some(Step::Push(kind))
    }

    /// The search is over: what the follower has behind `index` (or all it has) is to go.
    fn cut_behind(&mut self, index: Option<LogIndex>, view: &View<'_>) -> Option<Step> {
        let index = index.unwrap_or_else(|| {
            self.standing = Standing::Firm;
            self.written = None;
            self.flushed = None;
            view.ledger.first()
        });
        let Some(id) = view.ledger.id_at(index) else {
            self.compare(view.ledger, None);
            self.paused = view.now.after(view.push_wait);
            return None;
        };
        let next_term = view.ledger.term_at(index.plus(1));
        self.phase = Phase::Truncate { id, next_term, sent: None };
        self.poll(view)
    }

    fn poll_append(&mut self, view: &View<'_>) -> Option<Step> {
        if self.reading.is_some() {
            return None;
        }
        if let Some(front) = self.in_flight.front()
            && view.now >= front.sent.after(view.push_wait)
        {
            return self.send_again(*front, view);
        }
        let written = view.ledger.written();
        let limit = view.config.push_bytes.min(if view.java { JAVA_PUSH_BYTES } else { u64::MAX });
        let has_more = written.is_some_and(|written| self.next <= written);
        let window = view.config.window_bytes;
        // Not for crumbs: it waits until a push of some size fits.
        let has_room = self.in_flight_bytes.saturating_add(limit.min(window / 4)) <= window
            && self.in_flight.len() < IN_FLIGHT_PUSHES;
        if let Some(last) = written.filter(|_| has_more && has_room) {
            if self.next < view.ledger.first() {
                self.compare(view.ledger, None);
                return self.poll(view);
            }
            self.reading = Some(Reading { first: self.next, again: false });
            let room = window.saturating_sub(self.in_flight_bytes);
            return Some(Step::Read { from: self.next, max_bytes: limit.min(room), last });
        }
        let idle = self.in_flight.is_empty() && !has_more;
        let commit = view.ledger.committed();
        let news = self.told < commit || view.now >= self.pushed.after(IDLE_MILLIS);
        if !(idle && news) {
            return None;
        }
        self.told = commit;
        self.pushed = view.now;
        Some(Step::Push(PushKind::Commit))
    }

    /// Limited retransmission: the oldest range only, and after some tries COMPARE finds out what
    /// the follower has.
    fn send_again(&mut self, front: InFlight, view: &View<'_>) -> Option<Step> {
        if front.tries >= TRIES || front.first < view.ledger.first() {
            self.compare(view.ledger, None);
            return self.poll(view);
        }
        self.reading = Some(Reading { first: front.first, again: true });
        Some(Step::Read { from: front.first, max_bytes: front.bytes, last: front.last })
    }

    /// The engine keeps what it was asked for: `(first, count, bytes)`.
    pub(crate) fn range_read(
        &mut self,
        (first, count, bytes): (LogIndex, u64, u64),
        now: Millis,
        ledger: &Ledger,
    ) -> Option<Range> {
        let reading = self.reading.filter(|reading| reading.first == first)?;
        self.reading = None;
        let last = first.plus(count.checked_sub(1)?);
        if self.phase != Phase::Append || ledger.term_at(last).is_none() {
            return None;
        }
        if reading.again {
            let front = self.in_flight.front_mut().filter(|front| front.first == first)?;
            front.sent = now;
            front.tries += 1;
        } else {
            if self.next != first {
                return None;
            }
            self.in_flight.push_back(InFlight { first, last, bytes, sent: now, tries: 1 });
            self.in_flight_bytes += bytes;
            self.next = last.plus(1);
        }
        self.pushed = now;
        self.told = ledger.committed();
        let before = first.before().and_then(|before| ledger.id_at(before));
        Some(Range { before, first, count, terms: ledger.terms_within(first, last), bytes })
    }

    pub(crate) fn range_lost(&mut self, from: LogIndex, until: Millis, ledger: &Ledger) {
        if self.reading.is_some_and(|reading| reading.first == from) {
            self.reading = None;
            self.paused = until;
            self.compare(ledger, None);
        }
    }

    /// Takes an answer. `least` is what a follower must hold to count again if it held less than it
    /// acknowledged.
    pub(crate) fn push_reply(
        &mut self,
        reply: &PushReply,
        least: Option<LogIndex>,
        view: &View<'_>,
    ) -> Option<Event> {
        let restarted = self.life.is_some_and(|life| life != reply.life);
        if restarted && reply.known != self.life {
            // Lives have no order. Only what was sent after one was heard of reaches none before it.
            return None;
        }
        self.heard = view.now;
        self.gone = false;
        if restarted {
            // What is in flight is gone, and perhaps more than that.
            self.standing = Standing::Firm;
            self.written = None;
            self.flushed = None;
            self.compare(view.ledger, None);
        }
        self.life = Some(reply.life);
        let event = self.stand(reply.provisional, least);
        match reply.kind {
            PushName::Compare => self.compared(reply, view),
            PushName::Truncate => self.truncated(reply, view),
            PushName::Append => self.appended(reply, view),
            PushName::Commit => self.note_marks(reply, view),
        }
        let behind = reply.kind == PushName::Commit
            && reply.code == PushCode::Success
            && self.phase == Phase::Append
            && reply.end < self.written;
        if behind {
            // It lost what it had, without any new entry to show it.
            self.compare(view.ledger, reply.end);
        }
        self.settle(view).or(event)
    }

    /// Follows what it says of itself.
    fn stand(&mut self, provisional: bool, least: Option<LogIndex>) -> Option<Event> {
        if !self.standing.told(provisional, least) {
            return None;
        }
        // What it acknowledged may be gone.
        self.written = None;
        self.flushed = None;
        Some(Event::Provisional { node: Some(self.peer.clone()), cause: None })
    }

    fn settle(&mut self, view: &View<'_>) -> Option<Event> {
        if !self.is_provisional() || self.vouched(view.java, view.config).is_none() {
            return None;
        }
        self.standing = Standing::Whole;
        // It is told at once.
        self.told = None;
        Some(Event::Whole { node: Some(self.peer.clone()) })
    }

    fn compared(&mut self, reply: &PushReply, view: &View<'_>) {
        let Phase::Compare { search, sent } = &mut self.phase else { return };
        if !search.awaits(reply.first) {
            return;
        }
        let equal = match reply.code.verdict() {
            Verdict::Done => true,
            Verdict::Differs => false,
            Verdict::Known | Verdict::NotNow => return self.pause(view),
        };
        *sent = None;
        search.answered(equal, reply.end, view.ledger.first());
        let found = search.found();
        if equal {
            self.note_marks(reply, view);
        }
        match found {
            Found::Match(index) if reply.end == Some(index) => self.append_from(index.plus(1)),
            // A new log needs nothing to be cut, unless it would begin elsewhere.
            Found::Nothing
                if reply.end.is_none()
                    && reply.begin.is_none()
                    && view.ledger.first() == LogIndex(0)
                    && !view.java =>
            {
                self.append_from(LogIndex(0));
            }
            Found::Match(_) | Found::Nothing | Found::Probe(_) => {}
        }
    }

    fn truncated(&mut self, reply: &PushReply, view: &View<'_>) {
        let Phase::Truncate { id, .. } = &self.phase else { return };
        if reply.first != Some(id.index) {
            return;
        }
        let index = id.index;
        if reply.code != PushCode::Success {
            self.compare(view.ledger, None);
            self.pause(view);
            return;
        }
        self.note_marks(reply, view);
        self.append_from(if reply.end >= Some(index) { index.plus(1) } else { index });
    }

    fn append_from(&mut self, index: LogIndex) {
        self.phase = Phase::Append;
        self.next = index;
        self.told = None;
    }

    fn appended(&mut self, reply: &PushReply, view: &View<'_>) {
        let of_this = self.in_flight.iter().any(|sent| Some(sent.first) == reply.first);
        match reply.code.verdict() {
            Verdict::Done => {
                self.note_marks(reply, view);
                self.in_flight.retain(|sent| {
                    let done = Some(sent.first) == reply.first || Some(sent.last) <= reply.written;
                    if done {
                        self.in_flight_bytes = self.in_flight_bytes.saturating_sub(sent.bytes);
                    }
                    !done
                });
            }
            Verdict::Differs if of_this => self.compare(view.ledger, reply.end),
            Verdict::NotNow if of_this => {
                self.compare(view.ledger, None);
                self.pause(view);
            }
            Verdict::Known | Verdict::Differs | Verdict::NotNow => {}
        }
    }

    /// A follower speaks for what is the leader's, too: never for more than the leader has.
    fn note_marks(&mut self, reply: &PushReply, view: &View<'_>) {
        let end = view.ledger.last_index();
        if reply.code != PushCode::Success || reply.written > end || reply.flushed > reply.written {
            return;
        }
        let mut written = reply.written;
        if view.java && matches!(reply.kind, PushName::Compare | PushName::Truncate) {
            // A Java member tells the entry and no mark.
            written = written.max(reply.first).min(end);
        }
        self.written = self.written.max(written);
        self.flushed = self.flushed.max(reply.flushed);
        if planted!(view.config, P8) {
            self.written = self.written.max(reply.end.min(end));
            self.flushed = self.flushed.max(reply.end.min(end));
        }
    }

    fn pause(&mut self, view: &View<'_>) {
        self.paused = view.now.after(view.push_wait);
        match &mut self.phase {
            Phase::Compare { sent, .. } | Phase::Truncate { sent, .. } => *sent = None,
            Phase::Append => {}
        }
    }
}

/// Without other news a follower is told the commit index this often, and tells its end (Java: the
/// same time in `doCommit`).
pub(crate) const IDLE_MILLIS: u64 = 1000;

/// Most pushes in flight to one follower, however small.
pub(crate) const IN_FLIGHT_PUSHES: usize = 256;

/// How often a range is sent before the logs are compared.
const TRIES: u32 = 4;

/// Most bytes of a push in JSON, where each byte takes four thirds.
const JAVA_PUSH_BYTES: u64 = 256 * 1024;
