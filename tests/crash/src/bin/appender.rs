//! Appends to a log of one node and prints `position number` for each entry that is acknowledged.
//!
//! `appender FOLDER [--count N] [--first N] [--async]`: without a count until it is killed.
#![expect(clippy::print_stderr, reason = "it tells why it ended")]

use std::{
    io::Write,
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, mpsc},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use bytes::{BufMut, BytesMut};
use crash::{
    acknowledged,
    plain::{Outcomes, Plain},
};
use dledger::{Completed, Dledger, Durability, ENTRY_HEADER, Entries};

/// Submissions in flight.
const WINDOW: u64 = 8;
/// A log that grows beyond this is trimmed, so that it fits on a small disk.
const KEPT: u64 = 8 << 20;

/// First number and count of a submission.
type Token = (u64, u64);

struct Wanted {
    folder: PathBuf,
    first: u64,
    count: u64,
    durability: Durability,
}

fn wanted() -> Result<Wanted> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().context("the first argument is a folder")?.into();
    let mut wanted = Wanted { folder, first: 0, count: u64::MAX, durability: Durability::Sync };
    while let Some(flag) = arguments.next() {
        match flag.as_str() {
            "--async" => wanted.durability = Durability::Async,
            "--count" => wanted.count = arguments.next().context("--count N")?.parse()?,
            "--first" => wanted.first = arguments.next().context("--first N")?.parse()?,
            other => bail!("unknown flag {other}"),
        }
    }
    Ok(wanted)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("appender: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn run() -> Result<()> {
    let wanted = wanted()?;
    let mut options = acknowledged::options(&wanted.folder);
    options.durability = wanted.durability;
    let (sender, outcomes) = mpsc::channel();
    let log = Dledger::open(&options, Arc::new(Outcomes(sender)))?;
    log.start(Plain)?;
    let mut status = log.status();
    let now = status.wait_for(|status| status.opened || status.failure.is_some()).await?.clone();
    if let Some(failure) = now.failure {
        bail!("{failure}");
    }
    append(&log, &outcomes, &wanted)?;
    log.shutdown().map_err(anyhow::Error::msg)
}

fn append(
    log: &Dledger<Token>,
    outcomes: &mpsc::Receiver<Completed<Token>>,
    wanted: &Wanted,
) -> Result<()> {
    let (mut next, end) = (wanted.first, wanted.first.saturating_add(wanted.count));
    let mut in_flight = 0;
    while next < end || in_flight > 0 {
        while next < end && in_flight < WINDOW {
            let count = (1 + next % 3).min(end - next);
            submit(log, next, count)?;
            next += count;
            in_flight += 1;
        }
        let completed = outcomes.recv_timeout(Duration::from_secs(60)).context("no outcome")?;
        in_flight -= 1;
        let (first, _) = completed.token;
        let appended = completed.result?;
        let mut out = std::io::stdout().lock();
        for (number, (position, _)) in (first..).zip(appended.entries()) {
            out.write_all(format!("{position} {number}\n").as_bytes())?;
        }
        out.flush()?;
        let bounds = log.bounds();
        if bounds.committed - bounds.min > KEPT {
            log.trim(bounds.committed - KEPT / 2)?;
        }
    }
    Ok(())
}

fn submit(log: &Dledger<Token>, first: u64, count: u64) -> Result<()> {
    let mut buffer = BytesMut::new();
    let mut lengths = Vec::new();
    for number in first..first + count {
        let body = acknowledged::body(number);
        buffer.put_bytes(0, ENTRY_HEADER);
        buffer.put_slice(&body);
        lengths.push(u32::try_from(body.len())?);
    }
    log.submit(Entries { buffer, lengths, token: (first, count) })
        .map_err(|refused| anyhow::Error::new(refused.cause))
}
