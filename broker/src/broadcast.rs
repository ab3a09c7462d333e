//! Where the members of broadcasting groups are (`BroadcastOffsetManager.java`).
//!
//! Such members keep their offsets themselves. The master remembers beside them where each one pulls,
//! so that one that comes by a proxy, or leaves it, goes on where it was, and one that is new begins
//! with the member that is furthest behind. What single members have pulled is in memory only; the least
//! of each queue is an offset of the group `GROUP@broadcast` in the journal, and so goes over to the next
//! master. That one knows none of the members, and lets no least offset rise before those that were there
//! have had the time to come to it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use dashmap::DashMap;

use crate::quota::Quota;

/// The most queues of members that are remembered. Members beyond go on by their own offsets alone.
const MOST: usize = 200_000;

/// A member of a broadcasting group that pulls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Puller<'a> {
    /// Topic.
    pub(crate) topic: &'a str,
    /// Group.
    pub(crate) group: &'a str,
    /// What the client calls itself.
    pub(crate) client: &'a str,
    /// Whether a proxy pulls for it.
    pub(crate) by_proxy: bool,
}

/// Where a pull is to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// Where it asks for.
    Asked,
    /// Where the member was.
    Known(i64),
    /// Where the group was, or where a new group begins.
    Group,
}

/// How long a member is remembered that does not pull.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expiry {
    /// One that is not online.
    pub(crate) offline: Duration,
    /// One that is.
    pub(crate) online: Duration,
}

/// The least offset that a group has in a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Least {
    /// Topic.
    pub(crate) topic: String,
    /// Group.
    pub(crate) group: String,
    /// Queue.
    pub(crate) queue: i32,
    /// Offset.
    pub(crate) offset: i64,
}

/// A group's members at one topic, by client id.
#[derive(Debug, Default)]
struct Members(HashMap<String, Member>);

#[derive(Debug)]
struct Member {
    pulled: Instant,
    by_proxy: bool,
    queues: BTreeMap<i32, i64>,
}

/// Members of all broadcasting groups, by topic and group.
#[derive(Debug)]
pub(crate) struct Broadcast {
    groups: DashMap<(String, String), Members>,
    /// Queues of members, all together.
    kept: Quota,
    /// Since when this node leads, knowing nobody.
    since: Mutex<Instant>,
}

impl Default for Broadcast {
    fn default() -> Self {
        Self { groups: DashMap::new(), kept: Quota::new(MOST), since: Mutex::new(Instant::now()) }
    }
}

impl Broadcast {
    /// Where a pull is to begin that asks for an offset: a proxy asks for -1 where it knows none.
    pub(crate) fn begin(&self, puller: Puller<'_>, queue: i32, asked: i64) -> Begin {
        let wants_one = puller.by_proxy && asked < 0;
        let key = (puller.topic.to_owned(), puller.group.to_owned());
        let members = self.groups.get(&key);
        let member = members.as_ref().and_then(|members| members.0.get(puller.client));
        let changed = member.is_some_and(|member| member.by_proxy != puller.by_proxy);
        if !wants_one && !changed {
            return Begin::Asked;
        }
        let known = member.and_then(|member| member.queues.get(&queue));
        known.map_or(Begin::Group, |offset| Begin::Known(*offset))
    }

    /// Remembers that a member pulls from an offset on. It never goes back.
    pub(crate) fn pulled(&self, puller: Puller<'_>, (queue, offset): (i32, i64), now: Instant) {
        let key = (puller.topic.to_owned(), puller.group.to_owned());
        let mut members = self.groups.entry(key).or_default();
        let known = members.0.get(puller.client).is_some_and(|it| it.queues.contains_key(&queue));
        if !known && !self.kept.take(1) {
            return;
        }
        let fresh = || Member { pulled: now, by_proxy: puller.by_proxy, queues: BTreeMap::new() };
        let member = members.0.entry(puller.client.to_owned()).or_insert_with(fresh);
        (member.pulled, member.by_proxy) = (now, puller.by_proxy);
        let kept = member.queues.entry(queue).or_insert(offset);
        *kept = offset.max(*kept);
    }

    /// Forgets members that have gone, and gives the least offsets of those that have not.
    pub(crate) fn scan(
        &self,
        now: Instant,
        expiry: Expiry,
        is_online: impl Fn(&str, &str) -> bool,
    ) -> Vec<Least> {
        let mut found = Vec::new();
        self.groups.retain(|(topic, group), members| {
            let mut least: BTreeMap<i32, i64> = BTreeMap::new();
            members.0.retain(|client, member| {
                let silent = now.saturating_duration_since(member.pulled);
                let is_online = is_online(group, client);
                if is_online || silent < expiry.offline {
                    for (queue, offset) in &member.queues {
                        let slot = least.entry(*queue).or_insert(*offset);
                        *slot = (*slot).min(*offset);
                    }
                }
                let stays = silent < if is_online { expiry.online } else { expiry.offline };
                if !stays {
                    self.kept.give_back(member.queues.len());
                }
                stays
            });
            let of_queue = |(queue, offset)| Least {
                topic: topic.clone(),
                group: group.clone(),
                queue,
                offset,
            };
            found.extend(least.into_iter().map(of_queue));
            !members.0.is_empty()
        });
        found
    }

    /// This node leads from now on: members that the one before it knew have not pulled here yet.
    pub(crate) fn took_over(&self, now: Instant) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Whether a member that pulled from the master before this one may still be counted among the
    /// group's without having pulled here.
    pub(crate) fn may_lack_members(&self, now: Instant, expiry: Expiry) -> bool {
        let since = *self.since.lock().unwrap_or_else(PoisonError::into_inner);
        now.saturating_duration_since(since) < expiry.offline
    }

    /// This node is not the master any more: members pull elsewhere.
    pub(crate) fn forget(&self) {
        self.forget_where(|_, _| true);
    }

    /// Forgets the members of topics and groups that `gone` names.
    pub(crate) fn forget_where(&self, gone: impl Fn(&str, &str) -> bool) {
        self.groups.retain(|(topic, group), members| {
            let gone = gone(topic, group);
            if gone {
                let queues = members.0.values().map(|member| member.queues.len()).sum();
                self.kept.give_back(queues);
            }
            !gone
        });
    }
}

/// The group whose offsets are those of the least member of a broadcasting group, in Java's spelling.
pub(crate) fn least_group(group: &str) -> String {
    format!("{group}@broadcast")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPIRY: Expiry =
        Expiry { offline: Duration::from_secs(120), online: Duration::from_secs(300) };

    fn puller(client: &str, by_proxy: bool) -> Puller<'_> {
        Puller { topic: "T", group: "G", client, by_proxy }
    }

    fn least(queue: i32, offset: i64) -> Least {
        Least { topic: "T".into(), group: "G".into(), queue, offset }
    }

    #[test]
    fn who_changes_between_proxy_and_broker_goes_on_where_it_was() {
        let table = Broadcast::default();
        let now = Instant::now();
        assert_eq!(table.begin(puller("a", false), 0, 0), Begin::Asked, "a client knows its own");
        assert_eq!(table.begin(puller("a", true), 0, 7), Begin::Asked);
        assert_eq!(table.begin(puller("a", true), 0, -1), Begin::Group, "a proxy that knows none");
        table.pulled(puller("a", false), (0, 5), now);
        table.pulled(puller("a", false), (0, 3), now);
        assert_eq!(table.begin(puller("a", false), 0, 3), Begin::Asked);
        assert_eq!(table.begin(puller("a", false), 0, -1), Begin::Asked, "no proxy, no help");
        assert_eq!(table.begin(puller("a", true), 0, 0), Begin::Known(5), "it never goes back");
        assert_eq!(table.begin(puller("a", true), 1, 0), Begin::Group, "of another queue");
        assert_eq!(table.begin(puller("b", true), 0, -1), Begin::Group);
        assert_eq!(table.begin(puller("b", true), 0, 0), Begin::Asked);
        table.pulled(puller("a", true), (0, 5), now);
        assert_eq!(table.begin(puller("a", true), 0, 5), Begin::Asked);
        assert_eq!(table.begin(puller("a", true), 0, -1), Begin::Known(5), "a proxy started anew");
        assert_eq!(table.begin(puller("a", false), 0, 0), Begin::Known(5));
    }

    #[test]
    fn the_least_of_those_that_are_there_is_told_and_others_are_forgotten() {
        let table = Broadcast::default();
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        table.pulled(puller("slow", true), (0, 2), begun);
        table.pulled(puller("quick", false), (0, 9), after(100));
        table.pulled(puller("quick", false), (1, 4), after(100));
        let nobody = |_: &str, _: &str| false;
        assert_eq!(table.scan(after(100), EXPIRY, nobody), [least(0, 2), least(1, 4)]);
        assert_eq!(table.scan(after(121), EXPIRY, nobody), [least(0, 9), least(1, 4)]);
        let online = |group: &str, client: &str| (group, client) == ("G", "quick");
        assert_eq!(table.scan(after(399), EXPIRY, online), [least(0, 9), least(1, 4)]);
        assert_eq!(table.scan(after(400), EXPIRY, online).len(), 2, "for the last time");
        assert_eq!(table.scan(after(400), EXPIRY, online), []);
        assert_eq!((table.groups.len(), table.kept.taken()), (0, 0));
    }

    #[test]
    fn one_that_takes_over_waits_for_members_as_long_as_they_are_remembered() {
        let (table, begun) = (Broadcast::default(), Instant::now());
        let lacks = |seconds| table.may_lack_members(begun + Duration::from_secs(seconds), EXPIRY);
        table.took_over(begun);
        assert!(lacks(0) && lacks(119) && !lacks(120));
        table.took_over(begun + Duration::from_secs(60));
        assert!(lacks(179) && !lacks(180));
    }

    #[test]
    fn the_table_is_bounded_and_room_comes_back() {
        let table = Broadcast { kept: Quota::new(2), ..Broadcast::default() };
        let now = Instant::now();
        for client in ["a", "b", "c"] {
            table.pulled(puller(client, true), (0, 1), now);
        }
        table.pulled(puller("a", true), (0, 8), now);
        assert_eq!(table.begin(puller("a", false), 0, 0), Begin::Known(8));
        assert_eq!(table.begin(puller("c", false), 0, 0), Begin::Asked, "not remembered");
        table.forget_where(|topic, group| (topic, group) == ("T", "other"));
        assert_eq!(table.kept.taken(), 2);
        table.forget();
        table.pulled(puller("c", true), (0, 1), now);
        assert_eq!(table.begin(puller("c", false), 0, 0), Begin::Known(1));
    }
}
