//! `ledgermq bench failover`: what a producer sees while something else ends brokers.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context;
use bytes::Bytes;
use client::{Client, ClientOptions, Message, Producer, PullConsumer, PullRequest};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{
    AFTER_FAILURE, READERS, Report, Windows,
    gaps::Gaps,
    pace::{pace, send_due},
    random_body, sender_options,
    stamp::Stamp,
    topics::{self, Extent},
    watch,
};
use crate::{
    args::{FailoverArgs, MeasureArgs},
    stop::StopSignals,
};

/// Sends at a rate and reports the times in which nothing was acknowledged; then reads back.
pub(super) async fn run(
    cluster: ClientOptions,
    args: &FailoverArgs,
    mut signals: StopSignals,
) -> anyhow::Result<Report> {
    let options = ClientOptions { route_age: args.route_age, ..cluster };
    let client = Client::new(options)?;
    let names = topics::names(&args.topics);
    topics::ensure_exist(&client, &names, args.queues).await?;
    let puller = PullConsumer::new(Arc::clone(&client), READERS);
    let extents = topics::extents(&puller, &names).await?;
    let options = sender_options(args.timeout, args.retries);
    let producer = Arc::new(Producer::start(Arc::clone(&client), options));
    let course = Arc::new(Course::begin(args, names)?);
    let (due, dues) = mpsc::channel(args.window as usize);
    let clock = Arc::clone(&course);
    let rate = args.rate;
    let pacing = tokio::task::spawn_blocking(move || match rate {
        0 => as_fast_as_possible(&clock.windows, &due),
        rate => pace(&clock.windows, rate, &due),
    });
    let sending = tokio::spawn(Arc::clone(&course).send(Arc::clone(&producer), dues));
    watch(&course.windows, "messages acknowledged", &mut signals).await;
    course.windows.stop();
    course.gaps().end(Instant::now());
    pacing.await.context("the pacer was cut off")?;
    sending.await.context("the sender was cut off")?;
    let mut facts = facts(args);
    course.gaps().tell(&mut facts);
    course.verify(&puller, extents, args.verify, &mut facts).await;
    if let Some(producer) = Arc::into_inner(producer) {
        producer.stop().await;
    }
    client.close();
    let (measured, outside) = course.windows.finish();
    Ok(Report { facts, counted: "acknowledged", measured, outside })
}

fn facts(args: &FailoverArgs) -> Value {
    json!({
        "bench": "failover",
        "rate": args.rate,
        "window": args.window,
        "body": args.body,
        "topic": args.topics.topic,
        "topics": args.topics.topics,
        "queues": args.queues,
        "retries": args.retries,
        "durationSeconds": args.duration.as_secs_f64(),
        "timeoutMs": u64::try_from(args.timeout.as_millis()).unwrap_or(u64::MAX),
        "routeAgeMs": u64::try_from(args.route_age.as_millis()).unwrap_or(u64::MAX),
    })
}

/// Each message is due as soon as there is room for it.
fn as_fast_as_possible(windows: &Windows, due: &mpsc::Sender<Instant>) {
    while !windows.is_over() && due.blocking_send(Instant::now()).is_ok() {}
}

/// The course of one run.
#[derive(Debug)]
struct Course {
    windows: Windows,
    gaps: Mutex<Gaps>,
    window: usize,
    stamp: Stamp,
    body: Bytes,
    topics: Vec<String>,
    /// Number of the next message.
    next: AtomicU64,
    /// Numbers of those that were acknowledged.
    acknowledged: Mutex<Vec<u64>>,
}

impl Course {
    fn begin(args: &FailoverArgs, topics: Vec<String>) -> anyhow::Result<Self> {
        let measure = MeasureArgs { duration: args.duration, warmup: Duration::ZERO, repeat: 1 };
        Ok(Self {
            window: args.window as usize,
            stamp: Stamp::now()?,
            body: random_body(args.body),
            topics,
            next: AtomicU64::new(0),
            acknowledged: Mutex::default(),
            gaps: Mutex::new(Gaps::begin(args.gap)),
            windows: Windows::begin(&measure)?,
        })
    }

    fn gaps(&self) -> std::sync::MutexGuard<'_, Gaps> {
        self.gaps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what is due, as long as the window has room.
    async fn send(self: Arc<Self>, producer: Arc<Producer>, dues: mpsc::Receiver<Instant>) {
        send_due(self.window, dues, |due| self.send_one(&producer, due)).await;
    }

    async fn send_one(&self, producer: &Producer, due: Instant) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let turn = usize::try_from(number).unwrap_or_default() % self.topics.len().max(1);
        let topic = self.topics.get(turn).map_or("", String::as_str);
        let body = self.stamp.on(number, &self.body);
        let bytes = body.len() as u64;
        let result = producer.send(Message::new(topic, body)).await;
        let at = Instant::now();
        let failed = result.is_err();
        if self.windows.sent(at, (1, bytes, at - due), result).is_some() {
            self.gaps().acknowledged(at);
            self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        }
        if failed {
            tokio::time::sleep(AFTER_FAILURE).await;
        }
    }

    /// Reads back what the queues hold of this run, and compares it with what was acknowledged.
    async fn verify(
        &self,
        puller: &PullConsumer,
        extents: Vec<Extent>,
        limit: Duration,
        facts: &mut Value,
    ) {
        facts["sentInAll"] = json!(self.next.load(Ordering::Relaxed));
        if limit.is_zero() {
            return;
        }
        let mut numbers = BTreeMap::new();
        let deadline = Instant::now() + limit;
        let mut complete = true;
        for extent in extents {
            complete &= self.read(puller, &extent, deadline, &mut numbers).await;
        }
        let acknowledged = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = acknowledged.iter().filter(|number| !numbers.contains_key(number)).count();
        let stored = numbers.len();
        let twice = numbers.values().filter(|count| **count > 1).count();
        facts["readBack"] = json!(complete);
        facts["acknowledgedInAll"] = json!(acknowledged.len());
        facts["lost"] = json!(lost);
        facts["storedTwice"] = json!(twice);
        facts["storedWithoutAnswer"] = json!((stored + lost).saturating_sub(acknowledged.len()));
    }

    /// Reads one queue from where it was at the beginning; whether its end was reached in time.
    async fn read(
        &self,
        puller: &PullConsumer,
        extent: &Extent,
        deadline: Instant,
        numbers: &mut BTreeMap<u64, u32>,
    ) -> bool {
        let mut offset = extent.end;
        while Instant::now() < deadline {
            match puller.pull(&extent.queue, &PullRequest::at(offset)).await {
                Ok(pulled) => {
                    for message in &pulled.messages {
                        if let Some(number) = self.stamp.read(&message.body) {
                            *numbers.entry(number).or_default() += 1;
                        }
                    }
                    offset = pulled.next;
                    if offset >= pulled.max {
                        return true;
                    }
                }
                // A new master is still being looked for.
                Err(_later) => tokio::time::sleep(AFTER_FAILURE).await,
            }
        }
        false
    }
}
