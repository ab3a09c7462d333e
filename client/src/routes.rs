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
        self.queues(|queue| {
            let writable =
                queue.perm & perm::WRITE != 0 && self.master_address(&queue.broker_name).is_some();
            if writable { queue.write_queue_nums } else { 0 }
        })
    }

    /// The queues that give messages, by broker name.
    pub fn readable(&self) -> Vec<MessageQueue> {
        self.queues(|queue| if queue.perm & perm::READ != 0 { queue.read_queue_nums } else { 0 })
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

    fn queues(&self, count: impl Fn(&QueueData) -> i32) -> Vec<MessageQueue> {
        let mut datas: Vec<_> = self.data.queue_datas.iter().collect();
        datas.sort_by(|a, b| a.broker_name.cmp(&b.broker_name));
        datas
            .into_iter()
            .flat_map(|data| {
                // A name server's number is not trusted with memory.
                (0..count(data).min(QUEUES_MAX)).map(|queue_id| MessageQueue {
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
/// Queues of one topic on one broker that are used.
const QUEUES_MAX: i32 = 65_536;
