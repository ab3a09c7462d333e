//! A broker and its load in one process, for callgrind: `cargo xtask instructions` runs it at two
//! lengths, and the difference is what a message costs.
//!
//!     instructions send 1000      1,000 frames of Java's send on one connection, pipelined
//!     instructions pull 1000      as many frames, then pulls of 32 that read them back
//!     instructions client 1000    as many sends by our own client, 1,000 in flight
//!
//! Data lies in memory where /dev/shm is there, so that no disk is measured.
#![expect(
    clippy::print_stdout,
    reason = "a program that is run by hand and by xtask tells what it did"
)]

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use broker::{Broker, BrokerOptions, RunningBroker, config::BrokerConfig};
use bytes::{Bytes, BytesMut};
use client::{Client, ClientOptions, Message, Producer, ProducerOptions};
use namesrv::{Namesrv, NamesrvOptions};
use protocol::{
    Command,
    code::{request, response},
    frame,
    header::{PullMessageRequest, SendMessageRequest},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

type Failed = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args().skip(1);
    let usage = "say: instructions send|pull|client COUNT";
    let (mode, count) = arguments.next().zip(arguments.next()).ok_or(usage)?;
    let count: u32 = count.parse()?;
    let folder = folder();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(run(&mode, count, &folder));
    std::fs::remove_dir_all(&folder)?;
    println!("{mode}: {} messages", done?);
    Ok(())
}

/// A folder in memory, or else among the temporary ones.
fn folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    place.join(format!("ledgermq-instructions-{}", std::process::id()))
}

async fn run(mode: &str, count: u32, folder: &Path) -> Result<u32, Failed> {
    let (names, broker) = start(folder).await?;
    let address = broker.address();
    match mode {
        "send" => send(address, count).await?,
        "pull" => {
            send(address, count).await?;
            pull(address, count).await?;
        }
        "client" => by_client(&names.local_addr().to_string(), count).await?,
        other => return Err(format!("{other} is no mode: send, pull or client").into()),
    }
    broker.shutdown().await?;
    names.shutdown().await;
    Ok(count)
}

async fn start(folder: &Path) -> Result<(Namesrv, RunningBroker), Failed> {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let names =
        Namesrv::start(NamesrvOptions { listen: any, kv_path: None, ..NamesrvOptions::default() })?;
    let mut config = BrokerConfig::default();
    for (key, value) in [
        ("brokerName", "broker-a"),
        ("brokerIP1", "127.0.0.1"),
        ("flushDiskType", "ASYNC_FLUSH"),
        ("mappedFileSizeCommitLog", "67108864"),
        ("maxTransferCountOnMessageInMemory", "32"),
    ] {
        drop(config.set(key, value)?);
    }
    config.store_path_root_dir = folder.display().to_string();
    let broker = Broker::start(BrokerOptions {
        config,
        namesrv: Some(names.local_addr().to_string()),
        listen: Some(any),
        data_dir: None,
    })
    .await?;
    Ok((names, broker))
}

/// Frames as the official Java client sends them.
fn frames(count: u32) -> Bytes {
    let body = Bytes::from(vec![b'x'; BODY]);
    let mut all = BytesMut::new();
    for n in 0..count {
        let header = SendMessageRequest {
            producer_group: "instructions".to_owned(),
            topic: TOPIC.to_owned(),
            default_topic: protocol::name::AUTO_CREATE_TOPIC_KEY_TOPIC.to_owned(),
            default_topic_queue_nums: QUEUES,
            queue_id: i32::try_from(n).unwrap_or_default() % QUEUES,
            born_timestamp: 1_700_000_000_000,
            properties: Some(format!(
                "UNIQ_KEY\u{1}7F0000011F4C18B4AAC2{n:012}\u{2}WAIT\u{1}true\u{2}TAGS\u{1}TagA\u{2}"
            )),
            reconsume_times: Some(0),
            unit_mode: Some(false),
            batch: Some(false),
            bname: Some("broker-a".to_owned()),
            ..SendMessageRequest::default()
        };
        let mut command = Command::request(request::SEND_MESSAGE_V2).with_body(body.clone());
        command.opaque = i32::try_from(n).unwrap_or_default();
        header.encode_v2(command.ext_fields.get_or_insert_default());
        frame::encode_head(&command, &mut all);
        all.extend_from_slice(&command.body);
    }
    all.freeze()
}

/// Sends all frames at once and reads as many answers.
async fn send(address: SocketAddr, count: u32) -> Result<(), Failed> {
    // The first message makes the topic.
    let first = ask(address, frames(1), 1).await?;
    succeed(&first)?;
    succeed(&ask(address, frames(count), count).await?)
}

fn succeed(answers: &[Command]) -> Result<(), Failed> {
    match answers.iter().find(|answer| answer.code != response::SUCCESS) {
        None => Ok(()),
        Some(refused) => Err(format!("answered {}: {:?}", refused.code, refused.remark).into()),
    }
}

/// Writes requests and reads a number of answers meanwhile.
async fn ask(address: SocketAddr, requests: Bytes, count: u32) -> Result<Vec<Command>, Failed> {
    let (mut reader, mut writer) = TcpStream::connect(address).await?.into_split();
    let writing = tokio::spawn(async move {
        writer.write_all(&requests).await?;
        Ok::<_, io::Error>(writer)
    });
    let mut answers = Vec::new();
    let mut buffer = BytesMut::with_capacity(1 << 20);
    while answers.len() < count as usize {
        if let Some(answer) = frame::decode(&mut buffer, frame::DEFAULT_LIMIT)? {
            answers.push(answer);
        } else if reader.read_buf(&mut buffer).await? == 0 {
            return Err("the broker closed the connection".into());
        }
    }
    // The writing half stays open until all is answered.
    drop(writing.await??);
    Ok(answers)
}

/// Reads back all queues in pulls of 32.
async fn pull(address: SocketAddr, count: u32) -> Result<(), Failed> {
    let mut found = 0;
    let mut offsets = vec![0_i64; usize::try_from(QUEUES)?];
    // The first message of all is among them; each is dispatched a moment after it was committed.
    while found < count {
        for (queue, offset) in (0..QUEUES).zip(&mut offsets) {
            let answers = ask(address, pull_frame(queue, *offset), 1).await?;
            let answer = answers.first().ok_or("no answer")?;
            if answer.code == response::SUCCESS {
                let next = answer.field("nextBeginOffset").unwrap_or_default().parse()?;
                found += u32::try_from(next - *offset)?;
                *offset = next;
            } else {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
    Ok(())
}

fn pull_frame(queue: i32, offset: i64) -> Bytes {
    let header = PullMessageRequest {
        consumer_group: "instructions".to_owned(),
        topic: TOPIC.to_owned(),
        queue_id: queue,
        queue_offset: offset,
        max_msg_nums: 32,
        // PullSysFlag.java: the subscription is part of the request, and nothing is waited for.
        sys_flag: 4,
        subscription: Some("*".to_owned()),
        ..PullMessageRequest::default()
    };
    let command = Command::request_with(request::PULL_MESSAGE, &header);
    let mut bytes = BytesMut::new();
    frame::encode_head(&command, &mut bytes);
    bytes.freeze()
}

/// Sends by our own client.
async fn by_client(names: &str, count: u32) -> Result<(), Failed> {
    let client = Client::new(ClientOptions::new(names))?;
    let producer = Arc::new(Producer::start(
        Arc::clone(&client),
        ProducerOptions {
            retries: 0,
            timeout: Duration::from_secs(60),
            ..ProducerOptions::new("instructions")
        },
    ));
    let body = Bytes::from(vec![b'x'; BODY]);
    producer.send(Message::new(TOPIC, body.clone())).await?;
    let mut sends = tokio::task::JoinSet::new();
    for _ in 0..count {
        let (producer, message) = (Arc::clone(&producer), Message::new(TOPIC, body.clone()));
        sends.spawn(async move { producer.send(message).await });
    }
    while let Some(sent) = sends.join_next().await {
        sent??;
    }
    client.close();
    Ok(())
}

/// It comes into being with the first message.
const TOPIC: &str = "instructions";
const QUEUES: i32 = 4;
const BODY: usize = 1024;
