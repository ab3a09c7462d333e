//! Names without end: topics, groups and clients that do not exist.

use bytes::Bytes;
use protocol::{
    Command,
    body::{
        ConsumerData, HeartbeatData, ProducerData, SubscriptionData, TopicConfigSerializeWrapper,
    },
    code::{request, response},
};

use crate::rig::{Rig, memory, pull_header, send_header, v2};

/// Unknown names that one test asks for.
const NAMES: usize = 20_000;

/// What they may cost while they last, in bytes. A table that kept each would take more than this
/// for the names alone, because they are long.
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
async fn topics_that_do_not_exist_leave_nothing_behind() {
    let rig = Rig::new("").await;
    rig.others_are_served().await;
    let (before, tables) = (memory(), topics(&rig).await);
    let field = |code: i32, fields: &[(&'static str, String)]| {
        fields.iter().fold(Command::request(code), |request, (name, value)| {
            request.with_field(*name, value.as_str())
        })
    };
    for first in (0..NAMES).step_by(1000) {
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
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_that_sends_make_stop_at_their_bound() {
    let rig = Rig::new("maxTopics=64\n").await;
    rig.others_are_served().await;
    let requests = (0..200)
        .map(|number| v2(&send_header(&format!("t{number}"), ""), Bytes::from_static(b"m")));
    let answers = rig.ask_all(requests.collect()).await;
    let refused: Vec<_> = answers.iter().filter(|answer| answer.code != 0).collect();
    assert!(refused.len() > 100, "{} were refused", refused.len());
    for answer in refused {
        let remark = answer.remark.as_deref().unwrap_or_default();
        assert!(remark.contains("maxTopics"), "{answer:?}");
    }
    assert!(topics(&rig).await <= 64);
    rig.end().await;
}

fn heartbeat(client: &str, consumers: Vec<String>, producers: Vec<String>) -> Command {
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
async fn groups_of_heartbeats_stop_at_their_bound() {
    let rig = Rig::new("maxSubscriptionGroups=64\n").await;
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
    rig.end().await;
}
