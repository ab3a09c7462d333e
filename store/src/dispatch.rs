//! The dispatcher: reads committed records in order and derives queues and index from them.

use std::{
    collections::HashMap,
    collections::VecDeque,
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
    append_log::{AppendLog, ReadError},
    consume_queue::ConsumeQueue,
    delay_level::DelayLevels,
    derived::Derived,
    placement::QueueEnd,
    record::Record,
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
/// Bytes of records dispatched together.
const BATCH_BYTES: usize = 1 << 20;
/// How long the dispatcher sleeps at most when nothing is committed.
const IDLE: Duration = Duration::from_millis(100);
/// How long it waits after a failure before it tries again.
const AFTER_FAILURE: Duration = Duration::from_millis(200);

/// The state of the dispatcher's thread.
pub(crate) struct Dispatcher<T> {
    pub(crate) log: Arc<dyn AppendLog<T>>,
    pub(crate) derived: Arc<Derived>,
    pub(crate) listener: Arc<dyn ArrivalListener>,
    /// Queues that have units in memory, with the log position at which they were listed.
    pub(crate) listed: VecDeque<(u64, Arc<ConsumeQueue>)>,
}

/// Units of one queue that a batch adds.
struct Added {
    queue: Arc<ConsumeQueue>,
    units: Vec<Unit>,
    end: QueueEnd,
}

impl<T: Send> Dispatcher<T> {
    /// Runs until the store stops.
    pub(crate) fn run(mut self) {
        while !self.derived.stopping.load(Ordering::Acquire) {
            let position = self.derived.dispatched();
            let committed = self.log.wait_committed(position, IDLE);
            if committed > position && self.step(position).is_err() {
                std::thread::sleep(AFTER_FAILURE);
            }
        }
    }

    /// Dispatches one batch. An error was logged; the same batch is tried again.
    fn step(&mut self, position: u64) -> Result<(), ()> {
        match self.log.read_forward(position, BATCH_BYTES) {
            Ok(run) => {
                let arrivals = self.derive(&run.records).map_err(|error| {
                    tracing::error!(position, %error, "derived files cannot be written; trying again");
                })?;
                self.derived.set_dispatched(run.next);
                if !arrivals.is_empty() {
                    self.listener.arrived(&arrivals);
                }
                self.forget(run.next);
                Ok(())
            }
            Err(ReadError::OutOfRange { min, .. }) if position < min => {
                tracing::warn!(
                    position,
                    min,
                    "log was trimmed past the dispatcher; going on at its start"
                );
                self.derived.set_dispatched(min);
                Ok(())
            }
            Err(error) => {
                tracing::error!(position, %error, "log cannot be dispatched; trying again");
                Err(())
            }
        }
    }

    fn derive(&self, records: &[(u64, Bytes)]) -> io::Result<Vec<Arrival>> {
        let mut added: Vec<Added> = Vec::new();
        let mut places = HashMap::new();
        let mut arrivals = Vec::with_capacity(records.len());
        for (physical, bytes) in records {
            let record = match Record::read(bytes) {
                Ok(record) => record,
                Err(error) => {
                    self.derived.counters.unreadable.fetch_add(1, Ordering::Relaxed);
                    tracing::error!(physical, %error, "committed record cannot be dispatched");
                    continue;
                }
            };
            if !record.is_queued() {
                continue;
            }
            let queue = self.derived.queues.find_or_make(record.topic, record.queue_id);
            let place = *places.entry(queue.serial()).or_insert_with(|| {
                let end = queue.end();
                added.push(Added { queue, units: Vec::new(), end });
                added.len() - 1
            });
            let Some(added) = added.get_mut(place) else { continue };
            arrivals.extend(self.add(added, &record, *physical));
        }
        for added in &added {
            added.queue.write(&added.units)?;
        }
        for added in &added {
            added.queue.publish(&added.units, added.end);
        }
        Ok(arrivals)
    }

    fn add(&self, added: &mut Added, record: &Record<'_>, physical: u64) -> Option<Arrival> {
        let (before, recorded) = (added.end, record.queue_offset);
        let offset = added.end.fold(recorded, physical, record.total_size)?;
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
        if before.anchored {
            added.units.extend((before.next..offset).map(Unit::blank));
        }
        let tags_code = tags_code(record, &record.properties(), &self.derived.options.delay_levels);
        added.units.push(Unit { offset, physical, size: record.total_size, tags_code });
        Some(Arrival {
            topic: Arc::clone(added.queue.topic()),
            queue_id: added.queue.id(),
            offset,
            next_offset: offset + 1,
            tags_code,
            physical,
            size: record.total_size,
            store_timestamp: record.store_timestamp,
        })
    }

    /// Drops units from memory whose messages lie far behind the log's end.
    fn forget(&mut self, end: u64) {
        let window = self.derived.options.recent_log_bytes;
        while let Some((listed, queue)) = self.listed.front() {
            if listed.saturating_add(window) > end {
                break;
            }
            queue.forget_before(end - window);
            self.listed.pop_front();
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
