//! Pulls of members of broadcasting groups, by a proxy and by themselves.

use std::time::Duration;

use protocol::{
    Command,
    body::{ConsumerData, GroupList, HeartbeatData, SubscriptionData},
    code::{request, response},
    header::{PullMessageRequest, QueryConsumerOffsetRequest, QueryTopicConsumeByWhoRequest},
};
use tokio::time::Instant;

use crate::fixture::{Fixture, LIMIT, field, pull_header, pull_request, records};

/// `requestSource` of a pull that a proxy makes for a member of a broadcasting group.
const BY_PROXY: Option<i32> = Some(1);
/// What the client of a fixture calls itself.
const CLIENT: &str = "127.0.0.1@1";

/// A pull of group `G` that brings its subscription along.
fn own(offset: i64) -> PullMessageRequest {
    PullMessageRequest { consumer_group: "G".into(), ..pull_header("T", 0, offset) }
}

/// The same by a proxy, for a client.
fn proxied(client: &str, offset: i64) -> PullMessageRequest {
    PullMessageRequest {
        request_source: BY_PROXY,
        proxy_froward_client_id: Some(client.into()),
        ..own(offset)
    }
}

async fn ask(fixture: &Fixture, header: &PullMessageRequest) -> Command {
    fixture.ask(pull_request(header)).await
}

/// Where an answer sends the member, which is told to go somewhere else.
fn sent_to(answer: &Command) -> &str {
    let told = (answer.code, answer.remark.as_deref());
    assert_eq!(told, (response::PULL_OFFSET_MOVED, Some("OFFSET_RESET")), "{answer:?}");
    assert_eq!(field(answer, "minOffset"), "0");
    field(answer, "nextBeginOffset")
}

/// How many messages an answer has.
fn found(answer: &Command) -> usize {
    assert_eq!(answer.code, response::SUCCESS, "{:?}", answer.remark);
    records(answer).len()
}

async fn with_messages(text: &str) -> Fixture {
    let fixture = Fixture::with(text).await;
    for body in ["a", "b", "c", "d"] {
        fixture.sent("T", body, "").await;
    }
    fixture.messages("T", 1, 4).await;
    fixture
}

/// A heartbeat of the fixture's client as a member of a broadcasting group.
async fn join(fixture: &Fixture) {
    let subscription = SubscriptionData {
        topic: "T".into(),
        sub_string: "*".into(),
        sub_version: 1,
        ..SubscriptionData::default()
    };
    let heartbeat = HeartbeatData {
        client_id: CLIENT.into(),
        consumer_data_set: vec![ConsumerData {
            group_name: "G".into(),
            consume_type: "CONSUME_PASSIVELY".into(),
            message_model: "BROADCASTING".into(),
            consume_from_where: "CONSUME_FROM_FIRST_OFFSET".into(),
            subscription_data_set: vec![subscription],
            ..ConsumerData::default()
        }],
        ..HeartbeatData::default()
    };
    let beat = Command::request(request::HEART_BEAT).with_body(heartbeat.encode());
    assert_eq!(fixture.ask(beat).await.code, 0);
}

/// The least offset of the group, where there is one.
async fn least_now(fixture: &Fixture) -> Option<String> {
    let query = QueryConsumerOffsetRequest {
        consumer_group: "G@broadcast".into(),
        topic: "T".into(),
        queue_id: 0,
        set_zero_if_not_found: Some(false),
    };
    let answer = fixture.ask(Command::request_with(request::QUERY_CONSUMER_OFFSET, &query)).await;
    answer.field("offset").map(str::to_owned)
}

/// Waits until the group has a least offset.
async fn least(fixture: &Fixture, wanted: &str) {
    let deadline = Instant::now() + LIMIT * 3;
    loop {
        let told = least_now(fixture).await;
        if told.as_deref() == Some(wanted) {
            return;
        }
        assert!(Instant::now() < deadline, "{told:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_goes_on_where_it_was_when_it_changes_between_proxy_and_broker() {
    let fixture = with_messages("").await;
    join(&fixture).await;
    assert_eq!(sent_to(&ask(&fixture, &proxied("new", -1)).await), "0", "a young queue");
    assert_eq!(found(&ask(&fixture, &proxied("new", 0)).await), 4);
    assert_eq!(found(&ask(&fixture, &own(1)).await), 3, "a client knows its own offset");
    assert_eq!(sent_to(&ask(&fixture, &proxied(CLIENT, 0)).await), "1", "it pulled by itself");
    assert_eq!(found(&ask(&fixture, &proxied(CLIENT, 1)).await), 3);
    assert_eq!(found(&ask(&fixture, &proxied(CLIENT, 3)).await), 1);
    assert_eq!(sent_to(&ask(&fixture, &proxied(CLIENT, -1)).await), "3", "of a new proxy");
    assert_eq!(sent_to(&ask(&fixture, &own(1)).await), "3", "and back");
    assert_eq!(found(&ask(&fixture, &own(3)).await), 1);
    let nothing = ask(&fixture, &own(4)).await;
    assert_eq!(nothing.code, response::PULL_NOT_FOUND);
    assert_eq!(sent_to(&ask(&fixture, &proxied(CLIENT, 0)).await), "4", "an empty pull counts");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_member_begins_with_the_one_that_is_furthest_behind_after_a_restart_too() {
    let fixture = with_messages("").await;
    assert_eq!(found(&ask(&fixture, &proxied("slow", 1)).await), 3);
    assert_eq!(found(&ask(&fixture, &proxied("quick", 3)).await), 1);
    least(&fixture, "1").await;
    assert_eq!(sent_to(&ask(&fixture, &proxied("third", -1)).await), "1");
    let header = QueryTopicConsumeByWhoRequest { topic: "T".into() };
    let who =
        fixture.ask(Command::request_with(request::QUERY_TOPIC_CONSUME_BY_WHO, &header)).await;
    let who = GroupList::decode(&who.body).expect("groups").group_list;
    assert!(who.iter().all(|group| !group.contains('@')), "{who:?}");

    let fixture = fixture.restarted("").await;
    fixture.messages("T", 1, 4).await;
    assert_eq!(sent_to(&ask(&fixture, &proxied("quick", -1)).await), "1", "messages again");
    assert_eq!(found(&ask(&fixture, &proxied("quick", 3)).await), 1, "who knows is not sent back");

    let delete = Command::request(request::DELETE_SUBSCRIPTIONGROUP).with_field("groupName", "G");
    assert_eq!(fixture.ask(delete).await.code, 0);
    assert_eq!(least_now(&fixture).await, None, "it goes with its group");
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_are_gone_hold_the_group_back_no_more() {
    let text = "broadcastOffsetExpireSecond=1\nbroadcastOffsetExpireMaxSecond=1\n";
    let fixture = with_messages(text).await;
    assert_eq!(found(&ask(&fixture, &proxied("slow", 1)).await), 3);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let deadline = Instant::now() + LIMIT * 3;
    loop {
        assert_eq!(found(&ask(&fixture, &proxied("quick", 3)).await), 1);
        if least_now(&fixture).await.as_deref() == Some("3") {
            break;
        }
        assert!(Instant::now() < deadline, "slow still holds the group back");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(sent_to(&ask(&fixture, &proxied("slow", -1)).await), "3", "it counts as new");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_pulls_are_left_alone() {
    let fixture = with_messages("").await;
    let sources = [None, Some(-1), Some(0)];
    for request_source in sources {
        let pull = PullMessageRequest { request_source, ..proxied("c", 2) };
        assert_eq!(found(&ask(&fixture, &pull).await), 2);
    }
    let nobody = PullMessageRequest { proxy_froward_client_id: None, ..proxied("c", 2) };
    assert_eq!(found(&ask(&fixture, &nobody).await), 2);
    let long = "c".repeat(1_025);
    assert_eq!(found(&ask(&fixture, &proxied(&long, 2)).await), 2);
    let plain = PullMessageRequest { request_source: None, ..proxied("c", -1) };
    let before = ask(&fixture, &plain).await;
    let off = with_messages("enableBroadcastOffsetStore=false\n").await;
    join(&off).await;
    let answer = ask(&off, &proxied("c", -1)).await;
    assert_eq!((answer.code, &answer.remark), (before.code, &before.remark), "as any other pull");
    assert_ne!(answer.remark.as_deref(), Some("OFFSET_RESET"));
}
