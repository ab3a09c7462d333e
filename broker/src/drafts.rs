//! Messages on their way into the log: what sends, send-backs and the delay service share.

use std::{cell::Cell, net::SocketAddr};

use bytes::{BufMut, Bytes, BytesMut};
use protocol::message::{
    properties::{self, MAX_LENGTH, Properties, key},
    record::{self, MessageRecord, RecordError},
    sys_flag::{TRANSACTION_COMMIT, TRANSACTION_NOT, transaction_type},
};
use store::{
    append_log::{Batch, HEADROOM},
    delay_level::OWN_DELAY,
    light,
};

use crate::{config::DelayLevels, timer, topics::SCHEDULE_TOPIC, transaction};

/// The longest record that a producer may send: an entry of the log holds 4 MiB with its header,
/// and a message that is given back must still fit with what that adds to it: RETRY_TOPIC,
/// ORIGIN_MESSAGE_ID, REAL_TOPIC, REAL_QID, DELAY and a longer topic.
pub(crate) const LONGEST_SENT: usize = (4 << 20) - HEADROOM - 1024;

/// What a broker adds to a message and the message may go without, from the least needed on.
const MAY_MISS: [&str; 6] = [
    key::ORIGIN_MESSAGE_ID,
    key::FIRST_POP_TIME,
    key::MSG_REGION,
    key::TRACE_ON,
    key::CLUSTER,
    key::ORIGIN_GROUP,
];

/// Bytes that properties get at most where [`schedule`] puts off a message that goes into `topic`.
pub(crate) fn growth_by_schedule(topic: &str) -> usize {
    /// Names, a level, the number of a queue, and what separates them.
    const BESIDE_TOPIC: usize = 64;
    topic.len() + BESIDE_TOPIC
}

/// Whether the properties of a message that comes again fit into a record with `growth` bytes more.
/// What the message may go without is taken out for that, as far as it is needed and helps: Java fails
/// here, and its consumer tries for ever.
pub(crate) fn fit(properties: &mut Properties, growth: usize) -> bool {
    let bytes = |name: &str| properties.get(name).map(|value| name.len() + value.len() + 2);
    let spare: usize = MAY_MISS.into_iter().filter_map(bytes).sum();
    let too_long = |properties: &Properties| properties.encoded_len() + growth > MAX_LENGTH;
    if properties.encoded_len() + growth > MAX_LENGTH + spare {
        return false;
    }
    for name in MAY_MISS {
        if too_long(properties) {
            properties.remove(name);
        }
    }
    true
}

/// Makes the properties of a message fit that goes to its dead letters, from where nothing brings it
/// back by itself.
pub(crate) fn fit_dead_letter(properties: &mut Properties) {
    if !fit(properties, 0) {
        properties.remove(key::RETRY_TOPIC);
        fit(properties, 0);
    }
}

/// Whether a message has the flag of a half message, or of one that was rolled back, without being
/// one: Java stores it where nobody ever sees it.
pub(crate) fn is_lost(properties: &Properties, sys_flag: i32, is_retry: bool) -> bool {
    let kind = transaction_type(sys_flag);
    let visible = kind == TRANSACTION_NOT || kind == TRANSACTION_COMMIT;
    !visible && !transaction::is_half(properties, is_retry)
}

/// A message that the broker at `host` makes itself, at `now`, for queue 0 of a topic.
pub(crate) fn of_broker(topic: &str, body: Bytes, host: SocketAddr, now: i64) -> MessageRecord {
    MessageRecord {
        queue_id: 0,
        flag: 0,
        queue_offset: 0,
        physical_offset: 0,
        sys_flag: 0,
        born_timestamp: now,
        born_host: host,
        store_timestamp: now,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        topic: topic.to_owned(),
        properties: String::new(),
    }
}

/// The text of properties for a message that goes into `topic`: with room for its offsets in the
/// further queues that it names.
pub(crate) fn text(topic: &str, properties: &Properties) -> String {
    let mut text = properties::encode(properties);
    if properties.contains(key::INNER_MULTI_DISPATCH) && light::is_dispatched(topic) {
        let queues = light::names(&text).len();
        if queues > 0 {
            text.push_str(&light::room(queues));
        }
    }
    text
}

/// Takes a message out of its topic until the delay of `level` is over
/// (`HookUtils.transformDelayLevelMessage`). The level is from 1 on; one above the highest counts
/// as the highest. How long it waits stands with it where there is room, so that it is due at the same
/// time on each member, whatever its table, and whenever it derives the queue.
pub(crate) fn schedule(
    record: &mut MessageRecord,
    properties: &mut Properties,
    level: i32,
    levels: &DelayLevels,
) {
    let highest = i32::try_from(levels.highest()).unwrap_or(i32::MAX);
    let level = level.clamp(1, highest.max(1));
    timer::forget_requests(properties);
    properties.insert(key::DELAY, level.to_string());
    properties.insert(key::REAL_TOPIC, std::mem::take(&mut record.topic));
    properties.insert(key::REAL_QID, record.queue_id.to_string());
    properties.remove(OWN_DELAY);
    let delay = levels.delay_millis(level.unsigned_abs()).to_string();
    if properties.encoded_len() + OWN_DELAY.len() + delay.len() + 2 <= MAX_LENGTH {
        properties.insert(OWN_DELAY, delay);
    }
    record.topic = SCHEDULE_TOPIC.to_owned();
    record.queue_id = level - 1;
}

/// Bytes that short records of one thread share, one behind another.
const SHARED: usize = 32 << 10;

/// The longest batch, with headroom, that shares memory with others.
pub(crate) const SHARES: usize = SHARED / 8;

thread_local! {
    /// Where the next short record goes. It lives until the last record in it is forgotten; records
    /// come and leave in the order of the log, so that little of it outlives its use.
    static SHARED_ROOM: Cell<BytesMut> = Cell::default();
}

/// Finished records with room for the log's headers.
pub(crate) fn batch<T>(records: &[MessageRecord], token: T) -> Result<Batch<T>, RecordError> {
    let bytes = records.iter().map(|record| record.encoded_len() + HEADROOM).sum();
    let shares = bytes <= SHARES;
    let mut buffer = if shares { SHARED_ROOM.take() } else { BytesMut::new() };
    if buffer.capacity() < bytes {
        buffer = BytesMut::with_capacity(if shares { SHARED } else { bytes });
    }
    let mut lengths = Vec::with_capacity(records.len());
    for one in records {
        buffer.put_bytes(0, HEADROOM);
        let length = record::encode(one, &mut buffer)?;
        lengths.push(u32::try_from(length).unwrap_or(u32::MAX));
    }
    if shares {
        let own = buffer.split();
        SHARED_ROOM.set(std::mem::replace(&mut buffer, own));
    }
    Ok(Batch { buffer, lengths, token })
}

/// Properties without those that only the way of a message into the broker needs: WAIT is between
/// the producer and its broker, a receipt handle belongs to one delivery, and offsets in further
/// queues to one record.
pub(crate) fn own(text: Option<&str>) -> Properties {
    let mut properties = properties::decode(text.unwrap_or_default());
    properties.remove(key::WAIT);
    properties.remove(key::POP_CK);
    properties.remove(key::INNER_MULTI_QUEUE_OFFSET);
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
        assert_eq!(properties.get(OWN_DELAY), Some("7200000"));
    }

    #[test]
    fn a_message_without_room_for_its_delay_is_put_off_without_it() {
        let levels = BrokerConfig::default().message_delay_level;
        let with = |length: usize| {
            let mut properties = Properties::new();
            properties.insert(OWN_DELAY, "1");
            properties.insert("p", "x".repeat(length));
            schedule(&mut record(), &mut properties, 1, &levels);
            let told = properties.get(OWN_DELAY).map(str::to_owned);
            (told, properties.encoded_len())
        };
        let (told, length) = with(1);
        assert_eq!(told.as_deref(), Some("1000"), "what a producer says does not count");
        let longest = 1 + MAX_LENGTH - length;
        assert_eq!(with(longest), (Some("1000".to_owned()), MAX_LENGTH));
        assert_eq!(with(longest + 1).0, None);
    }

    #[test]
    fn what_comes_again_goes_without_what_it_may_miss() {
        let filled = |length: usize| {
            let mut properties = properties::decode(
                "CLUSTER\u{1}c\u{2}ORIGIN_MESSAGE_ID\u{1}id\u{2}RETRY_TOPIC\u{1}T\u{2}",
            );
            let left = length - properties.encoded_len() - "p".len() - 2;
            properties.insert("p", "x".repeat(left));
            properties
        };
        let kept = |properties: &Properties| {
            ["CLUSTER", "ORIGIN_MESSAGE_ID", "RETRY_TOPIC", "p"]
                .map(|name| properties.contains(name))
        };
        for (length, growth, fits, names) in [
            (MAX_LENGTH, 0, true, [true; 4]),
            (MAX_LENGTH - 50, 50, true, [true; 4]),
            (MAX_LENGTH, 1, true, [true, false, true, true]),
            (MAX_LENGTH, 22, true, [false, false, true, true]),
            (MAX_LENGTH, 32, false, [true; 4]),
        ] {
            let mut properties = filled(length);
            assert_eq!(fit(&mut properties, growth), fits, "{length} {growth}");
            assert_eq!(kept(&properties), names, "{length} {growth}");
        }
        let mut properties = filled(MAX_LENGTH + 40);
        fit_dead_letter(&mut properties);
        assert_eq!(kept(&properties), [false, false, false, true]);
    }

    #[test]
    fn what_nobody_would_see_is_told() {
        let of = |text: &str| properties::decode(text);
        assert!(!is_lost(&of("TRAN_MSG\u{1}true"), 4, false));
        assert!(is_lost(&of("TRAN_MSG\u{1}true"), 4, true));
        assert!(is_lost(&of(""), 4, false) && is_lost(&of(""), 12, false));
        assert!(!is_lost(&of(""), 8, false) && !is_lost(&of(""), 0, false));
    }

    #[test]
    fn a_message_has_room_for_its_offsets_in_further_queues() {
        let named =
            properties::decode("INNER_MULTI_DISPATCH\u{1}%LMQ%a,%LMQ%b\u{2}KEYS\u{1}k\u{2}");
        let room = light::room(2);
        assert_eq!(text("T", &named), format!("{}{room}", properties::encode(&named)));
        assert_eq!(text("%RETRY%g", &named), properties::encode(&named));
        assert_eq!(own(Some(&text("T", &named))), named, "a copy gets offsets of its own");
    }

    #[test]
    fn short_records_share_memory_and_long_ones_have_their_own() {
        let of = |body: usize, topic: &str| {
            let topic = topic.to_owned();
            let record = MessageRecord { body: vec![b'b'; body].into(), topic, ..record() };
            batch(&[record], ()).map(|batch| batch.buffer)
        };
        let (mut before, mut joined) = (of(1000, "T").expect("short"), 0);
        for _ in 0..2 * SHARED / 1000 {
            let next = of(1000, "T").expect("short");
            let last = before.as_ptr_range().end;
            joined += usize::from(last == next.as_ptr());
            assert_eq!(record::decode(&next[HEADROOM..]).expect("a record").body.len(), 1000);
            before = next;
        }
        assert!(joined > SHARED / 1000, "{joined}");
        let (long, topic) = (of(2 * SHARED, "T").expect("long"), "t".repeat(40_000));
        assert_eq!(long.len(), before.len() + 2 * SHARED - 1000);
        of(10, &topic).expect_err("a topic has at most 32,767 bytes");
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
