//! Goal: a full disk costs only the appends that it refused; any other failure stops the log.
//!
//! Method: calls of the simulated disk are made to fail, each in turn.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::{path::Path, sync::Arc};

use crash::world::{FILE_SIZE, FOLDER, Setup, World};
use dledger::{AppendFailure, Policy};
use segment::{Call, Fate, SimVfs, Vfs};

const EIO: i32 = 5;

fn led() -> (SimVfs, World) {
    let disk = SimVfs::new();
    let mut world = World::lead(&disk).unwrap();
    world.append(&[300]);
    world.settle();
    assert_eq!(world.acked.len(), 1);
    (disk, world)
}

#[test]
fn a_full_disk_fails_what_does_not_fit_and_nothing_else() {
    // Room for none to all of a group that crosses a file.
    for room in 0..16 {
        let (disk, mut world) = led();
        let (end, stamped) = (world.engine.end(), world.hook(|calls| calls.stamped));
        disk.set_room(Some(room * 512));
        world.append(&[900, 3000, 700]);
        world.settle();
        let written = world.acked.len() == 4;
        if !written {
            let (_, failure) = &world.failed[0];
            let AppendFailure::DiskFull(reason) = failure else { panic!("{failure}") };
            assert!(reason.contains("disk is full"), "{reason}");
            assert_eq!(world.engine.end(), end);
            assert_eq!(world.hook(|calls| (calls.stamped, calls.undone)), (stamped, 1));
        }
        assert_eq!(world.engine.status().failure, None);
        // Neither a kill nor a power cut brings back what was reported as failed.
        for after in [disk.after_kill(), disk.crash(&mut |_| Fate::Keep)] {
            let after = World::lead(&after).unwrap();
            let bodies = after.entries().unwrap();
            let count = bodies.iter().filter(|(_, body)| body.starts_with(b"#body")).count();
            assert_eq!(count, world.acked.len());
        }
        // Room again: the log goes on in the same place.
        disk.set_room(None);
        let before = world.acked.len();
        world.append(&[900, 3000, 700]);
        world.settle();
        assert_eq!(world.acked.len(), before + 3);
        assert!(written || world.acked[before].position == end);
        assert!(room < 15 || written, "the largest room must suffice");
    }
}

#[test]
fn a_full_disk_does_not_stop_a_group_behind_it() {
    let (disk, mut world) = led();
    disk.set_room(Some(0));
    world.append(&[2000]);
    disk.set_room(None);
    world.append(&[10]);
    world.settle();
    assert_eq!(world.failed.len(), 1);
    assert_eq!(world.acked.len(), 2);
    let after = World::lead(&disk.crash(&mut |_| Fate::Drop)).unwrap();
    assert!(after.entries().unwrap().iter().any(|(_, body)| body.len() == 10));
}

#[test]
fn a_term_that_finds_no_room_is_opened_later() {
    let (disk, _) = led();
    let disk = disk.after_kill();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let mut world = World::open(&vfs, Setup::default()).unwrap();
    disk.fail(Call::Write, 1, 1, 28);
    world.settle();
    assert!(!world.engine.status().opened);
    assert_eq!(world.engine.status().failure, None);
    world.pass_millis(2000);
    world.settle();
    assert!(world.engine.status().opened, "{:?}", world.engine.status());
}

#[test]
fn a_failed_write_stops_the_log() {
    let (disk, mut world) = led();
    disk.fail(Call::Write, 0, 1, EIO);
    world.append(&[100]);
    assert!(matches!(world.failed[0].1, AppendFailure::Unconfirmed(_)));
    let failure = world.engine.status().failure.clone().unwrap();
    assert!(failure.contains("log could not be written"), "{failure}");
    world.append(&[100]);
    assert!(matches!(world.failed[1].1, AppendFailure::NotWritten(_)));
    assert_eq!(world.failed.len(), 2);
    world.settle();
    assert_eq!(world.acked.len(), 1);
}

#[test]
fn a_failed_sync_stops_the_log_though_the_next_one_would_succeed() {
    let (disk, mut world) = led();
    world.append(&[100]);
    disk.fail(Call::Sync, 0, 1, EIO);
    world.run_jobs();
    world.settle();
    let failure = world.engine.status().failure.clone().unwrap();
    assert!(failure.contains("log could not be synced"), "{failure}");
    assert!(matches!(world.failed[0].1, AppendFailure::Unconfirmed(_)));
    assert_eq!(world.acked.len(), 1);
    world.engine.close().unwrap();
    // What was dropped was never acknowledged; what was acknowledged is there.
    let after = World::lead(&disk.crash(&mut |_| Fate::Keep)).unwrap();
    let entries = after.entries().unwrap();
    assert!(entries.contains(&(world.acked[0].position, world.acked[0].body.clone())));
    assert!(!entries.iter().any(|(_, body)| body.len() == 100));
}

/// Known of Linux: a sync that failed marks the pages clean, so that the next one has nothing to do.
#[test]
fn what_a_failed_sync_dropped_is_written_again_by_the_next_process() {
    let (disk, mut world) = led();
    disk.fail(Call::Sync, 0, 1, EIO);
    world.append(&[300]);
    world.settle();
    assert!(world.engine.status().failure.is_some());
    let next = disk.after_kill();
    let world = World::lead(&next).unwrap();
    let found = world.entries().unwrap();
    let bodies = found.iter().filter(|(_, body)| body.starts_with(b"#body"));
    assert_eq!(bodies.count(), 2, "the page cache still shows it");
    // It was taken for committed: from now on a power cut must not take it.
    let world = World::lead(&next.crash(&mut |_| Fate::Drop)).unwrap();
    assert_eq!(world.entries().unwrap()[..found.len()], found);
}

#[test]
fn a_vote_that_is_not_stored_is_not_given() {
    let (disk, _) = led();
    for call in [Call::Write, Call::Sync, Call::Metadata] {
        let disk = disk.after_kill();
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let mut world = World::open(&vfs, Setup::default()).unwrap();
        disk.fail(call, 0, 1, EIO);
        world.settle();
        let failure = world.engine.status().failure.clone().unwrap();
        assert!(failure.contains("term and vote could not be stored"), "{failure}");
        assert!(!world.engine.status().opened);
    }
}

#[test]
fn no_room_for_index_or_checkpoint_is_tried_again() {
    let (disk, mut world) = led();
    for length in [10; 60] {
        world.append(&[length]);
        world.settle();
    }
    disk.set_room(Some(0));
    world.checkpoint().unwrap();
    disk.set_room(None);
    world.checkpoint().unwrap();
    let after = World::lead(&disk.crash(&mut |_| Fate::Drop)).unwrap();
    assert_eq!(after.entries().unwrap().len(), 63);
    // Any other failure of what is written behind is told to the caller, who stops.
    disk.fail(Call::Sync, 0, 1, EIO);
    world.append(&[10]);
    world.run_jobs();
    assert!(world.engine.status().failure.is_some());
}

#[test]
fn a_read_error_is_told_and_does_not_stop_the_log() {
    let (disk, mut world) = led();
    let position = world.acked[0].position;
    disk.fail(Call::Read, 0, 1, EIO);
    let refused = world.engine.log().read(position, 300).unwrap_err();
    assert!(refused.to_string().contains("could not be read"), "{refused}");
    world.engine.log().read(position, 300).unwrap();
    world.append(&[10]);
    world.settle();
    assert_eq!(world.acked.len(), 2);
}

#[test]
fn without_sync_an_entry_is_acknowledged_when_it_is_written() {
    let disk = SimVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let setup = Setup { policy: Policy::Written, ..Setup::default() };
    let mut world = World::open(&vfs, setup).unwrap();
    world.settle();
    world.append(&[100]);
    assert_eq!(world.acked.len(), 1, "no job was run");
    // It survives the process.
    let after = World::lead(&disk.after_kill()).unwrap();
    assert!(after.entries().unwrap().iter().any(|(_, body)| body.len() == 100));
}

#[test]
fn an_append_that_is_not_flushed_in_time_is_told_so_once() {
    let (_, mut world) = led();
    world.append(&[100]);
    let late = world.append(&[200]);
    world.pass_millis(3_600_000);
    world.event(dledger::Event::Tick);
    assert_eq!(world.failed.len(), 2);
    assert_eq!(world.failed[1].0, late);
    assert!(matches!(world.failed[0].1, AppendFailure::TimedOut { .. }));
    // It is committed all the same, and the submitter is not told again.
    world.settle();
    assert_eq!(world.acked.len(), 1);
    assert_eq!(world.entries().unwrap().len(), 4);
    assert_eq!(world.engine.timeout(), None);
}

#[test]
fn zeros_written_ahead_change_nothing_that_is_read() {
    let disk = SimVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let setup = Setup { zero_ahead: 1024, ..Setup::default() };
    let mut world = World::open(&vfs, setup).unwrap();
    world.settle();
    for length in [100, 3000, 1500, 10, 4000, 700] {
        world.append(&[length]);
        world.settle();
    }
    assert!(world.engine.end() > 2 * FILE_SIZE);
    assert_eq!(world.acked.len(), 6);
    let after = World::lead(&disk.crash(&mut |_| Fate::Drop)).unwrap();
    for acked in &world.acked {
        assert!(after.entries().unwrap().contains(&(acked.position, acked.body.clone())));
    }
}

#[test]
fn zeros_are_written_ahead_only_where_little_waits_for_a_flush() {
    let is_hole_behind = |length: usize| {
        let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new());
        let setup = Setup { zero_ahead: 1024, zero_limit: 1024, ..Setup::default() };
        let mut world = World::open(&vfs, setup).unwrap();
        world.settle();
        world.append(&[length]);
        world.settle();
        let sector = world.engine.end().next_multiple_of(512);
        let data = Path::new(FOLDER).join("data");
        let names = vfs.list(&data).unwrap();
        vfs.open(&data.join(&names[0])).unwrap().next_data(sector).unwrap().is_none()
    };
    assert!(!is_hole_behind(100));
    assert!(is_hole_behind(3000));
}

#[test]
fn no_more_is_written_ahead_of_a_flush_than_the_window() {
    let (_, mut world) = led();
    world.settle();
    let flushed = world.engine.end();
    for _ in 0..20 {
        world.append(&[2000]);
    }
    assert!(world.engine.end() - flushed <= crash::world::WINDOW);
    world.settle();
    assert_eq!(world.acked.len(), 21);
}
