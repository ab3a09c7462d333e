//! Where the queues of a topic are, on all brokers of the cluster, as name servers tell it
//! (`TopicRouteInfoManager.java`).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use protocol::{
    body::{MessageQueue, TopicRouteData},
    message::sys_flag::perm,
    name,
};

use crate::broker::Broker;

/// Topics that are remembered; beyond it the one that was asked for longest ago is forgotten.
const TOPICS_KEPT: usize = 10_000;
/// Queues of one topic on one broker that are believed: a name server's number is not trusted with
/// memory.
const QUEUES_MAX: i32 = 65_536;

/// The queues that name servers told of.
#[derive(Debug, Default)]
pub(crate) struct TopicQueues {
    topics: Mutex<HashMap<String, Known>>,
}

#[derive(Debug)]
struct Known {
    queues: Arc<[MessageQueue]>,
    /// When a name server was asked last.
    asked: Instant,
}

/// What is known of a topic.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    /// Queues that may be used now.
    Young(Arc<[MessageQueue]>),
    /// Those of an older answer: the caller asks, and others go on with these meanwhile.
    Old(Arc<[MessageQueue]>),
    /// Nothing.
    Nothing,
}

impl TopicQueues {
    fn look(&self, topic: &str, keep: Duration, now: Instant) -> Look {
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = topics.get_mut(topic) else { return Look::Nothing };
        if now.saturating_duration_since(known.asked) < keep && !known.queues.is_empty() {
            return Look::Young(Arc::clone(&known.queues));
        }
        known.asked = now;
        Look::Old(Arc::clone(&known.queues))
    }

    fn note(&self, topic: &str, queues: Arc<[MessageQueue]>, now: Instant) {
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        if topics.len() >= TOPICS_KEPT && !topics.contains_key(topic) {
            let oldest = topics.iter().min_by_key(|(_, known)| known.asked);
            let oldest = oldest.map(|(name, _)| name.clone());
            oldest.and_then(|oldest| topics.remove(&oldest));
        }
        topics.insert(topic.to_owned(), Known { queues, asked: now });
    }

    fn forget(&self, topic: &str) {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner).remove(topic);
    }
}

impl Broker {
    /// The queues of a topic that may be read, sorted; `None` where nobody knows the topic.
    pub(crate) async fn queues_of(&self, topic: &str) -> Option<Arc<[MessageQueue]>> {
        let keep = Duration::from_millis(self.config().load_balance_poll_name_server_interval);
        let old = match self.topic_queues.look(topic, keep, Instant::now()) {
            Look::Young(queues) => return Some(queues),
            Look::Old(queues) => Some(queues),
            Look::Nothing => None,
        };
        match self.registration.route(&self.config().namesrv_addr, topic).await {
            Some(Some(route)) => {
                let queues: Arc<[MessageQueue]> = readable(topic, &route).into();
                self.topic_queues.note(topic, Arc::clone(&queues), Instant::now());
                Some(queues)
            }
            // A retry topic comes and goes with its group: what is known of it stays.
            Some(None) if !name::is_retry_topic(topic) => {
                self.topic_queues.forget(topic);
                None
            }
            Some(None) | None => old,
        }
    }
}

/// The queues of a route that give messages, sorted (`topicRouteData2TopicSubscribeInfo`).
fn readable(topic: &str, route: &TopicRouteData) -> Vec<MessageQueue> {
    let readable = route.queue_datas.iter().filter(|data| data.perm & perm::READ != 0);
    let mut queues: Vec<_> = readable
        .flat_map(|data| {
            let queue = |id| MessageQueue::new(topic, data.broker_name.as_str(), id);
            (0..data.read_queue_nums.min(QUEUES_MAX)).map(queue)
        })
        .collect();
    queues.sort_unstable();
    queues.dedup();
    queues
}

#[cfg(test)]
mod tests {
    use protocol::body::QueueData;

    use super::*;

    fn on(broker: &str, perm: i32, queues: i32) -> QueueData {
        QueueData {
            broker_name: broker.to_owned(),
            perm,
            read_queue_nums: queues,
            ..QueueData::default()
        }
    }

    #[test]
    fn queues_are_those_that_may_be_read_in_order() {
        let queue_datas = vec![on("b", 6, 1), on("a", 4, 2), on("w", 2, 3), on("n", 6, -4)];
        let route = TopicRouteData { queue_datas, ..TopicRouteData::default() };
        let expected =
            [("a", 0), ("a", 1), ("b", 0)].map(|(on, id)| MessageQueue::new("T", on, id));
        assert_eq!(readable("T", &route), expected);
        let many = TopicRouteData { queue_datas: vec![on("b", 6, i32::MAX)], ..route };
        assert_eq!(readable("T", &many).len(), 65_536);
    }

    #[test]
    fn an_old_answer_is_asked_again_by_one_caller_only() {
        let (known, start) = (TopicQueues::default(), Instant::now());
        let (keep, later) = (Duration::from_secs(30), start + Duration::from_secs(31));
        let queues: Arc<[MessageQueue]> = vec![MessageQueue::new("T", "b", 0)].into();
        assert_eq!(known.look("T", keep, start), Look::Nothing);
        known.note("T", Arc::clone(&queues), start);
        assert_eq!(known.look("T", keep, start), Look::Young(Arc::clone(&queues)));
        assert_eq!(known.look("T", keep, later), Look::Old(Arc::clone(&queues)));
        assert_eq!(known.look("T", keep, later), Look::Young(queues));
        known.note("E", Vec::new().into(), start);
        assert_eq!(known.look("E", keep, start), Look::Old(Vec::new().into()), "an empty one");
    }

    #[test]
    fn topics_have_a_bound() {
        let (known, start) = (TopicQueues::default(), Instant::now());
        for nth in 0..=TOPICS_KEPT as u64 {
            let at = start + Duration::from_millis(nth);
            known.note(&format!("T{nth}"), Vec::new().into(), at);
        }
        assert_eq!(known.topics.lock().unwrap().len(), TOPICS_KEPT);
        assert_eq!(known.look("T0", Duration::ZERO, start), Look::Nothing, "the oldest is gone");
    }
}
