//! Messages whose properties nearly fill the 32,767 bytes that a record has for them: what the broker
//! adds when they come again has no room. Goal: none is lost, none is tried for ever, none holds up
//! others.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bytes::Bytes;
use protocol::{
    Command,
    code::{
        request::{self, SEND_MESSAGE_V2},
        response,
    },
    header::{ConsumerSendMsgBackRequest, PopMessageRequest},
    message::{
        properties::{self, MAX_LENGTH, Properties},
        record::MessageRecord,
    },
};

use crate::{
    fixture::{Fixture, send_header, v2},
    pop::{ack, header, pop, pop_some, topic_of},
};

const LEVELS: &str = "messageDelayLevel=1s 1s 1s 1s 1s 1s\n";

/// Sends a message with `rest` and a property `p` of this length.
async fn send(fixture: &Fixture, topic: &str, rest: &str, length: usize) -> Command {
    let text = format!("{rest}p\u{1}{}\u{2}", "x".repeat(length));
    let header = send_header(topic, &text);
    fixture.ask(v2(&header, SEND_MESSAGE_V2, Bytes::from_static(b"long"))).await
}

/// Sends the message with the longest properties that is taken, or one that has `less` bytes less.
async fn send_longest(fixture: &Fixture, topic: &str, rest: &str, less: usize) -> usize {
    let refused = send(fixture, topic, rest, MAX_LENGTH).await;
    assert_eq!(refused.code, response::MESSAGE_ILLEGAL);
    let remark = refused.remark.expect("the reason");
    let told = remark.split("its properties have ").nth(1).expect("their length");
    let told: usize = told.trim_end_matches('B').parse().expect("a number");
    let longest = MAX_LENGTH - (told - MAX_LENGTH);
    if less == 0 {
        let refused = send(fixture, topic, rest, longest + 1).await;
        assert_eq!(refused.code, response::MESSAGE_ILLEGAL, "nothing longer is taken");
    }
    let answer = send(fixture, topic, rest, longest - less).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    longest - less
}

async fn send_back(fixture: &Fixture, message: &MessageRecord) {
    let header = ConsumerSendMsgBackRequest {
        offset: message.physical_offset,
        group: "G".into(),
        delay_level: 1,
        origin_msg_id: None,
        origin_topic: None,
        unit_mode: false,
        max_reconsume_times: Some(2),
    };
    let answer = fixture.ask(Command::request_with(request::CONSUMER_SEND_MSG_BACK, &header)).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
}

fn kept(message: &MessageRecord, length: usize) -> Properties {
    assert_eq!(&*message.body, b"long");
    let kept = properties::decode(&message.properties);
    assert_eq!(kept.get("p").map(str::len), Some(length), "what the producer gave is whole");
    kept
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_without_room_for_another_try_goes_to_the_dead_letters() {
    let fixture = Fixture::with(LEVELS).await;
    let length = send_longest(&fixture, "T", "KEYS\u{1}k\u{2}", 0).await;
    let message = fixture.messages("T", 1, 1).await.remove(0);
    send_back(&fixture, &message).await;
    let dead = fixture.messages("%DLQ%G", 1, 1).await.remove(0);
    let properties = kept(&dead, length);
    assert_eq!(properties.get("KEYS"), Some("k"));
    assert_eq!(properties.get("RETRY_TOPIC"), Some("T"), "as far as there is room");
    assert_eq!(dead.reconsume_times, 1);
    assert_ne!(fixture.pull("%RETRY%G", 0, 0).await.code, 0, "it is not tried again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_with_room_for_what_is_needed_is_tried_as_often_as_any() {
    let fixture = Fixture::with(LEVELS).await;
    // Room for where it belongs, and none for the id that it had first.
    let length = send_longest(&fixture, "T", "", 100).await;
    let mut message = fixture.messages("T", 1, 1).await.remove(0);
    for (offset, times) in [(0, 1), (1, 2)] {
        send_back(&fixture, &message).await;
        message = fixture.messages_from("%RETRY%G", offset, 1).await.remove(0);
        assert_eq!(message.reconsume_times, times);
        assert_eq!(kept(&message, length).get("RETRY_TOPIC"), Some("T"));
    }
    send_back(&fixture, &message).await;
    let dead = fixture.messages("%DLQ%G", 1, 1).await.remove(0);
    assert_eq!(kept(&dead, length).get("RETRY_TOPIC"), Some("T"));
}

/// What a consumer sends to the retry topic itself where giving back fails, and a consumer in order
/// where it gives up.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_sends_a_message_again_gets_it_to_the_dead_letters() {
    let fixture = Fixture::with(LEVELS).await;
    fixture.heartbeat("G", "T", "*").await;
    let length = send_longest(&fixture, "T", "", 0).await;
    let stored = fixture.messages("T", 1, 1).await.remove(0);
    let text = format!("{}RETRY_TOPIC\u{1}T\u{2}DELAY\u{1}3\u{2}", stored.properties);
    let mut header = send_header("%RETRY%G", &text);
    header.reconsume_times = Some(1);
    let answer = fixture.ask(v2(&header, SEND_MESSAGE_V2, Bytes::from_static(b"long"))).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    kept(&fixture.messages("%DLQ%G", 1, 1).await[0], length);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_delayed_message_and_the_longest_timer_come() {
    let fixture = Fixture::with(LEVELS).await;
    for (offset, rest) in [(0, "DELAY\u{1}1\u{2}"), (1, "TIMER_DELAY_SEC\u{1}1\u{2}")] {
        let length = send_longest(&fixture, "T", rest, 0).await;
        fixture.sent("Small", "behind", rest).await;
        kept(&fixture.messages_from("T", offset, 1).await[0], length);
        fixture.messages_from("Small", offset, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_popped_message_comes_again_and_holds_nobody_up() {
    let fixture = Fixture::new().await;
    let length = send_longest(&fixture, "T", "", 0).await;
    fixture.sent("T", "behind", "").await;
    fixture.messages("T", 1, 2).await;
    let short = PopMessageRequest { invisible_time: 100, ..header() };
    let mut times = BTreeMap::from([("behind", -1), ("long", -1)]);
    while times.values().any(|times| *times < 2) {
        for one in pop_some(&fixture, &short).await {
            let body = str::from_utf8(&one.message.body).expect("text");
            let before = times.get_mut(body).expect("one of both");
            assert_eq!(*before + 1, one.message.reconsume_times, "{body} comes each time");
            *before = one.message.reconsume_times;
            if body == "long" {
                kept(&one.message, length);
            }
        }
    }
    // It is done with like any other.
    let patient = PopMessageRequest { invisible_time: 5_000, ..header() };
    let mut done = BTreeSet::new();
    while done.len() < 2 {
        for one in pop_some(&fixture, &patient).await {
            assert_eq!(topic_of(&one.handle), "%RETRY%G_T");
            assert_eq!(ack(&fixture, &one).await.code, 0);
            done.insert(one.message.body.clone());
        }
    }
    tokio::time::sleep(Duration::from_millis(7_000)).await;
    assert_eq!(pop(&fixture, &patient).await.code, 210);
}
