//! `ledgermq bench consume`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use client::{PullConsumer, PullError, PullRequest, Pulled};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::{
    AFTER_FAILURE, Report, Windows, connect,
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
    namesrv: &str,
    args: &BenchConsumeArgs,
    mut signals: StopSignals,
) -> anyhow::Result<Report> {
    let client = connect(namesrv)?;
    let puller = PullConsumer::new(Arc::clone(&client), GROUP);
    let extents = topics::extents(&puller, &topics::names(&args.topics)).await?;
    let there: i64 = extents.iter().map(|extent| extent.end - extent.first).sum();
    ensure!(there > 0, "topic {} holds no message: run bench produce first", args.topics.topic);
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
            (i32::from(args.pull), usize::from(args.parallel)),
        ));
        watch(&windows, "messages", &mut signals).await;
        let complete = reading.await.context("the reader was cut off")?;
        let (measured, outside) = windows.finish();
        report.measured.extend(measured);
        add_errors(&mut report.outside, outside);
        if !complete {
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
        "pull": args.pull,
        "parallel": args.parallel,
        "durationSeconds": args.duration.as_secs_f64(),
        "repeat": args.repeat,
        "offsets": there,
        "complete": true,
    })
}

/// Reads all queues, then ends the run; whether every queue was read to its end.
async fn read_all(
    windows: Arc<Windows>,
    puller: PullConsumer,
    extents: Vec<Extent>,
    (count, parallel): (i32, usize),
) -> bool {
    let readers = extents.into_iter().map(|extent| {
        let reader = Reader { windows: Arc::clone(&windows), puller: puller.clone(), count };
        // Reading unpacks and checks every message: a task each spreads that over the cores.
        async move { tokio::spawn(reader.read(extent)).await.unwrap_or(false) }
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

const GROUP: &str = "TOOLS_CONSUMER";
