//! Replicas and the container: codes 902, 903, 905, 906, 908, 1008.

use super::headers;

headers! {
    /// 902: the container starts a broker.
    AddBrokerRequest {
        config_path: Option<String> => "configPath",
    }

    /// 903: the container stops a broker.
    RemoveBrokerRequest {
        broker_name: String => "brokerName",
        broker_cluster_name: String => "brokerClusterName",
        broker_id: i64 => "brokerId",
    }

    /// 905: the smallest living broker id of a group changed.
    NotifyMinBrokerIdChangeRequest {
        min_broker_id: Option<i64> => "minBrokerId",
        broker_name: Option<String> => "brokerName",
        min_broker_addr: Option<String> => "minBrokerAddr",
        offline_broker_addr: Option<String> => "offlineBrokerAddr",
        ha_broker_addr: Option<String> => "haBrokerAddr",
    }

    /// 906: where and how far the master is.
    ExchangeHaInfoRequest {
        master_ha_address: Option<String> => "masterHaAddress",
        master_flush_offset: Option<i64> => "masterFlushOffset",
        master_address: Option<String> => "masterAddress",
    }

    /// Answer to 906.
    ExchangeHaInfoResponse {
        master_ha_address: Option<String> => "masterHaAddress",
        master_flush_offset: Option<i64> => "masterFlushOffset",
        master_address: Option<String> => "masterAddress",
    }

    /// 908: tells a slave how far the master has flushed.
    ResetMasterFlushOffsetRequest {
        master_flush_offset: i64 => "masterFlushOffset",
    }

    /// 1008: the controller names a new master.
    NotifyBrokerRoleChangedRequest {
        master_address: Option<String> => "masterAddress",
        master_epoch: Option<i32> => "masterEpoch",
        sync_state_set_epoch: Option<i32> => "syncStateSetEpoch",
        master_broker_id: Option<i64> => "masterBrokerId",
    }
}
