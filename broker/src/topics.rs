//! The table of topics, kept as topics.json in Java's form (`TopicConfigManager.java`).

mod system;

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use protocol::{
    body::{DataVersion, TopicConfig, TopicConfigSerializeWrapper},
    message::sys_flag::perm,
    name,
};
use store::journal::{Change, Tables};

use crate::{clock, config::BrokerConfig};

pub(crate) use protocol::body::TopicConfig as Topic;
pub(crate) use protocol::name::SCHEDULE_TOPIC;
pub(crate) use system::{check_kind, is_journal, read_write, refuses_sends};

/// Values of `topicFilterType` (`TopicFilterType.java`).
pub(crate) const SINGLE_TAG: &str = "SINGLE_TAG";
/// A message has several tags; they are still hashed as one text.
pub(crate) const MULTI_TAG: &str = "MULTI_TAG";
const TEMPLATE: &str = name::AUTO_CREATE_TOPIC_KEY_TOPIC;

/// All topics of this broker, as the journal says. Only applied records change the table.
#[derive(Debug)]
pub(crate) struct Topics {
    table: RwLock<Table>,
    system: Vec<String>,
    /// Whether a light queue may be read and written as a topic of one queue.
    light: bool,
}

#[derive(Debug, Clone, Default)]
struct Table {
    topics: BTreeMap<String, Arc<TopicConfig>>,
    version: DataVersion,
}

/// Why a topic could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TopicsError {
    /// The bound on automatically made topics is reached.
    #[error(
        "there are {0} topics, the most that are created automatically (maxTopics); create it with updateTopic"
    )]
    TooMany(usize),
}

impl Topics {
    /// The table as the journal has it.
    pub(crate) fn new(tables: &Tables, config: &BrokerConfig) -> Self {
        let (system, light) = (system::names(config), config.enable_lmq);
        let topics = Self { table: RwLock::default(), system, light };
        topics.load(tables);
        topics
    }

    /// Adds the system topics that are missing, as every node does by itself.
    pub(crate) fn complete(tables: &mut Tables, config: &BrokerConfig) {
        // A file that was written while creation was on must not invite producers any more.
        let mut changed =
            !config.auto_create_topic_enable && tables.topics.remove(TEMPLATE).is_some();
        for topic in system::topics(config) {
            if !tables.topics.contains_key(&topic.topic_name) {
                tables.topics.insert(topic.topic_name.clone(), Arc::new(topic));
                changed = true;
            }
        }
        if changed {
            tables.versions.topics.counter += 1;
            tables.versions.topics.timestamp = clock::now_millis();
        }
    }

    /// Takes the whole table.
    pub(crate) fn load(&self, tables: &Tables) {
        *self.table.write().unwrap_or_else(PoisonError::into_inner) =
            Table { topics: tables.topics.clone(), version: tables.versions.topics.clone() };
    }

    /// Takes what the journal has for one topic now.
    pub(crate) fn take(&self, name: &str, tables: &Tables) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        match tables.topics.get(name) {
            Some(topic) => drop(table.topics.insert(name.to_owned(), Arc::clone(topic))),
            None => drop(table.topics.remove(name)),
        }
        table.version = tables.versions.topics.clone();
    }

    /// The topic of this name. A light queue is in no table (`LmqTopicConfigManager.java`).
    pub(crate) fn get(&self, name: &str) -> Option<Arc<TopicConfig>> {
        let found = self.read(|table| table.topics.get(name).cloned());
        found.or_else(|| {
            let light = self.light && name.starts_with(name::LMQ_PREFIX);
            light.then(|| Arc::new(read_write(name, 1, false)))
        })
    }

    /// Number of topics.
    pub(crate) fn len(&self) -> usize {
        self.read(|table| table.topics.len())
    }

    /// The whole table.
    pub(crate) fn wrapper(&self) -> TopicConfigSerializeWrapper {
        self.read(Table::wrapper)
    }

    /// The version of the table, which name servers and tools compare.
    pub(crate) fn version(&self) -> DataVersion {
        self.read(|table| table.version.clone())
    }

    /// At most `limit` topics from the `first`-th on, by name, with the number of all.
    pub(crate) fn page(&self, first: usize, limit: usize) -> (TopicConfigSerializeWrapper, usize) {
        self.read(|table| {
            let page = Table {
                topics: table
                    .topics
                    .iter()
                    .skip(first)
                    .take(limit)
                    .map(|(name, topic)| (name.clone(), Arc::clone(topic)))
                    .collect(),
                version: table.version.clone(),
            };
            (page.wrapper(), table.topics.len())
        })
    }

    /// The names that belong to the broker: tools hide them, and updateTopic refuses them.
    pub(crate) fn system_names(&self) -> &[String] {
        &self.system
    }

    /// Whether a name belongs to the broker.
    pub(crate) fn is_system(&self, name: &str) -> bool {
        self.system.iter().any(|system| system == name) || name::is_system_topic(name)
    }

    /// What makes or changes a topic; `None` where it is so already.
    pub(crate) fn put(&self, topic: TopicConfig) -> Option<Change> {
        let present = self.get(&topic.topic_name);
        present.is_none_or(|present| *present != topic).then_some(Change::Topic(topic))
    }

    /// What makes a topic; `None` where there is one of its name.
    ///
    /// # Errors
    /// The table is full.
    pub(crate) fn make(
        &self,
        topic: TopicConfig,
        bound: usize,
    ) -> Result<Option<Change>, TopicsError> {
        let (exists, count) =
            self.read(|table| (table.topics.contains_key(&topic.topic_name), table.topics.len()));
        match exists {
            true => Ok(None),
            false if count >= bound => Err(TopicsError::TooMany(count)),
            false => Ok(Some(Change::NewTopic(topic))),
        }
    }

    /// What makes those of the topics that are missing.
    pub(crate) fn make_all(&self, topics: Vec<TopicConfig>) -> Vec<Change> {
        self.read(|table| {
            let missing = |topic: &TopicConfig| !table.topics.contains_key(&topic.topic_name);
            topics.into_iter().filter(missing).map(Change::NewTopic).collect()
        })
    }

    /// The system topics that are missing.
    pub(crate) fn missing_system(&self, config: &BrokerConfig) -> Vec<Change> {
        self.make_all(system::topics(config))
    }

    /// The topic that a send to an unknown topic makes: what its template gives, where it may be
    /// one (`createTopicInSendMessageMethod`).
    pub(crate) fn by_template(
        &self,
        wanted: &Wanted<'_>,
        config: &BrokerConfig,
    ) -> Option<TopicConfig> {
        if is_journal(wanted.topic) {
            return None;
        }
        if wanted.template == TEMPLATE && !config.auto_create_topic_enable {
            return None;
        }
        let template = self.get(wanted.template)?;
        if template.perm & perm::INHERIT == 0 {
            return None;
        }
        let queues = wanted.queues.min(template.write_queue_nums).max(0);
        Some(TopicConfig {
            perm: template.perm & !perm::INHERIT,
            ..read_write(wanted.topic, queues, wanted.unit_mode)
        })
    }

    /// Whether [`Topics::mark_ordered`] would change something.
    pub(crate) fn differ_in_order(&self, ordered: &BTreeMap<String, String>) -> bool {
        self.read(|table| {
            table.topics.iter().any(|(name, topic)| topic.order != ordered.contains_key(name))
        })
    }

    /// What marks the topics that are ordered, and only these.
    pub(crate) fn mark_ordered(&self, ordered: &BTreeMap<String, String>) -> Vec<Change> {
        self.read(|table| {
            let mut changes = Vec::new();
            for (name, topic) in &table.topics {
                let order = ordered.contains_key(name);
                if topic.order != order {
                    changes.push(Change::Topic(TopicConfig { order, ..TopicConfig::clone(topic) }));
                }
            }
            changes
        })
    }

    fn read<T>(&self, look: impl FnOnce(&Table) -> T) -> T {
        look(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What a send to an unknown topic asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// The unknown topic.
    pub(crate) topic: &'a str,
    /// Its template.
    pub(crate) template: &'a str,
    /// Queues it should have.
    pub(crate) queues: i32,
    /// Whether the producer is in unit mode.
    pub(crate) unit_mode: bool,
}

impl Table {
    fn wrapper(&self) -> TopicConfigSerializeWrapper {
        TopicConfigSerializeWrapper {
            topic_config_table: self
                .topics
                .iter()
                .map(|(name, topic)| (name.clone(), TopicConfig::clone(topic)))
                .collect(),
            data_version: self.version.clone(),
            ..TopicConfigSerializeWrapper::default()
        }
    }
}

#[cfg(test)]
mod tests;
