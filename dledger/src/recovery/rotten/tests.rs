use std::{path::Path, sync::Arc};

use segment::Vfs;

use super::*;
use crate::{
    DiskOptions,
    fixture::{FILE, Fixture},
    range::CheckedRange,
    recovery::{Group, RecoverError, recover},
};

/// Durable entries of several files, and the same log with a member that is sound.
fn pair() -> (Fixture, Fixture) {
    let mut sound = Fixture::new(0);
    for term in [1, 1, 2, 2, 3, 3] {
        sound.append(term, &[900, 500]);
    }
    sound.append(3, &[100; 6]);
    let mut log = Fixture::new(0);
    log.writer.append_range(&CheckedRange::check(sound.sent(0), FILE).unwrap(), 0).unwrap();
    log.flush();
    log.log.write_behind(dledger_core::Millis(10_000)).unwrap();
    (log, sound)
}

fn flip(log: &Fixture, index: u64, offset: u64) {
    let at = log.log.unit(index).unwrap().position + offset;
    let file = format!("log/data/{:020}", at / FILE * FILE);
    log.disk.flip_bit(Path::new(&file), at % FILE).unwrap();
}

fn fetch(sound: &Fixture, range: &RottenRange) -> CheckedRange {
    let all = CheckedRange::check(sound.sent(0), FILE).unwrap();
    all.part(range.first, range.last + 1 - range.first).unwrap()
}

#[test]
fn rot_is_passed_over_and_mended_with_what_a_member_has() {
    for rotten in [&[12][..], &[17], &[14, 15, 16, 17], &[10, 11], &[12, 15]] {
        for offset in [0, 9, 30, 37, 100] {
            let (log, sound) = pair();
            for index in rotten {
                flip(&log, *index, offset);
            }
            let mut again = Fixture::open(log.disk.clone(), 0);
            let ranges = again.log.rotten();
            assert_eq!(again.last(), Some((3, 17)), "{rotten:?} at {offset}");
            assert_eq!(ranges.first().unwrap().first, rotten[0], "{rotten:?} at {offset}");
            let named: Vec<u64> = ranges.iter().flat_map(|one| one.first..=one.last).collect();
            for index in &named {
                assert!(again.log.range_on_disk(*index, 17, 1).is_err());
                let position = again.log.unit(*index).unwrap().position;
                again.log.set_committed(again.writer.end(), 18);
                assert!(again.log.read_unsized(position).is_err());
            }
            for _ in 0..10 {
                let Some(range) = again.log.rotten().into_iter().next() else { break };
                // Refused once where the entry behind turns out to be rotten as well.
                again.log.mend(&fetch(&sound, &range)).ok();
            }
            assert_eq!(again.log.rotten(), []);
            assert_eq!(again.sent(0), sound.sent(0));
            again.writer.refresh().unwrap();
            again.append(4, &[10]);
            let last = Fixture::open(again.disk, 0);
            assert_eq!((last.last(), last.log.rotten()), (Some((4, 18)), vec![]));
        }
    }
}

/// The index lags behind the log: a killed process takes the units with it that it had not written yet.
#[test]
fn entries_behind_rot_that_the_index_does_not_know_stay() {
    for (rotten, more) in [(17, &[100, 200][..]), (17, &[2000, 1500, 100]), (16, &[300])] {
        let (log, sound) = pair();
        let mut log = Fixture::open(log.disk.after_kill(), 0);
        log.append(3, more);
        log.flush();
        flip(&log, rotten, 60);
        let end = log.writer.end();
        let mut again = Fixture::open(log.disk.after_kill(), 0);
        let last = 17 + more.len() as u64;
        assert_eq!((again.last(), again.writer.end()), (Some((3, last)), end), "{rotten} {more:?}");
        let range = again.log.rotten().remove(0);
        again.log.mend(&fetch(&sound, &range)).unwrap();
        assert_eq!(again.log.rotten(), []);
        again.writer.refresh().unwrap();
        again.append(3, &[10]);
        assert_eq!(Fixture::open(again.disk, 0).last(), Some((3, last + 1)));
    }
}

#[test]
fn what_was_another_entry_does_not_mend() {
    let (log, sound) = pair();
    flip(&log, 12, 100);
    let again = Fixture::open(log.disk, 0);
    let range = again.log.rotten().remove(0);
    let mut twin = Fixture::new(0);
    for term in [1, 1, 2, 2, 2, 2] {
        twin.append(term, &[900, 500]);
    }
    twin.append(2, &[100; 6]);
    let refused = again.log.mend(&fetch(&twin, &range)).unwrap_err().to_string();
    assert!(refused.contains("entry 12 was another one"), "{refused}");
    assert_eq!(again.log.rotten().len(), 1);
    again.log.mend(&fetch(&sound, &range)).unwrap();
}

#[test]
fn a_group_of_one_refuses_rot_as_it_did() {
    let (log, _) = pair();
    flip(&log, 12, 100);
    let vfs: Arc<dyn Vfs> = Arc::new(log.disk);
    let options = DiskOptions { index_file_size: 32 * 8, ..DiskOptions::new("log".into(), FILE) };
    let group =
        Group { members: 1, policy: dledger_core::Policy::Flushed, planted: Default::default() };
    let refused = recover(&vfs, options, &group).map(|_| ()).unwrap_err();
    assert!(matches!(refused, RecoverError::Rot(_)), "{refused}");
}

#[test]
fn rot_goes_with_the_entries_that_are_cut_off_or_trimmed() {
    let (log, _) = pair();
    for index in [14, 15, 17] {
        flip(&log, index, 100);
    }
    let again = Fixture::open(log.disk, 0);
    let ranges = |log: &Fixture| -> Vec<(u64, u64)> {
        log.log.rotten().iter().map(|range| (range.first, range.last)).collect()
    };
    assert_eq!(ranges(&again), [(14, 15), (17, 17)]);
    again.log.truncate(16).unwrap().unwrap();
    assert_eq!(ranges(&again), [(14, 15)]);
    let cursor = again.log.truncate(15).unwrap().unwrap();
    assert_eq!((ranges(&again), cursor.previous), (vec![(14, 14)], None));
    again.log.truncate(14).unwrap().unwrap();
    assert_eq!(ranges(&again), []);

    let (log, _) = pair();
    log.log.note_rot(2, "a test says so").unwrap();
    log.log.set_committed(log.writer.end(), 18);
    assert!(log.log.trim(8192).unwrap() >= 4096);
    assert_eq!(ranges(&log), []);
}

#[test]
fn rot_in_the_header_that_a_trimmed_log_begins_with_is_mended() {
    for offset in [13, 15, 23] {
        let (log, sound) = pair();
        log.log.set_committed(log.writer.end(), 18);
        assert!(log.log.trim(8192).unwrap() > 0);
        let first = log.log.first_index().unwrap().unwrap();
        log.log.write_behind(dledger_core::Millis(20_000)).unwrap();
        flip(&log, first, offset);
        assert_eq!(log.log.first_index().unwrap(), Some(first), "byte {offset}");
        let again = Fixture::open(log.disk.clone(), 0);
        assert_eq!((again.last(), again.log.first_index().unwrap()), (Some((3, 17)), Some(first)));
        let range = again.log.rotten().remove(0);
        assert_eq!((range.first, range.last), (first, first), "byte {offset}");
        again.log.mend(&fetch(&sound, &range)).unwrap();
        let last = Fixture::open(again.disk, 0);
        assert_eq!((last.last(), last.log.rotten()), (Some((3, 17)), vec![]));
        assert_eq!(last.sent(first), sound.sent(first));
    }
}
