//! A node whose disk takes no appends must not lead (R-22; known fault 7).

use crate::{
    config::planted,
    node::Node,
    record::{Event, StepDown},
    round::{ParseResult, Purpose},
    types::LogIndex,
};

/// What is known of this node's disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Health {
    /// The engine's word.
    pub(crate) disk: bool,
    /// The owner's word: there is room for what clients append.
    pub(crate) room: bool,
    /// As a leader it waited in vain for this entry to be durable.
    pub(crate) hangs_at: Option<LogIndex>,
}

impl Node {
    pub(crate) fn disk_changed(&mut self, healthy: bool) {
        if self.health.disk != healthy {
            self.record(Event::Disk { healthy });
        }
        self.health.disk = healthy;
        if healthy {
            self.health.hangs_at = None;
        } else if !planted!(self.config, P30) {
            self.leave_the_lead_to_others();
        }
    }

    fn leave_the_lead_to_others(&mut self) {
        if self.lead.is_some() {
            self.give_up(StepDown::DiskFailed);
        } else {
            self.drop_round();
        }
    }

    /// A round that began while the disk was well must not be won: others first.
    fn drop_round(&mut self) {
        let Some(round) = &self.rounds.running else { return };
        let takes_over = round.purpose == Purpose::TakeOver;
        let next_time = self.now.after(self.patience());
        self.rounds.end(ParseResult::WaitToVoteNext, next_time);
        if takes_over {
            self.taking_failed();
        }
    }

    /// A leader looks at once for who is to lead now.
    pub(crate) fn room_changed(&mut self, enough: bool) {
        let changed = self.health.room != enough;
        self.health.room = enough;
        let now = self.now;
        if let Some(lead) = self.lead.as_mut().filter(|_| changed) {
            lead.preferred_due = now;
            self.look_for_better();
        }
    }

    fn give_up(&mut self, cause: StepDown) {
        // Others first.
        let next_time = self.now.after(self.patience());
        self.become_candidate(cause, ParseResult::WaitToVoteNext, next_time);
    }

    /// Whether this node may ask for votes, or be given the lead.
    pub(crate) fn is_electable(&self) -> bool {
        self.health.disk && !self.hangs() && self.cutting.is_none()
    }

    /// Whether this node may lead now: all that it took of a leader is written. What waits for the disk
    /// is part of its log for others already, and the first entry of a new term goes behind it.
    pub(crate) fn may_stand(&self) -> bool {
        self.is_electable() && self.ledger.written() == self.ledger.last_index()
    }

    /// The entry that was waited for is not durable yet, or what is left of the log before it.
    fn hangs(&self) -> bool {
        let end = self.ledger.last_index();
        let durable = self.ledger.flushed();
        self.health.hangs_at.is_some_and(|index| durable < end.min(Some(index)))
    }

    /// Own entries became written or durable.
    pub(crate) fn own_progress(&mut self) {
        let durable = self.ledger.flushed();
        if !self.hangs() {
            self.health.hangs_at = None;
        }
        let waits = durable < self.ledger.last_index();
        if let Some(lead) = &mut self.lead {
            let advanced = durable > lead.durable;
            lead.durable = durable;
            if advanced || !waits {
                lead.stalled = waits.then_some(self.now);
            }
        }
    }

    /// A leader whose own append is not durable for an election timeout steps down, whatever the
    /// policy, and is not elected until that append is durable. In a group of one nobody else could
    /// lead.
    pub(crate) fn check_own_disk(&mut self) {
        let timeout = self.timings().election_max;
        let Some(lead) = &self.lead else { return };
        let hangs = lead.stalled.is_some_and(|since| self.now.since(since) >= timeout);
        if hangs && self.config.members.len() > 1 && !planted!(self.config, P30) {
            self.health.hangs_at = self.ledger.last_index();
            self.give_up(StepDown::DiskHangs);
        }
    }
}
