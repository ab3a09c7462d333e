//! Goal: a power cut on a real file system loses nothing that was acknowledged.
//!
//! Method: a process appends to a log on a loop-mounted ext4; at a random time the file system is shut
//! down without flushing its journal, before the process is killed or after; it is mounted again, the
//! log is opened and compared with what the process was told. The planted fault at the end
//! acknowledges what is only in the page cache, and must be found out.
#![allow(clippy::disallowed_methods, reason = "this is no server: it starts processes")]

use std::{
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use crash::{
    acknowledged::{self, Acknowledged, Appender},
    loop_disk::{self, LoopDisk},
    node::{self, Node},
};

/// Cycles in CI; more by the variable of this name.
const CYCLES: &str = "LEDGERMQ_POWER_CUTS";

fn cycles() -> Result<u64> {
    std::env::var(CYCLES).map_or(Ok(40), |text| text.parse().context(CYCLES))
}

/// Numbers that look random and are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// One cut, `millis` after the first acknowledgement could have come.
fn cut(
    disk: &LoopDisk,
    folder: &Path,
    (first, millis): (u64, u64),
    flags: &[&str],
    power_first: bool,
) -> Result<Acknowledged> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_appender"));
    command.arg(folder).args(["--first", &first.to_string()]).args(flags);
    let mut appender = Appender::start(command, Stdio::null())?;
    thread::sleep(Duration::from_millis(millis));
    if power_first {
        disk.cut_power()?;
        appender.child.kill().context("killing the appender")?;
    } else {
        appender.child.kill().context("killing the appender")?;
        disk.cut_power()?;
    }
    let told = appender.acknowledged()?;
    disk.unmount()?;
    disk.mount()?;
    Ok(told)
}

#[test]
#[ignore = "needs root and loop devices: cargo xtask ci runs it"]
fn power_cuts_lose_nothing_that_was_acknowledged() -> Result<()> {
    if !loop_disk::can_mount()? {
        return Ok(());
    }
    let begun = Instant::now();
    let (cycles, mut random) = (cycles()?, Random(20_261_129));
    let disk = LoopDisk::new(64)?;
    let (mut all, mut told, mut looked) = (Acknowledged::new(), 0, 0);
    for cycle in 0..cycles {
        let folder = disk.root().join(format!("log-{}", cycle / 20));
        if cycle % 20 == 0 {
            all.clear();
            if cycle > 0 {
                std::fs::remove_dir_all(disk.root().join(format!("log-{}", cycle / 20 - 1)))?;
            }
        }
        let first = cycle * 1_000_000;
        let millis = random.below(300);
        let now = cut(&disk, &folder, (first, millis), &[], cycle % 2 == 0)?;
        told += now.len();
        all.extend(now);
        let found = acknowledged::check(&folder, &all)
            .with_context(|| format!("cycle {cycle}, cut after {millis} ms"))?;
        looked += found.acknowledged;
    }
    println!(
        "{cycles} power cuts, {told} acknowledged entries, {looked} looked up, {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    ensure!(told > 100, "only {told} entries were acknowledged: the cuts came too early");
    Ok(())
}

#[test]
#[ignore = "needs root and loop devices: cargo xtask ci runs it"]
fn a_log_that_acknowledges_too_early_is_found_out() -> Result<()> {
    if !loop_disk::can_mount()? {
        return Ok(());
    }
    let disk = LoopDisk::new(64)?;
    for cycle in 0..10 {
        let folder = disk.root().join(format!("log-{cycle}"));
        let told = cut(&disk, &folder, (0, 250), &["--async"], true)?;
        // A log that ends before its durable mark is refused as well: either finds it out.
        if !told.is_empty() && acknowledged::check(&folder, &told).is_err() {
            return Ok(());
        }
    }
    anyhow::bail!("ten power cuts took nothing of what was in the page cache only")
}

/// Keys of a broker that fits on a small disk and rolls its files.
const SMALL: [&str; 4] = [
    "mappedFileSizeCommitLog=1048576",
    "mappedFileSizeConsumeQueue=20000",
    "maxHashSlotNum=1000",
    "maxIndexNum=4000",
];

#[test]
#[ignore = "needs root and loop devices: cargo xtask ci runs it"]
fn power_cuts_of_a_whole_broker_lose_no_acknowledged_message() -> Result<()> {
    if !loop_disk::can_mount()? {
        return Ok(());
    }
    let rounds = if std::env::var_os(CYCLES).is_some() { cycles()? / 10 } else { 4 };
    let mut random = Random(7);
    let disk = LoopDisk::new(256)?;
    let folder = tempfile::tempdir()?;
    let told = folder.path().join("told");
    let mut acknowledged = std::collections::BTreeSet::new();
    for round in 0..rounds {
        let mut node = Node::start(&disk.root().join("data"), folder.path(), &SMALL)?;
        node.must_read("T", &acknowledged).with_context(|| format!("round {round}"))?;
        let mut sender = node
            .command(&["send", "T", "under load", "--key", "k", "--count", "100000000", "--json"])?
            .stdout(std::fs::File::create(&told)?)
            .stderr(Stdio::null())
            .spawn()?;
        thread::sleep(Duration::from_millis(300 + random.below(700)));
        disk.cut_power()?;
        node.kill()?;
        sender.kill()?;
        sender.wait()?;
        let new = node::places(&std::fs::read_to_string(&told)?);
        println!("round {round}: {} messages acknowledged", new.len());
        acknowledged.extend(new);
        disk.unmount()?;
        disk.mount()?;
    }
    ensure!(acknowledged.len() > 100, "only {} messages", acknowledged.len());
    let node = Node::start(&disk.root().join("data"), folder.path(), &SMALL)?;
    node.must_read("T", &acknowledged)
}
