//! Strangers: what a name server takes from whoever reaches its port.
//!
//! Goal: input never panics, names cost nothing, and only the offender's connection suffers.
//! Method: the recorded requests of official programs with each field and body made wrong, unknown
//! topics without end, and random bytes, over real connections; beside them another client.

#![expect(clippy::expect_used, reason = "a test stops at the first surprise")]

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use namesrv::{Namesrv, NamesrvOptions};
use protocol::code::{request, response};
use protocol::{Command, ExtFields, frame};
use remoting::{Client, ClientOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const LONG: Duration = Duration::from_secs(30);
const FRAMES: &str = include_str!("../testdata/frames.jsonl");

/// Requests that are under way at a time.
const WINDOW: usize = 64;

static PANICS: AtomicUsize = AtomicUsize::new(0);

struct Rig {
    namesrv: Namesrv,
    client: Client,
    outer: tempfile::TempDir,
}

impl Rig {
    fn start() -> Self {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                PANICS.fetch_add(1, Ordering::SeqCst);
                usual(info);
            }));
        });
        let outer = tempfile::tempdir().expect("a folder");
        let options = NamesrvOptions {
            listen: "127.0.0.1:0".parse().expect("an address"),
            kv_path: Some(outer.path().join("data").join("kv.json")),
            ..NamesrvOptions::default()
        };
        let namesrv = Namesrv::start(options).expect("starts");
        Self { namesrv, client: Client::new(ClientOptions::default()), outer }
    }

    async fn ask_all(&self, requests: &[Command]) -> Vec<Command> {
        let address = self.namesrv.local_addr().to_string();
        let connection = self.client.connection(&address).await.expect("a connection");
        let mut answers = Vec::with_capacity(requests.len());
        for window in requests.chunks(WINDOW) {
            let calls: Vec<_> =
                window.iter().map(|request| connection.call(request.clone(), LONG)).collect();
            for call in calls {
                answers.push(call.await.expect("an answer"));
            }
        }
        answers
    }

    /// All of them are answered in words, and others are served.
    async fn answered(&self, requests: &[Command]) {
        for (request, answer) in requests.iter().zip(self.ask_all(requests).await) {
            assert!(answer.is_response(), "{request:?}: {answer:?}");
            let remark = answer.remark.unwrap_or_default();
            assert!(answer.code == response::SUCCESS || !remark.is_empty(), "{request:?}");
            assert!(!remark.contains("handler failed"), "{request:?}: {remark}");
        }
        self.others_are_served().await;
    }

    async fn others_are_served(&self) {
        let other = Client::new(ClientOptions::default());
        let address = self.namesrv.local_addr().to_string();
        let info = Command::request(request::GET_BROKER_CLUSTER_INFO);
        assert_eq!(other.call(&address, info, LONG).await.expect("an answer").code, 0);
        other.close();
        assert_eq!(PANICS.load(Ordering::SeqCst), 0, "something panicked; see the output");
    }

    async fn end(self) {
        self.others_are_served().await;
        self.namesrv.shutdown().await;
        for entry in std::fs::read_dir(self.outer.path()).expect("a folder") {
            assert_eq!(entry.expect("an entry").file_name(), "data");
        }
    }
}

/// The requests that official programs sent to a name server, as recorded.
fn recorded() -> Vec<Command> {
    let of_line = |line: &str| {
        let pair: serde_json::Value = serde_json::from_str(line).expect("a pair");
        let hex = pair["request_hex"].as_str().expect("a request");
        let mut bytes: BytesMut = (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex"))
            .collect();
        let frame = frame::decode(&mut bytes, frame::DEFAULT_LIMIT).expect("a frame");
        Command { flag: 0, ..frame.expect("a whole one") }
    };
    FRAMES.lines().map(of_line).collect()
}

fn mutations(request: &Command) -> Vec<Command> {
    let Some(fields) = &request.ext_fields else { return Vec::new() };
    let long = "x".repeat(10_000);
    let values = [
        "",
        "abc",
        "-1",
        "2147483648",
        "9223372036854775807",
        "-9223372036854775808",
        "true",
        "../../../../evil",
        "a\0b",
        "\u{6d88}\u{606f}\u{1f980}",
        &long,
    ];
    let mut all = Vec::new();
    for (name, _) in fields.iter() {
        let others = fields.iter().filter(|(other, _)| *other != name);
        let rest: ExtFields =
            others.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        for value in values {
            let mut fields = rest.clone();
            fields.insert(name, value);
            all.push(Command { ext_fields: Some(fields), ..request.clone() });
        }
        all.push(Command { ext_fields: Some(rest), ..request.clone() });
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn s_23_every_field_and_body_of_every_request_may_be_wrong() {
    let rig = Rig::start();
    for request in recorded() {
        rig.answered(&mutations(&request)).await;
    }
    let bodies = [
        String::new(),
        "[".repeat(100_000),
        "{\"a\":".repeat(100_000),
        "\u{1}\u{2}random".to_owned(),
        r#"{"topicConfigSerializeWrapper":[],"filterServerList":{"a":1}}"#.to_owned(),
        r#"{"topicConfigSerializeWrapper":{"topicConfigTable":{"../../x":7}}}"#.to_owned(),
        "listenPort=1\nkvConfigPath=/evil\n\\u00zz".to_owned(),
    ];
    for body in &bodies {
        let bare = request::ALL.iter().map(|(code, _)| Command::request(*code));
        let requests: Vec<_> = bare
            .chain(recorded())
            .map(|request| request.with_body(body.clone().into_bytes()))
            .collect();
        rig.answered(&requests).await;
    }
    rig.end().await;
}

fn registration(broker: &str, topics: &[String]) -> Command {
    let table: Vec<String> = topics
        .iter()
        .map(|topic| {
            format!(r#""{topic}":{{"topicName":"{topic}","readQueueNums":1,"writeQueueNums":1,"perm":6}}"#)
        })
        .collect();
    let table = table.join(",");
    Command::request(request::REGISTER_BROKER)
        .with_field("brokerName", broker)
        .with_field("brokerAddr", format!("{broker}:1"))
        .with_field("clusterName", "C")
        .with_field("haServerAddr", "h:2")
        .with_field("brokerId", "0")
        .with_body(format!(
            r#"{{"topicConfigSerializeWrapper":{{"topicConfigTable":{{{table}}}}}}}"#
        ))
}

#[tokio::test(flavor = "multi_thread")]
async fn s_21_unknown_topics_leave_nothing_behind_and_brokers_have_a_bound() {
    let rig = Rig::start();
    let routes: Vec<_> = (0..20_000)
        .map(|number| {
            Command::request(request::GET_ROUTEINFO_BY_TOPIC)
                .with_field("topic", format!("unknown{number}"))
        })
        .collect();
    for answer in rig.ask_all(&routes).await {
        assert_eq!(answer.code, response::TOPIC_NOT_EXIST);
    }
    let list = Command::request(request::GET_ALL_TOPIC_LIST_FROM_NAMESERVER);
    let listed = rig.ask_all(std::slice::from_ref(&list)).await;
    assert!(!String::from_utf8_lossy(&listed[0].body).contains("unknown"));

    let brokers: Vec<_> = (0..10_001).map(|n| registration(&format!("b{n}"), &[])).collect();
    let answers = rig.ask_all(&brokers).await;
    let refused: Vec<_> = answers.iter().filter(|answer| answer.code != 0).collect();
    assert_eq!(refused.len(), 1);
    let remark = refused[0].remark.as_deref().unwrap_or_default();
    assert!(remark.contains("10000 brokers") && remark.contains("b10000:1"), "{remark}");
    let again = rig.ask_all(&[registration("b7", &["t".to_owned(), "u".to_owned()])]).await;
    assert_eq!(again[0].code, 0, "a broker that is known registers again");
    let long = rig.ask_all(&[registration("b7", &["x".repeat(2000), "u".to_owned()])]).await;
    let remark = long[0].remark.as_deref().unwrap_or_default();
    assert!(remark.contains("topic") && remark.contains("2000 bytes"), "{remark}");
    let long = rig.ask_all(&[registration(&"b".repeat(2000), &[])]).await;
    let remark = long[0].remark.as_deref().unwrap_or_default();
    assert!(remark.contains("broker") && remark.contains("at most 1024"), "{remark}");
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s_23_random_bytes_close_only_their_connection() {
    let rig = Rig::start();
    let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..100 {
        let bytes: Vec<u8> = (0..512)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                seed.to_be_bytes()[0]
            })
            .collect();
        let mut stream = TcpStream::connect(rig.namesrv.local_addr()).await.expect("connects");
        // The other side may have closed at the first byte.
        drop(stream.write_all(&bytes).await);
        drop(stream.shutdown().await);
        let mut answer = Vec::new();
        drop(tokio::time::timeout(LONG, stream.read_to_end(&mut answer)).await.expect("closed"));
        assert!(answer.is_empty());
    }
    rig.end().await;
}
