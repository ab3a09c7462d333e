//! The ends of queues for one that takes over the log.

use super::rig::Rig;
use crate::{append_log::AppendLog, tails::Tails};

/// What a new leader does: the ends at the dispatch point, and all that the log has behind it.
fn taken_over(rig: &Rig) -> Tails {
    let min = rig.log.bounds().min;
    let mut tails = rig.store().tail_source().tails(min);
    assert!(tails.position() >= min);
    let mut at = tails.position();
    while at < rig.log.bounds().committed {
        let run = rig.log.read_forward(at, 1 << 20).unwrap();
        run.records.iter().for_each(|(_, record)| tails.fold(record));
        at = run.next;
    }
    tails
}

fn check(rig: &Rig, expected: &[(&str, u32, u64)]) {
    let tails = taken_over(rig);
    for (topic, queue, next) in expected {
        assert_eq!(tails.next(topic, *queue), *next, "{topic}/{queue}");
    }
}

#[test]
fn one_that_takes_over_goes_on_where_the_log_ends_wherever_its_queues_are() {
    let mut rig = Rig::new();
    rig.send("T", 0, 30, "a");
    rig.send("T", 1, 5, "a");
    rig.end(true);
    rig.open();
    rig.send("T", 0, 20, "a");
    rig.send("U", 7, 3, "a");
    let expected = [("T", 0, 50), ("T", 1, 5), ("U", 7, 3)];
    check(&rig, &expected);
    // Its queues are behind: the last mark is that of the clean stop.
    rig.kill();
    rig.open_idle();
    assert!(rig.store().dispatched() < rig.log.bounds().committed);
    check(&rig, &expected);
}

#[test]
fn a_deleted_topic_goes_on_at_its_next_offset_also_where_its_queues_are_behind() {
    let mut rig = Rig::new();
    rig.send("T", 0, 10, "a");
    rig.end(true);
    rig.open();
    rig.send("T", 0, 4, "a");
    rig.kill();
    rig.open_idle();
    rig.delete_topic_idle("T");
    check(&rig, &[("T", 0, 14)]);
}

#[test]
fn ends_are_never_those_of_a_position_that_was_trimmed_away() {
    let mut rig = Rig::new();
    rig.send("T", 0, 10, "a");
    rig.end(true);
    rig.open();
    rig.send("T", 0, 40, "a");
    let trimmed = rig.log.bounds().committed;
    rig.send("T", 0, 2, "a");
    rig.send("U", 0, 2, "a");
    rig.kill();
    rig.log.trim(trimmed);
    rig.open_idle();
    assert!(rig.store().dispatched() >= trimmed, "the store goes on at the log's start");
    check(&rig, &[("T", 0, 52), ("U", 0, 2)]);
    // A log that lost its front while the store is open: a member that was sent one anew.
    rig.send_idle("T", 3);
    let trimmed = rig.log.bounds().committed;
    rig.send_idle("T", 2);
    rig.log.trim(trimmed);
    check(&rig, &[("T", 0, 57)]);
}
