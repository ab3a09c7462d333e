//! Code 36.

use protocol::{
    Command,
    code::{
        request::{self, SEND_MESSAGE_V2},
        response,
    },
    header::ConsumerSendMsgBackRequest,
    message::{properties, record::MessageRecord},
};

use crate::fixture::{Fixture, send_header, v2};

async fn send_back(
    fixture: &Fixture,
    message: &MessageRecord,
    delay_level: i32,
    most: i32,
) -> Command {
    send_back_of("G", fixture, message, (delay_level, most)).await
}

async fn send_back_of(
    group: &str,
    fixture: &Fixture,
    message: &MessageRecord,
    (delay_level, most): (i32, i32),
) -> Command {
    let header = ConsumerSendMsgBackRequest {
        offset: message.physical_offset,
        group: group.into(),
        delay_level,
        origin_msg_id: None,
        origin_topic: None,
        unit_mode: false,
        max_reconsume_times: Some(most),
    };
    fixture.ask(Command::request_with(request::CONSUMER_SEND_MSG_BACK, &header)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_comes_back_and_ends_with_the_dead_letters() {
    let fixture = Fixture::with("messageDelayLevel=1s 1s 1s 1s 1s\n").await;
    fixture.sent("T", "m", "KEYS\u{1}k").await;
    let first = fixture.messages("T", 1, 1).await.remove(0);
    let answer = send_back(&fixture, &first, 0, 1).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    let retried = fixture.messages("%RETRY%G", 1, 1).await.remove(0);
    assert_eq!((retried.reconsume_times, retried.body.as_ref()), (1, &b"m"[..]));
    let kept = properties::decode(&retried.properties);
    assert_eq!((kept.get("RETRY_TOPIC"), kept.get("KEYS")), (Some("T"), Some("k")));
    let origin = kept.get("ORIGIN_MESSAGE_ID").expect("the first id").to_owned();

    let answer = send_back(&fixture, &retried, 0, 1).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    let dead = fixture.messages("%DLQ%G", 1, 1).await.remove(0);
    assert_eq!(dead.reconsume_times, 2);
    let kept = properties::decode(&dead.properties);
    assert_eq!(kept.get("ORIGIN_MESSAGE_ID"), Some(origin.as_str()), "set once");
    assert_eq!(kept.get("DELAY"), None);
}

/// The longest body that is taken with these properties: a longer one is refused with both lengths.
async fn longest(fixture: &Fixture, topic: &str, properties: &str) -> usize {
    let most = 4 << 20;
    let answer = fixture.ask(long(topic, properties, most)).await;
    assert_eq!(answer.code, response::MESSAGE_ILLEGAL);
    let remark = answer.remark.expect("the reason");
    let behind = remark.split("it has ").nth(1).expect("its length");
    let numbers = behind.split(|letter: char| !letter.is_ascii_digit());
    let numbers: Vec<usize> = numbers.filter_map(|number| number.parse().ok()).collect();
    most + numbers[1] - numbers[0]
}

fn long(topic: &str, properties: &str, length: usize) -> Command {
    v2(&send_header(topic, properties), SEND_MESSAGE_V2, vec![7; length].into())
}

/// Case 43: the longest message with the longest names is delivered after a delay, comes back, and ends
/// with the dead letters; small ones behind it on the same level come, too.
#[tokio::test(flavor = "multi_thread")]
async fn case_43_the_longest_message_comes_back_and_holds_nobody_up() {
    let fixture = Fixture::with("messageDelayLevel=1s 1s 1s 1s\n").await;
    let (topic, group) = ("T".repeat(127), "G".repeat(120));
    for (properties, offset) in [("KEYS\u{1}k", 0), ("DELAY\u{1}1", 1)] {
        let length = longest(&fixture, &topic, properties).await;
        let answer = fixture.ask(long(&topic, properties, length + 1)).await;
        assert_eq!(answer.code, response::MESSAGE_ILLEGAL, "nothing longer is taken");
        let answer = fixture.ask(long(&topic, properties, length)).await;
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
        let came = fixture.messages_from(&topic, offset, 1).await.remove(0);
        assert_eq!(came.body.len(), length);
        fixture.sent("Small", "behind", "DELAY\u{1}1").await;
        let mut last = came;
        for (place, most) in [("%RETRY%", 1), ("%DLQ%", 1)] {
            let answer = send_back_of(&group, &fixture, &last, (1, most)).await;
            assert_eq!(answer.code, 0, "{:?}", answer.remark);
            fixture.sent("Small", "behind", "DELAY\u{1}1").await;
            last = fixture.messages_from(&format!("{place}{group}"), offset, 1).await.remove(0);
            assert_eq!(last.body.len(), length, "{place}");
        }
    }
    assert_eq!(fixture.messages("Small", 1, 6).await.len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_message_is_refused() {
    let fixture = Fixture::new().await;
    fixture.sent("T", "m", "").await;
    let mut message = fixture.messages("T", 1, 1).await.remove(0);
    for offset in [-1, i64::MAX, message.physical_offset + 7] {
        message.physical_offset = offset;
        let answer = send_back(&fixture, &message, 0, 16).await;
        assert_eq!(answer.code, response::SYSTEM_ERROR);
        let remark = answer.remark.unwrap_or_default();
        let text = format!("look message by offset failed, {offset}");
        assert!(remark.starts_with(&text), "{remark}");
    }
}

/// A message that a consumer sends to its retry topic by itself, tried `times` times of `most`.
async fn send_retry(fixture: &Fixture, (times, most): (i32, i32), level: i32) -> Command {
    let properties = format!("DELAY\u{1}{level}\u{2}RETRY_TOPIC\u{1}T\u{2}");
    let header = protocol::header::SendMessageRequest {
        reconsume_times: Some(times),
        max_reconsume_times: Some(most),
        ..send_header("%RETRY%G", &properties)
    };
    let command = v2(&header, SEND_MESSAGE_V2, "m".into());
    fixture.ask(Command { version: 400, ..command }).await
}

/// Tries of the messages of a topic, in the order of its queue.
async fn tries(fixture: &Fixture, topic: &str, count: usize) -> Vec<i32> {
    let found = fixture.messages(topic, 1, count).await;
    found.iter().map(|message| message.reconsume_times).collect()
}

/// What an ordered consumer gives up is a dead letter: while its group holds leases, and on a new
/// master, which knows of none, when it was the last try. One without order has a try more.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_ordered_consumer_gives_up_is_a_dead_letter_with_and_without_leases() {
    let fixture = Fixture::with("messageDelayLevel=1s\n").await;
    fixture.heartbeat("G", "T", "*").await;
    fixture.sent("T", "m", "").await;
    assert_eq!(send_retry(&fixture, (2, 2), 5).await.code, 0);
    assert_eq!(tries(&fixture, "%DLQ%G", 1).await, [2], "the last in order, without a lease");
    assert_eq!(send_retry(&fixture, (2, 2), 4).await.code, 0);
    assert_eq!(tries(&fixture, "%RETRY%G", 1).await, [2], "one without order tries it again");
    assert_eq!(send_retry(&fixture, (1, 2), 4).await.code, 0);
    assert_eq!(tries(&fixture, "%RETRY%G", 2).await, [2, 1], "not the last one");
    assert_eq!(send_retry(&fixture, (3, 2), 5).await.code, 0);
    assert_eq!(tries(&fixture, "%DLQ%G", 2).await, [2, 3]);

    let lock = r#"{"consumerGroup":"G","clientId":"c","mqSet":[{"topic":"T","brokerName":"b","queueId":0}]}"#;
    let locked = fixture.ask(Command::request(request::LOCK_BATCH_MQ).with_body(lock)).await;
    assert_eq!(locked.code, 0, "{:?}", locked.remark);
    assert_eq!(send_retry(&fixture, (1, 2), 3).await.code, 0);
    assert_eq!(tries(&fixture, "%DLQ%G", 3).await, [2, 3, 1], "its group holds a lease");
    assert_eq!(tries(&fixture, "%RETRY%G", 2).await.len(), 2);
}
