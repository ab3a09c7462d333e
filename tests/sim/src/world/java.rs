//! What is to be seen only beside members that are taken for Java's.

use dledger_core::{Message, VoteAnswer};

use super::World;
use crate::{
    coverage::Branch,
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

    fn sounds(&self, candidate: usize, term: u64) -> bool {
        let slot = self.slots.get(candidate);
        slot.is_some_and(|slot| slot.disk.stored_vote() != (term, Some(candidate)))
    }
}
