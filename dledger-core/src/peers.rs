//! What is known of the other members, and which dialect and timings follow from it.

use std::collections::BTreeMap;

use crate::{
    config::{Config, Timings},
    node::Node,
    types::{Capability, NodeId, PeerKind, Policy},
};

/// The other members, each with what was last known of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Peers(BTreeMap<NodeId, Known>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Own(Capability),
    Java,
    Nothing,
}

impl Peers {
    pub(crate) fn of(config: &Config) -> Self {
        let others = config.members.iter().filter(|id| **id != config.self_id);
        Self(others.map(|id| (id.clone(), Known::Nothing)).collect())
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = &NodeId> {
        self.0.keys()
    }

    pub(crate) fn is_java(&self, id: &NodeId) -> bool {
        self.0.get(id) == Some(&Known::Java)
    }

    /// Whether Java's rules hold in this group.
    pub(crate) fn java_dialect(&self) -> bool {
        self.0.values().any(|known| *known == Known::Java)
    }

    /// A capability is void once its connection closes; that a member is Java stays known.
    fn note(&mut self, id: &NodeId, kind: PeerKind) {
        let Some(known) = self.0.get_mut(id) else { return };
        *known = match kind {
            PeerKind::Own(capability) => Known::Own(capability),
            PeerKind::Java => Known::Java,
            PeerKind::Gone if *known == Known::Java => Known::Java,
            PeerKind::Unknown | PeerKind::Gone => Known::Nothing,
        };
    }

    fn capability(&self, id: &NodeId) -> Option<Capability> {
        match self.0.get(id)? {
            Known::Own(capability) => Some(*capability),
            Known::Java | Known::Nothing => None,
        }
    }
}

impl Node {
    pub(crate) fn peer_changed(&mut self, id: &NodeId, kind: PeerKind) {
        self.peers.note(id, kind);
        if kind == PeerKind::Gone
            && let Some(lead) = &mut self.lead
        {
            lead.connection_lost(id, &self.ledger);
        }
    }

    /// Java's, while a member is Java; else those of the leader, else this node's own.
    pub(crate) fn timings(&self) -> Timings {
        if self.peers.java_dialect() {
            return Timings::JAVA;
        }
        let leader = self.leader.as_ref().filter(|id| **id != self.config.self_id);
        let announced = leader.and_then(|id| self.peers.capability(id));
        announced.map_or(self.config.timings, |capability| capability.timings)
    }

    /// When an entry counts as kept here: as the leader says. A Java leader says nothing, so that
    /// this node answers it by its own policy.
    pub(crate) fn policy_followed(&self) -> Policy {
        let announced = self.leader.as_ref().and_then(|id| self.peers.capability(id));
        announced.map_or(self.config.policy, |capability| capability.policy)
    }

    /// How many members are a majority.
    pub(crate) fn quorum(&self) -> usize {
        self.config.members.len() / 2 + 1
    }

    /// How long a follower waits for its leader this time.
    pub(crate) fn patience(&mut self) -> u64 {
        let timings = self.timings();
        self.rng.between(timings.election_min, timings.election_max)
    }

    /// The pause before the next round of votes (Java: `getNextTimeToRequestVote`).
    pub(crate) fn pause(&mut self) -> u64 {
        let timings = self.timings();
        self.rng.between(timings.vote_min, timings.vote_max)
    }
}
