//! Goal: whichever byte of a header rots, no reader of that entry believes it, and the entry that
//! rotted is named, not its neighbour.

use std::{io::IoSlice, path::Path};

use bytes::Bytes;

use crate::{
    ENTRY_HEADER, ReadError, entry,
    fixture::{FILE, Fixture, joined},
};

/// Entries of three terms and several files, without a hot ring.
fn filled() -> Fixture {
    let mut log = Fixture::new(0);
    for term in [1, 1, 2, 2, 3, 3] {
        log.append(term, &[900, 500]);
    }
    log.flush();
    log.log.set_committed(log.writer.end(), 12);
    log
}

fn flip(log: &Fixture, index: u64, offset: u64) {
    let at = log.log.unit(index).unwrap().position + offset;
    let file = format!("log/data/{:020}", at / FILE * FILE);
    log.disk.flip_bit(Path::new(&file), at % FILE).unwrap();
}

/// What members and clients are given from entry `from` on, entry by entry.
fn served(log: &Fixture, from: u64) -> Vec<(u64, Bytes)> {
    let mut all = Vec::new();
    if let Ok(read) = log.log.range_on_disk(from, 11, 1 << 20) {
        let mut rest = joined(&read);
        for index in from..=read.last.index.0 {
            let size = log.log.unit(index).unwrap().size as usize;
            all.push((index, rest.split_to(size)));
        }
    }
    all
}

#[test]
fn every_byte_of_a_header_is_missed_and_the_entry_named_that_rotted() {
    let log = filled();
    let sound = served_all(&log);
    for index in 0..12 {
        for offset in 0..ENTRY_HEADER as u64 {
            let about = format!("byte {offset} of entry {index}");
            flip(&log, index, offset);
            for from in 0..12 {
                for (found, bytes) in served(&log, from) {
                    assert_eq!(bytes, sound[found as usize], "{about}: {found} from {from}");
                }
            }
            assert!(log.log.get(index).is_err(), "{about} is not missed");
            let first = log.log.culprits(index);
            let named: Vec<u64> = first.iter().map(|(index, _)| *index).collect();
            assert_eq!(named, [index], "{about}: {first:?}");
            // Asked for the next one, which is sound, the same one is named or none.
            let next: Vec<u64> = log.log.culprits(index + 1).iter().map(|one| one.0).collect();
            assert!(next.is_empty() || next == [index], "{about}: {next:?}");
            flip(&log, index, offset);
        }
    }
    assert_eq!(served_all(&log), sound);
}

fn served_all(log: &Fixture) -> Vec<Bytes> {
    (0..12).map(|index| log.log.entry(index).unwrap()).collect()
}

#[test]
fn a_chain_that_rotted_in_front_of_all_that_is_kept_brings_both_under_suspicion() {
    let log = filled();
    let second_file = log.log.trim(2 * FILE).unwrap();
    let first = log.log.index_at(second_file).unwrap();
    flip(&log, first, 37);
    let both: Vec<u64> = log.log.culprits(first + 1).iter().map(|one| one.0).collect();
    assert_eq!(both, [first, first + 1]);
}

#[test]
fn readers_of_runs_bring_what_does_not_follow_under_suspicion() {
    // The one in the midst of what is read at once, and the first of a file.
    for (index, offset) in [(7, 15), (7, 23), (7, 37), (5, 23), (5, 37)] {
        let log = filled();
        flip(&log, index, offset);
        let mut from = 0;
        while from < log.log.bounds().committed {
            from = log.log.read_forward(from, 4000).unwrap().next;
        }
        let convicted = log.log.convicted();
        assert!(!convicted.is_empty(), "byte {offset} of {index}");
        assert!(convicted.iter().all(|(one, _)| *one == index), "byte {offset}: {convicted:?}");
    }
}

#[test]
fn an_entry_that_rotted_into_padding_leaves_no_gap() {
    for index in 0..12 {
        let log = filled();
        let position = log.log.unit(index).unwrap().position;
        let mut padding = [0; 8];
        entry::pad(&mut padding);
        log.log.data.write_at(position, &mut [IoSlice::new(&padding)]).unwrap();
        let mut from = 0;
        let error = loop {
            match log.log.read_forward(from, 4000) {
                Ok(run) => from = run.next,
                Err(error) => break error,
            }
            assert!(from <= position, "read on behind entry {index}");
        };
        assert!(matches!(error, ReadError::Damaged { position: at, .. } if at == position));
        let convicted: Vec<u64> = log.log.convicted().iter().map(|(one, _)| *one).collect();
        assert_eq!(convicted, [index]);
    }
}

#[test]
fn what_rotted_is_no_log_that_diverges() {
    let log = filled();
    let entry = log.log.entry(5).unwrap();
    for offset in [23, 60] {
        flip(&log, 5, offset);
        assert!(log.log.holds(&entry).is_err(), "byte {offset}");
        flip(&log, 5, offset);
    }
    assert_eq!(log.log.holds(&entry), Ok(true));
}
