//! Goal: a full disk refuses messages and nothing else; with room again the same process goes on.
//!
//! Method: logs and whole brokers on ext4 file systems of a few MiB, which a foreign file fills.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::Path,
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use bytes::BytesMut;
use crash::{
    loop_disk::{self, LoopDisk},
    node::{self, Node},
    plain::{Outcomes, Plain},
    traced::can_trace,
};
use dledger::{AppendFailure, Completed, Dledger, ENTRY_HEADER, Entries, Options};

/// A log on the disk, with what was acknowledged.
struct Log {
    log: Dledger<u32>,
    outcomes: mpsc::Receiver<Completed<u32>>,
}

impl Log {
    fn open(root: &Path) -> Result<Self> {
        let (sender, outcomes) = mpsc::channel();
        let folder = root.join("dledger-n0");
        let options = Options { file_size: 64 * 1024, ..Options::one_node(folder) };
        let log = Dledger::open(&options, Arc::new(Outcomes(sender)))?;
        log.start(Plain)?;
        Ok(Self { log, outcomes })
    }

    /// Waits until it takes appends, or has failed for the reason that is given then.
    fn opened(&self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let status = self.log.status().borrow().clone();
            match status.failure {
                Some(failure) => return Err(failure),
                None if status.opened => return Ok(()),
                None if begun.elapsed() > Duration::from_secs(60) => {
                    return Err(format!("{status:?}"));
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    fn append(&self, token: u32, length: usize) -> Result<Result<(), AppendFailure>> {
        let mut buffer = BytesMut::zeroed(ENTRY_HEADER);
        buffer.resize(ENTRY_HEADER + length, b'x');
        let lengths = vec![u32::try_from(length)?];
        self.log
            .submit(Entries { buffer, lengths, token })
            .map_err(|refused| anyhow::Error::new(refused.cause))?;
        let completed =
            self.outcomes.recv_timeout(Duration::from_secs(60)).context("no outcome")?;
        Ok(completed.result.map(|_| ()))
    }
}

fn entries(root: &Path) -> Result<usize> {
    let log = Log::open(root)?;
    let bounds = log.log.bounds();
    let (mut at, mut count) = (bounds.min, 0);
    while at < bounds.committed {
        let run = log.log.read_forward(at, 1 << 20)?;
        count += run.entries.iter().filter(|(_, body)| body.starts_with(b"x")).count();
        at = run.next;
    }
    Ok(count)
}

#[test]
#[ignore = "needs root and loop devices: cargo xtask ci runs it"]
fn a_log_on_a_full_disk_refuses_what_does_not_fit_and_goes_on_with_room() -> Result<()> {
    if !loop_disk::can_mount()? {
        return Ok(());
    }
    let disk = LoopDisk::new(16)?;
    let log = Log::open(&disk.root())?;
    log.opened().map_err(anyhow::Error::msg)?;
    let mut stored = 0;
    // From all room to none: appends within a file, new files, index and checkpoint beside them.
    for leave in [512 << 10, 128 << 10, 32 << 10, 8 << 10, 0, 0] {
        disk.fill(leave)?;
        let mut refused = 0;
        for token in 0..40 {
            match log.append(token, 20_000)? {
                Ok(()) => stored += 1,
                Err(AppendFailure::DiskFull(reason)) => {
                    ensure!(reason.contains("No space left on device"), "{reason}");
                    refused += 1;
                }
                Err(other) => bail!("{other}"),
            }
        }
        ensure!(leave > 0 || refused > 0, "40 appends of 20 kB fitted on a full disk");
        ensure!(log.log.status().borrow().failure.is_none(), "{:?}", log.log.status().borrow());
        let bounds = log.log.bounds();
        log.log.read_forward(bounds.min, 1 << 20)?;
    }
    // Longer than the time between two checkpoints.
    std::thread::sleep(Duration::from_millis(3500));
    ensure!(log.log.status().borrow().failure.is_none(), "{:?}", log.log.status().borrow());
    disk.empty()?;
    for token in 0..40 {
        log.append(token, 20_000)?.context("with room again")?;
        stored += 1;
    }
    log.log.shutdown().map_err(anyhow::Error::msg)?;
    drop(log);
    let found = entries(&disk.root())?;
    ensure!(found == stored, "{stored} were stored, {found} are there");
    Ok(())
}

#[test]
#[ignore = "needs root and loop devices: cargo xtask ci runs it"]
fn a_vote_that_finds_no_room_is_not_given() -> Result<()> {
    if !loop_disk::can_mount()? {
        return Ok(());
    }
    let disk = LoopDisk::new(16)?;
    let log = Log::open(&disk.root())?;
    log.opened().map_err(anyhow::Error::msg)?;
    log.append(1, 1000)?.context("with room")?;
    log.log.shutdown().map_err(anyhow::Error::msg)?;
    drop(log);
    let before = fs::read_to_string(disk.root().join("dledger-n0/currterm"))?;
    disk.fill(0)?;
    match Log::open(&disk.root()) {
        // It may even find no room for what an opening writes.
        Err(error) => ensure!(format!("{error:#}").contains("No space left"), "{error:#}"),
        Ok(log) => {
            let failure = log.opened().err().context("a term began without room for the vote")?;
            ensure!(failure.contains("term and vote could not be stored"), "{failure}");
            ensure!(failure.contains("No space left on device"), "{failure}");
        }
    }
    ensure!(fs::read_to_string(disk.root().join("dledger-n0/currterm"))? == before);
    disk.empty()?;
    ensure!(entries(&disk.root())? == 1, "the entry is lost");
    Ok(())
}

/// Keys of a broker that fits on a small disk.
const SMALL: [&str; 5] = [
    "mappedFileSizeCommitLog=1048576",
    "mappedFileSizeConsumeQueue=20000",
    "maxHashSlotNum=1000",
    "maxIndexNum=4000",
    "cleanFileForciblyEnable=false",
];

/// Warnings of one cause since `begun`: one at once and one a minute.
fn each_minute(begun: Instant) -> usize {
    1 + usize::try_from(begun.elapsed().as_secs() / 60).unwrap_or(usize::MAX - 1)
}

fn start(disk: &LoopDisk, folder: &Path, more: &[&str]) -> Result<Node> {
    let sets = [&SMALL[..], more].concat();
    Node::start(&disk.root().join("data"), folder, &sets)
}

/// Case 29 of the known faults: what was refused for want of room is taken without a restart.
#[test]
#[ignore = "needs root and loop devices: cargo xtask ci runs it"]
fn a_broker_refuses_sends_before_the_disk_is_full_and_recovers_by_itself() -> Result<()> {
    if !loop_disk::can_mount()? {
        return Ok(());
    }
    let disk = LoopDisk::new(48)?;
    let folder = tempfile::tempdir()?;
    let mut node = start(&disk, folder.path(), &[])?;
    let (mut acknowledged, errors) = node.send("T", "before", 200)?;
    ensure!(acknowledged.len() == 200, "{errors}");
    let filled = Instant::now();
    disk.fill(2 << 20)?;
    node.await_figure("store_writable", 0.0)?;
    let (refused, errors) = node.send("T", "meanwhile", 2)?;
    ensure!(refused.is_empty(), "{refused:?}");
    let parts =
        ["service not available now", "% full, the limit is 90% (diskSpaceWarningLevelRatio)"];
    ensure!(parts.iter().all(|part| errors.contains(part)), "{errors}");
    node.must_read("T", &acknowledged)?;
    let warned = node.log().matches("sends are refused").count();
    ensure!((1..=each_minute(filled)).contains(&warned), "{warned} warnings of one cause");
    disk.empty()?;
    node.await_figure("store_writable", 1.0)?;
    let (after, errors) = node.send("T", "after", 200)?;
    ensure!(after.len() == 200, "{errors}");
    acknowledged.extend(after);
    node.must_read("T", &acknowledged)?;
    ensure!(node.lives()?);
    ensure!(node.stop()?);
    Ok(())
}

/// Case 88 of the known faults: `storePathCommitLog` names a folder on another disk. It has no effect,
/// which is told once; what counts is the disk that holds the data, whichever of the two is full, and
/// no line is logged again and again.
#[test]
#[ignore = "needs root and loop devices: cargo xtask ci runs it"]
fn of_two_disks_the_one_that_holds_the_data_counts() -> Result<()> {
    if !loop_disk::can_mount()? {
        return Ok(());
    }
    for data_is_full in [false, true] {
        let (data, other) = (LoopDisk::new(48)?, LoopDisk::new(48)?);
        let folder = tempfile::tempdir()?;
        let elsewhere = other.root().join("commitlog");
        other.fill(if data_is_full { 40 << 20 } else { 2 << 20 })?;
        let set = format!("storePathCommitLog={}", elsewhere.display());
        let node = start(&data, folder.path(), &[&set])?;
        let (acknowledged, errors) = node.send("T", "before", 100)?;
        ensure!(acknowledged.len() == 100, "{errors}");
        let filled = Instant::now();
        if data_is_full {
            data.fill(2 << 20)?;
            node.await_figure("store_writable", 0.0)?;
            node.await_above("storage_disk_used_ratio", 0.9)?;
        }
        // Longer than the ten seconds after which Java's broker looks for the folder again.
        std::thread::sleep(Duration::from_secs(12));
        if !data_is_full {
            node.await_below("storage_disk_used_ratio", 0.5)?;
            node.await_figure("store_writable", 1.0)?;
            let (after, errors) = node.send("T", "after", 10)?;
            ensure!(after.len() == 10, "{errors}");
        }
        node.must_read("T", &acknowledged)?;
        let log = node.log();
        let lines = |part: &str| log.lines().filter(|line| line.contains(part)).count();
        ensure!(lines("storePathCommitLog") == 1 && lines("ERROR") == 0, "{log}");
        let warned = lines("sends are refused");
        ensure!(warned <= usize::from(data_is_full) * each_minute(filled), "{log}");
        ensure!(!elsewhere.exists(), "{} was made", elsewhere.display());
        ensure!(node.stop()?);
    }
    Ok(())
}

#[test]
#[ignore = "needs root and loop devices: cargo xtask ci runs it"]
fn a_broker_without_a_byte_left_lives_and_loses_nothing() -> Result<()> {
    if !loop_disk::can_mount()? {
        return Ok(());
    }
    let disk = LoopDisk::new(48)?;
    let folder = tempfile::tempdir()?;
    let mut node = start(&disk, folder.path(), &["diskSpaceWarningLevelRatio=99"])?;
    let (mut acknowledged, errors) = node.send("T", "before", 100)?;
    ensure!(acknowledged.len() == 100, "{errors}");
    // Sends are under way while the last byte goes; tables, queues, index and marks find no room.
    let told = folder.path().join("told");
    let mut sender = node
        .command(&["send", "T", "under load", "--count", "1000", "--json", "--timeout", "1s"])?
        .stdout(File::create(&told)?)
        .stderr(std::process::Stdio::null())
        .spawn()?;
    let filled = Instant::now();
    disk.fill(0)?;
    node.run(&["admin", "topic", "create", "New"])?;
    node.run(&["consume", "T", "--group", "g", "--count", "10"])?;
    std::thread::sleep(Duration::from_secs(8));
    ensure!(node.lives()?, "{}", node.log());
    node.must_read("T", &acknowledged)?;
    sender.wait()?;
    acknowledged.extend(node::places(&fs::read_to_string(&told)?));
    let repeated = node.log().lines().filter(|line| line.contains("No space left")).count();
    // A handful of tables, queues and marks, each told once a minute.
    let most = 40 * each_minute(filled);
    ensure!(repeated < most, "{repeated} lines, at most {most} were expected\n{}", node.log());
    disk.empty()?;
    node.await_figure("store_writable", 1.0)?;
    let (after, errors) = node.send("T", "after", 100)?;
    ensure!(after.len() == 100, "{errors}");
    acknowledged.extend(after);
    node.must_read("T", &acknowledged)?;
    ensure!(node.stop()?);
    let node = start(&disk, folder.path(), &[])?;
    node.must_read("T", &acknowledged)
}

/// New data files find no place for their names though there is room for bytes.
#[test]
#[ignore = "needs root and loop devices: cargo xtask ci runs it"]
fn a_broker_that_cannot_make_files_refuses_sends_until_it_can() -> Result<()> {
    if !loop_disk::can_mount()? {
        return Ok(());
    }
    let disk = LoopDisk::new(48)?;
    let folder = tempfile::tempdir()?;
    let mut node = start(&disk, folder.path(), &[])?;
    let (mut acknowledged, errors) = node.send("T", "before", 10)?;
    ensure!(acknowledged.len() == 10, "{errors}");
    let strays = disk.root().join("strays");
    fs::create_dir(&strays)?;
    let mut count = 0;
    while File::create(strays.join(count.to_string())).is_ok() {
        count += 1;
    }
    let body = "x".repeat(100_000);
    let (stored, errors) = node.send("T", &body, 40)?;
    acknowledged.extend(stored);
    ensure!(errors.contains("No space left on device"), "{errors}");
    ensure!(node.lives()?, "{}", node.log());
    node.must_read("T", &acknowledged)?;
    fs::remove_dir_all(&strays)?;
    node.await_figure("store_writable", 1.0)?;
    let (after, errors) = node.send("T", &body, 40)?;
    ensure!(after.len() == 40, "{errors}");
    acknowledged.extend(after);
    node.must_read("T", &acknowledged)?;
    ensure!(node.stop()?);
    Ok(())
}

/// The oldest files go before their time, so that the newest messages find room.
#[test]
#[ignore = "needs root and loop devices: cargo xtask ci runs it"]
fn a_nearly_full_disk_lets_the_oldest_files_go() -> Result<()> {
    if !loop_disk::can_mount()? {
        return Ok(());
    }
    let disk = LoopDisk::new(24)?;
    let folder = tempfile::tempdir()?;
    let mut node = start(&disk, folder.path(), &["cleanFileForciblyEnable=true"])?;
    let body = "x".repeat(100_000);
    // More than the disk holds. A send that finds no room ends its command; the oldest files go
    // meanwhile.
    let mut acknowledged = BTreeSet::new();
    let begun = Instant::now();
    while acknowledged.len() < 300 {
        let (stored, refused) = node.send("T", &body, 20)?;
        if stored.is_empty() {
            std::thread::sleep(Duration::from_millis(200));
        }
        acknowledged.extend(stored);
        let count = acknowledged.len();
        ensure!(begun.elapsed() < node::LONG, "only {count} messages were stored; {refused}");
    }
    let min = node.figure("storage_min_position_bytes")?;
    ensure!(min > 0.0, "nothing was deleted");
    node.await_below("storage_disk_used_ratio", 0.95)?;
    // The last of them may have filled the disk: there is room once the next files have gone.
    let mut newest = BTreeSet::new();
    let mut refused = String::new();
    for _ in 0..60 {
        (newest, refused) = node.send("T", "newest", 1)?;
        if !newest.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    ensure!(newest.len() == 1, "{refused}");
    node.must_read("T", &newest)?;
    ensure!(node.lives()?);
    ensure!(node.stop()?);
    Ok(())
}

/// Case 28 of the known faults: the disk is looked at also while files are deleted.
#[test]
#[ignore = "needs root and loop devices: cargo xtask ci runs it"]
fn where_files_go_slowly_writers_are_refused_and_taken_again() -> Result<()> {
    if !loop_disk::can_mount()? || !can_trace()? {
        return Ok(());
    }
    let disk = LoopDisk::new(40)?;
    let folder = tempfile::tempdir()?;
    let sets = [&SMALL[..], &["cleanFileForciblyEnable=true"]].concat();
    let slowly = "unlink,unlinkat:delay_enter=500000";
    let mut node = Node::start_traced(slowly, &disk.root().join("data"), folder.path(), &sets)?;
    let body = "x".repeat(100_000);
    let (mut stored, mut refused) = (0, 0);
    let begun = Instant::now();
    // Half as much again as the disk holds.
    while stored < 550 {
        let (acknowledged, errors) = node.send("T", &body, 50)?;
        if acknowledged.len() < 50 {
            ensure!(errors.contains("service not available now"), "{errors}");
            refused += 1;
            std::thread::sleep(Duration::from_millis(200));
        }
        stored += acknowledged.len();
        ensure!(begun.elapsed() < 2 * node::LONG, "{stored} were stored, {refused} refusals");
    }
    let log = node.log();
    ensure!(node.lives()? && !log.contains("panicked"), "{log}");
    ensure!(refused == 0 || log.contains("sends are refused"), "{log}");
    ensure!(node.stop()?);
    Ok(())
}

/// Nothing could be deleted if the broker could not start.
#[test]
#[ignore = "needs root and loop devices: cargo xtask ci runs it"]
fn a_start_on_a_full_disk_deletes_the_oldest_files_and_goes_on() -> Result<()> {
    if !loop_disk::can_mount()? {
        return Ok(());
    }
    let disk = LoopDisk::new(48)?;
    let folder = tempfile::tempdir()?;
    let node = start(&disk, folder.path(), &[])?;
    let (acknowledged, errors) = node.send("T", &"x".repeat(100_000), 150)?;
    ensure!(acknowledged.len() == 150, "{errors}");
    ensure!(node.stop()?);
    disk.fill(0)?;
    ensure!(disk.free()? == 0, "{} bytes are free", disk.free()?);
    let mut node = start(&disk, folder.path(), &["cleanFileForciblyEnable=true"])?;
    node.await_figure("store_writable", 1.0)?;
    // The room that was given up for the start may let it write before the first file goes.
    node.await_above("storage_min_position_bytes", 0.0)?;
    let (after, errors) = node.send("T", "after", 10)?;
    ensure!(after.len() == 10, "{errors}");
    node.must_read("T", &after)?;
    ensure!(node.lives()?);
    ensure!(node.stop()?);
    Ok(())
}

/// What ext4 does with `errors=remount-ro` after a fault of the device.
#[test]
#[ignore = "needs root and loop devices: cargo xtask ci runs it"]
fn a_disk_that_turns_read_only_ends_the_broker_with_the_reason() -> Result<()> {
    if !loop_disk::can_mount()? {
        return Ok(());
    }
    let disk = LoopDisk::new(48)?;
    let folder = tempfile::tempdir()?;
    let mut node = start(&disk, folder.path(), &[])?;
    let (acknowledged, errors) = node.send("T", "before", 100)?;
    ensure!(acknowledged.len() == 100, "{errors}");
    disk.fault()?;
    let (refused, _) = node.send("T", "after", 1)?;
    ensure!(refused.is_empty(), "{refused:?}");
    ensure!(!node.ended()?, "it ended as if all were well");
    let log = node.log();
    ensure!(log.contains("the log failed") && tells_of_fault(&log), "{log}");
    drop(node);
    let error = start(&disk, folder.path(), &[]).err().context("it started on a read-only disk")?;
    ensure!(tells_of_fault(&format!("{error:#}")), "{error:#}");
    disk.unmount()?;
    disk.mount()?;
    let node = start(&disk, folder.path(), &[])?;
    node.must_read("T", &acknowledged)
}

/// Which of the two comes depends on the kernel and on the call.
fn tells_of_fault(text: &str) -> bool {
    ["Read-only file system", "Input/output error"].iter().any(|error| text.contains(error))
}
