//! `ledgermq bench consume`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use client::{Client, ClientOptions, PullConsumer, PullError, PullRequest, Pulled};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::{
    AFTER_FAILURE, READERS, Report, Windows,
    tally::{Errors, add_errors},
    topics::{self, Extent},
    watch,
};
use crate::{
    args::{BenchConsumeArgs, MeasureArgs},
    stop::StopSignals,
};

/// Reads what the topics hold now.
pub(super) async fn run(
    cluster: ClientOptions,
    args: &BenchConsumeArgs,
    mut signals: StopSignals,
) -> anyhow::Result<Report> {
    let client = Client::new(cluster)?;
    let puller = PullConsumer::new(Arc::clone(&client), READERS);
    let extents = topics::extents(&puller, &topics::names(&args.topics)).await?;
    let there: i64 = extents.iter().map(|extent| extent.end - extent.first).sum();
    ensure!(
        there > 0 || args.live,
        "topic {} holds no message: run bench produce first",
        args.topics.topic
    );
    let mut report = Report {
        facts: facts(args, there),
        counted: "received",
        measured: Vec::new(),
        outside: Errors::new(),
    };
    for _ in 0..args.repeat {
        let measure = MeasureArgs { duration: args.duration, warmup: Duration::ZERO, repeat: 1 };
        let windows = Arc::new(Windows::begin(&measure)?);
        let reading = tokio::spawn(read_all(
            Arc::clone(&windows),
            puller.clone(),
            extents.clone(),
            Reading {
                count: i32::from(args.pull),
                parallel: usize::from(args.parallel),
                live: args.live,
            },
        ));
        watch(&windows, "messages", &mut signals).await;
        let complete = reading.await.context("the reader was cut off")?;
        let (measured, outside) = windows.finish();
        report.measured.extend(measured);
        add_errors(&mut report.outside, outside);
        if !complete && !args.live {
            report.facts["complete"] = json!(false);
            break;
        }
    }
    client.close();
    Ok(report)
}

fn facts(args: &BenchConsumeArgs, there: i64) -> Value {
    json!({
        "bench": "consume",
        "topic": args.topics.topic,
        "topics": args.topics.topics,
        "live": args.live,
        "pull": args.pull,
        "parallel": args.parallel,
        "durationSeconds": args.duration.as_secs_f64(),
        "repeat": args.repeat,
        "offsets": there,
        "complete": true,
    })
}

/// How is read.
#[derive(Debug, Clone, Copy)]
struct Reading {
    /// Messages of one pull.
    count: i32,
    /// Queues that are read at the same time.
    parallel: usize,
    /// What comes, not what is there.
    live: bool,
}

/// Reads all queues, then ends the run; whether every queue was read to its end.
async fn read_all(
    windows: Arc<Windows>,
    puller: PullConsumer,
    extents: Vec<Extent>,
    reading: Reading,
) -> bool {
    // What comes is waited for in all queues.
    let parallel = if reading.live { extents.len().max(1) } else { reading.parallel };
    let readers = extents.into_iter().map(|extent| {
        let reader =
            Reader { windows: Arc::clone(&windows), puller: puller.clone(), count: reading.count };
        // Reading unpacks and checks every message: a task each spreads that over the cores.
        async move {
            let read = if reading.live {
                tokio::spawn(reader.follow(extent))
            } else {
                tokio::spawn(reader.read(extent))
            };
            read.await.unwrap_or(false)
        }
    });
    let done: Vec<bool> = stream::iter(readers).buffer_unordered(parallel).collect().await;
    windows.stop();
    done.into_iter().all(|done| done)
}

struct Reader {
    windows: Arc<Windows>,
    puller: PullConsumer,
    /// Messages of one pull.
    count: i32,
}

impl Reader {
    /// Reads one queue; whether its end was reached before the time was over.
    async fn read(self, extent: Extent) -> bool {
        let mut offset = extent.first;
        while offset < extent.end {
            if self.windows.is_over() {
                return false;
            }
            let wanted = PullRequest { count: self.count, ..PullRequest::at(offset) };
            let begun = Instant::now();
            let result = self.puller.pull(&extent.queue, &wanted).await;
            let next = self.count(result, begun, &extent, offset);
            if next <= offset {
                tokio::time::sleep(AFTER_FAILURE).await;
            }
            offset = next.max(offset);
        }
        true
    }

    /// Reads what comes to one queue until the run is over.
    async fn follow(self, extent: Extent) -> bool {
        let mut offset = extent.end;
        while !self.windows.is_over() {
            let wanted =
                PullRequest { count: self.count, wait: Some(WAIT), ..PullRequest::at(offset) };
            match self.puller.pull(&extent.queue, &wanted).await {
                Ok(pulled) => {
                    let (at, now) = (Instant::now(), now_millis());
                    for message in &pulled.messages {
                        let age = u64::try_from(now - message.born_timestamp).unwrap_or(0);
                        let bytes = message.body.len() as u64;
                        self.windows.success(at, 1, bytes, Some(Duration::from_millis(age)));
                    }
                    offset = pulled.next;
                }
                Err(error) => {
                    self.windows.error(Instant::now(), error.kind(), || error.to_string());
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
        true
    }

    /// Counts an answer; gives the offset at which to go on.
    fn count(
        &self,
        result: Result<Pulled, PullError>,
        begun: Instant,
        extent: &Extent,
        offset: i64,
    ) -> i64 {
        let at = Instant::now();
        match result {
            Ok(pulled) => {
                let messages =
                    pulled.messages.iter().filter(|message| message.queue_offset < extent.end);
                let (count, bytes) = messages
                    .fold((0, 0), |(count, bytes), m| (count + 1, bytes + m.body.len() as u64));
                if pulled.moved {
                    let text = || format!("offset {offset} moved to {}", pulled.next);
                    self.windows.error(at, "OFFSET_MOVED".to_owned(), text);
                } else if count > 0 {
                    self.windows.success(at, count, bytes, Some(at - begun));
                }
                pulled.next
            }
            Err(error) => {
                self.windows.error(at, error.kind(), || error.to_string());
                offset
            }
        }
    }
}

/// Milliseconds since 1970, as messages carry them.
pub(super) fn now_millis() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// How long a pull waits at the broker; the end of a run waits as long at most.
const WAIT: Duration = Duration::from_secs(1);
