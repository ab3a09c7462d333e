//! Configurations of topics.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{DataVersion, MessageQueue, bodies, plain_bodies};
use crate::json::Value;

/// One topic (`TopicConfig.java`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicConfig {
    /// Attributes such as `message.type`, without the signs of an update.
    pub attributes: BTreeMap<String, String>,
    /// Whether its messages are ordered.
    pub order: bool,
    /// Bits of [`crate::message::sys_flag::perm`].
    pub perm: i32,
    /// Number of queues for consumers.
    pub read_queue_nums: i32,
    /// `SINGLE_TAG` or `MULTI_TAG`.
    pub topic_filter_type: String,
    /// Name.
    pub topic_name: String,
    /// Bits of [`crate::message::sys_flag::topic`].
    pub topic_sys_flag: i32,
    /// Number of queues for producers.
    pub write_queue_nums: i32,
}

impl Default for TopicConfig {
    fn default() -> Self {
        Self {
            attributes: BTreeMap::new(),
            order: false,
            perm: 6,
            read_queue_nums: 16,
            topic_filter_type: "SINGLE_TAG".to_owned(),
            topic_name: String::new(),
            topic_sys_flag: 0,
            write_queue_nums: 16,
        }
    }
}

bodies! { TopicConfig }

plain_bodies! {
    /// A table of topics: topics.json, and the answer to code 21. With the mappings it is Java's
    /// `TopicConfigAndMappingSerializeWrapper`; 4.x knows none.
    TopicConfigSerializeWrapper {
        /// Version of the table.
        data_version: DataVersion,
        /// Version of the mappings.
        mapping_data_version: Option<DataVersion>,
        /// Topics by name.
        topic_config_table: BTreeMap<String, TopicConfig>,
        /// Static topics in detail, passed on as they are.
        topic_queue_mapping_detail_map: Option<BTreeMap<String, Value>>,
        /// Static topics.
        topic_queue_mapping_info_map: Option<BTreeMap<String, TopicQueueMappingInfo>>,
    }

    /// Several topics to create (code 18; `CreateTopicListRequestBody`).
    #[derive(Eq)]
    CreateTopicListRequestBody {
        /// The topics.
        topic_config_list: Vec<TopicConfig>,
    }

    /// Where a static topic's queues are.
    #[derive(Eq)]
    TopicQueueMappingInfo {
        /// Broker.
        bname: Option<String>,
        /// Queues by their global number.
        curr_id_map: BTreeMap<i32, i32>,
        /// Whether the mapping is being changed.
        dirty: bool,
        /// Version.
        epoch: i64,
        /// Scope.
        scope: Option<String>,
        /// Topic.
        topic: String,
        /// Number of queues.
        total_queues: i32,
    }

    /// Offsets of a queue (code 202).
    #[derive(Eq)]
    TopicOffset {
        /// When the last message was stored, in milliseconds.
        last_update_timestamp: i64,
        /// Next offset.
        max_offset: i64,
        /// First offset.
        min_offset: i64,
    }

    /// Offsets of a topic's queues (code 202).
    TopicStatsTable {
        /// Offsets by queue.
        offset_table: BTreeMap<MessageQueue, TopicOffset>,
        /// Messages put per second.
        topic_put_tps: f64,
    }
}

impl TopicConfigSerializeWrapper {
    /// With the mappings of a broker that has no static topics, as 5.x writes them.
    #[must_use]
    pub fn with_empty_mappings(mut self) -> Self {
        self.mapping_data_version.get_or_insert_default();
        self.topic_queue_mapping_detail_map.get_or_insert_default();
        self.topic_queue_mapping_info_map.get_or_insert_default();
        self
    }
}
