//! Header fields and bodies that no sound client sends.

use bytes::Bytes;
use protocol::{
    Command, ExtFields,
    code::{request, response},
    frame::HEADER_LIMIT,
    message::sys_flag::{TRANSACTION_COMMIT, TRANSACTION_ROLLBACK},
};

use crate::{
    rig::{Rig, recorded},
    unrecorded::{body_mutations, unrecorded},
};

/// Pulls that wait would only slow the test down; `peers.rs` has some.
fn without_waiting(mut request: Command) -> Command {
    if let Some(fields) = request.ext_fields.as_mut()
        && fields.get("suspendTimeoutMillis").is_some()
    {
        fields.insert("sysFlag", "4");
        fields.insert("suspendTimeoutMillis", "0");
    }
    request.flag = 0;
    request
}

/// Values for a field of any type.
fn hostile_values() -> Vec<String> {
    let mut values: Vec<String> = [
        "",
        "abc",
        "-1",
        "2147483648",
        "9223372036854775807",
        "-9223372036854775808",
        "1e9",
        "true",
        "../../../../evil",
        "..",
        "%RETRY%../evil",
        "a\0b",
        "%RETRY%",
        "\u{1}\u{2}\u{1}",
        "\u{6d88}\u{606f}\u{1f980}",
    ]
    .map(str::to_owned)
    .into();
    values.push("x".repeat(10_000));
    values
}

/// As long as a value can be beside the other fields of a recorded request.
fn longest_value() -> String {
    "x".repeat(HEADER_LIMIT - (16 << 10))
}

/// The request with each of its fields missing, then with each of these values.
fn mutations(request: &Command, values: &[String]) -> Vec<Command> {
    let Some(fields) = &request.ext_fields else { return Vec::new() };
    let mut all = Vec::new();
    for (name, _) in fields.iter() {
        let others = || fields.iter().filter(|(other, _)| *other != name);
        let rest: ExtFields =
            others().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let with = |fields: ExtFields| Command { ext_fields: Some(fields), ..request.clone() };
        for value in values {
            let mut fields = rest.clone();
            fields.insert(name, value.clone());
            all.push(with(fields));
        }
        all.push(with(rest));
    }
    all
}

fn hostile_bodies() -> Vec<Bytes> {
    let random: Vec<u8> =
        (0..1024_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    vec![
        Bytes::new(),
        random.into(),
        "[".repeat(100_000).into(),
        "{\"a\":".repeat(100_000).into(),
        "[1,2,{\"topic\":[]}]".into(),
        "\"text\"".into(),
        "null".into(),
        concat!(
            r#"{"topic":{},"groupName":7,"clientID":[],"consumerDataSet":{"a":1},"#,
            r#""producerDataSet":"x","mqSet":1,"topicConfigTable":[],"offsetTable":null}"#
        )
        .into(),
        concat!(
            r#"{"clientID":"../c","consumerGroup":"../../g","clientId":"\u0000","#,
            r#""groupName":"../../evil","consumerDataSet":[{"groupName":"../../evil","#,
            r#""consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","#,
            r#""subscriptionDataSet":[{"topic":"../../evil","subString":"*"}]}],"#,
            r#""producerDataSet":[{"groupName":"../../evil"}],"#,
            r#""mqSet":[{"topic":"../../evil","brokerName":"b","queueId":-2147483648}]}"#
        )
        .into(),
    ]
}

/// Whether this is the word of a producer that does not know yet how a transaction ends: as in Java
/// nobody answers that.
fn is_undecided(request: &Command) -> bool {
    let end = request.ext_fields.as_ref().and_then(|fields| fields.get("commitOrRollback"));
    let end = end.and_then(|text| text.parse::<i32>().ok());
    request.code == request::END_TRANSACTION
        && end.is_some_and(|end| end != TRANSACTION_COMMIT && end != TRANSACTION_ROLLBACK)
}

/// Asks all of them and looks at the answers. Only an undecided end may have none: one that misses
/// another field is refused.
async fn all_are_clear(rig: &Rig, requests: Vec<Command>) {
    let (undecided, requests): (Vec<_>, Vec<_>) = requests.into_iter().partition(is_undecided);
    for (request, answer) in undecided.iter().zip(rig.answers_if_any(&undecided).await) {
        answer.iter().for_each(|answer| is_clear(request, answer));
    }
    let answers = rig.ask_all(requests.clone()).await;
    for (request, answer) in requests.iter().zip(&answers) {
        is_clear(request, answer);
    }
}

/// An answer that a person or a client can work with.
fn is_clear(request: &Command, answer: &Command) {
    assert!(answer.is_response(), "{request:?}: {answer:?}");
    if answer.code == response::SUCCESS {
        return;
    }
    let remark = answer.remark.as_deref().unwrap_or_default();
    // What a pull answers beside messages needs no words: its header says where to go on.
    let of_pull = answer.field("nextBeginOffset").is_some();
    assert!(of_pull || !remark.is_empty(), "{request:?}: {answer:?}");
    for fault in ["failed", "dropped", "panicked"] {
        assert!(!remark.contains(&format!("handler {fault}")), "{request:?}: {remark}");
        assert!(!remark.contains(&format!("it was {fault}")), "{request:?}: {remark}");
    }
    assert!(remark.len() < 5_000, "{request:?}: a remark of {} bytes", remark.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn s_23_every_field_of_every_recorded_request_may_be_wrong() {
    let rig = Rig::new("").await;
    let values = hostile_values();
    for request in recorded() {
        all_are_clear(&rig, mutations(&without_waiting(request), &values)).await;
        rig.others_are_served().await;
    }
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s_23_every_field_of_every_request_that_was_not_recorded_may_be_wrong() {
    let rig = Rig::new("").await;
    let values = hostile_values();
    for request in unrecorded() {
        all_are_clear(&rig, mutations(&request, &values)).await;
        all_are_clear(&rig, body_mutations(&request)).await;
        rig.others_are_served().await;
    }
    rig.end().await;
}

/// A header may have a megabyte, and one field may fill it.
#[tokio::test(flavor = "multi_thread")]
async fn s_23_a_field_may_be_as_long_as_a_header_can_be() {
    let rig = Rig::new("").await;
    let values = [longest_value()];
    for request in recorded().into_iter().map(without_waiting).chain(unrecorded()) {
        all_are_clear(&rig, mutations(&request, &values)).await;
    }
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s_23_every_code_takes_any_body_with_and_without_its_fields() {
    let rig = Rig::new("").await;
    let mut requests = Vec::new();
    for body in hostile_bodies() {
        for (code, _) in request::ALL {
            requests.push(Command::request(*code).with_body(body.clone()));
        }
        for request in recorded().into_iter().chain(unrecorded()) {
            requests.push(without_waiting(request).with_body(body.clone()));
        }
    }
    all_are_clear(&rig, requests).await;
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_names_the_field_and_its_value() {
    let rig = Rig::new("").await;
    rig.others_are_served().await;
    let fields = [
        (request::PULL_MESSAGE, "queueId"),
        (request::PULL_MESSAGE, "queueOffset"),
        (request::QUERY_CONSUMER_OFFSET, "queueId"),
        (request::UPDATE_CONSUMER_OFFSET, "commitOffset"),
        (request::SEARCH_OFFSET_BY_TIMESTAMP, "timestamp"),
        (request::GET_MAX_OFFSET, "queueId"),
        (request::VIEW_MESSAGE_BY_ID, "offset"),
        (request::UPDATE_AND_CREATE_TOPIC, "readQueueNums"),
        (request::CONSUMER_SEND_MSG_BACK, "delayLevel"),
        (request::SEND_MESSAGE_V2, "e"),
        (request::QUERY_MESSAGE, "maxNum"),
    ];
    for (code, name) in fields {
        let request = recorded().into_iter().find(|request| {
            request.code == code
                && request.ext_fields.as_ref().is_some_and(|fields| fields.get(name).is_some())
        });
        let mut request = without_waiting(request.unwrap_or_else(|| panic!("{code} {name}")));
        request.ext_fields.as_mut().expect("fields").insert(name, "12abc");
        let answer = rig.ask(request).await;
        let remark = answer.remark.unwrap_or_default();
        assert_ne!(answer.code, response::SUCCESS, "{code} {name}");
        let names = |part: &str| remark.contains(part);
        // A send's one-letter field is told by its long name or its letter.
        let field = names(&format!("`{name}`")) || (name == "e" && names("`queueId`"));
        assert!(field && names("12abc"), "{code} {name}: {remark}");
    }
    rig.end().await;
}
