//! Heartbeats (code 34) and what belongs to them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{bodies, plain_bodies};

/// A subscription. `filterClassSource` of old clients is ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionData {
    /// Whether a class filters; a removed feature.
    pub class_filter_mode: bool,
    /// Hashes of the tags. Go sends them as texts.
    pub code_set: BTreeSet<i32>,
    /// `TAG` or `SQL92`.
    pub expression_type: String,
    /// The expression.
    pub sub_string: String,
    /// Version: milliseconds from Java, nanoseconds from Go; compared within a group only.
    pub sub_version: i64,
    /// The tags.
    pub tags_set: BTreeSet<String>,
    /// Topic.
    pub topic: String,
}

impl Default for SubscriptionData {
    fn default() -> Self {
        Self {
            class_filter_mode: false,
            code_set: BTreeSet::new(),
            expression_type: "TAG".to_owned(),
            sub_string: String::new(),
            sub_version: 0,
            tags_set: BTreeSet::new(),
            topic: String::new(),
        }
    }
}

/// What a client is and has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeartbeatData {
    /// Name of the client.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// Its consumer groups.
    pub consumer_data_set: Vec<ConsumerData>,
    /// Changes with the subscriptions; 0 in the first form of heartbeats.
    pub heartbeat_fingerprint: i32,
    /// Its producer groups.
    pub producer_data_set: Vec<ProducerData>,
    /// The subscriptions were left out because they did not change.
    #[serde(alias = "isWithoutSub")]
    pub without_sub: bool,
}

bodies! { SubscriptionData HeartbeatData }

plain_bodies! {
    /// A producer group.
    #[derive(Eq)]
    ProducerData {
        /// Name.
        group_name: String,
    }

    /// A consumer group.
    #[derive(Eq)]
    ConsumerData {
        /// `CONSUME_FROM_LAST_OFFSET` and so on.
        consume_from_where: String,
        /// `CONSUME_PASSIVELY`, `CONSUME_ACTIVELY` or `CONSUME_POP`.
        consume_type: String,
        /// Name.
        group_name: String,
        /// `CLUSTERING` or `BROADCASTING`.
        message_model: String,
        /// Subscriptions.
        subscription_data_set: Vec<SubscriptionData>,
        /// Whether it is in unit mode.
        unit_mode: bool,
    }

    /// A subscription to check (code 46).
    #[derive(Eq)]
    CheckClientRequestBody {
        /// Client.
        client_id: String,
        /// Group.
        group: String,
        /// Namespace.
        namespace: Option<String>,
        /// The subscription.
        subscription_data: SubscriptionData,
    }
}
