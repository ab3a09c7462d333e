//! Offsets of queues and groups: codes 14, 15, 29, 30, 31, 32, 220 to 223, 308, 314.

use super::{Scalar, headers};

/// Which edge a search by time wants (`BoundaryType.java`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BoundaryType {
    /// The first offset stored at or after the time.
    #[default]
    Lower,
    /// The last offset stored at or before the time.
    Upper,
}

/// Whatever is not "upper" is the lower edge, as in Java.
impl Scalar for BoundaryType {
    const EXPECTED: &'static str = "lower or upper";

    fn parse(text: &str) -> Option<Self> {
        Some(if text.eq_ignore_ascii_case("upper") { Self::Upper } else { Self::Lower })
    }

    fn put(&self, out: &mut String) {
        out.push_str(match self {
            Self::Lower => "lower",
            Self::Upper => "upper",
        });
    }
}

headers! {
    /// 14: the offset that a group committed.
    QueryConsumerOffsetRequest {
        consumer_group: String => "consumerGroup",
        topic: String => "topic",
        queue_id: i32 => "queueId",
        set_zero_if_not_found: Option<bool> => "setZeroIfNotFound",
    }

    /// Answer to 14.
    QueryConsumerOffsetResponse {
        offset: i64 => "offset",
    }

    /// 15: commits an offset.
    UpdateConsumerOffsetRequest {
        consumer_group: String => "consumerGroup",
        topic: String => "topic",
        queue_id: Option<i32> => "queueId",
        commit_offset: Option<i64> => "commitOffset",
    }

    /// Answer to 15.
    UpdateConsumerOffsetResponse {}

    /// 29: the offset that belongs to a store time in milliseconds.
    SearchOffsetRequest {
        topic: String => "topic",
        queue_id: i32 => "queueId",
        timestamp: i64 => "timestamp",
        boundary_type: BoundaryType = BoundaryType::Lower => "boundaryType",
    }

    /// Answer to 29.
    SearchOffsetResponse {
        offset: i64 => "offset",
    }

    /// 30: the next offset that a queue gives.
    GetMaxOffsetRequest {
        topic: String => "topic",
        queue_id: i32 => "queueId",
        committed: bool = true => "committed",
    }

    /// Answer to 30.
    GetMaxOffsetResponse {
        offset: i64 => "offset",
    }

    /// 31: the first offset that a queue still has.
    GetMinOffsetRequest {
        topic: String => "topic",
        queue_id: i32 => "queueId",
    }

    /// Answer to 31.
    GetMinOffsetResponse {
        offset: i64 => "offset",
    }

    /// 32: the store time of a queue's first message.
    GetEarliestMsgStoretimeRequest {
        topic: String => "topic",
        queue_id: i32 => "queueId",
    }

    /// Answer to 32, in milliseconds; -1 if unknown.
    GetEarliestMsgStoretimeResponse {
        timestamp: i64 => "timestamp",
    }

    /// 222 and 220: sets a group's offsets back to a time or an offset.
    ResetOffsetRequest {
        topic: String => "topic",
        group: String => "group",
        queue_id: i32 = -1 => "queueId",
        offset: Option<i64> => "offset",
        timestamp: i64 = 0 => "timestamp",
        is_force: bool = false => "isForce",
    }

    /// 223 and 221: what the members of a group hold of a topic.
    GetConsumerStatusRequest {
        topic: String => "topic",
        group: String => "group",
        client_addr: Option<String> => "clientAddr",
    }

    /// 308: offsets of other groups to correct by.
    QueryCorrectionOffsetRequest {
        filter_groups: Option<String> => "filterGroups",
        compare_group: String => "compareGroup",
        topic: String => "topic",
    }

    /// 314: copies the offsets of one group to another.
    CloneGroupOffsetRequest {
        src_group: String => "srcGroup",
        dest_group: String => "destGroup",
        topic: Option<String> => "topic",
        offline: bool = false => "offline",
    }
}
