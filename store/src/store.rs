//! The store: messages in a commit log, read by queue, by time, by key and by position.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    thread::JoinHandle,
};

use bytes::Bytes;

use crate::{
    append_log::{AppendLog, Batch, ReadError, Refused},
    consume_queue::ConsumeQueue,
    derived::{Counters, Derived},
    dispatch::{ArrivalListener, Dispatcher},
    get::{GetRequest, GetResult, Source, Window},
    lookup::{self, Boundary},
    options::StoreOptions,
    record::store_timestamp,
    tails::Tails,
    unit::Unit,
};

/// Messages in a commit log and everything derived from it. `T` is the token of a batch.
pub struct Store<T> {
    log: Arc<dyn AppendLog<T>>,
    derived: Arc<Derived>,
    dispatcher: Mutex<Option<JoinHandle<()>>>,
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A directory or file of the store could not be read or made.
    #[error("store at {path} cannot be opened: {reason}; check its owner and its free space")]
    Io {
        /// Which file or directory.
        path: String,
        /// Text of the system.
        reason: String,
    },
}

/// Messages that carry a key.
#[derive(Debug, Clone, Default)]
pub struct QueryResult {
    /// The records, oldest first.
    pub messages: Vec<Bytes>,
    /// Store time of the newest message in the index, in milliseconds.
    pub last_update_timestamp: u64,
    /// Physical offset of the newest message in the index.
    pub last_update_physical: u64,
}

impl<T: Send + 'static> Store<T> {
    /// Opens the store under `options.root` over `log` and brings its derived files in order.
    pub fn open(options: StoreOptions, log: Arc<dyn AppendLog<T>>) -> Result<Self, OpenError> {
        let derived = Arc::new(Derived::new(options));
        Ok(Self { log, derived, dispatcher: Mutex::default() })
    }

    /// Next offset of each queue at the log position up to which everything is derived. The log's
    /// writer folds every record from [`Tails::position`] on before it stamps its first.
    pub fn tails(&self) -> Tails {
        let mut tails = Tails::new();
        tails.start_at(self.derived.dispatched(), 0);
        for queue in self.derived.queues.all() {
            tails.set(queue.topic(), queue.id(), queue.end());
        }
        tails
    }

    /// Starts the dispatcher's thread. A second call does nothing.
    pub fn start_dispatch(&self, listener: Arc<dyn ArrivalListener>) {
        let mut running = self.dispatcher.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_none() {
            let (log, derived) = (Arc::clone(&self.log), Arc::clone(&self.derived));
            let dispatcher = Dispatcher { log, derived, listener, listed: Default::default() };
            *running = Some(std::thread::spawn(move || dispatcher.run()));
        }
    }

    /// Stops the dispatcher, writes and syncs the derived files, and marks the stop as clean.
    pub fn shutdown(&self) {
        self.derived.stopping.store(true, Ordering::Release);
        let running = self.dispatcher.lock().unwrap_or_else(PoisonError::into_inner).take();
        if running.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("dispatcher ended by a panic; derived files are rebuilt at next start");
        }
    }

    /// Hands a batch to the log; see [`AppendLog::submit`].
    pub fn submit(&self, batch: Batch<T>) -> Result<(), Refused<T>> {
        self.log.submit(batch)
    }

    /// The log.
    pub fn log(&self) -> &Arc<dyn AppendLog<T>> {
        &self.log
    }

    /// Next offset of a queue; 0 where there is no such queue.
    pub fn max_offset(&self, topic: &str, queue_id: u32) -> u64 {
        self.queue(topic, queue_id).map_or(0, |queue| queue.next())
    }

    /// First offset of a queue; 0 where there is no such queue.
    pub fn min_offset(&self, topic: &str, queue_id: u32) -> u64 {
        self.queue(topic, queue_id).map_or(0, |queue| queue.min())
    }

    /// Reads a queue; may wait for the disk.
    pub fn get(&self, request: &GetRequest<'_>) -> GetResult {
        let (window, queue) = self.window(request.topic, request.queue_id);
        let limits = &self.derived.options.limits;
        let read = queue.and_then(|queue| {
            window.read(request, limits, &FromDisk { store: self, queue: &queue })
        });
        read.unwrap_or_else(|| window.nothing())
    }

    /// As [`Store::get`] where no disk is needed, else `None` at once.
    pub fn get_if_cached(&self, request: &GetRequest<'_>) -> Option<GetResult> {
        let (window, queue) = self.window(request.topic, request.queue_id);
        let Some(queue) = queue else { return Some(window.nothing()) };
        let limits = &self.derived.options.limits;
        window.read(request, limits, &FromMemory { store: self, queue: &queue })
    }

    /// Offset that a time means in a queue; see [`Boundary`]. 0 where there is no such queue.
    pub fn offset_by_time(
        &self,
        topic: &str,
        queue_id: u32,
        timestamp: u64,
        boundary: Boundary,
    ) -> u64 {
        let Some(queue) = self.queue(topic, queue_id) else { return 0 };
        let time = |offset| self.time_in(&queue, offset);
        lookup::offset_by_time(queue.range(), timestamp, boundary, time)
    }

    /// When the message at `offset` was stored, in milliseconds.
    pub fn store_time(&self, topic: &str, queue_id: u32, offset: u64) -> Option<u64> {
        self.time_in(&*self.queue(topic, queue_id)?, offset)
    }

    /// The record at a physical offset.
    pub fn message_at(&self, physical: u64) -> Result<Bytes, ReadError> {
        self.log.read_unsized(physical)
    }

    /// Messages of `topic` that carry `key`, as KEYS or as UNIQ_KEY, stored in [begin, end]
    /// milliseconds, `max` at most and the newest of them.
    pub fn query_by_key(
        &self,
        _topic: &str,
        _key: &str,
        _max: usize,
        (_begin, _end): (u64, u64),
    ) -> QueryResult {
        QueryResult::default()
    }

    /// Up to `max` units of a queue from offset `from` on.
    pub fn units(&self, topic: &str, queue_id: u32, from: u64, max: usize) -> Vec<Unit> {
        self.queue(topic, queue_id).map_or_else(Vec::new, |queue| units_of(&queue, from, max))
    }

    /// Each topic that has queues, with their ids.
    pub fn queues(&self) -> Vec<(String, Vec<u32>)> {
        self.derived.queues.names()
    }

    /// Store time of the oldest message that is kept, in milliseconds.
    pub fn earliest_store_time(&self) -> Option<u64> {
        let bounds = self.log.bounds();
        let run = self.log.read_forward(bounds.min, 1).ok()?;
        store_timestamp(&run.records.first()?.1)
    }

    /// Log position before which everything is derived.
    pub fn dispatched(&self) -> u64 {
        self.derived.dispatched()
    }

    /// Bytes of the committed log that are not yet derived.
    pub fn dispatch_behind_bytes(&self) -> u64 {
        self.log.bounds().committed.saturating_sub(self.derived.dispatched())
    }

    /// First position of the log that is kept.
    pub fn min_physical(&self) -> u64 {
        self.log.bounds().min
    }

    /// End of the committed log.
    pub fn max_physical(&self) -> u64 {
        self.log.bounds().committed
    }

    /// Whether the message at `offset` exists and lies so near to the log's end that it counts as
    /// in memory (Java `checkInMemByConsumeOffset`).
    pub fn is_recent(&self, topic: &str, queue_id: u32, offset: u64) -> bool {
        self.queue(topic, queue_id)
            .and_then(|queue| units_of(&queue, offset, 1).first().copied())
            .is_some_and(|unit| {
                let distance = self.max_physical().saturating_sub(unit.physical);
                distance <= self.derived.options.in_memory_bytes
            })
    }

    /// Things that should not happen, counted.
    pub fn counters(&self) -> &Counters {
        &self.derived.counters
    }

    fn queue(&self, topic: &str, queue_id: u32) -> Option<Arc<ConsumeQueue>> {
        self.derived.queues.find(topic, queue_id)
    }

    fn window(&self, topic: &str, queue_id: u32) -> (Window, Option<Arc<ConsumeQueue>>) {
        let queue = self.queue(topic, queue_id);
        let (min, max) = queue.as_ref().map_or((0, 0), |queue| queue.range());
        let log_end = self.log.bounds().committed;
        let in_memory_bytes = self.derived.options.in_memory_bytes;
        (Window { min, max, log_end, in_memory_bytes }, queue)
    }

    fn time_in(&self, queue: &ConsumeQueue, offset: u64) -> Option<u64> {
        let unit = *units_of(queue, offset, 1).first()?;
        store_timestamp(&self.log.read(unit.physical, unit.size).ok()?)
    }
}

impl<T> fmt::Debug for Store<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Store").field("root", &self.derived.options.root).finish()
    }
}

struct FromMemory<'a, T> {
    store: &'a Store<T>,
    queue: &'a ConsumeQueue,
}

impl<T: Send> Source for FromMemory<'_, T> {
    fn units(&self, from: u64, max: usize) -> Option<Vec<Unit>> {
        self.queue.recent(from, max)
    }

    fn record(&self, unit: &Unit) -> Option<Result<Bytes, ReadError>> {
        self.store.log.read_if_cached(unit.physical, unit.size).map(Ok)
    }
}

struct FromDisk<'a, T> {
    store: &'a Store<T>,
    queue: &'a ConsumeQueue,
}

impl<T: Send> Source for FromDisk<'_, T> {
    fn units(&self, from: u64, max: usize) -> Option<Vec<Unit>> {
        Some(units_of(self.queue, from, max))
    }

    fn record(&self, unit: &Unit) -> Option<Result<Bytes, ReadError>> {
        Some(self.store.log.read(unit.physical, unit.size))
    }
}

fn units_of(queue: &ConsumeQueue, from: u64, max: usize) -> Vec<Unit> {
    queue.units(from, max).unwrap_or_else(|error| {
        tracing::error!(
            topic = queue.topic().as_ref(), queue = queue.id(), from, %error,
            "units of a queue cannot be read"
        );
        Vec::new()
    })
}

#[cfg(test)]
mod tests;
