//! Codes 400, 401 and 402: who consumes which queues of a topic, and how.

use namesrv::{Namesrv, NamesrvOptions};
use protocol::{
    Command,
    body::{
        ConsumerData, HeartbeatData, MessageQueueAssignment, MessageRequestModeSerializeWrapper,
        QueryAssignmentRequestBody, QueryAssignmentResponseBody, SetMessageRequestModeRequestBody,
        SubscriptionGroupConfig,
    },
    code::{request, response},
};
use remoting::{Client, ClientOptions};

use crate::fixture::{Fixture, LIMIT};

/// A broker with a topic of four queues and a group, and the name server that knows it.
struct Rig {
    fixture: Fixture,
    names: Namesrv,
    members: Vec<Client>,
}

impl Rig {
    async fn with(text: &str) -> Self {
        let names = Namesrv::start(NamesrvOptions {
            listen: "127.0.0.1:0".parse().expect("an address"),
            ..NamesrvOptions::default()
        });
        let names = names.expect("a name server");
        let text = format!("namesrvAddr={}\n{text}", names.local_addr());
        let rig = Self { fixture: Fixture::with(&text).await, names, members: Vec::new() };
        rig.make_topic("T", 4).await;
        rig.make_group("G").await;
        rig
    }

    async fn make_topic(&self, topic: &str, queues: u32) {
        let made = Command::request(request::UPDATE_AND_CREATE_TOPIC)
            .with_field("topic", topic)
            .with_field("defaultTopic", "TBW102")
            .with_field("readQueueNums", queues.to_string())
            .with_field("writeQueueNums", queues.to_string())
            .with_field("perm", "6")
            .with_field("topicFilterType", "SINGLE_TAG")
            .with_field("topicSysFlag", "0")
            .with_field("order", "false");
        self.done(made).await;
    }

    async fn make_group(&self, group: &str) {
        let group = SubscriptionGroupConfig {
            group_name: group.into(),
            ..SubscriptionGroupConfig::default()
        };
        let made = Command::request(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP);
        self.done(made.with_body(group.encode())).await;
    }

    async fn done(&self, request: Command) {
        let answer = self.fixture.ask(request).await;
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
    }

    /// A member of the group comes online, by a connection of its own.
    async fn join(&mut self, client_id: &str) {
        let client = Client::new(ClientOptions::default());
        let address = self.fixture.broker.address().to_string();
        let answer = client.call(&address, heartbeat(client_id, "G"), LIMIT).await;
        assert_eq!(answer.expect("an answer").code, 0);
        self.members.push(client);
    }

    async fn set(&self, topic: &str, group: &str, mode: &str, share: i32) -> Command {
        self.fixture.ask(set_mode(topic, group, mode, share)).await
    }

    async fn assigned(&self, asked: &QueryAssignmentRequestBody) -> Option<String> {
        let answer = self.fixture.ask(query(asked)).await;
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
        list(&answer)
    }

    /// What a member is assigned by `AVG`.
    async fn of(&self, member: &str) -> Option<String> {
        self.assigned(&asked("T", member)).await
    }

    async fn end(self) {
        self.members.iter().for_each(Client::close);
        self.fixture.broker.shutdown().await.expect("an orderly stop");
        self.names.shutdown().await;
    }
}

fn heartbeat(client_id: &str, group: &str) -> Command {
    let data = HeartbeatData {
        client_id: client_id.into(),
        consumer_data_set: vec![ConsumerData {
            group_name: group.into(),
            consume_type: "CONSUME_PASSIVELY".into(),
            message_model: "CLUSTERING".into(),
            consume_from_where: "CONSUME_FROM_FIRST_OFFSET".into(),
            ..ConsumerData::default()
        }],
        ..HeartbeatData::default()
    };
    Command::request(request::HEART_BEAT).with_body(data.encode())
}

/// A request 401.
pub(crate) fn set_mode(topic: &str, group: &str, mode: &str, share: i32) -> Command {
    let wanted = SetMessageRequestModeRequestBody {
        topic: topic.into(),
        consumer_group: group.into(),
        mode: Some(mode.into()),
        pop_share_queue_num: share,
    };
    Command::request(request::SET_MESSAGE_REQUEST_MODE).with_body(wanted.encode())
}

/// The modes that an answer to 402 has, each as `topic group mode share`.
pub(crate) fn modes(answer: &Command) -> Vec<String> {
    let modes = MessageRequestModeSerializeWrapper::decode(&answer.body).expect("modes");
    let rows = modes.message_request_mode_map.into_values().flat_map(|groups| {
        groups.into_values().map(|row| {
            let mode = row.mode.unwrap_or_default();
            format!("{} {} {mode} {}", row.topic, row.consumer_group, row.pop_share_queue_num)
        })
    });
    rows.collect()
}

fn asked(topic: &str, member: &str) -> QueryAssignmentRequestBody {
    QueryAssignmentRequestBody {
        client_id: member.into(),
        consumer_group: "G".into(),
        message_model: Some("CLUSTERING".into()),
        strategy_name: Some("AVG".into()),
        topic: topic.into(),
    }
}

pub(crate) fn query(asked: &QueryAssignmentRequestBody) -> Command {
    Command::request(request::QUERY_ASSIGNMENT).with_body(asked.encode())
}

/// The list of an answer: the mode, and broker and number of each queue; nothing without a list.
fn list(answer: &Command) -> Option<String> {
    let body = QueryAssignmentResponseBody::decode(&answer.body).expect("an assignment");
    let queue = |assignment: MessageQueueAssignment| {
        let queue = assignment.message_queue.expect("a queue");
        let mode = assignment.mode.expect("a mode");
        format!("{mode} {}:{}", queue.broker_name, queue.queue_id)
    };
    Some(Vec::from_iter(body.message_queue_assignments?.into_iter().map(queue)).join(", "))
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_are_divided_among_those_that_are_online() {
    let mut rig = Rig::with("").await;
    assert_eq!(rig.of("c1").await, None, "nobody is online: the client keeps what it has");
    rig.join("c1").await;
    assert_eq!(rig.of("c1").await.as_deref(), Some("PULL b:0, PULL b:1, PULL b:2, PULL b:3"));
    rig.join("c0").await;
    assert_eq!(rig.of("c0").await.as_deref(), Some("PULL b:0, PULL b:1"), "by name, not arrival");
    assert_eq!(rig.of("c1").await.as_deref(), Some("PULL b:2, PULL b:3"));
    assert_eq!(rig.of("stranger").await.as_deref(), Some(""), "it is to give up what it has");
    let by = |name: Option<&str>| QueryAssignmentRequestBody {
        strategy_name: name.map(str::to_owned),
        ..asked("T", "c1")
    };
    let circle = rig.assigned(&by(Some("AVG_BY_CIRCLE"))).await;
    assert_eq!(circle.as_deref(), Some("PULL b:1, PULL b:3"));
    assert_eq!(rig.assigned(&by(Some("CONFIG"))).await, None, "what only clients know");
    assert_eq!(rig.assigned(&by(None)).await, None);
    assert_eq!(rig.assigned(&asked("Nowhere", "c1")).await, None);
    let all = QueryAssignmentRequestBody {
        message_model: Some("BROADCASTING".into()),
        ..asked("T", "whoever")
    };
    let all = rig.assigned(&all).await;
    assert_eq!(all.as_deref(), Some("PULL b:0, PULL b:1, PULL b:2, PULL b:3"));
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_pops_shares_queues_and_its_retry_topic_is_pulled() {
    let mut rig = Rig::with("").await;
    for member in ["c0", "c1", "c2", "c3"] {
        rig.join(member).await;
    }
    assert_eq!(rig.set("T", "G", "POP", 1).await.code, 0);
    assert_eq!(rig.of("c3").await.as_deref(), Some("POP b:0, POP b:3"), "its own, and the next");
    for everything in [0, -1, 3, 8] {
        assert_eq!(rig.set("T", "G", "POP", everything).await.code, 0);
        assert_eq!(rig.of("c3").await.as_deref(), Some("POP b:-1"), "{everything}");
    }
    let retry = rig.assigned(&asked("%RETRY%G", "c0")).await;
    assert_eq!(retry.as_deref(), Some("PULL b:0"));
    let light = rig.assigned(&asked("%LMQ%x", "c0")).await;
    assert_eq!(light.as_deref(), Some("PULL b:0"), "a light queue is in no route");
    assert_eq!(rig.set("T", "G", "PULL", 0).await.code, 0);
    assert_eq!(rig.of("c3").await.as_deref(), Some("PULL b:3"));
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_configuration_says_how_groups_consume_that_nobody_set() {
    let text = "defaultMessageRequestMode=POP\ndefaultPopShareQueueNum=1\n";
    let mut rig = Rig::with(text).await;
    for member in ["c0", "c1", "c2"] {
        rig.join(member).await;
    }
    assert_eq!(rig.of("c1").await.as_deref(), Some("POP b:2, POP b:3"));
    let retry = rig.assigned(&asked("%RETRY%G", "c0")).await;
    assert_eq!(retry.as_deref(), Some("PULL b:0"), "what is tried again is pulled");
    let off = Command::request(request::UPDATE_BROKER_CONFIG)
        .with_body("serverLoadBalancerEnable=false\ndefaultMessageRequestMode=PULL\n");
    rig.done(off).await;
    let all = "PULL b:0, PULL b:1, PULL b:2, PULL b:3";
    assert_eq!(rig.of("c1").await.as_deref(), Some(all), "nothing is divided");
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_set_or_asked_is_named() {
    let rig = Rig::with("autoCreateSubscriptionGroup=false\n").await;
    for (topic, group, mode, code, text) in [
        ("%RETRY%G", "G", "POP", response::NO_PERMISSION, "retry topic is not allowed to set mode"),
        ("Nowhere", "G", "POP", response::TOPIC_NOT_EXIST, "topic[Nowhere] not exist"),
        ("T", "Nobody", "POP", response::SUBSCRIPTION_GROUP_NOT_EXIST, "Nobody"),
        (
            "T",
            "G",
            "PUSH",
            response::INVALID_PARAMETER,
            "mode must be PULL or POP, the request has PUSH",
        ),
    ] {
        let answer = rig.set(topic, group, mode, 8).await;
        let remark = answer.remark.unwrap_or_default();
        assert_eq!(answer.code, code, "{remark}");
        assert!(remark.contains(text), "{remark}");
    }
    let set = rig.fixture.ask(Command::request(request::GET_ALL_MESSAGE_REQUEST_MODE)).await;
    assert!(modes(&set).is_empty(), "{:?}", modes(&set));
    for model in [None, Some("LITE".to_owned())] {
        let asked = QueryAssignmentRequestBody { message_model: model, ..asked("T", "c0") };
        let answer = rig.fixture.ask(query(&asked)).await;
        assert_eq!(answer.code, response::INVALID_PARAMETER);
        assert!(answer.remark.unwrap_or_default().contains("messageModel must be"));
    }
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn modes_outlive_a_restart_and_go_with_their_topic_and_group() {
    let rig = Rig::with("").await;
    rig.make_topic("U", 1).await;
    rig.make_group("H").await;
    for (topic, group, share) in [("T", "G", 8), ("T", "H", 2), ("U", "G", 0)] {
        assert_eq!(rig.set(topic, group, "POP", share).await.code, 0);
    }
    let Rig { fixture, names, .. } = rig;
    let all = || Command::request(request::GET_ALL_MESSAGE_REQUEST_MODE);
    let fixture = fixture.restarted("").await;
    assert_eq!(modes(&fixture.ask(all()).await), ["T G POP 8", "T H POP 2", "U G POP 0"]);
    let file = fixture.directory.path().join("config").join("messageRequestMode.json");
    let written = std::fs::read(&file).expect("Java's file");
    let java = Command::request(0).with_body(written);
    assert_eq!(modes(&java), ["T G POP 8", "T H POP 2", "U G POP 0"]);
    let topic = Command::request(request::DELETE_TOPIC_IN_BROKER).with_field("topic", "U");
    let group = Command::request(request::DELETE_SUBSCRIPTIONGROUP).with_field("groupName", "H");
    for request in [topic, group] {
        assert_eq!(fixture.ask(request).await.code, 0);
    }
    assert_eq!(modes(&fixture.ask(all()).await), ["T G POP 8"]);
    fixture.broker.shutdown().await.expect("an orderly stop");
    names.shutdown().await;
}
