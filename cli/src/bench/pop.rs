//! `ledgermq bench pop`.

use std::{sync::Arc, time::Instant};

use anyhow::{Context, ensure};
use client::{Client, ClientOptions, PopConsumer, PopRequest, Popped, PullConsumer, PullError};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{AFTER_FAILURE, READERS, Report, Windows, topics, watch};
use crate::{args::PopArgs, stop::StopSignals};

/// Takes and acknowledges what the topics hold, until nothing is left or the time is over.
pub(super) async fn run(
    cluster: ClientOptions,
    args: &PopArgs,
    mut signals: StopSignals,
) -> anyhow::Result<Report> {
    let clients: Result<Vec<_>, _> =
        (0..args.connections).map(|_| Client::new(cluster.clone())).collect();
    let clients = clients?;
    let client = clients.first().context("there is at least one connection")?;
    let names = topics::names(&args.topics);
    let puller = PullConsumer::new(Arc::clone(client), READERS);
    let extents = topics::extents(&puller, &names).await?;
    let there: i64 = extents.iter().map(|extent| extent.end - extent.first).sum();
    ensure!(there > 0, "topic {} holds no message: run bench produce first", args.topics.topic);
    let brokers = PopConsumer::new(Arc::clone(client), args.group.as_str());
    let mut places = Vec::new();
    for name in &names {
        let found = brokers.brokers(name).await?.into_iter();
        places.extend(found.map(|broker| (name.clone(), broker)));
    }
    let places = Arc::new(places);
    let windows = Arc::new(Windows::begin(&args.measure)?);
    let mut workers = JoinSet::new();
    for (number, client) in (0..args.workers as usize).zip(clients.iter().cycle()) {
        let worker = Worker {
            windows: Arc::clone(&windows),
            consumer: PopConsumer::new(Arc::clone(client), args.group.as_str()),
            wanted: PopRequest {
                count: i32::from(args.batch),
                invisible: args.invisible,
                wait: None,
            },
            places: Arc::clone(&places),
        };
        workers.spawn(worker.run(number));
    }
    let ended = async {
        while let Some(ended) = workers.join_next().await {
            ended.context("a worker was cut off")?;
        }
        windows.stop();
        anyhow::Ok(())
    };
    let ((), ended) = tokio::join!(watch(&windows, "messages", &mut signals), ended);
    ended?;
    let facts = facts(args, there, windows.totals().0);
    for client in &clients {
        client.close();
    }
    let (measured, outside) = windows.finish();
    Ok(Report { facts, counted: "acknowledged", measured, outside })
}

fn facts(args: &PopArgs, there: i64, in_all: u64) -> Value {
    json!({
        "bench": "pop",
        "topic": args.topics.topic,
        "topics": args.topics.topics,
        "group": args.group,
        "workers": args.workers,
        "connections": args.connections,
        "batch": args.batch,
        "invisibleSeconds": args.invisible.as_secs_f64(),
        "durationSeconds": args.measure.duration.as_secs_f64(),
        "warmupSeconds": args.measure.warmup.as_secs_f64(),
        "repeat": args.measure.repeat,
        "offsets": there,
        "messagesInAll": in_all,
    })
}

/// One of those that take messages at the same time.
struct Worker {
    windows: Arc<Windows>,
    consumer: PopConsumer,
    wanted: PopRequest,
    /// Topics and brokers, which take turns.
    places: Arc<Vec<(String, String)>>,
}

impl Worker {
    /// Takes and acknowledges until the run is over or nothing is left; `number` spreads the workers
    /// over the places.
    async fn run(self, number: usize) {
        let mut empty = 0;
        for (topic, broker) in self.places.iter().cycle().skip(number % self.places.len().max(1)) {
            if self.windows.is_over() || empty >= EMPTY_MAX * self.places.len() {
                return;
            }
            let begun = Instant::now();
            match self.consumer.pop(topic, broker, &self.wanted).await {
                Ok(pops) if pops.messages.is_empty() => {
                    // Others may be at the queues in which there is something.
                    empty = if pops.rest > 0 { 0 } else { empty + 1 };
                    tokio::time::sleep(PAUSE).await;
                }
                Ok(pops) => {
                    empty = 0;
                    self.acknowledge(&pops.messages, begun).await;
                }
                Err(error) => {
                    self.failed(&error);
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
    }

    /// Acknowledges messages, each by a request of its own, as a push consumer does.
    async fn acknowledge(&self, popped: &[Popped], begun: Instant) {
        let done = join_all(popped.iter().map(|one| self.consumer.ack(one))).await;
        let at = Instant::now();
        let (mut count, mut bytes) = (0, 0);
        for (one, result) in popped.iter().zip(done) {
            match result {
                Ok(()) => {
                    count += 1;
                    bytes += one.message.body.len() as u64;
                }
                Err(error) => self.failed(&error),
            }
        }
        if count > 0 {
            self.windows.success(at, count, bytes, Some(at - begun));
        }
    }

    fn failed(&self, error: &PullError) {
        self.windows.error(Instant::now(), error.kind(), || error.to_string());
    }
}

/// Empty answers in a row of each place after which a worker ends.
const EMPTY_MAX: usize = 10;
/// Time before a worker asks again where there was nothing.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(5);
