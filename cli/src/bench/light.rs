//! `ledgermq bench light`.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use bytes::Bytes;
use client::{Client, ClientOptions, Message, MessageQueue, Producer, PullConsumer, PullRequest};
use futures_util::{StreamExt, stream};
use protocol::{message::properties::key, name::LMQ_PREFIX};
use serde_json::{Value, json};

use super::{
    AFTER_FAILURE, READERS, Report, Windows, random_body, sender_options,
    stamp::Stamp,
    tally::{Errors, add_errors},
    topics, watch,
};
use crate::{args::LightArgs, stop::StopSignals};

/// Sends messages that go into light queues too, and reads each of these.
pub(super) async fn run(
    cluster: ClientOptions,
    args: &LightArgs,
    mut signals: StopSignals,
) -> anyhow::Result<Report> {
    let client = Client::new(cluster)?;
    topics::ensure_exist(&client, std::slice::from_ref(&args.topic), None).await?;
    let producer = Producer::start(Arc::clone(&client), sender_options(args.timeout, 0));
    let course = Course::new(args)?;
    let sending = async {
        let broker = course.send(&producer).await;
        course.sends.stop();
        broker
    };
    let ((), broker) = tokio::join!(watch(&course.sends, "messages sent", &mut signals), sending);
    producer.stop().await;
    let (sends, sending) = course.sends.finish();
    let errors = sends.iter().map(|window| &window.tally.errors).chain([&sending]);
    let first = errors.flat_map(|errors| errors.values()).map(|(_, text)| text.as_str()).next();
    let first = first.unwrap_or("the run was ended");
    let broker = broker.with_context(|| format!("no message was stored: {first}"))?;
    let reads = Arc::new(Windows::once(args.duration)?);
    let reading = Reading {
        windows: Arc::clone(&reads),
        puller: PullConsumer::new(Arc::clone(&client), READERS),
        topic: args.topic.clone(),
        broker,
        stamp: course.stamp,
        each: u64::from(args.each),
    };
    let queues = course.queues.clone();
    let found = tokio::spawn(reading.all(queues, usize::from(args.parallel)));
    watch(&reads, "messages", &mut signals).await;
    let missing = found.await.context("the reader was cut off")?;
    client.close();
    let mut facts = facts(args);
    facts["queuesWithMissingMessages"] = json!(missing);
    facts["sendsPerSecond"] =
        sends.iter().map(|window| json!(window.tally.rate(window.took))).collect();
    let mut outside = Errors::new();
    for window in sends {
        add_errors(&mut outside, window.tally.errors);
    }
    let (measured, more) = reads.finish();
    add_errors(&mut outside, more);
    add_errors(&mut outside, sending);
    Ok(Report { facts, counted: "received", measured, outside })
}

fn facts(args: &LightArgs) -> Value {
    json!({
        "bench": "light",
        "topic": args.topic,
        "queues": args.queues,
        "fanOut": args.fan_out,
        "each": args.each,
        "body": args.body,
        "window": args.window,
        "parallel": args.parallel,
    })
}

/// What is sent.
#[derive(Debug)]
struct Course {
    sends: Windows,
    stamp: Stamp,
    body: Bytes,
    topic: String,
    window: usize,
    queues: Vec<String>,
    /// Queues that one message names.
    fan_out: usize,
    /// Messages of each queue.
    each: u32,
}

impl Course {
    fn new(args: &LightArgs) -> anyhow::Result<Self> {
        let name = |number| format!("{LMQ_PREFIX}{}-{number}", args.topic);
        Ok(Self {
            sends: Windows::once(args.duration)?,
            stamp: Stamp::now()?,
            body: random_body(args.body),
            topic: args.topic.clone(),
            window: args.window as usize,
            queues: (0..args.queues).map(name).collect(),
            fan_out: args.fan_out as usize,
            each: args.each,
        })
    }

    /// Sends every message; gives the broker that took one of them. All go to its queue 0: a light
    /// queue lies on one broker.
    async fn send(&self, producer: &Producer) -> Option<String> {
        let rounds = 0..self.each;
        let sends = rounds.flat_map(move |round| {
            let groups = self.queues.chunks(self.fan_out.max(1));
            groups.map(move |group| self.send_one(producer, round, group))
        });
        let brokers = stream::iter(sends).buffer_unordered(self.window).collect::<Vec<_>>().await;
        brokers.into_iter().flatten().next()
    }

    async fn send_one(&self, producer: &Producer, round: u32, group: &[String]) -> Option<String> {
        if self.sends.is_over() {
            return None;
        }
        let body = self.stamp.on(u64::from(round), &self.body);
        let bytes = body.len() as u64;
        let message = Message::new(self.topic.as_str(), body);
        let message = message.property(key::INNER_MULTI_DISPATCH, &group.join(","));
        let begun = Instant::now();
        let result = producer.send_to(message, 0).await;
        let at = Instant::now();
        let failed = result.is_err();
        let stored = self.sends.sent(at, (1, bytes, at - begun), result);
        if failed {
            tokio::time::sleep(AFTER_FAILURE).await;
        }
        stored.map(|sent| sent.queue.broker_name)
    }
}

/// How light queues are read.
#[derive(Debug)]
struct Reading {
    windows: Arc<Windows>,
    puller: PullConsumer,
    topic: String,
    broker: String,
    stamp: Stamp,
    each: u64,
}

impl Reading {
    /// Reads all queues; gives how many lack messages of this run.
    async fn all(self, queues: Vec<String>, parallel: usize) -> u64 {
        let this = Arc::new(self);
        let reads = queues.into_iter().map(|queue| Arc::clone(&this).queue(queue));
        let whole: Vec<bool> = stream::iter(reads).buffer_unordered(parallel).collect().await;
        this.windows.stop();
        whole.iter().map(|whole| u64::from(!whole)).sum()
    }

    /// Reads one queue until it has shown every message of this run; whether it did, each once.
    async fn queue(self: Arc<Self>, name: String) -> bool {
        let queue = MessageQueue { topic: name, broker_name: self.broker.clone(), queue_id: 0 };
        let (mut offset, mut seen) = (0, BTreeMap::new());
        let mut empty = Instant::now();
        while (seen.len() as u64) < self.each && !self.windows.is_over() {
            let begun = Instant::now();
            let pulled =
                self.puller.pull_light(&self.topic, &queue, &PullRequest::at(offset)).await;
            let at = Instant::now();
            match pulled {
                Ok(pulled) if pulled.messages.is_empty() => {
                    // What is acknowledged may not have come to its queues yet.
                    if empty.elapsed() > DISPATCHED {
                        return false;
                    }
                    offset = pulled.next.max(offset);
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
                Ok(pulled) => {
                    let mut bytes = 0;
                    for message in &pulled.messages {
                        bytes += message.body.len() as u64;
                        if let Some(round) = self.stamp.read(&message.body) {
                            *seen.entry(round).or_insert(0_u32) += 1;
                        }
                    }
                    let count = pulled.messages.len() as u64;
                    self.windows.success(at, count, bytes, Some(at - begun));
                    offset = pulled.next;
                    empty = at;
                }
                Err(error) => {
                    self.windows.error(at, error.kind(), || error.to_string());
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
        seen.len() as u64 == self.each && seen.values().all(|times| *times == 1)
    }
}

/// How long what is acknowledged may take into its queues.
const DISPATCHED: Duration = Duration::from_secs(60);
