//! How much the table takes in: whoever reaches the port may register.

use super::{BrokerAddress, Registration, RouteTable};

/// The most brokers at a time.
const MAX_BROKERS: usize = 10_000;

/// The most topics at a time.
const MAX_TOPICS: usize = 1_000_000;

/// The longest name or address, in bytes. Brokers and clients allow 255 characters.
const MAX_NAME: usize = 1024;

/// Why the table takes no more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// Too many brokers.
    #[error("{MAX_BROKERS} brokers are registered, no further one is taken: {0}")]
    Brokers(String),
    /// Too many topics.
    #[error("{MAX_TOPICS} topics are known, {0} that come with new ones are not taken")]
    Topics(String),
    /// A name is too long.
    #[error("{kind} {start:?}... has {length} bytes, at most {MAX_NAME} are taken")]
    Name {
        /// What the name is of.
        kind: &'static str,
        /// How it begins.
        start: String,
        /// Its length in bytes.
        length: usize,
    },
}

impl RouteTable {
    /// Whether there is room for a registration. A broker that is known and brings no new topic
    /// always has it.
    ///
    /// # Errors
    /// See [`Full`].
    pub fn check_room(&self, registration: &Registration) -> Result<(), Full> {
        for (kind, name) in [
            ("cluster name", registration.cluster.as_str()),
            ("broker name", &registration.broker_name),
            ("broker address", &registration.address),
            ("replication address", &registration.ha_address),
            ("zone", registration.zone.as_deref().unwrap_or_default()),
        ] {
            check_name(kind, name)?;
        }
        let key = BrokerAddress::new(&registration.cluster, &registration.address);
        if self.live.len() >= MAX_BROKERS && !self.live.contains_key(&key) {
            return Err(Full::Brokers(registration.address.clone()));
        }
        let topics = &registration.body.topic_config_serialize_wrapper.topic_config_table;
        for topic in topics.keys() {
            check_name("topic", topic)?;
        }
        let room = MAX_TOPICS.saturating_sub(self.topics.len());
        let new = || topics.keys().filter(|topic| !self.topics.contains_key(*topic)).count();
        if topics.len() > room && new() > room {
            return Err(Full::Topics(registration.broker_name.clone()));
        }
        Ok(())
    }

    /// Whether there is room for one topic.
    ///
    /// # Errors
    /// See [`Full`].
    pub fn check_room_for_topic(&self, topic: &str) -> Result<(), Full> {
        check_name("topic", topic)?;
        if self.topics.len() >= MAX_TOPICS && !self.topics.contains_key(topic) {
            return Err(Full::Topics(topic.to_owned()));
        }
        Ok(())
    }
}

fn check_name(kind: &'static str, name: &str) -> Result<(), Full> {
    if name.len() <= MAX_NAME {
        return Ok(());
    }
    Err(Full::Name { kind, start: name.chars().take(64).collect(), length: name.len() })
}
