//! `ledgermq bench e2e`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use bytes::Bytes;
use client::{Client, ClientOptions, Message, Producer, PullConsumer, PullRequest};
use serde_json::json;
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    AFTER_FAILURE, IN_FLIGHT_BYTES_MAX, READERS, Report, Windows,
    pace::{pace, send_due},
    random_body, sender_options,
    stamp::Stamp,
    tally::add_errors,
    topics::{self, Extent},
    watch,
};
use crate::{args::EndToEndArgs, stop::StopSignals};

/// Sends at a fixed rate and receives.
pub(super) async fn run(
    cluster: ClientOptions,
    args: &EndToEndArgs,
    mut signals: StopSignals,
) -> anyhow::Result<Report> {
    ensure!(
        u64::from(args.window) * u64::from(args.body) <= IN_FLIGHT_BYTES_MAX,
        "--window times --body is more than {} MiB: lower one of them",
        IN_FLIGHT_BYTES_MAX >> 20
    );
    let client = Client::new(cluster)?;
    let names = topics::names(&args.topics);
    topics::ensure_exist(&client, &names, args.queues).await?;
    let puller = PullConsumer::new(Arc::clone(&client), READERS);
    let extents = topics::extents(&puller, &names).await?;
    ensure!(
        extents.len() <= QUEUES_MAX,
        "{} queues, more than the {QUEUES_MAX} that can be waited for at a time",
        extents.len()
    );
    let course = Arc::new(Course::begin(args, names)?);
    let mut receivers = JoinSet::new();
    for extent in extents {
        receivers.spawn(Arc::clone(&course).receive(puller.clone(), extent));
    }
    let producer = Arc::new(Producer::start(Arc::clone(&client), sender_options(args.timeout, 0)));
    let (due, dues) = mpsc::channel(args.window as usize);
    let clock = Arc::clone(&course);
    let pacing = tokio::task::spawn_blocking(move || pace(&clock.arrivals, clock.rate, &due));
    let sending = tokio::spawn(Arc::clone(&course).send(Arc::clone(&producer), dues));
    watch(&course.arrivals, "messages received", &mut signals).await;
    course.acks.stop();
    pacing.await.context("the pacer was cut off")?;
    sending.await.context("the sender was cut off")?;
    course.wait_for_the_last(&mut signals).await;
    receivers.shutdown().await;
    if let Some(producer) = Arc::into_inner(producer) {
        producer.stop().await;
    }
    client.close();
    Ok(course.report(args))
}

/// The course of one run.
#[derive(Debug)]
struct Course {
    /// What arrived, by the time at which it was due.
    arrivals: Windows,
    /// What was acknowledged, by the time at which it was.
    acks: Windows,
    rate: u32,
    window: usize,
    /// Tells messages of this run from others in the topic, and when each was due.
    stamp: Stamp,
    body: Bytes,
    topics: Vec<String>,
    /// Messages that were handed to the producer.
    sent: AtomicU64,
}

impl Course {
    fn begin(args: &EndToEndArgs, topics: Vec<String>) -> anyhow::Result<Self> {
        Ok(Self {
            rate: args.rate,
            window: args.window as usize,
            stamp: Stamp::now()?,
            body: random_body(args.body),
            topics,
            sent: AtomicU64::new(0),
            acks: Windows::begin(&args.measure)?,
            arrivals: Windows::begin(&args.measure)?,
        })
    }

    /// Sends what is due, as long as the window has room.
    async fn send(self: Arc<Self>, producer: Arc<Producer>, dues: mpsc::Receiver<Instant>) {
        send_due(self.window, dues, |due| self.send_one(&producer, due)).await;
    }

    async fn send_one(&self, producer: &Producer, due: Instant) {
        let turn = self.sent.fetch_add(1, Ordering::Relaxed);
        let turn = usize::try_from(turn).unwrap_or_default() % self.topics.len().max(1);
        let topic = self.topics.get(turn).map_or("", String::as_str);
        let since = due.saturating_duration_since(self.arrivals.begun());
        let nanos = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        let body = self.stamp.on(nanos, &self.body);
        let bytes = body.len() as u64;
        let result = producer.send(Message::new(topic, body)).await;
        let at = Instant::now();
        self.acks.sent(at, (1, bytes, at - due), result);
    }

    /// Waits for messages of one queue and counts them; ends when it is dropped.
    async fn receive(self: Arc<Self>, puller: PullConsumer, extent: Extent) {
        let mut offset = extent.end;
        loop {
            let wanted = PullRequest { wait: Some(WAIT), ..PullRequest::at(offset) };
            match puller.pull(&extent.queue, &wanted).await {
                Ok(pulled) => {
                    let now = Instant::now();
                    for message in &pulled.messages {
                        self.count(&message.body, now);
                    }
                    offset = pulled.next;
                }
                Err(error) => {
                    self.arrivals.error(Instant::now(), error.kind(), || error.to_string());
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
    }

    fn count(&self, body: &[u8], now: Instant) {
        if let Some(nanos) = self.stamp.read(body) {
            let due = self.arrivals.begun() + Duration::from_nanos(nanos);
            let latency = now.saturating_duration_since(due);
            self.arrivals.success(due, 1, body.len() as u64, Some(latency));
        }
    }

    /// Gives the last messages time to arrive.
    async fn wait_for_the_last(&self, signals: &mut StopSignals) {
        let begun = Instant::now();
        while self.arrivals.totals().0 < self.acks.totals().0 && begun.elapsed() < LAST {
            tokio::select! {
                () = tokio::time::sleep(AFTER_FAILURE) => {}
                _ = signals.received() => return,
            }
        }
    }

    fn report(&self, args: &EndToEndArgs) -> Report {
        let (acknowledged, received) = (self.acks.totals().0, self.arrivals.totals().0);
        let mut facts = json!({
            "bench": "e2e",
            "rate": args.rate,
            "body": args.body,
            "topic": args.topics.topic,
            "topics": args.topics.topics,
            "queues": args.queues,
            "window": args.window,
            "durationSeconds": args.measure.duration.as_secs_f64(),
            "warmupSeconds": args.measure.warmup.as_secs_f64(),
            "repeat": args.measure.repeat,
            "timeoutMs": u64::try_from(args.timeout.as_millis()).unwrap_or(u64::MAX),
            "sentInAll": self.sent.load(Ordering::Relaxed),
            "acknowledgedInAll": acknowledged,
            "receivedInAll": received,
            "missing": acknowledged.saturating_sub(received),
        });
        let (mut measured, mut outside) = self.arrivals.finish();
        let (acks, more) = self.acks.finish();
        facts["sendLatencyMs"] = acks.iter().map(|ack| ack.tally.latencies_json()).collect();
        for (window, ack) in measured.iter_mut().zip(acks) {
            add_errors(&mut window.tally.errors, ack.tally.errors);
        }
        add_errors(&mut outside, more);
        Report { facts, counted: "received", measured, outside }
    }
}

/// Queues that are waited for at the same time; a broker bounds the requests of a connection.
const QUEUES_MAX: usize = 4096;
/// How long a pull waits at the broker.
const WAIT: Duration = Duration::from_secs(5);
/// Time for messages that were acknowledged to arrive after the end.
const LAST: Duration = Duration::from_secs(10);
