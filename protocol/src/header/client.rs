//! Members of groups: codes 34, 35, 38, 40 to 42, 203, 204, 307, 309.

use super::headers;

headers! {
    /// 34: all is in the body.
    HeartbeatRequest {}

    /// Answer to 34. Without these fields clients never use the second form of heartbeats.
    HeartbeatResponse {
        is_support_heart_beat_v2: Option<bool> => "IS_SUPPORT_HEART_BEAT_V2",
        is_sub_change: Option<bool> => "IS_SUB_CHANGE",
    }

    /// 35: a client leaves a group.
    UnregisterClientRequest {
        client_id: String => "clientID",
        producer_group: Option<String> => "producerGroup",
        consumer_group: Option<String> => "consumerGroup",
    }

    /// Answer to 35.
    UnregisterClientResponse {}

    /// 38: the client ids of a group.
    GetConsumerListByGroupRequest {
        consumer_group: String => "consumerGroup",
    }

    /// Answer to 38: the ids are in the body.
    GetConsumerListByGroupResponse {}

    /// 40: the broker tells the members that the group changed.
    NotifyConsumerIdsChangedRequest {
        consumer_group: String => "consumerGroup",
    }

    /// 41: all is in the body.
    LockBatchMqRequest {}

    /// 42: all is in the body.
    UnlockBatchMqRequest {}

    /// 203: connections of a consumer group.
    GetConsumerConnectionListRequest {
        consumer_group: String => "consumerGroup",
    }

    /// 204: connections of a producer group.
    GetProducerConnectionListRequest {
        producer_group: String => "producerGroup",
    }

    /// 307: what a consumer does; relayed to it.
    GetConsumerRunningInfoRequest {
        consumer_group: String => "consumerGroup",
        client_id: String => "clientId",
        jstack_enable: bool = false => "jstackEnable",
    }

    /// 309: a consumer is to consume one message now; relayed to it.
    ConsumeMessageDirectlyResultRequest {
        consumer_group: String => "consumerGroup",
        client_id: Option<String> => "clientId",
        msg_id: Option<String> => "msgId",
        broker_name: Option<String> => "brokerName",
        topic: Option<String> => "topic",
        topic_sys_flag: Option<i32> => "topicSysFlag",
        group_sys_flag: Option<i32> => "groupSysFlag",
    }
}
