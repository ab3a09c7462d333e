//! A group of three of ours and one of Java's DLedger library under the same appends, each in turn:
//! what is measured, and the section of the page that is made of it.

use std::{
    collections::BTreeMap,
    fs,
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{
    figure,
    loads::DURABILITIES,
    page, ratios,
    record::{Record, Records},
    rows,
    session::Settings,
    tables, write_to,
};
use crate::{
    APACHE,
    group::{Group, Runs},
    libraries, usage,
};

/// Part of the records that are made here.
pub const PART: &str = "dledger";
/// Heading of the section of docs/performance.md.
pub const HEADING: &str = "## Beside Java's DLedger 0.3.2";

/// Bytes of a data file of both.
const FILE_SIZE: u32 = 1 << 28;
/// Figures that are shown with the ratio that they should reach, by durability and load.
const GOALS: [(&str, &str, f64); 2] =
    [("ASYNC_FLUSH", WINDOW_1000, 5.0), ("SYNC_FLUSH", SENDERS_64, 1.0)];

/// The load that the goal of throughput is about.
const WINDOW_1000: &str = "append 1 KiB, window 1,000";
/// The load that the goal of SYNC_FLUSH is about.
const SENDERS_64: &str = "append 1 KiB, 64 senders";

/// A load: its name for people, senders, window of each, connections.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// For people.
    pub name: &'static str,
    words: &'static str,
}

/// All loads. They run on one group one after the other.
pub const LOADS: [Load; 3] = [
    Load {
        name: "append 1 KiB, 1 sender",
        words: "--senders 1 --connections 1 --window 1 --body 1024",
    },
    Load { name: SENDERS_64, words: "--senders 64 --connections 8 --window 1 --body 1024" },
    Load { name: WINDOW_1000, words: "--senders 1 --connections 1 --window 1000 --body 1024" },
];

/// A group that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Member {
    /// Three of ours with this `--flush`.
    Ours(Flush),
    /// Three of Java's library.
    Java,
}

/// When an append of ours is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// Fsynced on a majority.
    Sync,
    /// In the page cache of a majority.
    Async,
}

impl Member {
    /// Product and durability in records. Java's library knows one durability, the page cache.
    #[must_use]
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Ours(Flush::Sync) => ("ledgermq", "SYNC_FLUSH"),
            Self::Ours(Flush::Async) => ("ledgermq", "ASYNC_FLUSH"),
            Self::Java => ("apache", "page cache"),
        }
    }

    fn runs(self) -> Runs {
        match self {
            Self::Ours(Flush::Sync) => Runs::Server,
            Self::Ours(Flush::Async) => Runs::AsyncServer,
            Self::Java => Runs::JavaServer,
        }
    }
}

/// The groups of a round; who is first takes turns.
#[must_use]
pub fn turn(round: u32) -> [Member; 3] {
    let mut all = [Member::Java, Member::Ours(Flush::Async), Member::Ours(Flush::Sync)];
    let by = round.saturating_sub(1) as usize % all.len();
    all.rotate_left(by);
    all
}

/// Fetches Java's library and compiles its server, so that no measurement waits for it.
///
/// # Errors
/// Where Maven or the compiler fails.
pub fn prepare() -> Result<()> {
    libraries::dledger_server(APACHE).map(drop)
}

/// All loads on a new group.
///
/// # Errors
/// Where a member does not start or a load fails.
pub fn measure(settings: &Settings, member: Member, round: u32) -> Result<Vec<Record>> {
    if settings.work.exists() {
        fs::remove_dir_all(&settings.work).context("removing the last run's files")?;
    }
    let mut group = Group::new(&settings.work, &[member.runs(); 3], FILE_SIZE, None)?;
    group.start_all()?;
    group.leader()?;
    if member != Member::Java {
        group.wait_whole()?;
    }
    let mut records = Vec::new();
    for load in LOADS {
        let mut record = one(settings, &mut group, load)?;
        let (product, durability) = member.names();
        (record.product, record.durability) = (product.to_owned(), durability.to_owned());
        record.round = round;
        records.push(record);
    }
    group.kill_all()?;
    fs::remove_dir_all(&settings.work).context("removing this run's files")?;
    Ok(records)
}

/// One load, with the time of all three servers for each append.
fn one(settings: &Settings, group: &mut Group, load: Load) -> Result<Record> {
    let mut servers = Vec::new();
    for id in group.ids() {
        servers.push(group.process(&id)?.id());
    }
    let used = || -> Result<f64> { servers.iter().map(|server| usage::cpu_seconds(*server)).sum() };
    let (begun, machine) = (Instant::now(), usage::machine_cpu_seconds()?);
    let (before, children) = (used()?, usage::children_cpu_seconds()?);
    let line = generate(settings, group, load)?;
    let spent = used()? - before;
    let known = spent + usage::children_cpu_seconds()? - children;
    let foreign = (usage::machine_cpu_seconds()? - machine - known).max(0.0);
    let memory: Result<Vec<_>> = servers.iter().map(|server| usage::memory(*server)).collect();
    let memory = memory?;
    let mib = |kib: u64| kib as f64 / 1024.0;
    let number = |value: &Value, name: &str| {
        value.as_f64().with_context(|| format!("{name} is missing in {line}"))
    };
    let appends = number(&line["messagesInAll"], "messagesInAll")?;
    let figures = BTreeMap::from([
        ("rate".to_owned(), number(&line["messagesPerSecond"], "messagesPerSecond")?),
        ("p50".to_owned(), number(&line["latencyMs"]["p50"], "latencyMs.p50")?),
        ("p99".to_owned(), number(&line["latencyMs"]["p99"], "latencyMs.p99")?),
        ("failed".to_owned(), number(&line["failed"], "failed")?),
        ("cpu".to_owned(), spent * 1e6 / appends.max(1.0)),
        ("memory".to_owned(), mib(memory.iter().map(|one| one.own).sum())),
        ("resident".to_owned(), mib(memory.iter().map(|one| one.resident).sum())),
    ]);
    Ok(Record {
        part: PART.to_owned(),
        load: load.name.to_owned(),
        durability: String::new(),
        product: String::new(),
        round: 0,
        foreign: foreign / begun.elapsed().as_secs_f64(),
        figures,
    })
}

/// Runs `ledgermq dledger bench` and gives what it measured.
fn generate(settings: &Settings, group: &Group, load: Load) -> Result<Value> {
    let mut command = Command::new(&settings.binary);
    command.args(["dledger", "bench", "--json", "--group", &group.members.group]);
    command.args(["--peers", &group.members.text()]).args(load.words.split_whitespace());
    command.args(["--warmup", &format!("{}s", settings.warmup)]);
    command.args(["--duration", &format!("{}s", settings.seconds)]);
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("starting {command:?}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {complaint}", output.status);
    serde_json::from_slice(&output.stdout).with_context(|| format!("output of {command:?}"))
}

/// The text of the section.
#[must_use]
pub fn section(records: &Records) -> String {
    // Java's library has one durability: it stands beside both of ours.
    let mut all: Vec<Record> = Vec::new();
    for record in records.of(PART) {
        if record.product == "apache" {
            for durability in DURABILITIES {
                all.push(Record { durability: durability.to_owned(), ..record.clone() });
            }
        } else {
            all.push(record.clone());
        }
    }
    let rows = rows(all.iter());
    let mut text = String::from(HEAD);
    for about in records.of(page::ABOUT) {
        write_to(&mut text, format_args!("\n{}\n", about.load));
    }
    text += "\n| goal | reached | |\n|---|---:|---|\n";
    for (durability, load, goal) in GOALS {
        let row = rows.iter().find(|row| row.durability == durability && row.load == load);
        let reached = row.and_then(|row| super::median(&ratios(row, "rate")));
        let verdict = match reached {
            Some(reached) if reached >= goal => "yes",
            Some(_) => "no",
            None => "not measured",
        };
        let star = if row.is_some_and(|row| row.busy) { " \\*" } else { "" };
        let reached =
            reached.map_or_else(|| "-".to_owned(), |reached| format!("{reached:.2}{star}"));
        write_to(
            &mut text,
            format_args!(
                "| {load}, {durability}: {goal} times Java's appends a second | {reached} | {verdict} |\n"
            ),
        );
    }
    text.push('\n');
    text += &tables(&rows);
    let failed: f64 = rows.iter().filter_map(|row| figure(row, true, "failed")).sum();
    if failed > 0.0 {
        write_to(&mut text, format_args!("\nOf ours {failed:.0} appends failed in all.\n"));
    }
    if text.contains("\\*") {
        text += "\n\\* In every round other programs used more than 5 % of one processor: not to be relied on.\n";
    }
    text
}

const HEAD: &str = "    cargo xtask bench --compare dledger            about 8 minutes; --quick: about 2
    cargo xtask bench --compare dledger --page     only this section anew, from docs/dledger-performance.jsonl

Three servers of a group, each in its own process, and `ledgermq dledger bench`, which speaks the original's APPEND to
both, share the processors and 127.0.0.1. In each round three groups take turns, each with an empty log: Java's library
(`DLedgerServer` 0.3.2 with its defaults and `-Xms1g -Xmx1g`), ours with ASYNC_FLUSH, ours with SYNC_FLUSH. Java's
library acknowledges what is in the page cache of a majority and knows nothing else, so the same figures of it stand
beside both of ours. CPU time and memory are those of the three servers together. 'Apache' is Java's library here.
";

#[cfg(test)]
mod tests {
    use super::*;

    fn record(product: &str, durability: &str, load: &str, rate: f64) -> Record {
        Record {
            part: PART.to_owned(),
            load: load.to_owned(),
            durability: durability.to_owned(),
            product: product.to_owned(),
            round: 1,
            foreign: 0.0,
            figures: [("rate", rate), ("failed", 0.0)].map(|(n, v)| (n.to_owned(), v)).into(),
        }
    }

    #[test]
    fn javas_figures_stand_beside_both_of_ours_and_goals_are_judged() {
        let folder = crate::folder::target().unwrap().join("tmp-dledger-section");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("records.jsonl");
        drop(fs::remove_file(&path));
        let mut records = Records::open(&path).unwrap();
        records
            .add(vec![
                record("apache", "page cache", WINDOW_1000, 100.0),
                record("apache", "page cache", SENDERS_64, 100.0),
                record("ledgermq", "ASYNC_FLUSH", WINDOW_1000, 600.0),
                record("ledgermq", "SYNC_FLUSH", SENDERS_64, 90.0),
            ])
            .unwrap();
        let text = section(&records);
        assert!(text.contains("5 times Java's appends a second | 6.00 | yes |"), "{text}");
        assert!(text.contains("1 times Java's appends a second | 0.90 | no |"), "{text}");
        assert!(
            text.contains("| ASYNC_FLUSH | append 1 KiB, window 1,000 | 100 / 600 |"),
            "{text}"
        );
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn each_group_is_first_in_turn() {
        let first: Vec<Member> = (1..=4).map(|round| turn(round)[0]).collect();
        assert_eq!(first[0], first[3]);
        assert!(first[0] != first[1] && first[1] != first[2] && first[0] != first[2]);
    }
}
