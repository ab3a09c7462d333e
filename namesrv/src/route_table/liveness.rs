//! Brokers come and go: signs of life, expiry, unregistration.

use protocol::body::DataVersion;

use super::{BrokerAddress, MASTER_ID, Now, RouteTable};
use crate::perm;

/// A broker that gave no sign of life for its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expired {
    /// Name of the cluster.
    pub cluster: String,
    /// Address of the broker.
    pub address: String,
    /// The connection that it registered by.
    pub connection: u64,
}

impl RouteTable {
    /// A sign of life of a broker; `false` when it is not registered.
    pub fn touch(&mut self, cluster: &str, address: &str, now: Now) -> bool {
        let live = self.live.get_mut(&BrokerAddress::new(cluster, address));
        live.is_some_and(|live| {
            live.last_seen = now;
            true
        })
    }

    /// The version of the topics that a broker registered last.
    pub fn version(&self, cluster: &str, address: &str) -> Option<&DataVersion> {
        self.live.get(&BrokerAddress::new(cluster, address)).map(|live| &live.version)
    }

    /// Removes a broker that leaves.
    pub fn unregister(&mut self, cluster: &str, broker_name: &str, address: &str) {
        let key = BrokerAddress::new(cluster, address);
        self.live.remove(&key);
        self.filter_servers.remove(&key);
        let Some(group) = self.groups.get_mut(broker_name) else { return };
        group.broker_addrs.retain(|_, held| held != address);
        if group.broker_addrs.is_empty() {
            self.remove_group(cluster, broker_name);
        } else if group.enable_acting_master && !group.broker_addrs.contains_key(&MASTER_ID) {
            // Without its master the group is only read from.
            self.change_perms(broker_name, |perm| perm & !perm::WRITE);
        }
    }

    /// Removes all brokers that registered by a connection which has closed; tells how many.
    pub fn disconnected(&mut self, connection: u64) -> usize {
        let gone = self.keys_of(|live| live.connection == connection);
        self.remove_all(&gone);
        gone.len()
    }

    /// Removes all brokers without a sign of life for their time.
    pub fn expire(&mut self, now: Now) -> Vec<Expired> {
        let gone = self.keys_of(|live| live.last_seen + live.timeout < now);
        let expired = gone
            .iter()
            .filter_map(|key| {
                let connection = self.live.get(key)?.connection;
                let (cluster, address) = (key.cluster.clone(), key.address.clone());
                Some(Expired { cluster, address, connection })
            })
            .collect();
        self.remove_all(&gone);
        expired
    }

    fn keys_of(&self, chosen: impl Fn(&super::Live) -> bool) -> Vec<BrokerAddress> {
        let chosen = self.live.iter().filter(|(_, live)| chosen(live));
        chosen.map(|(key, _)| key.clone()).collect()
    }

    fn remove_all(&mut self, keys: &[BrokerAddress]) {
        for key in keys {
            self.live.remove(key);
            self.filter_servers.remove(key);
            for name in self.groups_with(key) {
                self.unregister(&key.cluster, &name, &key.address);
            }
        }
    }

    fn groups_with(&self, key: &BrokerAddress) -> Vec<String> {
        let groups = self.groups.iter().filter(|(_, group)| {
            group.cluster == key.cluster
                && group.broker_addrs.values().any(|address| *address == key.address)
        });
        groups.map(|(name, _)| name.clone()).collect()
    }

    fn remove_group(&mut self, cluster: &str, broker_name: &str) {
        self.groups.remove(broker_name);
        if let Some(names) = self.clusters.get_mut(cluster) {
            names.remove(broker_name);
            if names.is_empty() {
                self.clusters.remove(cluster);
            }
        }
        self.topics.retain(|_, brokers| {
            brokers.remove(broker_name);
            !brokers.is_empty()
        });
        self.mappings.retain(|_, brokers| {
            brokers.remove(broker_name);
            !brokers.is_empty()
        });
    }
}
