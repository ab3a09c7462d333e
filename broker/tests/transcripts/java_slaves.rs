//! What slaves of Java ask their master (`SlaveSynchronize.java`): codes 21, 43, 45, 60, 61, 201 and
//! 402. They ask 21, 60 and 61 at the main port, and the others at the fast one.

use std::collections::BTreeMap;

use protocol::{
    Command,
    body::{
        ConsumerOffsetSerializeWrapper, DelayOffsetSerializeWrapper,
        MessageRequestModeSerializeWrapper, SubscriptionGroupConfig, SubscriptionGroupWrapper,
        TopicConfigSerializeWrapper,
    },
    code::{request, response},
    header::{CreateTopicRequest, UpdateConsumerOffsetRequest},
    version,
};

use crate::fixture::{Fixture, LIMIT};

/// A slave of this version.
struct Slave<'a> {
    fixture: &'a Fixture,
    version: i32,
}

impl Slave<'_> {
    async fn ask(&self, code: i32) -> Command {
        let at_main = matches!(
            code,
            request::GET_ALL_TOPIC_CONFIG
                | request::GET_TIMER_CHECK_POINT
                | request::GET_TIMER_METRICS
        );
        let broker = &self.fixture.broker;
        let address = if at_main { broker.address() } else { broker.fast_address() };
        let request = Command { version: self.version, ..Command::request(code) };
        self.fixture.client.call(&address.to_string(), request, LIMIT).await.expect("an answer")
    }

    async fn attributes(&self) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
        let answer = self.ask(request::GET_ALL_TOPIC_CONFIG).await;
        let topics = TopicConfigSerializeWrapper::decode(&answer.body).expect("topics");
        let answer = self.ask(request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG).await;
        let groups = SubscriptionGroupWrapper::decode(&answer.body).expect("groups");
        let topic = topics.topic_config_table["T"].attributes.clone();
        (topic, groups.subscription_group_table["G"].attributes.clone())
    }
}

/// With a topic and a group that have attributes, a committed offset and a message that was delayed.
async fn master() -> Fixture {
    let fixture = Fixture::with("flushDelayOffsetInterval=100\n").await;
    let topic = CreateTopicRequest {
        topic: "T".into(),
        default_topic: Some("TBW102".into()),
        read_queue_nums: 4,
        write_queue_nums: 4,
        perm: 6,
        topic_filter_type: Some("SINGLE_TAG".into()),
        topic_sys_flag: Some(0),
        order: false,
        attributes: Some("+message.type=DELAY".into()),
        force: None,
    };
    let group = SubscriptionGroupConfig {
        group_name: "G".into(),
        attributes: BTreeMap::from([("+lite.bind.topic".to_owned(), "T".to_owned())]),
        ..SubscriptionGroupConfig::default()
    };
    let offset = UpdateConsumerOffsetRequest {
        consumer_group: "G".into(),
        topic: "T".into(),
        queue_id: Some(2),
        commit_offset: Some(7),
    };
    for request in [
        Command::request_with(request::UPDATE_AND_CREATE_TOPIC, &topic),
        Command::request(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP).with_body(group.encode()),
        Command::request_with(request::UPDATE_CONSUMER_OFFSET, &offset),
    ] {
        let answer = fixture.ask(request).await;
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
    }
    fixture.sent("T", "m", "DELAY\u{1}1\u{2}").await;
    fixture.messages("T", 4, 1).await;
    fixture
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slave_gets_every_table_that_fails_over() {
    let fixture = master().await;
    let slave = Slave { fixture: &fixture, version: version::V5_5_0 };
    let answer = slave.ask(request::GET_ALL_TOPIC_CONFIG).await;
    let topics = TopicConfigSerializeWrapper::decode(&answer.body).expect("topics");
    for java in ["TBW102", "SELF_TEST_TOPIC", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"] {
        assert!(topics.topic_config_table.contains_key(java), "{java}");
    }
    assert!(topics.topic_config_table.keys().all(|name| !name.contains("LEDGERMQ")));
    let answer = slave.ask(request::GET_ALL_CONSUMER_OFFSET).await;
    let offsets = ConsumerOffsetSerializeWrapper::decode(&answer.body).expect("offsets");
    assert_eq!(offsets.offset_table["T@G"], BTreeMap::from([(2, 7)]));
    let answer = slave.ask(request::GET_ALL_DELAY_OFFSET).await;
    let delays = DelayOffsetSerializeWrapper::decode(&answer.body).expect("delays");
    assert_eq!(delays.offset_table[&1], 1);
    let answer = slave.ask(request::GET_ALL_MESSAGE_REQUEST_MODE).await;
    assert_eq!(answer.code, 0);
    MessageRequestModeSerializeWrapper::decode(&answer.body).expect("modes");
}

/// Java answers so where it has no timers; the slave keeps what it has.
#[tokio::test(flavor = "multi_thread")]
async fn timers_are_told_as_java_does_without_them() {
    let fixture = Fixture::new().await;
    let slave = Slave { fixture: &fixture, version: version::V5_3_3 };
    for (code, remark) in [
        (request::GET_TIMER_CHECK_POINT, "The checkpoint is null"),
        (request::GET_TIMER_METRICS, "The timerMetrics is null"),
    ] {
        let answer = slave.ask(code).await;
        assert_eq!((answer.code, answer.remark.as_deref()), (response::SYSTEM_ERROR, Some(remark)));
    }
}

/// A slave of 5.3.3 takes attributes for changes: without a sign it drops the whole table.
#[tokio::test(flavor = "multi_thread")]
async fn a_slave_of_5_3_3_gets_attributes_as_changes_and_nobody_else_does() {
    let fixture = master().await;
    let old = Slave { fixture: &fixture, version: version::V5_3_3 };
    let (topic, _) = old.attributes().await;
    assert!(topic.contains_key("message.type"), "mqadmin of that version asks the same: {topic:?}");
    // It asks this every three seconds, by the same connection.
    old.ask(request::GET_TIMER_CHECK_POINT).await;
    let (topic, group) = old.attributes().await;
    let added = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
    assert_eq!(topic, added("+message.type", "DELAY"));
    assert!(group.keys().all(|name| name.starts_with("+lite.")), "{group:?}");
    let new = Slave { fixture: &fixture, version: version::V5_5_0 };
    let (topic, _) = new.attributes().await;
    assert_eq!(topic, added("message.type", "DELAY"));
}
