//! F9: sequences of requests to a running broker. Each two-way request is answered or its connection
//! is closed, no handler panics, and another client still sends and reads what it sent, at queue
//! offsets without a gap.

use std::{
    net::SocketAddr,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicI64, AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use broker::{Broker, BrokerOptions, config::BrokerConfig};
use bytes::{Bytes, BytesMut};
use protocol::{
    Command, ExtFields,
    code::{request, response},
    frame,
    header::{PullMessageRequest, SendMessageRequest, SendMessageResponse},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    runtime::Runtime,
    time::timeout,
};

use crate::input::Input;

/// The bytes are requests: code, fields, body.
pub(crate) fn run(data: &[u8]) {
    // One broker serves all inputs, one after the other.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let world = World::get();
    let panics = world.panics.load(Ordering::SeqCst);
    world.runtime.block_on(world.try_requests(data));
    assert_eq!(world.panics.load(Ordering::SeqCst), panics, "something panicked in the broker");
}

#[derive(Debug)]
struct World {
    runtime: Runtime,
    address: SocketAddr,
    /// Panics of the process so far.
    panics: &'static AtomicUsize,
    /// Queue offset of the next message of the healthy client.
    next: AtomicI64,
}

impl World {
    fn get() -> &'static Self {
        static WORLD: OnceLock<World> = OnceLock::new();
        WORLD.get_or_init(Self::start)
    }

    /// A broker that lives as long as the process, in a thread of its own.
    fn start() -> Self {
        static PANICS: AtomicUsize = AtomicUsize::new(0);
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::SeqCst);
            before(panic);
        }));
        let (started, address) = mpsc::channel();
        std::thread::spawn(move || {
            let folder = tempfile::tempdir().unwrap();
            let runtime = Runtime::new().unwrap();
            let mut config = BrokerConfig::default();
            for (key, value) in [
                ("brokerName", "broker-a"),
                ("brokerIP1", "127.0.0.1"),
                ("flushDiskType", "ASYNC_FLUSH"),
                ("mappedFileSizeCommitLog", "8388608"),
                ("mappedFileSizeConsumeQueue", "20000"),
                ("maxIndexNum", "10000"),
                ("maxHashSlotNum", "1000"),
                ("maxTopics", "200"),
                ("maxSubscriptionGroups", "200"),
                ("enablePropertyFilter", "true"),
                ("recallMessageEnable", "true"),
            ] {
                drop(config.set(key, value).unwrap());
            }
            config.store_path_root_dir = folder.path().display().to_string();
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            let options =
                BrokerOptions { config, namesrv: None, listen: Some(any), data_dir: None };
            let running = runtime.block_on(Broker::start(options)).unwrap();
            started.send(running.address()).unwrap();
            // It serves until the process ends.
            loop {
                std::thread::park();
            }
        });
        Self {
            runtime: Runtime::new().unwrap(),
            address: address.recv_timeout(LIMIT).unwrap(),
            panics: &PANICS,
            next: AtomicI64::new(0),
        }
    }

    async fn try_requests(&self, data: &[u8]) {
        let mut input = Input(data);
        let mut peer = Peer::connect(self.address).await;
        let mut opaque = 0;
        while !input.is_empty() && opaque < REQUESTS_MAX {
            opaque += 1;
            let command = made(&mut input, opaque);
            let code = command.code;
            let is_oneway = command.is_oneway();
            if !peer.send(&command).await {
                break;
            }
            // What asks to wait for a message is not answered before its time.
            if is_oneway || matches!(code, request::PULL_MESSAGE | request::LITE_PULL_MESSAGE) {
                continue;
            }
            let Some(answer) = peer.answer(opaque).await else { break };
            let remark = answer.remark.unwrap_or_default();
            assert!(!remark.contains("its handler failed"), "{code}: {remark}");
        }
        self.healthy().await;
    }

    /// Another client sends, and reads what it sent where the broker said.
    async fn healthy(&self) {
        let mut peer = Peer::connect(self.address).await;
        let wanted = self.next.fetch_add(1, Ordering::SeqCst);
        let body = format!("healthy {wanted}");
        let header = SendMessageRequest {
            producer_group: "healthy".to_owned(),
            topic: HEALTHY.to_owned(),
            default_topic: "TBW102".to_owned(),
            default_topic_queue_nums: 1,
            queue_id: 0,
            born_timestamp: 1_700_000_000_000,
            ..SendMessageRequest::default()
        };
        let mut send = Command::request(request::SEND_MESSAGE_V2).with_body(body.clone());
        send.opaque = 1;
        header.encode_v2(send.ext_fields.get_or_insert_default());
        assert!(peer.send(&send).await);
        let answer = peer.answer(1).await.unwrap();
        assert_eq!(answer.code, response::SUCCESS, "{:?}", answer.remark);
        let sent: SendMessageResponse = answer.header().unwrap();
        assert_eq!(sent.queue_offset, wanted, "queue offsets have no gap");
        let pull = PullMessageRequest {
            consumer_group: "healthy".to_owned(),
            topic: HEALTHY.to_owned(),
            queue_id: 0,
            queue_offset: wanted,
            max_msg_nums: 1,
            // Suspended until the message has reached its queue, with its own subscription.
            sys_flag: 2 | 4,
            suspend_timeout_millis: 20_000,
            subscription: Some("*".to_owned()),
            ..PullMessageRequest::default()
        };
        let mut pull = Command::request_with(request::PULL_MESSAGE, &pull);
        pull.opaque = 2;
        assert!(peer.send(&pull).await);
        let answer = peer.answer(2).await.unwrap();
        assert_eq!(answer.code, response::SUCCESS, "{:?}", answer.remark);
        let found = answer.body.windows(body.len()).any(|part| part == body.as_bytes());
        assert!(found, "{body} was read back otherwise");
    }
}

/// A request of the bytes of an input.
fn made(input: &mut Input<'_>, opaque: i32) -> Command {
    let all = request::ALL;
    let code = if input.byte() < 250 {
        all[input.pair() % all.len()].0
    } else {
        i32::try_from(input.pair()).unwrap_or_default()
    };
    let mut command = Command::request(code);
    command.opaque = opaque;
    let mut fields = ExtFields::new();
    for _ in 0..input.byte() % 12 {
        let name = input.pick(NAMES);
        let value = match input.byte() % 4 {
            0..3 => input.pick(VALUES).to_owned(),
            _ => {
                let length = usize::from(input.byte() % 24);
                String::from_utf8_lossy(input.take(length)).into_owned()
            }
        };
        fields.insert(name, value);
    }
    command.ext_fields = Some(fields);
    let length = usize::from(input.byte());
    command.body = match input.byte() % 3 {
        0 => Bytes::from_static(input.pick(BODIES).as_bytes()),
        _ => Bytes::copy_from_slice(input.take(length)),
    };
    if input.byte().is_multiple_of(16) {
        command.mark_oneway();
    }
    command
}

#[derive(Debug)]
struct Peer {
    stream: TcpStream,
    buffer: BytesMut,
}

impl Peer {
    async fn connect(address: SocketAddr) -> Self {
        let stream = timeout(LIMIT, TcpStream::connect(address)).await.unwrap().unwrap();
        Self { stream, buffer: BytesMut::new() }
    }

    /// Whether it was written.
    async fn send(&mut self, command: &Command) -> bool {
        let mut bytes = BytesMut::new();
        frame::encode_head(command, &mut bytes);
        bytes.extend_from_slice(&command.body);
        timeout(LIMIT, self.stream.write_all(&bytes)).await.unwrap().is_ok()
    }

    /// The answer to a request; `None` where the broker closed the connection.
    async fn answer(&mut self, opaque: i32) -> Option<Command> {
        loop {
            if let Some(answer) = frame::decode(&mut self.buffer, frame::DEFAULT_LIMIT).unwrap() {
                // Others are requests of the broker, and answers to pulls.
                if answer.is_response() && answer.opaque == opaque {
                    return Some(answer);
                }
                continue;
            }
            let read = timeout(LIMIT, self.stream.read_buf(&mut self.buffer)).await;
            let read = read.unwrap_or_else(|_late| panic!("request {opaque} was not answered"));
            if !read.is_ok_and(|bytes| bytes > 0) {
                return None;
            }
        }
    }
}

const HEALTHY: &str = "fuzz_healthy";
const LIMIT: Duration = Duration::from_secs(30);
const REQUESTS_MAX: i32 = 12;
const NAMES: &[&str] = &[
    "topic",
    "a",
    "b",
    "c",
    "d",
    "e",
    "f",
    "g",
    "i",
    "m",
    "queueId",
    "queueOffset",
    "consumerGroup",
    "group",
    "groupName",
    "offset",
    "commitOffset",
    "maxMsgNums",
    "maxNum",
    "sysFlag",
    "suspendTimeoutMillis",
    "subscription",
    "expressionType",
    "subVersion",
    "timestamp",
    "key",
    "beginTimestamp",
    "endTimestamp",
    "producerGroup",
    "clientID",
    "msgId",
    "originMsgId",
    "delayLevel",
    "readQueueNums",
    "writeQueueNums",
    "perm",
    "topicFilterType",
    "topicSysFlag",
    "order",
    "attributes",
    "defaultTopic",
    "isForce",
    "statsName",
    "statsKey",
    "cleanOffset",
    "requestCode",
    "id",
    "consumeGroup",
    "batch",
    "unitMode",
    "boundaryType",
    "isC",
];
const VALUES: &[&str] = &[
    "",
    "0",
    "1",
    "-1",
    "4",
    "2147483647",
    "-2147483648",
    "9223372036854775807",
    "T1",
    "T2",
    "g1",
    "%RETRY%g1",
    "%DLQ%g1",
    "TBW102",
    "SCHEDULE_TOPIC_XXXX",
    "../x",
    "*",
    "TagA || TagB",
    "TAG",
    "SQL92",
    "NOT (a >= 1.5 OR TAGS IN ('x', 'y')) AND b NOT CONTAINS 'z' OR c IS NULL",
    "TIMER_DELAY_MS\u{1}1\u{2}TIMER_DEL_UNIQKEY\u{1}T1+k\u{2}UNIQ_KEY\u{1}k\u{2}",
    "true",
    "false",
    "null",
    "7F00000100002A9F0000000000000000",
    "+message.type=NORMAL",
    "TOPIC_PUT_NUMS",
    "1700000000000",
];
const BODIES: &[&str] = &[
    "",
    "x",
    "{}",
    "[]",
    "{\"clientID\":\"c\",\"consumerDataSet\":[{\"groupName\":\"g1\"}]}",
    "{\"mqSet\":[{\"topic\":\"T1\",\"brokerName\":\"broker-a\",\"queueId\":0}]}",
    "traceOn=true\nlistenPort=1",
    "{\"topicConfigTable\":{\"T1\":{\"topicName\":\"T1\"}}}",
];
