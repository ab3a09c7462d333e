//! Names without end: topics, groups and clients that do not exist.

use bytes::Bytes;
use protocol::{
    Command,
    body::{
        ConsumerData, HeartbeatData, LockBatchResponseBody, ProducerData, SubscriptionData,
        TopicConfigSerializeWrapper,
    },
    code::{request, response},
};

use crate::rig::{Rig, memory, pull_header, send_header, v2};

/// Unknown names that one test asks for, four requests each; a long run asks for a million.
const NAMES: usize = 20_000;
const MANY_NAMES: usize = 1_000_000;

/// What they may cost, in bytes: ten times what they do, which is what buffers take.
const BUDGET: usize = 24 << 20;

fn name(number: usize) -> String {
    format!("{}{number}", "n".repeat(110))
}

async fn topics(rig: &Rig) -> usize {
    let answer = rig.ask(Command::request(request::GET_ALL_TOPIC_CONFIG)).await;
    let wrapper = TopicConfigSerializeWrapper::decode(&answer.body).expect("a table");
    wrapper.topic_config_table.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn s_21_topics_that_do_not_exist_leave_nothing_behind() {
    unknown_names(NAMES).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: cargo xtask ci --long --only strangers runs it"]
async fn s_21_a_million_unknown_names_leave_nothing_behind_in_the_long_run() {
    unknown_names(MANY_NAMES).await;
}

/// Asks for so many topics and groups that nobody made.
async fn unknown_names(names: usize) {
    let rig = Rig::alone("").await;
    rig.others_are_served().await;
    let (before, tables) = (memory(), topics(&rig).await);
    let field = |code: i32, fields: &[(&'static str, String)]| {
        fields.iter().fold(Command::request(code), |request, (name, value)| {
            request.with_field(name, value.as_str())
        })
    };
    for first in (0..names).step_by(1000) {
        let mut requests = Vec::with_capacity(4000);
        for number in first..first + 1000 {
            let name = name(number);
            let of_queue = [("topic", name.clone()), ("queueId", "0".to_owned())];
            let mut of_group = of_queue.to_vec();
            of_group.push(("consumerGroup", format!("g{number}")));
            let mut commit = of_group.clone();
            commit.push(("commitOffset", "7".to_owned()));
            requests.push(Command::request_with(request::PULL_MESSAGE, &pull_header(&name, 0)));
            requests.push(field(request::QUERY_CONSUMER_OFFSET, &of_group));
            requests.push(field(request::GET_MAX_OFFSET, &of_queue));
            requests.push(field(request::UPDATE_CONSUMER_OFFSET, &commit));
        }
        for answer in rig.ask_all(requests).await {
            assert!(answer.is_response());
        }
    }
    let grown = memory().saturating_sub(before);
    assert!(grown < BUDGET, "{grown} bytes");
    assert_eq!(topics(&rig).await, tables, "no topic was made");
    let offsets = rig.ask(Command::request(request::GET_ALL_CONSUMER_OFFSET)).await;
    assert!(!String::from_utf8_lossy(&offsets.body).contains("nnnn"), "no offset is kept");
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s_21_topics_that_sends_make_stop_at_their_bound() {
    let rig = Rig::new("maxTopics=64\n").await;
    rig.others_are_served().await;
    let kinds = ["", "%RETRY%", "%DLQ%"];
    let requests = (0..300)
        .map(|number| format!("{}t{number}", kinds[number % 3]))
        .map(|topic| v2(&send_header(&topic, ""), Bytes::from_static(b"m")));
    let answers = rig.ask_all(requests.collect()).await;
    let refused: Vec<_> = answers.iter().filter(|answer| answer.code != 0).collect();
    assert!(refused.len() > 100, "{} were refused", refused.len());
    for answer in refused {
        let remark = answer.remark.as_deref().unwrap_or_default();
        assert!(remark.contains("maxTopics"), "{answer:?}");
    }
    let made = topics(&rig).await;
    assert!(made <= 64, "{made} topics, whatever their kind");
    rig.end().await;
}

pub(crate) fn heartbeat(client: &str, consumers: Vec<String>, producers: Vec<String>) -> Command {
    let data = HeartbeatData {
        client_id: client.to_owned(),
        consumer_data_set: consumers
            .into_iter()
            .map(|group_name| ConsumerData {
                group_name,
                consume_type: "CONSUME_PASSIVELY".into(),
                message_model: "CLUSTERING".into(),
                consume_from_where: "CONSUME_FROM_FIRST_OFFSET".into(),
                subscription_data_set: vec![SubscriptionData {
                    topic: "alive".into(),
                    sub_string: "*".into(),
                    ..SubscriptionData::default()
                }],
                ..ConsumerData::default()
            })
            .collect(),
        producer_data_set: producers
            .into_iter()
            .map(|group_name| ProducerData { group_name })
            .collect(),
        ..HeartbeatData::default()
    };
    Command::request(request::HEART_BEAT).with_body(data.encode())
}

#[tokio::test(flavor = "multi_thread")]
async fn s_21_groups_of_heartbeats_stop_at_their_bound() {
    let rig = Rig::alone("maxSubscriptionGroups=64\n").await;
    rig.others_are_served().await;
    let tables = topics(&rig).await;
    let before = memory();
    for round in 0..20 {
        let groups =
            |kind: &str| (0..1000).map(|n| format!("{kind}{}", name(round * 1000 + n))).collect();
        let answer = rig.ask(heartbeat("client", groups("c"), groups("p"))).await;
        assert!(answer.is_response());
    }
    let grown = memory().saturating_sub(before);
    assert!(grown < 2 * BUDGET, "{grown} bytes");
    assert!(topics(&rig).await <= tables + 64, "retry topics follow the groups' bound");
    let answer = rig.ask(heartbeat("client", (0..10_001).map(name).collect(), Vec::new())).await;
    assert_eq!(answer.code, response::INVALID_PARAMETER);
    assert!(answer.remark.expect("a remark").contains("10000"));
    let mut large = heartbeat("client", vec!["g".to_owned()], Vec::new());
    large.body = [&large.body[..], &vec![b' '; 4 << 20]].concat().into();
    let answer = rig.ask(large).await;
    assert_eq!(answer.code, response::INVALID_PARAMETER);
    assert!(answer.remark.expect("a remark").contains("at most 4194304"));
    rig.end().await;
}

/// Each heartbeat alone is within its bounds, and so is the number of groups.
#[tokio::test(flavor = "multi_thread")]
async fn s_17_what_heartbeats_make_a_broker_keep_has_a_bound_in_bytes() {
    let rig = Rig::alone("").await;
    rig.others_are_served().await;
    let before = memory();
    let mut refused = 0;
    for number in 0..40 {
        let mut data =
            HeartbeatData::decode(&heartbeat("c", vec![format!("g{number}")], vec![]).body)
                .expect("a heartbeat");
        data.consumer_data_set[0].subscription_data_set[0].sub_string = "t".repeat(3 << 20);
        let request = Command::request(request::HEART_BEAT).with_body(data.encode());
        let answer = rig.ask(request).await;
        if answer.code == response::SYSTEM_BUSY {
            assert!(answer.remark.expect("a remark").contains("no more is kept"));
            refused += 1;
        }
    }
    assert!(refused > 10, "{refused} of 40 heartbeats of 3 MiB were refused");
    let grown = memory().saturating_sub(before);
    // Without a bound it would be 120 MiB.
    assert!(grown < (64 << 20) + 2 * BUDGET, "{grown} bytes");
    rig.end().await;
}

/// One heartbeat of thousands of groups makes their retry topics at once, not one by one.
#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_of_many_groups_holds_nobody_up() {
    let rig = Rig::new("").await;
    rig.others_are_served().await;
    let tables = topics(&rig).await;
    let groups = (0..5000).map(|number| format!("g{number}")).collect();
    let answer = rig.ask(heartbeat("client", groups, Vec::new())).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    assert_eq!(topics(&rig).await, tables + 5000);
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s_03_names_that_are_kept_are_short_and_of_what_exists() {
    let rig = Rig::alone("maxSubscriptionGroups=64\n").await;
    rig.others_are_served().await;
    let long = "x".repeat(100_000);
    let of_client = rig.ask(heartbeat(&long, Vec::new(), vec!["p".into()])).await;
    let of_group = rig.ask(heartbeat("client", Vec::new(), vec![long.clone()])).await;
    for (answer, kind) in [(of_client, "client id"), (of_group, "producer group")] {
        let remark = answer.remark.expect("a remark");
        assert_eq!(answer.code, response::INVALID_PARAMETER, "{remark}");
        assert!(
            remark.contains(kind) && remark.contains("100000") && remark.len() < 300,
            "{remark}"
        );
    }
    let before = memory();
    let commit = Command::request(request::UPDATE_CONSUMER_OFFSET)
        .with_field("consumerGroup", "TOOLS_CONSUMER")
        .with_field("topic", "alive")
        .with_field("queueId", "65000")
        .with_field("commitOffset", "7");
    let answer = rig.ask(commit).await;
    assert_eq!(answer.code, response::INVALID_PARAMETER);
    assert!(answer.remark.expect("a remark").contains("queueId is 65000"));
    let reset = Command::request(request::INVOKE_BROKER_TO_RESET_OFFSET)
        .with_field("group", "TOOLS_CONSUMER")
        .with_field("topic", "alive")
        .with_field("queueId", "2147483647")
        .with_field("timestamp", "0")
        .with_field("isForce", "true");
    let answer = rig.ask(reset).await;
    assert_eq!(answer.code, response::INVALID_PARAMETER, "{:?}", answer.remark);
    let forbid = Command::request(request::UPDATE_AND_GET_GROUP_FORBIDDEN)
        .with_field("group", "TOOLS_CONSUMER")
        .with_field("topic", long.as_str())
        .with_field("readable", "false");
    let answer = rig.ask(forbid).await;
    assert_eq!(answer.code, response::TOPIC_NOT_EXIST);
    assert!(answer.remark.expect("a remark").len() < 400);
    for number in 0..200 {
        let clone = Command::request(request::CLONE_GROUP_OFFSET)
            .with_field("srcGroup", "TOOLS_CONSUMER")
            .with_field("destGroup", format!("{number}{long}"))
            .with_field("topic", "alive")
            .with_field("offline", "true");
        assert_eq!(rig.ask(clone).await.code, response::SUBSCRIPTION_GROUP_NOT_EXIST);
        let queues = (0..100).map(|queue| {
            format!(
                r#"{{"topic":"t{queue}{}","brokerName":"b","queueId":{queue}}}"#,
                "x".repeat(1000)
            )
        });
        let queues = queues.collect::<Vec<_>>().join(",");
        let lock = Command::request(request::LOCK_BATCH_MQ).with_body(format!(
            r#"{{"consumerGroup":"g{number}","clientId":"c","mqSet":[{queues}]}}"#
        ));
        let answer = rig.ask(lock).await;
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
        let granted = LockBatchResponseBody::decode(&answer.body).expect("a body").lock_ok_mq_set;
        assert!(granted.is_empty(), "{granted:?}");
    }
    let grown = memory().saturating_sub(before);
    assert!(grown < BUDGET, "{grown} bytes");
    rig.end().await;
}
