//! What consumers tell of themselves: codes 307 and 309.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{MessageQueue, SubscriptionData, bodies, plain_bodies};

/// Rates of one topic in a consumer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeStatus {
    /// Messages that failed within the last hour.
    pub consume_failed_msgs: i64,
    /// Failed messages per second.
    #[serde(rename = "consumeFailedTPS")]
    pub consume_failed_tps: f64,
    /// Consumed messages per second.
    #[serde(rename = "consumeOKTPS")]
    pub consume_ok_tps: f64,
    /// Milliseconds per consumption.
    #[serde(rename = "consumeRT")]
    pub consume_rt: f64,
    /// Milliseconds per pull.
    #[serde(rename = "pullRT")]
    pub pull_rt: f64,
    /// Pulled messages per second.
    #[serde(rename = "pullTPS")]
    pub pull_tps: f64,
}

/// A queue within a consumer. The misspelt field is Java's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProcessQueueInfo {
    /// Messages at hand.
    pub cached_msg_count: i32,
    /// Highest offset at hand.
    pub cached_msg_max_offset: i64,
    /// Lowest offset at hand.
    pub cached_msg_min_offset: i64,
    /// MiB at hand.
    #[serde(rename = "cachedMsgSizeInMiB")]
    pub cached_msg_size_in_mib: i32,
    /// Committed offset.
    pub commit_offset: i64,
    /// Whether the queue was given up.
    pub droped: bool,
    /// Milliseconds.
    pub last_consume_timestamp: i64,
    /// Milliseconds.
    pub last_lock_timestamp: i64,
    /// Milliseconds.
    pub last_pull_timestamp: i64,
    /// Whether the queue is locked at the broker.
    pub locked: bool,
    /// Messages being consumed in order.
    pub transaction_msg_count: i32,
    /// Their highest offset.
    pub transaction_msg_max_offset: i64,
    /// Their lowest offset.
    pub transaction_msg_min_offset: i64,
    /// How often unlocking was tried.
    pub try_unlock_times: i64,
}

bodies! { ConsumeStatus ProcessQueueInfo }

plain_bodies! {
    /// A pop queue within a consumer.
    #[derive(Eq)]
    PopProcessQueueInfo {
        /// Whether the queue was given up.
        droped: bool,
        /// Milliseconds.
        last_pop_timestamp: i64,
        /// Messages not yet acknowledged.
        wait_ack_count: i32,
    }

    /// What a consumer does (code 307). The broker relays it unread.
    ConsumerRunningInfo {
        /// Stacks of its threads.
        jstack: Option<String>,
        /// Pop queues.
        mq_pop_table: BTreeMap<MessageQueue, PopProcessQueueInfo>,
        /// Queues.
        mq_table: BTreeMap<MessageQueue, ProcessQueueInfo>,
        /// Its settings.
        properties: BTreeMap<String, String>,
        /// Rates by topic.
        status_table: BTreeMap<String, ConsumeStatus>,
        /// Subscriptions.
        subscription_set: Vec<SubscriptionData>,
        /// What the application adds.
        user_consumer_info: BTreeMap<String, String>,
    }

    /// How the consumption of one message went (code 309). The misspelt field is Java's.
    #[derive(Eq)]
    ConsumeMessageDirectlyResult {
        /// Whether offsets are committed by themselves.
        auto_commit: bool,
        /// `CR_SUCCESS`, `CR_LATER`, `CR_ROLLBACK`, `CR_COMMIT`, `CR_THROW_EXCEPTION` or
        /// `CR_RETURN_NULL`.
        consume_result: Option<String>,
        /// Whether it consumes in order.
        order: bool,
        /// What went wrong.
        remark: Option<String>,
        /// Milliseconds.
        spent_time_mills: i64,
    }
}
