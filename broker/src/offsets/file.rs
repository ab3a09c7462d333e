//! The table as consumerOffset.json, in Java's form.

use std::{collections::BTreeMap, io, sync::PoisonError};

use protocol::body::ConsumerOffsetSerializeWrapper;
use serde_json::{Map, Value};
use store::config_file::{ConfigFile, JavaText, LoadConfigError, java_text};

use super::{Offsets, Progress, split};

impl Offsets {
    /// Reads the table.
    ///
    /// # Errors
    /// The file cannot be read, or neither it nor its backup is a table of offsets: starting
    /// without would make every group consume from its beginning.
    pub(crate) fn open(file: ConfigFile) -> Result<Self, LoadConfigError> {
        let read = file.load(ConsumerOffsetSerializeWrapper::decode)?;
        let offsets = Self::empty(file);
        if let Some(read) = read {
            for (key, committed) in read.offset_table {
                if split(&key).is_some() {
                    let progress = Progress { committed, ..Progress::default() };
                    offsets.table.insert(key, progress);
                } else {
                    tracing::warn!(key, "an offset's key is not topic@group, it is left out");
                }
            }
            *offsets.version.lock().unwrap_or_else(PoisonError::into_inner) = read.data_version;
        }
        Ok(offsets)
    }

    /// Writes the table where it changed since it was last written.
    ///
    /// # Errors
    /// The file cannot be written; the next call tries again.
    pub(crate) fn flush(&self) -> io::Result<()> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.take_changed() {
            return Ok(());
        }
        let text = text(&self.wrapper());
        file.store(text.as_bytes()).inspect_err(|_| self.mark_changed())
    }

    /// The committed offsets.
    pub(crate) fn wrapper(&self) -> ConsumerOffsetSerializeWrapper {
        let offset_table = self.collect(|progress| &progress.committed);
        let mut group_topic_map: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (topic, group) in offset_table.keys().filter_map(|key| split(key)) {
            group_topic_map.entry(group.to_owned()).or_default().push(topic.to_owned());
        }
        ConsumerOffsetSerializeWrapper {
            offset_table,
            group_topic_map: Some(group_topic_map),
            data_version: self.version(),
            ..ConsumerOffsetSerializeWrapper::default()
        }
    }

    /// The committed offsets and where pulls ended, as Java's slaves ask for them.
    pub(crate) fn wrapper_for_slaves(&self) -> ConsumerOffsetSerializeWrapper {
        ConsumerOffsetSerializeWrapper {
            lmq_offset_table: Some(BTreeMap::new()),
            pull_offset_table: Some(self.collect(|progress| &progress.pulled)),
            ..self.wrapper()
        }
    }

    fn collect(
        &self,
        part: fn(&Progress) -> &BTreeMap<i32, i64>,
    ) -> BTreeMap<String, BTreeMap<i32, i64>> {
        self.table
            .iter()
            .filter(|row| !part(row.value()).is_empty())
            .map(|row| (row.key().clone(), part(row.value()).clone()))
            .collect()
    }
}

fn text(wrapper: &ConsumerOffsetSerializeWrapper) -> String {
    let queues = |offsets: &BTreeMap<i32, i64>| {
        let pairs = offsets.iter().map(|(queue, offset)| (queue.to_string(), (*offset).into()));
        Value::Object(pairs.collect())
    };
    let offsets: Map<String, Value> =
        wrapper.offset_table.iter().map(|(key, offsets)| (key.clone(), queues(offsets))).collect();
    let version = &wrapper.data_version;
    let value = serde_json::json!({
        "dataVersion": {
            "counter": version.counter,
            "stateVersion": version.state_version,
            "timestamp": version.timestamp,
        },
        "groupTopicMap": wrapper.group_topic_map,
        "offsetTable": offsets,
    });
    let integer_keys = |path: &[&str]| matches!(path, ["offsetTable", _]);
    java_text(&value, JavaText { integer_keys: &integer_keys })
}
