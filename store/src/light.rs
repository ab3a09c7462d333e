//! Light queues: further queues in which one message is found (`MultiDispatch.java`,
//! `ConsumeQueue.multiDispatchLmqQueue`).
//!
//! A message names them in `INNER_MULTI_DISPATCH`, and its offset in each stands in
//! `INNER_MULTI_QUEUE_OFFSET`. The log's writer knows the offsets only when the record is complete,
//! so that its last property has room for them, a fixed number of digits each; Java reads the zeros
//! in front as well. Records that a Java broker wrote have the property anywhere and in any length.

use std::ops::Range;

use protocol::{
    message::properties::{self, key},
    name,
};

use crate::record::{Record, names_directory};

/// Between two queues, and between two offsets (`MixAll.MULTI_DISPATCH_QUEUE_SPLITTER`).
pub const SEPARATOR: char = ',';

/// Digits of one offset: those of the largest one.
const DIGITS: usize = 19;

/// The name of the property with its separator.
const NAME: &[u8] = b"INNER_MULTI_QUEUE_OFFSET\x01";

/// What stands behind each property.
const END: u8 = 2;

/// Topics whose messages are on their way, or are no messages of clients: what they name as further
/// queues does not count there (`MultiDispatchUtils.isNeedHandleMultiDispatch`).
const NOT_DISPATCHED: [&str; 3] =
    [name::SCHEDULE_TOPIC, name::TRANS_HALF_TOPIC, name::TRANS_OP_HALF_TOPIC];

/// Whether messages of a topic enter the light queues that they name.
#[must_use]
pub fn is_dispatched(topic: &str) -> bool {
    !NOT_DISPATCHED.contains(&topic)
        && !topic.starts_with(name::RETRY_PREFIX)
        && !topic.starts_with(name::DLQ_PREFIX)
        && !topic.starts_with(name::SYSTEM_PREFIX)
}

/// The property with room for the offsets in so many queues. It must be the last one.
#[must_use]
pub fn room(queues: usize) -> String {
    let offsets = vec!["0".repeat(DIGITS); queues].join(&SEPARATOR.to_string());
    format!("{}{}{offsets}{}", key::INNER_MULTI_QUEUE_OFFSET, '\u{1}', '\u{2}')
}

/// The queue id of a further queue that a message in queue `own` names.
#[must_use]
pub fn queue_id(queue: &str, own: u32) -> u32 {
    if queue.starts_with(name::LMQ_PREFIX) { 0 } else { own }
}

/// Where the room for offsets is in a record whose properties have `properties` bytes. Almost every
/// record is told by its last two bytes to have none.
pub(crate) fn room_in(record: &[u8], properties: usize) -> Option<Range<usize>> {
    let end = record.len().checked_sub(1)?;
    let [.., last, END] = record else { return None };
    if !last.is_ascii_digit() {
        return None;
    }
    let first = record.len().checked_sub(properties)?;
    let written = record.get(first..end)?;
    let is_offset = |byte: &u8| byte.is_ascii_digit() || *byte == SEPARATOR as u8;
    let length = written.iter().rev().take_while(|byte| is_offset(byte)).count();
    let before = written.get(..written.len() - length)?.strip_suffix(NAME)?;
    let whole = before.last().is_none_or(|byte| *byte == END);
    whole.then_some(end - length..end)
}

/// The digits of each offset within a room of `length` bytes for `queues` queues; `None` where they
/// do not fit together.
pub(crate) fn digits(length: usize, queues: usize) -> Option<impl Iterator<Item = Range<usize>>> {
    let fits = queues > 0 && length == queues * (DIGITS + 1) - 1;
    fits.then(|| (0..queues).map(|nth| nth * (DIGITS + 1)..nth * (DIGITS + 1) + DIGITS))
}

/// An offset as it is written into its digits.
pub(crate) fn text(offset: u64) -> String {
    format!("{offset:0DIGITS$}")
}

/// The further queues that a text of properties names.
#[must_use]
pub fn names(properties: &str) -> Vec<&str> {
    let listed = properties::find(properties, key::INNER_MULTI_DISPATCH).unwrap_or_default();
    listed.split(SEPARATOR).map(str::trim).filter(|queue| !queue.is_empty()).collect()
}

/// A further queue of a record: topic, queue id, and offset that the record says it has.
pub(crate) type Place<'a> = (&'a str, u32, u64);

/// The further queues that a record is found in. What does not fit together is passed over, as in
/// Java.
pub(crate) fn places<'a>(record: &Record<'_>, properties: &'a str) -> Vec<Place<'a>> {
    let names = names(properties);
    if names.is_empty() || !is_dispatched(record.topic) {
        return Vec::new();
    }
    let offsets = properties::find(properties, key::INNER_MULTI_QUEUE_OFFSET).unwrap_or_default();
    let offsets: Vec<_> = offsets.split(SEPARATOR).collect();
    if offsets.len() != names.len() {
        return Vec::new();
    }
    let place = |(queue, offset): (&'a str, &str)| {
        let offset = offset.trim().parse().ok()?;
        names_directory(queue).then(|| (queue, queue_id(queue, record.queue_id), offset))
    };
    names.into_iter().zip(offsets).filter_map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_log::test_record;

    fn record(properties: &str) -> Vec<u8> {
        test_record("T", 3, b"body", properties).to_vec()
    }

    #[test]
    fn room_is_found_only_as_the_last_property() {
        let text = format!("INNER_MULTI_DISPATCH\u{1}%LMQ%a,%LMQ%b\u{2}{}", room(2));
        let bytes = record(&text);
        let found = room_in(&bytes, text.len()).expect("room");
        assert_eq!(found.len(), 2 * DIGITS + 1);
        assert!(bytes[found].iter().all(|byte| *byte == b'0' || *byte == b','));
        let alone = room(1);
        assert!(room_in(&record(&alone), alone.len()).is_some());
        for other in [
            format!("{text}KEYS\u{1}k1\u{2}"),
            "KEYS\u{1}42\u{2}".to_owned(),
            "X_INNER_MULTI_QUEUE_OFFSET\u{1}42\u{2}".to_owned(),
            "INNER_MULTI_QUEUE_OFFSET\u{1}4x2\u{2}".to_owned(),
            String::new(),
        ] {
            assert_eq!(room_in(&record(&other), other.len()), None, "{other:?}");
        }
    }

    #[test]
    fn each_queue_has_its_digits() {
        let found: Vec<_> = digits(2 * DIGITS + 1, 2).expect("they fit").collect();
        assert_eq!(found, [0..19, 20..39]);
        assert!(digits(2 * DIGITS + 1, 3).is_none() && digits(0, 0).is_none());
        assert_eq!(text(i64::MAX.cast_unsigned()).len(), DIGITS);
        assert_eq!(text(7).parse(), Ok(7));
    }

    #[test]
    fn a_record_of_java_says_where_it_is_found() {
        let text =
            "INNER_MULTI_QUEUE_OFFSET\u{1}7,0\u{2}INNER_MULTI_DISPATCH\u{1}%LMQ%a,other\u{2}";
        let bytes = record(text);
        let fields = Record::read(&bytes).expect("a record");
        assert_eq!(places(&fields, text), [("%LMQ%a", 0, 7), ("other", 3, 0)]);
        for (wrong, why) in [
            ("INNER_MULTI_DISPATCH\u{1}%LMQ%a\u{2}", "no offset"),
            (
                "INNER_MULTI_DISPATCH\u{1}a,b\u{2}INNER_MULTI_QUEUE_OFFSET\u{1}1\u{2}",
                "one is missing",
            ),
            ("INNER_MULTI_DISPATCH\u{1}../a\u{2}INNER_MULTI_QUEUE_OFFSET\u{1}1\u{2}", "a folder"),
            ("INNER_MULTI_DISPATCH\u{1}a\u{2}INNER_MULTI_QUEUE_OFFSET\u{1}-1\u{2}", "negative"),
        ] {
            assert_eq!(places(&fields, wrong), [], "{why}");
        }
        for topic in ["%RETRY%g", "SCHEDULE_TOPIC_XXXX", "rmq_sys_x", "RMQ_SYS_TRANS_HALF_TOPIC"] {
            assert!(!is_dispatched(topic), "{topic}");
        }
    }
}
