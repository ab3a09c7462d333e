//! The dispatcher: reads committed records in order and derives queues and index from them.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    io,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use protocol::message::{
    properties::{self, key},
    tags,
};

use crate::{
    append_log::{AppendLog, HEADROOM, ReadError, Run},
    consume_queue::{ConsumeQueue, QueueState},
    delay_level::DelayLevels,
    derived::{Derived, Progress},
    index_file::Key,
    placement::QueueEnd,
    record::{Record, store_timestamp},
    unit::Unit,
};

/// One message that a queue has got.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// Topic of the queue.
    pub topic: Arc<str>,
    /// Id of the queue.
    pub queue_id: u32,
    /// Offset of the message.
    pub offset: u64,
    /// Next offset of the queue behind this message.
    pub next_offset: u64,
    /// Hash of its tag; in the schedule topic the time at which it is due.
    pub tags_code: i64,
    /// Physical offset of its record.
    pub physical: u64,
    /// Bytes of its record.
    pub size: u32,
    /// When it was stored, in milliseconds.
    pub store_timestamp: u64,
}

/// Is told what the queues have got.
pub trait ArrivalListener: Send + Sync {
    /// Called on the dispatcher's thread, once for each batch, when the messages can be read. It
    /// must not block.
    fn arrived(&self, arrivals: &[Arrival]);
}

/// Topic of delayed messages.
const SCHEDULE_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";
/// Units of a queue that are worth a write; fewer wait for the next mark.
const MANY_UNITS: u64 = 64;
/// Bytes of records dispatched together.
const BATCH_BYTES: usize = 1 << 20;
/// How long it waits after a failure before it tries again: at first, and at most.
const AFTER_FAILURE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));

/// The state of the dispatcher's thread.
pub(crate) struct Dispatcher<T> {
    log: Arc<dyn AppendLog<T>>,
    derived: Arc<Derived>,
    listener: Arc<dyn ArrivalListener>,
    /// Queues that have units in memory, each once, with the log position at which it was listed.
    listed: VecDeque<(u64, Arc<ConsumeQueue>)>,
    serials: HashSet<usize>,
}

/// What a batch of records adds.
#[derive(Default)]
struct Additions {
    queues: Vec<Added>,
    places: HashMap<usize, usize>,
    keys: Vec<Key>,
    arrivals: Vec<Arrival>,
}

/// Units of one queue that a batch adds.
struct Added {
    queue: Arc<ConsumeQueue>,
    units: Vec<Unit>,
    end: QueueEnd,
    cleared_below: u64,
}

impl<T: Send> Dispatcher<T> {
    pub(crate) fn new(
        log: Arc<dyn AppendLog<T>>,
        derived: Arc<Derived>,
        listener: Arc<dyn ArrivalListener>,
    ) -> Self {
        Self { log, derived, listener, listed: VecDeque::new(), serials: HashSet::new() }
    }

    /// Runs until the store stops.
    pub(crate) fn run(mut self) {
        let idle = self.derived.options.idle_wait;
        let mut pause = AFTER_FAILURE.0;
        while !self.derived.stopping.load(Ordering::Acquire) {
            let position = self.derived.dispatched();
            let committed = self.log.wait_committed(position, idle);
            if committed <= position || self.step(position) {
                pause = AFTER_FAILURE.0;
            } else {
                std::thread::sleep(pause);
                pause = (pause * 2).min(AFTER_FAILURE.1);
            }
        }
    }

    /// Dispatches one batch. False where it has to be tried again; the cause was logged.
    fn step(&mut self, position: u64) -> bool {
        match self.log.read_forward(position, BATCH_BYTES) {
            Ok(run) => {
                let derived = Arc::clone(&self.derived);
                let mut progress = derived.progress();
                let additions = self.collect(&run.records);
                let written = self.show(&additions, &run, &mut progress);
                drop(progress);
                // Also after a failure: the next try finds nothing new in the same batch.
                if !additions.arrivals.is_empty() {
                    self.listener.arrived(&additions.arrivals);
                }
                self.forget(&additions, run.next);
                if let Err(error) = &written {
                    derived.counters.write_errors.fetch_add(1, Ordering::Relaxed);
                    tracing::error!(position, %error, "derived files cannot be written; trying again");
                }
                written.is_ok()
            }
            Err(ReadError::OutOfRange { min, .. }) if position < min => {
                tracing::warn!(
                    position,
                    min,
                    "log was trimmed past the dispatcher; going on at its start"
                );
                let derived = Arc::clone(&self.derived);
                let _progress = derived.progress();
                derived.skip_to(min);
                true
            }
            Err(error) => {
                tracing::error!(position, %error, "log cannot be dispatched; trying again");
                false
            }
        }
    }

    fn collect(&self, records: &[(u64, Bytes)]) -> Additions {
        let mut additions = Additions::default();
        for (physical, bytes) in records {
            match Record::read(bytes) {
                Ok(record) => self.add(&mut additions, &record, *physical),
                Err(error) => {
                    self.derived.counters.unreadable.fetch_add(1, Ordering::Relaxed);
                    tracing::error!(physical, %error, "committed record cannot be dispatched");
                }
            }
        }
        additions
    }

    /// Shows what a batch adds, and writes what has become enough for a write.
    fn show(&self, additions: &Additions, run: &Run, progress: &mut Progress) -> io::Result<()> {
        for added in &additions.queues {
            added.queue.publish(&added.units, added.end);
        }
        for added in &additions.queues {
            added.queue.write_pending(MANY_UNITS)?;
        }
        self.derived.index.add(&additions.keys)?;
        let step = self.derived.sample_step();
        for (physical, bytes) in &run.records {
            if let Some(stored) = store_timestamp(bytes) {
                progress.store_timestamp = progress.store_timestamp.max(stored);
                progress.timeline.note(physical.saturating_sub(HEADROOM as u64), stored, step);
            }
        }
        self.derived.set_dispatched(run.next);
        Ok(())
    }

    fn add(&self, additions: &mut Additions, record: &Record<'_>, physical: u64) {
        let properties = record.properties();
        self.derived.index.collect(record, physical, &properties, &mut additions.keys);
        if !record.is_queued() {
            return;
        }
        let queue = self.derived.queues.find_or_make(record.topic, record.queue_id);
        let queues = &mut additions.queues;
        let place = *additions.places.entry(queue.serial()).or_insert_with(|| {
            let QueueState { end, cleared_below, .. } = queue.state();
            queues.push(Added { queue, units: Vec::new(), end, cleared_below });
            queues.len() - 1
        });
        let Some(added) = queues.get_mut(place) else { return };
        let before = added.end;
        let Some(offset) = added.end.fold(record.queue_offset, physical, record.total_size) else {
            return;
        };
        if physical < added.cleared_below {
            return;
        }
        self.compare(record, before, offset);
        if before.anchored {
            added.units.extend((before.next..offset).map(Unit::blank));
        }
        let tags_code = tags_code(record, &properties, &self.derived.options.delay_levels);
        let size = record.total_size;
        added.units.push(Unit { offset, physical, size, tags_code });
        additions.arrivals.push(Arrival {
            topic: Arc::clone(added.queue.topic()),
            queue_id: added.queue.id(),
            offset,
            next_offset: offset + 1,
            tags_code,
            physical,
            size,
            store_timestamp: record.store_timestamp,
        });
    }

    /// The log alone assigns offsets, so a difference means a log that a killed Java broker wrote.
    fn compare(&self, record: &Record<'_>, before: QueueEnd, offset: u64) {
        let recorded = record.queue_offset;
        if offset != recorded || (before.anchored && offset != before.next) {
            self.derived.counters.misplaced.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                topic = record.topic,
                queue = record.queue_id,
                recorded,
                next = before.next,
                offset,
                "recorded queue offset differs from the next unit"
            );
        }
    }

    /// Drops units from memory whose messages lie far behind the log's end.
    fn forget(&mut self, additions: &Additions, end: u64) {
        for added in &additions.queues {
            if self.serials.insert(added.queue.serial()) {
                self.listed.push_back((end, Arc::clone(&added.queue)));
            }
        }
        let window = self.derived.options.recent_log_bytes;
        while let Some((_, queue)) =
            self.listed.pop_front_if(|(listed, _)| listed.saturating_add(window) <= end)
        {
            if queue.forget_before(end - window) {
                self.listed.push_back((end, queue));
            } else {
                self.serials.remove(&queue.serial());
            }
        }
    }
}

/// Java `CommitLog.checkMessageAndReturnSize`: the hash of the tag, or when the message is due.
fn tags_code(record: &Record<'_>, properties: &str, levels: &DelayLevels) -> i64 {
    if record.topic == SCHEDULE_TOPIC {
        let level = properties::find(properties, key::DELAY).and_then(|level| level.parse().ok());
        if let Some(level) = level.filter(|level: &i32| *level > 0) {
            let due = levels.deliver_at(level, record.store_timestamp);
            return i64::try_from(due).unwrap_or(i64::MAX);
        }
    }
    properties::find(properties, key::TAGS).map_or(0, tags::tags_code)
}
