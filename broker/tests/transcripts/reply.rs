//! Request and reply: codes 324 and 325, and what the requester gets by 326.

use protocol::{
    Command, ExtFields,
    code::{request, response},
    header::{ReplyMessageRequest, SendMessageRequest},
    message::properties,
};

use crate::{
    fixture::{Fixture, field, send_header, v2},
    peer::Peer,
    transaction::refused,
};

const TOPIC: &str = "DefaultCluster_REPLY_TOPIC";
const REPLY: &str =
    "MSG_TYPE\u{1}reply\u{2}CORRELATION_ID\u{1}c1\u{2}REPLY_TO_CLIENT\u{1}127.0.0.1@7\u{2}";

fn header(properties: &str) -> SendMessageRequest {
    SendMessageRequest { sys_flag: 1, flag: 3, ..send_header(TOPIC, properties) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_reaches_its_requester_and_is_stored() {
    let fixture = Fixture::new().await;
    let requester = Peer::producer(&fixture.broker.address().to_string(), "127.0.0.1@7").await;
    let code = request::SEND_REPLY_MESSAGE_V2;
    let answer = fixture.ask(v2(&header(REPLY), code, "pong".into())).await;
    assert_eq!((answer.code, field(&answer, "queueId")), (0, "0"), "{:?}", answer.remark);
    assert_eq!((field(&answer, "queueOffset"), field(&answer, "TRACE_ON")), ("0", "true"));
    assert_eq!(answer.field("transactionId"), None);

    let pushed = requester.heard(request::PUSH_REPLY_MESSAGE_TO_CLIENT, 0).await;
    let told: ReplyMessageRequest = pushed.header().expect("its header");
    assert_eq!(pushed.body, "pong");
    assert_eq!((told.topic.as_str(), told.sys_flag, told.flag), (TOPIC, 1, 3));
    assert_eq!(told.store_host, fixture.broker.address().to_string());
    let kept = properties::decode(&told.properties.expect("properties"));
    assert_eq!(kept.get("CORRELATION_ID"), Some("c1"));
    assert!(kept.get("PUSH_REPLY_TIME").is_some());

    let stored = fixture.messages(TOPIC, 1, 1).await.remove(0);
    assert_eq!((&stored.body[..], stored.sys_flag), (&b"pong"[..], 1));
    assert_eq!(properties::decode(&stored.properties).get("CORRELATION_ID"), Some("c1"));

    // The long names, as Go writes them.
    let mut fields = ExtFields::new();
    header(REPLY).encode_for(request::SEND_REPLY_MESSAGE, &mut fields);
    let mut long = Command::request(request::SEND_REPLY_MESSAGE).with_body("again");
    long.ext_fields = Some(fields);
    assert_eq!(fixture.ask(long).await.code, 0);
    let pushed = requester.heard(request::PUSH_REPLY_MESSAGE_TO_CLIENT, 1).await;
    assert_eq!(pushed.body, "again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_nobody_takes_is_told_so() {
    let fixture = Fixture::with("storeReplyMessageEnable=false\n").await;
    let code = request::SEND_REPLY_MESSAGE_V2;
    let reply = |properties: &str| fixture.ask(v2(&header(properties), code, "pong".into()));
    let text = "push reply message fail, channel of <127.0.0.1@7> not found.";
    refused(&reply(REPLY).await, response::SYSTEM_ERROR, text);
    let text = "reply message properties[REPLY_TO_CLIENT] is null";
    refused(&reply("CORRELATION_ID\u{1}c1").await, response::SYSTEM_ERROR, text);

    let requester = Peer::producer(&fixture.broker.address().to_string(), "127.0.0.1@7").await;
    requester.answer_with(response::SYSTEM_ERROR);
    let text = "push reply message to 127.0.0.1@7fail.";
    refused(&reply(REPLY).await, response::SYSTEM_ERROR, text);
    requester.answer_with(response::SUCCESS);
    let answer = reply(REPLY).await;
    assert_eq!((answer.code, field(&answer, "msgId")), (0, "0"), "it was not stored");
    assert_ne!(fixture.pull(TOPIC, 0, 0).await.code, 0);
}
