//! The tables as Java's files of config/, and back.

use std::{collections::BTreeMap, io, sync::Arc};

use protocol::body::{
    BodyError, ConsumerOffsetSerializeWrapper, ConsumerOrderInfoWrapper, DataVersion,
    DelayOffsetSerializeWrapper, MessageRequestModeSerializeWrapper,
    SetMessageRequestModeRequestBody, SubscriptionGroupConfig, SubscriptionGroupWrapper,
    TopicConfig, TopicConfigSerializeWrapper,
};
use serde_json::{Map, Value, json};

use super::{Kind, Tables};
use crate::config_file::{JavaText, java_text};

impl Kind {
    /// Every table.
    pub const ALL: [Self; 7] = [
        Self::Topics,
        Self::Groups,
        Self::Offsets,
        Self::Delays,
        Self::RequestModes,
        Self::Orders,
        Self::Resets,
    ];

    /// Name of the table's file in config/.
    #[must_use]
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Topics => "topics.json",
            Self::Groups => "subscriptionGroup.json",
            Self::Offsets => "consumerOffset.json",
            Self::Delays => "delayOffset.json",
            Self::RequestModes => "messageRequestMode.json",
            Self::Orders => "consumerOrderInfo.json",
            Self::Resets => RESETS,
        }
    }

    /// Names of all files in config/ that hold the table. A Java broker with `enableLmq=true` reads
    /// and writes all offsets elsewhere, those of plain topics too (`LmqConsumerOffsetManager`,
    /// `BrokerPathConfigHelper.getLmqConsumerOffsetPath`).
    #[must_use]
    pub fn file_names(self) -> &'static [&'static str] {
        match self {
            Self::Topics => &["topics.json"],
            Self::Groups => &["subscriptionGroup.json"],
            Self::Offsets => &["consumerOffset.json", LIGHT_OFFSETS],
            Self::Delays => &["delayOffset.json"],
            Self::RequestModes => &["messageRequestMode.json"],
            Self::Orders => &["consumerOrderInfo.json"],
            Self::Resets => &[RESETS],
        }
    }
}

/// The file of offsets of a Java broker with light queues.
const LIGHT_OFFSETS: &str = "lmqConsumerOffset.json";
/// The file of resets that groups have not heard of, which Java has in memory only.
const RESETS: &str = "resetOffset.json";
/// How groups consume, by topic and group.
type RequestModes = BTreeMap<String, BTreeMap<String, SetMessageRequestModeRequestBody>>;
/// What the names of light queues, and of the groups that consume them, begin with
/// (`MixAll.LMQ_PREFIX`). Of such a group a Java broker keeps one offset of each topic.
const LIGHT_PREFIX: &str = "%LMQ%";

impl Tables {
    /// A table as Java writes its file.
    ///
    /// # Errors
    /// It has no text form, which no table lacks.
    pub fn file(&self, kind: Kind) -> io::Result<String> {
        let plain = JavaText { integer_keys: &|_| false };
        Ok(match kind {
            Kind::Topics => {
                java_text(&serde_json::from_slice(&self.topics_wrapper().encode())?, plain)
            }
            Kind::Groups => {
                java_text(&serde_json::from_slice(&self.groups_wrapper().encode())?, plain)
            }
            Kind::Offsets => offsets_text(&self.offsets_wrapper()),
            Kind::Delays => self.delays_text(),
            Kind::RequestModes => {
                java_text(&serde_json::from_slice(&self.request_modes_wrapper().encode())?, plain)
            }
            Kind::Orders => self.orders_text(),
            Kind::Resets => {
                let value = json!({ "offsetTable": self.resets });
                java_text(&value, JavaText { integer_keys: &integer_keys })
            }
        })
    }

    /// A table as Java writes the file of this name.
    ///
    /// # Errors
    /// See [`Tables::file`].
    pub fn file_named(&self, kind: Kind, name: &str) -> io::Result<String> {
        if name == LIGHT_OFFSETS { Ok(self.light_offsets_text()) } else { self.file(kind) }
    }

    /// Replaces a table by what a file holds, which Java may have written.
    ///
    /// # Errors
    /// It is no such file; nothing is changed then.
    pub fn read_file(&mut self, kind: Kind, content: &[u8]) -> Result<(), BodyError> {
        match kind {
            Kind::Topics => {
                let read = TopicConfigSerializeWrapper::decode(content)?;
                self.topics = arcs(read.topic_config_table, |_, _| {});
                self.versions.topics = read.data_version;
            }
            Kind::Groups => {
                let read = SubscriptionGroupWrapper::decode(content)?;
                self.groups = arcs(
                    read.subscription_group_table,
                    |name, group: &mut SubscriptionGroupConfig| {
                        name.clone_into(&mut group.group_name);
                    },
                );
                self.forbidden = read.forbidden_table;
                self.versions.groups = read.data_version;
            }
            Kind::Offsets => {
                let read = ConsumerOffsetSerializeWrapper::decode(content)?;
                self.versions.offsets = read.data_version;
                self.offsets = BTreeMap::new();
                for (key, offsets) in read.offset_table {
                    if key.contains('@') {
                        self.offsets.insert(key, offsets);
                    } else {
                        tracing::warn!(key, "an offset's key is not topic@group, it is left out");
                    }
                }
                for (key, offset) in read.lmq_offset_table.unwrap_or_default() {
                    self.offsets.entry(key).or_default().entry(0).or_insert(offset);
                }
            }
            Kind::Delays => {
                let read = DelayOffsetSerializeWrapper::decode(content)?;
                let sound = |(level, offset): (i32, i64)| {
                    Some((u32::try_from(level).ok()?, u64::try_from(offset).ok()?))
                };
                self.delays = read.offset_table.into_iter().filter_map(sound).collect();
                self.versions.delays = read.data_version;
            }
            Kind::RequestModes => {
                let read = MessageRequestModeSerializeWrapper::decode(content)?;
                self.request_modes = named(read.message_request_mode_map);
            }
            Kind::Orders => self.orders = ConsumerOrderInfoWrapper::decode(content)?.table,
            Kind::Resets => {
                self.resets = ConsumerOffsetSerializeWrapper::decode(content)?.offset_table;
            }
        }
        Ok(())
    }

    /// Topics as they go over the wire.
    #[must_use]
    pub fn topics_wrapper(&self) -> TopicConfigSerializeWrapper {
        let topic = |(name, topic): (&String, &Arc<TopicConfig>)| (name.clone(), (**topic).clone());
        TopicConfigSerializeWrapper {
            topic_config_table: self.topics.iter().map(topic).collect(),
            data_version: self.versions.topics.clone(),
            ..TopicConfigSerializeWrapper::default()
        }
    }

    /// How groups consume, as it goes over the wire.
    #[must_use]
    pub fn request_modes_wrapper(&self) -> MessageRequestModeSerializeWrapper {
        let message_request_mode_map = self.request_modes.clone();
        MessageRequestModeSerializeWrapper { message_request_mode_map }
    }

    fn groups_wrapper(&self) -> SubscriptionGroupWrapper {
        let group = |(name, group): (&String, &Arc<SubscriptionGroupConfig>)| {
            (name.clone(), (**group).clone())
        };
        SubscriptionGroupWrapper {
            subscription_group_table: self.groups.iter().map(group).collect(),
            forbidden_table: self.forbidden.clone(),
            data_version: self.versions.groups.clone(),
        }
    }

    fn offsets_wrapper(&self) -> ConsumerOffsetSerializeWrapper {
        let mut group_topic_map: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (topic, group) in self.offsets.keys().filter_map(|key| key.split_once('@')) {
            group_topic_map.entry(group.to_owned()).or_default().push(topic.to_owned());
        }
        ConsumerOffsetSerializeWrapper {
            offset_table: self.offsets.clone(),
            group_topic_map: Some(group_topic_map),
            data_version: self.versions.offsets.clone(),
            ..ConsumerOffsetSerializeWrapper::default()
        }
    }

    fn light_offsets_text(&self) -> String {
        let (mut light, mut plain) = (Map::new(), Map::new());
        for (key, offsets) in &self.offsets {
            let group = key.split_once('@').map_or("", |(_, group)| group);
            match offsets.get(&0).filter(|_| group.starts_with(LIGHT_PREFIX)) {
                Some(offset) => drop(light.insert(key.clone(), (*offset).into())),
                None => drop(plain.insert(key.clone(), queues(offsets))),
            }
        }
        let value = json!({
            "dataVersion": version_value(&self.versions.offsets),
            "groupTopicMap": self.offsets_wrapper().group_topic_map,
            "lmqOffsetTable": light,
            "offsetTable": plain,
        });
        java_text(&value, JavaText { integer_keys: &integer_keys })
    }

    fn orders_text(&self) -> String {
        let mut value = json!({ "table": self.orders });
        // Java leaves out what is not there.
        let rows = value.get_mut("table").and_then(Value::as_object_mut);
        let rows = rows.into_iter().flat_map(|table| table.values_mut());
        for row in rows.filter_map(Value::as_object_mut).flat_map(|rows| rows.values_mut()) {
            if let Some(row) = row.as_object_mut() {
                row.retain(|_, field| !field.is_null());
            }
        }
        let integer_keys =
            |path: &[&str]| matches!(path, ["table", _] | ["table", _, _, "oc" | "ot"]);
        java_text(&value, JavaText { integer_keys: &integer_keys })
    }

    fn delays_text(&self) -> String {
        let level = |(level, offset): (&u32, &u64)| (level.to_string(), Value::from(*offset));
        let offsets: Map<String, Value> = self.delays.iter().map(level).collect();
        let value = json!({
            "dataVersion": version_value(&self.versions.delays),
            "offsetTable": offsets,
        });
        java_text(&value, JavaText { integer_keys: &|path| path == ["offsetTable"] })
    }
}

/// Rows by topic and group that bear the names under which they are kept.
fn named(mut modes: RequestModes) -> RequestModes {
    for (topic, groups) in &mut modes {
        for (group, mode) in groups {
            topic.clone_into(&mut mode.topic);
            group.clone_into(&mut mode.consumer_group);
        }
    }
    modes.retain(|_, groups| !groups.is_empty());
    modes
}

fn arcs<T>(
    table: BTreeMap<String, T>,
    complete: impl Fn(&str, &mut T),
) -> BTreeMap<String, Arc<T>> {
    let row = |(name, mut value): (String, T)| {
        complete(&name, &mut value);
        (name, Arc::new(value))
    };
    table.into_iter().map(row).collect()
}

fn offsets_text(wrapper: &ConsumerOffsetSerializeWrapper) -> String {
    let offsets: Map<String, Value> =
        wrapper.offset_table.iter().map(|(key, offsets)| (key.clone(), queues(offsets))).collect();
    let value = json!({
        "dataVersion": version_value(&wrapper.data_version),
        "groupTopicMap": wrapper.group_topic_map,
        "offsetTable": offsets,
    });
    java_text(&value, JavaText { integer_keys: &integer_keys })
}

fn queues(offsets: &BTreeMap<i32, i64>) -> Value {
    let pairs = offsets.iter().map(|(queue, offset)| (queue.to_string(), (*offset).into()));
    Value::Object(pairs.collect())
}

fn integer_keys(path: &[&str]) -> bool {
    matches!(path, ["offsetTable", _])
}

fn version_value(version: &DataVersion) -> Value {
    json!({
        "counter": version.counter,
        "stateVersion": version.state_version,
        "timestamp": version.timestamp,
    })
}
