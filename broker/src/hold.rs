//! Pulls that wait for messages (`PullRequestHoldService.java`).
//!
//! A pull is woken by the arrival of a message that its filter lets through, or when its time is
//! over. It is then taken out and evaluated once more; who takes it out answers it, so that it is
//! answered once. The number of held pulls is bounded.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio::sync::Notify;

/// What waits.
pub(crate) trait Waits: Send + 'static {
    /// The connection that it came by.
    fn connection_id(&self) -> u64;

    /// Whether a message of these tags is one that it waits for.
    fn wants(&self, queue_offset: u64, tags_code: i64) -> bool;
}

/// Pulls by the queue that they wait for.
#[derive(Debug)]
pub(crate) struct Hold<P> {
    table: Mutex<Table<P>>,
    bound: usize,
    /// Tells the clock that the earliest deadline may have changed.
    earlier: Arc<Notify>,
}

/// Names one held pull, for as long as it is held.
pub(crate) type HeldId = u64;

#[derive(Debug)]
struct Table<P> {
    next_id: HeldId,
    held: HashMap<HeldId, Held<P>>,
    by_queue: HashMap<QueueKey, BTreeSet<HeldId>>,
    by_connection: HashMap<u64, BTreeSet<HeldId>>,
    deadlines: BTreeSet<(Instant, HeldId)>,
}

#[derive(Debug)]
struct Held<P> {
    pull: P,
    key: QueueKey,
    deadline: Instant,
}

/// Topic and queue.
type QueueKey = (Arc<str>, u32);

impl<P: Waits> Hold<P> {
    /// Nothing held, and at most `bound` later.
    pub(crate) fn new(bound: usize) -> Self {
        let table = Table {
            next_id: 0,
            held: HashMap::new(),
            by_queue: HashMap::new(),
            by_connection: HashMap::new(),
            deadlines: BTreeSet::new(),
        };
        Self { table: Mutex::new(table), bound, earlier: Arc::new(Notify::new()) }
    }

    /// Holds a pull until `deadline`. It comes back where too many are held already.
    pub(crate) fn hold(
        &self,
        topic: &str,
        queue: u32,
        deadline: Instant,
        pull: P,
    ) -> Result<HeldId, P> {
        let mut table = self.table();
        if table.held.len() >= self.bound {
            return Err(pull);
        }
        table.next_id += 1;
        let id = table.next_id;
        let first = table.deadlines.first().is_none_or(|(earliest, _)| deadline < *earliest);
        let key = (Arc::from(topic), queue);
        table.by_queue.entry(QueueKey::clone(&key)).or_default().insert(id);
        table.by_connection.entry(pull.connection_id()).or_default().insert(id);
        table.deadlines.insert((deadline, id));
        table.held.insert(id, Held { pull, key, deadline });
        drop(table);
        if first {
            self.earlier.notify_one();
        }
        Ok(id)
    }

    /// Takes out one pull, where it is still held.
    pub(crate) fn take(&self, id: HeldId) -> Option<P> {
        self.table().take(id)
    }

    /// Takes out the pulls that wait for a message of this queue, offset and tags.
    pub(crate) fn arrived(
        &self,
        topic: &Arc<str>,
        queue: u32,
        queue_offset: u64,
        tags_code: i64,
    ) -> Vec<P> {
        let mut table = self.table();
        if table.held.is_empty() {
            return Vec::new();
        }
        let key = (Arc::clone(topic), queue);
        let Some(ids) = table.by_queue.get(&key) else { return Vec::new() };
        let woken: Vec<HeldId> = ids
            .iter()
            .copied()
            .filter(|id| {
                table.held.get(id).is_some_and(|held| held.pull.wants(queue_offset, tags_code))
            })
            .collect();
        woken.into_iter().filter_map(|id| table.take(id)).collect()
    }

    /// Takes out the pulls whose time is over.
    pub(crate) fn expired(&self, now: Instant) -> Vec<P> {
        let mut table = self.table();
        let mut pulls = Vec::new();
        while let Some((deadline, id)) = table.deadlines.first().copied() {
            if deadline > now {
                break;
            }
            pulls.extend(table.take(id));
        }
        pulls
    }

    /// Takes out all pulls of a connection that has closed.
    pub(crate) fn closed(&self, connection_id: u64) -> Vec<P> {
        let mut table = self.table();
        let ids = table.by_connection.get(&connection_id).cloned().unwrap_or_default();
        ids.into_iter().filter_map(|id| table.take(id)).collect()
    }

    /// Takes out all pulls: of one topic, or of every one.
    pub(crate) fn drain(&self, topic: Option<&str>) -> Vec<P> {
        let mut table = self.table();
        let wanted = |held: &Held<P>| topic.is_none_or(|topic| *held.key.0 == *topic);
        let ids: Vec<HeldId> =
            table.held.iter().filter(|(_, held)| wanted(held)).map(|(id, _)| *id).collect();
        ids.into_iter().filter_map(|id| table.take(id)).collect()
    }

    /// Number of held pulls.
    pub(crate) fn len(&self) -> usize {
        self.table().held.len()
    }

    /// Waits until the time of some pull is over; returns then.
    pub(crate) async fn wait_for_expiry(&self) {
        loop {
            let earliest = self.table().deadlines.first().map(|(deadline, _)| *deadline);
            let Some(deadline) = earliest else {
                self.earlier.notified().await;
                continue;
            };
            tokio::select! {
                () = tokio::time::sleep_until(deadline.into()) => return,
                () = self.earlier.notified() => {}
            }
        }
    }

    /// A panic of another holder of the lock leaves the table usable: each change is whole.
    fn table(&self) -> MutexGuard<'_, Table<P>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: Waits> Table<P> {
    fn take(&mut self, id: HeldId) -> Option<P> {
        let held = self.held.remove(&id)?;
        self.deadlines.remove(&(held.deadline, id));
        forget(&mut self.by_queue, &held.key, id);
        forget(&mut self.by_connection, &held.pull.connection_id(), id);
        Some(held.pull)
    }
}

/// Takes an id out of its set, and the set out where it is empty then.
fn forget<K: Eq + Hash>(sets: &mut HashMap<K, BTreeSet<HeldId>>, key: &K, id: HeldId) {
    if let Some(ids) = sets.get_mut(key) {
        ids.remove(&id);
        if ids.is_empty() {
            sets.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[derive(Debug, PartialEq)]
    struct Pull {
        connection: u64,
        offset: u64,
        tag: Option<i64>,
    }

    impl Waits for Pull {
        fn connection_id(&self) -> u64 {
            self.connection
        }

        fn wants(&self, queue_offset: u64, tags_code: i64) -> bool {
            queue_offset >= self.offset && self.tag.is_none_or(|tag| tag == tags_code)
        }
    }

    fn topic() -> Arc<str> {
        Arc::from("T")
    }

    fn pull(connection: u64, tag: Option<i64>) -> Pull {
        Pull { connection, offset: 5, tag }
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn an_arrival_wakes_the_pulls_that_want_it() {
        let hold = Hold::new(10);
        hold.hold("T", 0, later(), pull(1, None)).expect("room");
        hold.hold("T", 0, later(), pull(2, Some(7))).expect("room");
        hold.hold("T", 1, later(), pull(3, None)).expect("room");
        assert_eq!(hold.arrived(&topic(), 0, 4, 7), vec![], "before their offset");
        assert_eq!(hold.arrived(&topic(), 0, 5, 8), vec![pull(1, None)]);
        assert_eq!(hold.arrived(&topic(), 0, 6, 7), vec![pull(2, Some(7))]);
        assert_eq!(hold.arrived(&topic(), 0, 7, 7), vec![], "each is answered once");
        assert_eq!(hold.len(), 1);
    }

    #[test]
    fn time_connection_and_topic_release() {
        let hold = Hold::new(10);
        let now = Instant::now();
        hold.hold("T", 0, now, pull(1, None)).expect("room");
        hold.hold("T", 0, later(), pull(2, None)).expect("room");
        let id = hold.hold("T", 0, later(), pull(3, None)).expect("room");
        hold.hold("U", 0, later(), pull(4, None)).expect("room");
        assert_eq!(hold.expired(now), vec![pull(1, None)]);
        assert_eq!(hold.closed(2), vec![pull(2, None)]);
        assert_eq!(hold.take(id), Some(pull(3, None)));
        assert_eq!(hold.take(id), None);
        assert_eq!(hold.drain(Some("T")), vec![]);
        assert_eq!(hold.drain(None), vec![pull(4, None)]);
        assert_eq!(hold.len(), 0);
    }

    #[test]
    fn a_full_hold_gives_the_pull_back() {
        let hold = Hold::new(1);
        hold.hold("T", 0, later(), pull(1, None)).expect("room");
        assert_eq!(hold.hold("T", 0, later(), pull(2, None)), Err(pull(2, None)));
    }

    #[tokio::test]
    async fn the_clock_wakes_for_an_earlier_deadline() {
        let hold = Arc::new(Hold::new(10));
        hold.hold("T", 0, later(), pull(1, None)).expect("room");
        let waiting = Arc::clone(&hold);
        let woken = tokio::spawn(async move { waiting.wait_for_expiry().await });
        tokio::task::yield_now().await;
        hold.hold("T", 0, Instant::now(), pull(2, None)).expect("room");
        tokio::time::timeout(Duration::from_secs(10), woken).await.expect("woken").expect("sound");
        assert_eq!(hold.expired(Instant::now()), vec![pull(2, None)]);
    }
}
