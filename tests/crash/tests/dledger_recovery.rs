//! Goal: after any stop the log holds what was acknowledged, cuts only what a crash can have torn,
//! and refuses to touch what has rotted.
//!
//! Method: one engine on a simulated disk; bits are flipped and files removed behind its back.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::{
    io::IoSlice,
    path::{Path, PathBuf},
    sync::Arc,
};

use crash::world::{FILE_SIZE, FOLDER, Setup, World};
use dledger::{EngineError, RecoverError};
use segment::{Fate, SimVfs, Vfs};

fn path(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

fn data(position: u64) -> PathBuf {
    path(&format!("data/{:020}", position - position % FILE_SIZE))
}

fn write(disk: &SimVfs, position: u64, bytes: &[u8]) {
    let file = disk.open(&data(position)).unwrap();
    file.write_at(&[IoSlice::new(bytes)], position % FILE_SIZE).unwrap();
    file.sync_data().unwrap();
}

/// A log of several files; all of it acknowledged, stopped in order.
fn written() -> (SimVfs, World) {
    let disk = SimVfs::new();
    let mut world = World::lead(&disk).unwrap();
    for length in [100, 700, 30, 1500, 900, 1, 2000, 3000, 64] {
        world.append(&[length, length / 2 + 1]);
        world.settle();
    }
    world.checkpoint().unwrap();
    assert!(world.engine.end() > 3 * FILE_SIZE);
    (disk, world)
}

fn rot(disk: &SimVfs) -> String {
    match World::lead(disk) {
        Err(EngineError::Recover(RecoverError::Rot(rot))) => rot.to_string(),
        Err(other) => panic!("refused otherwise: {other}"),
        Ok(world) => panic!("not refused: {:?}", world.engine.status()),
    }
}

fn holds_all(world: &World, before: &World) {
    let entries = world.entries().unwrap();
    for acked in &before.acked {
        assert!(
            entries.contains(&(acked.position, acked.body.clone())),
            "no entry at {}",
            acked.position
        );
    }
}

#[test]
fn a_clean_stop_and_a_kill_lose_nothing() {
    let (disk, mut before) = written();
    let killed = World::lead(&disk.after_kill()).unwrap();
    holds_all(&killed, &before);
    before.engine.close().unwrap();
    for fate in [Fate::Keep, Fate::Drop] {
        let after = World::lead(&disk.crash(&mut |_| fate)).unwrap();
        holds_all(&after, &before);
        assert_eq!(after.engine.status().term, 2);
        // On election the hook saw every entry before the new opening entry.
        let seen = after.hook(|calls| calls.tail.clone());
        let entries = after.entries().unwrap();
        let positions: Vec<u64> = entries.iter().map(|(position, _)| *position).collect();
        assert_eq!(seen, positions[..positions.len() - 1]);
    }
}

#[test]
fn every_committed_entry_can_be_read_before_the_next_term_is_opened() {
    let (disk, before) = written();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.after_kill());
    let world = World::open(&vfs, Setup::default()).unwrap();
    assert!(!world.engine.status().opened);
    holds_all(&world, &before);
}

#[test]
fn every_torn_length_of_the_last_entry_is_cut_off() {
    let (disk, mut world) = written();
    let end = world.engine.end();
    world.append(&[600]);
    let length = world.engine.end() - end;
    for kept in 0..=length {
        let after = disk.after_kill();
        // A killed process leaves the front of its last write.
        write(&after, end + kept, &vec![0; usize::try_from(length - kept).unwrap()]);
        let recovered = World::lead(&after).unwrap();
        holds_all(&recovered, &world);
        let entries = recovered.entries().unwrap();
        let whole = entries.iter().any(|(at, body)| *at == end && body.starts_with(b"#body"));
        assert_eq!(whole, kept == length, "{kept} of {length} bytes were kept");
        let again = World::lead(&after.after_kill()).unwrap();
        holds_all(&again, &world);
    }
}

#[test]
fn every_flipped_bit_of_a_durable_entry_is_found() {
    let (disk, before) = written();
    let mut last_two = before.acked.iter().rev().take(2);
    let last = last_two.next().unwrap();
    let first = last_two.next().unwrap();
    for position in first.position..last.position {
        let after = disk.after_kill();
        after.flip_bit(&data(position), position % FILE_SIZE).unwrap();
        let refused = rot(&after);
        assert!(refused.contains(&format!("damaged at position {}", first.position)), "{refused}");
        assert!(refused.contains("was durable"), "{refused}");
        // It was not touched: the bit flipped back, all of it is there.
        after.flip_bit(&data(position), position % FILE_SIZE).unwrap();
        holds_all(&World::lead(&after.after_kill()).unwrap(), &before);
    }
}

#[test]
fn a_good_entry_behind_a_bad_one_is_rot_as_long_as_the_machine_ran_on() {
    let (disk, mut world) = written();
    let end = world.engine.end();
    world.append(&[100]);
    world.append(&[100]);
    // Not flushed: the mark is before both. The process was killed, the page cache was not lost.
    let killed = disk.after_kill();
    killed.flip_bit(&data(end), (end + 60) % FILE_SIZE).unwrap();
    let refused = rot(&killed);
    assert!(refused.contains("a sound entry that was written after it"), "{refused}");
    // A power cut may lose any part of what was not synced.
    let cut = disk.crash(&mut |_| Fate::Keep);
    cut.flip_bit(&data(end), (end + 60) % FILE_SIZE).unwrap();
    let recovered = World::lead(&cut).unwrap();
    holds_all(&recovered, &world);
    let entries = recovered.entries().unwrap();
    assert!(
        entries
            .last()
            .is_some_and(|(position, body)| { *position == end && body.starts_with(b"#opening") })
    );
}

#[test]
fn without_its_mark_a_log_is_refused_where_much_is_behind_a_bad_entry() {
    let (disk, before) = written();
    let without_mark = || {
        let after = disk.crash(&mut |_| Fate::Keep);
        after.remove(&path("durable")).unwrap();
        after
    };
    // In the last three files, which Java's rule scans, and more than a file before the end.
    let after = without_mark();
    let base = before.engine.end() - before.engine.end() % FILE_SIZE - 2 * FILE_SIZE;
    let bad = before.acked.iter().find(|acked| acked.position >= base).unwrap().position;
    after.flip_bit(&data(bad), (bad + 50) % FILE_SIZE).unwrap();
    let vfs: Arc<dyn Vfs> = Arc::new(after);
    let refused = match World::open(&vfs, Setup { window: FILE_SIZE, ..Setup::default() }) {
        Err(refused) => refused.to_string(),
        Ok(world) => panic!("not refused: {:?}", world.engine.status()),
    };
    assert!(refused.contains(&format!("position {bad}")), "{refused}");
    assert!(refused.contains("more follows than was ever written ahead"), "{refused}");

    // In a file that is not scanned: found when it is read.
    let after = without_mark();
    after.flip_bit(&data(0), 50).unwrap();
    let world = World::lead(&after).unwrap();
    let failure = world.engine.status().failure.clone().unwrap();
    assert!(failure.contains("entry at 0 is damaged"), "{failure}");
}

#[test]
fn derived_files_are_rebuilt() {
    let (disk, before) = written();
    for (removed, corrupted) in
        [("index", ""), ("", "index"), ("checkpoint", ""), ("", "checkpoint")]
    {
        let after = disk.after_kill();
        if removed == "index" {
            for name in after.list(&path("index")).unwrap() {
                after.remove(&path("index").join(name)).unwrap();
            }
        } else if removed == "checkpoint" {
            after.remove(&path("checkpoint")).unwrap();
        }
        if corrupted == "index" {
            for name in after.list(&path("index")).unwrap() {
                let file = after.open(&path("index").join(name)).unwrap();
                file.write_at(&[IoSlice::new(&[0x55; 2048])], 0).unwrap();
            }
        } else if corrupted == "checkpoint" {
            let file = after.open(&path("checkpoint")).unwrap();
            file.write_at(&[IoSlice::new(b"\0\0\0\0")], 0).unwrap();
            // What it says of its writer is gone, too: the mark counts for nothing then.
            file.set_length(4).unwrap();
        }
        let world = World::lead(&after).unwrap();
        holds_all(&world, &before);
        let again = World::lead(&after.after_kill()).unwrap();
        holds_all(&again, &before);
    }
}

#[test]
fn a_lost_or_damaged_term_is_taken_from_the_log() {
    let (disk, before) = written();
    let removed = disk.after_kill();
    removed.remove(&path("currterm")).unwrap();
    let damaged = disk.after_kill();
    damaged.open(&path("currterm")).unwrap().set_length(3).unwrap();
    for after in [removed, damaged] {
        let world = World::lead(&after).unwrap();
        assert_eq!(world.engine.status().term, 2);
        holds_all(&world, &before);
    }
}

#[test]
fn retention_deletes_whole_files_and_survives_a_crash() {
    let (disk, world) = written();
    let log = world.engine.log();
    assert_eq!(log.trim(FILE_SIZE - 1).unwrap(), 0);
    assert_eq!(log.trim(2 * FILE_SIZE + 7).unwrap(), 2 * FILE_SIZE);
    assert_eq!(log.bounds().min, 2 * FILE_SIZE);
    let after = World::lead(&disk.crash(&mut |_| Fate::Drop)).unwrap();
    assert_eq!(after.engine.log().bounds().min, 2 * FILE_SIZE);
    let entries = after.entries().unwrap();
    assert_eq!(entries.first().unwrap().0, 2 * FILE_SIZE);
    for acked in world.acked.iter().filter(|acked| acked.position >= 2 * FILE_SIZE) {
        assert!(entries.contains(&(acked.position, acked.body.clone())));
    }
    assert_eq!(after.engine.log().trim(u64::MAX).unwrap() + FILE_SIZE, {
        let end = after.engine.end();
        end - end % FILE_SIZE + FILE_SIZE
    });
}

#[test]
fn a_second_start_on_a_smaller_file_size_is_refused() {
    let folder = SimVfs::new();
    drop(World::lead(&folder).unwrap());
    let file = folder.open(&data(0)).unwrap();
    file.set_length(FILE_SIZE + 1).unwrap();
    let refused = World::lead(&folder).unwrap_err().to_string();
    assert!(refused.contains("4097 bytes, the configured file size is 4096"), "{refused}");
}

/// An entry as Java writes it: no checksums.
fn java_entry(position: u64, index: u64, term: u64, body: &[u8]) -> Vec<u8> {
    let size = u32::try_from(48 + body.len()).unwrap();
    let mut bytes = Vec::new();
    bytes.extend(1_u32.to_be_bytes());
    bytes.extend(size.to_be_bytes());
    for field in [index, term, position] {
        bytes.extend(field.to_be_bytes());
    }
    bytes.extend([0; 12]);
    bytes.extend((size - 48).to_be_bytes());
    bytes.extend(body);
    bytes
}

#[test]
fn what_java_appended_in_our_own_term_is_kept() {
    let (disk, mut before) = written();
    before.engine.close().unwrap();
    let index = before.entries().unwrap().len() as u64;
    let mut position = before.engine.end();
    for nth in 0..3 {
        // A Java node leads on in term 1, as it finds our vote for ourselves.
        write(&disk, position, &java_entry(position, index + nth, 1, b"by Java"));
        position += 48 + 7;
    }
    let checkpoint = disk.open(&path("checkpoint")).unwrap();
    let java = b"committedIndex=3\nendIndex=21\n                ";
    checkpoint.write_at(&[IoSlice::new(java)], 0).unwrap();
    let mut disk = disk;
    for _ in 0..3 {
        disk = disk.after_kill();
        let mut world = World::lead(&disk).unwrap();
        holds_all(&world, &before);
        let bodies = world.entries().unwrap();
        assert_eq!(bodies.iter().filter(|(_, body)| &body[..] == b"by Java").count(), 3);
        world.append(&[100]);
        world.settle();
        world.checkpoint().unwrap();
    }
}
