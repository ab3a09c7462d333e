//! A delayed message on its way back to its own topic.

use std::net::SocketAddr;

use protocol::{
    message::{
        properties::{self, key},
        record::{self, MessageRecord, RecordError},
    },
    name,
};

use store::delay_level::OWN_DELAY;

use crate::{drafts, waiting};

/// Why a delayed message cannot be delivered.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RestoreError {
    /// It is no message.
    #[error("{0}")]
    Record(#[from] RecordError),
    /// It does not say where it belongs.
    #[error("property {0} is missing or wrong")]
    Property(&'static str),
    /// A half message would become visible (`ScheduleMessageService.java` drops it as well).
    #[error("it is a half message of a transaction")]
    Half,
}

/// The record for the topic and queue that the message was sent to.
pub(super) fn restore(bytes: &[u8], store_host: SocketAddr) -> Result<MessageRecord, RestoreError> {
    let record = record::decode(bytes)?;
    let mut properties = properties::decode(properties::without_crc(&record.properties));
    properties.remove(key::DELAY);
    properties.remove(OWN_DELAY);
    let (topic, queue_id) =
        waiting::take_real_place(&mut properties).map_err(RestoreError::Property)?;
    if topic == name::TRANS_HALF_TOPIC {
        return Err(RestoreError::Half);
    }
    let text = drafts::text(&topic, &properties);
    Ok(MessageRecord { topic, queue_id, ..waiting::renewed(record, text, store_host) })
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;

    fn stored(properties: &str) -> BytesMut {
        let host: SocketAddr = "127.0.0.1:10911".parse().expect("an address");
        let record = MessageRecord {
            queue_id: 2,
            flag: 7,
            queue_offset: 5,
            physical_offset: 900,
            sys_flag: 0,
            born_timestamp: 11,
            born_host: host,
            store_timestamp: 12,
            store_host: host,
            reconsume_times: 1,
            prepared_transaction_offset: 0,
            body: "body".into(),
            topic: "SCHEDULE_TOPIC_XXXX".into(),
            properties: properties.into(),
        };
        let mut bytes = BytesMut::new();
        record::encode(&record, &mut bytes).expect("short");
        bytes
    }

    #[test]
    fn topic_and_queue_are_restored_and_the_delay_is_gone() {
        let host = "127.0.0.1:1".parse().expect("an address");
        let bytes = stored(
            "REAL_TOPIC\u{1}T\u{2}REAL_QID\u{1}3\u{2}DELAY\u{1}3\u{2}LEDGERMQ_DELAY_MS\u{1}10\u{2}KEYS\u{1}k\u{2}",
        );
        let record = restore(&bytes, host).expect("sound");
        assert_eq!((record.topic.as_str(), record.queue_id), ("T", 3));
        assert_eq!(record.properties, "KEYS\u{1}k\u{2}");
        assert_eq!((record.flag, record.reconsume_times, record.born_timestamp), (7, 1, 11));
        assert_eq!(record.store_host, host);
    }

    #[test]
    fn what_has_no_place_is_named() {
        let host = "127.0.0.1:1".parse().expect("an address");
        let of = |text: &str| restore(&stored(text), host).expect_err(text);
        assert_eq!(of("REAL_QID\u{1}3\u{2}"), RestoreError::Property(key::REAL_TOPIC));
        assert_eq!(
            of("REAL_TOPIC\u{1}T\u{2}REAL_QID\u{1}-1\u{2}"),
            RestoreError::Property(key::REAL_QID)
        );
        assert_eq!(
            of("REAL_TOPIC\u{1}RMQ_SYS_TRANS_HALF_TOPIC\u{2}REAL_QID\u{1}0\u{2}"),
            RestoreError::Half
        );
    }
}
