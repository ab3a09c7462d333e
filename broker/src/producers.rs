//! Producers that are online, by group (`ProducerManager.java`).

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, Instant},
};

use dashmap::{DashMap, mapref::entry::Entry};

use crate::{
    consumers::Member,
    keeping::{Exhausted, Keeping, membership},
};

/// The most groups that are online at a time.
const MAX_GROUPS: usize = 100_000;

/// The most connections of one group.
const MAX_MEMBERS: usize = 100_000;

/// A bound that a registration would break.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RegisterError {
    /// Too many groups.
    #[error("{MAX_GROUPS} producer groups are online, no further one is taken: {0}")]
    Groups(String),
    /// Too many connections.
    #[error("producer group {0} has {MAX_MEMBERS} connections, no further one is taken")]
    Members(String),
    /// Too many bytes.
    #[error(transparent)]
    Bytes(#[from] Exhausted),
}

/// All producers that are online. `C` is a handle of a connection.
#[derive(Debug)]
pub(crate) struct Producers<C> {
    groups: DashMap<String, HashMap<u64, Member<C>>>,
    of_connection: DashMap<u64, HashSet<String>>,
    /// Number and handle of the connection by which a client, of that id, came last.
    clients: DashMap<String, (u64, C)>,
    keeping: Keeping,
}

impl<C> Default for Producers<C> {
    fn default() -> Self {
        Self {
            groups: DashMap::new(),
            of_connection: DashMap::new(),
            clients: DashMap::new(),
            keeping: Keeping::default(),
        }
    }
}

impl<C: Clone> Producers<C> {
    /// Adds or refreshes a connection of a group.
    pub(crate) fn register(&self, group: &str, member: Member<C>) -> Result<(), RegisterError> {
        let count = self.groups.len();
        let id = member.id;
        let mut members = match self.groups.entry(group.to_owned()) {
            Entry::Occupied(found) => found.into_ref(),
            Entry::Vacant(_) if count >= MAX_GROUPS => {
                return Err(RegisterError::Groups(group.to_owned()));
            }
            Entry::Vacant(free) => free.insert(HashMap::new()),
        };
        if !members.contains_key(&id) && members.len() >= MAX_MEMBERS {
            return Err(RegisterError::Members(group.to_owned()));
        }
        let former = members.get(&id).map_or(0, |former| membership(group, former));
        if let Err(error) = self.keeping.replace(former, membership(group, &member)) {
            drop(members);
            self.groups.remove_if(group, |_, members| members.is_empty());
            return Err(error.into());
        }
        let (client, handle) = (member.client_id.clone(), member.handle.clone());
        let former = members.insert(id, member);
        drop(members);
        if let Some(former) = former.as_ref().filter(|former| former.client_id != client) {
            self.forget_client(&former.client_id, id);
        }
        self.clients.insert(client, (id, handle));
        if former.is_none() {
            self.of_connection.entry(id).or_default().insert(group.to_owned());
        }
        Ok(())
    }

    /// Takes a connection out of a group.
    pub(crate) fn unregister(&self, group: &str, id: u64) {
        if let Some(mut groups) = self.of_connection.get_mut(&id) {
            groups.remove(group);
        }
        self.of_connection.remove_if(&id, |_, groups| groups.is_empty());
        self.leave(group, id);
    }

    /// Takes a connection that is closed out of all its groups.
    pub(crate) fn closed(&self, id: u64) {
        let Some((_, groups)) = self.of_connection.remove(&id) else { return };
        for group in groups {
            self.leave(&group, id);
        }
    }

    /// Memberships that no heartbeat renewed for longer than `limit`.
    pub(crate) fn silent(&self, now: Instant, limit: Duration) -> Vec<Member<C>> {
        let mut found = Vec::new();
        for members in &self.groups {
            let silent =
                |member: &&Member<C>| now.saturating_duration_since(member.last_heartbeat) > limit;
            found.extend(members.values().filter(silent).cloned());
        }
        found
    }

    /// The members of a group; empty where it is not online.
    pub(crate) fn members(&self, group: &str) -> Vec<Member<C>> {
        self.groups.get(group).map_or_else(Vec::new, |members| members.values().cloned().collect())
    }

    /// The connection of the client that calls itself so (`ProducerManager.findChannel`).
    pub(crate) fn of_client(&self, client_id: &str) -> Option<C> {
        self.clients.get(client_id).map(|client| client.1.clone())
    }

    /// All members of all groups.
    pub(crate) fn all(&self) -> BTreeMap<String, Vec<Member<C>>> {
        self.groups
            .iter()
            .map(|group| (group.key().clone(), group.values().cloned().collect()))
            .collect()
    }

    /// Number of groups and of memberships.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.groups.len(), self.groups.iter().map(|members| members.len()).sum())
    }

    fn leave(&self, group: &str, id: u64) {
        if let Some(mut members) = self.groups.get_mut(group) {
            let left = members.remove(&id);
            drop(members);
            self.keeping.release(left.as_ref().map_or(0, |left| membership(group, left)));
            if let Some(left) = left.filter(|_| !self.of_connection.contains_key(&id)) {
                self.forget_client(&left.client_id, id);
            }
        }
        self.groups.remove_if(group, |_, members| members.is_empty());
    }

    fn forget_client(&self, client_id: &str, id: u64) {
        self.clients.remove_if(client_id, |_, client| client.0 == id);
    }
}

#[cfg(test)]
mod tests {
    use protocol::Language;

    use super::*;

    fn member(id: u64) -> Member<u64> {
        Member {
            id,
            handle: id,
            client_id: format!("c{id}"),
            address: format!("127.0.0.1:{id}"),
            language: Language::Java,
            version: 513,
            last_heartbeat: Instant::now(),
        }
    }

    #[test]
    fn groups_that_are_online_have_a_bound_and_those_that_go_make_room() {
        let producers = Producers::default();
        for number in 0..MAX_GROUPS as u64 {
            producers.register(&format!("P{number}"), member(number)).unwrap();
        }
        let refused = producers.register("one more", member(1)).unwrap_err();
        assert!(refused.to_string().contains("100000 producer groups are online"), "{refused}");
        producers.register("P7", member(7)).unwrap();
        producers.closed(7);
        producers.register("one more", member(1)).unwrap();
    }

    #[test]
    fn producers_come_and_go() {
        let producers = Producers::default();
        producers.register("P", member(1)).unwrap();
        producers.register("P", member(1)).unwrap();
        producers.register("P", member(2)).unwrap();
        producers.register("Q", member(1)).unwrap();
        assert_eq!(producers.members("P").len(), 2);
        assert_eq!(producers.all().len(), 2);
        assert_eq!(producers.counts(), (2, 3));
        producers.unregister("P", 2);
        producers.closed(1);
        assert!(producers.members("P").is_empty());
        assert_eq!((producers.counts(), producers.keeping.kept()), ((0, 0), 0));
        assert!(producers.of_connection.is_empty() && producers.clients.is_empty());
    }

    #[test]
    fn a_client_is_found_by_what_it_calls_itself() {
        let producers = Producers::default();
        producers.register("P", member(1)).unwrap();
        producers.register("Q", member(1)).unwrap();
        assert_eq!(producers.of_client("c1"), Some(1));
        let again = Member { client_id: "c1".to_owned(), ..member(2) };
        producers.register("P", again).unwrap();
        producers.unregister("P", 1);
        assert_eq!(producers.of_client("c1"), Some(2), "it came by another connection since");
        producers.closed(1);
        assert_eq!(producers.of_client("c1"), Some(2));
        producers.register("P", member(2)).unwrap();
        assert_eq!((producers.of_client("c1"), producers.of_client("c2")), (None, Some(2)));
        producers.closed(2);
        assert!(producers.clients.is_empty());
    }

    #[test]
    fn silent_producers_are_found() {
        let producers = Producers::default();
        producers.register("P", member(1)).unwrap();
        let now = Instant::now();
        let limit = Duration::from_secs(120);
        assert!(producers.silent(now + Duration::from_secs(100), limit).is_empty());
        assert_eq!(producers.silent(now + Duration::from_secs(121), limit).len(), 1);
    }
}
