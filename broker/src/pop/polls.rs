//! Requests that wait for messages to pop (`PopLongPollingService.java`).
//!
//! A message wakes one request of each group: messages that are popped are gone for the others. Who
//! takes a request out answers it, or lets it wait again. The number of all, and of those of one
//! group and queue, is bounded.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Instant,
};

use crate::held_requests::{HeldId, HeldRequests, Index, Table};

/// Any queue of a topic.
pub(crate) const ANY: i32 = -1;

/// Requests of one queue that are asked at most whether they want a message.
const ASKED: usize = 8;

/// What waits.
pub(crate) trait Polls: Send + 'static {
    /// The connection that it came by.
    fn connection_id(&self) -> u64;

    /// Whether a message of these tags is one that it waits for.
    fn wants(&self, tags_code: i64) -> bool;
}

/// Which messages a request waits for.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The topic.
    pub(crate) topic: String,
    /// Further topics, any queue of which will do.
    pub(crate) retries: Vec<String>,
    /// The group.
    pub(crate) group: String,
    /// The queue, or [`ANY`].
    pub(crate) queue: i32,
}

/// How many may wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// All together.
    pub(crate) all: usize,
    /// Those of one group, topic and queue.
    pub(crate) of_queue: usize,
}

/// Which request of several is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// The one whose time is over first.
    First,
    /// The one whose time is over last (`NotificationProcessor`).
    Last,
}

/// Requests by what they wait for.
#[derive(Debug)]
pub(crate) struct Waiting<P> {
    polls: HeldRequests<P, Rows>,
    order: Order,
}

/// Group and queue of those that wait, by topic.
#[derive(Debug, Default)]
struct Rows(HashMap<String, Row>);

type Row = BTreeMap<(Arc<str>, i32), BTreeSet<(Instant, HeldId)>>;

impl<P: Polls> Waiting<P> {
    /// Nothing waits.
    pub(crate) fn new(order: Order) -> Self {
        Self { polls: HeldRequests::new(), order }
    }

    /// Lets a request wait until `deadline`. It comes back where too many wait already.
    pub(crate) fn hold(
        &self,
        place: Place,
        deadline: Instant,
        bounds: Bounds,
        request: P,
    ) -> Result<HeldId, P> {
        let connection = request.connection_id();
        self.polls.hold(request, place, (connection, deadline), |table, place| {
            let of_queue = table.index().count(&place.topic, &place.group, place.queue);
            table.len() < bounds.all && of_queue < bounds.of_queue
        })
    }

    /// Takes out one request, where it still waits.
    pub(crate) fn take(&self, id: HeldId) -> Option<P> {
        self.polls.take(id)
    }

    /// Takes out one request of each group that waits for a message of this queue and these tags.
    pub(crate) fn arrived(&self, topic: &str, queue: u32, tags_code: i64) -> Vec<P> {
        self.polls.take_found(|table| {
            let Some(row) = table.index().0.get(topic) else { return Vec::new() };
            let wanted = |of: i32| of == ANY || u32::try_from(of) == Ok(queue);
            let mut ids = Vec::new();
            for (_, waiting) in row.iter().filter(|((_, of), _)| wanted(*of)) {
                ids.extend(self.pick(table, waiting, Some(tags_code)));
            }
            ids
        })
    }

    /// Takes out one request of a group that waits for messages of a queue, whatever their tags.
    pub(crate) fn wake(&self, topic: &str, group: &str, queue: i32) -> Option<P> {
        let woken = self.polls.take_found(|table| {
            let waiting = table.index().0.get(topic)?.get(&(Arc::from(group), queue))?;
            self.pick(table, waiting, None)
        });
        woken.into_iter().next()
    }

    /// Takes out the requests whose time is over.
    pub(crate) fn expired(&self, now: Instant) -> Vec<P> {
        self.polls.expired(now)
    }

    /// Takes out all requests of a connection that has closed.
    pub(crate) fn closed(&self, connection_id: u64) -> Vec<P> {
        self.polls.closed(connection_id)
    }

    /// Takes out all requests that wait for a topic.
    pub(crate) fn drain_topic(&self, topic: &str) -> Vec<P> {
        self.polls.drain(|place| place.topic == topic)
    }

    /// Takes out all requests.
    pub(crate) fn drain_all(&self) -> Vec<P> {
        self.polls.drain(|_| true)
    }

    /// Number of requests that wait for a queue of a topic.
    pub(crate) fn count(&self, topic: &str, group: &str, queue: i32) -> usize {
        self.polls.look(|table| table.index().count(topic, group, queue))
    }

    /// Waits until the time of some request is over; returns then.
    pub(crate) async fn wait_for_expiry(&self) {
        self.polls.wait_for_expiry().await;
    }

    /// The request whose turn it is among those of one queue.
    fn pick(
        &self,
        table: &Table<P, Rows>,
        waiting: &BTreeSet<(Instant, HeldId)>,
        tags_code: Option<i64>,
    ) -> Option<HeldId> {
        let wants = |id: &HeldId| {
            let request = table.get(*id);
            request.is_some_and(|request| tags_code.is_none_or(|code| request.wants(code)))
        };
        let mut ids: Box<dyn Iterator<Item = HeldId>> = match self.order {
            Order::First => Box::new(waiting.iter().map(|(_, id)| *id)),
            Order::Last => Box::new(waiting.iter().rev().map(|(_, id)| *id)),
        };
        ids.by_ref().take(ASKED).find(wants)
    }
}

impl Index for Rows {
    type Place = Place;

    fn enter(&mut self, place: &Place, deadline: Instant, id: HeldId) {
        let group: Arc<str> = place.group.as_str().into();
        for (topic, queue) in place.rows() {
            let row = self.0.entry(topic.to_owned()).or_default();
            row.entry((Arc::clone(&group), queue)).or_default().insert((deadline, id));
        }
    }

    fn leave(&mut self, place: &Place, deadline: Instant, id: HeldId) {
        let group: Arc<str> = place.group.as_str().into();
        for (topic, queue) in place.rows() {
            let Some(row) = self.0.get_mut(topic) else { continue };
            let of = (Arc::clone(&group), queue);
            if let Some(waiting) = row.get_mut(&of) {
                waiting.remove(&(deadline, id));
                if waiting.is_empty() {
                    row.remove(&of);
                }
            }
            if row.is_empty() {
                self.0.remove(topic);
            }
        }
    }
}

impl Rows {
    fn count(&self, topic: &str, group: &str, queue: i32) -> usize {
        let row = self.0.get(topic);
        row.and_then(|row| row.get(&(Arc::from(group), queue))).map_or(0, BTreeSet::len)
    }
}

impl Place {
    fn rows(&self) -> impl Iterator<Item = (&str, i32)> {
        let retries = self.retries.iter().map(|topic| (topic.as_str(), ANY));
        std::iter::once((self.topic.as_str(), self.queue)).chain(retries)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[derive(Debug, PartialEq)]
    struct Request {
        name: u64,
        tag: Option<i64>,
    }

    impl Polls for Request {
        fn connection_id(&self) -> u64 {
            self.name
        }

        fn wants(&self, tags_code: i64) -> bool {
            self.tag.is_none_or(|tag| tag == tags_code)
        }
    }

    const BOUNDS: Bounds = Bounds { all: 4, of_queue: 2 };

    fn later(seconds: u64) -> Instant {
        Instant::now() + Duration::from_secs(60 + seconds)
    }

    fn place(group: &str, queue: i32) -> Place {
        Place {
            topic: "T".into(),
            retries: vec![format!("%RETRY%{group}_T")],
            group: group.into(),
            queue,
        }
    }

    fn names(woken: Vec<Request>) -> Vec<u64> {
        woken.into_iter().map(|request| request.name).collect()
    }

    #[test]
    fn a_message_wakes_one_request_of_each_group() {
        let waiting = Waiting::new(Order::First);
        let hold = |of: Place, seconds: u64, name: u64, tag: Option<i64>| {
            waiting.hold(of, later(seconds), BOUNDS, Request { name, tag }).expect("room")
        };
        hold(place("g", ANY), 2, 1, None);
        hold(place("g", ANY), 1, 2, None);
        hold(place("h", 3), 1, 3, Some(7));
        hold(place("h", 5), 1, 4, None);
        assert_eq!(names(waiting.arrived("U", 3, 7)), [0; 0]);
        assert_eq!(names(waiting.arrived("T", 3, 8)), [2], "another tag than h wants");
        assert_eq!(names(waiting.arrived("T", 3, 7)), [1, 3]);
        assert_eq!(names(waiting.arrived("%RETRY%h_T", 0, 0)), [4], "whatever its queue");
        assert_eq!(waiting.polls.look(|table| table.len()), 0);
        assert!(waiting.polls.look(|table| table.index().0.is_empty()), "nothing is left of them");
    }

    #[test]
    fn the_last_is_woken_first_where_that_is_asked_for() {
        let waiting = Waiting::new(Order::Last);
        for (seconds, name) in [(1, 1), (2, 2)] {
            let request = Request { name, tag: None };
            waiting.hold(place("g", 0), later(seconds), BOUNDS, request).expect("room");
        }
        assert_eq!(names(waiting.arrived("T", 0, 0)), [2]);
        assert_eq!(waiting.wake("T", "g", ANY), None, "no such queue");
        assert_eq!(waiting.wake("T", "g", 0).map(|request| request.name), Some(1));
    }

    #[test]
    fn both_bounds_give_the_request_back() {
        let waiting = Waiting::new(Order::First);
        let hold = |queue: i32| {
            let request = Request { name: 1, tag: None };
            waiting.hold(place("g", queue), later(0), BOUNDS, request).is_ok()
        };
        assert_eq!([hold(0), hold(0), hold(0)], [true, true, false], "of one queue");
        assert_eq!([hold(1), hold(1), hold(2)], [true, true, false], "of all");
        assert_eq!((waiting.count("T", "g", 0), waiting.polls.look(|table| table.len())), (2, 4));
    }

    #[test]
    fn time_connection_and_topic_release() {
        let waiting = Waiting::new(Order::First);
        let hold = |deadline: Instant, queue: i32, name: u64| {
            let request = Request { name, tag: None };
            waiting.hold(place("g", queue), deadline, BOUNDS, request).expect("room")
        };
        let now = Instant::now();
        hold(now, 0, 1);
        hold(later(0), 1, 2);
        let id = hold(later(0), 2, 3);
        assert_eq!(names(waiting.expired(now)), [1]);
        assert_eq!(names(waiting.closed(2)), [2]);
        assert_eq!(waiting.take(id).map(|request| request.name), Some(3));
        assert_eq!(waiting.take(id), None);
        hold(later(0), 0, 4);
        assert_eq!(names(waiting.drain_topic("U")), [0; 0]);
        assert_eq!(names(waiting.drain_topic("T")), [4]);
        assert_eq!(names(waiting.drain_all()), [0; 0]);
    }
}
