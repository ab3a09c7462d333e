//! `ledgermq bench timers`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::ensure;
use bytes::Bytes;
use client::{Client, ClientOptions, Message, Producer, PullConsumer, PullRequest};
use futures_util::{StreamExt, stream};
use protocol::message::properties::key;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    AFTER_FAILURE, READERS, Report, Windows, consume::now_millis, random_body, sender_options,
    stamp::Stamp, tally::add_errors, topics, watch,
};
use crate::{
    args::{MeasureArgs, TimersArgs},
    stop::StopSignals,
};

/// Sends timers that wait far ahead, then those that are due at a rate, and receives these.
pub(super) async fn run(
    cluster: ClientOptions,
    args: &TimersArgs,
    mut signals: StopSignals,
) -> anyhow::Result<Report> {
    ensure!(args.waiting + args.due > 0, "give --waiting, --due or both");
    let client = Client::new(cluster)?;
    let names = [args.topic.clone()];
    topics::ensure_exist(&client, &names, None).await?;
    let puller = PullConsumer::new(Arc::clone(&client), READERS);
    let extents = topics::extents(&puller, &names).await?;
    let producer = Producer::start(Arc::clone(&client), sender_options(args.timeout, 0));
    let course = Course::new(args)?;
    let far = Sending { count: args.waiting, first: now_millis() + millis(args.ahead) };
    let mut facts = facts(args);
    let mut receivers = JoinSet::new();
    let sending = async {
        course.send(&producer, far).await;
        let arrival = Arc::new(Arrival::begin(args, course.stamp)?);
        for extent in extents {
            receivers.spawn(Arc::clone(&arrival).receive(puller.clone(), extent));
        }
        course.send(&producer, Sending { count: args.due, first: arrival.first }).await;
        facts["sentBeforeTheFirstWasDue"] = json!(now_millis() < arrival.first);
        course.sends.stop();
        anyhow::Ok(arrival)
    };
    let ((), sent) = tokio::join!(watch(&course.sends, "timers sent", &mut signals), sending);
    let arrival = sent?;
    if args.due > 0 {
        let all = arrival.wait_for_all();
        tokio::join!(watch(&arrival.windows, "timers delivered", &mut signals), all);
    }
    receivers.shutdown().await;
    producer.stop().await;
    client.close();
    Ok(report(facts, args, &course.sends, &arrival))
}

fn facts(args: &TimersArgs) -> Value {
    json!({
        "bench": "timers",
        "topic": args.topic,
        "waiting": args.waiting,
        "aheadSeconds": args.ahead.as_secs_f64(),
        "due": args.due,
        "rate": args.rate,
        "leadSeconds": args.lead.as_secs_f64(),
        "body": args.body,
    })
}

/// Timers that are sent together.
#[derive(Debug, Clone, Copy)]
struct Sending {
    count: u32,
    /// When the first is due, in milliseconds since 1970; the others follow at the rate.
    first: i64,
}

/// What is sent.
#[derive(Debug)]
struct Course {
    sends: Windows,
    stamp: Stamp,
    body: Bytes,
    topic: String,
    rate: u32,
    window: usize,
}

impl Course {
    fn new(args: &TimersArgs) -> anyhow::Result<Self> {
        Ok(Self {
            sends: Windows::once(SENDING_MAX)?,
            stamp: Stamp::now()?,
            body: random_body(args.body),
            topic: args.topic.clone(),
            rate: args.rate.max(1),
            window: args.window as usize,
        })
    }

    async fn send(&self, producer: &Producer, sending: Sending) {
        let sends = (0..sending.count).map(|nth| self.send_one(producer, nth, sending.first));
        stream::iter(sends)
            .buffer_unordered(self.window)
            .for_each(|()| std::future::ready(()))
            .await;
    }

    async fn send_one(&self, producer: &Producer, nth: u32, first: i64) {
        if self.sends.is_over() {
            return;
        }
        let due = first.saturating_add(self.after(nth));
        let body = self.stamp.on(due.cast_unsigned(), &self.body);
        let bytes = body.len() as u64;
        let message = Message::new(self.topic.as_str(), body);
        let message = message.property(key::TIMER_DELIVER_MS, &due.to_string());
        let begun = Instant::now();
        let result = producer.send(message).await;
        let at = Instant::now();
        let failed = result.is_err();
        self.sends.sent(at, (1, bytes, at - begun), result);
        if failed {
            tokio::time::sleep(AFTER_FAILURE).await;
        }
    }

    /// Milliseconds from the first timer to this one.
    fn after(&self, nth: u32) -> i64 {
        i64::from(nth) * 1_000 / i64::from(self.rate)
    }
}

/// What arrives.
#[derive(Debug)]
struct Arrival {
    /// From when the first is due; latency is how late a timer came.
    windows: Windows,
    stamp: Stamp,
    /// When the first is due, in milliseconds since 1970.
    first: i64,
    /// How many are to arrive.
    due: u64,
    early: AtomicU64,
}

impl Arrival {
    /// Begins to wait for the first.
    fn begin(args: &TimersArgs, stamp: Stamp) -> anyhow::Result<Self> {
        let rate = f64::from(args.rate.max(1));
        let due = Duration::from_secs_f64(f64::from(args.due) / rate);
        let measure = MeasureArgs { duration: due + LAST, warmup: args.lead, repeat: 1 };
        let first = now_millis() + millis(args.lead);
        let windows = Windows::begin(&measure)?;
        Ok(Self { windows, stamp, first, due: u64::from(args.due), early: AtomicU64::new(0) })
    }

    /// Waits for messages of one queue; ends when it is dropped.
    async fn receive(self: Arc<Self>, puller: PullConsumer, extent: topics::Extent) {
        let mut offset = extent.end;
        loop {
            let wanted =
                PullRequest { wait: Some(WAIT), count: AT_ONCE, ..PullRequest::at(offset) };
            match puller.pull(&extent.queue, &wanted).await {
                Ok(pulled) => {
                    let (at, now) = (Instant::now(), now_millis());
                    for message in &pulled.messages {
                        self.count(&message.body, at, now);
                    }
                    offset = pulled.next;
                }
                Err(error) => {
                    self.windows.error(Instant::now(), error.kind(), || error.to_string());
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
    }

    /// Counts a timer of this run.
    fn count(&self, body: &Bytes, at: Instant, now: i64) {
        let Some(due) = self.stamp.read(body).map(u64::cast_signed) else { return };
        if now < due {
            self.early.fetch_add(1, Ordering::Relaxed);
        }
        let late = Duration::from_millis(u64::try_from(now - due).unwrap_or(0));
        self.windows.success(at, 1, body.len() as u64, Some(late));
    }

    /// Ends the run once all have arrived.
    async fn wait_for_all(&self) {
        while self.windows.totals().0 < self.due && !self.windows.is_over() {
            tokio::time::sleep(AFTER_FAILURE).await;
        }
        self.windows.stop();
    }
}

fn report(mut facts: Value, args: &TimersArgs, sends: &Windows, arrival: &Arrival) -> Report {
    let (sent, arrived) = (sends.totals().0, arrival.windows.totals().0);
    let all = u64::from(args.waiting) + u64::from(args.due);
    facts["acknowledgedInAll"] = json!(sent);
    facts["early"] = json!(arrival.early.load(Ordering::Relaxed));
    // What was not acknowledged need not come.
    let failed = all.saturating_sub(sent);
    facts["missing"] = json!(arrival.due.saturating_sub(failed).saturating_sub(arrived));
    let (sends, mut outside) = sends.finish();
    facts["sendsPerSecond"] =
        sends.iter().map(|window| json!(window.tally.rate(window.took))).collect();
    if args.due == 0 {
        return Report { facts, counted: "acknowledged", measured: sends, outside };
    }
    for window in sends {
        add_errors(&mut outside, window.tally.errors);
    }
    let (measured, more) = arrival.windows.finish();
    add_errors(&mut outside, more);
    Report { facts, counted: "delivered", measured, outside }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Messages of one pull.
const AT_ONCE: i32 = 32;
/// How long a pull waits at the broker.
const WAIT: Duration = Duration::from_secs(5);
/// How overdue the last timers may be.
const LAST: Duration = Duration::from_secs(60);
/// Time at most for sending.
const SENDING_MAX: Duration = Duration::from_secs(3_600);
