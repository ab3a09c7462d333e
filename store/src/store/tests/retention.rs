use std::{path::Path, sync::atomic::Ordering};

use segment::Vfs;

use super::rig::{Rig, offset_and_body};
use crate::{GetStatus, Moment, append_log::AppendLog, journal::Record};

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
    rig.store().clean(Moment { now_ms: START + hours * HOUR, local_hour: 4, used_ratio: 0.0 })
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
    rig.delete_topic("T");
    for stage in ["running", "killed", "clean"] {
        assert_eq!(rig.get("T", 0, 0, 32).status, GetStatus::OffsetTooSmall, "{stage}");
        assert_eq!(rig.store().max_offset("T", 0), 40, "{stage}");
        let mut queues = rig.store().queues();
        queues.sort_unstable();
        let journal = crate::journal::TOPIC.to_owned();
        assert_eq!(queues, [("U".to_owned(), vec![0]), (journal, vec![0])], "{stage}");
        rig.end(stage != "killed");
        if stage == "clean" {
            rig.disk.remove(Path::new("store/derived.mark")).unwrap();
        }
        rig.open();
    }
    assert_eq!(rig.store().max_offset("T", 0), 40, "the record in the log tells it again");
    assert_eq!(rig.get("T", 0, 0, 32).status, GetStatus::OffsetTooSmall);
    rig.send("T", 0, 3, "a");
    for stage in ["running", "killed", "clean"] {
        let read = rig.read_all("T", 0);
        assert_eq!(read.iter().map(|one| one.0).collect::<Vec<_>>(), [40, 41, 42], "{stage}");
        rig.end(stage != "killed");
        rig.open();
    }
}

/// A queue that is derived again from before the deletion of its topic, because another one was
/// damaged, keeps what came since.
#[test]
fn a_deletion_that_is_seen_twice_keeps_what_came_since() {
    let mut rig = Rig::new();
    rig.send("U", 0, 5, "a");
    rig.send("T", 0, 40, "a");
    rig.delete_topic("T");
    rig.send("T", 0, 3, "a");
    rig.stop();
    for file in rig.files("consumequeue/U") {
        rig.disk.remove(&file).unwrap();
    }
    rig.open();
    let read = rig.read_all("T", 0);
    assert_eq!(read.iter().map(|one| one.0).collect::<Vec<_>>(), [40, 41, 42]);
    assert_eq!(rig.read_all("U", 0).len(), 5);
}

/// A node that lost its derived files, and whose log does not hold a queue's messages any more,
/// learns from a snapshot of the journal where the queue goes on.
#[test]
fn a_snapshot_tells_where_expired_queues_go_on() {
    let mut rig = Rig::new();
    rig.send("Old", 0, 30, "a");
    rig.send("Kept", 0, 5, "a");
    let queues = rig.store().queue_ranges();
    let tables = crate::journal::Tables::default();
    let begin = rig.store().max_physical();
    rig.journal(&Record::Begin { snapshot: 1 });
    for record in crate::journal::snapshot_records(1, &tables, queues).unwrap() {
        rig.journal(&record);
    }
    rig.send("Kept", 0, 2, "a");
    rig.log.trim(begin);
    rig.kill();
    rig.disk.remove(Path::new("store/derived.mark")).unwrap();
    for file in rig.files("consumequeue") {
        if rig.disk.open(&file).is_ok() {
            rig.disk.remove(&file).unwrap();
        }
    }
    rig.open_idle();
    let min = rig.log.bounds().min;
    let mut tails = rig.store().tail_source().tails(min);
    for (_, record) in rig.log.read_forward(min, usize::MAX).unwrap().records {
        tails.fold(&record);
    }
    assert_eq!((tails.next("Old", 0), tails.next("Kept", 0)), (30, 7));
    rig.dispatch();
    assert_eq!(rig.store().max_offset("Old", 0), 30);
    assert_eq!(rig.read_all("Kept", 0).iter().map(|one| one.0).collect::<Vec<_>>(), [5, 6]);
    rig.send("Old", 0, 1, "a");
    assert_eq!(rig.read_all("Old", 0)[0].0, 30);
}

/// Everything before a position is derived, the journal too: a start reads what is behind it.
#[test]
fn the_journal_is_read_from_any_position() {
    let mut rig = Rig::new();
    let mut places = Vec::new();
    for term in 0..5 {
        rig.send("T", 0, 20, "a");
        places.push(rig.store().max_physical());
        rig.journal(&Record::Opening { term });
    }
    rig.stop();
    rig.open_idle();
    for (first, place) in places.iter().enumerate() {
        let mut terms = Vec::new();
        let mut each = |record: &crate::JournalRecord<'_>| {
            let Ok(Record::Opening { term }) = crate::journal::decode(record.body) else {
                panic!("{record:?}")
            };
            assert_eq!(record.position, places[usize::try_from(term).unwrap()]);
            terms.push(term);
            term < 3
        };
        rig.store().read_journal(*place, &mut each).unwrap();
        let expected: Vec<_> = (first as u64..=(first as u64).max(3)).collect();
        assert_eq!(terms, expected, "from {place}");
    }
}
