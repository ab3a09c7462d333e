//! Name server: codes 100 to 106, 205, 206, 216, 217, 219, 224, 322, 327, 901, 904.

use super::headers;

headers! {
    /// 100: sets a value.
    PutKvConfigRequest {
        namespace: Option<String> => "namespace",
        key: Option<String> => "key",
        value: Option<String> => "value",
    }

    /// 101: reads a value.
    GetKvConfigRequest {
        namespace: String => "namespace",
        key: String => "key",
    }

    /// Answer to 101.
    GetKvConfigResponse {
        value: Option<String> => "value",
    }

    /// 102: deletes a value.
    DeleteKvConfigRequest {
        namespace: String => "namespace",
        key: String => "key",
    }

    /// 219: all values of a namespace.
    GetKvListByNamespaceRequest {
        namespace: String => "namespace",
    }

    /// 103: a broker and its topics.
    RegisterBrokerRequest {
        broker_name: String => "brokerName",
        broker_addr: String => "brokerAddr",
        cluster_name: String => "clusterName",
        ha_server_addr: String = String::new() => "haServerAddr",
        broker_id: i64 => "brokerId",
        heartbeat_timeout_millis: Option<i64> => "heartbeatTimeoutMillis",
        enable_acting_master: Option<bool> => "enableActingMaster",
        compressed: bool = false => "compressed",
        body_crc32: i32 = 0 => "bodyCrc32",
        zone_name: Option<String> => "__ZONE_NAME",
    }

    /// Answer to 103: where a slave finds its master.
    RegisterBrokerResponse {
        ha_server_addr: Option<String> => "haServerAddr",
        master_addr: Option<String> => "masterAddr",
    }

    /// 104: a broker leaves.
    UnRegisterBrokerRequest {
        broker_name: String => "brokerName",
        broker_addr: String => "brokerAddr",
        cluster_name: String => "clusterName",
        broker_id: i64 => "brokerId",
    }

    /// 105: where a topic is.
    GetRouteInfoRequest {
        topic: String => "topic",
        accept_standard_json_only: Option<bool> => "acceptStandardJsonOnly",
    }

    /// 205: takes the write permission from a broker's topics.
    WipeWritePermOfBrokerRequest {
        broker_name: String => "brokerName",
    }

    /// Answer to 205.
    WipeWritePermOfBrokerResponse {
        wipe_topic_count: i32 => "wipeTopicCount",
    }

    /// 327: gives the write permission back.
    AddWritePermOfBrokerRequest {
        broker_name: String => "brokerName",
    }

    /// Answer to 327.
    AddWritePermOfBrokerResponse {
        add_topic_count: i32 => "addTopicCount",
    }

    /// 216: deletes a topic's routes.
    DeleteTopicFromNamesrvRequest {
        topic: String => "topic",
        cluster_name: Option<String> => "clusterName",
    }

    /// 217: registers one topic; the queues are in the body.
    RegisterTopicRequest {
        topic: String => "topic",
    }

    /// 224: the topics of a cluster.
    GetTopicsByClusterRequest {
        cluster: String => "cluster",
    }

    /// 322: whether a broker's topics changed since it registered.
    QueryDataVersionRequest {
        broker_name: String => "brokerName",
        broker_addr: String => "brokerAddr",
        cluster_name: String => "clusterName",
        broker_id: i64 => "brokerId",
    }

    /// Answer to 322.
    QueryDataVersionResponse {
        changed: bool => "changed",
    }

    /// 901: the brokers of one name.
    GetBrokerMemberGroupRequest {
        cluster_name: String => "clusterName",
        broker_name: String => "brokerName",
    }

    /// 904: a broker is alive. The misspelt field is Java's.
    BrokerHeartbeatRequest {
        cluster_name: String => "clusterName",
        broker_addr: String => "brokerAddr",
        broker_name: String => "brokerName",
        broker_id: Option<i64> => "brokerId",
        epoch: Option<i32> => "epoch",
        max_offset: Option<i64> => "maxOffset",
        confirm_offset: Option<i64> => "confirmOffset",
        heartbeat_timeout_mills: Option<i64> => "heartbeatTimeoutMills",
        election_priority: Option<i32> => "electionPriority",
    }
}
