//! Pulling and looking up messages: codes 11, 361, 12, 33.

use super::headers;

headers! {
    /// 11 and 361: messages of one queue from an offset on.
    PullMessageRequest {
        consumer_group: String => "consumerGroup",
        topic: String => "topic",
        queue_id: i32 => "queueId",
        queue_offset: i64 => "queueOffset",
        max_msg_nums: i32 => "maxMsgNums",
        sys_flag: i32 => "sysFlag",
        commit_offset: i64 => "commitOffset",
        suspend_timeout_millis: i64 => "suspendTimeoutMillis",
        subscription: Option<String> => "subscription",
        sub_version: i64 => "subVersion",
        expression_type: Option<String> => "expressionType",
        max_msg_bytes: Option<i32> => "maxMsgBytes",
        request_source: Option<i32> => "requestSource",
        proxy_froward_client_id: Option<String> => "proxyFrowardClientId",
        lite_topic: Option<String> => "liteTopic",
    }

    /// Answer to a pull; the first four belong to the codes 0, 19, 20 and 21.
    PullMessageResponse {
        suggest_which_broker_id: i64 => "suggestWhichBrokerId",
        next_begin_offset: i64 => "nextBeginOffset",
        min_offset: i64 => "minOffset",
        max_offset: i64 => "maxOffset",
        offset_delta: Option<i64> => "offsetDelta",
        topic_sys_flag: Option<i32> => "topicSysFlag",
        group_sys_flag: Option<i32> => "groupSysFlag",
        forbidden_type: Option<i32> => "forbiddenType",
    }

    /// 12: messages by key.
    QueryMessageRequest {
        topic: String => "topic",
        key: String => "key",
        max_num: i32 => "maxNum",
        begin_timestamp: i64 => "beginTimestamp",
        end_timestamp: i64 => "endTimestamp",
        index_type: Option<String> => "indexType",
        last_key: Option<String> => "lastKey",
        unique_key_query: Option<bool> => "_UNIQUE_KEY_QUERY",
    }

    /// Answer to 12.
    QueryMessageResponse {
        index_last_update_timestamp: i64 => "indexLastUpdateTimestamp",
        index_last_update_phyoffset: i64 => "indexLastUpdatePhyoffset",
    }

    /// 33: the message at a commit-log offset. Old clients send no topic.
    ViewMessageRequest {
        topic: Option<String> => "topic",
        offset: i64 => "offset",
    }
}
