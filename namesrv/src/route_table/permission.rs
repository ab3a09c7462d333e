//! What an administrator changes: write permission of a broker, topics.

use protocol::body::QueueData;

use super::RouteTable;
use crate::perm;

impl RouteTable {
    /// Takes the write permission from all topics of a broker; tells how many there are.
    pub fn wipe_write(&mut self, broker_name: &str) -> usize {
        self.change_perms(broker_name, |perm| perm & !perm::WRITE)
    }

    /// Makes all topics of a broker readable and writable; tells how many there are.
    pub fn add_write(&mut self, broker_name: &str) -> usize {
        self.change_perms(broker_name, |_| perm::READ | perm::WRITE)
    }

    /// Forgets a topic, on all brokers or on those of one cluster.
    pub fn delete_topic(&mut self, topic: &str, cluster: Option<&str>) {
        let Some(cluster) = cluster else {
            self.topics.remove(topic);
            self.mappings.remove(topic);
            return;
        };
        let Some(names) = self.clusters.get(cluster) else { return };
        let Some(brokers) = self.topics.get_mut(topic) else { return };
        brokers.retain(|name, _| !names.contains(name));
        if brokers.is_empty() {
            self.topics.remove(topic);
        }
    }

    /// Takes one topic in, for brokers that are known.
    ///
    /// # Errors
    /// The name of the first broker that is not known; brokers before it are taken, as in Java.
    pub fn register_topic(&mut self, topic: &str, queues: Vec<QueueData>) -> Result<(), String> {
        for queue in queues {
            if !self.groups.contains_key(&queue.broker_name) {
                return Err(queue.broker_name);
            }
            let brokers = self.topics.entry(topic.to_owned()).or_default();
            brokers.insert(queue.broker_name.clone(), queue);
        }
        Ok(())
    }

    pub(super) fn change_perms(&mut self, broker_name: &str, change: impl Fn(i32) -> i32) -> usize {
        let queues = self.topics.values_mut().filter_map(|brokers| brokers.get_mut(broker_name));
        queues.map(|queue| queue.perm = change(queue.perm)).count()
    }
}
