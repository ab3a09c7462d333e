//! Requests that are served and that no official client was recorded with: by hand, with what Java's
//! headers and bodies of these codes have.

use protocol::{Command, code::request};
use serde_json::{Value, json};

use crate::rig::{Rig, recorded};

/// A code with the fields of its header and the body that a sound client sends.
struct Unrecorded {
    code: i32,
    fields: &'static [(&'static str, &'static str)],
    body: &'static str,
}

const fn of(
    code: i32,
    fields: &'static [(&'static str, &'static str)],
    body: &'static str,
) -> Unrecorded {
    Unrecorded { code, fields, body }
}

/// What was not recorded. A code without fields gets one that nobody knows.
const UNRECORDED: &[Unrecorded] = &[
    of(
        request::UPDATE_AND_CREATE_TOPIC_LIST,
        &[UNKNOWN],
        r#"{"topicConfigList":[{"topicName":"listed","readQueueNums":2,"writeQueueNums":2,"perm":6,
            "topicFilterType":"SINGLE_TAG","topicSysFlag":0,"order":false,
            "attributes":{"+message.type":"NORMAL"}}]}"#,
    ),
    of(request::GET_BROKER_CONFIG, &[UNKNOWN], ""),
    of(
        request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        &[UNKNOWN],
        r#"{"groupConfigList":[{"groupName":"listed","consumeEnable":true,
            "consumeFromMinEnable":true,"consumeBroadcastEnable":true,"consumeMessageOrderly":false,
            "retryQueueNums":1,"retryMaxTimes":16,"brokerId":0,"whichBrokerWhenConsumeSlowly":1,
            "notifyConsumerIdsChangedEnable":true,"groupSysFlag":0,"consumeTimeoutMinute":15,
            "groupRetryPolicy":{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000,5000]}},
            "subscriptionDataSet":[{"topic":"listed","expressionType":"TAG","expression":"*",
            "version":1}],"attributes":{"+priority.factor":"10"}}]}"#,
    ),
    of(request::GET_SYSTEM_TOPIC_LIST_FROM_BROKER, &[UNKNOWN], ""),
    of(request::CLEAN_EXPIRED_CONSUMEQUEUE, &[UNKNOWN], ""),
    of(request::CLEAN_UNUSED_TOPIC, &[UNKNOWN], ""),
    of(
        request::QUERY_CONSUME_QUEUE,
        &[
            ("topic", "alive"),
            ("queueId", "0"),
            ("index", "0"),
            ("count", "10"),
            ("consumerGroup", "TOOLS_CONSUMER"),
        ],
        "",
    ),
    of(request::DELETE_EXPIRED_COMMITLOG, &[UNKNOWN], ""),
    of(
        request::NOTIFY_MIN_BROKER_ID_CHANGE,
        &[
            ("minBrokerId", "0"),
            ("brokerName", "b"),
            ("minBrokerAddr", "127.0.0.1:10911"),
            ("offlineBrokerAddr", "127.0.0.1:10911"),
            ("haBrokerAddr", "127.0.0.1:10912"),
        ],
        "",
    ),
    of(request::RESET_MASTER_FLUSH_OFFSET, &[("masterFlushOffset", "0")], ""),
    of(request::UPDATE_COLD_DATA_FLOW_CTR_CONFIG, &[UNKNOWN], "TOOLS_CONSUMER=1000\n"),
    of(request::REMOVE_COLD_DATA_FLOW_CTR_CONFIG, &[UNKNOWN], "TOOLS_CONSUMER"),
    of(request::SET_COMMITLOG_READ_MODE, &[("READ_AHEAD_MODE", "0")], ""),
    of(request::POP_ROLLBACK, &[UNKNOWN], ""),
];

const UNKNOWN: (&str, &str) = ("nobodyKnowsIt", "1");

/// The requests of the table, as recorded ones are.
pub(crate) fn unrecorded() -> Vec<Command> {
    let request = |line: &Unrecorded| {
        let request = Command::request(line.code).with_body(line.body);
        line.fields.iter().fold(request, |request, (name, value)| request.with_field(name, *value))
    };
    UNRECORDED.iter().map(request).collect()
}

/// The request with each value of its JSON body missing, then with each of another kind; none where
/// its body is no JSON.
pub(crate) fn body_mutations(request: &Command) -> Vec<Command> {
    let Ok(body) = serde_json::from_slice::<Value>(&request.body) else { return Vec::new() };
    let mut places = Vec::new();
    pointers(&body, String::new(), &mut places);
    let with = |body: &Value| request.clone().with_body(body.to_string());
    let mut all = Vec::new();
    for place in places {
        for value in hostile_json() {
            let mut changed = body.clone();
            if let Some(at) = changed.pointer_mut(&place) {
                *at = value;
            }
            all.push(with(&changed));
        }
        let mut without = body.clone();
        remove(&mut without, &place);
        all.push(with(&without));
    }
    all
}

fn hostile_json() -> Vec<Value> {
    let long = "x".repeat(10_000);
    vec![
        Value::Null,
        json!(-1),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(1e300),
        json!(true),
        json!(""),
        json!("abc"),
        json!("../../evil"),
        json!("a\u{0}b"),
        json!("%RETRY%"),
        json!(long),
        json!([]),
        json!([[[]]]),
        json!({}),
        json!({ "../../evil": { "a": [1] } }),
    ]
}

/// The JSON pointers (RFC 6901) of all values below this one.
fn pointers(value: &Value, at: String, all: &mut Vec<String>) {
    let mut note = |key: &str, value: &Value| {
        let place = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
        all.push(place.clone());
        pointers(value, place, all);
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| note(key, value)),
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(nth, value)| note(&nth.to_string(), value));
        }
        _ => {}
    }
}

fn remove(body: &mut Value, place: &str) {
    let Some((parent, key)) = place.rsplit_once('/') else { return };
    match body.pointer_mut(parent) {
        Some(Value::Object(fields)) => {
            fields.remove(&key.replace("~1", "/").replace("~0", "~"));
        }
        Some(Value::Array(values)) => {
            if let Ok(nth) = key.parse() {
                values.remove(nth);
            }
        }
        _ => {}
    }
}

/// Which codes are served the broker itself says: it declines all others by their number.
#[tokio::test(flavor = "multi_thread")]
async fn every_code_that_is_served_was_recorded_or_is_in_the_table() {
    let rig = Rig::new("").await;
    let mut served = Vec::new();
    for (code, _) in request::ALL {
        let remark = rig.ask(Command::request(*code)).await.remark.unwrap_or_default();
        if !remark.contains(&format!("request type {code} not supported")) {
            served.push(*code);
        }
    }
    assert!(served.len() > 80, "only {} codes are served", served.len());
    let known: Vec<i32> = recorded().iter().map(|request| request.code).collect();
    let by_hand: Vec<i32> = UNRECORDED.iter().map(|line| line.code).collect();
    let missing: Vec<_> =
        served.iter().filter(|code| !known.contains(code) && !by_hand.contains(code)).collect();
    assert!(missing.is_empty(), "add these codes to UNRECORDED: {missing:?}");
    let needless: Vec<_> =
        by_hand.iter().filter(|code| known.contains(code) || !served.contains(code)).collect();
    assert!(needless.is_empty(), "recorded, or not served any more: {needless:?}");
    rig.end().await;
}
