//! Administration of topics and groups.

use super::headers;

headers! {
    /// 17 and 513: creates or changes a topic.
    CreateTopicRequest {
        topic: String => "topic",
        default_topic: Option<String> => "defaultTopic",
        read_queue_nums: i32 => "readQueueNums",
        write_queue_nums: i32 => "writeQueueNums",
        perm: i32 => "perm",
        topic_filter_type: Option<String> => "topicFilterType",
        topic_sys_flag: Option<i32> => "topicSysFlag",
        order: bool = false => "order",
        attributes: Option<String> => "attributes",
        force: Option<bool> => "force",
    }

    /// 21: topics by pages; without fields it wants all of them.
    GetAllTopicConfigRequest {
        topic_seq: Option<i32> => "topicSeq",
        data_version: Option<String> => "dataVersion",
        max_topic_num: Option<i32> => "maxTopicNum",
    }

    /// Answer to 21.
    GetAllTopicConfigResponse {
        total_topic_num: Option<i32> => "totalTopicNum",
    }

    /// Answer to 26: a `DataVersion` in JSON.
    GetBrokerConfigResponse {
        version: String => "version",
    }

    /// 201: groups by pages; without fields it wants all of them.
    GetAllSubscriptionGroupRequest {
        group_seq: Option<i32> => "groupSeq",
        data_version: Option<String> => "dataVersion",
        max_group_num: Option<i32> => "maxGroupNum",
    }

    /// Answer to 201.
    GetAllSubscriptionGroupResponse {
        total_group_num: Option<i32> => "totalGroupNum",
    }

    /// 202: offsets of a topic's queues.
    GetTopicStatsInfoRequest {
        topic: String => "topic",
    }

    /// 207: deletes a group.
    DeleteSubscriptionGroupRequest {
        group_name: String => "groupName",
        clean_offset: bool = false => "cleanOffset",
    }

    /// 208: how far a group is behind. An empty topic means all.
    GetConsumeStatsRequest {
        consumer_group: String => "consumerGroup",
        topic: Option<String> => "topic",
        topic_list: Option<String> => "topicList",
    }

    /// 215: deletes a topic.
    DeleteTopicRequest {
        topic: String => "topic",
    }

    /// 300: the groups that consume a topic.
    QueryTopicConsumeByWhoRequest {
        topic: String => "topic",
    }

    /// 303: the time span that a group has still to consume.
    QueryConsumeTimeSpanRequest {
        topic: String => "topic",
        group: String => "group",
    }

    /// 315: one statistics item.
    ViewBrokerStatsDataRequest {
        stats_name: String => "statsName",
        stats_key: String => "statsKey",
    }

    /// 317: how far all groups are behind.
    GetBrokerConsumeStatsRequest {
        is_order: bool = false => "isOrder",
    }

    /// 321: entries of a consume queue.
    QueryConsumeQueueRequest {
        topic: String => "topic",
        queue_id: i32 => "queueId",
        index: i64 => "index",
        count: i32 => "count",
        consumer_group: Option<String> => "consumerGroup",
    }

    /// 343: the topics that a group consumes.
    QueryTopicsByConsumerRequest {
        group: String => "group",
    }

    /// 345: a group's subscription to a topic.
    QuerySubscriptionByConsumerRequest {
        group: String => "group",
        topic: Option<String> => "topic",
    }

    /// 351: one topic's configuration; `lo` asks for its static mapping too.
    GetTopicConfigRequest {
        topic: String => "topic",
        lo: Option<bool> => "lo",
    }

    /// 352: one group's configuration.
    GetSubscriptionGroupConfigRequest {
        group: String => "group",
    }

    /// 353: reads or sets whether a group may read a topic.
    UpdateGroupForbiddenRequest {
        group: String => "group",
        topic: String => "topic",
        readable: Option<bool> => "readable",
    }

    /// 354: compares file and RocksDB queues.
    CheckRocksdbCqWriteProgressRequest {
        topic: Option<String> => "topic",
        check_store_time: Option<i64> => "checkStoreTime",
    }

    /// 5001: changes the engine of timer messages.
    SwitchTimerEngineRequest {
        engine_type: Option<String> => "E_T",
    }
}
