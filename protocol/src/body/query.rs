//! Answers to small queries: codes 321, 345, 354, 400 to 402.

use std::collections::BTreeMap;

use super::{MessageQueue, SubscriptionData, plain_bodies};
use crate::json::Value;

plain_bodies! {
    /// A group's subscription to a topic (code 345).
    #[derive(Eq)]
    QuerySubscriptionResponseBody {
        /// Group.
        group: String,
        /// The subscription, where there is one.
        subscription_data: Option<SubscriptionData>,
        /// Topic.
        topic: Option<String>,
    }

    /// Answer to code 354.
    #[derive(Eq)]
    CheckRocksdbCqWriteResult {
        /// What was found.
        check_result: Option<String>,
        /// How it stands.
        check_status: i32,
    }

    /// Which queues a client is to consume (code 400).
    #[derive(Eq)]
    QueryAssignmentRequestBody {
        /// Client.
        client_id: String,
        /// Group.
        consumer_group: String,
        /// `CLUSTERING` or `BROADCASTING`.
        message_model: Option<String>,
        /// `AVG` and so on.
        strategy_name: Option<String>,
        /// Topic.
        topic: String,
    }

    /// One queue of an assignment.
    #[derive(Eq)]
    MessageQueueAssignment {
        /// Whatever goes with it.
        attachments: Option<BTreeMap<String, String>>,
        /// The queue.
        message_queue: Option<MessageQueue>,
        /// `PULL` or `POP`.
        mode: Option<String>,
    }

    /// Answer to code 400; without the list when the strategy is unknown.
    #[derive(Eq)]
    QueryAssignmentResponseBody {
        /// The queues.
        message_queue_assignments: Option<Vec<MessageQueueAssignment>>,
    }

    /// How a group consumes a topic (code 401).
    #[derive(Eq)]
    SetMessageRequestModeRequestBody {
        /// Group.
        consumer_group: String,
        /// `PULL` or `POP`.
        mode: Option<String>,
        /// Queues that members share.
        pop_share_queue_num: i32,
        /// Topic.
        topic: String,
    }

    /// messageRequestMode.json, and the answer to code 402.
    #[derive(Eq)]
    MessageRequestModeSerializeWrapper {
        /// By topic and group.
        message_request_mode_map: BTreeMap<String, BTreeMap<String, SetMessageRequestModeRequestBody>>,
    }

    /// Counts of timer messages (code 61).
    TimerMetricsSerializeWrapper {
        /// Version of the table.
        data_version: super::DataVersion,
        /// By topic, passed on as they are.
        timing_count: BTreeMap<String, Value>,
    }

    /// One unit of a consume queue (answer to code 321).
    #[derive(Eq)]
    ConsumeQueueData {
        /// Bits of the filter extension, as text.
        bit_map: Option<String>,
        /// Whether the group's filter lets the message through.
        eval: bool,
        /// The unit's extension.
        extend_data_json: Option<String>,
        /// What went wrong with the filter.
        msg: Option<String>,
        /// Physical offset of the message.
        physic_offset: i64,
        /// Length of the message in bytes.
        physic_size: i32,
        /// Hash of its tags.
        tags_code: i64,
    }

    /// Answer to code 321.
    #[derive(Eq)]
    QueryConsumeQueueResponseBody {
        /// The filter, or why there is none.
        filter_data: Option<String>,
        /// Next offset of the queue.
        max_queue_index: i64,
        /// First offset of the queue.
        min_queue_index: i64,
        /// The units that were asked for.
        queue_data: Vec<ConsumeQueueData>,
        /// The group's subscription.
        subscription_data: Option<SubscriptionData>,
    }
}
