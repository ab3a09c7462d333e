//! Routes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{TopicQueueMappingInfo, bodies, plain_bodies};
use crate::{
    json::{self, Style},
    version,
};

/// The queues of a topic on one broker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueData {
    /// Broker group.
    pub broker_name: String,
    /// Bits of [`crate::message::sys_flag::perm`].
    pub perm: i32,
    /// Number of queues for consumers.
    pub read_queue_nums: i32,
    /// Bits of [`crate::message::sys_flag::topic`]. Before 4.8 it was misspelt.
    #[serde(alias = "topicSynFlag")]
    pub topic_sys_flag: i32,
    /// Number of queues for producers.
    pub write_queue_nums: i32,
}

bodies! { QueueData }

plain_bodies! {
    /// The brokers of one group.
    #[derive(Eq)]
    BrokerData {
        /// Addresses by broker id; 0 is the master.
        broker_addrs: BTreeMap<i64, String>,
        /// Broker group.
        broker_name: String,
        /// Cluster.
        cluster: String,
        /// Whether a slave may act as the master.
        enable_acting_master: bool,
        /// Zone.
        zone_name: Option<String>,
    }

    /// Where a topic is (code 105).
    #[derive(Eq)]
    TopicRouteData {
        /// Broker groups.
        broker_datas: Vec<BrokerData>,
        /// Filter servers by broker address; a removed feature, but clients expect the map.
        filter_server_table: BTreeMap<String, Vec<String>>,
        /// `broker:queues;...` of an ordered topic.
        order_topic_conf: Option<String>,
        /// Queues by broker group.
        queue_datas: Vec<QueueData>,
        /// Static mapping by broker group. Clients that see it address logical queues.
        topic_queue_mapping_by_broker: Option<BTreeMap<String, TopicQueueMappingInfo>>,
    }

    /// All brokers (code 106).
    #[derive(Eq)]
    ClusterInfo {
        /// Broker groups by name.
        broker_addr_table: BTreeMap<String, BrokerData>,
        /// Names of broker groups by cluster.
        cluster_addr_table: BTreeMap<String, BTreeSet<String>>,
    }

    /// One broker group (code 901).
    #[derive(Eq)]
    BrokerMemberGroup {
        /// Addresses by broker id.
        broker_addrs: BTreeMap<i64, String>,
        /// Broker group.
        broker_name: String,
        /// Cluster.
        cluster: String,
    }

    /// Answer to code 901.
    #[derive(Eq)]
    GetBrokerMemberGroupResponseBody {
        /// The group.
        broker_member_group: Option<BrokerMemberGroup>,
    }
}

impl TopicRouteData {
    /// Writes the route for a client of a version (`ClientRequestProcessor.java`): broker ids are
    /// quoted from 4.9.4 on or when the client asks for standard JSON, and bare for older ones.
    pub fn encode_for(&self, client_version: i32, accept_standard_json_only: bool) -> Bytes {
        let standard = client_version >= version::V4_9_4 || accept_standard_json_only;
        json::to_vec(self, if standard { Style::Standard } else { Style::Bare }).into()
    }
}
