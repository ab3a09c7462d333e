//! Members of groups and their queue locks: codes 38, 41, 42, 203, 204, 328.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{MessageQueue, SubscriptionData, bodies, plain_bodies};

/// Which queues were locked (code 41).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LockBatchResponseBody {
    /// The queues that the client holds now.
    #[serde(rename = "lockOKMQSet")]
    pub lock_ok_mq_set: BTreeSet<MessageQueue>,
}

/// A registered producer (code 328).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerInfo {
    /// Client.
    pub client_id: String,
    /// Language by name.
    pub language: String,
    /// When it was heard of last, in milliseconds.
    pub last_update_timestamp: i64,
    /// Address as Java prints one: `/127.0.0.1:4711`.
    #[serde(rename = "remoteIP")]
    pub remote_ip: String,
    /// Version ordinal.
    pub version: i32,
}

bodies! { LockBatchResponseBody ProducerInfo }

plain_bodies! {
    /// A connection of a group's member.
    #[derive(Eq)]
    Connection {
        /// Address as `host:port`.
        client_addr: String,
        /// Client.
        client_id: String,
        /// Language by name.
        language: String,
        /// Version ordinal.
        version: i32,
    }

    /// A consumer group that is online (code 203).
    #[derive(Eq)]
    ConsumerConnection {
        /// Its members.
        connection_set: Vec<Connection>,
        /// `CONSUME_FROM_LAST_OFFSET` and so on.
        consume_from_where: Option<String>,
        /// `CONSUME_PASSIVELY`, `CONSUME_ACTIVELY` or `CONSUME_POP`.
        consume_type: Option<String>,
        /// `CLUSTERING` or `BROADCASTING`.
        message_model: Option<String>,
        /// Subscriptions by topic.
        subscription_table: BTreeMap<String, SubscriptionData>,
    }

    /// A producer group (code 204).
    #[derive(Eq)]
    ProducerConnection {
        /// Its members.
        connection_set: Vec<Connection>,
    }

    /// All producers by group (code 328).
    #[derive(Eq)]
    ProducerTableInfo {
        /// Members by group.
        data: BTreeMap<String, Vec<ProducerInfo>>,
    }

    /// Members of a consumer group (code 38).
    #[derive(Eq)]
    GetConsumerListByGroupResponseBody {
        /// Their client ids.
        consumer_id_list: Vec<String>,
    }

    /// Queues to lock (code 41).
    #[derive(Eq)]
    LockBatchRequestBody {
        /// Client.
        client_id: String,
        /// Group.
        consumer_group: String,
        /// The queues.
        mq_set: BTreeSet<MessageQueue>,
        /// Whether the broker shall not ask its replicas.
        only_this_broker: bool,
    }

    /// Queues to unlock (code 42).
    #[derive(Eq)]
    UnlockBatchRequestBody {
        /// Client.
        client_id: String,
        /// Group.
        consumer_group: String,
        /// The queues.
        mq_set: BTreeSet<MessageQueue>,
        /// Whether the broker shall not tell its replicas.
        only_this_broker: bool,
    }
}
