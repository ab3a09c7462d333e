//! Messages as applications see them.

use std::{collections::BTreeSet, net::SocketAddr};

use bytes::Bytes;
use protocol::message::{
    id::offset_message_id,
    properties::{self, Properties, key},
    record::{self, MessageRecord, RecordError},
    tags,
};

use crate::{
    body::{UnpackError, unpack},
    error::SendError,
    unique_id,
};

/// A message to be sent.
#[derive(Debug, Clone, Default)]
pub struct Message {
    /// Its topic.
    pub topic: String,
    /// The body, sent as it is.
    pub body: Bytes,
    /// A number for the application.
    pub flag: i32,
    /// Properties; see [`protocol::message::properties::key`] for those with a meaning.
    pub properties: Properties,
}

impl Message {
    /// A message without tag and keys.
    pub fn new(topic: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self { topic: topic.into(), body: body.into(), ..Self::default() }
    }

    /// With a tag, by which consumers choose.
    #[must_use]
    pub fn tag(self, tag: &str) -> Self {
        self.property(key::TAGS, tag)
    }

    /// With keys, by which it can be looked up; blanks inside a key separate keys.
    #[must_use]
    pub fn keys<K: AsRef<str>>(self, keys: &[K]) -> Self {
        let joined = keys.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(" ");
        self.property(key::KEYS, &joined)
    }

    /// With a property. An empty value is left out, as Java's readers do not see it.
    #[must_use]
    pub fn property(mut self, name: &str, value: &str) -> Self {
        if !value.is_empty() {
            self.properties.insert(name, value);
        }
        self
    }

    /// Delivered later, by a level of the broker's `messageDelayLevel`, counted from 1.
    #[must_use]
    pub fn delay_level(self, level: u32) -> Self {
        self.property(key::DELAY, &level.to_string())
    }

    /// The client's message id, given once and kept by repeats.
    pub(crate) fn ensure_unique_id(&mut self) -> String {
        if let Some(id) = self.properties.get(key::UNIQ_KEY) {
            return id.to_owned();
        }
        let id = unique_id::next();
        self.properties.insert(key::UNIQ_KEY, id.as_str());
        id
    }

    /// Refuses what no broker takes, before it is sent.
    pub(crate) fn check(&self) -> Result<(), SendError> {
        let malformed = |reason: String| SendError::Malformed { topic: self.topic.clone(), reason };
        protocol::name::validate_topic(&self.topic)
            .map_err(|error| malformed(error.to_string()))?;
        if self.body.is_empty() {
            return Err(malformed("the body is empty; give at least one byte".to_owned()));
        }
        for (name, value) in self.properties.iter() {
            if [name, value].iter().any(|text| text.contains(['\u{1}', '\u{2}'])) {
                return Err(malformed(format!(
                    "property {name:?} has a character 1 or 2, which separate properties"
                )));
            }
        }
        Ok(())
    }
}

/// A message that was received.
#[derive(Debug, Clone)]
pub struct Received {
    /// Its topic: for a repeated message the one it was sent to first.
    pub topic: String,
    /// Name of the broker it came from; empty where it was looked up by id.
    pub broker: String,
    /// Queue it was received from.
    pub queue_id: i32,
    /// Its place in that queue.
    pub queue_offset: i64,
    /// Its place in the commit log in bytes.
    pub physical_offset: i64,
    /// The body, unpacked.
    pub body: Bytes,
    /// Why the body is still packed, if it is.
    pub packed: Option<UnpackError>,
    /// The number of the sender.
    pub flag: i32,
    /// All properties.
    pub properties: Properties,
    /// When it was sent, in milliseconds since 1970.
    pub born_timestamp: i64,
    /// Who sent it.
    pub born_host: SocketAddr,
    /// When it was stored, in milliseconds since 1970.
    pub store_timestamp: i64,
    /// Broker that stored it.
    pub store_host: SocketAddr,
    /// How often it was given back.
    pub reconsume_times: i32,
    /// Id of the broker: address and place in the commit log.
    pub offset_message_id: String,
}

impl Received {
    /// Reads a stored record; `broker` is where it came from.
    pub(crate) fn read(record: MessageRecord, broker: &str) -> Self {
        let MessageRecord { topic, body, properties, store_host, physical_offset, .. } = record;
        let (body, packed) = match unpack(&body, record.sys_flag, BODY_MAX) {
            Ok(None) => (body, None),
            Ok(Some(unpacked)) => (Bytes::from(unpacked), None),
            Err(error) => (body, Some(error)),
        };
        let properties = properties::decode(&properties);
        let topic = match properties.get(key::RETRY_TOPIC) {
            Some(first) if protocol::name::is_retry_topic(&topic) => first.to_owned(),
            _ => topic,
        };
        Self {
            topic,
            broker: broker.to_owned(),
            queue_id: record.queue_id,
            queue_offset: record.queue_offset,
            physical_offset,
            body,
            packed,
            flag: record.flag,
            properties,
            born_timestamp: record.born_timestamp,
            born_host: record.born_host,
            store_timestamp: record.store_timestamp,
            store_host,
            reconsume_times: record.reconsume_times,
            offset_message_id: offset_message_id(store_host, physical_offset),
        }
    }

    /// Reads records back to back, as brokers answer.
    pub(crate) fn read_all(bytes: &[u8], broker: &str) -> Result<Vec<Self>, RecordError> {
        record::records(bytes)
            .map(|record| record.map(|view| Self::read(view.to_record(), broker)))
            .collect()
    }

    /// The client's message id, or that of the broker where it has none.
    pub fn id(&self) -> &str {
        self.properties.get(key::UNIQ_KEY).unwrap_or(&self.offset_message_id)
    }

    /// The tag.
    pub fn tag(&self) -> Option<&str> {
        self.properties.get(key::TAGS)
    }

    /// The keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.properties.get(key::KEYS).unwrap_or_default().split(' ').filter(|key| !key.is_empty())
    }
}

/// Tags that a consumer takes: `*` or `TagA || TagB` (`FilterAPI.java`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tags {
    /// As it was written.
    pub(crate) expression: String,
    /// The tags; empty for all.
    pub(crate) tags: Vec<String>,
}

impl Tags {
    /// Reads an expression; one without any tag means all.
    pub(crate) fn parse(expression: &str) -> Self {
        let expression = expression.trim();
        if expression.is_empty() || expression == "*" {
            return Self { expression: "*".to_owned(), tags: Vec::new() };
        }
        let tags = expression
            .split("||")
            .map(str::trim)
            .filter(|tag| !tag.is_empty())
            .map(ToOwned::to_owned)
            .collect();
        Self { expression: expression.to_owned(), tags }
    }

    /// Whether a message is wanted. Brokers choose by a hash of the tag, so that others with the
    /// same hash may come too.
    pub(crate) fn wants(&self, message: &Received) -> bool {
        self.tags.is_empty()
            || message.tag().is_some_and(|tag| self.tags.iter().any(|wanted| wanted == tag))
    }

    /// The hashes by which brokers choose.
    pub(crate) fn codes(&self) -> BTreeSet<i32> {
        // Java's hash of a text has 32 bits; only queues keep it in 64.
        self.tags.iter().filter_map(|tag| i32::try_from(tags::tags_code(tag)).ok()).collect()
    }
}

/// Bytes that a body may have when it is unpacked.
const BODY_MAX: usize = 128 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_without_body_or_with_a_separator_is_refused() {
        let reason = |message: Message| message.check().unwrap_err().to_string();
        assert!(reason(Message::new("T", "")).contains("body is empty"));
        assert!(reason(Message::new("T", "x").property("a", "b\u{1}")).contains("\"a\""));
        assert!(reason(Message::new("no blanks", "x")).contains("no blanks"));
        Message::new("T", "x").tag("TagA").keys(&["k1", "k2"]).check().unwrap();
    }

    #[test]
    fn the_id_of_a_message_is_given_once() {
        let mut message = Message::new("T", "x");
        let id = message.ensure_unique_id();
        assert_eq!(message.ensure_unique_id(), id);
    }

    #[test]
    fn tags_are_read_as_java_does() {
        assert_eq!(Tags::parse(" * ").tags, [] as [String; 0]);
        assert_eq!(Tags::parse("").expression, "*");
        let tags = Tags::parse("TagA || TagB||");
        assert_eq!(tags.tags, ["TagA", "TagB"]);
        assert_eq!(tags.codes().into_iter().collect::<Vec<_>>(), [2_598_919, 2_598_920]);
    }
}
