//! What a leader keeps.

use std::collections::VecDeque;

use crate::{
    config::planted,
    dispatcher::{EntryDispatcher, Step, View},
    io::{Append, Output, Refusal},
    ledger::Ledger,
    message::{Message, Push, PushKind, PushReply},
    node::Node,
    quorum::MEMBERS,
    record::{Event, StepDown},
    round::{ParseResult, Round},
    transfer::Transfer,
    types::{CallId, Life, LogIndex, Millis, NodeId, Role, Term},
};

/// The leader's side of replication.
#[derive(Debug)]
pub(crate) struct Lead {
    pub(crate) opening: Opening,
    pub(crate) dispatchers: Vec<EntryDispatcher>,
    pub(crate) heartbeat_due: Millis,
    /// Number of the last round of heartbeats.
    pub(crate) round: u64,
    /// Since when own entries wait for the disk.
    pub(crate) stalled: Option<Millis>,
    /// How far they were durable when that was last looked at.
    pub(crate) durable: Option<LogIndex>,
    pub(crate) transfer: Option<Transfer>,
    /// When a preferred leader is looked for.
    pub(crate) preferred_due: Millis,
    /// How often in a row that failed.
    pub(crate) preferred_fails: u32,
    /// Who is to lead in this node's place, where its owner hands the lead over.
    pub(crate) advised: Option<NodeId>,
    /// Questions that wait for the round that is named.
    pub(crate) reads: VecDeque<(CallId, u64)>,
    /// The last entry and the bytes of each proposal that is not committed.
    pending: VecDeque<(LogIndex, u64)>,
    pending_bytes: u64,
}

/// The entry by which this leader opened its term: nothing before it is committed on its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opening {
    pub(crate) first: LogIndex,
}

/// How a follower gets on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Which one.
    pub peer: NodeId,
    /// The last entry that it has written and that is the leader's, too.
    pub written: Option<LogIndex>,
    /// The last of them that it has made durable, as far as it tells.
    pub flushed: Option<LogIndex>,
    /// Bytes in flight to it.
    pub in_flight: u64,
    /// Milliseconds since it was heard of.
    pub silent: u64,
    /// Its disk takes appends.
    pub healthy: bool,
    /// It may lack what it once acknowledged.
    pub provisional: bool,
}

impl Lead {
    /// How many proposals are not committed, and their bytes.
    pub(crate) fn waiting(&self) -> (usize, u64) {
        (self.pending.len(), self.pending_bytes)
    }

    /// When the last member of a majority was heard of.
    pub(crate) fn quorum_heard(&self) -> Millis {
        let mut heard = [Millis(0); MEMBERS];
        for (slot, peer) in heard.iter_mut().zip(&self.dispatchers) {
            *slot = peer.heard;
        }
        heard.sort_unstable_by(|a, b| b.cmp(a));
        // The leader itself is one member of the majority.
        let members = self.dispatchers.len() + 1;
        let needed = (members / 2).checked_sub(1);
        needed.and_then(|nth| heard.get(nth)).copied().unwrap_or(Millis(u64::MAX))
    }

    pub(crate) fn dispatcher(&mut self, peer: &NodeId) -> Option<&mut EntryDispatcher> {
        self.dispatchers.iter_mut().find(|dispatcher| dispatcher.peer == *peer)
    }

    pub(crate) fn connection_lost(&mut self, peer: &NodeId, ledger: &Ledger) {
        if let Some(dispatcher) = self.dispatcher(peer) {
            dispatcher.compare(ledger, None);
            dispatcher.gone = true;
        }
    }

    pub(crate) fn note_committed(&mut self, upto: LogIndex) {
        while let Some((_, bytes)) = self.pending.pop_front_if(|(last, _)| *last <= upto) {
            self.pending_bytes -= bytes;
        }
    }

    fn withdraw(&mut self, from: LogIndex) {
        while let Some((_, bytes)) = self.pending.pop_back_if(|(last, _)| *last >= from) {
            self.pending_bytes -= bytes;
        }
    }
}

impl Node {
    /// Won the round: leads, and writes the entry that opens the term.
    pub(crate) fn lead(&mut self, round: &Round) {
        self.role = Role::Leader;
        self.leader = Some(self.self_id());
        let opening = Opening { first: self.ledger.next_index() };
        let dispatchers = self
            .peers
            .ids()
            .map(|peer| EntryDispatcher::new(peer.clone(), self.now, &self.ledger))
            .collect();
        self.lead = Some(Lead {
            opening,
            dispatchers,
            heartbeat_due: self.now,
            round: 0,
            stalled: None,
            durable: self.ledger.flushed(),
            transfer: None,
            preferred_due: self.now.after(PREFERRED_MILLIS),
            preferred_fails: 0,
            advised: None,
            reads: VecDeque::new(),
            pending: VecDeque::new(),
            pending_bytes: 0,
        });
        self.announce();
        self.note_elected(round);
        self.taking_succeeded();
        if !planted!(self.config, P9) {
            self.append(1, true);
        }
        self.open_compares();
        self.send_heartbeats();
    }

    /// Comparing begins at the end of the log, the opening entry in it.
    fn open_compares(&mut self) {
        if let Some(lead) = &mut self.lead {
            for dispatcher in &mut lead.dispatchers {
                dispatcher.compare(&self.ledger, None);
            }
        }
    }

    pub(crate) fn leader_tick(&mut self) {
        self.check_quorum();
        self.check_own_disk();
        self.check_transfer();
        self.look_for_better();
        self.send_heartbeats();
    }

    /// Leads no more: what waits for it is told.
    pub(crate) fn stop_leading(&mut self) {
        let Some(lead) = self.lead.take() else { return };
        let cause = Refusal::NotLeader { term: self.term, leader: self.leader.clone() };
        for (call, _) in lead.reads {
            self.outputs.push_back(Output::ReadIndex { call, answer: Err(cause.clone()) });
        }
        if let Some(transfer) = lead.transfer {
            self.hand_over(transfer);
        }
    }

    pub(crate) fn propose(&mut self, count: u64, bytes: u64) {
        if let Err(cause) = self.admits(count, bytes) {
            self.outputs.push_back(Output::Refused { cause });
            return;
        }
        self.append(count, false);
        if let Some((lead, last)) = self.lead.as_mut().zip(self.ledger.last_index()) {
            lead.pending.push_back((last, bytes));
            lead.pending_bytes += bytes;
        }
    }

    fn admits(&self, count: u64, bytes: u64) -> Result<(), Refusal> {
        let Some(lead) = &self.lead else {
            return Err(Refusal::NotLeader { term: self.term, leader: self.leader.clone() });
        };
        if let Some(transfer) = &lead.transfer {
            return Err(Refusal::Transferring { to: transfer.to.clone() });
        }
        let (entries, waiting) = self.pending();
        let full = !lead.pending.is_empty()
            && (entries.saturating_add(count) > self.config.pending_entries
                || waiting.saturating_add(bytes) > self.config.pending_bytes);
        // A group of one waits for its own disk only, which its engine does not run ahead of.
        if full && self.config.members.len() > 1 {
            return Err(Refusal::PendingFull { entries, bytes: waiting });
        }
        Ok(())
    }

    /// Entries, and their bytes, that this leader appended and that are not committed.
    #[must_use]
    pub fn pending(&self) -> (u64, u64) {
        let Some(lead) = &self.lead else { return (0, 0) };
        let end = self.ledger.next_index().0;
        let committed = self.ledger.committed().map_or(0, |index| index.0 + 1);
        (end.saturating_sub(committed), lead.pending_bytes)
    }

    pub(crate) fn append(&mut self, count: u64, opening: bool) {
        let first = self.ledger.next_index();
        self.ledger.extend(self.term, count);
        let append = Append { first, count, term: self.term, opening };
        self.outputs.push_back(Output::Append(append));
        if let Some(lead) = &mut self.lead {
            lead.stalled.get_or_insert(self.now);
        }
    }

    /// An append of the leader failed cleanly: its indexes are free again. Nothing of it was
    /// counted, as [`crate::Input::Written`] never came.
    pub(crate) fn withdraw(&mut self, from: LogIndex) {
        let Some(lead) = &mut self.lead else { return };
        let opening = lead.opening.first;
        if from < opening || from >= self.ledger.next_index() {
            return;
        }
        lead.withdraw(from);
        self.ledger.cut(from);
        if from == opening {
            // Without its opening entry a leader commits nothing: it gives up the term.
            let next_time = self.now.after(RETRY_MILLIS);
            self.become_candidate(StepDown::NotOpened, ParseResult::WaitToVoteNext, next_time);
        }
    }

    /// Lets every dispatcher send what it can.
    pub(crate) fn dispatch(&mut self) {
        let Some(mut lead) = self.lead.take() else { return };
        let java_dialect = self.peers.java_dialect();
        let timings = self.timings();
        for dispatcher in &mut lead.dispatchers {
            let view = View {
                ledger: &self.ledger,
                config: &self.config,
                now: self.now,
                java: java_dialect && self.peers.is_java(&dispatcher.peer),
                push_wait: timings.push_wait,
            };
            while let Some(step) = dispatcher.poll(&view) {
                let output = match step {
                    Step::Read { from, max_bytes, last } => {
                        Output::ReadRange { peer: dispatcher.peer.clone(), from, max_bytes, last }
                    }
                    Step::Push(kind) => {
                        push(dispatcher, (self.term, self.ledger.committed()), kind)
                    }
                };
                self.outputs.push_back(output);
            }
        }
        self.lead = Some(lead);
    }

    pub(crate) fn range_read(&mut self, peer: &NodeId, first: LogIndex, count: u64, bytes: u64) {
        let Some(lead) = &mut self.lead else { return };
        let now = self.now;
        let Some(dispatcher) = lead.dispatcher(peer) else { return };
        let Some(range) = dispatcher.range_read((first, count, bytes), now, &self.ledger) else {
            return;
        };
        let output =
            push(dispatcher, (self.term, self.ledger.committed()), PushKind::Append(range));
        self.outputs.push_back(output);
    }

    pub(crate) fn range_lost(&mut self, peer: &NodeId, from: LogIndex) {
        let (now, wait) = (self.now, self.timings().push_wait);
        if let Some(lead) = &mut self.lead
            && let Some(dispatcher) = lead.dispatcher(peer)
        {
            dispatcher.range_lost(from, now.after(wait), &self.ledger);
        }
    }

    pub(crate) fn push_reply(&mut self, from: &NodeId, reply: &PushReply) {
        if reply.term > self.term {
            self.adopt_term(reply.term);
            return;
        }
        if reply.request_term != self.term && !planted!(self.config, P8) {
            return;
        }
        let java = self.peers.is_java(from);
        let view = View {
            ledger: &self.ledger,
            config: &self.config,
            now: self.now,
            java,
            push_wait: if java { 1000 } else { self.config.timings.push_wait },
        };
        let Some(lead) = &mut self.lead else { return };
        let least = self.ledger.committed().max(Some(lead.opening.first));
        let Some(dispatcher) = lead.dispatchers.iter_mut().find(|peer| peer.peer == *from) else {
            return;
        };
        let event = dispatcher.push_reply(reply, least, &view);
        if let Some(event) = event {
            self.record(event);
        }
    }

    /// How each follower gets on; nothing where this node does not lead.
    #[must_use]
    pub fn progress(&self) -> Vec<Progress> {
        let Some(lead) = &self.lead else { return Vec::new() };
        lead.dispatchers.iter().map(|dispatcher| dispatcher.progress(self.now)).collect()
    }

    /// What became of the election, for the recorder, and what it means for a provisional node.
    fn note_elected(&mut self, round: &Round) {
        let votes = round.answers.iter();
        let votes = votes
            .filter(|(_, ballot)| ballot.answer == crate::codes::VoteAnswer::Accept)
            .map(|(id, _)| id.clone())
            .collect();
        self.record(Event::Elected { votes });
        let by_firm_votes = round.is_won_firmly(self.electorate());
        self.elected_though_provisional(by_firm_votes);
    }
}

/// A push from the leader of this term, whose log is committed so far.
fn push(to: &EntryDispatcher, (term, commit): (Term, Option<LogIndex>), kind: PushKind) -> Output {
    let push = Push { term, commit, whole: to.whole(), known: to.life, kind };
    Output::Send { to: to.peer.clone(), call: None, message: Message::Push(push) }
}

/// A member's life as far as it is known.
pub(crate) type KnownLife = Option<Life>;

/// How often a leader that is not preferred looks for one that is (Java: `checkPreferredLeader`).
pub(crate) const PREFERRED_MILLIS: u64 = 1000;

/// How long a leader that could not write waits before it tries to lead again.
const RETRY_MILLIS: u64 = 1000;
