//! Statistics: codes 208, 303, 315, 317.

use std::collections::BTreeMap;

use super::{MessageQueue, plain_bodies};

plain_bodies! {
    /// How far a group is in a queue.
    #[derive(Eq)]
    OffsetWrapper {
        /// Next offset of the queue.
        broker_offset: i64,
        /// Next offset to consume.
        consumer_offset: i64,
        /// When the message consumed last was stored, in milliseconds.
        last_timestamp: i64,
        /// Next offset to pull.
        pull_offset: i64,
    }

    /// How far a group is (code 208).
    ConsumeStats {
        /// Messages consumed per second.
        consume_tps: f64,
        /// Progress by queue.
        offset_table: BTreeMap<MessageQueue, OffsetWrapper>,
    }

    /// How far all groups are (code 317).
    ConsumeStatsList {
        /// Broker.
        broker_addr: String,
        /// One map per group.
        consume_stats_list: Vec<BTreeMap<String, Vec<ConsumeStats>>>,
        /// Messages still to consume.
        total_diff: i64,
        /// Messages pulled and not consumed.
        total_inflight_diff: i64,
    }

    /// One statistics item over a time.
    BrokerStatsItem {
        /// Per call.
        avgpt: f64,
        /// In all.
        sum: i64,
        /// Per second.
        tps: f64,
    }

    /// One statistics item (code 315).
    BrokerStatsData {
        /// Over the last day.
        stats_day: BrokerStatsItem,
        /// Over the last hour.
        stats_hour: BrokerStatsItem,
        /// Over the last minute.
        stats_minute: BrokerStatsItem,
    }

    /// Times in a queue, in milliseconds; the texts are for people.
    #[derive(Eq)]
    QueueTimeSpan {
        /// Of the message consumed last.
        consume_time_stamp: i64,
        /// The same as text.
        consume_time_stamp_str: Option<String>,
        /// How far consumption is behind.
        delay_time: i64,
        /// Of the last message.
        max_time_stamp: i64,
        /// The same as text.
        max_time_stamp_str: Option<String>,
        /// The queue.
        message_queue: MessageQueue,
        /// Of the first message.
        min_time_stamp: i64,
        /// The same as text.
        min_time_stamp_str: Option<String>,
    }

    /// Times in a topic (code 303).
    #[derive(Eq)]
    QueryConsumeTimeSpanBody {
        /// By queue.
        consume_time_span_set: Vec<QueueTimeSpan>,
    }
}
