//! Codes 10, 310 and 320.

use bytes::BytesMut;
use protocol::{
    Command, ExtFields,
    code::{request, response},
    header::Header,
    message::{
        batch::{self, BatchMessage},
        id::parse_offset_message_id,
        properties,
    },
};

use crate::fixture::{Fixture, field, send_header, v2};

#[tokio::test(flavor = "multi_thread")]
async fn a_first_send_makes_the_topic_and_answers_where_it_lies() {
    let fixture = Fixture::new().await;
    let answer =
        fixture.sent("T", "hello", "UNIQ_KEY\u{1}U1\u{2}TAGS\u{1}A\u{2}WAIT\u{1}true").await;
    assert_eq!((field(&answer, "queueId"), field(&answer, "queueOffset")), ("0", "0"));
    assert_eq!(field(&answer, "transactionId"), "U1");
    assert_eq!(field(&answer, "MSG_REGION"), "DefaultRegion");
    assert_eq!(field(&answer, "TRACE_ON"), "true");
    assert_eq!((answer.remark.as_deref(), answer.version), (None, 513));
    let (host, physical) = parse_offset_message_id(field(&answer, "msgId")).expect("an id");
    assert_eq!(host, fixture.broker.address());

    let answer = fixture.sent("T", "again", "UNIQ_KEY\u{1}U2").await;
    assert_eq!(field(&answer, "queueOffset"), "1");

    let stored = fixture.messages("T", 1, 2).await;
    assert_eq!(stored[0].physical_offset, physical);
    assert_eq!((stored[0].body.as_ref(), stored[1].body.as_ref()), (&b"hello"[..], &b"again"[..]));
    let kept = properties::decode(&stored[0].properties);
    assert_eq!(kept.get("TAGS"), Some("A"));
    assert_eq!(kept.get("CLUSTER"), Some("DefaultCluster"));
    assert_eq!(kept.get("WAIT"), None, "is between the producer and its broker");
    assert_eq!(stored[0].born_timestamp, 1_700_000_000_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_names_of_go_and_old_clients_are_read() {
    let fixture = Fixture::new().await;
    let header = protocol::header::SendMessageRequest { queue_id: -1, ..send_header("T", "") };
    let mut fields = ExtFields::new();
    header.encode(&mut fields);
    let mut request = Command::request(request::SEND_MESSAGE).with_body("m");
    request.ext_fields = Some(fields);
    let answer = fixture.ask(request).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    assert!(!field(&answer, "transactionId").is_empty(), "a unique key was made");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_stored_as_its_messages() {
    let fixture = Fixture::new().await;
    let messages: Vec<_> = (0..3)
        .map(|n| BatchMessage {
            flag: n,
            body: format!("body-{n}").into(),
            properties: format!("KEYS\u{1}k{n}\u{2}"),
        })
        .collect();
    let mut body = BytesMut::new();
    batch::encode(&messages, &mut body).expect("short");
    let header = protocol::header::SendMessageRequest { batch: Some(true), ..send_header("T", "") };
    let answer = fixture.ask(v2(&header, request::SEND_BATCH_MESSAGE, body.freeze())).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    assert_eq!(field(&answer, "queueOffset"), "0");
    let ids: Vec<_> = field(&answer, "msgId").split(',').map(str::to_owned).collect();
    assert_eq!(ids.len(), 3);
    assert_eq!(answer.field("transactionId"), None);
    let stored = fixture.messages("T", 1, 3).await;
    for (n, record) in stored.iter().enumerate() {
        assert_eq!(record.queue_offset, n as i64);
        assert_eq!(record.body, format!("body-{n}"));
        assert_eq!(record.flag, n as i32);
        let (_, physical) = parse_offset_message_id(&ids[n]).expect("an id");
        assert_eq!(record.physical_offset, physical);
        let key = format!("k{n}");
        assert_eq!(properties::find(&record.properties, "KEYS"), Some(key.as_str()));
        let found: Vec<_> =
            fixture.found("T", &key, false).await.into_iter().map(|one| one.body).collect();
        assert_eq!(found, [format!("body-{n}")], "by {key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_name_the_cause_in_javas_order() {
    let fixture = Fixture::with("maxMessageSize=100\n").await;
    let refused = |answer: &Command, code: i32, text: &str| {
        assert_eq!(answer.code, code, "{:?}", answer.remark);
        let remark = answer.remark.clone().unwrap_or_default();
        assert!(remark.contains(text), "{remark:?} lacks {text:?}");
    };
    let answer = fixture.send("bad topic", "m", "").await;
    refused(&answer, response::INVALID_PARAMETER, "bad topic");
    assert_eq!(field(&answer, "MSG_REGION"), "DefaultRegion");
    let answer = fixture.send("SCHEDULE_TOPIC_XXXX", "m", "").await;
    let text = "Sending message to topic[SCHEDULE_TOPIC_XXXX] is forbidden.";
    refused(&answer, response::NO_PERMISSION, text);
    let answer = fixture.send("rmq_sys_LEDGERMQ_JOURNAL", "m", "").await;
    refused(&answer, response::NO_PERMISSION, "forbidden");

    let header = protocol::header::SendMessageRequest {
        default_topic: "missing".into(),
        ..send_header("T", "")
    };
    let answer = fixture.ask(v2(&header, request::SEND_MESSAGE_V2, "m".into())).await;
    refused(&answer, response::TOPIC_NOT_EXIST, "topic[T] not exist, apply first please!\nSee ");
    let header = protocol::header::SendMessageRequest { queue_id: 99, ..send_header("T", "") };
    let answer = fixture.ask(v2(&header, request::SEND_MESSAGE_V2, "m".into())).await;
    refused(&answer, response::INVALID_PARAMETER, "request queueId[99] is illegal");
    let answer =
        fixture.ask(v2(&send_header("T", ""), request::SEND_MESSAGE_V2, vec![7; 101].into())).await;
    refused(&answer, response::MESSAGE_ILLEGAL, "msg body length limit 100B");
    let answer = fixture.send("T", "m", &format!("k\u{1}{}", "v".repeat(32_767))).await;
    refused(&answer, response::MESSAGE_ILLEGAL, "its properties have");
    let answer = fixture.ask(Command::request(request::SEND_MESSAGE_V2).with_body("m")).await;
    refused(&answer, response::SYSTEM_ERROR, "topic");
    let answer = fixture.send("T", "m", "DELAY\u{1}4abc").await;
    refused(&answer, response::SYSTEM_ERROR, "4abc");
}

#[tokio::test(flavor = "multi_thread")]
async fn oneway_sends_are_stored_and_not_answered() {
    let fixture = Fixture::new().await;
    fixture.sent("T", "first", "").await;
    let address = fixture.broker.address().to_string();
    let request = v2(&send_header("T", ""), request::SEND_MESSAGE_V2, "oneway".into());
    fixture.client.oneway(&address, request).await.expect("sent");
    let stored = fixture.messages("T", 1, 2).await;
    assert_eq!(stored[1].body, "oneway");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fast_port_takes_sends_and_no_pulls() {
    let fixture = Fixture::new().await;
    let address = fixture.broker.fast_address().to_string();
    let send = v2(&send_header("T", ""), request::SEND_MESSAGE_V2, "m".into());
    let call = fixture.client.call(&address, send, crate::fixture::LIMIT);
    assert_eq!(call.await.expect("an answer").code, 0);
    let pull = crate::fixture::pull_request(&crate::fixture::pull_header("T", 0, 0));
    let answer = fixture.client.call(&address, pull, crate::fixture::LIMIT).await.expect("one");
    assert_eq!(answer.code, response::REQUEST_CODE_NOT_SUPPORTED);
    assert_eq!(answer.remark.as_deref(), Some(" request type 11 not supported"));
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_codes_are_answered_as_java_does() {
    let fixture = Fixture::new().await;
    let answer = fixture.ask(Command::request(4711)).await;
    assert_eq!(answer.code, response::REQUEST_CODE_NOT_SUPPORTED);
    assert_eq!(answer.remark.as_deref(), Some(" request type 4711 not supported"));
    let answer = fixture.ask(Command::request(301)).await;
    assert_eq!(answer.code, response::REQUEST_CODE_NOT_SUPPORTED);
    assert!(answer.remark.is_some_and(|remark| remark.starts_with(" request type 301 not")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_beyond_its_times_goes_to_the_dead_letters() {
    let fixture = Fixture::new().await;
    let header = |times| protocol::header::SendMessageRequest {
        reconsume_times: Some(times),
        max_reconsume_times: Some(2),
        ..send_header("%RETRY%G", "RETRY_TOPIC\u{1}T\u{2}DELAY\u{1}1")
    };
    let answer = fixture.ask(v2(&header(3), request::SEND_MESSAGE_V2, "dead".into())).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    let dead = fixture.messages("%DLQ%G", 1, 1).await;
    assert_eq!(dead[0].body, "dead");
    assert_eq!(properties::find(&dead[0].properties, "DELAY"), Some("-1"));
    let answer = fixture.ask(v2(&header(2), request::SEND_MESSAGE_V2, "again".into())).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    let retried = fixture.messages("%RETRY%G", 1, 1).await;
    assert_eq!((retried[0].body.as_ref(), retried[0].reconsume_times), (&b"again"[..], 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_of_one_connection_keep_their_order() {
    let fixture = Fixture::new().await;
    fixture.sent("T", "first", "").await;
    let address = fixture.broker.address().to_string();
    let connection = fixture.client.connection(&address).await.expect("connected");
    let calls: Vec<_> = (0..500)
        .map(|n| {
            let body = format!("{n}").into();
            let request = v2(&send_header("T", ""), request::SEND_MESSAGE_V2, body);
            connection.call(request, crate::fixture::LIMIT)
        })
        .collect();
    for (n, call) in calls.into_iter().enumerate() {
        let answer = call.await.expect("an answer");
        assert_eq!(field(&answer, "queueOffset"), (n + 1).to_string());
    }
    let stored = fixture.messages_from("T", 480, 21).await;
    assert_eq!(stored[10].body, "489");
}
