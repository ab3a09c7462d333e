//! Codes 11, 361 and 46.

use std::time::{Duration, Instant};

use protocol::{
    Command,
    code::{request, response},
    header::{PullMessageRequest, QueryConsumerOffsetRequest},
};

use crate::fixture::{Fixture, LIMIT, field, pull_header, pull_request, records};

const SUSPEND: i32 = 2;
const COMMIT: i32 = 1;

fn consumer(queue: i32, offset: i64) -> PullMessageRequest {
    PullMessageRequest {
        consumer_group: "G".into(),
        sys_flag: 0,
        subscription: None,
        sub_version: 1,
        ..pull_header("T", queue, offset)
    }
}

fn window(answer: &Command) -> (&str, &str, &str, &str) {
    (
        field(answer, "nextBeginOffset"),
        field(answer, "minOffset"),
        field(answer, "maxOffset"),
        field(answer, "suggestWhichBrokerId"),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn statuses_have_javas_codes_and_all_four_fields() {
    let fixture = Fixture::new().await;
    for body in ["a", "b", "c"] {
        fixture.sent("T", body, "").await;
    }
    fixture.messages("T", 1, 3).await;
    let answer = fixture.pull("T", 0, 1).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (0, Some("FOUND")));
    assert_eq!(window(&answer), ("3", "0", "3", "0"));
    assert_eq!(records(&answer).len(), 2);
    let answer = fixture.pull("T", 0, 3).await;
    assert_eq!(answer.code, response::PULL_NOT_FOUND);
    assert_eq!(answer.remark.as_deref(), Some("OFFSET_OVERFLOW_ONE"));
    assert_eq!(window(&answer), ("3", "0", "3", "0"));
    let answer = fixture.pull("T", 0, 9).await;
    assert_eq!(answer.code, response::PULL_OFFSET_MOVED);
    assert_eq!(window(&answer), ("3", "0", "3", "0"));
    let answer = fixture.pull("T", 1, 0).await;
    assert_eq!(answer.code, response::PULL_NOT_FOUND, "an empty queue");
    let answer = fixture.pull("T", 1, 5).await;
    assert_eq!(answer.code, response::PULL_OFFSET_MOVED, "an empty queue has no offset 5");
    assert_eq!(window(&answer), ("0", "0", "0", "0"));
    let one = PullMessageRequest { max_msg_nums: 0, ..pull_header("T", 0, 0) };
    assert_eq!(records(&fixture.ask(pull_request(&one)).await).len(), 1, "0 means one");
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_come_in_javas_order() {
    let fixture = Fixture::new().await;
    fixture.sent("T", "a", "").await;
    let refused = async |header: PullMessageRequest, code: i32, text: &str| {
        let answer = fixture.ask(pull_request(&header)).await;
        assert_eq!(answer.code, code, "{:?}", answer.remark);
        let remark = answer.remark.unwrap_or_default();
        assert!(remark.contains(text), "{remark:?} lacks {text:?}");
    };
    let tool = || pull_header("T", 0, 0);
    let group = PullMessageRequest { consumer_group: "bad group".into(), ..tool() };
    refused(group, 26, "subscription group [bad group] does not exist, \nSee ").await;
    let topic = PullMessageRequest { topic: "none".into(), ..tool() };
    refused(topic, 17, "topic[none] not exist, apply first please! \nSee ").await;
    let queue = PullMessageRequest { queue_id: 4, ..tool() };
    refused(queue, 29, "queueId[4] is illegal, topic:[T]").await;
    let sql = PullMessageRequest { expression_type: Some("SQL92".into()), ..tool() };
    refused(sql, 1, "The broker does not support consumer to filter message by SQL92").await;
    refused(consumer(0, 0), 24, "the consumer's group info not exist\nSee ").await;
    fixture.heartbeat("G", "other", "*").await;
    refused(consumer(0, 0), 24, "the consumer's subscription not exist\nSee ").await;
    fixture.heartbeat("G", "T", "*").await;
    let newer = PullMessageRequest { sub_version: 2, ..consumer(0, 0) };
    refused(newer, 25, "the consumer's subscription not latest").await;
    assert_eq!(fixture.ask(pull_request(&consumer(0, 0))).await.code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn tags_are_filtered_and_the_offset_moves_on() {
    let fixture = Fixture::new().await;
    for (body, tag) in [("a", "A"), ("b", "B"), ("c", "A")] {
        fixture.sent("T", body, &format!("TAGS\u{1}{tag}")).await;
    }
    fixture.messages("T", 1, 3).await;
    fixture.heartbeat("G", "T", "A").await;
    let answer = fixture.ask(pull_request(&consumer(0, 0))).await;
    let bodies: Vec<_> = records(&answer).into_iter().map(|record| record.body).collect();
    assert_eq!(bodies, ["a", "c"]);
    fixture.heartbeat("G2", "T", "X || Y").await;
    let nothing = PullMessageRequest { consumer_group: "G2".into(), ..consumer(0, 0) };
    let answer = fixture.ask(pull_request(&nothing)).await;
    assert_eq!(answer.code, response::PULL_RETRY_IMMEDIATELY);
    assert_eq!(field(&answer, "nextBeginOffset"), "3");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_pull_is_woken_by_a_message_that_matches() {
    let fixture = Fixture::new().await;
    fixture.sent("T", "a", "TAGS\u{1}A").await;
    fixture.messages("T", 1, 1).await;
    fixture.heartbeat("G", "T", "A").await;
    let address = fixture.broker.address().to_string();
    let connection = fixture.client.connection(&address).await.expect("connected");
    let held =
        PullMessageRequest { sys_flag: SUSPEND, suspend_timeout_millis: 15_000, ..consumer(0, 1) };
    let begun = Instant::now();
    let waiting = tokio::spawn(connection.call(pull_request(&held), LIMIT));
    fixture.sent("T", "b", "TAGS\u{1}B").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished(), "a message with another tag wakes nobody");
    fixture.sent("T", "c", "TAGS\u{1}A").await;
    let answer = waiting.await.expect("sound").expect("an answer");
    assert!(begun.elapsed() < Duration::from_secs(10), "woken, not expired");
    assert_eq!(answer.code, 0);
    assert_eq!(records(&answer)[0].body, "c");
    assert_eq!(field(&answer, "nextBeginOffset"), "3");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_pull_expires_at_the_asked_time() {
    let fixture = Fixture::new().await;
    fixture.sent("T", "a", "").await;
    fixture.messages("T", 1, 1).await;
    let held = PullMessageRequest {
        sys_flag: SUSPEND | 4,
        suspend_timeout_millis: 300,
        ..pull_header("T", 0, 1)
    };
    let begun = Instant::now();
    let answer = fixture.ask(pull_request(&held)).await;
    assert_eq!(answer.code, response::PULL_NOT_FOUND);
    assert!(begun.elapsed() >= Duration::from_millis(300), "{:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_commits_the_offset_that_it_carries() {
    let fixture = Fixture::new().await;
    fixture.sent("T", "a", "").await;
    fixture.messages("T", 1, 1).await;
    fixture.heartbeat("G", "T", "*").await;
    let commits = PullMessageRequest { sys_flag: COMMIT, commit_offset: 1, ..consumer(0, 1) };
    fixture.ask(pull_request(&commits)).await;
    let query = QueryConsumerOffsetRequest {
        consumer_group: "G".into(),
        topic: "T".into(),
        queue_id: 0,
        set_zero_if_not_found: None,
    };
    let query = Command::request_with(request::QUERY_CONSUMER_OFFSET, &query);
    let answer = fixture.ask(query).await;
    assert_eq!((answer.code, field(&answer, "offset")), (0, "1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn lite_pulls_are_pulls() {
    let fixture = Fixture::new().await;
    fixture.sent("T", "a", "").await;
    fixture.messages("T", 1, 1).await;
    let lite = Command::request_with(request::LITE_PULL_MESSAGE, &pull_header("T", 0, 0));
    assert_eq!(records(&fixture.ask(lite).await).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_that_cannot_be_served_are_named_before_they_are_used() {
    let fixture = Fixture::new().await;
    let check = |kind: &str| {
        let body = format!(
            "{{\"clientId\":\"c\",\"subscriptionData\":{{\"expressionType\":\"{kind}\"}}}}"
        );
        Command::request(request::CHECK_CLIENT_CONFIG).with_body(body)
    };
    assert_eq!(fixture.ask(check("TAG")).await.code, 0);
    assert_eq!(fixture.ask(check("SQL92")).await.code, 1);
    assert_eq!(fixture.ask(Command::request(request::CHECK_CLIENT_CONFIG)).await.code, 0);
}
