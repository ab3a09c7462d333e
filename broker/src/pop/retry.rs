//! A message that was not finished in time, for the retry topic of its group
//! (`PopReviveService.reviveRetry`).

use std::net::SocketAddr;

use protocol::message::{
    properties::{self, key},
    record::{self, MessageRecord, RecordError},
};

use super::{names, point::Key};
use crate::{drafts, waiting};

/// The topic that unfinished messages of a check point go to: those of a retry topic stay there.
pub(super) fn topic(key: &Key, form: names::Form) -> String {
    if names::normal_topic(&key.topic, &key.group) != key.topic {
        return key.topic.clone();
    }
    names::retry_topic(&key.topic, &key.group, form)
}

/// The record of the message once more.
pub(super) fn record(
    bytes: &[u8],
    key: &Key,
    topic: String,
    host: SocketAddr,
) -> Result<MessageRecord, RecordError> {
    let message = record::decode(bytes)?;
    let mut own = drafts::own(Some(properties::without_crc(&message.properties)));
    if message.reconsume_times == 0 || !own.contains(key::FIRST_POP_TIME) {
        own.insert(key::FIRST_POP_TIME, key.pop_time.to_string());
    }
    own.insert(key::ORIGIN_GROUP, &key.group);
    let text = drafts::text(&topic, &own);
    Ok(MessageRecord {
        topic,
        queue_id: 0,
        reconsume_times: message.reconsume_times.saturating_add(1),
        prepared_transaction_offset: 0,
        ..waiting::renewed(message, text, host)
    })
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;

    fn key(topic: &str) -> Key {
        Key {
            topic: topic.into(),
            group: "g".into(),
            queue: 3,
            start: 0,
            pop_time: 77,
            broker: "b".into(),
        }
    }

    #[test]
    fn a_message_goes_to_the_retry_topic_and_stays_there() {
        let of = |topic: &str| super::topic(&key(topic), names::Form::V2);
        assert_eq!(of("T"), "%RETRY%g+T");
        assert_eq!(of("%RETRY%g_T"), "%RETRY%g_T");
        let host: SocketAddr = "127.0.0.1:1".parse().expect("an address");
        let mut sent = drafts::of_broker("T", "body".into(), host, 5);
        (sent.queue_id, sent.properties) = (3, "KEYS\u{1}k\u{2}TAGS\u{1}a\u{2}".into());
        let mut again = sent;
        for (times, topic) in [(1, "T"), (2, "%RETRY%g+T")] {
            let mut bytes = BytesMut::new();
            record::encode(&again, &mut bytes).expect("short");
            again = record(&bytes, &key(topic), of(topic), host).expect("a record");
            assert_eq!((again.topic.as_str(), again.queue_id), ("%RETRY%g+T", 0));
            assert_eq!(again.reconsume_times, times);
            let kept = properties::decode(&again.properties);
            assert_eq!((kept.get("KEYS"), kept.get("TAGS")), (Some("k"), Some("a")));
            assert_eq!(
                (kept.get("1ST_POP_TIME"), kept.get("ORIGIN_GROUP")),
                (Some("77"), Some("g"))
            );
        }
    }
}
