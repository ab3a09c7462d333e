//! A broker to talk to.

use std::{path::Path, time::Duration};

use broker::{Broker, BrokerOptions, RunningBroker, StartError, config::BrokerConfig};
use bytes::Bytes;
use protocol::{
    Command, ExtFields,
    body::{ConsumerData, HeartbeatData, SubscriptionData},
    code::request,
    header::{PullMessageRequest, SendMessageRequest},
    message::{
        record::{self, MessageRecord},
        tags::tags_code,
    },
};
use remoting::{Client, ClientOptions};
use tempfile::TempDir;

/// Ten times what the slowest answer should take on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A broker in a folder of its own, and a client.
pub(crate) struct Fixture {
    pub(crate) broker: RunningBroker,
    pub(crate) client: Client,
    pub(crate) directory: TempDir,
}

impl Fixture {
    /// With the configuration that a text gives.
    pub(crate) async fn with(text: &str) -> Self {
        let directory = tempfile::tempdir().expect("a folder");
        Self::on(directory, text).await
    }

    /// On a folder that is there already.
    pub(crate) async fn on(directory: TempDir, text: &str) -> Self {
        let broker = try_start(directory.path(), text).await.expect("a broker");
        Self { broker, client: Client::new(ClientOptions::default()), directory }
    }

    /// With defaults.
    pub(crate) async fn new() -> Self {
        Self::with("").await
    }

    /// Stops the broker in order and starts it again on the same folder.
    pub(crate) async fn restarted(self, text: &str) -> Self {
        self.client.close();
        self.broker.shutdown().await.expect("an orderly stop");
        Self::on(self.directory, text).await
    }

    pub(crate) async fn ask(&self, request: Command) -> Command {
        let address = self.broker.address().to_string();
        self.client.call(&address, request, LIMIT).await.expect("an answer")
    }

    /// Sends one message with code 310.
    pub(crate) async fn send(&self, topic: &str, body: &'static str, properties: &str) -> Command {
        let header = send_header(topic, properties);
        self.ask(v2(&header, request::SEND_MESSAGE_V2, Bytes::from_static(body.as_bytes()))).await
    }

    /// Sends and expects success.
    pub(crate) async fn sent(&self, topic: &str, body: &'static str, properties: &str) -> Command {
        let answer = self.send(topic, body, properties).await;
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
        answer
    }

    /// Pulls once with the subscription in the request and without waiting.
    pub(crate) async fn pull(&self, topic: &str, queue: i32, offset: i64) -> Command {
        self.ask(pull_request(&pull_header(topic, queue, offset))).await
    }

    /// Pulls until there is something, in all queues of a topic up to `queues`.
    pub(crate) async fn messages(
        &self,
        topic: &str,
        queues: i32,
        count: usize,
    ) -> Vec<MessageRecord> {
        let deadline = tokio::time::Instant::now() + LIMIT;
        loop {
            let mut found = Vec::new();
            for queue in 0..queues {
                let answer = self.pull(topic, queue, 0).await;
                if answer.code == 0 {
                    found.extend(records(&answer));
                }
            }
            if found.len() >= count {
                return found;
            }
            assert!(tokio::time::Instant::now() < deadline, "{} of {count} messages", found.len());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Pulls queue 0 from an offset on until there are so many messages.
    pub(crate) async fn messages_from(
        &self,
        topic: &str,
        offset: i64,
        count: usize,
    ) -> Vec<MessageRecord> {
        let deadline = tokio::time::Instant::now() + LIMIT;
        loop {
            let found = records(&self.pull(topic, 0, offset).await);
            if found.len() >= count {
                return found;
            }
            assert!(tokio::time::Instant::now() < deadline, "{} of {count} messages", found.len());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The messages of a topic that a key finds, once there are some: the index follows the queues.
    /// `unique` tells whether it is the key that the client made.
    pub(crate) async fn found(&self, topic: &str, key: &str, unique: bool) -> Vec<MessageRecord> {
        let query = Command::request(request::QUERY_MESSAGE)
            .with_field("topic", topic)
            .with_field("key", key)
            .with_field("maxNum", "32")
            .with_field("beginTimestamp", "0")
            .with_field("endTimestamp", i64::MAX.to_string())
            .with_field("_UNIQUE_KEY_QUERY", unique.to_string());
        let begun = std::time::Instant::now();
        loop {
            let answer = self.ask(query.clone()).await;
            let found = records(&answer);
            if !found.is_empty() {
                return found;
            }
            assert!(begun.elapsed() < LIMIT, "{key}: {answer:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// A heartbeat of a push consumer that filters one topic by an expression.
    pub(crate) async fn heartbeat_by_expression(
        &self,
        group: &str,
        topic: &str,
        (expression, version): (&str, i64),
    ) {
        let subscription = SubscriptionData {
            topic: topic.into(),
            sub_string: expression.into(),
            expression_type: "SQL92".into(),
            sub_version: version,
            ..SubscriptionData::default()
        };
        self.subscribe(group, subscription).await;
    }

    /// A heartbeat of a push consumer with one subscription.
    pub(crate) async fn heartbeat(&self, group: &str, topic: &str, tags: &str) {
        let codes = tags.split("||").map(str::trim).filter(|tag| *tag != "*");
        let subscription = SubscriptionData {
            topic: topic.into(),
            sub_string: tags.into(),
            code_set: codes
                .clone()
                .map(|tag| i32::try_from(tags_code(tag)).expect("a Java hash"))
                .collect(),
            tags_set: codes.map(str::to_owned).collect(),
            sub_version: 1,
            ..SubscriptionData::default()
        };
        self.subscribe(group, subscription).await;
    }

    async fn subscribe(&self, group: &str, subscription: SubscriptionData) {
        let data = HeartbeatData {
            client_id: "127.0.0.1@1".into(),
            consumer_data_set: vec![ConsumerData {
                group_name: group.into(),
                consume_type: "CONSUME_PASSIVELY".into(),
                message_model: "CLUSTERING".into(),
                consume_from_where: "CONSUME_FROM_FIRST_OFFSET".into(),
                subscription_data_set: vec![subscription],
                ..ConsumerData::default()
            }],
            ..HeartbeatData::default()
        };
        let answer = self.ask(Command::request(request::HEART_BEAT).with_body(data.encode())).await;
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
    }
}

/// Starts a broker on a folder, which it may refuse.
pub(crate) async fn try_start(directory: &Path, text: &str) -> Result<RunningBroker, StartError> {
    let standard = "brokerName=b\nbrokerIP1=127.0.0.1\nmappedFileSizeCommitLog=16777216\n";
    let config =
        BrokerConfig::read(&format!("{ROOM}{standard}{text}")).expect("a sound text").config;
    let options = BrokerOptions {
        config,
        namesrv: None,
        listen: Some("127.0.0.1:0".parse().expect("an address")),
        data_dir: Some(directory.to_owned()),
    };
    Broker::start(options).await
}

/// The header of a send as the Java client fills it.
pub(crate) fn send_header(topic: &str, properties: &str) -> SendMessageRequest {
    SendMessageRequest {
        producer_group: "P".into(),
        topic: topic.into(),
        default_topic: "TBW102".into(),
        default_topic_queue_nums: 4,
        queue_id: 0,
        born_timestamp: 1_700_000_000_000,
        properties: Some(properties.into()),
        ..SendMessageRequest::default()
    }
}

/// A send with one-letter names.
pub(crate) fn v2(header: &SendMessageRequest, code: i32, body: Bytes) -> Command {
    let mut request = Command::request(code).with_body(body);
    let mut fields = ExtFields::new();
    header.encode_v2(&mut fields);
    request.ext_fields = Some(fields);
    request
}

/// A pull of a tool: the subscription is in the request, and it does not wait.
pub(crate) fn pull_header(topic: &str, queue: i32, offset: i64) -> PullMessageRequest {
    PullMessageRequest {
        consumer_group: "TOOLS_CONSUMER".into(),
        topic: topic.into(),
        queue_id: queue,
        queue_offset: offset,
        max_msg_nums: 32,
        sys_flag: 4,
        subscription: Some("*".into()),
        ..PullMessageRequest::default()
    }
}

pub(crate) fn pull_request(header: &PullMessageRequest) -> Command {
    Command::request_with(request::PULL_MESSAGE, header)
}

/// The records of a pull's body.
pub(crate) fn records(answer: &Command) -> Vec<MessageRecord> {
    record::records(&answer.body).map(|view| view.expect("a record").to_record()).collect()
}

/// One field of an answer.
pub(crate) fn field<'a>(answer: &'a Command, name: &str) -> &'a str {
    answer.field(name).unwrap_or_else(|| panic!("{name} is missing in {answer:?}"))
}

/// The disk that the tests run on may be nearly full.
const ROOM: &str = "diskSpaceWarningLevelRatio=99\ncleanFileForciblyEnable=false\n";
