//! Every recorded body decodes, and encodes back to the same content.

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use protocol::{
    body::*,
    code::request::*,
    header::{RegisterBrokerRequest, SendMessageRequest, SendMessageResponse},
    json::{self, Value},
    message::{batch, id, properties, record},
    properties_text,
};

use crate::data::recorded;

type Again = fn(&[u8]) -> Result<Bytes, BodyError>;

/// A line per body: read it and write it again.
macro_rules! again {
    ($class:ident) => {
        |body| $class::decode(body).map(|value| value.encode())
    };
}

fn requests(code: i32) -> Option<Again> {
    Some(match code {
        HEART_BEAT => again!(HeartbeatData),
        LOCK_BATCH_MQ => again!(LockBatchRequestBody),
        UNLOCK_BATCH_MQ => again!(UnlockBatchRequestBody),
        CHECK_CLIENT_CONFIG => again!(CheckClientRequestBody),
        REGISTER_BROKER => again!(RegisterBrokerBody),
        UPDATE_AND_CREATE_SUBSCRIPTIONGROUP => again!(SubscriptionGroupConfig),
        RESET_CONSUMER_CLIENT_OFFSET => again!(ResetOffsetBody),
        QUERY_DATA_VERSION => again!(DataVersion),
        QUERY_ASSIGNMENT => again!(QueryAssignmentRequestBody),
        SET_MESSAGE_REQUEST_MODE => again!(SetMessageRequestModeRequestBody),
        _ => return None,
    })
}

fn responses(code: i32) -> Option<Again> {
    Some(match code {
        GET_ALL_TOPIC_CONFIG => again!(TopicConfigSerializeWrapper),
        GET_BROKER_RUNTIME_INFO | REGISTER_BROKER | GET_KVLIST_BY_NAMESPACE => again!(KvTable),
        GET_CONSUMER_LIST_BY_GROUP => again!(GetConsumerListByGroupResponseBody),
        LOCK_BATCH_MQ => again!(LockBatchResponseBody),
        GET_ALL_CONSUMER_OFFSET => again!(ConsumerOffsetSerializeWrapper),
        GET_ALL_DELAY_OFFSET => again!(DelayOffsetSerializeWrapper),
        GET_TIMER_METRICS => again!(TimerMetricsSerializeWrapper),
        GET_ROUTEINFO_BY_TOPIC => again!(TopicRouteData),
        GET_BROKER_CLUSTER_INFO => again!(ClusterInfo),
        GET_ALL_SUBSCRIPTIONGROUP_CONFIG => again!(SubscriptionGroupWrapper),
        GET_TOPIC_STATS_INFO => again!(TopicStatsTable),
        GET_CONSUMER_CONNECTION_LIST => again!(ConsumerConnection),
        GET_PRODUCER_CONNECTION_LIST => again!(ProducerConnection),
        GET_ALL_TOPIC_LIST_FROM_NAMESERVER
        | GET_SYSTEM_TOPIC_LIST_FROM_NS
        | QUERY_TOPICS_BY_CONSUMER => again!(TopicList),
        GET_CONSUME_STATS => again!(ConsumeStats),
        INVOKE_BROKER_TO_RESET_OFFSET => again!(ResetOffsetBody),
        INVOKE_BROKER_TO_GET_CONSUMER_STATUS | GET_CONSUMER_STATUS_FROM_CLIENT => {
            again!(GetConsumerStatusBody)
        }
        QUERY_TOPIC_CONSUME_BY_WHO => again!(GroupList),
        QUERY_CONSUME_TIME_SPAN => again!(QueryConsumeTimeSpanBody),
        GET_CONSUMER_RUNNING_INFO => again!(ConsumerRunningInfo),
        QUERY_CORRECTION_OFFSET => again!(QueryCorrectionOffsetBody),
        CONSUME_MESSAGE_DIRECTLY => again!(ConsumeMessageDirectlyResult),
        VIEW_BROKER_STATS_DATA => again!(BrokerStatsData),
        GET_BROKER_CONSUME_STATS => again!(ConsumeStatsList),
        QUERY_DATA_VERSION => again!(DataVersion),
        GET_ALL_PRODUCER_INFO => again!(ProducerTableInfo),
        QUERY_SUBSCRIPTION_BY_CONSUMER => again!(QuerySubscriptionResponseBody),
        GET_TOPIC_CONFIG => again!(TopicConfig),
        UPDATE_AND_GET_GROUP_FORBIDDEN => again!(GroupForbidden),
        CHECK_ROCKSDB_CQ_WRITE_PROGRESS => again!(CheckRocksdbCqWriteResult),
        QUERY_ASSIGNMENT => again!(QueryAssignmentResponseBody),
        GET_ALL_MESSAGE_REQUEST_MODE => again!(MessageRequestModeSerializeWrapper),
        GET_BROKER_MEMBER_GROUP => again!(GetBrokerMemberGroupResponseBody),
        GET_BROKER_HA_STATUS => again!(HaRuntimeInfo),
        _ => return None,
    })
}

/// Bodies that are no JSON of ours: messages, properties, timer checkpoints, features we lack.
const OTHERS: [i32; 20] = [
    SEND_MESSAGE,
    SEND_MESSAGE_V2,
    SEND_BATCH_MESSAGE,
    SEND_REPLY_MESSAGE,
    SEND_REPLY_MESSAGE_V2,
    PUSH_REPLY_MESSAGE_TO_CLIENT,
    PULL_MESSAGE,
    LITE_PULL_MESSAGE,
    QUERY_MESSAGE,
    VIEW_MESSAGE_BY_ID,
    CHECK_TRANSACTION_STATE,
    CONSUME_MESSAGE_DIRECTLY,
    POP_MESSAGE,
    PEEK_MESSAGE,
    BATCH_ACK_MESSAGE,
    UPDATE_BROKER_CONFIG,
    UPDATE_NAMESRV_CONFIG,
    GET_TIMER_CHECK_POINT,
    GET_COLD_DATA_FLOW_CTR_INFO,
    GET_BROKER_LITE_INFO,
];

/// A text that does not depend on the order of fields and of sets, nor on numbers being quoted.
fn canonical(value: &Value) -> String {
    match value {
        Value::Array(elements) => {
            let mut texts: Vec<_> = elements.iter().map(canonical).collect();
            texts.sort();
            format!("[{}]", texts.join(","))
        }
        Value::Object(entries) => {
            let mut texts: Vec<_> = entries
                .iter()
                .map(|(key, value)| format!("{}:{}", canonical(key), canonical(value)))
                .collect();
            texts.sort();
            format!("{{{}}}", texts.join(","))
        }
        other => other.to_text().unwrap_or_default(),
    }
}

/// Takes out what `given` does not have, as long as it has a default value: Java's and Go's older
/// clients do not send what came later.
fn without_defaults(value: &Value, given: &Value) -> Value {
    let (Value::Object(entries), Value::Object(known)) = (value, given) else {
        if let (Value::Array(elements), Value::Array(known)) = (value, given)
            && elements.len() == known.len()
        {
            let pairs = elements.iter().zip(known);
            return Value::Array(pairs.map(|(a, b)| without_defaults(a, b)).collect());
        }
        return value.clone();
    };
    let kept = entries.iter().filter_map(|(key, value)| {
        let name = canonical(key);
        match known.iter().find(|(known, _)| canonical(known) == name) {
            Some((_, given)) => Some((key.clone(), without_defaults(value, given))),
            None if matches!(canonical(value).as_str(), "0" | "false" | "" | "[]" | "{}") => None,
            None => Some((key.clone(), value.clone())),
        }
    });
    Value::Object(kept.collect())
}

#[test]
fn json_bodies_keep_their_content() {
    let mut unread = BTreeSet::new();
    let mut refused = Vec::new();
    let mut read = 0;
    for recorded in recorded() {
        let command = recorded.command();
        if command.body.is_empty() {
            continue;
        }
        let again = match recorded.is_response {
            true => responses(recorded.code),
            false => requests(recorded.code),
        };
        let Some(again) = again else {
            unread.insert(recorded.code);
            continue;
        };
        match again(&command.body) {
            Ok(written) => {
                let given = json::parse(&command.body).unwrap();
                let written = json::parse(&written).unwrap();
                let written = without_defaults(&written, &given);
                assert_eq!(canonical(&written), canonical(&given), "{recorded}");
                read += 1;
            }
            Err(error) => refused.push((recorded.code, error.class)),
        }
    }
    assert!(read > 60, "{read}");
    assert_eq!(refused, [(HEART_BEAT, "HeartbeatData")], "the body \"not json\"");
    let others: BTreeSet<i32> = OTHERS.into_iter().collect();
    let unknown: Vec<_> = unread.difference(&others).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn bodies_with_keys_of_their_own_have_javas_bytes() {
    let codes = [
        GET_TOPIC_STATS_INFO,
        GET_CONSUME_STATS,
        INVOKE_BROKER_TO_RESET_OFFSET,
        INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        GET_BROKER_CLUSTER_INFO,
        GET_BROKER_MEMBER_GROUP,
        GET_ALL_DELAY_OFFSET,
        QUERY_CORRECTION_OFFSET,
        GET_CONSUMER_CONNECTION_LIST,
        GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        GET_TOPIC_CONFIG,
        LOCK_BATCH_MQ,
    ];
    let mut compared = BTreeSet::new();
    for recorded in recorded() {
        let body = recorded.command().body;
        if recorded.is_response && codes.contains(&recorded.code) && !body.is_empty() {
            let written = responses(recorded.code).unwrap()(&body).unwrap();
            assert_eq!(written, body, "{recorded}");
            compared.insert(recorded.code);
        }
    }
    assert_eq!(compared, BTreeSet::from(codes));
}

#[test]
fn routes_have_javas_bytes_by_the_version_of_the_client() {
    let frames = recorded();
    let mut compared = 0;
    for pair in frames.windows(2) {
        let [asked, answered] = pair else { continue };
        let body = answered.command().body;
        if asked.code == GET_ROUTEINFO_BY_TOPIC && answered.is_response && !body.is_empty() {
            let route = TopicRouteData::decode(&body).unwrap();
            let version = asked.command().version;
            assert_eq!(route.encode_for(version, false), body, "{asked}, version {version}");
            compared += 1;
        }
    }
    assert!(compared >= 4, "{compared}");
}

#[test]
fn registrations_have_the_checksum_of_their_header() {
    let mut checked = 0;
    for recorded in recorded().iter().filter(|r| r.code == REGISTER_BROKER && !r.is_response) {
        let command = recorded.command();
        let header: RegisterBrokerRequest = command.header().unwrap();
        assert_eq!(register_body_crc32(&command.body), header.body_crc32, "{recorded}");
        let body = RegisterBrokerBody::decode_for(&command.body, false, command.version, 1 << 20);
        let body = body.unwrap();
        let compressed = body.encode_compressed().unwrap();
        let read = RegisterBrokerBody::decode_for(&compressed, true, command.version, 1 << 20);
        let tables = [read.unwrap(), body.clone()]
            .map(|body| body.topic_config_serialize_wrapper.topic_config_table);
        // The compressed form has no place for the order flag.
        let names = tables.map(|table| table.into_keys().collect::<Vec<_>>());
        assert_eq!(names[0], names[1], "{recorded}");
        checked += 1;
    }
    assert!(checked >= 3, "{checked}");
}

#[test]
fn message_bodies_encode_back_to_the_same_bytes() {
    let answers = [
        PULL_MESSAGE,
        LITE_PULL_MESSAGE,
        QUERY_MESSAGE,
        VIEW_MESSAGE_BY_ID,
        POP_MESSAGE,
        PEEK_MESSAGE,
    ];
    let asked = [CHECK_TRANSACTION_STATE, CONSUME_MESSAGE_DIRECTLY];
    let mut messages = 0;
    for recorded in recorded() {
        let codes = if recorded.is_response { answers.as_slice() } else { asked.as_slice() };
        let command = recorded.command();
        if !codes.contains(&recorded.code) {
            continue;
        }
        let mut written = BytesMut::new();
        for view in record::records(&command.body) {
            let view = view.unwrap_or_else(|error| panic!("{recorded}: {error}"));
            assert!(view.crc_matches(), "{recorded}");
            let text = view.properties();
            assert_eq!(properties::encode(&properties::decode(&text)), text, "{recorded}");
            record::encode(&view.to_record(), &mut written).unwrap();
            messages += 1;
        }
        assert_eq!(written, command.body, "{recorded}");
    }
    assert_eq!(messages, 13);
}

#[test]
fn batches_encode_back_to_the_same_bytes() {
    let mut batches = 0;
    for recorded in recorded() {
        if recorded.code != SEND_BATCH_MESSAGE || recorded.is_response {
            continue;
        }
        let command = recorded.command();
        let header =
            SendMessageRequest::decode_for(command.code, command.ext_fields.as_ref().unwrap());
        assert_eq!(header.unwrap().batch, Some(true), "{recorded}");
        let messages = batch::decode(&command.body).unwrap();
        assert!(messages.len() > 1, "{recorded}");
        let mut written = BytesMut::new();
        batch::encode(&messages, &mut written).unwrap();
        assert_eq!(written, command.body, "{recorded}");
        batches += 1;
    }
    assert!(batches > 0);
}

#[test]
fn message_ids_of_answers_are_ours() {
    let mut ids = 0;
    for recorded in recorded() {
        let command = recorded.command();
        let sends = [SEND_MESSAGE, SEND_MESSAGE_V2, SEND_BATCH_MESSAGE];
        if !recorded.is_response || !sends.contains(&recorded.code) || command.code != 0 {
            continue;
        }
        let header: SendMessageResponse = command.header().unwrap();
        for text in header.msg_id.split(',') {
            let (host, offset) = id::parse_offset_message_id(text).unwrap();
            assert_eq!(host.port(), 10911, "{recorded}");
            assert_eq!(id::offset_message_id(host, offset), text, "{recorded}");
            ids += 1;
        }
    }
    assert!(ids > 5, "{ids}");
}

#[test]
fn properties_bodies_are_read() {
    let body = |code: i32| {
        let all = recorded();
        let bodies = all.iter().filter(|r| r.code == code && !r.is_response);
        bodies.map(|r| String::from_utf8(r.command().body.to_vec()).unwrap()).collect::<Vec<_>>()
    };
    let read = |text: &str| properties_text::parse(text).unwrap();
    let pair = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    let broker: Vec<_> = body(UPDATE_BROKER_CONFIG).iter().map(|text| read(text)).collect();
    assert!(broker.contains(&pair("brokerConfigPath", "x")));
    assert!(broker.contains(&pair("useServerSideResetOffset", "true")));
    let namesrv: Vec<_> = body(UPDATE_NAMESRV_CONFIG).iter().map(|text| read(text)).collect();
    assert_eq!(namesrv, [pair("clientRequestThreadPoolNums", "8")]);
}
