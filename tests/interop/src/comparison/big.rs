//! A large log: how fast it is written, and how long a start with it takes.

use std::{collections::BTreeMap, time::Instant};

use anyhow::{Context, Result};

use super::{record::Record, session::Session};
use crate::usage;

/// Name of the part.
pub const PART: &str = "big";

/// Fills the log of a broker with `gib` GiB, and starts it again, stopped and killed.
///
/// # Errors
/// Where the broker refuses the load or does not come back.
pub fn measure(session: &mut Session, gib: u32, round: u32) -> Result<Vec<Record>> {
    let messages = u64::from(gib) * (1 << 30) / BODY;
    let machine = usage::machine_cpu_seconds()?;
    let begun = Instant::now();
    let line = session.bench(&format!(
        "produce --topic big --style async --window 1000 --body {BODY} --messages {messages} \
         --warmup 0 --duration 3600s"
    ))?;
    let took = begun.elapsed().as_secs_f64();
    let cpu = usage::machine_cpu_seconds()? - machine;
    let rate = line["messagesPerSecond"].as_f64().context("the bench gives a rate")?;
    let memory = usage::memory(session.broker.process.id())?;
    let mut records = vec![session.record(
        PART,
        &format!("{gib} GiB written, 16 KiB bodies, window 1,000"),
        round,
        BTreeMap::from([
            ("mib".to_owned(), rate * BODY as f64 / f64::from(1 << 20)),
            ("seconds".to_owned(), took),
            ("machineCpu".to_owned(), cpu),
            ("memory".to_owned(), memory.own as f64 / 1024.0),
        ]),
    )];
    for (kill, name) in [(false, "start after a stop"), (true, "start after kill -9")] {
        let seconds = session.restart(kill)?;
        let figures = BTreeMap::from([("seconds".to_owned(), seconds)]);
        records.push(session.record(PART, &format!("{name}, {gib} GiB"), round, figures));
    }
    Ok(records)
}

/// Bytes of a body.
const BODY: u64 = 16_384;
