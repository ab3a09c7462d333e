//! Pulls that wait for messages (`PullRequestHoldService.java`).
//!
//! A pull is woken by the arrival of a message that its filter lets through, or when its time is
//! over. It is then taken out and evaluated once more; who takes it out answers it, so that it is
//! answered once. The number of held pulls is bounded.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Instant,
};

use crate::held_requests::{HeldId, HeldRequests, Index, forget};

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
    pulls: HeldRequests<P, ByQueue>,
    bound: usize,
}

#[derive(Debug, Default)]
struct ByQueue(HashMap<QueueKey, BTreeSet<HeldId>>);

/// Topic and queue.
type QueueKey = (Arc<str>, u32);

impl Index for ByQueue {
    type Place = QueueKey;

    fn enter(&mut self, place: &QueueKey, _deadline: Instant, id: HeldId) {
        self.0.entry(QueueKey::clone(place)).or_default().insert(id);
    }

    fn leave(&mut self, place: &QueueKey, _deadline: Instant, id: HeldId) {
        forget(&mut self.0, place, &id);
    }
}

impl<P: Waits> Hold<P> {
    /// Nothing held, and at most `bound` later.
    pub(crate) fn new(bound: usize) -> Self {
        Self { pulls: HeldRequests::new(), bound }
    }

    /// Holds a pull until `deadline`. It comes back where too many are held already.
    pub(crate) fn hold(
        &self,
        topic: &str,
        queue: u32,
        deadline: Instant,
        pull: P,
    ) -> Result<HeldId, P> {
        let (place, connection) = ((Arc::from(topic), queue), pull.connection_id());
        self.pulls.hold(pull, place, (connection, deadline), |table, _| table.len() < self.bound)
    }

    /// Takes out one pull, where it is still held.
    pub(crate) fn take(&self, id: HeldId) -> Option<P> {
        self.pulls.take(id)
    }

    /// Takes out the pulls that wait for a message of this queue, offset and tags.
    pub(crate) fn arrived(
        &self,
        topic: &Arc<str>,
        queue: u32,
        queue_offset: u64,
        tags_code: i64,
    ) -> Vec<P> {
        self.pulls.take_found(|table| {
            if table.len() == 0 {
                return Vec::new();
            }
            let Some(ids) = table.index().0.get(&(Arc::clone(topic), queue)) else {
                return Vec::new();
            };
            let wants = |id: &HeldId| {
                table.get(*id).is_some_and(|pull| pull.wants(queue_offset, tags_code))
            };
            ids.iter().copied().filter(wants).collect()
        })
    }

    /// Takes out the pulls whose time is over.
    pub(crate) fn expired(&self, now: Instant) -> Vec<P> {
        self.pulls.expired(now)
    }

    /// Takes out all pulls of a connection that has closed.
    pub(crate) fn closed(&self, connection_id: u64) -> Vec<P> {
        self.pulls.closed(connection_id)
    }

    /// Takes out all pulls: of one topic, or of every one.
    pub(crate) fn drain(&self, topic: Option<&str>) -> Vec<P> {
        self.pulls.drain(|(of, _)| topic.is_none_or(|topic| **of == *topic))
    }

    /// Number of held pulls.
    pub(crate) fn len(&self) -> usize {
        self.pulls.look(|table| table.len())
    }

    /// Waits until the time of some pull is over; returns then.
    pub(crate) async fn wait_for_expiry(&self) {
        self.pulls.wait_for_expiry().await;
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
