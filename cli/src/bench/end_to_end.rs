//! `ledgermq bench e2e`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use bytes::{BufMut, Bytes, BytesMut};
use client::{Message, Producer, ProducerOptions, PullConsumer, PullRequest, SendStatus};
use futures_util::{StreamExt, stream::FuturesUnordered};
use serde_json::json;
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    AFTER_FAILURE, IN_FLIGHT_BYTES_MAX, Report, Windows, connect, random_body,
    tally::add_errors,
    topics::{self, Extent},
    watch,
};
use crate::{args::EndToEndArgs, stop::StopSignals};

/// Sends at a fixed rate and receives.
pub(super) async fn run(
    namesrv: &str,
    args: &EndToEndArgs,
    mut signals: StopSignals,
) -> anyhow::Result<Report> {
    ensure!(
        u64::from(args.window) * u64::from(args.body) <= IN_FLIGHT_BYTES_MAX,
        "--window times --body is more than {} MiB: lower one of them",
        IN_FLIGHT_BYTES_MAX >> 20
    );
    let client = connect(namesrv)?;
    let names = topics::names(&args.topics);
    topics::ensure_exist(&client, &names, args.queues).await?;
    let puller = PullConsumer::new(Arc::clone(&client), CONSUMER_GROUP);
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
    let options = ProducerOptions {
        timeout: args.timeout,
        retries: 0,
        window: usize::MAX,
        ..ProducerOptions::new(PRODUCER_GROUP)
    };
    let producer = Arc::new(Producer::start(Arc::clone(&client), options));
    let (due, dues) = mpsc::channel(args.window as usize);
    let clock = Arc::clone(&course);
    let pacing = tokio::task::spawn_blocking(move || clock.pace(&due));
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
    /// Tells messages of this run from others in the topic.
    run: u64,
    body: Bytes,
    topics: Vec<String>,
    /// Messages that were handed to the producer.
    sent: AtomicU64,
}

impl Course {
    fn begin(args: &EndToEndArgs, topics: Vec<String>) -> anyhow::Result<Self> {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let since = since.context("the clock is before 1970")?;
        Ok(Self {
            rate: args.rate,
            window: args.window as usize,
            run: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
            body: random_body(args.body).slice(STAMP..),
            topics,
            sent: AtomicU64::new(0),
            acks: Windows::begin(&args.measure)?,
            arrivals: Windows::begin(&args.measure)?,
        })
    }

    /// Says when each message is due. A thread of its own: timers of tasks are 1 ms coarse.
    fn pace(&self, due: &mpsc::Sender<Instant>) {
        let begun = self.arrivals.begun();
        for index in 0.. {
            let at = begun + due_after(index, self.rate);
            if at >= begun + self.arrivals.whole() {
                return;
            }
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            if self.arrivals.is_over() || due.blocking_send(at).is_err() {
                return;
            }
        }
    }

    /// Sends what is due, as long as the window has room.
    async fn send(self: Arc<Self>, producer: Arc<Producer>, mut dues: mpsc::Receiver<Instant>) {
        let mut flight = FuturesUnordered::new();
        let mut more = true;
        while more || !flight.is_empty() {
            tokio::select! {
                due = dues.recv(), if more && flight.len() < self.window => match due {
                    Some(due) => flight.push(self.send_one(&producer, due)),
                    None => more = false,
                },
                Some(()) = flight.next(), if !flight.is_empty() => {}
            }
        }
    }

    async fn send_one(&self, producer: &Producer, due: Instant) {
        let turn = self.sent.fetch_add(1, Ordering::Relaxed);
        let turn = usize::try_from(turn).unwrap_or_default() % self.topics.len().max(1);
        let topic = self.topics.get(turn).map_or("", String::as_str);
        let since = due.saturating_duration_since(self.arrivals.begun());
        let body = stamped(self.run, since, &self.body);
        let bytes = body.len() as u64;
        let result = producer.send(Message::new(topic, body)).await;
        let at = Instant::now();
        match result {
            Ok(sent) if sent.status == SendStatus::Stored => {
                self.acks.success(at, 1, bytes, Some(at - due));
            }
            Ok(sent) => self.acks.error(at, sent.status.name().to_owned(), || {
                format!("{} for message {}", sent.status.name(), sent.offset_message_id)
            }),
            Err(error) => self.acks.error(at, error.kind(), || error.to_string()),
        }
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
        if let Some(since) = read_stamp(self.run, body) {
            let due = self.arrivals.begun() + since;
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

/// Time from the beginning until the message of this index is due.
fn due_after(index: u64, rate: u32) -> Duration {
    let rate = u64::from(rate.max(1));
    let nanos = (index % rate) * 1_000_000_000 / rate;
    Duration::from_secs(index / rate) + Duration::from_nanos(nanos)
}

/// A body that tells its run and when it was due.
fn stamped(run: u64, since: Duration, rest: &[u8]) -> Bytes {
    let mut body = BytesMut::with_capacity(STAMP + rest.len());
    body.put_u64(run);
    body.put_u64(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
    body.put_slice(rest);
    body.freeze()
}

/// When a message was due, if it is of this run.
fn read_stamp(run: u64, body: &[u8]) -> Option<Duration> {
    let (of, rest) = body.split_first_chunk()?;
    let (since, _) = rest.split_first_chunk()?;
    (u64::from_be_bytes(*of) == run).then(|| Duration::from_nanos(u64::from_be_bytes(*since)))
}

const PRODUCER_GROUP: &str = "ledgermq_bench_producer";
const CONSUMER_GROUP: &str = "TOOLS_CONSUMER";
/// Bytes of a time stamp in a body.
const STAMP: usize = 16;
/// Queues that are waited for at the same time; a broker bounds the requests of a connection.
const QUEUES_MAX: usize = 4096;
/// How long a pull waits at the broker.
const WAIT: Duration = Duration::from_secs(5);
/// Time for messages that were acknowledged to arrive after the end.
const LAST: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_due_at_even_distances() {
        let due: Vec<_> = [0, 1, 3, 4, 4_000_000_001].map(|index| due_after(index, 4)).into();
        let expected = [0, 250, 750, 1000, 1_000_000_000_250].map(Duration::from_millis);
        assert_eq!(due, expected);
        assert_eq!(due_after(2, 3), Duration::from_nanos(666_666_666));
    }

    #[test]
    fn a_stamp_is_read_back_and_others_are_none() {
        let since = Duration::from_nanos(1_234_567_891);
        let body = stamped(7, since, b"rest");
        assert_eq!((body.len(), read_stamp(7, &body)), (20, Some(since)));
        assert_eq!(read_stamp(8, &body), None);
        assert_eq!(read_stamp(7, &body[..15]), None);
    }
}
