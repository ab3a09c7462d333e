//! Message properties: `name 0x01 value 0x02` repeated (`MessageDecoder.java`).

use crate::ExtFields;

/// Between a name and its value.
pub const NAME_VALUE_SEPARATOR: char = '\u{1}';
/// After each value; the last one may be missing on input.
pub const PROPERTY_SEPARATOR: char = '\u{2}';
/// The longest encoded form in bytes: the record has an int16 for it.
pub const MAX_LENGTH: usize = 32_767;

/// Bytes for what a broker adds to the properties of a message.
const SPARE: usize = 96;

/// The property that carries the checksum of the record around it.
const CRC_PAIR: &str = "__CRC32#\u{1}";

/// Ordered properties of one message. They are kept as the fields of a header are, in one text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties {
    pairs: ExtFields,
}

/// Reads the text form. Pairs with an empty name or value are dropped, as in Java; of a repeated
/// name the last value counts.
pub fn decode(text: &str) -> Properties {
    let mut read = ExtFields::with_capacity(text.len() + SPARE);
    for (name, value) in pairs(text) {
        read.push(name, value);
    }
    Properties { pairs: read }
}

/// Writes the text form, every pair with its separator.
pub fn encode(properties: &Properties) -> String {
    let mut text = String::with_capacity(properties.encoded_len());
    for (name, value) in properties.iter() {
        text.push_str(name);
        text.push(NAME_VALUE_SEPARATOR);
        text.push_str(value);
        text.push(PROPERTY_SEPARATOR);
    }
    text
}

/// The value of one property of the text form, without reading the others into memory.
pub fn find<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let value = |pair: &'a str| pair.strip_prefix(name)?.strip_prefix(NAME_VALUE_SEPARATOR);
    parts(text).filter_map(value).filter(|value| !value.is_empty() && !name.is_empty()).last()
}

/// The pairs of the text form, in order.
pub fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    parts(text).filter_map(|pair| {
        let (name, value) = cut(pair, NAME_VALUE_SEPARATOR)?;
        (!name.is_empty() && !value.is_empty()).then_some((name, value))
    })
}

/// What stands between the separators of properties.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let whole = rest?;
        let (part, behind) =
            cut(whole, PROPERTY_SEPARATOR).map_or((whole, None), |(a, b)| (a, Some(b)));
        rest = behind;
        Some(part)
    })
}

/// What stands before and behind the first separator, as [`str::split_once`] gives it for any letter:
/// each send and each dispatch looks through its properties several times.
fn cut(text: &str, separator: char) -> Option<(&str, &str)> {
    let at = memchr::memchr(separator as u8, text.as_bytes())?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

/// The text form without the trailing checksum property, which a copy of a record must not keep
/// (`MessageUtils.deleteProperty`).
pub fn without_crc(text: &str) -> &str {
    match text.rfind(CRC_PAIR) {
        Some(at) if at == 0 || text.get(..at).is_some_and(|t| t.ends_with(PROPERTY_SEPARATOR)) => {
            text.get(..at).unwrap_or(text)
        }
        _ => text,
    }
}

impl Properties {
    /// No properties.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of a property.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.get(name)
    }

    /// Whether there is such a property.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Sets a property, in place of an earlier value of that name.
    pub fn insert(&mut self, name: impl AsRef<str>, value: impl AsRef<str>) {
        self.pairs.insert(name, value);
    }

    /// Takes a property out; tells whether it was there.
    pub fn remove(&mut self, name: &str) -> bool {
        self.pairs.remove(name)
    }

    /// All pairs in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.pairs.iter()
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Length in bytes of the text form.
    pub fn encoded_len(&self) -> usize {
        self.iter().map(|(name, value)| name.len() + value.len() + 2).sum()
    }
}

impl<N: AsRef<str>, V: AsRef<str>> FromIterator<(N, V)> for Properties {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Self { pairs: pairs.into_iter().collect() }
    }
}

/// Reserved names (`MessageConst.java`).
pub mod key {
    /// One line per name.
    macro_rules! keys {
        ($($(#[$meta:meta])* $name:ident = $text:literal;)*) => {
            $(
                $(#[$meta])*
                pub const $name: &str = $text;
            )*

            /// Every reserved name. User properties must not have one of them.
            pub const ALL: &[&str] = &[$($name,)*];
        };
    }

    keys! {
        /// Keys of the message, separated by blanks; each is indexed.
        KEYS = "KEYS";
        /// The tag.
        TAGS = "TAGS";
        /// The client's message id.
        UNIQ_KEY = "UNIQ_KEY";
        /// "false": the producer does not wait for flush and replication.
        WAIT = "WAIT";
        /// Delay level.
        DELAY = "DELAY";
        /// Deliver at this time, in milliseconds.
        TIMER_DELIVER_MS = "TIMER_DELIVER_MS";
        /// Deliver after this many seconds.
        TIMER_DELAY_SEC = "TIMER_DELAY_SEC";
        /// Deliver after this many milliseconds.
        TIMER_DELAY_MS = "TIMER_DELAY_MS";
        /// When the timer fires.
        TIMER_OUT_MS = "TIMER_OUT_MS";
        /// When the timer took the message.
        TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS";
        /// When the timer gave the message.
        TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS";
        /// How often the timer rolled the message on.
        TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES";
        /// Delay level of a timer message.
        TIMER_DELAY_LEVEL = "TIMER_DELAY_LEVEL";
        /// Takes back the timer message with this unique key.
        TIMER_DEL_UNIQKEY = "TIMER_DEL_UNIQKEY";
        /// Topic of a retried message.
        RETRY_TOPIC = "RETRY_TOPIC";
        /// Topic while the message lies in a system topic.
        REAL_TOPIC = "REAL_TOPIC";
        /// Queue while the message lies in a system topic.
        REAL_QID = "REAL_QID";
        /// "true": a half message.
        TRAN_MSG = "TRAN_MSG";
        /// Producer group of a half message.
        PGROUP = "PGROUP";
        /// Seconds before the first check of a half message.
        CHECK_IMMUNITY_TIME_IN_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS";
        /// Queue offset of the half message that was put again.
        TRAN_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET";
        /// How often a half message was checked.
        TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES";
        /// Transaction id.
        TRANSACTION_ID = "__transactionId__";
        /// First id of a retried message.
        ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID";
        /// Group of a retried pop message.
        ORIGIN_GROUP = "ORIGIN_GROUP";
        /// How often the message was given back.
        RECONSUME_TIME = "RECONSUME_TIME";
        /// How often it may be given back.
        MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES";
        /// First offset of the queue; added by the consumer.
        MIN_OFFSET = "MIN_OFFSET";
        /// Next offset of the queue; added by the consumer.
        MAX_OFFSET = "MAX_OFFSET";
        /// Region of the broker.
        MSG_REGION = "MSG_REGION";
        /// Whether the message is traced.
        TRACE_ON = "TRACE_ON";
        /// Cluster of the broker.
        CLUSTER = "CLUSTER";
        /// Request and reply: correlation.
        CORRELATION_ID = "CORRELATION_ID";
        /// Request and reply: client id of the requester.
        REPLY_TO_CLIENT = "REPLY_TO_CLIENT";
        /// Request and reply: lifetime in milliseconds.
        TTL = "TTL";
        /// Request and reply: "reply".
        MSG_TYPE = "MSG_TYPE";
        /// Request and reply: when the reply arrived.
        ARRIVE_TIME = "ARRIVE_TIME";
        /// Request and reply: when the reply was pushed.
        PUSH_REPLY_TIME = "PUSH_REPLY_TIME";
        /// Handle of a taken message.
        POP_CK = "POP_CK";
        /// Offset of a taken message's checkpoint.
        POP_CK_OFFSET = "POP_CK_OFFSET";
        /// When the message was taken first.
        FIRST_POP_TIME = "1ST_POP_TIME";
        /// Number of messages of an inner batch.
        INNER_NUM = "INNER_NUM";
        /// First queue offset of an inner batch.
        INNER_BASE = "INNER_BASE";
        /// Further light queues of the message, separated by commas.
        INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH";
        /// Its offsets in them, separated by commas.
        INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET";
        /// Key of ordered messages.
        SHARDING_KEY = "__SHARDINGKEY";
        /// Priority, from 0 on; the higher the more urgent, unless the broker says otherwise.
        PRIORITY = "_SYS_MSG_PRIORITY_";
        /// Namespace of the producer.
        INSTANCE_ID = "INSTANCE_ID";
        /// Legacy.
        DUP_INFO = "DUP_INFO";
        /// Legacy.
        EXTEND_UNIQ_INFO = "EXTEND_UNIQ_INFO";
        /// Legacy.
        BUYER_ID = "BUYER_ID";
        /// Legacy.
        TRANSFER_FLAG = "TRANSFER_FLAG";
        /// Legacy.
        CORRECTION_FLAG = "CORRECTION_FLAG";
        /// Legacy.
        MQ2_FLAG = "MQ2_FLAG";
        /// When consumption began; local to the consumer.
        CONSUME_START_TIMESTAMP = "CONSUME_START_TIME";
        /// Topic before the message went to the dead letter queue.
        DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC";
        /// Id before the message went to the dead letter queue.
        DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID";
        /// Born time that a proxy passes on.
        BORN_TIMESTAMP = "BORN_TIMESTAMP";
        /// Born host that a proxy passes on.
        BORN_HOST = "__BORNHOST";
        /// Trace context.
        TRACE_CONTEXT = "TRACE_CONTEXT";
        /// Forwarding.
        REDIRECT = "REDIRECT";
        /// Forwarding.
        FORWARD_QUEUE_ID = "PROPERTY_FORWARD_QUEUE_ID";
        /// Checksum of the record, last of all.
        CRC32 = "__CRC32#";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_is_javas() {
        let mut properties = Properties::new();
        properties.insert(key::KEYS, "k1");
        properties.insert(key::TAGS, "TagA");
        let text = "KEYS\u{1}k1\u{2}TAGS\u{1}TagA\u{2}";
        assert_eq!(encode(&properties), text);
        assert_eq!(properties.encoded_len(), text.len());
        assert_eq!(decode(text), properties);
        assert_eq!(find(text, key::TAGS), Some("TagA"));
        assert_eq!(find(text, "TAG"), None);
    }

    #[test]
    fn sloppy_text_is_read_as_java_does() {
        let text = "a\u{1}1\u{2}\u{2}b\u{1}\u{2}\u{1}c\u{2}d\u{2}a\u{1}2\u{1}3";
        let properties = decode(text);
        assert_eq!(properties.get("a"), Some("2\u{1}3"));
        assert_eq!(find(text, "a"), Some("2\u{1}3"));
        assert_eq!(properties.get("b"), None);
        assert_eq!(properties.get("d"), None);
        assert!(decode("").is_empty());
    }

    #[test]
    fn only_a_trailing_checksum_pair_is_cut() {
        assert_eq!(without_crc("a\u{1}b\u{2}__CRC32#\u{1}0590490701\u{2}"), "a\u{1}b\u{2}");
        assert_eq!(without_crc("__CRC32#\u{1}0590490701\u{2}"), "");
        assert_eq!(without_crc("x__CRC32#\u{1}1\u{2}"), "x__CRC32#\u{1}1\u{2}");
        assert_eq!(without_crc("a\u{1}b\u{2}"), "a\u{1}b\u{2}");
    }

    #[test]
    fn reserved_names_are_distinct() {
        let mut names = key::ALL.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), key::ALL.len());
    }
}
