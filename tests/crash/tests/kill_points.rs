//! Goal: a process that is killed before any of its system calls leaves a log that the next start
//! takes up with all that was acknowledged; a system call that fails ends the process with a reason.
//!
//! Method: `strace` kills the appending process at its N-th call of each kind, for each N until it
//! comes through: from the start over appends that begin new files to the orderly stop, on a new
//! log and on one that was left behind.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use crash::{
    acknowledged::{self, Acknowledged, Appender},
    node::{Node, places},
    traced::{can_trace, traced},
};

const APPENDER: &str = env!("CARGO_BIN_EXE_appender");
/// Entries of one run: they fill more than one data file.
const COUNT: &str = "60";
/// Calls by which a process changes the disk.
const CALLS: [&str; 6] = ["pwritev", "fdatasync", "fsync", "ftruncate", "rename", "unlink"];
/// No run makes more calls of one kind.
const MOST: u64 = 400;

/// Runs the appender with an injection; what it was told, whether it ended well, what it complained.
fn run(folder: &Path, injection: &str, first: u64) -> Result<(Acknowledged, bool, String)> {
    let errors = folder.join("err");
    fs::create_dir_all(folder)?;
    let mut command = traced(injection, APPENDER);
    command.arg(folder).args(["--count", COUNT, "--first", &first.to_string()]);
    let mut appender = Appender::start(command, File::create(&errors)?.into())?;
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = appender.child.try_wait()? {
            break status;
        }
        if begun.elapsed() > Duration::from_secs(120) {
            appender.child.kill()?;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let told = appender.acknowledged()?;
    Ok((told, status.success(), fs::read_to_string(errors)?))
}

/// Kills at each call of a kind; the number of kills.
fn sweep(call: &str) -> Result<u64> {
    for nth in 1..MOST {
        let folder = tempfile::tempdir()?;
        let about = || format!("killed at {call} number {nth}");
        let injection = format!("{call}:signal=KILL:when={nth}");
        let (mut told, fine, _) = run(folder.path(), &injection, 0)?;
        acknowledged::check(folder.path(), &told).with_context(about)?;
        // Once more on what the first kill left, then in peace.
        let (again, fine_again, _) = run(folder.path(), &injection, 1000)?;
        told.extend(again);
        acknowledged::check(folder.path(), &told).with_context(about)?;
        let (last, completed, errors) = run(folder.path(), "", 2000)?;
        ensure!(completed, "{}, the start after it: {errors}", about());
        told.extend(last);
        acknowledged::check(folder.path(), &told).with_context(about)?;
        if fine && fine_again {
            return Ok(nth - 1);
        }
    }
    anyhow::bail!("{MOST} calls of {call} are not enough")
}

#[test]
#[ignore = "needs strace: cargo xtask ci runs it"]
fn a_process_that_is_killed_at_any_call_loses_nothing() -> Result<()> {
    if !can_trace()? {
        return Ok(());
    }
    let mut all = 0;
    for call in CALLS {
        let kills = sweep(call)?;
        println!("{call}: {kills} kill points");
        all += kills;
    }
    ensure!(all >= 40, "only {all} kill points");
    Ok(())
}

/// Runs with a failing call; it must end with `reason`, and the next start in order.
fn must_end(injection: &str, reason: &str) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (told, fine, errors) = run(folder.path(), injection, 0)?;
    ensure!(!fine, "{injection}: the process went on");
    ensure!(errors.contains(reason), "{injection}: it said {errors:?}, not {reason:?}");
    acknowledged::check(folder.path(), &told).with_context(|| injection.to_owned())?;
    let (_, completed, errors) = run(folder.path(), "", 1000)?;
    ensure!(completed, "{injection}, the start after it: {errors}");
    Ok(())
}

#[test]
#[ignore = "needs strace: cargo xtask ci runs it"]
fn a_call_that_fails_ends_the_process_with_the_reason() -> Result<()> {
    if !can_trace()? {
        return Ok(());
    }
    // The counts are of one thread: the flusher syncs the log, the driver writes it.
    must_end("fdatasync:error=EIO:when=10+", "Input/output error")?;
    must_end("pwritev:error=EIO:when=12+", "Input/output error")?;
    must_end("fsync:error=EIO:when=6+", "Input/output error")?;
    must_end("rename:error=EROFS:when=1+", "Read-only file system")?;
    must_end("pwritev:error=ENOSPC:when=12+", "No space left on device")?;
    Ok(())
}

#[test]
#[ignore = "needs strace: cargo xtask ci runs it"]
fn a_slow_sync_delays_acknowledgements_and_loses_none() -> Result<()> {
    if !can_trace()? {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let (told, fine, errors) = run(folder.path(), "fdatasync:delay_enter=50000:when=1+", 0)?;
    ensure!(fine, "{errors}");
    let found = acknowledged::check(folder.path(), &told)?;
    ensure!(found.acknowledged.to_string() == COUNT, "{found:?}");
    Ok(())
}

/// A sync that lies is what a bad disk does: the check must be able to see it. After a kill alone
/// the page cache still has all, so nothing may be missing either.
#[test]
#[ignore = "needs strace: cargo xtask ci runs it"]
fn the_tracer_reaches_the_flusher() -> Result<()> {
    if !can_trace()? {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let (told, fine, _) = run(folder.path(), "fdatasync:signal=KILL:when=1", 0)?;
    ensure!(!fine && told.is_empty(), "the first sync was not the last call: {told:?}");
    Ok(())
}

/// Keys of small files, so that they roll.
const SMALL: [&str; 5] = [
    // The disk that the tests run on may be nearly full.
    "cleanFileForciblyEnable=false",
    "mappedFileSizeCommitLog=65536",
    "mappedFileSizeConsumeQueue=2000",
    "maxHashSlotNum=64",
    "maxIndexNum=200",
];

/// Starts a broker with an injection, sends, and gives what was acknowledged. The broker may end at
/// any time.
fn send_under(injection: &str, data: &Path, folder: &Path) -> Result<BTreeSet<String>> {
    match Node::start_traced(injection, data, folder, &SMALL) {
        Ok(node) => {
            let count = "120";
            let arguments =
                ["send", "T", "x", "--key", "k", "--count", count, "--json", "--timeout", "1s"];
            let (_, out, _) = node.run(&arguments)?;
            // An orderly stop, whose calls may be hit, too.
            drop(node.stop());
            Ok(places(&out))
        }
        // Killed on its way up.
        Err(_) => Ok(BTreeSet::new()),
    }
}

#[test]
#[ignore = "needs strace: cargo xtask ci runs it"]
fn a_broker_that_is_killed_at_some_calls_loses_no_message() -> Result<()> {
    if !can_trace()? {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    let mut acknowledged = BTreeSet::new();
    // On one folder, so that each start finds what the last kill left.
    for (call, points) in [
        ("rename", &[1, 2, 5][..]),
        ("ftruncate", &[3, 9]),
        ("fdatasync", &[2, 11]),
        ("pwritev", &[7, 40]),
    ] {
        for nth in points {
            let injection = format!("{call}:signal=KILL:when={nth}");
            acknowledged.extend(send_under(&injection, &data, folder.path())?);
        }
    }
    let node = Node::start(&data, folder.path(), &SMALL)?;
    let (last, errors) = node.send("T", "last", 10)?;
    ensure!(last.len() == 10, "{errors}");
    acknowledged.extend(last);
    println!("{} messages acknowledged", acknowledged.len());
    node.must_read("T", &acknowledged)
}

#[test]
#[ignore = "needs strace: cargo xtask ci runs it"]
fn a_broker_whose_disk_fails_a_sync_ends_with_the_reason_and_acknowledges_nothing_of_it()
-> Result<()> {
    if !can_trace()? {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    let mut node =
        Node::start_traced("fdatasync:error=EIO:when=20+", &data, folder.path(), &SMALL)?;
    let mut acknowledged = BTreeSet::new();
    for _ in 0..200 {
        let (_, out, _) = node.run(&["send", "T", "x", "--json", "--timeout", "1s"])?;
        let told = places(&out);
        if told.is_empty() {
            break;
        }
        acknowledged.extend(told);
    }
    ensure!(!node.ended()?, "it ended as if all were well");
    let log = node.log();
    ensure!(log.contains("the log failed: log could not be synced"), "{log}");
    ensure!(log.contains("Input/output error"), "{log}");
    drop(node);
    let node = Node::start(&data, folder.path(), &SMALL)?;
    node.must_read("T", &acknowledged)
}
