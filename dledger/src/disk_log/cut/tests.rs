use segment::Fate;

use crate::{fixture::Fixture, range::CheckedRange};

fn filled() -> Fixture {
    let mut log = Fixture::new(1 << 20);
    for term in [1, 1, 2, 2, 3, 3] {
        log.append(term, &[900, 500]);
    }
    log.flush();
    log
}

#[test]
fn what_is_cut_off_is_gone_and_the_log_goes_on_there() {
    for written_behind in [false, true] {
        for index in (0..12).rev() {
            let mut log = filled();
            if written_behind {
                log.log.write_behind(dledger_core::Millis(0)).unwrap();
            }
            let place = log.log.unit(index).unwrap().position;
            let cursor = log.log.truncate(index).unwrap().unwrap();
            assert_eq!(cursor.index, index);
            // In front of the padding, if the entry was the first of its file.
            assert!(cursor.position == place || place.is_multiple_of(crate::fixture::FILE));
            log.writer.rewind(cursor);
            assert_eq!(log.last().map(|last| last.1), index.checked_sub(1));
            assert_eq!(log.log.range_in_memory(index, 20, 1), None);
            assert!(log.log.range_on_disk(index, 20, 1).is_err());
            log.append(4, &[10, 20]);
            assert_eq!(log.last(), Some((4, index + 1)));
            log.flush();
            let again = Fixture::open(log.disk.clone(), 0);
            assert_eq!(again.last(), Some((4, index + 1)));
            assert_eq!(again.sent(0), log.sent(0));
        }
    }
}

#[test]
fn a_committed_entry_is_not_cut_off_and_a_missing_one_changes_nothing() {
    let log = filled();
    log.log.set_committed(log.log.end_of(4).unwrap(), 5);
    let refused = log.log.truncate(4).unwrap_err().to_string();
    assert_eq!(refused, "entry 4 is committed, as all before 5 are");
    assert!(log.log.truncate(12).unwrap().is_none());
    assert_eq!(log.last(), Some((3, 11)));
    assert!(log.log.truncate(5).unwrap().is_some());
}

#[test]
fn a_power_cut_while_the_tail_is_cut_off_leaves_a_log_that_opens() {
    for calls in 0..24 {
        for fate in [Fate::Keep, Fate::Drop, Fate::Torn] {
            let log = filled();
            log.log.write_behind(dledger_core::Millis(0)).unwrap();
            log.disk.cut_power_after(calls);
            let cut = log.log.truncate(3);
            let after = log.disk.crash(&mut |_| fate);
            let again = Fixture::open(after, 0);
            let last = again.last().unwrap().1;
            assert!((2..12).contains(&last), "{last} after {calls} calls, {fate:?}");
            if cut.is_ok() {
                assert_eq!(last, 2, "after {calls} calls, {fate:?}");
            }
        }
    }
}

#[test]
fn a_log_restarts_at_a_leaders_first_entry() {
    let mut leader = filled();
    for _ in 0..6 {
        leader.append(4, &[900, 500]);
    }
    let first = (0..24).find(|index| leader.log.unit(*index).unwrap().position == 8192).unwrap();
    let mut follower = Fixture::new(1 << 20);
    follower.append(1, &[900, 500]);
    follower.flush();
    let refused = follower.log.restart(first, 8191).unwrap_err().to_string();
    assert!(refused.contains("lies at 8191, where no file of 4096 bytes begins"), "{refused}");
    let cursor = follower.log.restart(first, 8192).unwrap();
    follower.writer.rewind(cursor);
    assert_eq!(follower.last(), None);
    let range = CheckedRange::check(leader.sent(first), crate::fixture::FILE).unwrap();
    follower.writer.append_range(&range, 0).unwrap();
    assert_eq!(follower.last(), leader.last());
    let bounds = follower.log.bounds();
    assert_eq!((bounds.min, bounds.committed), (8192, 8192));
    follower.flush();
    let again = Fixture::open(follower.disk, 0);
    assert_eq!(again.last(), leader.last());
    assert_eq!(again.sent(first), leader.sent(first));
    assert_eq!(again.log.terms().unwrap().first().unwrap().1.0, first);
}

#[test]
fn a_power_cut_while_a_log_restarts_leaves_a_log_that_opens() {
    for calls in 0..24 {
        for fate in [Fate::Keep, Fate::Drop, Fate::Torn] {
            let log = filled();
            log.log.write_behind(dledger_core::Millis(0)).unwrap();
            log.disk.cut_power_after(calls);
            let restarted = log.log.restart(100, 1 << 20);
            let again = Fixture::open(log.disk.crash(&mut |_| fate), 0);
            if restarted.is_ok() {
                assert_eq!((again.last(), again.writer.end()), (None, 1 << 20));
            } else {
                assert!(again.last().is_none_or(|last| last.1 < 12));
            }
        }
    }
}
