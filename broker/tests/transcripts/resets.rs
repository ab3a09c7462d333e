//! What an administrator sets for groups outlives restarts and changes of the master: offsets that a
//! group has not heard of, and retry policies.

use protocol::{
    Command,
    body::{GroupRetryPolicy, SubscriptionGroupConfig, SubscriptionGroupWrapper},
    code::{request, response},
    header::PullMessageRequest,
};

use crate::{
    fixture::{Fixture, pull_header, pull_request},
    group::{OldNames, end, hand_on, members, wait_master},
};

fn of_queue(code: i32) -> Command {
    Command::request(code)
        .with_field("consumerGroup", "G")
        .with_field("topic", "T")
        .with_field("queueId", "0")
}

async fn commit(fixture: &Fixture, offset: i64) -> Option<String> {
    let commit = of_queue(request::UPDATE_CONSUMER_OFFSET);
    let answer = fixture.ask(commit.with_field("commitOffset", offset.to_string())).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    answer.remark
}

async fn offset(fixture: &Fixture) -> String {
    let answer = fixture.ask(of_queue(request::QUERY_CONSUMER_OFFSET)).await;
    answer.field("offset").unwrap_or_default().to_owned()
}

async fn pull(fixture: &Fixture, offset: i64) -> Command {
    let header = PullMessageRequest { consumer_group: "G".into(), ..pull_header("T", 0, offset) };
    fixture.ask(pull_request(&header)).await
}

async fn reset(fixture: &Fixture, offset: &str) {
    let asked = Command::request(request::INVOKE_BROKER_TO_RESET_OFFSET)
        .with_field("topic", "T")
        .with_field("group", "G")
        .with_field("queueId", "0")
        .with_field("offset", offset)
        .with_field("timestamp", "0")
        .with_field("isForce", "true");
    let answer = fixture.ask(asked).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
}

/// A group that has consumed ten messages of topic `T`.
async fn consumed(fixture: &Fixture) {
    fixture.heartbeat("G", "T", "*").await;
    for _ in 0..10 {
        fixture.sent("T", "m", "").await;
    }
    fixture.messages("T", 1, 10).await;
    assert_eq!(commit(fixture, 8).await, None);
}

/// The consumer that is online commits to the node that knows of the reset from the journal alone, and
/// hears of it by its pull.
async fn hears(fixture: &Fixture, offset_before: i64, wanted: i64) {
    let remark = commit(fixture, offset_before).await;
    assert_eq!(remark.as_deref(), Some("Offset has been previously reset"));
    assert_eq!(offset(fixture).await, wanted.to_string());
    let moved = pull(fixture, offset_before).await;
    assert_eq!(moved.code, response::PULL_OFFSET_MOVED, "{:?}", moved.remark);
    assert_eq!(moved.field("nextBeginOffset"), Some(&*wanted.to_string()));
    assert_eq!(commit(fixture, wanted + 1).await, None);
}

async fn is_told_no_more(fixture: &Fixture, expected: i64) {
    assert_eq!(offset(fixture).await, expected.to_string());
    assert_eq!(pull(fixture, expected).await.code, response::SUCCESS);
    assert_eq!(commit(fixture, expected + 1).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_that_a_group_has_not_heard_of_outlives_changes_of_the_master() {
    let (_names, server) = OldNames::start();
    let mut fixtures = Vec::new();
    for text in members(&server) {
        fixtures.push(Fixture::with(&text).await);
    }
    let master = wait_master(&fixtures, |_| true).await;
    consumed(&fixtures[master]).await;
    reset(&fixtures[master], "2").await;
    let master = hand_on(&fixtures, master).await;
    hears(&fixtures[master], 9, 2).await;
    let master = hand_on(&fixtures, master).await;
    is_told_no_more(&fixtures[master], 3).await;
    end(fixtures).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_that_a_group_has_not_heard_of_outlives_a_restart_and_lost_files() {
    let fixture = Fixture::new().await;
    consumed(&fixture).await;
    reset(&fixture, "2").await;
    let fixture = fixture.restarted("").await;
    hears(&fixture, 9, 2).await;
    reset(&fixture, "5").await;
    let Fixture { broker, client, directory } = fixture;
    client.close();
    broker.shutdown().await.expect("an orderly stop");
    std::fs::remove_dir_all(directory.path().join("config")).expect("the files are there");
    let fixture = Fixture::on(directory, "").await;
    hears(&fixture, 9, 5).await;
    let fixture = fixture.restarted("").await;
    is_told_no_more(&fixture, 6).await;
}

const CUSTOMIZED: &str = r#"{"groupName":"Listed","retryMaxTimes":2,"groupRetryPolicy":{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000,5000]}}}"#;
const EXPONENTIAL: &str = r#"{"groupName":"Growing","retryMaxTimes":9,"groupRetryPolicy":{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":9000,"max":90000,"multiplier":3}}}"#;

async fn set_policies(fixture: &Fixture) {
    let one = Command::request(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP).with_body(CUSTOMIZED);
    assert_eq!(fixture.ask(one).await.code, 0);
    let list = Command::request(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST)
        .with_body(format!(r#"{{"groupConfigList":[{EXPONENTIAL}]}}"#));
    assert_eq!(fixture.ask(list).await.code, 0);
}

/// Whether both ways to ask for groups tell the policies as they were set.
async fn policies_are_told(fixture: &Fixture) {
    let all = fixture.ask(Command::request(request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).await;
    let all = SubscriptionGroupWrapper::decode(&all.body).expect("groups").subscription_group_table;
    for (name, set) in [("Listed", CUSTOMIZED), ("Growing", EXPONENTIAL)] {
        let set = SubscriptionGroupConfig::decode(set.as_bytes()).expect("a group");
        assert_ne!(set.group_retry_policy, GroupRetryPolicy::default(), "{name}");
        let asked =
            Command::request(request::GET_SUBSCRIPTIONGROUP_CONFIG).with_field("group", name);
        let one = SubscriptionGroupConfig::decode(&fixture.ask(asked).await.body).expect("a group");
        for told in [&one, &all[name]] {
            assert_eq!(told.group_retry_policy, set.group_retry_policy, "{name}");
            assert_eq!(told.retry_max_times, set.retry_max_times, "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_policies_of_both_types_outlive_a_restart_and_lost_files() {
    let fixture = Fixture::new().await;
    set_policies(&fixture).await;
    policies_are_told(&fixture).await;
    let fixture = fixture.restarted("").await;
    policies_are_told(&fixture).await;
    let Fixture { broker, client, directory } = fixture;
    client.close();
    broker.shutdown().await.expect("an orderly stop");
    std::fs::remove_dir_all(directory.path().join("config")).expect("the files are there");
    policies_are_told(&Fixture::on(directory, "").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_policies_of_both_types_are_those_of_the_next_master() {
    let (_names, server) = OldNames::start();
    let mut fixtures = Vec::new();
    for text in members(&server) {
        fixtures.push(Fixture::with(&text).await);
    }
    let master = wait_master(&fixtures, |_| true).await;
    set_policies(&fixtures[master]).await;
    policies_are_told(&fixtures[master]).await;
    let master = hand_on(&fixtures, master).await;
    policies_are_told(&fixtures[master]).await;
    end(fixtures).await;
}
