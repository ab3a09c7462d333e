//! Check points and acknowledgements as records of the revive topic, in Java's form.
//!
//! Java lets them wait in its timer topic, so that they come to the revive topic in the order of
//! their times; here they are written there at once, and what waits is in memory
//! (`outstanding.rs`). Each says as its time of delivery when it was written: by that a Java broker
//! that goes on with them tells how far it has read.

use std::net::SocketAddr;

use bytes::Bytes;
use protocol::{
    body::{AckMsg, PopCheckPoint},
    message::{
        properties::{self, Properties, key},
        record::{MessageRecord, RecordView},
    },
};

use super::names::revive_topic;
use crate::{broker::Broker, drafts};

/// Tags of the records.
const POINT: &str = "ck";
const ACK: &str = "ack";
const ACKS: &str = "bAck";

/// The most messages of one check point: its bits are those of a Java int.
pub(crate) const MAX_MESSAGES: usize = 32;

/// Which pop of which queue a record is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) topic: String,
    pub(crate) group: String,
    pub(crate) queue: i32,
    /// Offset at which the pop began.
    pub(crate) start: i64,
    pub(crate) pop_time: i64,
    pub(crate) broker: String,
}

/// Where and when records are written.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    /// The revive topic.
    pub(crate) topic: String,
    /// This broker.
    pub(crate) host: SocketAddr,
    /// The time now.
    pub(crate) now: i64,
}

/// One record of the revive topic.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Messages were given to a client.
    Point(Key, PopCheckPoint),
    /// Messages are done.
    Acks(Key, Vec<i64>),
    /// Neither.
    Other,
}

impl Key {
    /// The check point of these messages, none of which is done.
    pub(crate) fn point(&self, invisible_time: i64, offsets: &[u64]) -> PopCheckPoint {
        let diff = |offset: &u64| {
            let diff = i64::try_from(*offset).unwrap_or(i64::MAX).saturating_sub(self.start);
            i32::try_from(diff).unwrap_or(i32::MAX)
        };
        PopCheckPoint {
            broker_name: Some(self.broker.clone()),
            consumer_group: Some(self.group.clone()),
            diffs: Some(offsets.iter().map(diff).collect()),
            invisible_time,
            number: i32::try_from(offsets.len()).unwrap_or(i32::MAX),
            pop_time: self.pop_time,
            queue_id: self.queue,
            start_offset: self.start,
            topic: Some(self.topic.clone()),
            ..PopCheckPoint::default()
        }
    }
}

impl Writer {
    /// That of a broker.
    pub(crate) fn of(broker: &Broker, now: i64) -> Self {
        let topic = revive_topic(&broker.config().broker_cluster_name);
        Self { topic, host: broker.store_host(), now }
    }

    /// The record of a check point.
    pub(crate) fn point(
        &self,
        revive_queue: i32,
        key: &Key,
        point: &PopCheckPoint,
    ) -> MessageRecord {
        let Key { topic, group, queue, start, pop_time, broker } = key;
        let id = format!("{topic}@{queue}@{start}@{group}@{pop_time}@{broker}@{POINT}");
        self.record(revive_queue, POINT, &id, point.encode())
    }

    /// The record that messages of a check point are done.
    pub(crate) fn acks(&self, revive_queue: i32, key: &Key, offsets: &[i64]) -> MessageRecord {
        let Key { topic, group, queue, start, pop_time, broker } = key;
        let one = match offsets {
            [one] => Some(*one),
            _ => None,
        };
        let ack = AckMsg {
            ack_offset: one.unwrap_or(-1),
            ack_offset_list: one.is_none().then(|| offsets.to_vec()),
            broker_name: Some(broker.clone()),
            consumer_group: group.clone(),
            pop_time: *pop_time,
            queue_id: *queue,
            start_offset: *start,
            topic: topic.clone(),
        };
        let offset = ack.ack_offset;
        let id = format!("{topic}@{queue}@{offset}@{group}@{pop_time}@{broker}@{ACK}");
        self.record(revive_queue, if one.is_some() { ACK } else { ACKS }, &id, ack.encode())
    }

    fn record(&self, queue: i32, tag: &str, id: &str, body: Bytes) -> MessageRecord {
        let mut own = Properties::new();
        own.insert(key::TAGS, tag);
        own.insert(key::UNIQ_KEY, id);
        own.insert(key::TIMER_DELIVER_MS, self.now.to_string());
        MessageRecord {
            queue_id: queue,
            properties: properties::encode(&own),
            ..drafts::of_broker(&self.topic, body, self.host, self.now)
        }
    }
}

/// Reads a record of the revive topic; `own` is the name of this broker.
pub(crate) fn read(view: &RecordView<'_>, own: &str) -> Entry {
    let tag = view.property(key::TAGS);
    match tag.as_deref() {
        Some(POINT) => read_point(view.body(), own),
        Some(ACK | ACKS) => read_acks(view.body(), own),
        _ => Entry::Other,
    }
}

/// Whether a record came by a timer, as Java writes them: its acknowledgements come later than it.
pub(crate) fn is_by_timer(view: &RecordView<'_>) -> bool {
    view.property(key::TIMER_OUT_MS).is_some()
}

fn read_point(body: &[u8], own: &str) -> Entry {
    // Java cancels a check point by a body that is none.
    let Ok(point) = PopCheckPoint::decode(body) else { return Entry::Other };
    let (Some(topic), Some(group)) = (point.topic.clone(), point.consumer_group.clone()) else {
        return Entry::Other;
    };
    let key = Key {
        topic,
        group,
        queue: point.queue_id,
        start: point.start_offset,
        pop_time: point.pop_time,
        broker: broker_of(point.broker_name.as_deref(), own),
    };
    Entry::Point(key, point)
}

fn read_acks(body: &[u8], own: &str) -> Entry {
    let Ok(ack) = AckMsg::decode(body) else { return Entry::Other };
    let key = Key {
        topic: ack.topic,
        group: ack.consumer_group,
        queue: ack.queue_id,
        start: ack.start_offset,
        pop_time: ack.pop_time,
        broker: broker_of(ack.broker_name.as_deref(), own),
    };
    Entry::Acks(key, ack.ack_offset_list.unwrap_or_else(|| vec![ack.ack_offset]))
}

fn broker_of(said: Option<&str>, own: &str) -> String {
    said.filter(|name| !name.trim().is_empty()).unwrap_or(own).to_owned()
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use protocol::message::record;

    use super::*;

    fn key() -> Key {
        Key {
            topic: "T".into(),
            group: "g".into(),
            queue: 2,
            start: 5,
            pop_time: 9,
            broker: "b".into(),
        }
    }

    fn writer() -> Writer {
        let host = "127.0.0.1:1".parse().expect("an address");
        Writer { topic: "rmq_sys_REVIVE_LOG_c".into(), host, now: 77 }
    }

    fn read_again(record: &MessageRecord) -> Entry {
        let mut bytes = BytesMut::new();
        record::encode(record, &mut bytes).expect("short");
        read(&RecordView::parse(&bytes).expect("a record"), "own")
    }

    #[test]
    fn what_is_written_is_read_again() {
        let point = key().point(60_000, &[5, 8]);
        assert_eq!((point.diffs.as_deref(), point.number), (Some(&[0, 3][..]), 2));
        let record = writer().point(3, &key(), &point);
        assert_eq!((record.topic.as_str(), record.queue_id), ("rmq_sys_REVIVE_LOG_c", 3));
        let of = |name| properties::find(&record.properties, name).map(str::to_owned);
        assert_eq!(of(key::TAGS).as_deref(), Some("ck"));
        assert_eq!(of(key::UNIQ_KEY).as_deref(), Some("T@2@5@g@9@b@ck"), "Java's id of it");
        assert_eq!(read_again(&record), Entry::Point(key(), point));
        for (offsets, tag) in [(&[8][..], "ack"), (&[5, 8][..], "bAck")] {
            let record = writer().acks(3, &key(), offsets);
            assert_eq!(properties::find(&record.properties, key::TAGS), Some(tag));
            assert_eq!(read_again(&record), Entry::Acks(key(), offsets.to_vec()));
        }
    }

    #[test]
    fn records_of_java_are_read() {
        let bodies = [
            (
                POINT,
                r#"{"bm":0,"bn":"b","c":"g","d":[0],"it":60000,"n":1,"pt":9,"q":2,"ro":0,"reviveTime":60009,"so":5,"t":"T"}"#,
            ),
            (ACK, r#"{"ao":5,"bn":"b","c":"g","pt":9,"q":2,"so":5,"t":"T"}"#),
            (
                ACKS,
                r#"{"ackOffsetList":[5],"brokerName":"b","consumerGroup":"g","popTime":9,"queueId":2,"startOffset":5,"topic":"T"}"#,
            ),
        ];
        for (tag, body) in bodies {
            let entry = read_again(&writer().record(0, tag, "id", body.into()));
            let (Entry::Point(of, _) | Entry::Acks(of, _)) = entry else { panic!("{body}") };
            assert_eq!(of, key(), "{body}");
        }
        let cancelled = writer().record(0, POINT, "id", "3-17".into());
        assert_eq!(read_again(&cancelled), Entry::Other);
        let nameless = writer().record(0, ACK, "id", r#"{"ao":5,"t":"T"}"#.into());
        let Entry::Acks(of, _) = read_again(&nameless) else { panic!("an acknowledgement") };
        assert_eq!(of.broker, "own", "as Java takes it");
    }
}
