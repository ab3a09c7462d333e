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
    Arrival, ArrivalListener, BatchBuilder, GetRequest, GetResult, GetStatus, JournalRecord, Store,
    StoreOptions,
    append_log::{AppendLog, CommitSink, Completed},
    journal::{self, Change, Record},
    memory_log::{MemoryLog, test_record},
};

#[derive(Debug, Default)]
pub(crate) struct Sink;

impl CommitSink<()> for Sink {
    fn completed(&self, _group: Vec<Completed<()>>) {}
}

#[derive(Debug, Default)]
pub(crate) struct Heard(pub(crate) Mutex<Vec<Arrival>>);

impl ArrivalListener for Heard {
    fn arrived(&self, arrivals: &[Arrival]) {
        self.0.lock().unwrap().extend_from_slice(arrivals);
    }

    fn journal(&self, _record: &JournalRecord<'_>) -> bool {
        true
    }
}

pub(crate) struct Rig {
    pub(crate) log: Arc<MemoryLog<()>>,
    pub(crate) disk: SimVfs,
    pub(crate) store: Option<Store<()>>,
    pub(crate) heard: Arc<Heard>,
    pub(crate) clock: Arc<AtomicU64>,
}

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const UNITS_PER_FILE: u64 = 16;

pub(crate) fn options(disk: &SimVfs) -> StoreOptions {
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

pub(crate) fn new_log(clock: &Arc<AtomicU64>) -> Arc<MemoryLog<()>> {
    let clock = Arc::clone(clock);
    let now = move || clock.load(std::sync::atomic::Ordering::SeqCst);
    Arc::new(MemoryLog::with_clock(Arc::new(Sink), now))
}

impl Rig {
    pub(crate) fn new() -> Self {
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
    pub(crate) fn open(&mut self) {
        self.open_idle();
        self.dispatch();
    }

    pub(crate) fn open_idle(&mut self) {
        assert!(self.store.is_none(), "the store is open");
        let log = Arc::<MemoryLog<()>>::clone(&self.log);
        self.store = Some(Store::open(options(&self.disk), log).unwrap());
    }

    pub(crate) fn dispatch(&self) {
        self.store().start_dispatch(Arc::<Heard>::clone(&self.heard));
        self.settle();
    }

    pub(crate) fn store(&self) -> &Store<()> {
        self.store.as_ref().unwrap()
    }

    pub(crate) fn stop(&mut self) {
        self.store.take().unwrap().shutdown();
    }

    /// What a killed process leaves.
    pub(crate) fn kill(&mut self) {
        self.store = None;
        self.disk = self.disk.after_kill();
    }

    pub(crate) fn end(&mut self, clean: bool) {
        if clean {
            self.stop();
        } else {
            self.kill();
        }
    }

    /// Waits until the mark on the disk names all that is committed.
    pub(crate) fn await_mark(&self) {
        let committed = self.log.bounds().committed;
        let named = || self.store().derived.load_mark().unwrap().map_or(0, |mark| mark.position);
        let deadline = Instant::now() + PATIENCE;
        while named() < committed {
            assert!(Instant::now() < deadline, "the mark is at {}", named());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn settle(&self) {
        let deadline = Instant::now() + PATIENCE;
        while self.store().dispatch_behind_bytes() > 0 {
            assert!(Instant::now() < deadline, "dispatcher does not catch up");
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    pub(crate) fn send_with(
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
        assert!(self.log.wait_committed(before, PATIENCE) > before);
        self.settle();
    }

    /// Sends messages to queue 0 while nobody dispatches.
    pub(crate) fn send_idle(&self, topic: &str, count: usize) {
        for _ in 0..count {
            self.append_idle(topic, b"idle");
        }
    }

    /// Writes the record that deletes a topic while nobody dispatches.
    pub(crate) fn delete_topic_idle(&self, topic: &str) {
        let changes = vec![Change::DeleteTopic(topic.to_owned())];
        self.append_idle(journal::TOPIC, &Record::Changes { changes }.encode().unwrap());
    }

    fn append_idle(&self, topic: &str, body: &[u8]) {
        let mut builder = BatchBuilder::new();
        builder.push_bytes(&test_record(topic, 0, body, ""));
        let before = self.log.bounds().committed;
        self.store().submit(builder.finish(())).unwrap();
        assert!(self.log.wait_committed(before, PATIENCE) > before);
    }

    /// Deletes a topic as a leader does: by a record of the journal.
    pub(crate) fn delete_topic(&self, topic: &str) {
        self.journal(&Record::Changes { changes: vec![Change::DeleteTopic(topic.to_owned())] });
    }

    /// Writes a record of the journal.
    pub(crate) fn journal(&self, record: &Record) {
        let body = String::from_utf8(record.encode().unwrap()).unwrap();
        self.send_with(journal::TOPIC, 0, &[body], "");
    }

    /// Sends `count` messages with bodies that name their queue and offset.
    pub(crate) fn send(&self, topic: &str, queue_id: u32, count: u64, tag: &str) {
        let next = self.store().max_offset(topic, queue_id);
        let bodies: Vec<_> = (next..next + count).map(|at| body(topic, queue_id, at)).collect();
        self.send_with(topic, queue_id, &bodies, &format!("TAGS\u{1}{tag}\u{2}"));
    }

    pub(crate) fn get(&self, topic: &str, queue_id: u32, offset: i64, max: u32) -> GetResult {
        self.get_tagged((topic, queue_id), offset, max, None)
    }

    pub(crate) fn get_tagged(
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
            content: None,
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
    pub(crate) fn read_all(&self, topic: &str, queue_id: u32) -> Vec<(u64, String)> {
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
    pub(crate) fn check_against_log(&self) {
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
    pub(crate) fn files(&self, folder: &str) -> Vec<std::path::PathBuf> {
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

pub(crate) fn body(topic: &str, queue_id: u32, offset: u64) -> String {
    format!("{topic}-{queue_id}-{offset}")
}

pub(crate) fn offset_and_body(record: &Bytes) -> (u64, String) {
    let view = RecordView::parse(record).unwrap();
    let body = String::from_utf8(view.body().to_vec()).unwrap();
    (view.queue_offset().cast_unsigned(), body)
}
