//! Values that many bodies have in them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{bodies, plain_bodies};

/// A queue of a topic on a broker; a key of many maps. Ordered as Java orders it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MessageQueue {
    /// Broker group.
    pub broker_name: String,
    /// Number of the queue, from 0; -1 means all queues of a pop assignment.
    pub queue_id: i32,
    /// Topic.
    pub topic: String,
}

impl MessageQueue {
    /// The queue of a topic on a broker.
    pub fn new(topic: impl Into<String>, broker_name: impl Into<String>, queue_id: i32) -> Self {
        Self { broker_name: broker_name.into(), queue_id, topic: topic.into() }
    }
}

/// By topic, broker and number (`MessageQueue.compareTo`): clients allocate queues in this order.
impl Ord for MessageQueue {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.topic
            .cmp(&other.topic)
            .then_with(|| self.broker_name.cmp(&other.broker_name))
            .then_with(|| self.queue_id.cmp(&other.queue_id))
    }
}

impl PartialOrd for MessageQueue {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The version of a table. Two are the same when all three numbers are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataVersion {
    /// Number of changes.
    pub counter: i64,
    /// Version of the state machine that made the change.
    pub state_version: i64,
    /// Time of the last change, in milliseconds.
    pub timestamp: i64,
}

bodies! { MessageQueue DataVersion }

plain_bodies! {
    /// Names and values: code 219, runtime information, order topics.
    #[derive(Eq)]
    KvTable {
        /// The values by name.
        table: BTreeMap<String, String>,
    }

    /// Names of topics, with the address of a broker that knows more (codes 206, 224, 304, 305).
    #[derive(Eq)]
    TopicList {
        /// Where to ask for more.
        broker_addr: Option<String>,
        /// The names.
        topic_list: Vec<String>,
    }

    /// Names of groups (code 300).
    #[derive(Eq)]
    GroupList {
        /// The names.
        group_list: Vec<String>,
    }
}
