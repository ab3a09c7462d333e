//! Where the queues of topics lie.

use std::sync::Arc;

use protocol::{
    body::{BrokerData, MessageQueue, QueueData, TopicRouteData},
    message::sys_flag::perm,
};

/// Brokers and queues of one topic.
#[derive(Debug, Clone)]
pub struct Route {
    /// The topic that was asked for.
    pub topic: String,
    /// What the name server answered.
    pub data: Arc<TopicRouteData>,
}

impl Route {
    /// The queues that take messages: those of brokers whose master is known and that may be
    /// written, by broker name.
    pub fn writable(&self) -> Vec<MessageQueue> {
        self.queues(|queue| self.writable_of(queue))
    }

    /// Number of the queues that [`Route::writable`] lists, without making the list.
    pub(crate) fn writable_count(&self) -> usize {
        self.data.queue_datas.iter().map(|data| self.writable_of(data)).sum()
    }

    /// The queue at `index` of those that take messages, in the order of the name server's answer.
    pub(crate) fn writable_at(&self, index: usize) -> Option<MessageQueue> {
        let mut before = 0;
        for data in &self.data.queue_datas {
            let here = self.writable_of(data);
            if index < before + here {
                return Some(MessageQueue {
                    topic: self.topic.clone(),
                    broker_name: data.broker_name.clone(),
                    queue_id: i32::try_from(index - before).ok()?,
                });
            }
            before += here;
        }
        None
    }

    fn writable_of(&self, data: &QueueData) -> usize {
        let writable =
            data.perm & perm::WRITE != 0 && self.master_address(&data.broker_name).is_some();
        let queues = if writable { data.write_queue_nums.min(QUEUES_MAX) } else { 0 };
        usize::try_from(queues).unwrap_or_default()
    }

    /// The queues that give messages, by broker name.
    pub fn readable(&self) -> Vec<MessageQueue> {
        self.queues(|queue| {
            let readable = queue.perm & perm::READ != 0;
            let queues = if readable { queue.read_queue_nums.min(QUEUES_MAX) } else { 0 };
            usize::try_from(queues).unwrap_or_default()
        })
    }

    /// Address of the broker with id 0 of this name.
    pub fn master_address(&self, broker: &str) -> Option<&str> {
        self.broker(broker)?.broker_addrs.get(&MASTER).map(String::as_str)
    }

    /// Address of the broker with this id, or of the master, or of any of this name.
    pub fn address(&self, broker: &str, preferred_id: i64) -> Option<&str> {
        let addresses = &self.broker(broker)?.broker_addrs;
        addresses
            .get(&preferred_id)
            .or_else(|| addresses.get(&MASTER))
            .or_else(|| addresses.values().next())
            .map(String::as_str)
    }

    /// Addresses of all masters.
    pub fn masters(&self) -> impl Iterator<Item = &str> {
        self.data
            .broker_datas
            .iter()
            .filter_map(|b| b.broker_addrs.get(&MASTER))
            .map(String::as_str)
    }

    fn broker(&self, name: &str) -> Option<&BrokerData> {
        self.data.broker_datas.iter().find(|broker| broker.broker_name == name)
    }

    fn queues(&self, count: impl Fn(&QueueData) -> usize) -> Vec<MessageQueue> {
        let mut datas: Vec<_> = self.data.queue_datas.iter().collect();
        datas.sort_by(|a, b| a.broker_name.cmp(&b.broker_name));
        datas
            .into_iter()
            .flat_map(|data| {
                (0..).take(count(data)).map(|queue_id| MessageQueue {
                    topic: self.topic.clone(),
                    broker_name: data.broker_name.clone(),
                    queue_id,
                })
            })
            .collect()
    }
}

/// Broker id of a master (`MixAll.MASTER_ID`).
pub(crate) const MASTER: i64 = 0;
/// Queues of one topic on one broker that are used: a name server's number is not trusted with
/// memory.
const QUEUES_MAX: i32 = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_in_turn_is_one_of_the_list() {
        let queues = |broker: &str, perm: i32, count: i32| QueueData {
            broker_name: broker.to_owned(),
            perm,
            write_queue_nums: count,
            ..QueueData::default()
        };
        let broker = |name: &str, id: i64| BrokerData {
            broker_name: name.to_owned(),
            broker_addrs: [(id, "127.0.0.1:1".to_owned())].into_iter().collect(),
            ..BrokerData::default()
        };
        let data = TopicRouteData {
            // Read-only, without a master, and with a wrong number: none of these takes messages.
            queue_datas: vec![
                queues("b", 6, 2),
                queues("read-only", perm::READ, 4),
                queues("a", 6, 3),
                queues("slave", 6, 4),
                queues("wrong", 6, -1),
            ],
            broker_datas: vec![
                broker("a", MASTER),
                broker("b", MASTER),
                broker("read-only", MASTER),
                broker("slave", 1),
                broker("wrong", MASTER),
            ],
            ..TopicRouteData::default()
        };
        let route = Route { topic: "T".to_owned(), data: Arc::new(data) };
        assert_eq!(route.writable_count(), 5);
        let mut each: Vec<_> = (0..5).map(|index| route.writable_at(index).unwrap()).collect();
        each.sort();
        assert_eq!(each, route.writable());
        assert_eq!(route.writable_at(5), None);
    }
}
