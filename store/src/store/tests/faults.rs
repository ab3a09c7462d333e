//! A failing disk, a log with the faults of a killed Java broker, a power cut.

use std::sync::atomic::Ordering;

use protocol::message::record::stamp;
use segment::{Call, Fate};

use super::rig::{Rig, offset_and_body};
use crate::{append_log::AppendLog, memory_log::test_record};

#[test]
fn a_disk_that_fails_for_a_while_loses_nothing_and_nobody_hears_twice() {
    const EIO: i32 = 5;
    let mut rig = Rig::new();
    rig.send("T", 0, 20, "a");
    for (call, skip) in
        [(Call::Write, 0), (Call::Write, 1), (Call::Metadata, 0), (Call::Metadata, 2)]
    {
        rig.disk.fail(call, skip, 2, EIO);
        rig.send("T", 0, 20, "a");
        rig.send_with("New", skip as u32, &["x".to_owned()], "KEYS\u{1}k\u{2}");
        rig.check_against_log();
    }
    let heard = rig.heard.0.lock().unwrap().len();
    assert_eq!(heard, 104);
    rig.kill();
    rig.open();
    rig.check_against_log();
}

/// A record as another broker stamped it, with this queue offset.
fn foreign(rig: &Rig, offset: u64, body: &str) {
    rig.log.append_foreign(|physical| {
        let mut record = test_record("J", 0, body.as_bytes(), "").to_vec();
        stamp(&mut record, offset.cast_signed(), physical.cast_signed(), 1_800_000_000_000);
        record.into()
    });
}

/// spec: store-dledger.md 6.9 A. The log holds offsets twice; no message is lost from view, and the
/// records are served with the offsets of their units.
#[test]
fn repeated_offsets_of_a_killed_java_broker_lose_no_message() {
    let mut rig = Rig::new();
    for offset in 0..20 {
        foreign(&rig, offset, &format!("first {offset}"));
    }
    for offset in 15..25 {
        foreign(&rig, offset, &format!("again {offset}"));
    }
    rig.settle();
    assert_eq!(rig.store().counters().misplaced.load(Ordering::SeqCst), 10);
    for stage in ["running", "killed"] {
        let read = rig.read_all("J", 0);
        assert!(read.iter().map(|one| one.0).eq(0..30), "{stage}: {read:?}");
        assert_eq!(read[20].1, "again 15");
        rig.kill();
        rig.open();
    }
    rig.send("J", 0, 1, "a");
    let run = rig.log.read_forward(0, usize::MAX).unwrap();
    let last = offset_and_body(&run.records.last().unwrap().1);
    assert_eq!(last, (30, "J-0-30".to_owned()), "the log's own tails follow the same rule");
}

/// A gap is filled with blank units, which readers pass over.
#[test]
fn a_gap_in_the_recorded_offsets_is_kept() {
    let mut rig = Rig::new();
    for offset in [3, 4, 40, 41] {
        foreign(&rig, offset, &format!("at {offset}"));
    }
    rig.settle();
    for stage in ["running", "killed"] {
        let offsets: Vec<_> = rig.read_all("J", 0).iter().map(|one| one.0).collect();
        assert_eq!(offsets, [3, 4, 40, 41], "{stage}");
        assert_eq!(rig.store().min_offset("J", 0), 3, "{stage}");
        rig.kill();
        rig.open();
    }
}

#[test]
fn a_record_that_is_no_message_does_not_stop_dispatch() {
    let rig = Rig::new();
    rig.log.append_foreign(|_| bytes::Bytes::from_static(b"opening entry of another kind"));
    rig.send("T", 0, 3, "a");
    assert_eq!(rig.store().counters().unreadable.load(Ordering::SeqCst), 1);
    assert_eq!(rig.read_all("T", 0).len(), 3);
}

/// Whatever part of the unsynced bytes a power cut takes, the derived files follow the log.
#[test]
fn a_power_cut_takes_nothing_that_is_not_derived_again() {
    for seed in 0..60_u64 {
        let mut rig = Rig::new();
        for round in 0..4 {
            for queue in 0..2 {
                rig.send("T", queue, 7 + seed % 5 + round, "a");
            }
            let keys = format!("UNIQ_KEY\u{1}U{round}\u{2}KEYS\u{1}K\u{2}");
            rig.send_with("Keys", 0, &vec!["x".to_owned(); 9], &keys);
            if seed % 3 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(8));
            }
        }
        if seed % 4 == 1 {
            rig.stop();
            rig.open();
            rig.send("T", 0, 3, "a");
        }
        rig.store = None;
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        rig.disk = rig.disk.crash(&mut |_| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            match (seed % 7, random % 3) {
                (0, _) => Fate::Drop,
                (1, _) => Fate::Keep,
                (_, 0) => Fate::Drop,
                (_, 1) => Fate::Torn,
                _ => Fate::Keep,
            }
        });
        rig.open();
        rig.check_against_log();
        for round in 0..4 {
            let key = format!("U{round}");
            let found = rig.store().query_by_key("Keys", &key, 100, (0, u64::MAX));
            assert_eq!(found.messages.len(), 9, "seed {seed}, {key}");
        }
    }
}

/// Power goes at any call while the store is opened and stopped.
#[test]
fn a_power_cut_on_the_way_through_recovery_is_survived() {
    let mut rig = Rig::new();
    for queue in 0..3 {
        rig.send("T", queue, 40, "a");
    }
    rig.store = None;
    rig.disk = rig.disk.crash(&mut |_| Fate::Torn);
    for calls in 0..60 {
        rig.disk.cut_power_after(calls);
        let log = std::sync::Arc::<crate::memory_log::MemoryLog<()>>::clone(&rig.log);
        let opened = crate::Store::open(super::rig::options(&rig.disk), log);
        drop(opened);
        rig.disk = rig.disk.crash(&mut |_| if calls % 2 == 0 { Fate::Drop } else { Fate::Torn });
    }
    rig.open();
    rig.check_against_log();
}
