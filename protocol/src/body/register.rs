//! Registration of a broker at a name server (code 103).

use std::{
    collections::BTreeMap,
    io::{Read, Write},
};

use bytes::{Buf, BufMut, Bytes};
use flate2::{Compression, read::ZlibDecoder, write::ZlibEncoder};

use super::{
    BodyError, DataVersion, TopicConfig, TopicConfigSerializeWrapper, TopicQueueMappingInfo,
    plain_bodies,
};
use crate::{
    json::{self, JsonError, Style},
    version,
};

plain_bodies! {
    /// What a broker registers.
    RegisterBrokerBody {
        /// Filter servers; a removed feature.
        filter_server_list: Vec<String>,
        /// Its topics.
        topic_config_serialize_wrapper: TopicConfigSerializeWrapper,
    }
}

/// Checksum of a registration body as sent; 0 in the header means that it is not checked.
pub fn register_body_crc32(body: &[u8]) -> i32 {
    crate::message::record::body_crc(body)
}

const CLASS: &str = "RegisterBrokerBody";

fn broken(cause: impl Into<String>) -> BodyError {
    BodyError { class: CLASS, cause: JsonError::Type(cause.into()) }
}

impl RegisterBrokerBody {
    /// Reads the body of a request as its header says: compressed or not. A broker before 3.0.11
    /// sends its topics only.
    ///
    /// `limit` bounds the decompressed length in bytes.
    ///
    /// # Errors
    /// The body cannot be read, or exceeds the limit.
    pub fn decode_for(
        body: &[u8],
        compressed: bool,
        sender_version: i32,
        limit: usize,
    ) -> Result<Self, BodyError> {
        if body.is_empty() {
            return Ok(Self::default());
        }
        if compressed {
            return Self::decode_compressed(body, sender_version, limit);
        }
        if sender_version >= version::V3_0_11 {
            return Self::decode(body);
        }
        let topic_config_serialize_wrapper = TopicConfigSerializeWrapper::decode(body)?;
        Ok(Self { topic_config_serialize_wrapper, ..Self::default() })
    }

    fn decode_compressed(
        body: &[u8],
        sender_version: i32,
        limit: usize,
    ) -> Result<Self, BodyError> {
        let mut text = Vec::new();
        let bound = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
        ZlibDecoder::new(body)
            .take(bound)
            .read_to_end(&mut text)
            .map_err(|error| broken(format!("zlib: {error}")))?;
        if text.len() > limit {
            return Err(broken(format!("it decompresses to more than {limit} bytes")));
        }
        let mut rest = text.as_slice();
        let data_version: DataVersion = json_part(&mut rest, "dataVersion")?;
        let mut topics = BTreeMap::new();
        for _ in 0..count(&mut rest, "topics")? {
            let topic = topic_from_text(&String::from_utf8_lossy(part(&mut rest, "topic")?))?;
            topics.insert(topic.topic_name.clone(), topic);
        }
        let filter_server_list = json_part(&mut rest, "filterServerList")?;
        let mut infos = BTreeMap::new();
        if sender_version >= version::V5_0_0 {
            for _ in 0..count(&mut rest, "mappings")? {
                let info: TopicQueueMappingInfo = json_part(&mut rest, "mapping")?;
                infos.insert(info.topic.clone(), info);
            }
        }
        Ok(Self {
            filter_server_list,
            topic_config_serialize_wrapper: TopicConfigSerializeWrapper {
                data_version,
                topic_config_table: topics,
                topic_queue_mapping_info_map: Some(infos),
                ..TopicConfigSerializeWrapper::default()
            },
        })
    }

    /// Writes the compressed form of a 5.x broker. It has no place for a topic's flags and order.
    ///
    /// # Errors
    /// The compressor fails, which it does for lack of memory only.
    pub fn encode_compressed(&self) -> std::io::Result<Bytes> {
        let wrapper = &self.topic_config_serialize_wrapper;
        let mut text = Vec::new();
        put_part(&json::to_vec(&wrapper.data_version, Style::Bare), &mut text);
        put_length(wrapper.topic_config_table.len(), &mut text);
        for topic in wrapper.topic_config_table.values() {
            put_part(topic_to_text(topic).as_bytes(), &mut text);
        }
        put_part(&json::to_vec(&self.filter_server_list, Style::Bare), &mut text);
        let infos = wrapper.topic_queue_mapping_info_map.iter().flatten();
        put_length(infos.clone().count(), &mut text);
        for (_, info) in infos {
            put_part(&json::to_vec(info, Style::Bare), &mut text);
        }
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&text)?;
        encoder.finish().map(Bytes::from)
    }
}

/// A topic as `name read write perm filterType attributes` (`TopicConfig.encode`).
fn topic_to_text(topic: &TopicConfig) -> String {
    let attributes = json::to_vec(&topic.attributes, Style::Bare);
    format!(
        "{} {} {} {} {} {}",
        topic.topic_name,
        topic.read_queue_nums,
        topic.write_queue_nums,
        topic.perm,
        topic.topic_filter_type,
        String::from_utf8_lossy(&attributes),
    )
}

/// Reads the text form; attributes are missing before 5.0 (`TopicConfig.decode`).
fn topic_from_text(text: &str) -> Result<TopicConfig, BodyError> {
    let mut words = text.splitn(6, ' ');
    let mut word = |name: &str| {
        words.next().ok_or_else(|| broken(format!("topic {text:?}: {name} is missing")))
    };
    let number = |text: &str, name: &str| {
        text.parse().map_err(|error| broken(format!("topic: {name} {text:?}: {error}")))
    };
    let mut topic = TopicConfig {
        topic_name: word("name")?.to_owned(),
        read_queue_nums: number(word("readQueueNums")?, "readQueueNums")?,
        write_queue_nums: number(word("writeQueueNums")?, "writeQueueNums")?,
        perm: number(word("perm")?, "perm")?,
        topic_filter_type: word("topicFilterType")?.to_owned(),
        ..TopicConfig::default()
    };
    if let Some(attributes) = words.next().filter(|text| !text.trim().is_empty()) {
        topic.attributes = json::from_slice(attributes.as_bytes())
            .map_err(|cause| BodyError { class: CLASS, cause })?;
    }
    Ok(topic)
}

fn put_length(length: usize, out: &mut Vec<u8>) {
    out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
}

fn put_part(part: &[u8], out: &mut Vec<u8>) {
    put_length(part.len(), out);
    out.put_slice(part);
}

fn count(rest: &mut &[u8], name: &str) -> Result<usize, BodyError> {
    let number = rest.try_get_i32().map_err(|_short| broken(format!("{name} is cut")))?;
    usize::try_from(number).map_err(|_negative| broken(format!("{name}: {number} is negative")))
}

fn part<'a>(rest: &mut &'a [u8], name: &str) -> Result<&'a [u8], BodyError> {
    let length = count(rest, name)?;
    let (head, tail) =
        rest.split_at_checked(length).ok_or_else(|| broken(format!("{name} is cut")))?;
    *rest = tail;
    Ok(head)
}

fn json_part<T: serde::de::DeserializeOwned>(rest: &mut &[u8], name: &str) -> Result<T, BodyError> {
    json::from_slice(part(rest, name)?).map_err(|cause| BodyError { class: CLASS, cause })
}
