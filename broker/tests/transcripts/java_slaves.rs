//! What slaves of Java ask their master (`SlaveSynchronize.java`): codes 21, 43, 45, 60, 61, 201 and
//! 402. They ask 21, 60 and 61 at the main port, and the others at the fast one.

use std::{collections::BTreeMap, time::Duration};

use protocol::{
    Command,
    body::{
        ConsumerOffsetSerializeWrapper, DataVersion, DelayOffsetSerializeWrapper,
        MessageRequestModeSerializeWrapper, SubscriptionGroupConfig, SubscriptionGroupWrapper,
        TimerMetricsSerializeWrapper, TopicConfigSerializeWrapper,
    },
    code::{request, response},
    header::{CreateTopicRequest, UpdateConsumerOffsetRequest},
    json::Value,
    version,
};

use tokio::time::Instant;

use crate::{
    fixture::{Fixture, LIMIT},
    timer::now,
};

/// [`LIMIT`] in milliseconds.
const LIMIT_MILLIS: i64 = 20_000;

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

    /// The numbers of a checkpoint with this next offset.
    async fn checkpoint(&self, next: i64) -> Vec<i64> {
        let begun = Instant::now();
        loop {
            let answer = self.ask(request::GET_TIMER_CHECK_POINT).await;
            let word = |word: &[u8]| i64::from_be_bytes(word.try_into().expect("eight bytes"));
            let words: Vec<i64> = answer.body.chunks_exact(8).map(word).collect();
            if answer.code == response::SUCCESS && words[3] == next {
                assert_eq!(words.len(), 7, "{words:?}");
                return words;
            }
            assert!(begun.elapsed() < LIMIT, "{:?} {words:?}", answer.remark);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Version and numbers by topic, once they are as wanted.
    async fn counts(
        &self,
        wanted: impl Fn(&BTreeMap<String, i64>) -> bool,
    ) -> (DataVersion, BTreeMap<String, i64>) {
        let begun = Instant::now();
        loop {
            let answer = self.ask(request::GET_TIMER_METRICS).await;
            if answer.code == response::SUCCESS {
                let told = TimerMetricsSerializeWrapper::decode(&answer.body).expect("JSON");
                let number = |value: &Value| value.get("count")?.to_i64();
                let counts = told.timing_count.iter();
                let counts = counts
                    .map(|(topic, value)| (topic.clone(), number(value).expect("one")))
                    .collect();
                if wanted(&counts) {
                    return (told.data_version, counts);
                }
            }
            assert!(begun.elapsed() < LIMIT, "{answer:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
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
    let told = String::from_utf8_lossy(&answer.body);
    assert!(
        !told.contains("pullOffsetTable"),
        "Java 5.5.0 takes nothing where it is there: {told}"
    );
    let answer = slave.ask(request::GET_ALL_DELAY_OFFSET).await;
    let delays = DelayOffsetSerializeWrapper::decode(&answer.body).expect("delays");
    assert_eq!(delays.offset_table[&1], 1);
    let answer = slave.ask(request::GET_ALL_MESSAGE_REQUEST_MODE).await;
    assert_eq!(answer.code, 0);
    MessageRequestModeSerializeWrapper::decode(&answer.body).expect("modes");
}

/// A slave that becomes the master goes on with timers where the checkpoint says: seven numbers, of which
/// it takes the first, the time up to which all was delivered, and the fourth, the next offset.
#[tokio::test(flavor = "multi_thread")]
async fn a_slave_is_told_how_far_timers_are_delivered_and_how_many_wait() {
    let fixture = Fixture::new().await;
    fixture.sent("T", "soon", "TIMER_DELAY_MS\u{1}10\u{2}UNIQ_KEY\u{1}A").await;
    fixture.messages("T", 1, 1).await;
    for (topic, properties) in [
        ("T", "TIMER_DELAY_SEC\u{1}1000\u{2}UNIQ_KEY\u{1}B"),
        ("U", "TIMER_DELAY_SEC\u{1}2000\u{2}UNIQ_KEY\u{1}C"),
        ("U", "TIMER_DELAY_SEC\u{1}2000\u{2}UNIQ_KEY\u{1}D"),
        ("T", "TIMER_DELAY_SEC\u{1}1000\u{2}TIMER_DEL_UNIQKEY\u{1}T+B"),
        ("V", "TIMER_DELAY_SEC\u{1}2"),
    ] {
        fixture.sent(topic, "late", properties).await;
    }
    let slave = Slave { fixture: &fixture, version: version::V5_3_3 };
    let checkpoint = slave.checkpoint(6).await;
    let behind = now() - checkpoint[0];
    assert!((0..LIMIT_MILLIS).contains(&behind), "nothing is late, up to {behind} ms ago");
    assert_eq!((checkpoint[0] % 1_000, checkpoint[1], checkpoint[4]), (0, 0, 0), "{checkpoint:?}");
    let (version, counts) = slave.counts(|counts| counts.contains_key("U")).await;
    assert_eq!(counts["U"], 2);
    assert!(!counts.contains_key("T") || counts["T"] == 0, "one takes the other back: {counts:?}");
    fixture.messages("V", 1, 1).await;
    let (later, counts) = slave.counts(|counts| !counts.contains_key("V")).await;
    assert_eq!(counts["U"], 2);
    assert_ne!(later, version, "a slave takes them where the version is another one");
    let moved = slave.checkpoint(6).await;
    assert!(moved[0] >= checkpoint[0] && moved[6] > checkpoint[6], "{checkpoint:?} {moved:?}");
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
