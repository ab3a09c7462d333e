//! Configurations of consumer groups.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{DataVersion, bodies, plain_bodies};

/// One consumer group (`SubscriptionGroupConfig.java`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionGroupConfig {
    /// Attributes.
    pub attributes: BTreeMap<String, String>,
    /// Broker id to read from.
    pub broker_id: i64,
    /// Whether it may broadcast.
    pub consume_broadcast_enable: bool,
    /// Whether it may consume.
    pub consume_enable: bool,
    /// Whether it may begin at the first offset.
    pub consume_from_min_enable: bool,
    /// Whether it consumes in order.
    pub consume_message_orderly: bool,
    /// Minutes for consuming a message.
    pub consume_timeout_minute: i32,
    /// Name.
    pub group_name: String,
    /// When messages are tried again.
    pub group_retry_policy: GroupRetryPolicy,
    /// 1: unit mode.
    pub group_sys_flag: i32,
    /// Whether members are told when the group changes.
    pub notify_consumer_ids_changed_enable: bool,
    /// How often a message is tried again.
    pub retry_max_times: i32,
    /// Number of queues of its retry topic.
    pub retry_queue_nums: i32,
    /// Subscriptions that are known beforehand.
    pub subscription_data_set: Option<Vec<SimpleSubscriptionData>>,
    /// Broker id to read from when the group lags.
    pub which_broker_when_consume_slowly: i64,
}

impl Default for SubscriptionGroupConfig {
    fn default() -> Self {
        Self {
            attributes: BTreeMap::new(),
            broker_id: 0,
            consume_broadcast_enable: true,
            consume_enable: true,
            consume_from_min_enable: true,
            consume_message_orderly: false,
            consume_timeout_minute: 15,
            group_name: String::new(),
            group_retry_policy: GroupRetryPolicy::default(),
            group_sys_flag: 0,
            notify_consumer_ids_changed_enable: true,
            retry_max_times: 16,
            retry_queue_nums: 1,
            subscription_data_set: None,
            which_broker_when_consume_slowly: 1,
        }
    }
}

/// When messages are tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupRetryPolicy {
    /// By a list of delays.
    pub customized_retry_policy: Option<CustomizedRetryPolicy>,
    /// By growing delays.
    pub exponential_retry_policy: Option<ExponentialRetryPolicy>,
    /// `CUSTOMIZED` or `EXPONENTIAL`.
    #[serde(rename = "type")]
    pub kind: String,
}

impl Default for GroupRetryPolicy {
    fn default() -> Self {
        Self {
            customized_retry_policy: None,
            exponential_retry_policy: None,
            kind: "CUSTOMIZED".to_owned(),
        }
    }
}

/// Growing delays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExponentialRetryPolicy {
    /// First delay in milliseconds.
    pub initial: i64,
    /// Longest delay in milliseconds.
    pub max: i64,
    /// Factor.
    pub multiplier: i64,
}

impl Default for ExponentialRetryPolicy {
    fn default() -> Self {
        Self { initial: 5_000, max: 7_200_000, multiplier: 2 }
    }
}

/// Delays in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomizedRetryPolicy {
    /// Milliseconds.
    pub next: Vec<i64>,
}

impl Default for CustomizedRetryPolicy {
    /// The delays of Java's default levels.
    fn default() -> Self {
        let seconds = [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600];
        let longer = [1_200, 1_800, 3_600, 7_200];
        Self { next: seconds.into_iter().chain(longer).map(|second| second * 1_000).collect() }
    }
}

bodies! {
    SubscriptionGroupConfig GroupRetryPolicy ExponentialRetryPolicy CustomizedRetryPolicy
}

plain_bodies! {
    /// A subscription that an administrator configured.
    #[derive(Eq)]
    SimpleSubscriptionData {
        /// The expression.
        expression: String,
        /// `TAG` or `SQL92`.
        expression_type: String,
        /// Topic.
        topic: String,
        /// Version.
        version: i64,
    }

    /// A table of groups: subscriptionGroup.json, and the answer to code 201.
    #[derive(Eq)]
    SubscriptionGroupWrapper {
        /// Version of the table.
        data_version: DataVersion,
        /// Bits of what a group may not do with a topic, by group and topic.
        forbidden_table: BTreeMap<String, BTreeMap<String, i32>>,
        /// Groups by name.
        subscription_group_table: BTreeMap<String, SubscriptionGroupConfig>,
    }

    /// Several groups to create (code 225).
    #[derive(Eq)]
    SubscriptionGroupList {
        /// The groups.
        group_config_list: Vec<SubscriptionGroupConfig>,
    }

    /// Whether a group may read a topic (code 353).
    #[derive(Eq)]
    GroupForbidden {
        /// Group.
        group: String,
        /// Whether it may.
        readable: Option<bool>,
        /// Topic.
        topic: String,
    }
}
