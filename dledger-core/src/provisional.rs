//! Nodes that may lack what they once acknowledged: an empty log, one that was rolled back, an
//! unclean boot, a failed flush. Their votes count as `round` says, their acknowledgements as
//! `dispatcher` says; here is when they are whole again.

use crate::{
    config::planted,
    io::Output,
    node::Node,
    record::Event,
    types::{Life, Provisional, Role},
};

impl Node {
    /// Why this node may lack entries, if so.
    #[must_use]
    pub fn provisional(&self) -> Option<Provisional> {
        self.provisional
    }

    pub(crate) fn become_provisional(&mut self, cause: Provisional) {
        if self.provisional.is_none() {
            self.record(Event::Provisional { node: None, cause: Some(cause) });
        }
        self.provisional = Some(cause);
    }

    /// The leader says so, to this life of the node.
    pub(crate) fn told_whole(&mut self, whole: Option<Life>) {
        if whole == Some(self.config.life) {
            self.become_whole();
        }
    }

    fn become_whole(&mut self) {
        if self.provisional.take().is_some() {
            self.record(Event::Whole { node: None });
            self.outputs.push_back(Output::Whole);
        }
    }

    /// A Java leader does not say so. It is so once an entry of its own term is committed here: the
    /// leader had all that was committed before, and so has this node.
    pub(crate) fn whole_under_java(&mut self) {
        let under_java = self.leader.as_ref().is_some_and(|id| self.peers.is_java(id));
        let committed = self.ledger.committed();
        let of_term = committed.and_then(|index| self.ledger.term_at(index));
        if self.role == Role::Follower && under_java && of_term == Some(self.term) {
            self.become_whole();
        }
    }

    /// Won an election. Where that took the votes of all, what they hold is what is left: entries
    /// behind this node's last may have been acknowledged and be lost, which is an alarm unless all
    /// are new.
    pub(crate) fn elected_though_provisional(&mut self, by_firm_votes: bool) {
        let is_new = self.ledger.is_new()
            && self.provisional.is_none_or(|cause| cause == Provisional::Empty);
        if !by_firm_votes && !is_new && !planted!(self.config, P20) {
            let from = self.ledger.next_index();
            self.record(Event::MayHaveLost { from });
        }
        self.become_whole();
    }
}
