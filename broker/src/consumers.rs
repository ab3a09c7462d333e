//! Consumers that are online, by group, as their heartbeats told (`ConsumerManager.java`,
//! `ConsumerGroupInfo.java`).
//!
//! A member is a connection, not a client id: two clients with one id are two members. The table
//! is generic in what it keeps of a connection, so that it can be tested without sockets.

mod group;
#[cfg(test)]
mod tests;
mod unannounced;

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use dashmap::{DashMap, mapref::entry::Entry};
use protocol::body::SubscriptionData;

pub(crate) use group::{GroupView, Member, Profile};
pub(crate) use unannounced::Unannounced;

use group::ConsumerGroup;

use crate::keeping::{Exhausted, Keeping, membership};

/// The most groups that are online at a time.
const MAX_GROUPS: usize = 100_000;

/// The most connections of one group.
const MAX_MEMBERS: usize = 10_000;

/// The most topics of one group.
pub(crate) const MAX_TOPICS: usize = 10_000;

/// What a heartbeat says of one consumer group of its client.
#[derive(Debug)]
pub(crate) struct Registration {
    /// Name of the group.
    pub(crate) group: String,
    /// How the group consumes.
    pub(crate) profile: Profile,
    /// Its subscriptions; `None` where the heartbeat left them out because they are unchanged.
    pub(crate) subscriptions: Option<Vec<SubscriptionData>>,
    /// Fingerprint of the client's heartbeat; 0 without one.
    pub(crate) fingerprint: i32,
}

/// What a registration did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Registered {
    /// The group has a new member or other topics: its members must be told.
    pub(crate) changed: bool,
    /// The client must send its subscriptions again, for this broker has others or none.
    pub(crate) subscriptions_wanted: bool,
}

/// A bound that a registration would break.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RegisterError {
    /// Too many groups.
    #[error("{MAX_GROUPS} consumer groups are online, no further one is taken: {0}")]
    Groups(String),
    /// Too many members.
    #[error("consumer group {0} has {MAX_MEMBERS} connections, no further one is taken")]
    Members(String),
    /// Too many topics.
    #[error("consumer group {group} subscribes {topics} topics, at most {MAX_TOPICS} are taken")]
    Topics {
        /// Name of the group.
        group: String,
        /// Topics in the heartbeat.
        topics: usize,
    },
    /// Too many bytes.
    #[error(transparent)]
    Bytes(#[from] Exhausted),
}

/// A group that lost a member, with those who must hear of it.
#[derive(Debug)]
pub(crate) struct Lost<C> {
    /// Name of the group.
    pub(crate) group: String,
    /// The connections that are left; empty for a broadcasting group, which shares no queues.
    pub(crate) remaining: Vec<C>,
}

/// All consumers that are online. `C` is a handle of a connection.
#[derive(Debug)]
pub(crate) struct Consumers<C> {
    groups: DashMap<String, ConsumerGroup<C>>,
    /// Groups of each connection, so that its end costs only what it was in.
    of_connection: DashMap<u64, HashSet<String>>,
    keeping: Keeping,
}

impl<C> Default for Consumers<C> {
    fn default() -> Self {
        Self { groups: DashMap::new(), of_connection: DashMap::new(), keeping: Keeping::default() }
    }
}

impl<C: Clone> Consumers<C> {
    /// Takes what a heartbeat says of one group. On an error nothing is changed.
    pub(crate) fn register(
        &self,
        registration: Registration,
        member: Member<C>,
    ) -> Result<Registered, RegisterError> {
        let Registration { group, profile, subscriptions, fingerprint } = registration;
        let topics = subscriptions.as_ref().map_or(0, Vec::len);
        if topics > MAX_TOPICS {
            return Err(RegisterError::Topics { group, topics });
        }
        let id = member.id;
        let count = self.groups.len();
        let mut entry = match self.groups.entry(group.clone()) {
            Entry::Occupied(found) => found.into_ref(),
            Entry::Vacant(_) if count >= MAX_GROUPS => return Err(RegisterError::Groups(group)),
            Entry::Vacant(free) => free.insert(ConsumerGroup::new(profile)),
        };
        if !entry.has(id) && entry.len() >= MAX_MEMBERS {
            return Err(RegisterError::Members(group));
        }
        let expected = match self.make_room(&entry, (&group, &member), subscriptions.as_deref()) {
            Ok(expected) => expected,
            Err(error) => {
                drop(entry);
                self.groups.remove_if(&group, |_, group| group.len() == 0);
                return Err(error.into());
            }
        };
        let subscriptions_wanted = entry.wants_subscriptions(fingerprint, subscriptions.is_some());
        let joined = entry.join(member, profile);
        let resubscribed = subscriptions.is_some_and(|set| entry.subscribe(set));
        // A topic that was given twice is kept once.
        self.keeping.release(expected.saturating_sub(entry.subscribed_bytes()));
        drop(entry);
        self.of_connection.entry(id).or_default().insert(group);
        Ok(Registered { changed: joined || resubscribed, subscriptions_wanted })
    }

    /// Room for a member and for what its group then subscribes, which is given back in bytes.
    fn make_room(
        &self,
        group: &ConsumerGroup<C>,
        (name, member): (&str, &Member<C>),
        subscriptions: Option<&[SubscriptionData]>,
    ) -> Result<usize, Exhausted> {
        let former = group.member(member.id).map_or(0, |former| membership(name, former));
        let next = membership(name, member);
        self.keeping.replace(former, next)?;
        let subscribed = group.subscribed_bytes();
        let expected = subscriptions.map_or(subscribed, |given| group.bytes_with(given));
        if let Err(error) = self.keeping.replace(subscribed, expected) {
            // The former member, if there is one, is still in its place.
            self.keeping.release(next.saturating_sub(former));
            return Err(error);
        }
        Ok(expected)
    }

    /// Takes a connection out of a group; `None` where it was not in it.
    pub(crate) fn unregister(&self, group: &str, id: u64) -> Option<Lost<C>> {
        if let Some(mut groups) = self.of_connection.get_mut(&id) {
            groups.remove(group);
        }
        self.of_connection.remove_if(&id, |_, groups| groups.is_empty());
        self.leave(group, id)
    }

    /// Takes a connection that is closed out of all its groups.
    pub(crate) fn closed(&self, id: u64) -> Vec<Lost<C>> {
        let Some((_, groups)) = self.of_connection.remove(&id) else { return Vec::new() };
        groups.iter().filter_map(|group| self.leave(group, id)).collect()
    }

    /// Memberships that no heartbeat renewed for longer than `limit`.
    pub(crate) fn silent(&self, now: Instant, limit: Duration) -> Vec<Member<C>> {
        let mut found = Vec::new();
        for group in &self.groups {
            let silent =
                |member: &&Member<C>| now.saturating_duration_since(member.last_heartbeat) > limit;
            found.extend(group.members().filter(silent).cloned());
        }
        found
    }

    /// The subscription of a group to a topic; `None` where the group is not online or has not
    /// subscribed it.
    pub(crate) fn subscription(&self, group: &str, topic: &str) -> Option<Arc<SubscriptionData>> {
        self.groups.get(group)?.subscription(topic)
    }

    /// Whether the group is online with at least one subscription.
    pub(crate) fn has_subscriptions(&self, group: &str) -> bool {
        self.groups.get(group).is_some_and(|group| group.has_subscriptions())
    }

    /// How the group consumes; `None` where it is not online.
    pub(crate) fn profile(&self, group: &str) -> Option<Profile> {
        self.groups.get(group).map(|group| group.profile())
    }

    /// Everything known of a group that is online.
    pub(crate) fn view(&self, group: &str) -> Option<GroupView<C>> {
        self.groups.get(group).map(|group| group.view())
    }

    /// Client ids of a group, each once; empty where it is not online.
    pub(crate) fn client_ids(&self, group: &str) -> Vec<String> {
        let mut seen = HashSet::new();
        let Some(group) = self.groups.get(group) else { return Vec::new() };
        group
            .members()
            .filter(|member| seen.insert(member.client_id.clone()))
            .map(|member| member.client_id.clone())
            .collect()
    }

    /// The members of a group; empty where it is not online.
    pub(crate) fn members(&self, group: &str) -> Vec<Member<C>> {
        self.groups.get(group).map_or_else(Vec::new, |group| group.members().cloned().collect())
    }

    /// The member of a group with this client id; of several the one heard of last.
    pub(crate) fn member(&self, group: &str, client_id: &str) -> Option<Member<C>> {
        let group = self.groups.get(group)?;
        group
            .members()
            .filter(|member| member.client_id == client_id)
            .max_by_key(|member| member.last_heartbeat)
            .cloned()
    }

    /// What a connection calls itself, where its group gives every message to each member that is
    /// pushed to.
    pub(crate) fn broadcast_client(&self, group: &str, id: u64) -> Option<String> {
        let group = self.groups.get(group)?;
        let profile = group.profile();
        (profile.is_broadcasting() && profile.is_passive())
            .then(|| group.member(id).map(|member| member.client_id.clone()))
            .flatten()
    }

    /// Groups that are online and have subscribed a topic.
    pub(crate) fn groups_of_topic(&self, topic: &str) -> Vec<String> {
        self.groups
            .iter()
            .filter(|group| group.subscription(topic).is_some())
            .map(|group| group.key().clone())
            .collect()
    }

    /// Number of groups and of memberships.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.groups.len(), self.groups.iter().map(|group| group.len()).sum())
    }

    fn leave(&self, name: &str, id: u64) -> Option<Lost<C>> {
        let mut group = self.groups.get_mut(name)?;
        let left = group.leave(id)?;
        self.keeping.release(membership(name, &left));
        let shares_queues = !group.profile().is_broadcasting();
        let remaining = if shares_queues {
            group.members().map(|member| member.handle.clone()).collect()
        } else {
            Vec::new()
        };
        drop(group);
        if let Some((_, gone)) = self.groups.remove_if(name, |_, group| group.len() == 0) {
            self.keeping.release(gone.subscribed_bytes());
        }
        Some(Lost { group: name.to_owned(), remaining })
    }
}
