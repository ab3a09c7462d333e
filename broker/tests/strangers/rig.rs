//! A broker that strangers can reach, and what it must still do for others.

use std::{
    collections::{BTreeSet, HashSet},
    path::Path,
    sync::{
        Arc, Once,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use broker::{Broker, BrokerOptions, RunningBroker, StartError, config::BrokerConfig};
use bytes::{Bytes, BytesMut};
use protocol::{
    Command, ExtFields,
    code::request,
    frame,
    header::{PullMessageRequest, SendMessageRequest},
};
use remoting::{Client, ClientOptions};
use tempfile::TempDir;
use tokio::{
    sync::{RwLock, RwLockReadGuard, RwLockWriteGuard},
    task::JoinSet,
};

/// Ten times what the slowest answer should take on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// How long an answer is waited for that need not come.
const SILENCE: Duration = Duration::from_secs(1);

/// Requests that are under way at a time.
const WINDOW: usize = 64;

/// Tests run side by side, but for those that measure the memory of the process.
static MEASURE: RwLock<()> = RwLock::const_new(());

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// A broker in a folder of a folder of its own, so that a file beside its data would be seen.
pub(crate) struct Rig {
    pub(crate) broker: RunningBroker,
    pub(crate) client: Client,
    outer: TempDir,
    sent: AtomicUsize,
    turn: Turn,
}

/// What keeps tests apart; it is only ever dropped.
enum Turn {
    Shared { _guard: RwLockReadGuard<'static, ()> },
    Alone { guard: RwLockWriteGuard<'static, ()> },
    Done,
}

impl Rig {
    /// Beside other tests.
    pub(crate) async fn new(text: &str) -> Self {
        Self::start(text, Turn::Shared { _guard: MEASURE.read().await }).await
    }

    /// While no other test runs, so that memory can be measured.
    pub(crate) async fn alone(text: &str) -> Self {
        Self::start(text, Turn::Alone { guard: MEASURE.write().await }).await
    }

    /// Lets other tests run again.
    pub(crate) fn measured(&mut self) {
        if let Turn::Alone { guard } = std::mem::replace(&mut self.turn, Turn::Done) {
            self.turn = Turn::Shared { _guard: guard.downgrade() };
        }
    }

    /// Beside other tests, on what is in a folder; the start may be refused.
    pub(crate) async fn on(outer: TempDir, text: &str) -> Result<Self, StartError> {
        Self::start_on(outer, text, Turn::Shared { _guard: MEASURE.read().await }).await
    }

    async fn start(text: &str, turn: Turn) -> Self {
        let outer = tempfile::tempdir().expect("a folder");
        Self::start_on(outer, text, turn).await.expect("a broker")
    }

    async fn start_on(outer: TempDir, text: &str, turn: Turn) -> Result<Self, StartError> {
        count_panics();
        let standard = concat!(
            "brokerName=b\nbrokerIP1=127.0.0.1\nmappedFileSizeCommitLog=16777216\n",
            "flushDiskType=ASYNC_FLUSH\nhotRingBytes=1048576\n",
        );
        let config =
            BrokerConfig::read(&format!("{ROOM}{standard}{text}")).expect("a sound text").config;
        let options = BrokerOptions {
            config,
            namesrv: None,
            listen: Some("127.0.0.1:0".parse().expect("an address")),
            data_dir: Some(outer.path().join("a").join("data")),
        };
        let broker = Broker::start(options).await?;
        let client = Client::new(ClientOptions::default());
        Ok(Self { broker, client, outer, sent: AtomicUsize::new(0), turn })
    }

    pub(crate) fn address(&self) -> String {
        self.broker.address().to_string()
    }

    pub(crate) async fn ask(&self, request: Command) -> Command {
        self.client.call(&self.address(), request, LIMIT).await.expect("an answer")
    }

    /// Asks all of them, many at a time; the answers come in the order of the requests.
    pub(crate) async fn ask_all(&self, requests: Vec<Command>) -> Vec<Command> {
        let connection = self.client.connection(&self.address()).await.expect("a connection");
        let mut answers = Vec::with_capacity(requests.len());
        for window in requests.chunks(WINDOW) {
            let calls: Vec<_> =
                window.iter().map(|request| connection.call(request.clone(), LIMIT)).collect();
            for call in calls {
                answers.push(call.await.expect("an answer"));
            }
        }
        answers
    }

    /// Asks all of them at once; gives the answers that came within [`SILENCE`].
    pub(crate) async fn answers_if_any(&self, requests: &[Command]) -> Vec<Option<Command>> {
        let connection = self.client.connection(&self.address()).await.expect("a connection");
        let ask = |request: &Command| {
            let (connection, request) = (Arc::clone(&connection), request.clone());
            tokio::spawn(async move {
                tokio::time::timeout(SILENCE, connection.call(request, LIMIT)).await
            })
        };
        let calls: Vec<_> = requests.iter().map(ask).collect();
        let mut answers = Vec::with_capacity(requests.len());
        for call in calls {
            let answer = call.await.expect("no panic").ok();
            answers.push(answer.map(|answer| answer.expect("the connection stays")));
        }
        answers
    }

    /// Another client sends a message and gets it back, and nothing has panicked.
    pub(crate) async fn others_are_served(&self) {
        let number = self.sent.fetch_add(1, Ordering::Relaxed);
        let body = format!("message {number}");
        let other = Client::new(ClientOptions::default());
        let header = send_header("alive", "");
        let send = v2(&header, Bytes::from(body.clone()));
        let answer = other.call(&self.address(), send, LIMIT).await.expect("an answer");
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
        let offset = answer.field("queueOffset").expect("an offset").parse().expect("a number");
        let pulled = self.pulled("alive", offset).await;
        assert!(pulled.contains(&body), "{body} is not in {pulled:?}");
        other.close();
        assert_eq!(PANICS.load(Ordering::SeqCst), 0, "something panicked; see the output");
    }

    /// The bodies of queue 0 from an offset on, once there are some.
    pub(crate) async fn pulled(&self, topic: &str, offset: i64) -> Vec<String> {
        let other = Client::new(ClientOptions::default());
        let begun = std::time::Instant::now();
        loop {
            let pull = Command::request_with(request::PULL_MESSAGE, &pull_header(topic, offset));
            let answer = other.call(&self.address(), pull, LIMIT).await.expect("an answer");
            if answer.code == 0 {
                other.close();
                return protocol::message::record::records(&answer.body)
                    .map(|view| view.expect("a record").to_record().body)
                    .map(|body| String::from_utf8_lossy(&body).into_owned())
                    .collect();
            }
            assert!(begun.elapsed() < LIMIT, "{answer:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Stops the broker and looks at what it has written.
    pub(crate) async fn end(self) {
        self.others_are_served().await;
        drop(self.stopped().await);
    }

    /// The same, without another client; gives the folder.
    pub(crate) async fn stopped(self) -> TempDir {
        self.client.close();
        self.broker.shutdown().await.expect("an orderly stop");
        assert_eq!(entries(self.outer.path()), ["a"]);
        assert_eq!(entries(&self.outer.path().join("a")), ["data"]);
        names_are_sound(&self.outer.path().join("a").join("data"));
        assert_eq!(PANICS.load(Ordering::SeqCst), 0, "something panicked; see the output");
        self.outer
    }
}

fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // A test that fails does so in a thread of its own, named as the test.
            if !std::thread::current().name().is_some_and(|name| name.contains("::")) {
                PANICS.fetch_add(1, Ordering::SeqCst);
            }
            usual(info);
        }));
    });
}

fn entries(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Every name below the folder is one that a broker gives: of a file of its own or of a topic.
fn names_are_sound(folder: &Path) {
    for name in entries(folder) {
        let path = folder.join(&name);
        let sound = |byte: u8| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'%' | b'|' | b'_' | b'-' | b'.')
        };
        assert!(name.bytes().all(sound) && !name.contains(".."), "{}", path.display());
        if path.is_dir() {
            names_are_sound(&path);
        }
    }
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
pub(crate) fn v2(header: &SendMessageRequest, body: Bytes) -> Command {
    let mut request = Command::request(request::SEND_MESSAGE_V2).with_body(body);
    let mut fields = ExtFields::new();
    header.encode_v2(&mut fields);
    request.ext_fields = Some(fields);
    request
}

/// A pull of a tool from queue 0, which does not wait.
pub(crate) fn pull_header(topic: &str, offset: i64) -> PullMessageRequest {
    PullMessageRequest {
        consumer_group: "TOOLS_CONSUMER".into(),
        topic: topic.into(),
        queue_offset: offset,
        max_msg_nums: 32,
        sys_flag: 4,
        subscription: Some("*".into()),
        ..PullMessageRequest::default()
    }
}

/// The requests that official clients and tools sent to a broker, as recorded: one for each code
/// and set of fields.
pub(crate) fn recorded() -> Vec<Command> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/data/remoting-frames.jsonl");
    let text = std::fs::read_to_string(path).expect("the recorded frames");
    let mut requests = Vec::new();
    for line in text.lines() {
        let pair: serde_json::Value = serde_json::from_str(line).expect("a pair");
        if pair["peer"] != "broker" {
            continue;
        }
        let hex = pair["request_hex"].as_str().expect("a request");
        let mut bytes: BytesMut = (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex"))
            .collect();
        let command = frame::decode(&mut bytes, frame::DEFAULT_LIMIT).expect("a frame");
        requests.push(command.expect("a whole one"));
    }
    let mut seen = HashSet::new();
    requests.retain(|request| {
        let fields = request.ext_fields.iter().flat_map(ExtFields::iter);
        let names: BTreeSet<_> = fields.map(|(name, _)| name.to_owned()).collect();
        seen.insert((request.code, names))
    });
    requests
}

/// Bytes of this process that are in memory and belong to no file.
pub(crate) fn memory() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").expect("figures of this process");
    let line = text.lines().find(|line| line.starts_with("RssAnon:")).expect("RssAnon");
    let kib = line.split_whitespace().nth(1).expect("a number");
    kib.parse::<usize>().expect("a number") << 10
}

/// Runs so many tasks of a kind at a time and waits for all.
pub(crate) async fn each<F>(count: usize, make: impl Fn(usize) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for number in 0..count {
        tasks.spawn(make(number));
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("a task without a fault");
    }
}

/// The disk that the tests run on may be nearly full.
const ROOM: &str = "diskSpaceWarningLevelRatio=99\ncleanFileForciblyEnable=false\n";
