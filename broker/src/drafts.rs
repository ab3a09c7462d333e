//! Messages on their way into the log: what sends, send-backs and the delay service share.

use bytes::BytesMut;
use protocol::message::{
    properties::{self, Properties, key},
    record::{self, MessageRecord, RecordError},
    sys_flag::{TRANSACTION_COMMIT, TRANSACTION_NOT, transaction_type},
};
use store::append_log::{Batch, HEADROOM};

use crate::{config::DelayLevels, topics::SCHEDULE_TOPIC};

/// The longest record that a producer may send: an entry of the log holds 4 MiB with its header,
/// and a message that is given back must still fit with what that adds to it: RETRY_TOPIC,
/// ORIGIN_MESSAGE_ID, REAL_TOPIC, REAL_QID, DELAY and a longer topic.
pub(crate) const LONGEST_SENT: usize = (4 << 20) - HEADROOM - 1024;

/// Features of a message that are refused, because storing it without them would be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsupported {
    /// A half message.
    Transaction,
    /// Delivery at any time.
    Timer,
    /// Light queues.
    LightQueues,
}

/// The first feature of a message that does not exist yet.
///
/// A retried message of a transaction may still carry `TRAN_MSG`; it is none any more
/// (`SendMessageProcessor.sendMessage`).
pub(crate) fn unsupported(
    properties: &Properties,
    sys_flag: i32,
    is_retry: bool,
) -> Option<Unsupported> {
    let half = properties.get(key::TRAN_MSG).is_some_and(|text| text.eq_ignore_ascii_case("true"));
    let kind = transaction_type(sys_flag);
    if (half && !is_retry) || (kind != TRANSACTION_NOT && kind != TRANSACTION_COMMIT) {
        return Some(Unsupported::Transaction);
    }
    let timer =
        [key::TIMER_DELAY_SEC, key::TIMER_DELAY_MS, key::TIMER_DELIVER_MS, key::TIMER_DEL_UNIQKEY];
    // DELAY wins where both are given, as in Java.
    if !properties.contains(key::DELAY) && timer.iter().any(|name| properties.contains(name)) {
        return Some(Unsupported::Timer);
    }
    if properties.contains(key::INNER_MULTI_DISPATCH) {
        return Some(Unsupported::LightQueues);
    }
    None
}

/// Takes a message out of its topic until the delay of `level` is over
/// (`HookUtils.transformDelayLevelMessage`). The level is from 1 on; one above the highest counts
/// as the highest.
pub(crate) fn schedule(
    record: &mut MessageRecord,
    properties: &mut Properties,
    level: i32,
    levels: &DelayLevels,
) {
    let highest = i32::try_from(levels.highest()).unwrap_or(i32::MAX);
    let level = level.clamp(1, highest.max(1));
    properties.insert(key::DELAY, level.to_string());
    properties.insert(key::REAL_TOPIC, std::mem::take(&mut record.topic));
    properties.insert(key::REAL_QID, record.queue_id.to_string());
    record.topic = SCHEDULE_TOPIC.to_owned();
    record.queue_id = level - 1;
}

/// Finished records with room for the log's headers.
pub(crate) fn batch<T>(records: &[MessageRecord], token: T) -> Result<Batch<T>, RecordError> {
    let bytes = records.iter().map(|record| record.encoded_len() + HEADROOM).sum();
    let mut buffer = BytesMut::with_capacity(bytes);
    let mut lengths = Vec::with_capacity(records.len());
    for one in records {
        buffer.resize(buffer.len() + HEADROOM, 0);
        let length = record::encode(one, &mut buffer)?;
        lengths.push(u32::try_from(length).unwrap_or(u32::MAX));
    }
    Ok(Batch { buffer, lengths, token })
}

/// Properties without those that only the way of a message into the broker needs: WAIT is between
/// the producer and its broker, and a receipt handle belongs to one delivery.
pub(crate) fn own(text: Option<&str>) -> Properties {
    let mut properties = properties::decode(text.unwrap_or_default());
    properties.remove(key::WAIT);
    properties.remove(key::POP_CK);
    properties
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::BrokerConfig;

    fn record() -> MessageRecord {
        let host = "127.0.0.1:1".parse().expect("an address");
        MessageRecord {
            queue_id: 3,
            flag: 0,
            queue_offset: 0,
            physical_offset: 0,
            sys_flag: 0,
            born_timestamp: 0,
            born_host: host,
            store_timestamp: 0,
            store_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: "b".into(),
            topic: "T".into(),
            properties: String::new(),
        }
    }

    #[test]
    fn a_delayed_message_remembers_where_it_belongs() {
        let (mut record, mut properties) = (record(), Properties::new());
        let levels = BrokerConfig::default().message_delay_level;
        schedule(&mut record, &mut properties, 99, &levels);
        assert_eq!((record.topic.as_str(), record.queue_id), (SCHEDULE_TOPIC, 17));
        assert_eq!(properties.get(key::REAL_TOPIC), Some("T"));
        assert_eq!(properties.get(key::REAL_QID), Some("3"));
        assert_eq!(properties.get(key::DELAY), Some("18"));
    }

    #[test]
    fn what_cannot_be_kept_is_not_stored() {
        let of = |text: &str| properties::decode(text);
        assert_eq!(unsupported(&of("TRAN_MSG\u{1}true"), 0, false), Some(Unsupported::Transaction));
        assert_eq!(unsupported(&of("TRAN_MSG\u{1}true"), 0, true), None);
        assert_eq!(unsupported(&of(""), 4, false), Some(Unsupported::Transaction));
        assert_eq!(unsupported(&of(""), 8, false), None);
        assert_eq!(unsupported(&of("TIMER_DELAY_MS\u{1}5"), 0, false), Some(Unsupported::Timer));
        assert_eq!(unsupported(&of("TIMER_DELAY_MS\u{1}5\u{2}DELAY\u{1}1"), 0, false), None);
        assert_eq!(
            unsupported(&of("INNER_MULTI_DISPATCH\u{1}%LMQ%a"), 0, false),
            Some(Unsupported::LightQueues)
        );
    }

    #[test]
    fn a_batch_has_headroom_before_each_record() {
        let batch = batch(&[record(), record()], ()).expect("short");
        assert_eq!(batch.lengths.len(), 2);
        let length = batch.lengths[0] as usize;
        assert_eq!(batch.buffer.len(), 2 * (length + HEADROOM));
        let second = record::decode(&batch.buffer[length + 2 * HEADROOM..]).expect("a record");
        assert_eq!(second, record());
    }
}
