//! 370: a producer takes back a timer message (`RecallMessageProcessor.java`).

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::URL_SAFE};
use bytes::Bytes;
use protocol::{
    code::response,
    header::{RecallMessageRequest, RecallMessageResponse},
    message::{
        properties::{self, Properties, key},
        record::MessageRecord,
        sys_flag::perm,
    },
};

use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    clock, drafts,
    pending::settled,
    reply, timer,
};

/// The longest handle: topic, broker name and unique key with room to spare.
const MAX_HANDLE: usize = 2_048;
/// The first word of a handle.
const VERSION: &str = "v1";
/// Tag of the message that takes another back.
const TAG: &str = "_RECALL_TAG_";

/// What a producer gets for a timer message, and gives back to have it taken back
/// (`RecallMessageHandle.java`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handle {
    /// Topic as the producer named it.
    pub(crate) topic: String,
    /// The broker that keeps it.
    pub(crate) broker: String,
    /// When it is due: a millisecond behind TIMER_OUT_MS, which is rounded down.
    pub(crate) deliver: i64,
    /// UNIQ_KEY of the message.
    pub(crate) unique_key: String,
}

impl Handle {
    /// The handle of a message with these properties, where it waits in the timer topic.
    pub(crate) fn of(properties: &Properties, broker: &str) -> Option<Self> {
        let out: i64 = properties.get(key::TIMER_OUT_MS)?.parse().ok()?;
        Some(Self {
            topic: properties.get(key::REAL_TOPIC)?.to_owned(),
            broker: broker.to_owned(),
            deliver: out.saturating_add(1),
            unique_key: properties.get(key::UNIQ_KEY)?.to_owned(),
        })
    }

    /// Its text.
    pub(crate) fn encode(&self) -> String {
        let Self { topic, broker, deliver, unique_key } = self;
        URL_SAFE.encode(format!("{VERSION} {topic} {broker} {deliver} {unique_key}"))
    }

    /// Reads the text; `None` where it is none.
    fn decode(text: &str) -> Option<Self> {
        if text.len() > MAX_HANDLE {
            return None;
        }
        let bytes = URL_SAFE.decode(text).ok()?;
        let plain = String::from_utf8(bytes).ok()?;
        let words: Vec<&str> = plain.split(' ').collect();
        let [VERSION, topic, broker, deliver, unique_key] = words[..] else { return None };
        Some(Self {
            topic: topic.to_owned(),
            broker: broker.to_owned(),
            deliver: deliver.parse().unwrap_or(-1),
            unique_key: unique_key.to_owned(),
        })
    }
}

/// Stores a message that takes another back; answered when it is committed.
pub(crate) fn recall(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let region = broker.config().region_id.clone();
    serve(broker, call).map_err(|rejection| rejection.with_field(key::MSG_REGION, region))
}

fn serve(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let request: RecallMessageRequest = call.header()?;
    let handle = check(broker, &request)?;
    let config = broker.config();
    let now = clock::now_millis();
    let mut properties = Properties::new();
    properties.insert(key::TAGS, TAG);
    let named = timer::name_to_take_back(&handle.topic, &handle.unique_key);
    properties.insert(key::TIMER_DEL_UNIQKEY, named);
    properties.insert(key::UNIQ_KEY, &handle.unique_key);
    properties.insert(key::TIMER_DELIVER_MS, handle.deliver.to_string());
    if let Some(group) = request.producer_group.as_deref().filter(|group| !group.is_empty()) {
        properties.insert(key::PGROUP, group);
    }
    let body = Bytes::from_static(b"0");
    let mut record = MessageRecord {
        born_host: call.client,
        store_timestamp: 0,
        ..drafts::of_broker(&handle.topic, body, broker.store_host(), now)
    };
    timer::hold_back(&mut record, &mut properties, &config, now)?;
    record.properties = properties::encode(&properties);
    let committed = broker.submit_inside(&[record])?;
    let (region, msg_id) = (config.region_id.clone(), handle.unique_key);
    call.answer_with(async move {
        settled(committed.await, "recall failed, the log has stopped; recall the message again")?;
        Ok(reply::answer(response::SUCCESS)
            .with_header(&RecallMessageResponse { msg_id })
            .with_field(key::MSG_REGION, region))
    })
}

fn check(broker: &Broker, request: &RecallMessageRequest) -> Result<Handle, Rejection> {
    let config = broker.config();
    let fail = |code: i32, what: &str| Rejection::new(code, format!("recall failed, {what}"));
    if !config.recall_message_enable {
        let what = "recallMessageEnable is false at this broker";
        return Err(fail(response::NO_PERMISSION, what));
    }
    if config.broker_permission & perm::WRITE == 0 {
        return Err(fail(response::SERVICE_NOT_AVAILABLE, "broker service not available"));
    }
    let topic = &request.topic;
    if broker.topics.get(topic).is_none() {
        return Err(fail(response::TOPIC_NOT_EXIST, &format!("the topic[{topic}] not exist")));
    }
    let illegal = |what: &str| fail(response::ILLEGAL_OPERATION, what);
    let handle = Handle::decode(&request.recall_handle)
        .ok_or_else(|| illegal("recall handle is invalid"))?;
    if handle.topic != *topic {
        return Err(illegal("topic not match"));
    }
    if handle.broker != config.broker_name {
        return Err(illegal("broker service not available: the handle is of another broker"));
    }
    let left = handle.deliver.saturating_sub(clock::now_millis());
    if left <= 0 || left >= i64::from(config.timer_max_delay_sec) * 1_000 {
        return Err(illegal("timestamp invalid"));
    }
    Ok(handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_javas_text() {
        let handle = Handle {
            topic: "T".to_owned(),
            broker: "broker-a".to_owned(),
            deliver: 1_700_000_000_001,
            unique_key: "7F00000100002A139A5500000000".to_owned(),
        };
        let text = handle.encode();
        assert_eq!(
            text,
            "djEgVCBicm9rZXItYSAxNzAwMDAwMDAwMDAxIDdGMDAwMDAxMDAwMDJBMTM5QTU1MDAwMDAwMDA="
        );
        assert_eq!(Handle::decode(&text), Some(handle));
    }

    #[test]
    fn what_is_no_handle_is_none() {
        for plain in ["", "v1", "v1 T b 5", "v2 T b 5 k", "v1 T b 5 k more"] {
            assert_eq!(Handle::decode(&URL_SAFE.encode(plain)), None, "{plain}");
        }
        assert_eq!(Handle::decode("no base64!"), None);
        assert_eq!(Handle::decode(&URL_SAFE.encode([0xFF, 0xFE])), None);
        assert_eq!(Handle::decode(&"A".repeat(1 << 20)), None);
        let late = Handle::decode(&URL_SAFE.encode("v1 T b soon k")).expect("five words");
        assert_eq!(late.deliver, -1, "past");
    }
}
