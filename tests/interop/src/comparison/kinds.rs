//! Our broker alone: how many timers and light queues it bears, and what they cost.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, anyhow};
use serde_json::Value;

use super::{FOREIGN_MAX, number, record::Record, session::Session, session::Spent, write_to};
use crate::usage;

/// Heading of the section.
pub const HEADING: &str = "## Kinds of messages";
/// The part of timers.
pub const TIMERS: &str = "timers";
/// The part of light queues.
pub const LIGHT: &str = "light";
/// Part of the records that tell how a part was measured.
pub const ABOUT: &str = "about";

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Timers that wait far ahead.
    pub waiting: u32,
    /// Timers that come due.
    pub due: u32,
    /// Timers that are due in a second.
    pub rate: u32,
    /// Light queues.
    pub queues: u32,
}

/// Memory that a million pending timers may cost, in MiB.
const MEMORY_MAX: f64 = 256.0;

/// Sends timers that wait, then delivers others at a rate, then starts with what waits.
///
/// # Errors
/// Where the broker does not take the load.
pub fn timers(session: &mut Session, sizes: Sizes) -> Result<Vec<Record>> {
    let Sizes { waiting, due, rate, .. } = sizes;
    let load = usage::load_average()?;
    let before = own_mib(session)?;
    let meter = session.meter()?;
    let sent = session.bench(&format!("timers --waiting {waiting} --rate {rate}"))?;
    let pending = own_mib(session)?;
    let beginning = meter.spent()?.foreign;
    let meter = session.meter()?;
    let words = format!("timers --due {due} --rate {rate} --lead {LEAD_SECONDS}s");
    let (line, most) = with_most_memory(session, || session.bench(&words))?;
    let Spent { used, foreign } = meter.spent()?;
    let start = session.restart(false)?;
    let restarted = own_mib(session)?;
    let of = |value: &Value, name: &str| {
        value.as_f64().with_context(|| format!("{name} is missing in {line}"))
    };
    let figures = BTreeMap::from([
        ("load".to_owned(), load),
        ("waiting".to_owned(), waiting.into()),
        ("sent".to_owned(), of(&sent["messagesPerSecond"], "messagesPerSecond")?),
        ("sendsFailed".to_owned(), of(&sent["failed"], "failed")?),
        ("before".to_owned(), before),
        ("pending".to_owned(), pending),
        ("most".to_owned(), most.max(pending)),
        ("due".to_owned(), rate.into()),
        ("rate".to_owned(), of(&line["messagesPerSecond"], "messagesPerSecond")?),
        ("p50".to_owned(), of(&line["latencyMs"]["p50"], "latencyMs.p50")?),
        ("p99".to_owned(), of(&line["latencyMs"]["p99"], "latencyMs.p99")?),
        ("max".to_owned(), of(&line["latencyMs"]["max"], "latencyMs.max")?),
        ("early".to_owned(), of(&line["early"], "early")?),
        ("missing".to_owned(), of(&line["missing"], "missing")?),
        ("cpu".to_owned(), used * 1e6 / f64::from(due.max(1))),
        ("start".to_owned(), start),
        ("restarted".to_owned(), restarted),
    ]);
    let record = session.record(TIMERS, TIMERS, 1, figures);
    Ok(vec![Record { foreign: foreign.max(beginning), ..record }])
}

/// Fills light queues and reads each of them, then starts with them.
///
/// # Errors
/// Where the broker does not take the load.
pub fn light(session: &mut Session, sizes: Sizes) -> Result<Vec<Record>> {
    let load = usage::load_average()?;
    let (before, files) = (own_mib(session)?, open_files(session)?);
    let meter = session.meter()?;
    let words = format!("light --queues {} --fan-out {FAN_OUT} --each {EACH}", sizes.queues);
    let (line, most) = with_most_memory(session, || session.bench(&words))?;
    let Spent { used, foreign } = meter.spent()?;
    let (after, opened) = (own_mib(session)?, open_files(session)?);
    let start = session.restart(false)?;
    let restarted = own_mib(session)?;
    let of = |value: &Value, name: &str| {
        value.as_f64().with_context(|| format!("{name} is missing in {line}"))
    };
    let places = f64::from(sizes.queues) * f64::from(EACH);
    let figures = BTreeMap::from([
        ("load".to_owned(), load),
        ("queues".to_owned(), sizes.queues.into()),
        ("sent".to_owned(), of(&line["sendsPerSecond"][0], "sendsPerSecond")?),
        ("read".to_owned(), of(&line["messagesPerSecond"], "messagesPerSecond")?),
        ("missing".to_owned(), of(&line["queuesWithMissingMessages"], "missing queues")?),
        ("before".to_owned(), before),
        ("after".to_owned(), after),
        ("most".to_owned(), most.max(after)),
        ("files".to_owned(), files),
        ("opened".to_owned(), opened),
        ("cpu".to_owned(), used * 1e6 / places.max(1.0)),
        ("start".to_owned(), start),
        ("restarted".to_owned(), restarted),
    ]);
    let record = session.record(LIGHT, LIGHT, 1, figures);
    Ok(vec![Record { foreign, ..record }])
}

/// Anonymous and shared memory once it stands still, in MiB.
fn own_mib(session: &Session) -> Result<f64> {
    thread::sleep(SETTLES);
    Ok(usage::memory(session.broker.process.id())?.own as f64 / 1024.0)
}

fn open_files(session: &Session) -> Result<f64> {
    Ok(usage::open_files(session.broker.process.id())? as f64)
}

/// What `load` gives, and the most memory that the broker needed meanwhile, in MiB.
fn with_most_memory(
    session: &Session,
    load: impl FnOnce() -> Result<Value>,
) -> Result<(Value, f64)> {
    let (broker, over) = (session.broker.process.id(), AtomicBool::new(false));
    let watch = || -> Result<u64> {
        let mut most = 0;
        while !over.load(Ordering::Relaxed) {
            most = most.max(usage::memory(broker)?.own);
            thread::sleep(LOOK);
        }
        Ok(most)
    };
    thread::scope(|scope| {
        let watching = scope.spawn(watch);
        let line = load();
        over.store(true, Ordering::Relaxed);
        let most = watching.join().map_err(|_panic| anyhow!("the look at memory failed"))??;
        Ok((line?, most as f64 / 1024.0))
    })
}

/// The section.
#[must_use]
pub fn section(records: &[Record]) -> String {
    let of = |part: &str| -> Vec<&Record> {
        records.iter().filter(|record| record.part == part).collect()
    };
    let mut text = String::from(
        "    cargo xtask bench --compare alone            about 8 minutes; --quick: a tenth of everything\n\n\
         Our broker with its name server and `ledgermq bench` on 127.0.0.1, on an empty store; bodies of 128 bytes. Memory is\n\
         RssAnon + RssShmem of the broker. What pops cost beside Apache's broker stands in the section above.\n",
    );
    for record in of(ABOUT) {
        write_to(&mut text, format_args!("\n{}\n", record.load));
    }
    add_timers(&mut text, &of(TIMERS));
    add_light(&mut text, &of(LIGHT));
    let busy = records.iter().any(|record| record.foreign > FOREIGN_MAX);
    if busy {
        let percent = FOREIGN_MAX * 100.0;
        write_to(
            &mut text,
            format_args!(
                "\n\\* Other programs used more than {percent:.0} % of one processor: not to be relied on.\n"
            ),
        );
    }
    text
}

/// Adds the table of timers.
fn add_timers(text: &mut String, records: &[&Record]) {
    if records.is_empty() {
        return;
    }
    *text += "\n### Timers\n\n\
         So many wait 12 hours ahead; then others come due at a rate. A timer is due at a whole second, so that up to a second of\n\
         the lateness is by design. `sent` counts sends a second with 1,000 in flight.\n\n";
    *text += "| flushDiskType | timers waiting | memory MiB before / waiting / most | sent | due a second | delivered a second | late ms p50 / p99 / max | early | missing | CPU us a timer | start s, MiB | load, others |\n";
    *text += "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
    for record in records {
        let columns = [
            one(record, "waiting"),
            many(record, &["before", "pending", "most"]),
            one(record, "sent"),
            one(record, "due"),
            one(record, "rate"),
            many(record, &["p50", "p99", "max"]),
            one(record, "early"),
            one(record, "missing"),
            one(record, "cpu"),
            many(record, &["start", "restarted"]),
        ];
        row(text, record, &columns);
    }
    for record in records {
        write_to(text, format_args!("\n{}\n", verdict(record)));
    }
}

/// Adds the table of light queues.
fn add_light(text: &mut String, records: &[&Record]) {
    if records.is_empty() {
        return;
    }
    write_to(
        text,
        format_args!(
            "\n### Light queues\n\nEach message goes into {FAN_OUT} of them, {EACH} messages into each; then each is read from its first message on.\n\n"
        ),
    );
    *text += "| flushDiskType | queues | messages sent a second | read a second | queues with missing messages | memory MiB before / after / most | open files before / after | CPU us a place in a queue | start s, MiB | load, others |\n";
    *text += "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
    for record in records {
        let columns = [
            one(record, "queues"),
            one(record, "sent"),
            one(record, "read"),
            one(record, "missing"),
            many(record, &["before", "after", "most"]),
            many(record, &["files", "opened"]),
            one(record, "cpu"),
            many(record, &["start", "restarted"]),
        ];
        row(text, record, &columns);
    }
}

/// Whether the goal of timers was reached, in words.
fn verdict(record: &Record) -> String {
    let figure = |name: &str| record.figure(name).unwrap_or(f64::NAN);
    let waiting = figure("waiting");
    let bound = MEMORY_MAX * (waiting / 1_000_000.0).max(1.0);
    let memory = figure("most") <= bound;
    // A pull that waits, and a second by design.
    let on_time = figure("p99") <= 2_000.0 && figure("early") == 0.0 && figure("missing") == 0.0;
    let word = |reached: bool| if reached { "reached" } else { "not reached" };
    format!(
        "Goals, {}: at most {bound:.0} MiB with {waiting:.0} timers waiting: {}; {:.0} a second on time: {}.",
        record.durability,
        word(memory),
        figure("due"),
        word(on_time)
    )
}

fn row(text: &mut String, record: &Record, columns: &[String]) {
    let star = if record.foreign > FOREIGN_MAX { " \\*" } else { "" };
    write_to(text, format_args!("| {}{star} |", record.durability));
    for column in columns {
        write_to(text, format_args!(" {column} |"));
    }
    let (load, others) = (one(record, "load"), record.foreign * 100.0);
    write_to(text, format_args!(" {load}, {others:.0} % |\n"));
}

fn one(record: &Record, name: &str) -> String {
    number(record.figure(name))
}

fn many(record: &Record, names: &[&str]) -> String {
    names.iter().map(|name| one(record, name)).collect::<Vec<_>>().join(" / ")
}

/// Light queues that one message goes into, and messages of each queue.
const FAN_OUT: u32 = 10;
const EACH: u32 = 10;
/// Time for sending the timers that come due.
const LEAD_SECONDS: u32 = 45;
/// Time in which memory comes to rest.
const SETTLES: Duration = Duration::from_secs(3);
/// Time between two looks at memory.
const LOOK: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    fn record(most: f64, p99: f64) -> Record {
        let figures = [
            ("waiting", 1_000_000.0),
            ("due", 5_000.0),
            ("most", most),
            ("p99", p99),
            ("early", 0.0),
            ("missing", 0.0),
        ];
        Record {
            part: TIMERS.to_owned(),
            load: TIMERS.to_owned(),
            durability: "SYNC_FLUSH".to_owned(),
            product: "ledgermq".to_owned(),
            round: 1,
            foreign: 0.5,
            figures: figures.map(|(name, value)| (name.to_owned(), value)).into(),
        }
    }

    #[test]
    fn goals_are_judged_by_memory_and_lateness() {
        let text = verdict(&record(200.0, 1_100.0));
        assert_eq!(text.matches(": reached").count(), 2, "{text}");
        let text = verdict(&record(300.0, 3_000.0));
        assert_eq!(text.matches("not reached").count(), 2, "{text}");
    }

    #[test]
    fn what_was_measured_while_others_worked_has_a_star() {
        let text = section(&[record(200.0, 1_100.0)]);
        assert!(text.contains("| SYNC_FLUSH \\* | 1000000 |"), "{text}");
        assert!(text.contains("\\* Other programs"), "{text}");
        assert!(!text.contains("Light queues"), "{text}");
    }
}
