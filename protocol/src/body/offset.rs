//! Offsets by queue: codes 43, 45, 220 to 223, 308, and the files of the same form.

use std::collections::BTreeMap;

use super::{DataVersion, MessageQueue, plain_bodies};

plain_bodies! {
    /// Offsets that were or are to be set (codes 222 and 220).
    #[derive(Eq)]
    ResetOffsetBody {
        /// Offsets by queue.
        offset_table: BTreeMap<MessageQueue, i64>,
    }

    /// The same for an administrator that writes C++ (code 220).
    #[derive(Eq)]
    ResetOffsetBodyForC {
        /// Offsets.
        offset_table: Vec<MessageQueueForC>,
    }

    /// A queue with its offset.
    #[derive(Eq)]
    MessageQueueForC {
        /// Broker group.
        broker_name: String,
        /// Offset.
        offset: i64,
        /// Number of the queue.
        queue_id: i32,
        /// Topic.
        topic: String,
    }

    /// What members hold (codes 223 and 221).
    #[derive(Eq)]
    GetConsumerStatusBody {
        /// Offsets by client and queue.
        consumer_table: BTreeMap<String, BTreeMap<MessageQueue, i64>>,
        /// Offsets of one member by queue.
        message_queue_table: BTreeMap<MessageQueue, i64>,
    }

    /// consumerOffset.json, and the answer to code 43. Keys are `topic@group`.
    #[derive(Eq)]
    ConsumerOffsetSerializeWrapper {
        /// Version of the table.
        data_version: DataVersion,
        /// Topics by group.
        group_topic_map: Option<BTreeMap<String, Vec<String>>>,
        /// Offsets of light queues.
        lmq_offset_table: Option<BTreeMap<String, i64>>,
        /// Next offset to consume by queue number.
        offset_table: BTreeMap<String, BTreeMap<i32, i64>>,
        /// Next offset to pull by queue number.
        pull_offset_table: Option<BTreeMap<String, BTreeMap<i32, i64>>>,
    }

    /// delayOffset.json, and the answer to code 45.
    #[derive(Eq)]
    DelayOffsetSerializeWrapper {
        /// Version of the table.
        data_version: DataVersion,
        /// Offsets by delay level.
        offset_table: BTreeMap<i32, i64>,
    }

    /// Answer to code 308.
    #[derive(Eq)]
    QueryCorrectionOffsetBody {
        /// Offsets by queue number.
        correction_offsets: BTreeMap<i32, i64>,
    }
}
