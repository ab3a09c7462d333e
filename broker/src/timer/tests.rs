use std::net::SocketAddr;

use bytes::BytesMut;
use protocol::{
    code::response,
    message::{
        properties::{self, MAX_LENGTH, key},
        record::{self, MessageRecord},
    },
    name,
};

use super::{
    asks_for_a_time,
    held::{Held, HeldError},
    hold_back,
};
use crate::config::BrokerConfig;

const NOW: i64 = 1_700_000_000_250;

fn host() -> SocketAddr {
    "127.0.0.1:10911".parse().expect("an address")
}

fn sent() -> MessageRecord {
    MessageRecord {
        queue_id: 3,
        flag: 7,
        queue_offset: 5,
        physical_offset: 900,
        sys_flag: 0,
        born_timestamp: 11,
        born_host: host(),
        store_timestamp: 12,
        store_host: host(),
        reconsume_times: 1,
        prepared_transaction_offset: 0,
        body: "body".into(),
        topic: "T".into(),
        properties: String::new(),
    }
}

fn stored(topic: &str, properties: &str) -> BytesMut {
    let record = MessageRecord { topic: topic.into(), properties: properties.into(), ..sent() };
    let mut bytes = BytesMut::new();
    record::encode(&record, &mut bytes).expect("short");
    bytes
}

/// What becomes of a message that is sent at [`NOW`]: its topic and TIMER_OUT_MS, or a code.
fn held(text: &str) -> Result<(String, Option<i64>), i32> {
    let (mut record, mut properties) = (sent(), properties::decode(text));
    let config = BrokerConfig::default();
    hold_back(&mut record, &mut properties, &config, NOW).map_err(|refused| refused.code)?;
    let out = properties.get(key::TIMER_OUT_MS).map(|text| text.parse().expect("a number"));
    Ok((record.topic, out))
}

#[test]
fn times_are_javas() {
    let later = |out| Ok((name::TIMER_TOPIC.to_owned(), Some(out)));
    let now = || Ok(("T".to_owned(), None));
    assert_eq!(held("TIMER_DELAY_SEC\u{1}5"), later(1_700_000_005_000));
    assert_eq!(held("TIMER_DELAY_MS\u{1}5"), later(1_700_000_000_000));
    assert_eq!(held("TIMER_DELIVER_MS\u{1}1700000009000"), later(1_700_000_008_000), "whole");
    assert_eq!(held("TIMER_DELIVER_MS\u{1}1700000009001"), later(1_700_000_009_000));
    // Seconds before milliseconds before the time itself.
    let all =
        "TIMER_DELIVER_MS\u{1}1700000100001\u{2}TIMER_DELAY_MS\u{1}50000\u{2}TIMER_DELAY_SEC\u{1}5";
    assert_eq!(held(all), later(1_700_000_005_000));
    assert_eq!(held("TIMER_DELIVER_MS\u{1}1700000000250"), now());
    assert_eq!(held("TIMER_DELAY_SEC\u{1}-1"), now());
    assert_eq!(held("KEYS\u{1}k"), now());
    assert_eq!(held("TIMER_DELAY_SEC\u{1}259200"), later(1_700_259_200_000));
    for text in ["TIMER_DELAY_SEC\u{1}259201", "TIMER_DELAY_MS\u{1}x", "TIMER_DELAY_SEC\u{1}1.5"] {
        assert_eq!(held(text), Err(response::MESSAGE_ILLEGAL), "{text}");
    }
    assert!(!asks_for_a_time(&properties::decode("TIMER_DELAY_SEC\u{1}5\u{2}TIMER_OUT_MS\u{1}1")));
}

#[test]
fn a_message_goes_back_to_where_it_was_sent() {
    let text = "REAL_TOPIC\u{1}T\u{2}REAL_QID\u{1}3\u{2}TIMER_OUT_MS\u{1}1700000005000\u{2}KEYS\u{1}k\u{2}";
    let held = Held::read(&stored(name::TIMER_TOPIC, text)).expect("sound");
    assert_eq!((held.due(), held.stored()), (Some(1_700_000_006_000), 12));
    assert_eq!((held.names(), held.takes_back()), (("T", ""), None));
    let other = "127.0.0.1:1".parse().expect("an address");
    let record = held.restored(other, NOW).expect("it says where");
    assert_eq!((record.topic.as_str(), record.queue_id, record.flag), ("T", 3, 7));
    assert_eq!((record.queue_offset, record.physical_offset, record.store_host), (0, 0, other));
    assert_eq!(
        record.properties,
        "TIMER_OUT_MS\u{1}1700000005000\u{2}KEYS\u{1}k\u{2}TIMER_ENQUEUE_MS\u{1}12\u{2}\
         TIMER_DEQUEUE_MS\u{1}1700000000250\u{2}"
    );
}

#[test]
fn a_message_that_is_put_into_the_log_again_says_how_often() {
    let text = "REAL_TOPIC\u{1}T\u{2}REAL_QID\u{1}3\u{2}TIMER_OUT_MS\u{1}1700000005000\u{2}";
    let once = Held::read(&stored(name::TIMER_TOPIC, text)).expect("sound").rolled(host());
    assert_eq!((once.topic.as_str(), once.queue_offset), (name::TIMER_TOPIC, 0));
    let twice =
        Held::read(&stored(name::TIMER_TOPIC, &once.properties)).expect("sound").rolled(host());
    assert_eq!(properties::find(&twice.properties, key::TIMER_ROLL_TIMES), Some("2"));
    assert_eq!(properties::find(&twice.properties, key::REAL_TOPIC), Some("T"));
}

#[test]
fn what_has_no_place_is_named() {
    let of = |text: &str| {
        let held = Held::read(&stored(name::TIMER_TOPIC, text)).expect("a record");
        held.restored(host(), NOW).expect_err(text)
    };
    assert_eq!(of("REAL_QID\u{1}3\u{2}"), HeldError::Property(key::REAL_TOPIC));
    assert_eq!(of("REAL_TOPIC\u{1}T\u{2}"), HeldError::Property(key::REAL_QID));
    for topic in [store::journal::TOPIC, name::TIMER_TOPIC, name::TRANS_HALF_TOPIC] {
        let text = format!("REAL_TOPIC\u{1}{topic}\u{2}REAL_QID\u{1}0\u{2}");
        assert_eq!(of(&text), HeldError::Topic(topic.to_owned()));
    }
    assert!(matches!(Held::read(b"no record"), Err(HeldError::Record(_))));
}

#[test]
fn properties_without_room_keep_what_matters() {
    let start = "REAL_TOPIC\u{1}T\u{2}REAL_QID\u{1}3\u{2}k\u{1}";
    let text = format!("{start}{}\u{2}", "v".repeat(MAX_LENGTH - start.len() - 1));
    let held = Held::read(&stored(name::TIMER_TOPIC, &text)).expect("sound");
    assert_eq!(held.rolled(host()).properties.len(), MAX_LENGTH);
    let held = Held::read(&stored(name::TIMER_TOPIC, &text)).expect("sound");
    assert!(held.restored(host(), NOW).expect("it says where").properties.len() <= MAX_LENGTH);
}
