//! Pop consumption: codes 200050 to 200055.

use super::headers;

headers! {
    /// 200050: takes messages for a while.
    PopMessageRequest {
        consumer_group: String => "consumerGroup",
        topic: String => "topic",
        queue_id: i32 => "queueId",
        max_msg_nums: i32 => "maxMsgNums",
        invisible_time: i64 => "invisibleTime",
        poll_time: i64 = 0 => "pollTime",
        born_time: i64 = 0 => "bornTime",
        init_mode: i32 = 0 => "initMode",
        exp_type: Option<String> => "expType",
        exp: Option<String> => "exp",
        order: Option<bool> => "order",
        attempt_id: Option<String> => "attemptId",
    }

    /// Answer to 200050 and 200052.
    PopMessageResponse {
        pop_time: i64 = 0 => "popTime",
        invisible_time: i64 = 0 => "invisibleTime",
        revive_qid: i32 = 0 => "reviveQid",
        rest_num: i64 = 0 => "restNum",
        start_offset_info: Option<String> => "startOffsetInfo",
        msg_offset_info: Option<String> => "msgOffsetInfo",
        order_count_info: Option<String> => "orderCountInfo",
    }

    /// 200052: looks at messages without taking them.
    PeekMessageRequest {
        topic: String => "topic",
        queue_id: i32 => "queueId",
        max_msg_nums: i32 => "maxMsgNums",
        consumer_group: String => "consumerGroup",
    }

    /// 200051: a taken message is done.
    AckMessageRequest {
        consumer_group: String => "consumerGroup",
        topic: String => "topic",
        queue_id: i32 => "queueId",
        extra_info: String => "extraInfo",
        offset: i64 => "offset",
        lite_topic: Option<String> => "liteTopic",
    }

    /// 200053: changes how long a taken message stays taken.
    ChangeInvisibleTimeRequest {
        consumer_group: String => "consumerGroup",
        topic: String => "topic",
        queue_id: i32 => "queueId",
        extra_info: String => "extraInfo",
        offset: i64 => "offset",
        invisible_time: i64 => "invisibleTime",
        lite_topic: Option<String> => "liteTopic",
        suspend: Option<bool> => "suspend",
    }

    /// Answer to 200053.
    ChangeInvisibleTimeResponse {
        pop_time: i64 => "popTime",
        invisible_time: i64 => "invisibleTime",
        revive_qid: i32 => "reviveQid",
    }

    /// 200054: whether there is anything to take.
    NotificationRequest {
        consumer_group: String => "consumerGroup",
        topic: String => "topic",
        queue_id: i32 => "queueId",
        poll_time: i64 => "pollTime",
        born_time: i64 => "bornTime",
        order: Option<bool> => "order",
        attempt_id: Option<String> => "attemptId",
    }

    /// Answer to 200054.
    NotificationResponse {
        has_msg: bool = false => "hasMsg",
        polling_full: Option<bool> => "pollingFull",
    }

    /// 200055: how many polls wait.
    PollingInfoRequest {
        consumer_group: String => "consumerGroup",
        topic: String => "topic",
        queue_id: i32 => "queueId",
    }

    /// Answer to 200055.
    PollingInfoResponse {
        polling_num: i32 => "pollingNum",
    }
}
