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
    let header = ConsumerSendMsgBackRequest {
        offset: message.physical_offset,
        group: "G".into(),
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

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_message_can_be_given_back() {
    let fixture = Fixture::with("messageDelayLevel=1s\n").await;
    let send = |length: usize| v2(&send_header("T", ""), SEND_MESSAGE_V2, vec![7; length].into());
    let most = 4 << 20;
    let answer = fixture.ask(send(most)).await;
    assert_eq!(answer.code, response::MESSAGE_ILLEGAL);
    assert!(answer.remark.is_some_and(|remark| remark.contains("it has")));
    let answer = fixture.ask(send(most - 2_000)).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    let first = fixture.messages("T", 1, 1).await.remove(0);
    let answer = send_back(&fixture, &first, 0, 16).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    let retried = fixture.messages("%RETRY%G", 1, 1).await.remove(0);
    assert_eq!(retried.body, first.body);
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
