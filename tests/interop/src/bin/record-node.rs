//! A member of ours for groups with Java brokers: `ledgermq dledger server`, but what it writes by
//! itself is a message record, and every body is stamped as a broker would. A Java broker takes
//! apart every body as a record; anything else derails it.

use std::{
    collections::HashMap,
    env,
    net::IpAddr,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail};
use dledger::{Body, Hook, HookError, LogServer, Options, ServerOptions, Tail};
use interop::records;
use protocol::message::record::{self, RecordView};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = HashMap::new();
    let mut words = env::args().skip(1);
    while let Some(name) = words.next() {
        let value = words.next().with_context(|| format!("{name} has no value"))?;
        arguments.insert(name, value);
    }
    let text =
        |name: &str| arguments.get(name).cloned().with_context(|| format!("{name} is missing"));
    let options = Options {
        group: text("--group")?,
        self_id: text("--id")?,
        peers: text("--peers")?,
        file_size: text("--file-size")?.parse().context("--file-size")?,
        ..Options::one_node(text("--dir")?.into())
    };
    let bind: IpAddr = text("--bind")?.parse().context("--bind")?;
    tracing_subscriber::fmt().with_ansi(false).init();
    let mut stop = signal(SignalKind::terminate()).context("SIGTERM")?;
    let server = LogServer::start(
        ServerOptions { bind: Some(bind), ..ServerOptions::new(options) },
        Records::default(),
    )?;
    tokio::select! {
        _ = stop.recv() => {}
        failure = server.failed() => bail!("the log failed: {failure}"),
    }
    server.shutdown().await.map_err(anyhow::Error::msg)
}

/// Stamps records with the offsets of their queue.
#[derive(Debug, Default)]
struct Records {
    /// The next offset of the one queue that is written here.
    next: i64,
    /// How many the last group took.
    taken: i64,
    /// Up to where the log was looked at.
    seen: u64,
}

impl Hook for Records {
    fn elected(&mut self, _term: u64, tail: &mut dyn Tail) -> Result<(), HookError> {
        // From the start: what this node has seen before may have been cut off.
        (self.next, self.seen) = (0, 0);
        let next = &mut self.next;
        tail.visit(self.seen, &mut |_position, body| {
            let record = RecordView::parse(body).map_err(|error| HookError(error.to_string()))?;
            if record.topic() == records::TOPIC {
                *next = record.queue_offset() + 1;
            }
            Ok(())
        })
    }

    fn opening(&mut self, term: u64) -> Vec<u8> {
        records::draft(&format!("term {term} begins"))
    }

    fn stamp(&mut self, group: &mut [Body<'_>]) -> Result<(), HookError> {
        self.taken = 0;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        for body in group {
            RecordView::parse(body.bytes).map_err(|error| HookError(error.to_string()))?;
            let physical = i64::try_from(body.position + 48).unwrap_or(i64::MAX);
            record::stamp(body.bytes, self.next, physical, now);
            self.next += 1;
            self.taken += 1;
        }
        Ok(())
    }

    fn undo(&mut self) {
        self.next -= self.taken;
        self.taken = 0;
    }
}
