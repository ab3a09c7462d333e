//! Pop consumption beyond taking and acknowledging: other times, many at once, questions, order.

use std::time::Duration;

use base64::{Engine, prelude::BASE64_STANDARD};
use protocol::{
    Command,
    code::{request, response},
    header::{
        ChangeInvisibleTimeRequest, ConsumerSendMsgBackRequest, NotificationRequest,
        PeekMessageRequest, PollingInfoRequest, PopMessageRequest,
    },
    message::properties,
};
use tokio::time::Instant;

use crate::{
    fixture::{Fixture, LIMIT, field, records},
    pop::{Popped, ack, header, pop, pop_some, popped, topic_of, wait_sent},
    timer::now,
};

async fn change(fixture: &Fixture, one: &Popped, millis: i64) -> Command {
    let header = ChangeInvisibleTimeRequest {
        consumer_group: "G".into(),
        topic: topic_of(&one.handle).into(),
        queue_id: one.message.queue_id,
        extra_info: one.handle.clone(),
        offset: one.message.queue_offset,
        invisible_time: millis,
        lite_topic: None,
        suspend: None,
    };
    fixture.ask(Command::request_with(request::CHANGE_MESSAGE_INVISIBLETIME, &header)).await
}

/// The same message with the handle that the answer to a change makes.
fn changed(one: &Popped, answer: &Command) -> Popped {
    let (time, invisible) = (field(answer, "popTime"), field(answer, "invisibleTime"));
    let (queue, offset) = (one.message.queue_id, one.message.queue_offset);
    let revive = field(answer, "reviveQid");
    let start = if revive == "999" { one.handle.split(' ').next().expect("a word") } else { "" };
    let start = if start.is_empty() { offset.to_string() } else { start.to_owned() };
    let handle = format!("{start} {time} {invisible} {revive} 0 b {queue} {offset}");
    Popped { handle, message: one.message.clone() }
}

fn long() -> PopMessageRequest {
    PopMessageRequest { invisible_time: 60_000, ..header() }
}

async fn sent(fixture: &Fixture, bodies: &[&'static str]) {
    for body in bodies {
        fixture.sent("T", body, "").await;
    }
    wait_sent(fixture, bodies.len()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_asks_for_another_time_and_has_a_new_handle() {
    let fixture = Fixture::new().await;
    sent(&fixture, &["short", "kept"]).await;
    let first = popped(&pop(&fixture, &long()).await);
    let before = now();
    let answer = change(&fixture, &first[0], 300).await;
    assert_eq!((answer.code, field(&answer, "invisibleTime")), (0, "300"));
    let time: i64 = field(&answer, "popTime").parse().expect("a number");
    assert!((before..=now() + 1).contains(&time));
    let again = pop_some(&fixture, &long()).await;
    assert_eq!((again.len(), &*again[0].message.body), (1, &b"short"[..]));
    assert_eq!(again[0].message.reconsume_times, 1);
    // The handle of the change acknowledges, the one before it does not any more.
    let answer = change(&fixture, &first[1], 1_000).await;
    assert_eq!(ack(&fixture, &first[1]).await.code, 0);
    let kept = changed(&first[1], &answer);
    let answer = change(&fixture, &kept, 1_200).await;
    assert_eq!(ack(&fixture, &changed(&kept, &answer)).await.code, 0);
    tokio::time::sleep(Duration::from_millis(3_500)).await;
    assert_eq!(pop(&fixture, &long()).await.code, 210);
    let nowhere = change(
        &fixture,
        &Popped {
            handle: first[0].handle.clone(),
            message: {
                let mut message = first[0].message.clone();
                message.queue_offset = 99;
                message
            },
        },
        1_000,
    )
    .await;
    assert_eq!(nowhere.code, response::NO_MESSAGE);
}

/// Both check points would be one, and the acknowledgement of the first would count for both.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_within_the_millisecond_of_the_pop_has_a_time_of_its_own() {
    let fixture = Fixture::new().await;
    sent(&fixture, &["a"]).await;
    let mut first = popped(&pop(&fixture, &long()).await).remove(0);
    let now = now() + 60_000;
    let mut words: Vec<_> = first.handle.split(' ').map(str::to_owned).collect();
    words[1] = now.to_string();
    first.handle = words.join(" ");
    let answer = change(&fixture, &first, 300).await;
    assert_eq!((answer.code, field(&answer, "popTime")), (0, &*(now + 1).to_string()));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_are_acknowledged_at_once() {
    let fixture = Fixture::new().await;
    sent(&fixture, &["a", "b", "c", "d"]).await;
    let answer = pop(&fixture, &header()).await;
    let taken = popped(&answer);
    let batch = |text: String| Command::request(request::BATCH_ACK_MESSAGE).with_body(text);
    let entry = |bits: &[u8], retry: &str| {
        let (time, revive) = (field(&answer, "popTime"), field(&answer, "reviveQid"));
        let bits = BASE64_STANDARD.encode(bits);
        format!(
            r#"{{"c":"G","t":"T","r":"{retry}","so":0,"q":0,"rq":{revive},"pt":{time},"it":1000,"b":"{bits}"}}"#
        )
    };
    assert_eq!(taken.len(), 4);
    let body = format!(r#"{{"brokerName":"b","acks":[{}]}}"#, entry(&[0b1011], "0"));
    assert_eq!(fixture.ask(batch(body)).await.code, 0);
    let again = pop_some(&fixture, &header()).await;
    assert_eq!((again.len(), &*again[0].message.body), (1, &b"c"[..]));
    assert_eq!(fixture.ask(batch("{}".to_owned())).await.code, response::NO_MESSAGE);
    for wrong in [entry(&[1], "7"), entry(&[255; 5], "0").replace("\"b\":\"", "\"b\":\"!")] {
        let body = format!(r#"{{"brokerName":"b","acks":[{wrong}]}}"#);
        assert_eq!(fixture.ask(batch(body)).await.code, response::MESSAGE_ILLEGAL, "{wrong}");
    }
    let beyond = format!(r#"{{"acks":[{}]}}"#, entry(&[0, 0, 0, 1], "0"));
    assert_eq!(fixture.ask(batch(beyond)).await.code, 0, "there is no such message");
}

fn question(millis: i64) -> Command {
    let header = NotificationRequest {
        consumer_group: "G".into(),
        topic: "T".into(),
        queue_id: -1,
        poll_time: millis,
        born_time: now(),
        order: None,
        attempt_id: None,
    };
    Command::request_with(request::NOTIFICATION, &header)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_asks_whether_there_are_messages_and_how_many_wait() {
    let fixture = Fixture::new().await;
    sent(&fixture, &["m"]).await;
    let answer = fixture.ask(question(0)).await;
    assert_eq!((field(&answer, "hasMsg"), field(&answer, "pollingFull")), ("true", "false"));
    assert_eq!(pop(&fixture, &long()).await.code, 0);
    let answer = fixture.ask(question(100)).await;
    assert_eq!((answer.code, field(&answer, "hasMsg")), (0, "false"));
    let (answer, _) = tokio::join!(fixture.ask(question(20_000)), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        fixture.sent("T", "next", "").await
    });
    assert_eq!(field(&answer, "hasMsg"), "true");
    assert_eq!(pop_some(&fixture, &long()).await.len(), 1);

    let info = PollingInfoRequest { consumer_group: "G".into(), topic: "T".into(), queue_id: -1 };
    let info = Command::request_with(request::POLLING_INFO, &info);
    assert_eq!(field(&fixture.ask(info.clone()).await, "pollingNum"), "0");
    let waits = PopMessageRequest { poll_time: 20_000, born_time: now(), ..long() };
    let (answer, waiting) = tokio::join!(pop(&fixture, &waits), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let waiting = fixture.ask(info).await;
        fixture.sent("T", "last", "").await;
        waiting
    });
    assert_eq!((answer.code, field(&waiting, "pollingNum")), (0, "1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn check_points_need_no_move_to_the_log() {
    let fixture = Fixture::new().await;
    sent(&fixture, &["a", "b"]).await;
    let taken = popped(&pop(&fixture, &long()).await);
    let answer = fixture.ask(Command::request(request::POP_ROLLBACK)).await;
    assert_eq!((answer.code, answer.remark), (0, None), "as Java without RocksDB");
    // What was taken before is still taken, by the same handles.
    assert_eq!(pop(&fixture, &long()).await.code, response::POLLING_TIMEOUT);
    for one in &taken {
        assert_eq!(ack(&fixture, one).await.code, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_takes_nothing() {
    let fixture = Fixture::new().await;
    sent(&fixture, &["a", "b", "c"]).await;
    let look = PeekMessageRequest {
        topic: "T".into(),
        queue_id: 0,
        max_msg_nums: 2,
        consumer_group: "G".into(),
    };
    let look = Command::request_with(request::PEEK_MESSAGE, &look);
    for _ in 0..2 {
        let answer = fixture.ask(look.clone()).await;
        assert_eq!((records(&answer).len(), field(&answer, "restNum")), (2, "1"));
    }
    assert_eq!(popped(&pop(&fixture, &long()).await).len(), 3);
    assert_eq!(fixture.ask(look).await.code, response::PULL_NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_gives_a_popped_message_to_the_dead_letters() {
    let fixture = Fixture::new().await;
    sent(&fixture, &["m"]).await;
    let first = popped(&pop(&fixture, &long()).await).remove(0);
    let header = ConsumerSendMsgBackRequest {
        offset: first.message.physical_offset,
        group: "G".into(),
        delay_level: -1,
        origin_msg_id: None,
        origin_topic: Some("T".into()),
        unit_mode: false,
        max_reconsume_times: Some(16),
    };
    let request = Command::request_with(request::CONSUMER_SEND_MSG_BACK, &header);
    assert_eq!(fixture.ask(request).await.code, 0);
    assert_eq!(ack(&fixture, &first).await.code, 0);
    let dead = fixture.messages("%DLQ%G", 1, 1).await.remove(0);
    assert_eq!(properties::decode(&dead.properties).get("RETRY_TOPIC"), Some("T"));
}

fn in_order(attempt: &str, most: i32) -> PopMessageRequest {
    PopMessageRequest {
        order: Some(true),
        attempt_id: Some(attempt.into()),
        max_msg_nums: most,
        queue_id: 0,
        ..header()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_order_a_queue_is_one_clients_until_all_is_done() {
    let fixture = Fixture::new().await;
    sent(&fixture, &["a", "b", "c"]).await;
    let long = |attempt: &str| PopMessageRequest { invisible_time: 60_000, ..in_order(attempt, 2) };
    let answer = pop(&fixture, &long("1")).await;
    assert_eq!((field(&answer, "reviveQid"), field(&answer, "orderCountInfo")), ("999", "0 0 0"));
    let first = popped(&answer);
    assert_eq!((first.len(), &*first[0].message.body), (2, &b"a"[..]));
    assert_eq!(pop(&fixture, &long("2")).await.code, 210, "the queue is taken");
    assert_eq!(popped(&pop(&fixture, &long("1")).await).len(), 2, "the attempt is repeated");
    let first = popped(&pop(&fixture, &long("1")).await);

    assert_eq!(ack(&fixture, &first[1]).await.code, 0);
    assert_eq!(pop(&fixture, &long("2")).await.code, 210, "not all is done");
    // Who waits is told at once.
    let waits = PopMessageRequest { poll_time: 20_000, born_time: now(), ..long("2") };
    let begun = Instant::now();
    let (answer, _) = tokio::join!(pop(&fixture, &waits), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(ack(&fixture, &first[0]).await.code, 0);
    });
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    let next = popped(&answer);
    assert_eq!((next.len(), &*next[0].message.body), (1, &b"c"[..]));
    assert_eq!(ack(&fixture, &first[0]).await.code, 0, "it is done already");
    let mut other = Popped { handle: next[0].handle.clone(), message: next[0].message.clone() };
    other.message.queue_offset = 3;
    assert_eq!(ack(&fixture, &other).await.code, response::MESSAGE_ILLEGAL);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_order_what_is_not_done_in_time_comes_again_and_is_counted() {
    let fixture = Fixture::new().await;
    sent(&fixture, &["a", "b"]).await;
    let short = |attempt: &str| PopMessageRequest { invisible_time: 700, ..in_order(attempt, 1) };
    assert_eq!(popped(&pop(&fixture, &short("1")).await).len(), 1);
    let waits = PopMessageRequest { poll_time: 20_000, born_time: now(), ..short("2") };
    let answer = pop(&fixture, &waits).await;
    assert_eq!(field(&answer, "orderCountInfo"), "0 qo0%0 1;0 0 1");
    let again = popped(&answer).remove(0);
    assert_eq!(&*again.message.body, b"a");

    let answer = change(&fixture, &again, 60_000).await;
    assert_eq!((answer.code, field(&answer, "reviveQid")), (0, "999"));
    assert_eq!(field(&answer, "popTime"), again.handle.split(' ').nth(1).expect("a word"));
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert_eq!(pop(&fixture, &short("3")).await.code, 210, "it stays for longer now");
    assert_eq!(ack(&fixture, &changed(&again, &answer)).await.code, 0);
    assert_eq!(&*popped(&pop(&fixture, &short("3")).await)[0].message.body, b"b");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_order_a_restart_changes_nothing() {
    let fixture = Fixture::new().await;
    sent(&fixture, &["a", "b", "c"]).await;
    let long = |attempt: &str| PopMessageRequest { invisible_time: 60_000, ..in_order(attempt, 2) };
    let first = popped(&pop(&fixture, &long("1")).await);
    assert_eq!(ack(&fixture, &first[0]).await.code, 0);
    let fixture = fixture.restarted("").await;
    assert_eq!(pop(&fixture, &long("2")).await.code, 210, "the queue is still taken");
    let file = fixture.directory.path().join("config/consumerOrderInfo.json");
    // What a stop overtook is in the file a little later.
    let deadline = Instant::now() + LIMIT;
    loop {
        let text = std::fs::read_to_string(&file).expect("the table");
        if text.contains("\"T@G\":{0:{") && text.contains("\"cm\":1") {
            break;
        }
        assert!(Instant::now() < deadline, "Java's form: {text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(ack(&fixture, &first[1]).await.code, 0);
    assert_eq!(&*popped(&pop(&fixture, &long("2")).await)[0].message.body, b"c");
}
