//! How much waits in a node, each with its bound.

use crate::{
    dispatcher::IN_FLIGHT_PUSHES,
    follower::{EARLY, UNANSWERED},
    node::Node,
    read_index::READS,
};

/// Something that waits, and how much of it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// What.
    pub what: &'static str,
    /// How much of it there is.
    pub amount: u64,
    /// How much there may be.
    pub bound: u64,
}

impl Load {
    /// An amount and its bound.
    #[must_use]
    pub fn new(what: &'static str, amount: u64, bound: u64) -> Self {
        Self { what, amount, bound }
    }
}

impl Node {
    /// All that others can make wait in this node. Each is refused or dropped beyond its bound; one
    /// append or one entry that is larger than a bound by itself is let in alone.
    #[must_use]
    pub fn loads(&self) -> Vec<Load> {
        let (early_bytes, early, unanswered) = self.follow.waiting();
        let mut loads = vec![
            Load::new("bytes of early pushes", early_bytes, self.config.early_bytes),
            Load::new("early pushes", early as u64, EARLY as u64),
            Load::new("pushes without an answer", unanswered as u64, UNANSWERED as u64),
        ];
        let Some(lead) = &self.lead else { return loads };
        loads.push(Load::new("readers", lead.reads.len() as u64, READS as u64));
        let (appends, bytes) = lead.waiting();
        if appends > 1 && self.config.members.len() > 1 {
            loads.push(Load::new("bytes of appends", bytes, self.config.pending_bytes));
        }
        // The last entry that is read may be longer than the room that is left.
        let window = self.config.window_bytes.saturating_add(self.config.push_bytes);
        for dispatcher in &lead.dispatchers {
            let (pushes, bytes) = dispatcher.in_flight();
            loads.push(Load::new("pushes in flight", pushes as u64, IN_FLIGHT_PUSHES as u64));
            loads.push(Load::new("bytes in flight", bytes, window));
        }
        loads
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{
        config::{Config, State},
        io::Input,
        types::{CallId, Millis, NodeId},
    };

    #[test]
    fn readers_that_wait_for_the_opening_entry_are_counted() {
        let id = NodeId("n0".into());
        let config = Config::new(id.clone(), BTreeSet::from([id]));
        let mut node = Node::new(config, State::default()).unwrap();
        let readers = |node: &Node| {
            let found = node.loads().into_iter().find(|load| load.what == "readers");
            found.map(|load| (load.amount, load.bound))
        };
        assert_eq!(readers(&node), None);
        node.handle(Millis(10_000), Input::Tick);
        node.handle(Millis(10_000), Input::VoteStored { term: node.term() });
        for call in 0..3 {
            node.handle(Millis(10_000), Input::ReadIndex { call: CallId(call) });
        }
        assert_eq!(readers(&node), Some((3, READS as u64)));
        assert!(node.loads().iter().all(|load| load.amount <= load.bound), "{:?}", node.loads());
    }
}
