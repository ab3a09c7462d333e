//! Goal: a power cut of all three members of a group at once loses nothing that was acknowledged.
//!
//! Method: three servers, each with its log on a loop-mounted ext4 of its own, under appends; the file
//! systems are shut down without flushing their journals, at the same time; they are mounted again,
//! the servers started, and every acknowledged append read back. The planted fault at the end
//! acknowledges what is in page caches only, and must be found out.
#![allow(clippy::disallowed_methods, reason = "this is no server: it starts processes")]

use std::{os::unix::fs::symlink, path::Path, thread, time::Duration};

use anyhow::{Context, Result};
use crash::loop_disk::{self, LoopDisk};
use interop::{
    appender::AppendLedger,
    folder,
    group::{Group, Runs},
    log_files,
    process::wait_until,
};

/// Power cuts of all members.
const CUTS: u64 = 4;
/// Bytes of a data file: small, so that runs go over the ends of files.
const FILE_SIZE: u32 = 1 << 20;
/// Time within which a group takes appends again.
const HEALED: Duration = Duration::from_secs(60);

/// A group whose members each have a disk of their own.
struct OnDisks {
    // Dropped first, so that nothing is open on the disks.
    group: Group,
    ledger: AppendLedger,
    disks: Vec<LoopDisk>,
}

impl OnDisks {
    fn new(folder: &Path, runs: Runs) -> Result<Self> {
        let mut disks = Vec::new();
        for member in 0..3 {
            let disk = LoopDisk::new(96)?;
            symlink(disk.root(), folder.join(format!("n{member}"))).context("a member's folder")?;
            disks.push(disk);
        }
        let group = Group::new(folder, &[runs; 3], FILE_SIZE, None)?;
        let ledger = AppendLedger::new(group.members.clone());
        Ok(Self { group, ledger, disks })
    }

    fn start(&mut self) -> Result<()> {
        self.group.start_all()?;
        self.group.leader().map(drop)
    }

    /// Appends until `millis` after 200 of them, then cuts the power of all, kills what runs, and
    /// mounts the disks again.
    fn cut(&mut self, millis: u64, power_first: bool) -> Result<()> {
        let Self { group, ledger, disks } = self;
        let before = ledger.len();
        ledger.under_load(4, || {
            wait_until("200 acknowledged appends", HEALED, || ledger.len() >= before + 200)?;
            thread::sleep(Duration::from_millis(millis));
            if !power_first {
                group.kill_all()?;
            }
            cut_power(disks)
        })?;
        group.kill_all()?;
        for disk in &*disks {
            disk.unmount()?;
            disk.mount()?;
        }
        Ok(())
    }

    /// The last acknowledged append is in no data file.
    fn lost_the_last(&self) -> Result<bool> {
        let last = self.ledger.last().context("nothing was acknowledged")?;
        for id in self.group.ids() {
            // Behind a torn entry there may be anything.
            let entries = log_files::entries(&self.group.data(&id)?);
            if entries.is_err() || entries.is_ok_and(|entries| entries.contains_key(&last)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// All at the same time.
fn cut_power(disks: &[LoopDisk]) -> Result<()> {
    thread::scope(|scope| {
        let cuts: Vec<_> = disks.iter().map(|disk| scope.spawn(|| disk.cut_power())).collect();
        cuts.into_iter().try_for_each(|cut| {
            cut.join().map_err(|_panic| anyhow::anyhow!("a thread that cuts has panicked"))?
        })
    })
}

#[test]
#[ignore = "needs root and loop devices: cargo xtask ci runs it"]
fn a_group_that_loses_power_at_once_keeps_what_it_acknowledged() -> Result<()> {
    if !loop_disk::can_mount()? {
        return Ok(());
    }
    folder::scenario("group-power", |folder| {
        let mut all = OnDisks::new(folder, Runs::Server)?;
        all.start()?;
        for cut in 0..CUTS {
            all.cut(37 * cut, cut % 2 == 0)?;
            all.start()?;
            all.ledger.verify().with_context(|| format!("after cut {cut}"))?;
        }
        all.group.stop_all()?;
        let mut logs = Vec::new();
        let ids = all.group.ids();
        for id in &ids {
            logs.push((id.as_str(), log_files::entries(&all.group.data(id)?)?));
        }
        log_files::compare(&logs).map(drop)
    })
}

#[test]
#[ignore = "needs root and loop devices: cargo xtask ci runs it"]
fn a_group_that_acknowledges_what_is_in_page_caches_is_found_out() -> Result<()> {
    if !loop_disk::can_mount()? {
        return Ok(());
    }
    for attempt in 0..5 {
        let mut lost = false;
        folder::scenario("group-power-planted", |folder| {
            let mut all = OnDisks::new(folder, Runs::AsyncServer)?;
            all.start()?;
            all.cut(20 * attempt, true)?;
            lost = all.lost_the_last()?;
            Ok(())
        })?;
        if lost {
            return Ok(());
        }
    }
    anyhow::bail!("five power cuts of all members took nothing of what was in page caches only")
}
