//! `ledgermq dledger bench`: the original's APPEND, so that it drives a Java group as well.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use bytes::Bytes;
use dledger::{GroupClient, GroupError};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::connect;
use crate::{
    args::DledgerBenchArgs,
    bench::{
        AFTER_FAILURE, IN_FLIGHT_BYTES_MAX, Report, Windows, keep_in_flight, random_body, watch,
    },
    stop::StopSignals,
};

/// Appends as fast as the answers come.
pub(super) async fn run(args: DledgerBenchArgs) -> anyhow::Result<()> {
    check(&args)?;
    let mut signals = StopSignals::catch().context("signals cannot be caught")?;
    let clients: Result<Vec<_>, _> =
        (0..args.connections).map(|_| connect(&args.group).map(Arc::new)).collect();
    let clients = clients?;
    let first = clients.first().context("there is at least one connection")?;
    let leader = first.leader().await?;
    let load = Arc::new(Load {
        window: args.window as usize,
        body: random_body(args.body),
        left: AtomicU64::new(args.messages.unwrap_or(u64::MAX)),
        // Last, as the run begins with it.
        windows: Windows::begin(&args.measure)?,
    });
    let mut senders = JoinSet::new();
    for (_, client) in (0..args.senders).zip(clients.iter().cycle()) {
        senders.spawn(Arc::clone(&load).send(Arc::clone(client)));
    }
    let ended = async {
        while let Some(ended) = senders.join_next().await {
            ended.context("a sender was cut off")?;
        }
        // They may have ended by the number of appends.
        load.windows.stop();
        anyhow::Ok(())
    };
    let ((), ended) = tokio::join!(watch(&load.windows, "appends", &mut signals), ended);
    ended?;
    let mut facts = facts(&args, &leader);
    facts["messagesInAll"] = json!(load.windows.totals().0);
    for client in &clients {
        client.close();
    }
    let (measured, outside) = load.windows.finish();
    Report { facts, counted: "acknowledged", measured, outside }.print(args.json)
}

fn check(args: &DledgerBenchArgs) -> anyhow::Result<()> {
    // A body travels as base64.
    let each = u64::from(args.body) * 4 / 3 * u64::from(args.window);
    let connections = u64::from(args.connections.min(args.senders));
    let bytes = each * u64::from(args.senders).div_ceil(connections);
    ensure!(
        bytes <= IN_FLIGHT_BYTES_MAX,
        "{} MiB would be in flight on one connection, more than {}: lower --window, --senders or \
         --body, or give more --connections",
        bytes >> 20,
        IN_FLIGHT_BYTES_MAX >> 20
    );
    Ok(())
}

fn facts(args: &DledgerBenchArgs, leader: &str) -> Value {
    json!({
        "bench": "dledger",
        "group": args.group.group,
        "leader": leader,
        "senders": args.senders,
        "connections": args.connections,
        "window": args.window,
        "body": args.body,
        "durationSeconds": args.measure.duration.as_secs_f64(),
        "warmupSeconds": args.measure.warmup.as_secs_f64(),
        "repeat": args.measure.repeat,
        "messages": args.messages,
        "timeoutMs": u64::try_from(args.group.timeout.as_millis()).unwrap_or(u64::MAX),
    })
}

/// What all senders share.
#[derive(Debug)]
struct Load {
    windows: Windows,
    window: usize,
    body: Bytes,
    /// Appends that may still be sent.
    left: AtomicU64,
}

/// An append that has ended.
struct Ended {
    at: Instant,
    took: Duration,
    error: Option<GroupError>,
}

impl Load {
    /// One sender, until the run is over.
    async fn send(self: Arc<Self>, client: Arc<GroupClient>) {
        let next = || self.may_send().then(|| self.append(&client));
        keep_in_flight(self.window, next, |ended| self.count(ended)).await;
    }

    fn may_send(&self) -> bool {
        let take = |left: u64| left.checked_sub(1);
        !self.windows.is_over()
            && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    async fn append(&self, client: &GroupClient) -> Ended {
        let begun = Instant::now();
        let error = client.append(self.body.clone()).await.err();
        let at = Instant::now();
        if error.is_some() {
            tokio::time::sleep(AFTER_FAILURE).await;
        }
        Ended { at, took: at - begun, error }
    }

    fn count(&self, ended: Ended) {
        let Ended { at, took, error } = ended;
        match error {
            None => self.windows.success(at, 1, self.body.len() as u64, Some(took)),
            Some(error) => self.windows.error(at, error.kind().to_owned(), || error.to_string()),
        }
    }
}
