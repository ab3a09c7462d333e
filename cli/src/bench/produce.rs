//! `ledgermq bench produce`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use bytes::Bytes;
use client::{Client, ClientOptions, Message, Producer, PullConsumer, SendError, Sent};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    AFTER_FAILURE, IN_FLIGHT_BYTES_MAX, Report, SENDERS, Windows, keep_in_flight, random_body,
    sender_options, topics, watch,
};
use crate::{
    args::{ProduceArgs, Style},
    stop::StopSignals,
};

/// Sends as fast as the answers come.
pub(super) async fn run(
    cluster: ClientOptions,
    args: &ProduceArgs,
    mut signals: StopSignals,
) -> anyhow::Result<Report> {
    check(args)?;
    let names = topics::names(&args.topics);
    let clients: Result<Vec<_>, _> =
        (0..args.connections).map(|_| Client::new(cluster.clone())).collect();
    let clients = clients?;
    let client = clients.first().context("there is at least one connection")?;
    topics::ensure_exist(client, &names, args.queues).await?;
    let stored = Stored::begin(client, &names, args.style).await?;
    let producers: Vec<_> = clients.iter().map(|client| producer(client, args)).collect();
    let load = Arc::new(Load::new(args, names)?);
    let mut senders = JoinSet::new();
    for (_, producer) in (0..args.senders).zip(producers.iter().cycle()) {
        senders.spawn(Arc::clone(&load).send(Arc::clone(producer)));
    }
    let ended = async {
        while let Some(ended) = senders.join_next().await {
            ended.context("a sender was cut off")?;
        }
        // They may have ended by the number of messages.
        load.windows.stop();
        anyhow::Ok(())
    };
    let ((), ended) = tokio::join!(watch(&load.windows, "messages", &mut signals), ended);
    ended?;
    let mut facts = facts(args);
    facts["messagesInAll"] = json!(load.windows.totals().0);
    if let Some(stored) = stored {
        facts["storedInAll"] = json!(stored.end().await?);
    }
    for producer in producers {
        if let Some(producer) = Arc::into_inner(producer) {
            producer.stop().await;
        }
    }
    for client in &clients {
        client.close();
    }
    let counted = if args.style == Style::Oneway { "sent" } else { "acknowledged" };
    let (measured, outside) = load.windows.finish();
    Ok(Report { facts, counted, measured, outside })
}

fn check(args: &ProduceArgs) -> anyhow::Result<()> {
    let each = u64::from(args.body) * in_flight(args);
    let connections = u64::from(args.connections.min(args.senders));
    let bytes = each * u64::from(args.senders).div_ceil(connections);
    ensure!(
        bytes <= IN_FLIGHT_BYTES_MAX,
        "{} MiB would be in flight on one connection, more than {}: lower --window, --batch, \
         --senders or --body, or give more --connections",
        bytes >> 20,
        IN_FLIGHT_BYTES_MAX >> 20
    );
    Ok(())
}

/// Messages in flight of one sender.
fn in_flight(args: &ProduceArgs) -> u64 {
    match args.style {
        Style::Sync | Style::Oneway => 1,
        Style::Async => u64::from(args.window),
        Style::Batch => u64::from(args.batch),
    }
}

fn producer(client: &Arc<Client>, args: &ProduceArgs) -> Arc<Producer> {
    // A repeat would hide a failure, and store a message twice.
    Arc::new(Producer::start(Arc::clone(client), sender_options(args.timeout, 0)))
}

fn facts(args: &ProduceArgs) -> Value {
    let mut facts = json!({
        "bench": "produce",
        "style": args.style.name(),
        "senders": args.senders,
        "connections": args.connections,
        "body": args.body,
        "topic": args.topics.topic,
        "topics": args.topics.topics,
        "queues": args.queues,
        "durationSeconds": args.measure.duration.as_secs_f64(),
        "warmupSeconds": args.measure.warmup.as_secs_f64(),
        "repeat": args.measure.repeat,
        "messages": args.messages,
        "timeoutMs": u64::try_from(args.timeout.as_millis()).unwrap_or(u64::MAX),
    });
    match args.style {
        Style::Async => facts["window"] = json!(args.window),
        Style::Batch => facts["batch"] = json!(args.batch),
        Style::Sync | Style::Oneway => {}
    }
    facts
}

/// What all senders share.
#[derive(Debug)]
struct Load {
    windows: Windows,
    style: Style,
    window: usize,
    batch: usize,
    body: Bytes,
    topics: Vec<String>,
    /// Which topic is next.
    turn: AtomicUsize,
    /// Messages that may still be sent.
    left: AtomicU64,
}

/// A request that has ended.
struct Ended {
    at: Instant,
    took: Duration,
    result: Result<Option<Sent>, SendError>,
}

impl Load {
    fn new(args: &ProduceArgs, topics: Vec<String>) -> anyhow::Result<Self> {
        Ok(Self {
            style: args.style,
            window: if args.style == Style::Async { args.window as usize } else { 1 },
            batch: if args.style == Style::Batch { args.batch as usize } else { 1 },
            body: random_body(args.body),
            topics,
            turn: AtomicUsize::new(0),
            left: AtomicU64::new(args.messages.unwrap_or(u64::MAX)),
            // Last, as the run begins with it.
            windows: Windows::begin(&args.measure)?,
        })
    }

    /// One sender, until the run is over.
    async fn send(self: Arc<Self>, producer: Arc<Producer>) {
        let next = || self.may_send().then(|| self.request(&producer));
        keep_in_flight(self.window, next, |ended| self.count(ended)).await;
    }

    /// Whether one more request may be sent; then its messages are taken off.
    fn may_send(&self) -> bool {
        let take = |left: u64| left.checked_sub(self.batch as u64);
        !self.windows.is_over()
            && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    async fn request(&self, producer: &Producer) -> Ended {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let topic = self.topics.get(turn % self.topics.len().max(1)).map_or("", String::as_str);
        let message = || Message::new(topic, self.body.clone());
        let begun = Instant::now();
        let result = match self.style {
            Style::Sync | Style::Async => producer.send(message()).await.map(Some),
            Style::Batch => {
                let batch = std::iter::repeat_with(message).take(self.batch).collect();
                producer.send_batch(batch).await.map(Some)
            }
            Style::Oneway => producer.send_oneway(message()).await.map(|()| None),
        };
        let at = Instant::now();
        if result.is_err() {
            tokio::time::sleep(AFTER_FAILURE).await;
        }
        Ended { at, took: at - begun, result }
    }

    fn count(&self, ended: Ended) {
        let Ended { at, took, result } = ended;
        let messages = self.batch as u64;
        let bytes = messages * self.body.len() as u64;
        match result.transpose() {
            Some(result) => drop(self.windows.sent(at, (messages, bytes, took), result)),
            None => self.windows.success(at, messages, bytes, None),
        }
    }
}

/// Counts what a broker stored of messages that nobody answers.
struct Stored {
    puller: PullConsumer,
    names: Vec<String>,
    before: i64,
}

impl Stored {
    async fn begin(
        client: &Arc<Client>,
        names: &[String],
        style: Style,
    ) -> anyhow::Result<Option<Self>> {
        if style != Style::Oneway {
            return Ok(None);
        }
        let puller = PullConsumer::new(Arc::clone(client), SENDERS);
        let before = topics::ends(&topics::extents(&puller, names).await?);
        Ok(Some(Self { puller, names: names.to_vec(), before }))
    }

    /// Waits until the queues stand still, for a while at most.
    async fn end(self) -> anyhow::Result<i64> {
        let begun = Instant::now();
        let mut last = self.before;
        loop {
            tokio::time::sleep(STILL).await;
            let now = topics::ends(&topics::extents(&self.puller, &self.names).await?);
            if now == last || begun.elapsed() > STILL_MAX {
                return Ok(now - self.before);
            }
            last = now;
        }
    }
}

/// Time without a new message after which queues stand still.
const STILL: Duration = Duration::from_millis(500);
/// Time that is waited for it.
const STILL_MAX: Duration = Duration::from_secs(30);
