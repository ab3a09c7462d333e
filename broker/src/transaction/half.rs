//! Half messages: how a message waits for the end of its transaction, and what it becomes then
//! (`TransactionalMessageBridge.java`, `EndTransactionProcessor.java`).

use std::{net::SocketAddr, time::Duration};

use protocol::{
    message::{
        properties::{self, MAX_LENGTH, Properties, key},
        record::{self, MessageRecord, RecordError},
        sys_flag::{TRANSACTION_COMMIT, TRANSACTION_NOT, with_transaction_type},
    },
    name,
};

use crate::waiting;

/// A half message as it lies in the half topic.
#[derive(Debug, Clone)]
pub(crate) struct Half {
    record: MessageRecord,
    properties: Properties,
}

/// Bytes that the properties of a half message may grow by until its transaction ends.
pub(crate) const GROWTH: usize = 512;

/// Bytes that the properties get when it is put again.
const ROOM: usize = 128;

/// Why a record cannot be taken for a half message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HalfError {
    /// It is no message.
    #[error("{0}")]
    Record(#[from] RecordError),
    /// It lies in another topic.
    #[error("the message is in topic {0}")]
    Topic(String),
    /// It does not say what it needs to say.
    #[error("property {0} is missing or wrong")]
    Property(&'static str),
}

/// Whether a message is to be a half message. One that a consumer gave back may still carry the
/// property and is none any more (`SendMessageProcessor.sendMessage`).
pub(crate) fn is_half(properties: &Properties, is_retry: bool) -> bool {
    let marked = properties.get(key::TRAN_MSG);
    !is_retry && marked.is_some_and(|text| text.eq_ignore_ascii_case("true"))
}

/// Takes a message out of its topic until its transaction ends.
pub(crate) fn prepare(record: &mut MessageRecord, properties: &mut Properties) {
    if let Some(unique) = properties.get(key::UNIQ_KEY).map(str::to_owned) {
        properties.insert(key::TRANSACTION_ID, unique);
    }
    // Only the broker says which half messages belong together.
    properties.remove(key::TRAN_PREPARED_QUEUE_OFFSET);
    properties.remove(key::TRANSACTION_CHECK_TIMES);
    properties.insert(key::REAL_TOPIC, std::mem::take(&mut record.topic));
    properties.insert(key::REAL_QID, record.queue_id.to_string());
    record.topic = name::TRANS_HALF_TOPIC.to_owned();
    record.queue_id = 0;
    record.sys_flag = with_transaction_type(record.sys_flag, TRANSACTION_NOT);
}

impl Half {
    /// Reads a record of the half topic.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, HalfError> {
        let half = Self::of(record::decode(bytes)?);
        if half.record.topic != name::TRANS_HALF_TOPIC {
            return Err(HalfError::Topic(half.record.topic));
        }
        half.real_place()?;
        Ok(half)
    }

    fn of(record: MessageRecord) -> Self {
        let properties = properties::decode(properties::without_crc(&record.properties));
        Self { record, properties }
    }

    /// Its offset in the half topic.
    pub(crate) fn offset(&self) -> u64 {
        self.record.queue_offset.cast_unsigned()
    }

    /// Its record.
    pub(crate) fn record(&self) -> &MessageRecord {
        &self.record
    }

    /// Offset of the half message that the producer sent: one that was put again names it, and it
    /// stands for the transaction.
    pub(crate) fn origin(&self) -> u64 {
        let said = self.property(key::TRAN_PREPARED_QUEUE_OFFSET);
        said.and_then(|text| text.parse().ok()).unwrap_or_else(|| self.offset())
    }

    /// Group of the producers that know how the transaction ended.
    pub(crate) fn group(&self) -> &str {
        self.property(key::PGROUP).unwrap_or_default()
    }

    /// The client's id of the message.
    pub(crate) fn unique_key(&self) -> Option<&str> {
        self.property(key::UNIQ_KEY)
    }

    /// How often its producers were asked.
    pub(crate) fn checks(&self) -> u32 {
        let said = self.property(key::TRANSACTION_CHECK_TIMES);
        said.and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// How long its producer wants not to be asked; `None` where it says nothing. Text that is no
    /// number of seconds stands for `unsaid`, as in Java.
    pub(crate) fn immunity(&self, unsaid: Duration) -> Option<Duration> {
        let text = self.property(key::CHECK_IMMUNITY_TIME_IN_SECONDS)?;
        let said: i64 = text.parse().unwrap_or(-1);
        Some(u64::try_from(said).map_or(unsaid, Duration::from_secs))
    }

    /// Whether its properties have room to be put again.
    pub(crate) fn is_renewable(&self) -> bool {
        self.properties.encoded_len() + ROOM <= MAX_LENGTH
    }

    /// Topic and queue that the message was sent to.
    pub(crate) fn real_place(&self) -> Result<(&str, i32), HalfError> {
        waiting::real_place(&self.properties).map_err(HalfError::Property)
    }

    /// The message for its own topic, and its properties, which are not yet in the record.
    pub(crate) fn committed(
        &self,
        host: SocketAddr,
    ) -> Result<(MessageRecord, Properties), HalfError> {
        let (topic, queue_id) = self.real_place()?;
        let mut properties = self.properties.clone();
        for gone in [key::REAL_TOPIC, key::REAL_QID, key::TRAN_PREPARED_QUEUE_OFFSET] {
            properties.remove(gone);
        }
        let record = MessageRecord {
            topic: topic.to_owned(),
            queue_id,
            queue_offset: 0,
            physical_offset: 0,
            sys_flag: with_transaction_type(self.record.sys_flag, TRANSACTION_COMMIT),
            prepared_transaction_offset: self.record.physical_offset,
            store_host: host,
            ..self.record.clone()
        };
        Ok((record, properties))
    }

    /// The half message once more, for the end of the half topic. `asked` counts one more question
    /// to its producers.
    pub(crate) fn renewed(&self, asked: bool, host: SocketAddr) -> MessageRecord {
        let mut properties = self.properties.clone();
        properties.insert(key::TRAN_PREPARED_QUEUE_OFFSET, self.origin().to_string());
        if asked {
            let checks = self.checks().saturating_add(1);
            properties.insert(key::TRANSACTION_CHECK_TIMES, checks.to_string());
        }
        self.moved(name::TRANS_HALF_TOPIC, &properties, host)
    }

    /// The message for those that nobody could tell the end of.
    pub(crate) fn given_up(&self, host: SocketAddr) -> MessageRecord {
        self.moved(name::TRANS_CHECK_MAX_TIME_TOPIC, &self.properties, host)
    }

    /// The half message of a new transaction, of a message that was given up.
    pub(crate) fn resumed(bytes: &[u8], host: SocketAddr) -> Result<MessageRecord, HalfError> {
        let half = Self::of(record::decode(bytes)?);
        if half.record.topic != name::TRANS_CHECK_MAX_TIME_TOPIC {
            return Err(HalfError::Topic(half.record.topic));
        }
        half.real_place()?;
        let mut properties = half.properties.clone();
        properties.insert(key::TRANSACTION_CHECK_TIMES, "0");
        properties.remove(key::TRAN_PREPARED_QUEUE_OFFSET);
        Ok(half.moved(name::TRANS_HALF_TOPIC, &properties, host))
    }

    /// The record that goes with a question to a producer: as the message was sent, where the half
    /// message is.
    pub(crate) fn question(&self) -> Result<MessageRecord, HalfError> {
        let (topic, queue_id) = self.real_place()?;
        Ok(MessageRecord { topic: topic.to_owned(), queue_id, ..self.record.clone() })
    }

    fn moved(&self, topic: &str, properties: &Properties, host: SocketAddr) -> MessageRecord {
        let again = waiting::renewed(self.record.clone(), properties::encode(properties), host);
        MessageRecord { topic: topic.to_owned(), queue_id: 0, ..again }
    }

    fn property(&self, name: &str) -> Option<&str> {
        self.properties.get(name)
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;

    fn host() -> SocketAddr {
        "127.0.0.1:10911".parse().expect("an address")
    }

    fn sent() -> (MessageRecord, Properties) {
        let record = MessageRecord {
            queue_id: 3,
            flag: 7,
            queue_offset: 0,
            physical_offset: 0,
            sys_flag: 5,
            born_timestamp: 11,
            born_host: host(),
            store_timestamp: 0,
            store_host: host(),
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: "b".into(),
            topic: "T".into(),
            properties: String::new(),
        };
        let text = "TRAN_MSG\u{1}true\u{2}PGROUP\u{1}P\u{2}UNIQ_KEY\u{1}U\u{2}";
        (record, properties::decode(text))
    }

    fn stored(mut record: MessageRecord, offset: i64, physical: i64) -> Half {
        (record.queue_offset, record.physical_offset) = (offset, physical);
        let mut bytes = BytesMut::new();
        record::encode(&record, &mut bytes).expect("short");
        Half::read(&bytes).expect("a half message")
    }

    fn half() -> Half {
        let (mut record, mut properties) = sent();
        prepare(&mut record, &mut properties);
        record.properties = properties::encode(&properties);
        stored(record, 4, 900)
    }

    #[test]
    fn a_half_message_remembers_where_it_belongs() {
        let half = half();
        assert_eq!(half.record().sys_flag, 1, "it enters the queue of the half topic");
        assert_eq!(half.real_place(), Ok(("T", 3)));
        assert_eq!((half.group(), half.unique_key()), ("P", Some("U")));
        assert_eq!((half.origin(), half.checks()), (4, 0));
        assert_eq!(half.property(key::TRANSACTION_ID), Some("U"));
    }

    #[test]
    fn a_committed_message_is_the_one_that_was_sent() {
        let (record, properties) = half().committed(host()).expect("a place");
        assert_eq!((record.topic.as_str(), record.queue_id, record.sys_flag), ("T", 3, 9));
        assert_eq!(record.prepared_transaction_offset, 900);
        assert_eq!((record.flag, record.born_timestamp), (7, 11));
        assert_eq!(properties.get(key::TRAN_MSG), Some("true"), "as Java leaves it");
        assert_eq!(properties.get(key::REAL_TOPIC), None);
    }

    #[test]
    fn one_that_is_put_again_stands_for_the_same_transaction() {
        let first = stored(half().renewed(true, host()), 9, 2000);
        assert_eq!((first.origin(), first.offset(), first.checks()), (4, 9, 1));
        let second = stored(first.renewed(false, host()), 12, 3000);
        assert_eq!((second.origin(), second.checks()), (4, 1));
        let question = second.question().expect("a place");
        assert_eq!((question.topic.as_str(), question.queue_offset), ("T", 12));
    }

    #[test]
    fn a_message_that_was_given_up_begins_anew() {
        let mut bytes = BytesMut::new();
        let asked = stored(half().renewed(true, host()), 9, 2000);
        record::encode(&asked.given_up(host()), &mut bytes).expect("short");
        assert!(matches!(Half::read(&bytes), Err(HalfError::Topic(_))));
        let again = stored(Half::resumed(&bytes, host()).expect("given up"), 20, 5000);
        assert_eq!((again.origin(), again.checks()), (20, 0));
        record::encode(again.record(), &mut bytes).expect("short");
        let whole = bytes.split_off(bytes.len() - again.record().encoded_len());
        assert!(matches!(Half::resumed(&whole, host()), Err(HalfError::Topic(_))));
    }

    #[test]
    fn immunity_is_what_the_producer_says() {
        let with = |text: &str| {
            let mut half = half();
            half.properties.insert(key::CHECK_IMMUNITY_TIME_IN_SECONDS, text);
            half.immunity(Duration::from_secs(6))
        };
        assert_eq!(half().immunity(Duration::from_secs(6)), None);
        assert_eq!(with("90"), Some(Duration::from_secs(90)));
        assert_eq!(with("x"), Some(Duration::from_secs(6)));
        assert_eq!(with("-1"), Some(Duration::from_secs(6)));
    }

    #[test]
    fn a_retried_message_is_no_half_message() {
        let (_, properties) = sent();
        assert!(is_half(&properties, false));
        assert!(!is_half(&properties, true));
        assert!(!is_half(&properties::decode("TRAN_MSG\u{1}false"), false));
    }
}
