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
    (topic, queue): (String, i32),
    host: SocketAddr,
) -> Result<MessageRecord, RecordError> {
    let message = record::decode(bytes)?;
    let before = properties::without_crc(&message.properties).to_owned();
    let mut own = drafts::own(Some(before.as_str()));
    if message.reconsume_times == 0 || !own.contains(key::FIRST_POP_TIME) {
        own.insert(key::FIRST_POP_TIME, key.pop_time.to_string());
    }
    own.insert(key::ORIGIN_GROUP, &key.group);
    // Where there is no room the message comes as it was: it must come.
    let text = if drafts::fit(&mut own, 0) { drafts::text(&topic, &own) } else { before };
    Ok(MessageRecord {
        topic,
        queue_id: queue,
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

    /// Java's text has no separator at its end, so that ours is a byte longer.
    #[test]
    fn a_message_without_room_for_anything_comes_as_it_was() {
        let host: SocketAddr = "127.0.0.1:1".parse().expect("an address");
        let text = |rest: &str| {
            format!("{rest}p\u{1}{}", "x".repeat(properties::MAX_LENGTH - rest.len() - 2))
        };
        for (rest, kept) in [("", false), ("CLUSTER\u{1}DefaultCluster-of-many\u{2}", true)] {
            let mut sent = drafts::of_broker("T", "body".into(), host, 5);
            sent.properties = text(rest);
            let mut bytes = BytesMut::new();
            record::encode(&sent, &mut bytes).expect("it fits");
            let topic = (of_t(), 2);
            let again = record(&bytes, &key("T"), topic, host).expect("a record");
            assert_eq!((again.queue_id, again.reconsume_times), (2, 1));
            record::encode(&again, &mut bytes).expect("it fits");
            let read = properties::decode(&again.properties);
            assert_eq!(read.get("p"), properties::decode(&sent.properties).get("p"));
            assert_eq!(read.contains(key::ORIGIN_GROUP), kept, "{rest:?}");
        }
    }

    fn of_t() -> String {
        topic(&key("T"), names::Form::V1)
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
            again = record(&bytes, &key(topic), (of(topic), 0), host).expect("a record");
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
