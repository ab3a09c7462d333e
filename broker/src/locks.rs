//! Leases on queues for clients that consume in order (`RebalanceLockManager.java`).
//!
//! Leases live in the master's memory only: they bind clients of one broker, and a client that finds
//! its lease gone asks again within 20 s. What a new master knows of those that it has not given is
//! in `inherited.rs`.

mod inherited;

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use dashmap::DashMap;
use protocol::body::MessageQueue;

use inherited::Inherited;

/// How long a lease holds without renewal (`rocketmq.broker.rebalance.lockMaxLiveTime`).
pub(crate) const LEASE: Duration = Duration::from_secs(60);

/// The most queues that one group may hold, and that one request may name.
pub(crate) const MAX_QUEUES: usize = 65_536;

/// The most groups that may hold leases at a time.
const MAX_GROUPS: usize = 100_000;

/// Who holds a queue, and since when.
#[derive(Debug)]
struct Lease {
    client: String,
    renewed: Instant,
}

impl Lease {
    fn is_live(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.renewed) < LEASE
    }
}

/// Clients say every 30 s that they are there (`ClientConfig.heartbeatBrokerInterval`): a node that
/// began less than this ago may not know all members of a group.
const HEARTBEATS: Duration = Duration::from_secs(40);

/// All leases of this broker, by group.
#[derive(Debug)]
pub(crate) struct QueueLocks {
    groups: DashMap<String, HashMap<MessageQueue, Lease>>,
    inherited: Inherited,
    /// Since when this node hears of clients.
    begun: Instant,
}

impl Default for QueueLocks {
    fn default() -> Self {
        let (groups, inherited) = (DashMap::new(), Inherited::default());
        Self { groups, inherited, begun: Instant::now() }
    }
}

/// Who asks for leases.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking<'a> {
    /// The group.
    pub(crate) group: &'a str,
    /// The client.
    pub(crate) client: &'a str,
    /// Its connection, where its heartbeat has come.
    pub(crate) connection: Option<u64>,
}

impl QueueLocks {
    /// This node has become the master of a group of several: for one lease a queue goes only to a
    /// client that shows that it holds it.
    pub(crate) fn took_over(&self, now: Instant) {
        self.groups.clear();
        self.inherited.begin(now);
    }

    /// This node is the master no more: another one grants leases.
    pub(crate) fn forget(&self) {
        self.groups.clear();
    }

    /// Whether each member of a group has had the time to say that it is there. Till then one that
    /// nobody else is known beside may not be alone: a broker that was killed and leads again at once
    /// hears of some members before others.
    pub(crate) fn knows_members(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.begun) >= HEARTBEATS
    }

    /// A client pulled from a queue, which shows that it holds it where its group has leases.
    pub(crate) fn pulled(
        &self,
        (group, topic, queue): (&str, &str, i32),
        connection: u64,
        now: Instant,
    ) {
        if self.inherited.is_guarded(now) {
            self.inherited.pulled(group, topic, queue, connection);
        }
    }

    /// Grants or renews a lease on each queue that no other client of the group holds at `now`,
    /// and returns those queues in the order asked. `unheld` tells whether nobody can hold a queue
    /// by an earlier master's word.
    pub(crate) fn lock(
        &self,
        asking: Asking<'_>,
        queues: Vec<MessageQueue>,
        now: Instant,
        unheld: impl Fn(&MessageQueue) -> bool,
    ) -> Vec<MessageQueue> {
        let Asking { group, client, connection } = asking;
        if !self.groups.contains_key(group) && self.groups.len() >= MAX_GROUPS {
            return Vec::new();
        }
        let guarded = self.inherited.is_guarded(now);
        // A client renews all its leases at once, and asks for new ones one by one
        // (`RebalanceImpl.lockAll`, `lock`).
        let renews = queues.len() > 1;
        let may_have = |queue: &MessageQueue| {
            let (topic, number) = (&queue.topic, queue.queue_id);
            !guarded
                || renews
                || self.inherited.may_have(group, topic, number, connection)
                || unheld(queue)
        };
        let mut leases = self.groups.entry(group.to_owned()).or_default();
        queues
            .into_iter()
            .take(MAX_QUEUES)
            .filter(|queue| {
                let known = leases.contains_key(queue) || may_have(queue);
                known && grant(&mut leases, queue, client, now)
            })
            .collect()
    }

    /// Gives back the leases that `client` itself holds; those of other clients stay.
    pub(crate) fn unlock(&self, group: &str, client: &str, queues: &BTreeSet<MessageQueue>) {
        let guarded = self.inherited.is_guarded(Instant::now());
        if guarded {
            let leases = self.groups.get(group);
            let ungranted = |queue: &&MessageQueue| {
                leases.as_ref().is_none_or(|leases| !leases.contains_key(*queue))
            };
            for queue in queues.iter().filter(ungranted) {
                self.inherited.given_back(group, &queue.topic, queue.queue_id);
            }
        }
        let Some(mut leases) = self.groups.get_mut(group) else { return };
        for queue in queues {
            if leases.get(queue).is_some_and(|lease| lease.client == client) {
                leases.remove(queue);
                if guarded {
                    self.inherited.released(group, &queue.topic, queue.queue_id);
                }
            }
        }
        drop(leases);
        self.groups.remove_if(group, |_, leases| leases.is_empty());
    }

    /// Whether any client of the group holds a queue at `now`. The send path then takes messages
    /// for the group's retry topic to its dead-letter topic, because an ordered group never
    /// consumes a retry topic.
    pub(crate) fn holds_any(&self, group: &str, now: Instant) -> bool {
        self.groups.get(group).is_some_and(|leases| leases.values().any(|lease| lease.is_live(now)))
    }

    /// Forgets leases that ran out, so that groups that went away cost nothing.
    pub(crate) fn sweep(&self, now: Instant) {
        self.groups.retain(|_, leases| {
            leases.retain(|_, lease| lease.is_live(now));
            !leases.is_empty()
        });
    }
}

/// Whether `client` holds `queue` after this call.
fn grant(
    leases: &mut HashMap<MessageQueue, Lease>,
    queue: &MessageQueue,
    client: &str,
    now: Instant,
) -> bool {
    if let Some(lease) = leases.get_mut(queue) {
        if lease.client != client && lease.is_live(now) {
            return false;
        }
        if lease.client != client {
            client.clone_into(&mut lease.client);
        }
        lease.renewed = now;
        return true;
    }
    if leases.len() >= MAX_QUEUES {
        return false;
    }
    leases.insert(queue.clone(), Lease { client: client.to_owned(), renewed: now });
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(number: i32) -> MessageQueue {
        MessageQueue::new("T", "broker-a", number)
    }

    fn lock(
        locks: &QueueLocks,
        (group, client): (&str, &str),
        queues: Vec<MessageQueue>,
        now: Instant,
    ) -> Vec<MessageQueue> {
        let connection = client.strip_prefix('c').and_then(|number| number.parse().ok());
        locks.lock(Asking { group, client, connection }, queues, now, |_| false)
    }

    #[test]
    fn members_are_known_after_a_round_of_heartbeats() {
        let locks = QueueLocks::default();
        assert!(!locks.knows_members(locks.begun));
        assert!(!locks.knows_members(locks.begun + HEARTBEATS / 2));
        assert!(locks.knows_members(locks.begun + HEARTBEATS));
    }

    #[test]
    fn a_new_master_leaves_a_queue_with_the_client_that_shows_that_it_has_it() {
        let (locks, now) = (QueueLocks::default(), Instant::now());
        lock(&locks, ("G", "c1"), vec![queue(0)], now);
        locks.took_over(now);
        assert!(lock(&locks, ("G", "c2"), vec![queue(0)], now).is_empty(), "it wants a new one");
        locks.pulled(("G", "T", 0), 1, now);
        assert!(lock(&locks, ("G", "c2"), vec![queue(0)], now).is_empty(), "the other one pulls");
        assert_eq!(lock(&locks, ("G", "c1"), vec![queue(0)], now), [queue(0)]);
        assert_eq!(lock(&locks, ("G", "c1"), vec![queue(1), queue(2)], now), [queue(1), queue(2)]);
        assert!(lock(&locks, ("G", "c2"), vec![queue(1)], now).is_empty());
        assert!(lock(&locks, ("G", "c2"), vec![queue(3)], now + LEASE / 2).is_empty());
        assert_eq!(lock(&locks, ("G", "c2"), vec![queue(3)], now + LEASE), [queue(3)]);
    }

    #[test]
    fn a_queue_that_nobody_can_hold_is_granted_at_once() {
        let (locks, now) = (QueueLocks::default(), Instant::now());
        locks.took_over(now);
        locks.unlock("G", "c1", &[queue(0)].into());
        assert_eq!(lock(&locks, ("G", "c2"), vec![queue(0)], now), [queue(0)], "given back");
        let asking = Asking { group: "G", client: "c2", connection: None };
        assert_eq!(locks.lock(asking, vec![queue(1)], now, |_| true), [queue(1)]);
        locks.unlock("G", "c2", &[queue(1)].into());
        assert_eq!(lock(&locks, ("G", "c1"), vec![queue(1)], now), [queue(1)], "given back again");
        locks.pulled(("G", "T", 1), 1, now);
        locks.unlock("G", "c1", &[queue(1)].into());
        let asking = Asking { group: "G", client: "c2", connection: Some(2) };
        let got = locks.lock(asking, vec![queue(1)], now, |_| false);
        assert_eq!(got, [queue(1)], "given back by one that has pulled from it");
    }

    #[test]
    fn a_queue_belongs_to_one_client_until_it_lets_go() {
        let locks = QueueLocks::default();
        let now = Instant::now();
        assert_eq!(lock(&locks, ("G", "c1"), vec![queue(0), queue(1)], now), [queue(0), queue(1)]);
        assert_eq!(lock(&locks, ("G", "c2"), vec![queue(1), queue(2)], now), [queue(2)]);
        locks.unlock("G", "c2", &[queue(0), queue(1)].into());
        assert!(
            lock(&locks, ("G", "c2"), vec![queue(0)], now).is_empty(),
            "not its own to give back"
        );
        locks.unlock("G", "c1", &[queue(1)].into());
        assert_eq!(lock(&locks, ("G", "c2"), vec![queue(1)], now), [queue(1)]);
    }

    #[test]
    fn a_lease_runs_out_after_a_minute_and_renewal_prolongs_it() {
        let locks = QueueLocks::default();
        let start = Instant::now();
        lock(&locks, ("G", "c1"), vec![queue(0)], start);
        let later = start + Duration::from_secs(59);
        assert!(locks.holds_any("G", later));
        assert_eq!(lock(&locks, ("G", "c1"), vec![queue(0)], later), [queue(0)]);
        let still = start + Duration::from_secs(118);
        assert!(lock(&locks, ("G", "c2"), vec![queue(0)], still).is_empty());
        let over = start + Duration::from_secs(119);
        assert!(!locks.holds_any("G", over));
        assert_eq!(lock(&locks, ("G", "c2"), vec![queue(0)], over), [queue(0)]);
    }

    #[test]
    fn groups_with_leases_have_a_bound_and_those_that_are_known_go_on() {
        let locks = QueueLocks::default();
        let now = Instant::now();
        for number in 0..MAX_GROUPS {
            lock(&locks, (&format!("G{number}"), "c1"), vec![queue(0)], now);
        }
        assert_eq!(lock(&locks, ("one more", "c1"), vec![queue(0)], now), []);
        assert_eq!(lock(&locks, ("G7", "c1"), vec![queue(1)], now), [queue(1)]);
        locks.sweep(now + LEASE);
        assert_eq!(lock(&locks, ("one more", "c1"), vec![queue(0)], now + LEASE), [queue(0)]);
    }

    #[test]
    fn groups_do_not_disturb_each_other_and_empty_ones_are_forgotten() {
        let locks = QueueLocks::default();
        let now = Instant::now();
        lock(&locks, ("G", "c1"), vec![queue(0)], now);
        assert_eq!(lock(&locks, ("H", "c2"), vec![queue(0)], now), [queue(0)]);
        locks.unlock("H", "c2", &[queue(0)].into());
        assert!(!locks.holds_any("H", now));
        locks.sweep(now + LEASE);
        assert!(locks.groups.is_empty());
    }
}
