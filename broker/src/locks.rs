//! Leases on queues for clients that consume in order (`RebalanceLockManager.java`).
//!
//! Leases live in memory only: they bind clients of one broker, and a client that finds its lease
//! gone asks again within 20 s.

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use dashmap::DashMap;
use protocol::body::MessageQueue;

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

/// All leases of this broker, by group.
#[derive(Debug, Default)]
pub(crate) struct QueueLocks {
    groups: DashMap<String, HashMap<MessageQueue, Lease>>,
}

impl QueueLocks {
    /// Grants or renews a lease on each queue that no other client of the group holds at `now`,
    /// and returns those queues in the order asked.
    pub(crate) fn lock(
        &self,
        group: &str,
        client: &str,
        queues: Vec<MessageQueue>,
        now: Instant,
    ) -> Vec<MessageQueue> {
        if !self.groups.contains_key(group) && self.groups.len() >= MAX_GROUPS {
            return Vec::new();
        }
        let mut leases = self.groups.entry(group.to_owned()).or_default();
        queues
            .into_iter()
            .take(MAX_QUEUES)
            .filter(|queue| grant(&mut leases, queue, client, now))
            .collect()
    }

    /// Gives back the leases that `client` itself holds; those of other clients stay.
    pub(crate) fn unlock(&self, group: &str, client: &str, queues: &BTreeSet<MessageQueue>) {
        let Some(mut leases) = self.groups.get_mut(group) else { return };
        for queue in queues {
            if leases.get(queue).is_some_and(|lease| lease.client == client) {
                leases.remove(queue);
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

    #[test]
    fn a_queue_belongs_to_one_client_until_it_lets_go() {
        let locks = QueueLocks::default();
        let now = Instant::now();
        assert_eq!(locks.lock("G", "c1", vec![queue(0), queue(1)], now), [queue(0), queue(1)]);
        assert_eq!(locks.lock("G", "c2", vec![queue(1), queue(2)], now), [queue(2)]);
        locks.unlock("G", "c2", &[queue(0), queue(1)].into());
        assert!(locks.lock("G", "c2", vec![queue(0)], now).is_empty(), "not its own to give back");
        locks.unlock("G", "c1", &[queue(1)].into());
        assert_eq!(locks.lock("G", "c2", vec![queue(1)], now), [queue(1)]);
    }

    #[test]
    fn a_lease_runs_out_after_a_minute_and_renewal_prolongs_it() {
        let locks = QueueLocks::default();
        let start = Instant::now();
        locks.lock("G", "c1", vec![queue(0)], start);
        let later = start + Duration::from_secs(59);
        assert!(locks.holds_any("G", later));
        assert_eq!(locks.lock("G", "c1", vec![queue(0)], later), [queue(0)]);
        let still = start + Duration::from_secs(118);
        assert!(locks.lock("G", "c2", vec![queue(0)], still).is_empty());
        let over = start + Duration::from_secs(119);
        assert!(!locks.holds_any("G", over));
        assert_eq!(locks.lock("G", "c2", vec![queue(0)], over), [queue(0)]);
    }

    #[test]
    fn groups_do_not_disturb_each_other_and_empty_ones_are_forgotten() {
        let locks = QueueLocks::default();
        let now = Instant::now();
        locks.lock("G", "c1", vec![queue(0)], now);
        assert_eq!(locks.lock("H", "c2", vec![queue(0)], now), [queue(0)]);
        locks.unlock("H", "c2", &[queue(0)].into());
        assert!(!locks.holds_any("H", now));
        locks.sweep(now + LEASE);
        assert!(locks.groups.is_empty());
    }
}
