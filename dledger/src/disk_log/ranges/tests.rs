use std::path::Path;

use super::*;
use crate::fixture::{FILE, Fixture, joined};

fn filled(hot_ring: usize) -> Fixture {
    let mut log = Fixture::new(hot_ring);
    for nth in 0..12 {
        log.append(1 + nth / 4 * 2, &[500, 300]);
    }
    log.flush();
    log
}

#[test]
fn ranges_from_memory_and_disk_hold_whole_entries_within_the_bound() {
    let log = filled(1 << 20);
    for from in 0..24 {
        for max_bytes in [1, 548, 549, 2000, 1 << 20] {
            let hot = log.log.range_in_memory(from, 23, max_bytes).unwrap();
            let cold = log.log.range_on_disk(from, 23, max_bytes).unwrap();
            for read in [&hot, &cold] {
                assert_eq!(
                    (read.first, read.last.index.0),
                    (LogIndex(from), from + read.count - 1)
                );
                assert_eq!(read.before.map(|id| id.index.0), from.checked_sub(1));
                assert!(read.length <= max_bytes || read.count == 1, "{read:?}");
                let checked = crate::range::CheckedRange::check(joined(read), FILE).unwrap();
                assert_eq!(checked.headers().len() as u64, read.count);
                assert_eq!(
                    (checked.runs(), joined(read).len() as u64),
                    (read.runs.clone(), read.length)
                );
            }
            // The disk's stops at the end of a file.
            assert!(hot.count >= cold.count);
        }
    }
    assert_eq!(log.log.range_in_memory(3, 5, 1 << 20).unwrap().last.index.0, 5);
    assert_eq!(log.log.range_on_disk(3, 5, 1 << 20).unwrap().last.index.0, 5);
    assert_eq!(log.log.range_in_memory(24, 30, 1), None);
    assert_eq!(log.log.range_on_disk(24, 30, 1), Err(ReadError::NoEntry { index: 24 }));
    assert_eq!(filled(1000).log.range_in_memory(3, 5, 1), None);
}

#[test]
fn terms_are_found_where_they_begin() {
    let log = filled(0);
    let expected = [(1, 0), (3, 8), (5, 16)].map(|(term, index)| (Term(term), LogIndex(index)));
    assert_eq!(log.log.terms().unwrap(), expected);
    assert_eq!(Fixture::open(log.disk, 0).log.terms().unwrap(), expected);
    assert_eq!(Fixture::new(0).log.terms().unwrap(), []);
    let mut many = Fixture::new(0);
    for term in 1..40 {
        many.append(term, &[10]);
    }
    let all: Vec<_> = (1..40).map(|term| (Term(term), LogIndex(term - 1))).collect();
    assert_eq!(many.log.terms().unwrap(), all);
}

#[test]
fn a_flipped_bit_is_never_served_to_a_member() {
    let log = filled(0);
    log.log.write_behind(dledger_core::Millis(0)).unwrap();
    let second = log.log.unit(1).unwrap();
    log.disk.flip_bit(Path::new("log/data/00000000000000000000"), second.position + 60).unwrap();
    let before = log.log.range_on_disk(0, 23, 1 << 20).unwrap();
    assert_eq!(before.count, 1);
    let refused = log.log.range_on_disk(1, 23, 1 << 20).unwrap_err();
    assert!(refused.to_string().contains("entry 1: its body does not match"), "{refused}");
    assert_eq!(log.log.range_on_disk(2, 23, 1).unwrap().count, 1);
}

#[test]
fn an_entry_is_compared_as_java_compares_it() {
    let log = filled(0);
    let entry = log.log.entry(5).unwrap();
    assert!(log.log.holds(&entry).unwrap());
    let changed = |at: usize| {
        let mut other = entry.to_vec();
        other[at] ^= 1;
        other
    };
    // Checksums are passed over, everything else counts.
    for at in 36..44 {
        assert!(log.log.holds(&changed(at)).unwrap(), "byte {at}");
    }
    for at in [15, 23, 48, 347] {
        assert!(!log.log.holds(&changed(at)).unwrap(), "byte {at}");
    }
    for at in [0, 7, 31, 35, 47] {
        assert!(!log.log.holds(&changed(at)).unwrap_or(false), "byte {at}");
    }
    assert!(log.log.holds(b"no entry").is_err());
}
