//! What is to be seen only beside members that are taken for Java's.

use dledger_core::{Message, VoteAnswer};

use super::{World, slot::Slot};
use crate::{
    coverage::Branch,
    ghost::Seen,
    process::{Disk, Parcel, Process},
};

impl<P: Process> World<P> {
    /// A candidate that asks for votes without one of its own only asks whether to raise its term.
    pub(super) fn look_at_sounding(&mut self, member: usize, parcel: &Parcel) {
        if self.plan.java.is_empty() {
            return;
        }
        match &parcel.message {
            Message::Vote(vote) if !vote.pre_vote && self.sounds(member, vote.term.0) => {
                self.reach(Branch::Sounded);
            }
            Message::VoteReply(reply)
                if matches!(
                    reply.answer,
                    VoteAnswer::RejectAlreadyHasLeader
                        | VoteAnswer::RejectExpiredLedgerTerm
                        | VoteAnswer::RejectSmallLedgerEndIndex
                ) && self.sounds(parcel.to, reply.request_term.0) =>
            {
                self.reach(Branch::SoundedInVain);
            }
            _ => {}
        }
    }

    /// A Java leader with a majority does not heed the larger term of one member, and Java members
    /// refuse that one their votes for its shorter log before they look at its term: it stays outside
    /// until the next election (DLedger 325). Who looks after the group sees to one by halting the
    /// leader; after that there is no excuse.
    pub(super) fn let_stray_in(&mut self) {
        let half_time = self.now + self.plan.equal_millis() / 2 >= self.whole_by;
        if self.stray_let_in || !half_time {
            return;
        }
        let models = |member: &usize| self.plan.java.models(*member);
        let Some(leader) = self.leaders().into_iter().find(models) else { return };
        let standing = |slot: &Slot<P>| slot.standing().map_or(0, |standing| standing.term);
        let term = self.slots.get(leader).map_or(0, standing);
        if self.slots.iter().all(|slot| standing(slot) <= term) {
            return;
        }
        self.reach(Branch::StrayLetIn);
        self.stray_let_in = true;
        self.whole_by = self.now + self.plan.equal_millis();
        if let Some(slot) = self.slots.get_mut(leader) {
            slot.frozen_until = self.now + HALTED_MILLIS;
            self.watch.see(&Seen::Freed { member: leader });
        }
    }

    fn sounds(&self, candidate: usize, term: u64) -> bool {
        let slot = self.slots.get(candidate);
        slot.is_some_and(|slot| slot.disk.stored_vote() != (term, Some(candidate)))
    }
}

/// Longer than Java's followers wait for their leader.
const HALTED_MILLIS: u64 = 20_000;
