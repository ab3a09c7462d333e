//! Members, offsets, groups and locks: codes 14, 15, 34, 35, 38 and what tools ask about them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use broker::RunningBroker;
use protocol::{
    Command, Language,
    body::{
        BrokerStatsData, ConsumeStats, ConsumerConnection, GetConsumerListByGroupResponseBody,
        GetConsumerStatusBody, KvTable, LockBatchResponseBody, MessageQueue,
        QueryConsumeQueueResponseBody, ResetOffsetBody, ResetOffsetBodyForC,
        SubscriptionGroupConfig, SubscriptionGroupWrapper,
    },
    code::{request, response},
    header::PullMessageRequest,
};
use remoting::{Client, ClientOptions, Connection, Handler, Responder};

use super::fixture::{Fixture, LIMIT, pull_header, pull_request};

/// A broker, and clients with connections of their own.
struct Rig {
    broker: RunningBroker,
    folder: tempfile::TempDir,
}

impl Rig {
    async fn start() -> Self {
        Self::with("").await
    }

    async fn with(text: &str) -> Self {
        let fixture = Fixture::with(&format!("brokerName=broker-a\n{text}")).await;
        Self { broker: fixture.broker, folder: fixture.directory }
    }

    /// A client with a connection of its own.
    fn client(&self, id: &str) -> Peer {
        let inbox = Arc::new(Inbox::default());
        let handler = Arc::<Inbox>::clone(&inbox);
        let client = Client::new(ClientOptions { handler: Some(handler), ..Default::default() });
        Peer { id: id.to_owned(), address: self.broker.address().to_string(), client, inbox }
    }
}

/// Requests that the broker sent, and what they are answered with.
#[derive(Debug, Default)]
struct Inbox {
    seen: Mutex<Vec<Command>>,
    answers: Mutex<BTreeMap<i32, (i32, Vec<u8>)>>,
}

impl Handler for Inbox {
    fn handle(&self, _connection: &Arc<Connection>, request: Command, responder: Responder) {
        let answer = self.answers.lock().unwrap().get(&request.code).cloned();
        self.seen.lock().unwrap().push(request.clone());
        match answer {
            Some((code, body)) => responder.send(request.response(code).with_body(body)),
            None => responder.leave_unanswered(),
        }
    }
}

struct Peer {
    id: String,
    address: String,
    client: Client,
    inbox: Arc<Inbox>,
}

impl Peer {
    async fn call(&self, code: i32, fields: &[(&'static str, &str)], body: &str) -> Command {
        self.client.call(&self.address, command(code, fields, body), LIMIT).await.unwrap()
    }

    async fn heartbeat(&self, group: &str, topics: &[&str]) -> Command {
        self.call(request::HEART_BEAT, &[], &self.heartbeat_body(group, "CLUSTERING", topics)).await
    }

    fn heartbeat_body(&self, group: &str, model: &str, topics: &[&str]) -> String {
        let subscription = |topic: &&str| {
            format!(
                r#"{{"topic":"{topic}","subString":"A","tagsSet":["A"],"codeSet":["65"],"subVersion":7,"expressionType":"TAG"}}"#
            )
        };
        let subscriptions: Vec<String> = topics.iter().map(subscription).collect();
        format!(
            r#"{{"clientID":"{}","producerDataSet":[{{"groupName":"P"}}],"consumerDataSet":[{{"groupName":"{group}","consumeType":"CONSUME_PASSIVELY","messageModel":"{model}","consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","subscriptionDataSet":[{}],"unitMode":false}}]}}"#,
            self.id,
            subscriptions.join(",")
        )
    }

    async fn send(&self, topic: &str, queue: i32, body: &str) -> Command {
        let queue = queue.to_string();
        let fields = [
            ("a", "P"),
            ("b", topic),
            ("c", "TBW102"),
            ("d", "4"),
            ("e", queue.as_str()),
            ("f", "0"),
            ("g", "1700000000000"),
            ("h", "0"),
            ("i", "KEYS\u{1}k1\u{2}TAGS\u{1}A\u{2}"),
            ("j", "0"),
            ("m", "false"),
        ];
        let answer = self.call(request::SEND_MESSAGE_V2, &fields, body).await;
        assert_eq!(answer.code, response::SUCCESS, "{answer:?}");
        let stored: i64 = answer.field("queueOffset").unwrap().parse().unwrap();
        self.in_queue(topic, &queue, stored).await;
        answer
    }

    /// Waits until a message that was acknowledged is in its queue, for readers of queues.
    async fn in_queue(&self, topic: &str, queue: &str, offset: i64) {
        let fields = [("topic", topic), ("queueId", queue)];
        for _ in 0..2_000 {
            let max = self.call(request::GET_MAX_OFFSET, &fields, "").await;
            if max.field("offset").unwrap().parse::<i64>().unwrap() > offset {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("message {offset} of {topic} did not get into queue {queue}");
    }

    /// Waits until the broker has sent this code `times` times.
    async fn heard(&self, code: i32, times: usize) -> Vec<Command> {
        for _ in 0..2_000 {
            let seen = self.inbox.seen.lock().unwrap().clone();
            let of_code: Vec<_> = seen.into_iter().filter(|seen| seen.code == code).collect();
            if of_code.len() >= times {
                return of_code;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("code {code} did not come {times} times: {:?}", self.inbox.seen);
    }

    fn answers(&self, code: i32, body: &str) {
        let answer = (response::SUCCESS, body.as_bytes().to_vec());
        self.inbox.answers.lock().unwrap().insert(code, answer);
    }

    async fn consumer_ids(&self, group: &str) -> Result<Vec<String>, Command> {
        let answer =
            self.call(request::GET_CONSUMER_LIST_BY_GROUP, &[("consumerGroup", group)], "").await;
        if answer.code != response::SUCCESS {
            return Err(answer);
        }
        let body = GetConsumerListByGroupResponseBody::decode(&answer.body).unwrap();
        let mut ids = body.consumer_id_list;
        ids.sort();
        Ok(ids)
    }

    async fn offset(&self, group: &str, topic: &str, queue: &str) -> Command {
        let fields = [("consumerGroup", group), ("topic", topic), ("queueId", queue)];
        self.call(request::QUERY_CONSUMER_OFFSET, &fields, "").await
    }

    async fn commit(&self, group: &str, topic: &str, queue: &str, offset: &str) -> Command {
        let fields = [
            ("consumerGroup", group),
            ("topic", topic),
            ("queueId", queue),
            ("commitOffset", offset),
        ];
        self.call(request::UPDATE_CONSUMER_OFFSET, &fields, "").await
    }
}

fn command(code: i32, fields: &[(&'static str, &str)], body: &str) -> Command {
    let mut command = Command::request(code).with_body(body.as_bytes().to_vec());
    for (name, value) in fields {
        command = command.with_field(name, *value);
    }
    command
}

fn remark(answer: &Command) -> &str {
    answer.remark.as_deref().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_are_told_of_each_other_until_the_socket_closes() {
    let rig = Rig::start().await;
    let (one, two) = (rig.client("c1"), rig.client("c2"));
    let nobody = one.consumer_ids("G").await.unwrap_err();
    assert_eq!(nobody.code, response::SYSTEM_ERROR);
    assert_eq!(remark(&nobody), "no consumer for this group, G");

    let answer = one.heartbeat("G", &["T"]).await;
    assert_eq!(answer.code, response::SUCCESS);
    assert!(answer.version >= 232, "clients refuse SQL92 from older brokers");
    assert_eq!(answer.field("IS_SUPPORT_HEART_BEAT_V2"), Some("true"));
    assert_eq!(answer.field("IS_SUB_CHANGE"), Some("true"));
    let retry = one.call(request::GET_TOPIC_CONFIG, &[("topic", "%RETRY%G")], "").await;
    assert_eq!(retry.code, response::SUCCESS, "made before the heartbeat was answered");
    one.heard(request::NOTIFY_CONSUMER_IDS_CHANGED, 1).await;

    two.heartbeat("G", &["T"]).await;
    let told = one.heard(request::NOTIFY_CONSUMER_IDS_CHANGED, 2).await;
    assert_eq!(told[1].field("consumerGroup"), Some("G"));
    assert!(told[1].is_oneway());
    assert_eq!(one.consumer_ids("G").await.unwrap(), ["c1", "c2"]);

    // As Go clients do: no code 35, just the end of the connection.
    two.client.close();
    one.heard(request::NOTIFY_CONSUMER_IDS_CHANGED, 3).await;
    assert_eq!(one.consumer_ids("G").await.unwrap(), ["c1"]);

    let fields = [("clientID", "c1"), ("consumerGroup", "G")];
    let left = one.call(request::UNREGISTER_CLIENT, &fields, "").await;
    assert_eq!(left.code, response::SUCCESS);
    assert!(one.consumer_ids("G").await.is_err());
    rig.broker.shutdown().await.expect("an orderly stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broadcasting_members_are_not_told() {
    let rig = Rig::start().await;
    let (one, two) = (rig.client("c1"), rig.client("c2"));
    for peer in [&one, &two] {
        let body = peer.heartbeat_body("B", "BROADCASTING", &["T"]);
        peer.call(request::HEART_BEAT, &[], &body).await;
    }
    // An answer to a later request comes behind whatever was sent before it.
    assert_eq!(one.consumer_ids("B").await.unwrap(), ["c1", "c2"]);
    assert!(one.inbox.seen.lock().unwrap().is_empty());
    rig.broker.shutdown().await.expect("an orderly stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offsets_are_committed_queried_and_reset() {
    let rig = Rig::start().await;
    let peer = rig.client("c1");
    for number in 0..5 {
        peer.send("T", 0, &format!("message {number}")).await;
    }
    let unknown = peer.commit("G", "T", "0", "1").await;
    assert_eq!(unknown.code, response::SUBSCRIPTION_GROUP_NOT_EXIST);
    assert_eq!(remark(&unknown), "Group G not exist!");
    peer.heartbeat("G", &["T"]).await;
    let young = peer.offset("G", "T", "0").await;
    assert_eq!(young.field("offset"), Some("0"), "a young queue is consumed from its start");
    let empty = peer.offset("G", "T", "1").await;
    assert_eq!(empty.code, response::QUERY_NOT_FOUND);
    assert_eq!(remark(&empty), "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first");
    assert_eq!(peer.commit("G", "nowhere", "0", "1").await.code, response::TOPIC_NOT_EXIST);

    assert_eq!(peer.commit("G", "T", "0", "4").await.code, response::SUCCESS);
    assert_eq!(peer.commit("G", "T", "0", "2").await.code, response::SUCCESS);
    assert_eq!(peer.offset("G", "T", "0").await.field("offset"), Some("2"));

    let mut reset = vec![("topic", "T"), ("group", "G"), ("timestamp", "0"), ("isForce", "true")];
    let all = peer.call(request::INVOKE_BROKER_TO_RESET_OFFSET, &reset, "").await;
    let body = ResetOffsetBody::decode(&all.body).unwrap();
    assert_eq!(body.offset_table[&MessageQueue::new("T", "broker-a", 0)], 0);
    assert!(
        all.body.starts_with(
            br#"{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:0,"#
        )
    );
    assert_eq!(peer.offset("G", "T", "0").await.field("offset"), Some("0"));
    let late = peer.commit("G", "T", "0", "5").await;
    assert_eq!(remark(&late), "Offset has been previously reset");
    reset.extend([("queueId", "0"), ("offset", "99")]);
    let outside = peer.call(request::INVOKE_BROKER_TO_RESET_OFFSET, &reset, "").await;
    assert_eq!(outside.code, response::SYSTEM_ERROR);
    assert_eq!(remark(&outside), "Target offset 99 not in consume queue range [0-5]");
    rig.broker.shutdown().await.expect("an orderly stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_is_told_once_by_a_pull_elsewhere_or_by_a_query() {
    let rig = Rig::start().await;
    let peer = rig.client("c1");
    for number in 0..3 {
        peer.send("T", 0, &format!("message {number}")).await;
    }
    peer.heartbeat("G", &["T"]).await;
    let reset = async |offset: &str| {
        let fields = [
            ("topic", "T"),
            ("group", "G"),
            ("queueId", "0"),
            ("offset", offset),
            ("timestamp", "0"),
            ("isForce", "true"),
        ];
        let done = peer.call(request::INVOKE_BROKER_TO_RESET_OFFSET, &fields, "").await;
        assert_eq!(done.code, response::SUCCESS);
    };
    let pull = async |offset: i64| {
        let header =
            PullMessageRequest { consumer_group: "G".to_owned(), ..pull_header("T", 0, offset) };
        peer.client.call(&peer.address, pull_request(&header), LIMIT).await.unwrap()
    };
    reset("1").await;
    let moved = pull(3).await;
    assert_eq!(moved.code, response::PULL_OFFSET_MOVED);
    assert_eq!((moved.field("nextBeginOffset"), remark(&moved)), (Some("1"), "OFFSET_RESET"));
    assert_eq!(pull(3).await.code, response::PULL_NOT_FOUND, "told once");
    reset("2").await;
    assert_eq!(peer.offset("G", "T", "0").await.field("offset"), Some("2"));
    assert_eq!(pull(2).await.code, response::SUCCESS, "it begins where it was sent");
    assert_eq!(peer.commit("G", "T", "0", "3").await.remark, None, "and commits again");
    rig.broker.shutdown().await.expect("an orderly stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_oneway_commit_is_not_answered_and_offsets_survive_a_restart() {
    let rig = Rig::start().await;
    let peer = rig.client("c1");
    peer.send("T", 0, "m").await;
    peer.heartbeat("G", &["T"]).await;
    let fields = [("consumerGroup", "G"), ("topic", "T"), ("queueId", "0"), ("commitOffset", "1")];
    let commit = command(request::UPDATE_CONSUMER_OFFSET, &fields, "");
    peer.client.oneway(&peer.address, commit).await.unwrap();
    let mut offset = None;
    for _ in 0..1_000 {
        offset = peer.offset("G", "T", "0").await.field("offset").map(str::to_owned);
        if offset.as_deref() == Some("1") {
            break;
        }
    }
    assert_eq!(offset.as_deref(), Some("1"));
    rig.broker.shutdown().await.expect("an orderly stop");
    let folder = rig.folder.path();
    let text = std::fs::read_to_string(folder.join("config/consumerOffset.json")).unwrap();
    assert!(text.contains("\"T@G\":{0:1\n"), "{text}");
    let groups = std::fs::read_to_string(folder.join("config/subscriptionGroup.json")).unwrap();
    assert!(groups.contains("\"groupName\":\"G\""), "{groups}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_handed_on_to_consumers() {
    let rig = Rig::start().await;
    let (admin, consumer) = (rig.client("admin"), rig.client("c1"));
    let sent = admin.send("T", 0, "the body").await;
    consumer.heartbeat("G", &["T"]).await;
    let fields = [("consumerGroup", "G"), ("clientId", "c1"), ("jstackEnable", "false")];
    let odd = "{\"mqTable\":{{\"brokerName\":\"b\",\"queueId\":0,\"topic\":\"T\"}:{}}}";
    consumer.answers(request::GET_CONSUMER_RUNNING_INFO, odd);
    let info = admin.call(request::GET_CONSUMER_RUNNING_INFO, &fields, "").await;
    assert_eq!((info.code, &info.body[..]), (response::SUCCESS, odd.as_bytes()));
    let fields = [("consumerGroup", "G"), ("clientId", "nobody")];
    let offline = admin.call(request::GET_CONSUMER_RUNNING_INFO, &fields, "").await;
    assert_eq!(offline.code, response::SYSTEM_ERROR);
    assert_eq!(remark(&offline), "The Consumer <G> <nobody> not online");

    consumer.answers(request::CONSUME_MESSAGE_DIRECTLY, r#"{"consumeResult":"CR_SUCCESS"}"#);
    let message_id = sent.field("msgId").unwrap();
    let fields =
        [("consumerGroup", "G"), ("clientId", "c1"), ("msgId", message_id), ("topic", "T")];
    let consumed = admin.call(request::CONSUME_MESSAGE_DIRECTLY, &fields, "").await;
    assert_eq!(consumed.code, response::SUCCESS, "{consumed:?}");
    let handed = consumer.heard(request::CONSUME_MESSAGE_DIRECTLY, 1).await;
    assert_eq!(handed[0].field("brokerName"), Some("broker-a"));
    assert_eq!(handed[0].field("topicSysFlag"), Some("0"));
    assert!(handed[0].body.windows(8).any(|bytes| bytes == b"the body"));

    let status = r#"{"consumerTable":{},"messageQueueTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:6}}"#;
    consumer.answers(request::GET_CONSUMER_STATUS_FROM_CLIENT, status);
    let fields = [("topic", "T"), ("group", "G")];
    let answer = admin.call(request::INVOKE_BROKER_TO_GET_CONSUMER_STATUS, &fields, "").await;
    let body = GetConsumerStatusBody::decode(&answer.body).unwrap();
    assert_eq!(body.consumer_table["c1"][&MessageQueue::new("T", "broker-a", 0)], 6);
    let fields = [("topic", "T"), ("group", "H")];
    let none = admin.call(request::INVOKE_BROKER_TO_GET_CONSUMER_STATUS, &fields, "").await;
    assert_eq!(none.code, response::SYSTEM_ERROR);
    rig.broker.shutdown().await.expect("an orderly stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_older_reset_tells_consumers_and_needs_them() {
    let rig = Rig::with("useServerSideResetOffset=false\n").await;
    let (admin, consumer) = (rig.client("admin"), rig.client("c1"));
    admin.send("T", 0, "m").await;
    let fields = [("topic", "T"), ("group", "G"), ("timestamp", "0"), ("isForce", "true")];
    let unknown = admin.call(request::INVOKE_BROKER_TO_RESET_OFFSET, &fields, "").await;
    assert_eq!(unknown.code, response::SYSTEM_ERROR, "no offsets to compare with");
    consumer.heartbeat("G", &["T"]).await;
    for queue in ["0", "1", "2", "3"] {
        consumer.commit("G", "T", queue, "1").await;
    }
    let done = admin.call(request::INVOKE_BROKER_TO_RESET_OFFSET, &fields, "").await;
    assert_eq!(done.code, response::SUCCESS, "{done:?}");
    let told = consumer.heard(request::RESET_CONSUMER_CLIENT_OFFSET, 1).await;
    assert_eq!(told[0].body, done.body);
    assert_eq!(told[0].field("isForce"), Some("false"), "as Java sends it");
    // A tool in C++ has consumers in C++, which read a list.
    let from_cpp = command(request::INVOKE_BROKER_TO_RESET_OFFSET, &fields, "");
    let from_cpp = Command { language: Language::Cpp, ..from_cpp };
    let done = admin.client.call(&admin.address, from_cpp, LIMIT).await.unwrap();
    ResetOffsetBody::decode(&done.body).expect("the tool is told a table all the same");
    let told = consumer.heard(request::RESET_CONSUMER_CLIENT_OFFSET, 2).await;
    let list = ResetOffsetBodyForC::decode(&told[1].body).expect("a list").offset_table;
    let rows: Vec<_> = list.iter().map(|row| (&*row.topic, row.queue_id, row.offset)).collect();
    assert_eq!(rows, [("T", 0, 0), ("T", 1, 0), ("T", 2, 0), ("T", 3, 0)]);
    assert!(told[1].body.starts_with(br#"{"offsetTable":[{"#), "{:?}", told[1].body);
    consumer
        .call(request::UNREGISTER_CLIENT, &[("clientID", "c1"), ("consumerGroup", "G")], "")
        .await;
    let gone = admin.call(request::INVOKE_BROKER_TO_RESET_OFFSET, &fields, "").await;
    assert_eq!(gone.code, response::CONSUMER_NOT_ONLINE);
    rig.broker.shutdown().await.expect("an orderly stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_is_locked_by_one_client() {
    let rig = Rig::start().await;
    let peer = rig.client("c1");
    let body = |client: &str| {
        format!(
            r#"{{"consumerGroup":"G","clientId":"{client}","mqSet":[{{"topic":"T","brokerName":"broker-a","queueId":0}}]}}"#
        )
    };
    let granted = async |code: i32, client: &str| {
        let answer = peer.call(code, &[], &body(client)).await;
        assert_eq!(answer.code, response::SUCCESS);
        LockBatchResponseBody::decode(&answer.body).unwrap().lock_ok_mq_set.len()
    };
    assert_eq!(granted(request::LOCK_BATCH_MQ, "c1").await, 0, "no such topic");
    assert_eq!(peer.send("T", 0, "m").await.code, response::SUCCESS);
    assert_eq!(granted(request::LOCK_BATCH_MQ, "c1").await, 1);
    assert_eq!(granted(request::LOCK_BATCH_MQ, "c2").await, 0);
    let unlocked = peer.call(request::UNLOCK_BATCH_MQ, &[], &body("c1")).await;
    assert!(unlocked.body.is_empty());
    assert_eq!(granted(request::LOCK_BATCH_MQ, "c2").await, 1);
    rig.broker.shutdown().await.expect("an orderly stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_made_listed_by_pages_and_deleted() {
    let rig = Rig::start().await;
    let admin = rig.client("admin");
    let made = r#"{"groupName":"G","retryMaxTimes":5,"consumeBroadcastEnable":false}"#;
    let update = request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP;
    assert_eq!(admin.call(update, &[], made).await.code, response::SUCCESS);
    let bad = admin.call(update, &[], r#"{"groupName":"bad/name"}"#).await;
    assert_eq!(bad.code, response::INVALID_PARAMETER);
    let one = admin.call(request::GET_SUBSCRIPTIONGROUP_CONFIG, &[("group", "G")], "").await;
    let group = SubscriptionGroupConfig::decode(&one.body).unwrap();
    assert_eq!((group.retry_max_times, group.consume_broadcast_enable), (5, false));
    let none =
        admin.call(request::GET_SUBSCRIPTIONGROUP_CONFIG, &[("group", "bad/name")], "").await;
    assert_eq!(none.code, response::SUBSCRIPTION_GROUP_NOT_EXIST);
    assert_eq!(remark(&none), "No group in this broker");

    let list = request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG;
    let whole = admin.call(list, &[], "").await;
    let wrapper = SubscriptionGroupWrapper::decode(&whole.body).unwrap();
    let total = wrapper.subscription_group_table.len();
    assert_eq!(whole.field("totalGroupNum"), Some(total.to_string().as_str()));
    let mut seen = Vec::new();
    while seen.len() < total {
        let first = seen.len().to_string();
        let fields = [("groupSeq", first.as_str()), ("maxGroupNum", "2"), ("dataVersion", "")];
        let page = admin.call(list, &fields, "").await;
        let page = SubscriptionGroupWrapper::decode(&page.body).unwrap();
        assert!(!page.subscription_group_table.is_empty());
        seen.extend(page.subscription_group_table.into_keys());
    }
    assert!(seen.contains(&"G".to_owned()));
    let fields = [("groupName", "G"), ("cleanOffset", "true")];
    let deleted = admin.call(request::DELETE_SUBSCRIPTIONGROUP, &fields, "").await;
    assert_eq!(deleted.code, response::SUCCESS);
    let again = admin.call(request::DELETE_SUBSCRIPTIONGROUP, &fields, "").await;
    assert_eq!(again.code, response::SUCCESS, "always, as Java");
    rig.broker.shutdown().await.expect("an orderly stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_see_who_is_connected_and_how_far() {
    let rig = Rig::start().await;
    let (admin, consumer) = (rig.client("admin"), rig.client("c1"));
    admin.send("T", 0, "m").await;
    let fields = [("consumerGroup", "G")];
    let offline = admin.call(request::GET_CONSUMER_CONNECTION_LIST, &fields, "").await;
    assert_eq!(offline.code, response::CONSUMER_NOT_ONLINE);
    assert_eq!(remark(&offline), "the consumer group[G] not online");
    consumer.heartbeat("G", &["T"]).await;
    let online = admin.call(request::GET_CONSUMER_CONNECTION_LIST, &fields, "").await;
    let body = ConsumerConnection::decode(&online.body).unwrap();
    assert_eq!(body.connection_set[0].client_id, "c1");
    assert_eq!(body.connection_set[0].language, "JAVA");
    assert_eq!(body.subscription_table["T"].code_set, [65].into());
    let producers =
        admin.call(request::GET_PRODUCER_CONNECTION_LIST, &[("producerGroup", "P")], "").await;
    assert_eq!(producers.code, response::SUCCESS);
    let none =
        admin.call(request::GET_PRODUCER_CONNECTION_LIST, &[("producerGroup", "Q")], "").await;
    assert_eq!(remark(&none), "the producer group[Q] not exist");

    consumer.commit("G", "T", "0", "1").await;
    let stats = admin.call(request::GET_CONSUME_STATS, &fields, "").await;
    let stats = ConsumeStats::decode(&stats.body).unwrap();
    let row = &stats.offset_table[&MessageQueue::new("T", "broker-a", 0)];
    assert_eq!((row.broker_offset, row.consumer_offset), (1, 1));
    assert!(row.last_timestamp > 0);
    let who = admin.call(request::QUERY_TOPIC_CONSUME_BY_WHO, &[("topic", "T")], "").await;
    assert_eq!(&who.body[..], br#"{"groupList":["G"]}"#);
    rig.broker.shutdown().await.expect("an orderly stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statistics_and_runtime_info_are_in_javas_words() {
    let rig = Rig::start().await;
    let admin = rig.client("admin");
    let view = async |name: &str, key: &str| {
        admin
            .call(request::VIEW_BROKER_STATS_DATA, &[("statsName", name), ("statsKey", key)], "")
            .await
    };
    let none = view("TOPIC_PUT_NUMS", "T").await;
    assert_eq!(none.code, response::SYSTEM_ERROR);
    assert_eq!(remark(&none), "The stats <TOPIC_PUT_NUMS> <T> not exist");
    admin.send("T", 0, "m").await;
    let some = view("TOPIC_PUT_NUMS", "T").await;
    assert_eq!(BrokerStatsData::decode(&some.body).unwrap().stats_minute.sum, 1);

    let deadline = tokio::time::Instant::now() + LIMIT;
    let table = loop {
        let info = admin.call(request::GET_BROKER_RUNTIME_INFO, &[], "").await;
        let table = KvTable::decode(&info.body).unwrap().table;
        if table["msgPutTotalTodayNow"] == "1" {
            break table;
        }
        assert!(tokio::time::Instant::now() < deadline, "{table:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(table["brokerVersionDesc"], "V5_5_0");
    assert_eq!(table["brokerActive"], "true");
    for name in ["putTps", "getTransferredTps", "getMissTps", "getTotalTps", "getFoundTps"] {
        let numbers: Vec<f64> = table[name].split(' ').map(|text| text.parse().unwrap()).collect();
        assert_eq!(numbers.len(), 3, "{name}");
    }
    let ratio: f64 = table["commitLogDiskRatio"].parse().unwrap();
    assert!((0.0..=1.0).contains(&ratio));
    assert!(table["runtime"].starts_with("[ 0 days, 0 hours, "));
    assert!(table["earliestMessageTimeStamp"].parse::<i64>().unwrap() > 0);
    rig.broker.shutdown().await.expect("an orderly stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_heartbeat_keeps_subscriptions_and_asks_for_unknown_ones() {
    let rig = Rig::start().await;
    let peer = rig.client("c1");
    let beat = async |fingerprint: i32, with: bool| {
        let full = peer.heartbeat_body("G", "CLUSTERING", if with { &["T"] } else { &[] });
        let body = format!(
            "{},\"heartbeatFingerprint\":{fingerprint},\"withoutSub\":{}}}",
            full.strip_suffix('}').unwrap(),
            !with
        );
        let answer = peer.call(request::HEART_BEAT, &[], &body).await;
        assert_eq!(answer.field("IS_SUPPORT_HEART_BEAT_V2"), Some("true"));
        answer.field("IS_SUB_CHANGE") == Some("true")
    };
    assert!(beat(7, false).await, "as after a restart of the broker");
    assert!(!beat(7, true).await);
    assert!(!beat(7, false).await);
    let fields = [("group", "G"), ("topic", "T")];
    let kept = peer.call(request::QUERY_SUBSCRIPTION_BY_CONSUMER, &fields, "").await;
    assert!(kept.body.starts_with(br#"{"group":"G","subscriptionData":{"#), "{:?}", kept.body);
    assert!(beat(8, false).await);
    rig.broker.shutdown().await.expect("an orderly stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_without_a_topic_are_removed_on_demand() {
    let rig = Rig::start().await;
    let peer = rig.client("c1");
    peer.send("T", 0, "m").await;
    assert_eq!(peer.call(request::CLEAN_UNUSED_TOPIC, &[], "").await.code, response::SUCCESS);
    let fields = [("topic", "T"), ("queueId", "0"), ("index", "0"), ("count", "9")];
    let units = peer.call(request::QUERY_CONSUME_QUEUE, &fields, "").await;
    let units = QueryConsumeQueueResponseBody::decode(&units.body).unwrap();
    assert_eq!((units.queue_data.len(), units.max_queue_index), (1, 1), "a topic in use stays");
    rig.broker.shutdown().await.expect("an orderly stop");
}

/// Case 68 of the known faults: whatever the fields are, there is an answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_requests_are_answered() {
    let rig = Rig::start().await;
    let peer = rig.client("c1");
    let names = [
        "consumerGroup",
        "producerGroup",
        "group",
        "groupName",
        "topic",
        "queueId",
        "offset",
        "commitOffset",
        "timestamp",
        "clientID",
        "clientId",
        "key",
        "maxNum",
        "beginTimestamp",
        "endTimestamp",
        "statsName",
        "statsKey",
        "groupSeq",
        "maxGroupNum",
        "index",
        "count",
        "compareGroup",
        "srcGroup",
        "destGroup",
        "msgId",
        "isForce",
        "readable",
    ];
    let codes = [
        12, 14, 15, 28, 29, 30, 31, 32, 33, 34, 35, 38, 41, 42, 43, 45, 200, 201, 203, 204, 207,
        208, 222, 223, 225, 300, 303, 306, 307, 308, 309, 314, 315, 316, 317, 321, 328, 329, 343,
        345, 352, 353, 402, 907,
    ];
    let bodies = ["", "not json", "{", "[]", "{\"clientID\":7,\"consumerDataSet\":[null,3]}"];
    for code in codes {
        for value in ["abc", "2147483648", "-1", "", "9223372036854775807"] {
            let fields: Vec<_> = names.iter().map(|name| (*name, value)).collect();
            for body in bodies {
                let answer = peer.call(code, &fields, body).await;
                assert!(answer.is_response(), "{code}");
            }
            for missing in 0..names.len() {
                let mut fields = fields.clone();
                fields.remove(missing);
                peer.call(code, &fields, "").await;
            }
        }
        peer.call(code, &[], "").await;
    }
    let alive = peer.heartbeat("G", &["T"]).await;
    assert_eq!(alive.code, response::SUCCESS);
    rig.broker.shutdown().await.expect("an orderly stop");
}
