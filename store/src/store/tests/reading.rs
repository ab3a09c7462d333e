use std::sync::atomic::Ordering;

use super::rig::Rig;
use crate::{Boundary, GetStatus};

#[test]
fn messages_are_found_at_their_offsets_and_statuses_are_those_of_java() {
    let rig = Rig::new();
    assert_eq!(rig.get("T", 0, 0, 32).status, GetStatus::NoMessageInQueue);
    rig.send("T", 0, 50, "a");
    let found = rig.get("T", 0, 0, 100);
    assert_eq!((found.status, found.messages.len()), (GetStatus::Found, 32));
    assert_eq!((found.next_begin_offset, found.min_offset, found.max_offset), (32, 0, 50));
    assert_eq!(rig.get("T", 0, 7, 0).messages.len(), 1);
    assert_eq!(rig.get("T", 0, 40, 32).messages.len(), 10);
    for (offset, status, next) in [
        (50, GetStatus::OffsetOverflowOne, 50),
        (51, GetStatus::OffsetOverflowBadly, 50),
        (-1, GetStatus::OffsetTooSmall, 0),
    ] {
        let result = rig.get("T", 0, offset, 32);
        assert_eq!((result.status, result.next_begin_offset), (status, next), "offset {offset}");
    }
    assert_eq!(rig.heard.0.lock().unwrap().len(), 50);
    rig.check_against_log();
}

#[test]
fn a_filter_scans_eight_hundred_units_at_most() {
    let rig = Rig::new();
    rig.send("T", 0, 1000, "a");
    rig.send("T", 0, 3, "b");
    let result = rig.get_tagged(("T", 0), 0, 32, Some("b"));
    assert_eq!((result.status, result.next_begin_offset), (GetStatus::NoMatchedMessage, 800));
    let result = rig.get_tagged(("T", 0), 800, 32, Some("b"));
    assert_eq!((result.status, result.messages.len()), (GetStatus::Found, 3));
    assert_eq!(result.next_begin_offset, 1003);
}

#[test]
fn the_first_message_comes_whatever_its_size_and_the_rest_within_the_bounds() {
    let rig = Rig::new();
    let bodies: Vec<_> =
        [300 << 10, 100 << 10, 100 << 10, 100 << 10].map(|size| "x".repeat(size)).into();
    rig.send_with("T", 0, &bodies, "");
    assert_eq!(rig.get("T", 0, 0, 32).messages.len(), 1);
    assert_eq!(rig.get("T", 0, 1, 32).messages.len(), 2);
}

#[test]
fn recent_units_are_read_without_the_disk_and_old_ones_with_it() {
    let rig = Rig::new();
    rig.send("T", 0, 100, "a");
    let any = |_| true;
    let request = |offset| crate::GetRequest {
        topic: "T",
        queue_id: 0,
        offset,
        max_messages: 1,
        max_bytes: 1 << 20,
        filter: &any,
        content: None,
    };
    assert!(rig.store().get_if_cached(&request(99)).is_some());
    rig.send("U", 0, 100, "a");
    rig.send("U", 0, 100, "a");
    assert!(rig.store().get_if_cached(&request(0)).is_none());
    assert!(rig.store().get_if_cached(&request(100)).is_some(), "the end needs no unit");
    assert_eq!(rig.store().get(&request(0)).messages.len(), 1);
}

#[test]
fn offsets_are_found_by_time() {
    let rig = Rig::new();
    assert_eq!(rig.store().offset_by_time("T", 0, 5, Boundary::Lower), 0);
    for (time, count) in [(100, 3), (200, 2), (300, 1)] {
        rig.clock.store(1_900_000_000_000 + time, Ordering::SeqCst);
        rig.send("T", 0, count, "a");
    }
    let lower = [50, 100, 150, 200, 300, 301]
        .map(|time| rig.store().offset_by_time("T", 0, 1_900_000_000_000 + time, Boundary::Lower));
    assert_eq!(lower, [0, 0, 3, 3, 5, 6]);
    assert_eq!(rig.store().store_time("T", 0, 3), Some(1_900_000_000_200));
    assert_eq!(rig.store().store_time("T", 0, 6), None);
    assert_eq!(rig.store().earliest_store_time(), Some(1_900_000_000_100));
}

#[test]
fn delayed_messages_have_the_time_they_are_due_as_tags_code() {
    let rig = Rig::new();
    rig.send_with("SCHEDULE_TOPIC_XXXX", 2, &["x".to_owned()], "DELAY\u{1}3\u{2}TAGS\u{1}a\u{2}");
    let units = rig.store().units("SCHEDULE_TOPIC_XXXX", 2, 0, 10);
    assert_eq!(units.len(), 1);
    assert_eq!(units[0].tags_code, 1_800_000_010_000);
    for (own, due) in [("2500", 1_800_000_002_500), ("soon", 1_800_000_010_000)] {
        let text = format!("DELAY\u{1}3\u{2}LEDGERMQ_DELAY_MS\u{1}{own}\u{2}");
        rig.send_with("SCHEDULE_TOPIC_XXXX", 2, &["x".to_owned()], &text);
        let units = rig.store().units("SCHEDULE_TOPIC_XXXX", 2, 0, 10);
        assert_eq!(units.last().map(|unit| unit.tags_code), Some(due), "{own}");
    }
}

#[test]
fn keys_are_found_in_all_files_newest_first_and_by_time() {
    let mut rig = Rig::new();
    for nth in 0..100_u64 {
        rig.clock.store(1_900_000_000_000 + nth * 1000, Ordering::SeqCst);
        let properties = format!("UNIQ_KEY\u{1}U{nth}\u{2}KEYS\u{1}all K{}\u{2}", nth % 10);
        rig.send_with("T", 0, &[format!("m{nth}")], &properties);
    }
    assert!(rig.files("index").len() > 5, "{:?}", rig.files("index"));
    for stage in ["running", "clean", "killed"] {
        let all = (0, u64::MAX);
        let one = rig.store().query_by_key("T", "U37", 32, all);
        assert_eq!(one.messages.len(), 1, "{stage}");
        assert_eq!(one.last_update_timestamp, 1_900_000_099_000);
        assert_eq!(rig.store().query_by_key("T", "K7", 32, all).messages.len(), 10, "{stage}");
        let newest = rig.store().query_by_key("T", "all", 5, all).messages;
        let bodies: Vec<_> =
            newest.iter().map(|record| super::rig::offset_and_body(record).1).collect();
        assert_eq!(bodies, ["m95", "m96", "m97", "m98", "m99"], "{stage}");
        let range = (1_900_000_010_000, 1_900_000_019_000);
        assert_eq!(rig.store().query_by_key("T", "all", 32, range).messages.len(), 10, "{stage}");
        assert!(rig.store().query_by_key("T", "none", 32, all).messages.is_empty());
        assert!(rig.store().query_by_key("U", "all", 32, all).messages.is_empty());
        rig.end(stage == "running");
        rig.open();
    }
}

/// Readers see every message once and in order while queues grow, leave memory and are cut.
#[test]
fn readers_see_every_message_once_while_queues_grow() {
    const BATCHES: u64 = 60;
    const EACH: u64 = 20;
    let rig = Rig::new();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2_u32)
            .map(|queue| {
                let rig = &rig;
                scope.spawn(move || {
                    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
                    let mut next = 0;
                    while next < BATCHES * EACH {
                        assert!(std::time::Instant::now() < deadline, "stopped at {next}");
                        let result = rig.get("T", queue, next.cast_signed(), 32);
                        for record in &result.messages {
                            let (offset, body) = super::rig::offset_and_body(record);
                            assert_eq!((offset, body), (next, super::rig::body("T", queue, next)));
                            next += 1;
                        }
                        assert!(result.max_offset >= next);
                    }
                })
            })
            .collect();
        for _ in 0..BATCHES {
            rig.send("T", 0, EACH, "a");
            rig.send("T", 1, EACH, "a");
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    rig.check_against_log();
}
