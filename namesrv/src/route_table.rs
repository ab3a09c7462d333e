//! Which topic is on which brokers, and which brokers are alive.
//!
//! A value without clock or socket: every entry that depends on time takes it, and connections are
//! numbers. The rules are those of Java's `RouteInfoManager`, so that its brokers and clients see
//! no difference.

mod bounds;
mod liveness;
mod permission;
mod queries;
mod register;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use protocol::body::{BrokerData, DataVersion, QueueData, TopicQueueMappingInfo};

pub use self::bounds::Full;
pub use self::liveness::Expired;
pub use self::register::{DEFAULT_TIMEOUT, Refused, Registered, Registration};

/// Time since an arbitrary start, from a clock that never goes back.
pub type Now = Duration;

/// The broker id of a master (`MixAll.MASTER_ID`).
pub const MASTER_ID: i64 = 0;

/// The settings that change how the table works; see the keys of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rules {
    /// A full registration removes the broker's topics that it does not name.
    pub delete_absent_topics: bool,
    /// A slave stands in for a missing master in routes.
    pub support_acting_master: bool,
}

/// The route table.
#[derive(Debug, Default)]
pub struct RouteTable {
    /// By topic, then by broker name.
    topics: HashMap<String, BTreeMap<String, QueueData>>,
    /// By broker name: the brokers of one group and their addresses by id.
    groups: BTreeMap<String, BrokerData>,
    /// By cluster: broker names.
    clusters: BTreeMap<String, BTreeSet<String>>,
    live: HashMap<BrokerAddress, Live>,
    filter_servers: HashMap<BrokerAddress, Vec<String>>,
    /// By topic, then by broker name: queues of static topics.
    mappings: HashMap<String, BTreeMap<String, TopicQueueMappingInfo>>,
}

/// What a broker is known by while it lives (`BrokerAddrInfo`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct BrokerAddress {
    cluster: String,
    address: String,
}

/// A broker that registered (`BrokerLiveInfo`).
#[derive(Debug, Clone)]
struct Live {
    last_seen: Now,
    timeout: Duration,
    version: DataVersion,
    connection: u64,
    ha_address: String,
}

impl BrokerAddress {
    fn new(cluster: &str, address: &str) -> Self {
        Self { cluster: cluster.to_owned(), address: address.to_owned() }
    }
}

impl RouteTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }
}

#[cfg(test)]
mod tests;
