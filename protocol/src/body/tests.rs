use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::version;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn go_heartbeats_are_read() {
    let body = br#"{"clientID":"@c5","producerDataSet":[],"consumerDataSet":[{"groupName":"g","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","subscriptionDataSet":[{"classFilterMode":false,"topic":"t","subString":"A","tagsSet":["A"],"codeSet":["65"],"subVersion":1795969207533232745,"expressionType":"TAG"}],"unitMode":false}]}"#;
    let heartbeat = HeartbeatData::decode(body).unwrap();
    assert_eq!(heartbeat.client_id, "@c5");
    let subscription = &heartbeat.consumer_data_set[0].subscription_data_set[0];
    assert_eq!(subscription.code_set, BTreeSet::from([65]));
    assert_eq!(subscription.sub_version, 1_795_969_207_533_232_745);
    assert!(!heartbeat.without_sub);
}

#[test]
fn a_body_of_another_kind_is_named() {
    let error = HeartbeatData::decode(b"not json").unwrap_err();
    assert_eq!(error.to_string(), "body is no HeartbeatData: at byte 0: expected a value");
}

#[test]
fn queues_as_keys_have_javas_form() {
    let queue = MessageQueue::new("T", "b", 0);
    let body = ResetOffsetBody { offset_table: BTreeMap::from([(queue, 7)]) };
    let encoded = body.encode();
    let expected = r#"{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:7}}"#;
    assert_eq!(text(&encoded), expected);
    assert_eq!(ResetOffsetBody::decode(&encoded), Ok(body));
}

#[test]
fn queues_are_ordered_as_clients_order_them() {
    let mut queues = [
        MessageQueue::new("b", "a", 0),
        MessageQueue::new("a", "b", 0),
        MessageQueue::new("a", "a", 10),
        MessageQueue::new("a", "a", 9),
    ];
    queues.sort();
    let order: Vec<_> =
        queues.iter().map(|queue| (&*queue.topic, &*queue.broker_name, queue.queue_id)).collect();
    assert_eq!(order, [("a", "a", 9), ("a", "a", 10), ("a", "b", 0), ("b", "a", 0)]);
}

#[test]
fn route_keys_are_quoted_by_version() {
    let broker = BrokerData {
        broker_addrs: BTreeMap::from([(0, "127.0.0.1:10911".to_owned())]),
        broker_name: "a".to_owned(),
        cluster: "C".to_owned(),
        ..BrokerData::default()
    };
    let route = TopicRouteData { broker_datas: vec![broker], ..TopicRouteData::default() };
    let bare = route.encode_for(317, false);
    let expected = r#"{"brokerDatas":[{"brokerAddrs":{0:"127.0.0.1:10911"},"brokerName":"a","cluster":"C","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[]}"#;
    assert_eq!(text(&bare), expected);
    let quoted = expected.replace("{0:", "{\"0\":");
    assert_eq!(text(&route.encode_for(version::V4_9_4, false)), quoted);
    assert_eq!(text(&route.encode_for(317, true)), quoted);
    assert_eq!(TopicRouteData::decode(&bare), TopicRouteData::decode(quoted.as_bytes()));
    assert_eq!(TopicRouteData::decode(&bare), Ok(route));
}

fn registration() -> RegisterBrokerBody {
    let topic = |name: &str| TopicConfig { topic_name: name.to_owned(), ..TopicConfig::default() };
    let mut attributed = topic("B");
    attributed.attributes.insert("message.type".to_owned(), "FIFO, x".to_owned());
    let table = [topic("A"), attributed].map(|topic| (topic.topic_name.clone(), topic));
    RegisterBrokerBody {
        filter_server_list: vec![],
        topic_config_serialize_wrapper: TopicConfigSerializeWrapper {
            data_version: DataVersion { counter: 3, state_version: 1, timestamp: 99 },
            topic_config_table: BTreeMap::from(table),
            topic_queue_mapping_info_map: Some(BTreeMap::new()),
            ..TopicConfigSerializeWrapper::default()
        },
    }
}

#[test]
fn registrations_round_trip_in_both_forms() {
    let body = registration();
    let plain = RegisterBrokerBody::decode_for(&body.encode(), false, 513, 1 << 20).unwrap();
    assert_eq!(plain, body);
    let compressed = body.encode_compressed().unwrap();
    assert_eq!(compressed[0], 0x78);
    for (version, mappings) in [(513, Some(BTreeMap::new())), (409, Some(BTreeMap::new()))] {
        let read = RegisterBrokerBody::decode_for(&compressed, true, version, 1 << 20).unwrap();
        let wrapper = read.topic_config_serialize_wrapper;
        assert_eq!(wrapper.topic_queue_mapping_info_map, mappings);
        let expected = body.topic_config_serialize_wrapper.topic_config_table.clone();
        assert_eq!(wrapper.topic_config_table, expected);
    }
}

#[test]
fn old_and_empty_registrations_are_read() {
    let topics = registration().topic_config_serialize_wrapper;
    let read = RegisterBrokerBody::decode_for(&topics.encode(), false, 36, 1 << 20).unwrap();
    assert_eq!(read.topic_config_serialize_wrapper.topic_config_table.len(), 2);
    let read = RegisterBrokerBody::decode_for(b"", false, 513, 1 << 20).unwrap();
    assert_eq!(read, RegisterBrokerBody::default());
}

#[test]
fn broken_compressed_registrations_are_refused() {
    let body = registration().encode_compressed().unwrap();
    let error = RegisterBrokerBody::decode_for(&body, true, 513, 16).unwrap_err();
    assert!(error.to_string().contains("more than 16 bytes"), "{error}");
    assert!(RegisterBrokerBody::decode_for(b"plain", true, 513, 1 << 20).is_err());
    assert!(RegisterBrokerBody::decode_for(&body[..body.len() / 2], true, 513, 1 << 20).is_err());
}

#[test]
fn shared_attributes_are_found_by_reference() {
    let body = br#"{"topicConfigTable":{"A":{"topicName":"A","attributes":{"k":"v"}},"%RETRY%g":{"topicName":"%RETRY%g","attributes":{"$ref":"$.topicConfigTable.A.attributes"}}}}"#;
    let wrapper = TopicConfigSerializeWrapper::decode(body).unwrap();
    let retry = &wrapper.topic_config_table["%RETRY%g"];
    assert_eq!(retry.attributes.get("k").map(String::as_str), Some("v"));
    assert_eq!((retry.perm, retry.read_queue_nums), (6, 16));
}

#[test]
fn an_empty_group_has_javas_defaults() {
    let group = SubscriptionGroupConfig::decode(br#"{"groupName":"g","retryMaxTimes":5}"#).unwrap();
    let expected = SubscriptionGroupConfig {
        group_name: "g".to_owned(),
        retry_max_times: 5,
        ..SubscriptionGroupConfig::default()
    };
    assert_eq!(group, expected);
    let json = r#"{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":true,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,"groupName":"g","groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":5,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}"#;
    assert_eq!(text(&group.encode()), json);
}

#[test]
fn a_retry_policy_that_is_named_and_not_told_has_the_delays_of_java() {
    let policy = GroupRetryPolicy::decode(br#"{"customizedRetryPolicy":{}}"#).unwrap();
    let next = policy.customized_retry_policy.unwrap().next;
    assert_eq!((next.len(), next[0], next[13], next[17]), (18, 1_000, 600_000, 7_200_000));
    let policy = GroupRetryPolicy::decode(br#"{"customizedRetryPolicy":{"next":[5,7]}}"#).unwrap();
    assert_eq!(policy.customized_retry_policy.unwrap().next, [5, 7]);
    let json = r#"{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":9}}"#;
    let policy = GroupRetryPolicy::decode(json.as_bytes()).unwrap();
    let growing = ExponentialRetryPolicy { initial: 9, max: 7_200_000, multiplier: 2 };
    assert_eq!(
        (policy.kind.as_str(), policy.exponential_retry_policy),
        ("EXPONENTIAL", Some(growing))
    );
}
