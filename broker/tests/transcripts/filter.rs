//! Filters by an SQL92 expression: codes 11 and 46.

use std::time::{Duration, Instant};

use protocol::{
    Command,
    body::QueryConsumeQueueResponseBody,
    code::{request, response},
    header::PullMessageRequest,
};

use crate::fixture::{Fixture, LIMIT, field, pull_header, pull_request, records};

const ENABLED: &str = "enablePropertyFilter=true\n";

fn tool(expression: &str, offset: i64) -> PullMessageRequest {
    PullMessageRequest {
        subscription: Some(expression.into()),
        expression_type: Some("SQL92".into()),
        ..pull_header("T", 0, offset)
    }
}

fn consumer(version: i64, offset: i64) -> PullMessageRequest {
    PullMessageRequest {
        consumer_group: "G".into(),
        sys_flag: 0,
        subscription: None,
        sub_version: version,
        ..pull_header("T", 0, offset)
    }
}

async fn filled() -> Fixture {
    let fixture = Fixture::with(ENABLED).await;
    for (body, a) in [("m0", 0), ("m1", 1), ("m2", 2), ("m3", 3)] {
        let tag = if a % 2 == 0 { "E" } else { "O" };
        fixture.sent("T", body, &format!("TAGS\u{1}{tag}\u{2}a\u{1}{a}")).await;
    }
    fixture.messages("T", 1, 4).await;
    fixture
}

async fn bodies(fixture: &Fixture, header: &PullMessageRequest) -> Vec<String> {
    let answer = fixture.ask(pull_request(header)).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    let text = |body: &[u8]| String::from_utf8(body.to_vec()).expect("text");
    records(&answer).iter().map(|record| text(&record.body)).collect()
}

async fn refused(fixture: &Fixture, header: &PullMessageRequest, code: i32, text: &str) {
    let answer = fixture.ask(pull_request(header)).await;
    assert_eq!(answer.code, code, "{:?}", answer.remark);
    let remark = answer.remark.unwrap_or_default();
    assert!(remark.contains(text), "{remark:?} lacks {text:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expression_in_the_request_filters_and_the_offset_moves_on() {
    let fixture = filled().await;
    assert_eq!(bodies(&fixture, &tool("a BETWEEN 1 AND 2", 0)).await, ["m1", "m2"]);
    assert_eq!(bodies(&fixture, &tool("TAGS IN ('E') AND a > 0", 0)).await, ["m2"]);
    let none = fixture.ask(pull_request(&tool("a > 7", 0))).await;
    assert_eq!(none.code, response::PULL_RETRY_IMMEDIATELY);
    assert_eq!(none.remark.as_deref(), Some("NO_MATCHED_MESSAGE"));
    assert_eq!(field(&none, "nextBeginOffset"), "4");
    // Longer than what is asked on the connection's own task.
    let long = format!("a = 1{}", " OR a = 2".repeat(60));
    assert_eq!(bodies(&fixture, &tool(&long, 0)).await, ["m1", "m2"]);
    let parse = response::SUBSCRIPTION_PARSE_FAILED;
    refused(&fixture, &tool("a >< 3", 0), parse, "at character 4 where a value").await;
    let other = PullMessageRequest { expression_type: Some("XPATH".into()), ..tool("a", 0) };
    refused(&fixture, &other, parse, "filter type \"XPATH\" is unknown").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions_of_heartbeats_count_by_their_version() {
    let fixture = filled().await;
    fixture.heartbeat_by_expression("G", "T", ("a > ", 1)).await;
    let missing = response::FILTER_DATA_NOT_EXIST;
    refused(&fixture, &consumer(1, 0), missing, "consumer filter data is not exist").await;
    fixture.heartbeat_by_expression("G", "T", ("a > 1", 2)).await;
    assert_eq!(bodies(&fixture, &consumer(2, 0)).await, ["m2", "m3"]);
    fixture.heartbeat_by_expression("G", "T", ("a < 1", 1)).await;
    assert_eq!(bodies(&fixture, &consumer(2, 0)).await, ["m2", "m3"], "an older one");
    let newer = response::SUBSCRIPTION_NOT_LATEST;
    refused(&fixture, &consumer(3, 0), newer, "subscription not latest").await;
    fixture.heartbeat_by_expression("G", "T", ("a < ", 3)).await;
    let outdated = response::FILTER_DATA_NOT_LATEST;
    refused(&fixture, &consumer(3, 0), outdated, "consumer filter data not latest").await;
    fixture.heartbeat_by_expression("G", "T", ("a < 1", 4)).await;
    assert_eq!(bodies(&fixture, &consumer(4, 0)).await, ["m0"]);
}

/// Code 321 says of each unit whether the group's filter lets its message through.
#[tokio::test(flavor = "multi_thread")]
async fn a_look_into_a_queue_tells_what_a_filter_lets_through() {
    let fixture = filled().await;
    let look = async |group: &str, index: &str, count: &str| {
        let asked = Command::request(request::QUERY_CONSUME_QUEUE)
            .with_field("topic", "T")
            .with_field("queueId", "0")
            .with_field("index", index)
            .with_field("count", count)
            .with_field("consumerGroup", group);
        let answer = fixture.ask(asked).await;
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
        let body = QueryConsumeQueueResponseBody::decode(&answer.body).expect("units");
        let passes: Vec<bool> = body.queue_data.iter().map(|unit| unit.eval).collect();
        (passes, body.filter_data)
    };
    let (passes, told) = look("G", "0", "9").await;
    assert_eq!((passes, told.as_deref()), (vec![false; 4], Some("G@T is not online!")));
    fixture.heartbeat_by_expression("G", "T", ("a BETWEEN 1 AND 2", 1)).await;
    let (passes, told) = look("G", "0", "9").await;
    assert_eq!(passes, [false, true, true, false]);
    let told = told.expect("a filter");
    assert!(told.contains(r#""expression": "a BETWEEN 1 AND 2""#), "{told}");
    fixture.heartbeat("H", "T", "E").await;
    assert_eq!(look("H", "1", "2").await, (vec![false, true], None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_pull_waits_for_a_message_that_passes() {
    let fixture = filled().await;
    fixture.heartbeat_by_expression("G", "T", ("a > 5", 1)).await;
    let address = fixture.broker.address().to_string();
    let connection = fixture.client.connection(&address).await.expect("connected");
    let held = PullMessageRequest { sys_flag: 2, suspend_timeout_millis: 15_000, ..consumer(1, 4) };
    let begun = Instant::now();
    let waiting = tokio::spawn(connection.call(pull_request(&held), LIMIT));
    fixture.sent("T", "m4", "a\u{1}4").await;
    fixture.messages("T", 1, 5).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished(), "a message that does not pass ends no wait");
    fixture.sent("T", "m6", "a\u{1}6").await;
    let answer = waiting.await.expect("sound").expect("an answer");
    assert!(begun.elapsed() < Duration::from_secs(10), "woken, not expired");
    assert_eq!((answer.code, field(&answer, "nextBeginOffset")), (0, "6"));
    assert_eq!(records(&answer)[0].body, "m6");
    let expires = PullMessageRequest { suspend_timeout_millis: 500, ..held };
    let expires = PullMessageRequest { queue_offset: 6, ..expires };
    let waiting = tokio::spawn(connection.call(pull_request(&expires), LIMIT));
    fixture.sent("T", "m1", "a\u{1}1").await;
    let answer = waiting.await.expect("sound").expect("an answer");
    assert_ne!(answer.code, 0);
    assert_eq!(field(&answer, "nextBeginOffset"), "7", "what was passed over is not read again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_hears_at_its_start_what_is_wrong_with_its_expression() {
    let fixture = Fixture::with(ENABLED).await;
    let check = |text: &str| {
        let body = format!(
            "{{\"clientId\":\"c\",\"group\":\"G\",\"subscriptionData\":{{\"expressionType\":\"SQL92\",\"subString\":\"{text}\",\"topic\":\"T\"}}}}"
        );
        Command::request(request::CHECK_CLIENT_CONFIG).with_body(body)
    };
    assert_eq!(fixture.ask(check("a > 3")).await.code, 0);
    let answer = fixture.ask(check("a >< 3 AND")).await;
    assert_eq!(answer.code, response::SUBSCRIPTION_PARSE_FAILED);
    assert_eq!(
        answer.remark.as_deref(),
        Some("filter expression has \"<\" at character 4 where a value is expected")
    );
}

/// Case 70: a body that says it is compressed and is not is nobody's business.
#[tokio::test(flavor = "multi_thread")]
async fn case_70_a_wrong_flag_of_compression_does_not_matter_to_filters() {
    let fixture = filled().await;
    let mut header = crate::fixture::send_header("T", "TAGS\u{1}E\u{2}a\u{1}9");
    header.sys_flag = 1;
    let send = crate::fixture::v2(&header, request::SEND_MESSAGE_V2, "plain".into());
    assert_eq!(fixture.ask(send).await.code, 0);
    fixture.messages("T", 1, 5).await;
    assert_eq!(bodies(&fixture, &tool("a = 9 OR a = 0", 0)).await, ["m0", "plain"]);
}
