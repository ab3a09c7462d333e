use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use super::*;
use crate::{
    Arrival, BatchBuilder, GetStatus,
    append_log::{CommitSink, Completed},
    memory_log::{MemoryLog, test_record},
};

#[derive(Debug, Default)]
struct Sink;

impl CommitSink<()> for Sink {
    fn completed(&self, _group: Vec<Completed<()>>) {}
}

#[derive(Debug, Default)]
struct Heard(Mutex<Vec<Arrival>>);

impl ArrivalListener for Heard {
    fn arrived(&self, arrivals: &[Arrival]) {
        self.0.lock().unwrap().extend_from_slice(arrivals);
    }
}

struct Rig {
    log: Arc<MemoryLog<()>>,
    store: Store<()>,
    heard: Arc<Heard>,
    _root: tempfile::TempDir,
}

fn rig() -> Rig {
    let root = tempfile::tempdir().unwrap();
    let log = Arc::new(MemoryLog::new(Arc::new(Sink)));
    let store =
        Store::open(StoreOptions::new(root.path()), Arc::<MemoryLog<()>>::clone(&log)).unwrap();
    let heard = Arc::new(Heard::default());
    store.start_dispatch(Arc::<Heard>::clone(&heard));
    Rig { log, store, heard, _root: root }
}

impl Rig {
    fn send(&self, topic: &str, queue_id: u32, count: usize, tag: &str) {
        let mut builder = BatchBuilder::new();
        for at in 0..count {
            let body = format!("{topic}-{queue_id}-{at}");
            let properties = format!("TAGS\u{1}{tag}\u{2}");
            builder.push_bytes(&test_record(topic, queue_id, body.as_bytes(), &properties));
        }
        let before = self.log.bounds().committed;
        self.store.submit(builder.finish(())).unwrap();
        assert!(self.log.wait_committed(before, Duration::from_secs(10)) > before);
        self.settle();
    }

    fn settle(&self) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.store.dispatch_behind_bytes() > 0 {
            assert!(Instant::now() < deadline, "dispatcher does not catch up");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn get(&self, offset: i64, max: u32, tag: Option<&str>) -> GetResult {
        let wanted = tag.map(|tag| protocol::message::tags::tags_code(tag));
        let filter = |code| wanted.is_none_or(|wanted| wanted == code);
        let request = GetRequest {
            topic: "T",
            queue_id: 0,
            offset,
            max_messages: max,
            max_bytes: 1 << 27,
            filter: &filter,
        };
        self.store.get(&request)
    }
}

#[test]
fn messages_are_found_at_their_offsets_and_statuses_are_those_of_java() {
    let rig = rig();
    assert_eq!(rig.get(0, 32, None).status, GetStatus::NoMessageInQueue);
    rig.send("T", 0, 50, "a");
    let found = rig.get(0, 100, None);
    assert_eq!((found.status, found.messages.len()), (GetStatus::Found, 32));
    assert_eq!((found.next_begin_offset, found.min_offset, found.max_offset), (32, 0, 50));
    assert_eq!(rig.get(7, 0, None).messages.len(), 1);
    assert_eq!(rig.get(40, 32, None).messages.len(), 10);
    for (offset, status, next) in [
        (50, GetStatus::OffsetOverflowOne, 50),
        (51, GetStatus::OffsetOverflowBadly, 50),
        (-1, GetStatus::OffsetTooSmall, 0),
    ] {
        let result = rig.get(offset, 32, None);
        assert_eq!((result.status, result.next_begin_offset), (status, next), "offset {offset}");
    }
    assert_eq!(rig.heard.0.lock().unwrap().len(), 50);
}

#[test]
fn a_filter_scans_eight_hundred_units_at_most() {
    let rig = rig();
    rig.send("T", 0, 1000, "a");
    rig.send("T", 0, 3, "b");
    let result = rig.get(0, 32, Some("b"));
    assert_eq!((result.status, result.next_begin_offset), (GetStatus::NoMatchedMessage, 800));
    let result = rig.get(800, 32, Some("b"));
    assert_eq!((result.status, result.messages.len()), (GetStatus::Found, 3));
    assert_eq!(result.next_begin_offset, 1003);
}
