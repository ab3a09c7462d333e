//! What clients, brokers and administrators ask.

use std::collections::BTreeMap;

use protocol::body::{BrokerData, ClusterInfo, QueueData, TopicList, TopicRouteData};

use super::{BrokerAddress, MASTER_ID, RouteTable, Rules};
use crate::perm;

/// Bits of `topicSysFlag` (`TopicSysFlag.java`).
const UNIT: i32 = 1;
const UNIT_SUB: i32 = 2;

/// A system topic whose routes are never rewritten (`SYNC_BROKER_MEMBER_GROUP_PREFIX`).
const SYNC_BROKER_MEMBER_PREFIX: &str = "rmq_sys_SYNC_BROKER_MEMBER_";

impl RouteTable {
    /// Where a topic is, or `None` when no live broker has it.
    pub fn route(&self, topic: &str, rules: Rules) -> Option<TopicRouteData> {
        let queues = self.topics.get(topic)?;
        let brokers: Vec<BrokerData> =
            queues.keys().filter_map(|name| self.groups.get(name)).cloned().collect();
        if brokers.is_empty() {
            return None;
        }
        let mut route = TopicRouteData {
            order_topic_conf: None,
            queue_datas: queues.values().cloned().collect(),
            filter_server_table: self.filter_servers_of(&brokers),
            topic_queue_mapping_by_broker: self.mappings.get(topic).cloned(),
            broker_datas: brokers,
        };
        if rules.support_acting_master && !topic.starts_with(SYNC_BROKER_MEMBER_PREFIX) {
            present_acting_masters(&mut route);
        }
        Some(route)
    }

    /// All groups of brokers and all clusters.
    pub fn cluster_info(&self) -> ClusterInfo {
        ClusterInfo {
            broker_addr_table: self.groups.clone().into_iter().collect(),
            cluster_addr_table: self.clusters.clone().into_iter().collect(),
        }
    }

    /// The addresses of one group by id; none when it is not known.
    pub fn members(&self, broker_name: &str) -> BTreeMap<i64, String> {
        let group = self.groups.get(broker_name);
        group.map(|group| group.broker_addrs.clone()).unwrap_or_default()
    }

    /// All topics.
    pub fn topic_list(&self) -> TopicList {
        self.topics_where(|_| true)
    }

    /// Topics of the brokers of a cluster; none when it is not known.
    pub fn topics_of_cluster(&self, cluster: &str) -> TopicList {
        let names = self.clusters.get(cluster);
        self.topics_where(|queue| names.is_some_and(|names| names.contains(&queue.broker_name)))
    }

    /// Names of clusters and brokers, which are names of system topics, and the address of some
    /// broker, which knows the others.
    pub fn system_topics(&self) -> TopicList {
        let names = self.clusters.iter().flat_map(|(cluster, names)| {
            std::iter::once(cluster.clone()).chain(names.iter().cloned())
        });
        let address = self.groups.values().find_map(|group| group.broker_addrs.values().next());
        TopicList { topic_list: names.collect(), broker_addr: address.cloned() }
    }

    /// Topics with the unit flag.
    pub fn unit_topics(&self) -> TopicList {
        self.topics_where(|queue| queue.topic_sys_flag & UNIT != 0)
    }

    /// Topics with a subscription in a unit.
    pub fn unit_sub_topics(&self) -> TopicList {
        self.topics_where(|queue| queue.topic_sys_flag & UNIT_SUB != 0)
    }

    /// Topics with a subscription in a unit that are not units themselves.
    pub fn unit_sub_ununit_topics(&self) -> TopicList {
        self.topics_where(|queue| queue.topic_sys_flag & (UNIT | UNIT_SUB) == UNIT_SUB)
    }

    fn topics_where(&self, chosen: impl Fn(&QueueData) -> bool) -> TopicList {
        let topics = self.topics.iter().filter(|(_, brokers)| brokers.values().any(&chosen));
        let mut names: Vec<String> = topics.map(|(topic, _)| topic.clone()).collect();
        names.sort_unstable();
        TopicList { topic_list: names, broker_addr: None }
    }

    fn filter_servers_of(&self, brokers: &[BrokerData]) -> BTreeMap<String, Vec<String>> {
        if self.filter_servers.is_empty() {
            return BTreeMap::new();
        }
        let addresses = brokers.iter().flat_map(|broker| {
            broker.broker_addrs.values().map(|address| (broker.cluster.as_str(), address))
        });
        addresses
            .filter_map(|(cluster, address)| {
                let servers = self.filter_servers.get(&BrokerAddress::new(cluster, address))?;
                Some((address.clone(), servers.clone()))
            })
            .collect()
    }
}

/// Shows the smallest slave of a group without a master as the master, where the group allows it
/// and takes no writes.
fn present_acting_masters(route: &mut TopicRouteData) {
    for broker in &mut route.broker_datas {
        if !broker.enable_acting_master || broker.broker_addrs.contains_key(&MASTER_ID) {
            continue;
        }
        let queue = route.queue_datas.iter().find(|queue| queue.broker_name == broker.broker_name);
        if queue.is_some_and(|queue| queue.perm & perm::WRITE == 0)
            && let Some((_, address)) = broker.broker_addrs.pop_first()
        {
            broker.broker_addrs.insert(MASTER_ID, address);
        }
    }
}
