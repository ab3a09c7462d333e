//! What a start makes of an index that is not as the log has it.

use std::path::Path;

use dledger_core::{LogIndex, Millis, Term};
use segment::{Call, Fate};

use crate::fixture::Fixture;

/// A sync of the index fails, and the system drops what it could not write. The next process sees
/// the units in the page cache, equal to what it would write.
#[test]
fn units_that_a_failed_sync_dropped_are_durable_after_the_next_start() {
    let mut log = Fixture::new(0);
    log.append(1, &[1500]);
    log.flush();
    // The first unit of each file is looked at whatever happened.
    log.log.write_behind(Millis(10_000)).unwrap();
    // The rest of a file of the index, which nothing is written to any more.
    log.append(1, &[300; 7]);
    log.flush();
    log.disk.fail(Call::Sync, 0, 1, 5);
    log.log.write_behind(Millis(20_000)).unwrap_err();
    let mut log = Fixture::open(log.disk.after_kill(), 0);
    log.append(1, &[1500; 4]);
    log.flush();
    log.log.write_behind(Millis(30_000)).unwrap();
    let log = Fixture::open(log.disk.crash(&mut |_| Fate::Drop), 0);
    assert_eq!(log.last(), Some((1, 11)));
    for index in 0..12 {
        assert!(log.log.index.get(index).unwrap().is_some(), "unit {index} is lost");
    }
}

#[test]
fn a_damaged_index_is_mended_from_the_log() {
    let mut log = Fixture::new(0);
    log.append(1, &[1500; 6]);
    log.append(2, &[1500; 6]);
    log.log.close(log.writer.end()).unwrap();
    let terms = vec![(Term(1), LogIndex(0)), (Term(2), LogIndex(6))];
    for unit in [5, 6] {
        let path = Path::new("log/index/00000000000000000000");
        log.disk.flip_bit(path, unit * 32 + 19).unwrap();
    }
    assert!(log.log.terms().is_err());
    let log = Fixture::open(log.disk.after_kill(), 0);
    assert_eq!(log.log.terms().unwrap(), terms);
}
