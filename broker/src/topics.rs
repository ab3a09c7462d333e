//! The table of topics, kept as topics.json in Java's form (`TopicConfigManager.java`).

mod system;

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use protocol::{
    body::{DataVersion, TopicConfig, TopicConfigSerializeWrapper},
    message::sys_flag::perm,
    name,
};
use store::config_file::{ConfigFile, JavaText, LoadConfigError, java_text};

use crate::{clock, config::BrokerConfig};

pub(crate) use protocol::body::TopicConfig as Topic;
pub(crate) use protocol::name::SCHEDULE_TOPIC;
pub(crate) use system::{check_kind, is_journal, read_write, refuses_sends};

/// Values of `topicFilterType` (`TopicFilterType.java`).
pub(crate) const SINGLE_TAG: &str = "SINGLE_TAG";
/// A message has several tags; they are still hashed as one text.
pub(crate) const MULTI_TAG: &str = "MULTI_TAG";
const TEMPLATE: &str = name::AUTO_CREATE_TOPIC_KEY_TOPIC;

/// All topics of this broker.
#[derive(Debug)]
pub(crate) struct Topics {
    table: RwLock<Table>,
    /// Held from a change to the end of its writing, so that the file never goes back.
    file: Mutex<ConfigFile>,
    system: Vec<String>,
}

#[derive(Debug, Clone, Default)]
struct Table {
    topics: BTreeMap<String, Arc<TopicConfig>>,
    version: DataVersion,
}

/// Why a topic could not be made or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TopicsError {
    /// The table could not be written; the change does not hold.
    #[error("topics.json could not be written: {0}; look at the disk and try again")]
    Write(#[from] io::Error),
    /// The bound on automatically made topics is reached.
    #[error(
        "there are {0} topics, the most that are created automatically (maxTopics); create it with updateTopic"
    )]
    TooMany(usize),
}

/// Why the table could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenTopicsError {
    /// It is there and cannot be read.
    #[error(transparent)]
    Load(#[from] LoadConfigError),
    /// It cannot be written.
    #[error(
        "topics.json could not be written: {0}; look at the folder's owner and the disk's room"
    )]
    Write(#[from] io::Error),
}

impl Topics {
    /// Reads the table and adds the system topics that are missing.
    ///
    /// # Errors
    /// The file cannot be read, or is no table of topics.
    pub(crate) fn open(file: ConfigFile, config: &BrokerConfig) -> Result<Self, OpenTopicsError> {
        let mut table = match file.load(TopicConfigSerializeWrapper::decode)? {
            Some(wrapper) => Table::from(wrapper),
            None => Table::default(),
        };
        // A file that was written while creation was on must not invite producers any more.
        let mut changed =
            !config.auto_create_topic_enable && table.topics.remove(TEMPLATE).is_some();
        for topic in system::topics(config) {
            if !table.topics.contains_key(&topic.topic_name) {
                table.topics.insert(topic.topic_name.clone(), Arc::new(topic));
                changed = true;
            }
        }
        if changed {
            table.bump();
            file.store(text(&table.wrapper())?.as_bytes())?;
        }
        Ok(Self {
            table: RwLock::new(table),
            file: Mutex::new(file),
            system: system::names(config),
        })
    }

    /// The topic of this name.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<TopicConfig>> {
        self.read(|table| table.topics.get(name).cloned())
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

    /// Makes or changes a topic; gives whether that changed the table.
    ///
    /// # Errors
    /// The table cannot be written.
    pub(crate) fn put(&self, topic: TopicConfig) -> Result<bool, TopicsError> {
        self.change(|table| {
            if table.topics.get(&topic.topic_name).is_some_and(|present| **present == topic) {
                return Ok(false);
            }
            table.topics.insert(topic.topic_name.clone(), Arc::new(topic.clone()));
            Ok(true)
        })
    }

    /// The topic of that name, made from `topic` where there is none; with whether it was made.
    ///
    /// # Errors
    /// The table cannot be written, or is full.
    pub(crate) fn get_or_make(
        &self,
        topic: TopicConfig,
        bound: usize,
    ) -> Result<(Arc<TopicConfig>, bool), TopicsError> {
        if let Some(present) = self.get(&topic.topic_name) {
            return Ok((present, false));
        }
        let topic = Arc::new(topic);
        let made = self.change(|table| {
            if table.topics.contains_key(&topic.topic_name) {
                return Ok(false);
            }
            if table.topics.len() >= bound {
                return Err(TopicsError::TooMany(table.topics.len()));
            }
            table.topics.insert(topic.topic_name.clone(), Arc::clone(&topic));
            Ok(true)
        })?;
        Ok((self.get(&topic.topic_name).unwrap_or(topic), made))
    }

    /// Makes those of the topics that are missing, with one writing of the table; gives how many.
    ///
    /// # Errors
    /// The table cannot be written; none is made then.
    pub(crate) fn make_all(&self, topics: Vec<TopicConfig>) -> Result<usize, TopicsError> {
        let mut made = 0;
        self.change(|table| {
            for topic in topics {
                if !table.topics.contains_key(&topic.topic_name) {
                    table.topics.insert(topic.topic_name.clone(), Arc::new(topic));
                    made += 1;
                }
            }
            Ok(made > 0)
        })?;
        Ok(made)
    }

    /// Removes a topic; gives whether there was one.
    ///
    /// # Errors
    /// The table cannot be written.
    pub(crate) fn remove(&self, name: &str) -> Result<bool, TopicsError> {
        self.change(|table| Ok(table.topics.remove(name).is_some()))
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

    /// Marks the topics that are ordered, and only these.
    ///
    /// # Errors
    /// The table cannot be written.
    pub(crate) fn mark_ordered(
        &self,
        ordered: &BTreeMap<String, String>,
    ) -> Result<bool, TopicsError> {
        self.change(|table| {
            let mut changed = false;
            for (name, topic) in &mut table.topics {
                let order = ordered.contains_key(name);
                if topic.order != order {
                    *topic = Arc::new(TopicConfig { order, ..TopicConfig::clone(topic) });
                    changed = true;
                }
            }
            Ok(changed)
        })
    }

    fn read<T>(&self, look: impl FnOnce(&Table) -> T) -> T {
        look(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Applies a change and writes the table. Readers see the change once it is on disk.
    fn change(
        &self,
        apply: impl FnOnce(&mut Table) -> Result<bool, TopicsError>,
    ) -> Result<bool, TopicsError> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut table = self.read(Table::clone);
        if !apply(&mut table)? {
            return Ok(false);
        }
        table.bump();
        file.store(text(&table.wrapper())?.as_bytes())?;
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = table;
        Ok(true)
    }
}

/// The table as Java writes it.
fn text(wrapper: &TopicConfigSerializeWrapper) -> io::Result<String> {
    let value = serde_json::from_slice(&wrapper.encode())?;
    Ok(java_text(&value, JavaText { integer_keys: &|_| false }))
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

    fn bump(&mut self) {
        self.version.counter += 1;
        self.version.timestamp = clock::now_millis();
    }
}

impl From<TopicConfigSerializeWrapper> for Table {
    fn from(wrapper: TopicConfigSerializeWrapper) -> Self {
        Self {
            topics: wrapper
                .topic_config_table
                .into_iter()
                .map(|(name, topic)| (name, Arc::new(topic)))
                .collect(),
            version: wrapper.data_version,
        }
    }
}

#[cfg(test)]
mod tests;
