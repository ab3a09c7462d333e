use std::{path::Path, sync::Arc};

use segment::{Fate, SimVfs, Vfs};

use super::*;
use crate::{
    DiskOptions,
    fixture::{FILE, Fixture},
    recovery::recover,
    state_files::Checkpoint,
};

fn vfs(disk: &SimVfs) -> Arc<dyn Vfs> {
    Arc::new(disk.clone())
}

fn settle(disk: &SimVfs) {
    DoubtFile::new(vfs(disk), Path::new("log")).store(None).unwrap();
}

fn doubt(disk: &SimVfs, members: usize, policy: Policy) -> Option<Doubt> {
    let options = DiskOptions { index_file_size: 32 * 8, ..DiskOptions::new("log".into(), FILE) };
    recover(&vfs(disk), options, &Group { members, policy, planted: Default::default() })
        .unwrap()
        .doubt
}

fn written() -> Fixture {
    let mut log = Fixture::new(0);
    settle(&log.disk);
    log.append(1, &[100, 200]);
    log.flush();
    // The checkpoint says that we wrote it, not Java.
    log.log.write_behind(dledger_core::Millis(10_000)).unwrap();
    log
}

#[test]
fn an_empty_log_is_in_doubt_until_that_is_settled() {
    let disk = SimVfs::new();
    assert_eq!(doubt(&disk, 1, Policy::Flushed), None);
    assert_eq!(doubt(&disk, 3, Policy::Flushed), Some(Doubt::Empty));
    // Entries alone do not settle it.
    let mut log = Fixture::open(disk.clone(), 0);
    log.append(1, &[100]);
    assert_eq!(doubt(&disk, 3, Policy::Flushed), Some(Doubt::Empty));
    settle(&disk);
    assert_eq!(doubt(&disk, 3, Policy::Flushed), None);
}

#[test]
fn an_unclean_boot_is_a_doubt_where_acknowledgements_do_not_wait_for_the_disk() {
    let log = written();
    assert_eq!(doubt(&log.disk, 3, Policy::Written), None, "the same boot");
    let cut = || log.disk.crash(&mut |_| Fate::Drop);
    assert_eq!(doubt(&cut(), 3, Policy::Flushed), None);
    let disk = cut();
    assert_eq!(doubt(&disk, 3, Policy::Written), Some(Doubt::UncleanBoot));
    assert_eq!(doubt(&disk, 3, Policy::Written), Some(Doubt::UncleanBoot), "it is kept");
    log.log.close(log.writer.end()).unwrap();
    assert_eq!(doubt(&cut(), 3, Policy::Written), None, "a clean stop");
}

#[test]
fn a_log_that_ends_before_what_was_committed_is_in_doubt() {
    let log = written();
    assert_eq!(doubt(&log.disk, 3, Policy::Flushed), None);
    Checkpoint::new(vfs(&log.disk), Path::new("log")).store(Some(100), Some(100)).unwrap();
    assert_eq!(doubt(&log.disk, 3, Policy::Flushed), Some(Doubt::RolledBack));
}

/// An entry that was acknowledged and rotted before it was durable looks like half an entry that a kill
/// left.
#[test]
fn a_torn_end_is_a_doubt_where_acknowledgements_do_not_wait_for_the_disk() {
    let torn = || {
        let mut log = written();
        log.append(1, &[300]);
        let path = Path::new("log/data/00000000000000000000");
        log.disk.flip_bit(path, log.writer.end() - 7).unwrap();
        log.disk.clone()
    };
    assert_eq!(doubt(&torn(), 3, Policy::Flushed), None);
    assert_eq!(doubt(&torn(), 1, Policy::Written), None);
    let disk = torn();
    assert_eq!(doubt(&disk, 3, Policy::Written), Some(Doubt::TornTail));
    assert_eq!(doubt(&disk, 3, Policy::Written), Some(Doubt::TornTail), "it is kept");
    settle(&disk);
    assert_eq!(doubt(&disk, 3, Policy::Written), None);
}
