//! Handing the lead to another member, and taking it (Java: `handleLeadershipTransfer`,
//! `checkPreferredLeader`).

use crate::{
    codes::TransferCode,
    dispatcher::EntryDispatcher,
    io::Output,
    message::{Message, TransferReply, TransferRequest},
    node::Node,
    record::{Event, StepDown},
    round::ParseResult,
    types::{CallId, LogIndex, Millis, NodeId, Role, Term},
};

/// A leader's hand-over.
#[derive(Debug, Clone)]
pub(crate) struct Transfer {
    pub(crate) to: NodeId,
    /// Who waits for the outcome; `None` where a preferred leader was found.
    call: Option<CallId>,
    pub(crate) deadline: Millis,
    /// The other one was asked: everything that was appended is committed.
    asked: bool,
}

/// A leader asked this node to lead.
#[derive(Debug, Clone)]
pub(crate) struct Taking {
    from: NodeId,
    call: CallId,
    /// The leader's term.
    term: Term,
    /// Waits until the log reaches so far.
    index: Option<LogIndex>,
    pub(crate) deadline: Millis,
    /// It asks for votes.
    pub(crate) started: bool,
}

impl Node {
    /// To whom the lead is being handed.
    #[must_use]
    pub fn transferring(&self) -> Option<&NodeId> {
        Some(&self.lead.as_ref()?.transfer.as_ref()?.to)
    }

    pub(crate) fn transfer(&mut self, call: CallId, to: Option<NodeId>) {
        if let Err(code) = self.start_transfer(Some(call), to) {
            self.outputs.push_back(Output::TransferDone { call, code });
        }
    }

    /// Starts a hand-over to a follower that has caught up and whose disk is healthy, to no other.
    fn start_transfer(
        &mut self,
        call: Option<CallId>,
        to: Option<NodeId>,
    ) -> Result<(), TransferCode> {
        let timings = self.timings();
        if self.role != Role::Leader {
            return Err(TransferCode::NotLeader);
        }
        if to.as_ref() == Some(&self.config.self_id) {
            return Err(TransferCode::Success);
        }
        let chosen = match to {
            Some(to) => Some(to),
            None => self.best_follower(|_| true),
        };
        let to = chosen.ok_or(TransferCode::FallBehindTooMuch)?;
        let (now, last) = (self.now, self.ledger.last_index());
        let Some(lead) = &mut self.lead else { return Err(TransferCode::NotLeader) };
        if lead.transfer.is_some() {
            return Err(TransferCode::LeaderTransferring);
        }
        let Some(follower) = lead.dispatcher(&to) else {
            return Err(TransferCode::UnknownMember);
        };
        if !follower.healthy {
            return Err(TransferCode::DiskError);
        }
        if follower.is_provisional() || lag(last, follower.matched()) >= TRANSFER_LAG {
            return Err(TransferCode::FallBehindTooMuch);
        }
        if follower.gone || now.since(follower.heard) >= timings.election_min {
            return Err(TransferCode::TakeLeadershipFailed);
        }
        let deadline = now.after(timings.election_max);
        lead.transfer = Some(Transfer { to: to.clone(), call, deadline, asked: false });
        self.record(Event::TransferStarted { to });
        Ok(())
    }

    /// The follower that lacks least, among those that could lead: first of all of those with room.
    fn best_follower(&self, wanted: impl Fn(&EntryDispatcher) -> bool) -> Option<NodeId> {
        let patience = self.timings().election_min;
        let last = self.ledger.last_index();
        let lead = self.lead.as_ref()?;
        let able = lead.dispatchers.iter().filter(|follower| {
            wanted(follower)
                && follower.healthy
                && !follower.is_provisional()
                && !follower.gone
                && self.now.since(follower.heard) < patience
                && lag(last, follower.matched()) < TRANSFER_LAG
        });
        let best = able.min_by_key(|follower| (!follower.roomy, lag(last, follower.matched())))?;
        Some(best.peer.clone())
    }

    /// Asks the other one once it has everything, and everything is committed; gives up in time.
    pub(crate) fn check_transfer(&mut self) {
        let (now, term) = (self.now, self.term);
        let (last, committed) = (self.ledger.last_index(), self.ledger.committed());
        let Some(lead) = &mut self.lead else { return };
        let Some(transfer) = &mut lead.transfer else { return };
        if now >= transfer.deadline {
            return self.transfer_failed(TransferCode::TakeLeadershipFailed);
        }
        let to = transfer.to.clone();
        let has_all = lead.dispatcher(&to).is_some_and(|follower| follower.matched() == last);
        let Some(transfer) = &mut lead.transfer else { return };
        if transfer.asked || !has_all || committed != last {
            return;
        }
        transfer.asked = true;
        let request = TransferRequest { term, transferee: to.clone(), index: last };
        self.send(to, None, Message::Transfer(request));
    }

    pub(crate) fn transfer_reply(&mut self, from: &NodeId, reply: TransferReply) {
        if reply.term > self.term {
            return self.adopt_term(reply.term);
        }
        let asked = self.lead.as_ref().and_then(|lead| lead.transfer.as_ref());
        let of_this = asked.is_some_and(|transfer| transfer.asked && transfer.to == *from);
        if of_this && reply.request_term == self.term && reply.code != TransferCode::Success {
            self.transfer_failed(reply.code);
        }
    }

    /// This node goes on leading, and takes appends again.
    fn transfer_failed(&mut self, code: TransferCode) {
        let Some(lead) = &mut self.lead else { return };
        let Some(transfer) = lead.transfer.take() else { return };
        lead.preferred_fails += 1;
        lead.advised = None;
        self.transfer_ended(transfer, code);
    }

    fn transfer_ended(&mut self, transfer: Transfer, code: TransferCode) {
        if let Some(call) = transfer.call {
            self.outputs.push_back(Output::TransferDone { call, code });
        }
        self.record(Event::TransferEnded { to: transfer.to, code });
    }

    /// This node leads no more: whether the other one does shows when a leader is known.
    pub(crate) fn hand_over(&mut self, mut transfer: Transfer) {
        if transfer.asked {
            transfer.deadline = self.now.after(self.timings().election_max);
            self.handing = Some(transfer);
        } else {
            self.transfer_ended(transfer, TransferCode::NotLeader);
        }
    }

    /// A leader is known, or the time is over.
    pub(crate) fn check_handing(&mut self) {
        let over = self.handing.as_ref().is_some_and(|handing| handing.deadline <= self.now);
        if !over && self.leader.is_none() {
            return;
        }
        if let Some(handing) = self.handing.take() {
            let code = if self.leader.as_ref() == Some(&handing.to) {
                TransferCode::Success
            } else {
                TransferCode::TakeLeadershipFailed
            };
            self.transfer_ended(handing, code);
        }
    }

    /// Who is to lead in this leader's place, where its owner hands the lead over.
    #[must_use]
    pub fn advised(&self) -> Option<&NodeId> {
        self.lead.as_ref()?.advised.as_ref()
    }

    /// A leader without room looks for a member that has room, and one that is not preferred for one
    /// that is and has room. After a failure it waits twice as long, so that a member that cannot lead
    /// does not take the lead from the group again and again.
    pub(crate) fn look_for_better(&mut self) {
        let committed = self.ledger.committed();
        let room = self.health.room;
        let Some(lead) = &mut self.lead else { return };
        if self.now < lead.preferred_due {
            return;
        }
        let wait = crate::leader::PREFERRED_MILLIS << lead.preferred_fails.min(6);
        lead.preferred_due = self.now.after(wait);
        lead.advised = None;
        let preferred = &self.config.preferred;
        let best_of_all = preferred.is_empty() || preferred.contains(&self.config.self_id);
        if (room && best_of_all) || lead.transfer.is_some() || committed < Some(lead.opening.first)
        {
            return;
        }
        let found = self.best_follower(|follower| {
            follower.roomy && (!room || self.config.preferred.contains(&follower.peer))
        });
        let Some(to) = found else { return };
        if self.config.advises {
            if let Some(lead) = &mut self.lead {
                lead.advised = Some(to);
            }
            return;
        }
        // What was just looked at holds: it starts.
        if let Err(code) = self.start_transfer(None, Some(to.clone())) {
            self.record(Event::TransferEnded { to, code });
        }
    }

    /// The leader asks this node to take over.
    pub(crate) fn transfer_request(
        &mut self,
        from: NodeId,
        call: CallId,
        request: &TransferRequest,
    ) {
        let refused = if request.transferee != self.config.self_id {
            Some(TransferCode::UnknownMember)
        } else if request.term < self.term {
            Some(TransferCode::ExpiredTerm)
        } else if !self.follows(&from, request.term) {
            Some(TransferCode::InconsistentLeader)
        } else if self.taking.is_some() {
            Some(TransferCode::LeaderTransferring)
        } else if !self.is_electable() {
            Some(TransferCode::DiskError)
        } else if self.provisional.is_some() {
            Some(TransferCode::FallBehindTooMuch)
        } else {
            None
        };
        if let Some(code) = refused {
            let request_term = request.term;
            let reply = TransferReply { term: self.term, request_term, code };
            self.send(from, Some(call), Message::TransferReply(reply));
            return;
        }
        self.record(Event::TakesLead { from: from.clone() });
        self.taking = Some(Taking {
            from,
            call,
            term: request.term,
            index: request.index,
            deadline: self.now.after(TAKING_MILLIS),
            started: false,
        });
        self.take_lead();
    }

    /// Starts once the log has what the leader had. The term is raised at once, so that a heartbeat
    /// of the old term does not make a follower of this node again (a race of Java's).
    pub(crate) fn take_lead(&mut self) {
        let may_stand = self.may_stand();
        let Some(taking) = &mut self.taking else { return };
        if taking.started {
            return;
        }
        let kept = self.ledger.kept(self.config.policy);
        if kept >= taking.index && self.ledger.last_index() >= taking.index && may_stand {
            taking.started = true;
            self.become_candidate(StepDown::TakesLead, ParseResult::WaitToVoteNext, self.now);
            self.begin_round(true);
        } else if self.now >= taking.deadline {
            self.taking_failed();
        }
    }

    pub(crate) fn taking_succeeded(&mut self) {
        self.taking_ended(TransferCode::Success);
    }

    pub(crate) fn taking_failed(&mut self) {
        self.taking_ended(TransferCode::TakeLeadershipFailed);
    }

    /// Another member leads: not this one.
    pub(crate) fn taking_overtaken(&mut self) {
        let started = self.taking.as_ref().is_some_and(|taking| taking.started);
        if started {
            self.taking_failed();
        }
    }

    fn taking_ended(&mut self, code: TransferCode) {
        let Some(taking) = self.taking.take() else { return };
        let reply = TransferReply { term: self.term, request_term: taking.term, code };
        self.send(taking.from, Some(taking.call), Message::TransferReply(reply));
    }
}

/// How many entries lie between.
fn lag(last: Option<LogIndex>, matched: Option<LogIndex>) -> u64 {
    let count = |index: Option<LogIndex>| index.map_or(0, |index| index.0.saturating_add(1));
    count(last).saturating_sub(count(matched))
}

/// Who lacks so many entries is not given the lead (Java: `maxLeadershipTransferWaitIndex`).
const TRANSFER_LAG: u64 = 1000;

/// How long a member waits for entries that it lacks (Java: `leadershipTransferWaitTimeout`).
const TAKING_MILLIS: u64 = 1000;
