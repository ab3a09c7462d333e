use std::{path::Path, sync::atomic::Ordering};

use segment::Vfs;

use super::rig::{Rig, offset_and_body};
use crate::{GetStatus, Moment, append_log::AppendLog};

const START: u64 = 1_800_000_000_000;
const HOUR: u64 = 3_600_000;

/// One message an hour in each of two queues, each of 500 bytes.
fn aged(hours: u64) -> Rig {
    let mut rig = Rig::new();
    for hour in 0..hours {
        rig.clock.store(START + hour * HOUR, Ordering::SeqCst);
        let keys = format!("KEYS\u{1}H{hour}\u{2}");
        rig.send_with("T", 0, &["x".repeat(400)], &keys);
        rig.send_with("T", 1, &["y".repeat(400)], &keys);
    }
    rig.stop();
    rig.open();
    rig
}

fn clean_at(rig: &Rig, hours: u64) -> Option<u64> {
    rig.store().clean(Moment { now_ms: START + hours * HOUR, local_hour: 4 })
}

#[test]
fn expired_messages_go_from_log_queues_and_index() {
    let mut rig = aged(150);
    let files = rig.files("").len();
    assert_eq!(clean_at(&rig, 71), None);
    let trim = clean_at(&rig, 150).unwrap();
    rig.log.trim(trim);
    let min = rig.log.bounds().min;
    assert!(min > 0);
    let first_left = offset_and_body(&rig.get("T", 0, 5, 32).messages[0]).0;
    rig.store().cut_to_log();
    assert_eq!(clean_at(&rig, 150), None, "one step lets all go that it can");
    let first = rig.store().min_offset("T", 0);
    assert_eq!(first_left, first, "before the queues were cut, what had gone was passed over");
    // 72 hours are kept, and up to one sample (4 KiB, 4 hours) more.
    assert!((72..=78).contains(&first), "{first}");
    assert_eq!(rig.get("T", 0, 5, 32).status, GetStatus::OffsetTooSmall);
    assert_eq!(rig.get("T", 0, 5, 32).next_begin_offset, first);
    assert!(rig.files("").len() < files - 10);
    assert!(rig.disk.open(Path::new("store/consumequeue/T/0/00000000000000000000")).is_err());
    let all = (0, u64::MAX);
    assert!(rig.store().query_by_key("T", "H3", 9, all).messages.is_empty());
    for stage in ["running", "killed", "clean"] {
        assert_eq!(rig.store().query_by_key("T", "H149", 9, all).messages.len(), 2, "{stage}");
        assert_eq!(rig.store().min_offset("T", 0), first, "{stage}");
        rig.check_against_log();
        rig.end(stage == "killed");
        rig.open();
    }
}

/// Case 22 of the known faults, and a queue whose last message has gone: its next offset stays.
#[test]
fn an_emptied_queue_keeps_its_next_offset() {
    let mut rig = aged(10);
    rig.send("U", 0, 40, "a");
    rig.log.trim(rig.log.bounds().committed);
    assert_eq!(clean_at(&rig, 10), None);
    for stage in ["running", "killed", "clean", "without a mark"] {
        let (min, max) = (rig.store().min_offset("T", 0), rig.store().max_offset("T", 0));
        assert_eq!((min, max), (10, 10), "{stage}");
        let result = rig.get("T", 0, 3, 32);
        assert_eq!((result.status, result.next_begin_offset), (GetStatus::OffsetTooSmall, 10));
        rig.end(stage == "killed");
        if stage == "clean" {
            rig.disk.remove(Path::new("store/derived.mark")).unwrap();
        }
        rig.open();
    }
    rig.send("T", 0, 3, "a");
    assert_eq!(rig.read_all("T", 0).first().unwrap().0, 10);
    rig.check_against_log();
}

#[test]
fn a_dispatcher_that_the_log_left_behind_goes_on_at_its_start() {
    let mut rig = aged(20);
    rig.kill();
    let (log, mut parts) = (rig.log.bounds(), Vec::new());
    for hour in 0..20 {
        parts.push(format!("later {hour}"));
    }
    rig.open();
    rig.send_with("T", 0, &parts, "");
    rig.kill();
    rig.log.trim(log.committed);
    rig.open();
    assert_eq!(rig.store().min_offset("T", 0), 20);
    rig.check_against_log();
}

#[test]
fn a_deleted_topic_stays_deleted_and_keeps_its_next_offset() {
    let mut rig = Rig::new();
    rig.send("T", 0, 40, "a");
    rig.send("U", 0, 5, "a");
    rig.store().delete_topic("T").unwrap();
    for stage in ["running", "killed", "clean"] {
        assert_eq!(rig.get("T", 0, 0, 32).status, GetStatus::OffsetTooSmall, "{stage}");
        assert_eq!(rig.store().max_offset("T", 0), 40, "{stage}");
        assert_eq!(rig.store().queues(), [("U".to_owned(), vec![0])], "{stage}");
        rig.end(stage == "killed");
        rig.open();
    }
    rig.send("T", 0, 3, "a");
    for stage in ["running", "killed", "clean"] {
        let read = rig.read_all("T", 0);
        assert_eq!(read.iter().map(|one| one.0).collect::<Vec<_>>(), [40, 41, 42], "{stage}");
        rig.end(stage == "killed");
        rig.open();
    }
}
