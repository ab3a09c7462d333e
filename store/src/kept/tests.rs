use segment::SimVfs;

use super::*;
use crate::{memory_log::test_record, native::restamp};

fn options(disk: &SimVfs) -> StoreOptions {
    StoreOptions {
        vfs: Arc::new(disk.clone()),
        consume_queue_file_size: 16 * 20,
        ..StoreOptions::new("store")
    }
}

fn record(topic: &str, offset: u64, physical: u64) -> Vec<u8> {
    let mut record = test_record(topic, 0, b"body", "").to_vec();
    restamp(&mut record, Some(offset), physical);
    record
}

fn topics(names: &[&str]) -> HashSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Writes the units of queue 0 of a topic, at these physical offsets.
fn queue(options: &StoreOptions, topic: &str, from: u64, physical: &[u64]) {
    let handles = Arc::new(Handles::new(Arc::clone(&options.vfs), 8));
    let units: Vec<_> = (from..)
        .zip(physical)
        .map(|(offset, physical)| Unit { offset, physical: *physical, size: 100, tags_code: 0 })
        .collect();
    files_of(&options.root, options, &handles, (0, topic, 0)).write(&units).unwrap();
}

#[test]
fn a_queue_without_a_message_keeps_its_next_offset() {
    let disk = SimVfs::new();
    let options = options(&disk);
    let span = QueueSpan { topic: Arc::from("T"), id: 3, first: 70, next: 70, messages: 0 };
    write_empty_queues(&options, std::slice::from_ref(&span)).unwrap();
    let kept = KeptQueues::open(&options, 4096, topics(&["T"])).unwrap();
    assert_eq!(kept.spans(), [span]);
}

#[test]
fn a_queue_begins_where_its_units_do() {
    let disk = SimVfs::new();
    let options = options(&disk);
    // The first unit is of a message that has expired.
    queue(&options, "T", 4, &[50, 300, 500]);
    let mut kept = KeptQueues::open(&options, 100, topics(&["T", "Young"])).unwrap();
    let mut place =
        |topic, offset, physical| kept.place(physical, &record(topic, offset, physical));
    // Of a topic of the same name that was deleted.
    assert_eq!(place("T", 9, 100), Place::Deleted);
    assert_eq!(place("T", 5, 300), Place::Queued(5));
    assert_eq!(place("Gone", 0, 400), Place::Deleted);
    assert_eq!(place("T", 6, 500), Place::Queued(6));
    // Without a unit, as a killed Java broker leaves it; and with an offset that was given twice.
    assert_eq!(place("T", 6, 700), Place::Queued(7));
    assert_eq!(place("Young", 0, 900), Place::Queued(0));
    assert!(matches!(kept.place(1000, b"no message"), Place::Unreadable(_)));
    let spans: Vec<_> = kept.spans().into_iter().map(|span| (span.first, span.next)).collect();
    assert_eq!(spans, [(5, 8), (0, 1)]);
}

#[test]
fn without_queue_files_all_records_are_taken() {
    let disk = SimVfs::new();
    let mut kept = KeptQueues::open(&options(&disk), 0, HashSet::new()).unwrap();
    assert_eq!(kept.place(0, &record("T", 12, 0)), Place::Queued(12));
}
