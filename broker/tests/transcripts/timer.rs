//! Messages at any time, and how they are taken back.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use protocol::{
    Command,
    code::{request, response},
    header::RecallMessageRequest,
    message::{properties, record::MessageRecord},
};

use crate::fixture::{Fixture, field, send_header, v2};

pub(crate) fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    i64::try_from(now.as_millis()).expect("a clock before the end of time")
}

fn bodies(stored: &[MessageRecord]) -> Vec<&[u8]> {
    stored.iter().map(|record| &*record.body).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_comes_at_its_time_and_not_before() {
    let fixture = Fixture::new().await;
    let sent = now();
    fixture.sent("T", "seconds", "TIMER_DELAY_SEC\u{1}2\u{2}KEYS\u{1}k\u{2}UNIQ_KEY\u{1}U").await;
    fixture.sent("T", "millis", "TIMER_DELAY_MS\u{1}700").await;
    let at = sent + 4_300;
    fixture.sent("T", "time", &format!("TIMER_DELIVER_MS\u{1}{at}")).await;
    fixture.sent("T", "past", "TIMER_DELIVER_MS\u{1}1000").await;
    fixture.sent("T", "negative", "TIMER_DELAY_SEC\u{1}-5").await;
    let stored = fixture.messages("T", 1, 5).await;
    assert_eq!(bodies(&stored), [&b"past"[..], b"negative", b"millis", b"seconds", b"time"]);
    for (record, due) in stored[2..].iter().zip([sent + 700, sent + 2_000, at]) {
        let late = record.store_timestamp - due;
        assert!(late >= 0, "{:?} came {late} ms after its time", record.body);
    }
    let kept = properties::decode(&stored[3].properties);
    assert_eq!((kept.get("KEYS"), kept.get("UNIQ_KEY")), (Some("k"), Some("U")));
    assert_eq!((kept.get("REAL_TOPIC"), kept.get("REAL_QID")), (None, None));
    assert!(kept.get("TIMER_OUT_MS").is_some() && kept.get("TIMER_DEQUEUE_MS").is_some());
    assert_eq!((stored[3].topic.as_str(), stored[3].queue_id), ("T", 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn times_that_cannot_be_are_refused_with_javas_codes() {
    let fixture = Fixture::with("timerMaxDelaySec=10\n").await;
    let illegal =
        "timer message illegal, the delay time should not be bigger than the max delay 10000ms";
    for properties in [
        "TIMER_DELAY_SEC\u{1}11",
        "TIMER_DELAY_MS\u{1}12000",
        "TIMER_DELAY_SEC\u{1}soon",
        "TIMER_DELAY_SEC\u{1}9223372036854775807",
        "TIMER_DELIVER_MS\u{1}9223372036854775807",
        "TIMER_DELIVER_MS\u{1}1\u{2}TIMER_DEL_UNIQKEY\u{1}k",
    ] {
        let answer = fixture.send("T", "m", properties).await;
        assert_eq!(answer.code, response::MESSAGE_ILLEGAL, "{properties}");
        assert!(answer.remark.is_some_and(|remark| remark.starts_with(illegal)), "{properties}");
    }
    let to_the_topic = fixture.send("rmq_sys_wheel_timer", "m", "TIMER_OUT_MS\u{1}1").await;
    assert_eq!(to_the_topic.code, response::NO_PERMISSION, "it could name any topic");
    let off = Fixture::with("timerWheelEnable=false\n").await;
    let answer = off.send("T", "m", "TIMER_DELAY_SEC\u{1}1").await;
    assert_eq!(answer.code, response::SYSTEM_ERROR);
    let text = "accurate timer message is not enabled, timerWheelEnable is false";
    assert_eq!(answer.remark.as_deref(), Some(text));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delay_level_wins_and_one_that_came_by_a_timer_is_not_held_again() {
    let fixture = Fixture::with("messageDelayLevel=1s 2s\n").await;
    fixture.sent("T", "level", "DELAY\u{1}1\u{2}TIMER_DELAY_SEC\u{1}3600").await;
    let level = fixture.messages("T", 1, 1).await;
    let kept = properties::decode(&level[0].properties);
    assert_eq!((kept.get("TIMER_DELAY_SEC"), kept.get("DELAY")), (None, None));
    fixture.sent("T", "again", "TIMER_DELAY_SEC\u{1}3600\u{2}TIMER_OUT_MS\u{1}1000").await;
    assert_eq!(fixture.messages("T", 1, 2).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn timers_survive_a_restart_and_come_once() {
    let fixture = Fixture::new().await;
    fixture.sent("T", "first", "TIMER_DELAY_MS\u{1}10").await;
    fixture.messages("T", 1, 1).await;
    fixture.sent("T", "later", "TIMER_DELAY_SEC\u{1}5").await;
    fixture.sent("T", "between", "TIMER_DELAY_SEC\u{1}2").await;
    let fixture = fixture.restarted("").await;
    let stored = fixture.messages("T", 1, 3).await;
    assert_eq!(bodies(&stored), [&b"first"[..], b"between", b"later"]);
    let fixture = fixture.restarted("").await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(fixture.messages("T", 1, 3).await.len(), 3, "none is delivered twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_waits_long_is_put_into_the_log_again_and_comes_once() {
    let fixture = Fixture::with("timerRollWindowSlot=1\n").await;
    fixture.sent("T", "long", "TIMER_DELAY_SEC\u{1}6").await;
    fixture.sent("T", "short", "TIMER_DELAY_MS\u{1}100").await;
    let stored = fixture.messages("T", 1, 2).await;
    assert_eq!(bodies(&stored), [&b"short"[..], b"long"]);
    let rolled = properties::decode(&stored[1].properties);
    let times: u32 =
        rolled.get("TIMER_ROLL_TIMES").expect("it was").parse().expect("a number of times");
    assert!(times >= 1, "{times}");
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(fixture.messages("T", 1, 2).await.len(), 2, "once");
}

async fn recall(fixture: &Fixture, topic: &str, handle: &str) -> Command {
    let header = RecallMessageRequest {
        producer_group: Some("P".into()),
        topic: topic.into(),
        recall_handle: handle.into(),
    };
    fixture.ask(Command::request_with(request::RECALL_MESSAGE, &header)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_taken_back_does_not_come() {
    let fixture = Fixture::with("recallMessageEnable=true\n").await;
    let at = (now() / 1_000 + 4) * 1_000 + 500;
    let timer = |key: &str| format!("TIMER_DELIVER_MS\u{1}{at}\u{2}UNIQ_KEY\u{1}{key}");
    let first = fixture.sent("T", "recalled", &timer("K1")).await;
    let handle = field(&first, "recallHandle").to_owned();
    fixture.sent("T", "stays", &timer("K2")).await;
    let answer = recall(&fixture, "T", &handle).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    assert_eq!((field(&answer, "msgId"), field(&answer, "MSG_REGION")), ("K1", "DefaultRegion"));
    // It is known after a restart too, in whatever order the three lie in the queue.
    let fixture = fixture.restarted("recallMessageEnable=true\n").await;
    let stored = fixture.messages("T", 1, 1).await;
    assert_eq!(bodies(&stored), [b"stays"]);
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(fixture.messages("T", 1, 1).await.len(), 1, "nor later");
    let late = recall(&fixture, "T", &handle).await;
    assert_eq!(late.code, response::ILLEGAL_OPERATION);
    assert_eq!(late.remark.as_deref(), Some("recall failed, timestamp invalid"));
}

#[tokio::test(flavor = "multi_thread")]
async fn handles_that_fit_nothing_are_refused() {
    let off = Fixture::new().await;
    let sent = off.sent("T", "m", "TIMER_DELAY_SEC\u{1}3600").await;
    let handle = field(&sent, "recallHandle").to_owned();
    assert_eq!(recall(&off, "T", &handle).await.code, response::NO_PERMISSION);
    let plain = off.sent("T", "m", "").await;
    assert!(plain.field("recallHandle").is_none(), "nothing to take back");
    let fixture = Fixture::with("recallMessageEnable=true\n").await;
    let header = send_header("U", "");
    fixture.ask(v2(&header, request::SEND_MESSAGE_V2, Bytes::from_static(b"m"))).await;
    for (topic, handle, code, text) in [
        ("T", &*handle, response::TOPIC_NOT_EXIST, "the topic[T] not exist"),
        ("U", &*handle, response::ILLEGAL_OPERATION, "topic not match"),
        ("U", "nonsense", response::ILLEGAL_OPERATION, "recall handle is invalid"),
        // "v1 U other 9 k"
        ("U", "djEgVSBvdGhlciA5IGs=", response::ILLEGAL_OPERATION, "of another broker"),
        // "v1 U b 9 k"
        ("U", "djEgVSBiIDkgaw==", response::ILLEGAL_OPERATION, "timestamp invalid"),
    ] {
        let answer = recall(&fixture, topic, handle).await;
        assert_eq!(answer.code, code, "{:?}", answer.remark);
        assert!(answer.remark.unwrap_or_default().contains(text), "{text}");
    }
}
