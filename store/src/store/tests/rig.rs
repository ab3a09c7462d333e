//! A store with small files whose log outlives it.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, atomic::AtomicU64},
    time::{Duration, Instant},
};

use bytes::Bytes;
use protocol::message::{record::RecordView, tags};
use segment::{SimVfs, Vfs};

use crate::{
    Arrival, ArrivalListener, BatchBuilder, GetRequest, GetResult, GetStatus, Store, StoreOptions,
    append_log::{AppendLog, CommitSink, Completed},
    memory_log::{MemoryLog, test_record},
};

#[derive(Debug, Default)]
pub(super) struct Sink;

impl CommitSink<()> for Sink {
    fn completed(&self, _group: Vec<Completed<()>>) {}
}

#[derive(Debug, Default)]
pub(super) struct Heard(pub(super) Mutex<Vec<Arrival>>);

impl ArrivalListener for Heard {
    fn arrived(&self, arrivals: &[Arrival]) {
        self.0.lock().unwrap().extend_from_slice(arrivals);
    }
}

pub(super) struct Rig {
    pub(super) log: Arc<MemoryLog<()>>,
    pub(super) disk: SimVfs,
    pub(super) store: Option<Store<()>>,
    pub(super) heard: Arc<Heard>,
    pub(super) clock: Arc<AtomicU64>,
}

pub(super) const UNITS_PER_FILE: u64 = 16;

pub(super) fn options(disk: &SimVfs) -> StoreOptions {
    StoreOptions {
        vfs: Arc::new(disk.clone()),
        consume_queue_file_size: UNITS_PER_FILE * 20,
        index_slots: 8,
        index_entries: 32,
        log_file_size: 64 << 10,
        recent_log_bytes: 4 << 10,
        mark_interval: Duration::from_millis(20),
        idle_wait: Duration::from_millis(2),
        ..StoreOptions::new("store")
    }
}

pub(super) fn new_log(clock: &Arc<AtomicU64>) -> Arc<MemoryLog<()>> {
    let clock = Arc::clone(clock);
    let now = move || clock.load(std::sync::atomic::Ordering::SeqCst);
    Arc::new(MemoryLog::with_clock(Arc::new(Sink), now))
}

impl Rig {
    pub(super) fn new() -> Self {
        let clock = Arc::new(AtomicU64::new(1_800_000_000_000));
        let mut rig = Self {
            log: new_log(&clock),
            disk: SimVfs::new(),
            store: None,
            heard: Arc::default(),
            clock,
        };
        rig.open();
        rig
    }

    /// Opens the store and waits until everything is derived.
    pub(super) fn open(&mut self) {
        self.open_idle();
        self.dispatch();
    }

    pub(super) fn open_idle(&mut self) {
        assert!(self.store.is_none(), "the store is open");
        let log = Arc::<MemoryLog<()>>::clone(&self.log);
        self.store = Some(Store::open(options(&self.disk), log).unwrap());
    }

    pub(super) fn dispatch(&self) {
        self.store().start_dispatch(Arc::<Heard>::clone(&self.heard));
        self.settle();
    }

    pub(super) fn store(&self) -> &Store<()> {
        self.store.as_ref().unwrap()
    }

    pub(super) fn stop(&mut self) {
        self.store.take().unwrap().shutdown();
    }

    /// What a killed process leaves.
    pub(super) fn kill(&mut self) {
        self.store = None;
        self.disk = self.disk.after_kill();
    }

    pub(super) fn end(&mut self, clean: bool) {
        if clean {
            self.stop();
        } else {
            self.kill();
        }
    }

    pub(super) fn settle(&self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.store().dispatch_behind_bytes() > 0 {
            assert!(Instant::now() < deadline, "dispatcher does not catch up");
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    pub(super) fn send_with(
        &self,
        topic: &str,
        queue_id: u32,
        bodies: &[String],
        properties: &str,
    ) {
        let mut builder = BatchBuilder::new();
        for body in bodies {
            builder.push_bytes(&test_record(topic, queue_id, body.as_bytes(), properties));
        }
        let before = self.log.bounds().committed;
        self.store().submit(builder.finish(())).unwrap();
        assert!(self.log.wait_committed(before, Duration::from_secs(20)) > before);
        self.settle();
    }

    /// Sends `count` messages with bodies that name their queue and offset.
    pub(super) fn send(&self, topic: &str, queue_id: u32, count: u64, tag: &str) {
        let next = self.store().max_offset(topic, queue_id);
        let bodies: Vec<_> = (next..next + count).map(|at| body(topic, queue_id, at)).collect();
        self.send_with(topic, queue_id, &bodies, &format!("TAGS\u{1}{tag}\u{2}"));
    }

    pub(super) fn get(&self, topic: &str, queue_id: u32, offset: i64, max: u32) -> GetResult {
        self.get_tagged((topic, queue_id), offset, max, None)
    }

    pub(super) fn get_tagged(
        &self,
        (topic, queue_id): (&str, u32),
        offset: i64,
        max: u32,
        tag: Option<&str>,
    ) -> GetResult {
        let wanted = tag.map(tags::tags_code);
        let filter = |code| wanted.is_none_or(|wanted| wanted == code);
        let request = GetRequest {
            topic,
            queue_id,
            offset,
            max_messages: max,
            max_bytes: 1 << 27,
            filter: &filter,
        };
        let result = self.store().get(&request);
        if let Some(cached) = self.store().get_if_cached(&request)
            && cached.status != GetStatus::Found
        {
            assert_eq!(cached.status, result.status);
            assert_eq!(cached.next_begin_offset, result.next_begin_offset);
        }
        result
    }

    /// Bodies of a whole queue with the offsets that their records say they have.
    pub(super) fn read_all(&self, topic: &str, queue_id: u32) -> Vec<(u64, String)> {
        let mut at = self.store().min_offset(topic, queue_id);
        let max = self.store().max_offset(topic, queue_id);
        let mut all = Vec::new();
        while at < max {
            let result = self.get(topic, queue_id, at.cast_signed(), 32);
            assert!(result.next_begin_offset > at, "{topic}/{queue_id} at {at}: {result:?}");
            all.extend(result.messages.iter().map(offset_and_body));
            at = result.next_begin_offset;
        }
        all
    }

    /// Every queue of the log holds what the log says, nothing else.
    pub(super) fn check_against_log(&self) {
        let bounds = self.log.bounds();
        let run = self.log.read_forward(bounds.min, usize::MAX).unwrap();
        let mut expected: BTreeMap<(String, u32), Vec<(u64, String)>> = BTreeMap::new();
        for (_, record) in &run.records {
            let view = RecordView::parse(record).unwrap();
            let queue = (view.topic().to_owned(), view.queue_id().cast_unsigned());
            expected.entry(queue).or_default().push(offset_and_body(record));
        }
        for ((topic, queue_id), messages) in &expected {
            assert_eq!(&self.read_all(topic, *queue_id), messages, "{topic}/{queue_id}");
            let max = self.store().max_offset(topic, *queue_id);
            assert_eq!(max, messages.last().unwrap().0 + 1);
        }
        assert_eq!(self.store().counters().misplaced.load(std::sync::atomic::Ordering::SeqCst), 0);
    }

    /// All files under a folder of the store, with their folders.
    pub(super) fn files(&self, folder: &str) -> Vec<std::path::PathBuf> {
        fn walk(disk: &SimVfs, folder: &Path, found: &mut Vec<std::path::PathBuf>) {
            for name in disk.list(folder).unwrap_or_default() {
                found.push(folder.join(name));
            }
            for name in disk.list_directories(folder).unwrap_or_default() {
                walk(disk, &folder.join(name), found);
            }
        }
        let mut found = Vec::new();
        walk(&self.disk, &Path::new("store").join(folder), &mut found);
        found
    }
}

pub(super) fn body(topic: &str, queue_id: u32, offset: u64) -> String {
    format!("{topic}-{queue_id}-{offset}")
}

pub(super) fn offset_and_body(record: &Bytes) -> (u64, String) {
    let view = RecordView::parse(record).unwrap();
    let body = String::from_utf8(view.body().to_vec()).unwrap();
    (view.queue_offset().cast_unsigned(), body)
}
