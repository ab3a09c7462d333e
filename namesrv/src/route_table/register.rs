//! A broker registers itself and its topics.

use std::time::Duration;

use protocol::body::{
    BrokerData, QueueData, RegisterBrokerBody, TopicConfig, TopicConfigSerializeWrapper,
    TopicQueueMappingInfo,
};

use super::{BrokerAddress, Live, MASTER_ID, Now, RouteTable, Rules};
use crate::perm;

/// What a broker says of itself.
#[derive(Debug, Clone)]
pub struct Registration {
    /// Name of the cluster.
    pub cluster: String,
    /// Name of the group of brokers.
    pub broker_name: String,
    /// Address that clients are sent to, `ip:port`.
    pub address: String,
    /// Id in the group; 0 is the master.
    pub broker_id: i64,
    /// Address for replication, `ip:port`.
    pub ha_address: String,
    /// Zone, for routes within a zone.
    pub zone: Option<String>,
    /// Time without a sign of life after which it is taken as gone; [`DEFAULT_TIMEOUT`] if absent.
    pub timeout: Option<Duration>,
    /// Whether a slave of the group may stand in for its master. Absence marks a broker of 4.x.
    pub acting_master: Option<bool>,
    /// Topics, and the version of their configuration.
    pub body: RegisterBrokerBody,
    /// Number of the connection that it registered by.
    pub connection: u64,
}

/// What the broker is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Registered {
    /// Address of the master, to its slaves.
    pub master_address: Option<String>,
    /// Where the master replicates from, to its slaves.
    pub ha_address: Option<String>,
}

/// A registration that would leave a group with one topic only.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("broker {broker_name} {address} registers a single topic before its full registration")]
pub struct Refused {
    /// Name of the group.
    pub broker_name: String,
    /// Address of the broker.
    pub address: String,
}

/// `BROKER_CHANNEL_EXPIRED_TIME`.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

impl RouteTable {
    /// Takes a broker and its topics in. The default values that come back mean that the
    /// registration was passed over, or that there is nothing to tell.
    ///
    /// # Errors
    /// [`Refused`]; nothing has changed then.
    pub fn register(
        &mut self,
        registration: Registration,
        now: Now,
        rules: Rules,
    ) -> Result<Registered, Refused> {
        let key = BrokerAddress::new(&registration.cluster, &registration.address);
        if self.is_outdated(&registration) {
            self.live.remove(&key);
            return Ok(Registered::default());
        }
        if self.is_single_topic_first(&registration) {
            return Err(Refused {
                broker_name: registration.broker_name,
                address: registration.address,
            });
        }
        let first = self.place(&registration);
        let role = self.role(&registration);
        if role != Role::Follower {
            let wrapper = &registration.body.topic_config_serialize_wrapper;
            if rules.delete_absent_topics {
                self.delete_absent(&registration.broker_name, wrapper);
            }
            let same = self.live.get(&key).is_some_and(|live| live.version == wrapper.data_version);
            self.take_topics(&registration, first || !same, role);
        }
        self.live.insert(key.clone(), live(&registration, now));
        if registration.body.filter_server_list.is_empty() {
            self.filter_servers.remove(&key);
        } else {
            self.filter_servers.insert(key, registration.body.filter_server_list);
        }
        Ok(self.master_of(&registration.cluster, &registration.broker_name, registration.broker_id))
    }

    /// Whether another address holds the id with a higher state version: the leader of a later
    /// term. Java passes such a registration over without an error.
    fn is_outdated(&self, registration: &Registration) -> bool {
        let holder = self
            .groups
            .get(&registration.broker_name)
            .and_then(|group| group.broker_addrs.get(&registration.broker_id))
            .filter(|holder| **holder != registration.address)
            .and_then(|holder| self.live.get(&BrokerAddress::new(&registration.cluster, holder)));
        let version = &registration.body.topic_config_serialize_wrapper.data_version;
        holder.is_some_and(|holder| holder.version.state_version > version.state_version)
    }

    /// An incremental registration must not come before a full one: the group would be known with
    /// one topic only, and its other topics as gone.
    fn is_single_topic_first(&self, registration: &Registration) -> bool {
        let group = self.groups.get(&registration.broker_name);
        let known =
            group.is_some_and(|group| group.broker_addrs.contains_key(&registration.broker_id));
        let topics = &registration.body.topic_config_serialize_wrapper.topic_config_table;
        !known && topics.len() == 1
    }

    /// Puts the broker into its group; `true` when its id was not there.
    fn place(&mut self, registration: &Registration) -> bool {
        self.clusters
            .entry(registration.cluster.clone())
            .or_default()
            .insert(registration.broker_name.clone());
        let group =
            self.groups.entry(registration.broker_name.clone()).or_insert_with(|| BrokerData {
                cluster: registration.cluster.clone(),
                broker_name: registration.broker_name.clone(),
                ..BrokerData::default()
            });
        group.enable_acting_master = registration.acting_master.unwrap_or(false);
        group.zone_name.clone_from(&registration.zone);
        // A slave that became master: one address is under one id only.
        group.broker_addrs.retain(|id, address| {
            *address != registration.address || *id == registration.broker_id
        });
        let before =
            group.broker_addrs.insert(registration.broker_id, registration.address.clone());
        before.is_none()
    }

    fn role(&self, registration: &Registration) -> Role {
        if registration.broker_id == MASTER_ID {
            return Role::Master;
        }
        let smallest = self
            .groups
            .get(&registration.broker_name)
            .and_then(|group| group.broker_addrs.keys().next().copied());
        match registration.acting_master {
            Some(acting) if smallest == Some(registration.broker_id) => Role::PrimeSlave { acting },
            _ => Role::Follower,
        }
    }

    /// Removes the broker's topics that a full registration does not name. One with static topics
    /// is left alone, as in Java.
    fn delete_absent(&mut self, name: &str, wrapper: &TopicConfigSerializeWrapper) {
        if mappings(wrapper).next().is_some() {
            return;
        }
        self.topics.retain(|topic, brokers| {
            if !wrapper.topic_config_table.contains_key(topic) {
                brokers.remove(name);
            }
            !brokers.is_empty()
        });
    }

    fn take_topics(&mut self, registration: &Registration, changed: bool, role: Role) {
        let wrapper = &registration.body.topic_config_serialize_wrapper;
        let name = &registration.broker_name;
        for (topic, config) in &wrapper.topic_config_table {
            let brokers = self.topics.entry(topic.clone()).or_default();
            if changed || !brokers.contains_key(name) {
                brokers.insert(name.clone(), queue_data(name, config, role));
            }
        }
        if changed {
            for (topic, info) in mappings(wrapper) {
                let brokers = self.mappings.entry(topic.clone()).or_default();
                let owner = info.bname.as_ref().unwrap_or(name);
                brokers.insert(owner.clone(), info.clone());
            }
        }
    }

    fn master_of(&self, cluster: &str, broker_name: &str, broker_id: i64) -> Registered {
        if broker_id == MASTER_ID {
            return Registered::default();
        }
        let master =
            self.groups.get(broker_name).and_then(|group| group.broker_addrs.get(&MASTER_ID));
        let live = master.and_then(|address| self.live.get(&BrokerAddress::new(cluster, address)));
        match (master, live) {
            (Some(address), Some(live)) => Registered {
                master_address: Some(address.clone()),
                ha_address: Some(live.ha_address.clone()),
            },
            _ => Registered::default(),
        }
    }
}

/// Whose topics count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Master,
    /// The slave with the smallest id, of a group without a smaller one.
    PrimeSlave {
        acting: bool,
    },
    /// Its topics are passed over.
    Follower,
}

/// Queues of static topics by topic; brokers of 4.x have none.
fn mappings(
    wrapper: &TopicConfigSerializeWrapper,
) -> impl Iterator<Item = (&String, &TopicQueueMappingInfo)> {
    wrapper.topic_queue_mapping_info_map.iter().flatten()
}

fn live(registration: &Registration, now: Now) -> Live {
    Live {
        last_seen: now,
        timeout: registration.timeout.unwrap_or(DEFAULT_TIMEOUT),
        version: registration.body.topic_config_serialize_wrapper.data_version.clone(),
        connection: registration.connection,
        ha_address: registration.ha_address.clone(),
    }
}

fn queue_data(broker_name: &str, config: &TopicConfig, role: Role) -> QueueData {
    // A slave that stands in for a master is only read from.
    let wiped = if role == (Role::PrimeSlave { acting: true }) { perm::WRITE } else { 0 };
    QueueData {
        broker_name: broker_name.to_owned(),
        read_queue_nums: config.read_queue_nums,
        write_queue_nums: config.write_queue_nums,
        perm: config.perm & !wiped,
        topic_sys_flag: config.topic_sys_flag,
    }
}
