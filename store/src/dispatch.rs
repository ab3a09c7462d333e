//! The dispatcher: reads committed records in order and derives queues and index from them.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    io,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use bytes::Bytes;
use protocol::{
    message::{
        properties::{self, key},
        tags,
    },
    name::TIMER_TOPIC,
};
use segment::Throttle;

use crate::{
    append_log::{AppendLog, HEADROOM, ReadError, Run},
    consume_queue::{ConsumeQueue, QueueState},
    delay_level::{DelayLevels, OWN_DELAY},
    derived::{Derived, Progress},
    index_file::Key,
    journal,
    light::{self, Place},
    placement::QueueEnd,
    record::{Record, store_timestamp},
    timer,
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

    /// Called on the dispatcher's thread for each record of the journal, in log order, when all
    /// before it is derived and before the record itself counts as dispatched. A record can come
    /// again after a restart. False where it could not be applied: it is then tried again, and
    /// nothing behind it is dispatched.
    fn journal(&self, record: &JournalRecord<'_>) -> bool;
}

/// A record of the journal.
#[derive(Debug, Clone, Copy)]
pub struct JournalRecord<'a> {
    /// Log position of its entry.
    pub position: u64,
    /// When it was stored, in milliseconds.
    pub stored: i64,
    /// What it says; see [`crate::journal::decode`].
    pub body: &'a [u8],
}

impl<'a> JournalRecord<'a> {
    /// The record of the journal that `bytes` at physical offset `physical` are.
    pub(crate) fn read(physical: u64, bytes: &'a [u8]) -> Option<Self> {
        let record = Record::read(bytes).ok().filter(|record| record.topic == journal::TOPIC)?;
        Some(Self {
            position: physical.saturating_sub(HEADROOM as u64),
            stored: i64::try_from(record.store_timestamp).unwrap_or(i64::MAX),
            body: record.body(),
        })
    }
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
    /// Warnings that derived files cannot be written.
    warned: Throttle,
}

/// What a batch of records adds.
#[derive(Default)]
struct Additions {
    queues: Vec<Added>,
    places: HashMap<usize, usize>,
    keys: Vec<Key>,
    arrivals: Vec<Arrival>,
    /// Whether it is one record of the journal and nothing else.
    is_journal: bool,
}

/// Records, and the log position behind them.
type Share<'a> = (&'a [(u64, Bytes)], u64);

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
        Self {
            log,
            derived,
            listener,
            listed: VecDeque::new(),
            serials: HashSet::new(),
            warned: Throttle::new(),
        }
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
            Ok(run) => self.take_all(position, &run),
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

    fn take_all(&mut self, position: u64, run: &Run) -> bool {
        let mut rest = run.records.as_slice();
        loop {
            let derived = Arc::clone(&self.derived);
            let progress = derived.progress();
            let (additions, taken) = self.collect(rest);
            drop(progress);
            let (share, behind) = rest.split_at(taken);
            // Behind the last record taken: padding may follow, which the next run passes over.
            let end = share.last().map_or(position, |(at, bytes)| at + bytes.len() as u64);
            let next = if behind.is_empty() { run.next } else { end };
            if additions.is_journal && !self.journal(share) {
                return false;
            }
            if !self.take(position, &additions, (share, next)) {
                return false;
            }
            if behind.is_empty() {
                return true;
            }
            rest = behind;
        }
    }

    fn journal(&self, share: &[(u64, Bytes)]) -> bool {
        let mut records = share.iter().filter_map(|(at, bytes)| JournalRecord::read(*at, bytes));
        records.all(|record| {
            self.derived.journal(&record);
            self.listener.journal(&record)
        })
    }

    /// Shows what one share of a run adds.
    fn take(&mut self, position: u64, additions: &Additions, share: Share<'_>) -> bool {
        let derived = Arc::clone(&self.derived);
        let mut progress = derived.progress();
        let written = self.show(additions, share, &mut progress);
        drop(progress);
        // Also after a failure: the next try finds nothing new in the same batch.
        if !additions.arrivals.is_empty() {
            self.listener.arrived(&additions.arrivals);
        }
        self.forget(additions, share.1);
        if let Err(error) = &written {
            derived.counters.write_errors.fetch_add(1, Ordering::Relaxed);
            if let Some(held_back) = self.warned.tell(Instant::now()) {
                tracing::error!(
                    position, %error, held_back,
                    "derived files cannot be written; tried again until they can"
                );
            }
        } else if self.warned.over() {
            tracing::info!("derived files can be written again");
        }
        written.is_ok()
    }

    /// What records add, up to the next one of the journal, which stands alone: what it does to
    /// queues must not meet messages that lie behind it. Gives how many were looked at.
    fn collect(&self, records: &[(u64, Bytes)]) -> (Additions, usize) {
        let mut additions = Additions::default();
        for (nth, (physical, bytes)) in records.iter().enumerate() {
            match Record::read(bytes) {
                Ok(record) if record.topic == journal::TOPIC => {
                    if nth > 0 {
                        return (additions, nth);
                    }
                    additions.is_journal = true;
                    self.add(&mut additions, &record, *physical);
                    return (additions, 1);
                }
                Ok(record) => self.add(&mut additions, &record, *physical),
                Err(error) => {
                    self.derived.counters.unreadable.fetch_add(1, Ordering::Relaxed);
                    tracing::error!(physical, %error, "committed record cannot be dispatched");
                }
            }
        }
        (additions, records.len())
    }

    /// Shows what a share adds, and writes what has become enough for a write.
    fn show(
        &self,
        additions: &Additions,
        (records, next): Share<'_>,
        progress: &mut Progress,
    ) -> io::Result<()> {
        for added in &additions.queues {
            added.queue.publish(&added.units, added.end);
        }
        for added in &additions.queues {
            added.queue.write_pending(MANY_UNITS)?;
        }
        self.derived.index.add(&additions.keys)?;
        let step = self.derived.sample_step();
        for (physical, bytes) in records {
            if let Some(stored) = store_timestamp(bytes) {
                progress.store_timestamp = progress.store_timestamp.max(stored);
                let position = self.derived.options.position_of(*physical);
                progress.timeline.note(position, stored, step);
            }
        }
        self.derived.set_dispatched(next);
        Ok(())
    }

    fn add(&self, additions: &mut Additions, record: &Record<'_>, physical: u64) {
        let properties = record.properties();
        self.derived.index.collect(record, physical, &properties, &mut additions.keys);
        if !record.is_queued() {
            return;
        }
        let tags_code = tags_code(record, &properties, &self.derived.options.delay_levels);
        let own = (record.topic, record.queue_id, record.queue_offset);
        self.add_to(additions, own, (record, physical, tags_code));
        for place in light::places(record, &properties) {
            self.add_to(additions, place, (record, physical, tags_code));
        }
    }

    /// Adds a record to one of its queues: topic, queue id, and the offset that it says it has there.
    fn add_to(
        &self,
        additions: &mut Additions,
        (topic, queue_id, recorded): Place<'_>,
        (record, physical, tags_code): (&Record<'_>, u64, i64),
    ) {
        let queue = self.derived.queues.find_or_make(topic, queue_id);
        let queues = &mut additions.queues;
        let place = *additions.places.entry(queue.serial()).or_insert_with(|| {
            let QueueState { end, cleared_below, .. } = queue.state();
            queues.push(Added { queue, units: Vec::new(), end, cleared_below });
            queues.len() - 1
        });
        let Some(added) = queues.get_mut(place) else { return };
        let before = added.end;
        let Some(offset) = added.end.fold(recorded, physical, record.total_size) else {
            return;
        };
        if physical < added.cleared_below {
            return;
        }
        self.compare((topic, queue_id, recorded), before, offset);
        if before.anchored {
            added.units.extend((before.next..offset).map(Unit::blank));
        }
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
    fn compare(&self, (topic, queue, recorded): Place<'_>, before: QueueEnd, offset: u64) {
        if offset != recorded || (before.anchored && offset != before.next) {
            self.derived.counters.misplaced.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                topic,
                queue,
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
pub(crate) fn tags_code(record: &Record<'_>, properties: &str, levels: &DelayLevels) -> i64 {
    if record.topic == SCHEDULE_TOPIC {
        let level = properties::find(properties, key::DELAY).and_then(|level| level.parse().ok());
        if let Some(level) = level.filter(|level: &i32| *level > 0) {
            let own = properties::find(properties, OWN_DELAY).and_then(|text| text.parse().ok());
            let due = match own {
                Some(delay) => record.store_timestamp.saturating_add(delay),
                // A Java broker took it, or it has no room for the property.
                None => levels.deliver_at(level, record.store_timestamp),
            };
            return i64::try_from(due).unwrap_or(i64::MAX);
        }
    }
    if record.topic == TIMER_TOPIC
        && let Some(due) = timer::due(properties)
    {
        return due;
    }
    tag_hash(properties)
}

/// The hash of the tag.
pub(crate) fn tag_hash(properties: &str) -> i64 {
    properties::find(properties, key::TAGS).map_or(0, tags::tags_code)
}
