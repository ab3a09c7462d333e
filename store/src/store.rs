//! The store: messages in a commit log, read by queue, by time, by key and by position.

use std::{
    fmt,
    io::{self, IoSlice},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    thread::JoinHandle,
};

use bytes::Bytes;
use protocol::message::properties::{self, key};
use segment::write_all_at;

use crate::{
    append_log::{AppendLog, Batch, ReadError, Refused},
    consume_queue::ConsumeQueue,
    derived::{Counters, Derived},
    dispatch::{ArrivalListener, Dispatcher},
    get::{GetRequest, GetResult, Source, Window},
    keeper::Keeper,
    lookup::{self, Boundary},
    options::StoreOptions,
    record::{Record, store_timestamp},
    recovery,
    retention::{self, Facts, Moment},
    tail_source::TailSource,
    unit::Unit,
};

mod journal;

/// Messages in a commit log and everything derived from it. `T` is the token of a batch.
///
/// Dropped without [`Store::shutdown`], it leaves the files as a killed process would.
pub struct Store<T> {
    log: Arc<dyn AppendLog<T>>,
    derived: Arc<Derived>,
    threads: Mutex<Option<Threads>>,
}

struct Threads {
    dispatcher: JoinHandle<()>,
    keeper: Keeper,
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A directory or file of the store could not be read or made.
    #[error("store at {} cannot be opened: {source}; check its owner and its free space", path.display())]
    Io {
        /// Root of the store.
        path: PathBuf,
        /// What the system says, with the file where it is one.
        source: io::Error,
    },
    /// The store is that of a broker without DLedger.
    #[error(
        "{} holds a commit log that is not of DLedger, which is not read yet: its messages would be \
         out of sight and its consume queues lost; use another storePathRootDir", path.display()
    )]
    NativeLog {
        /// The folder `commitlog`.
        path: PathBuf,
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

/// Candidates looked at beyond the messages asked for: keys can share a hash.
const SPARE_CANDIDATES: usize = 32;

/// The most bytes of messages that one look-up by key gives, but for its newest message.
const MAX_FOUND_BYTES: usize = 8 << 20;

impl<T: Send + 'static> Store<T> {
    /// Opens the store under `options.root` over `log` and brings its derived files in order: what
    /// is missing, empty, cut or foreign is derived again once [`Store::start_dispatch`] runs.
    ///
    /// The caller holds the lock of the data directory.
    pub fn open(options: StoreOptions, log: Arc<dyn AppendLog<T>>) -> Result<Self, OpenError> {
        let path = options.root.clone();
        let failed = |source| OpenError::Io { path: path.clone(), source };
        let derived = Arc::new(Derived::new(options));
        derived.options.vfs.create_directory(&derived.options.root).map_err(failed)?;
        recovery::refuse_native_log(&derived)?;
        note_running(&derived).map_err(failed)?;
        recovery::recover(&derived, log.bounds()).map_err(failed)?;
        derived.cut_before(log.bounds().min).map_err(failed)?;
        Ok(Self { log, derived, threads: Mutex::default() })
    }

    /// Where the log's writer takes the next offset of each queue from whenever it is to lead.
    pub fn tail_source(&self) -> TailSource {
        TailSource::new(Arc::clone(&self.derived))
    }

    /// Starts the dispatcher's thread. A second call does nothing.
    pub fn start_dispatch(&self, listener: Arc<dyn ArrivalListener>) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if threads.is_none() {
            let (log, derived) = (Arc::clone(&self.log), Arc::clone(&self.derived));
            let keeper = Keeper::start(Arc::clone(&derived));
            let dispatcher = Dispatcher::new(log, derived, listener);
            *threads =
                Some(Threads { dispatcher: std::thread::spawn(move || dispatcher.run()), keeper });
        }
    }

    /// Stops dispatch, writes and syncs the derived files, and marks the stop as clean unless
    /// committed messages are left to dispatch.
    pub fn shutdown(&self) {
        self.stop_threads();
        if let Err(error) = self.close() {
            tracing::error!(%error, "derived files could not be written; the next start derives them again");
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
        self.queue(topic, queue_id).map_or(0, |queue| queue.range().1)
    }

    /// First offset of a queue; 0 where there is no such queue.
    pub fn min_offset(&self, topic: &str, queue_id: u32) -> u64 {
        self.queue(topic, queue_id).map_or(0, |queue| queue.range().0)
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
    /// milliseconds, `max` at most and the newest of them, as far as they fit into 8 MiB.
    pub fn query_by_key(
        &self,
        topic: &str,
        key: &str,
        max: usize,
        range: (u64, u64),
    ) -> QueryResult {
        let candidates = max.saturating_add(SPARE_CANDIDATES);
        let mut found = self.derived.index.find(topic, key, candidates, range);
        found.physical.dedup();
        let records =
            found.physical.iter().filter_map(|physical| self.log.read_unsized(*physical).ok());
        let mut bytes = 0;
        let fits = |record: &Bytes| {
            let first = bytes == 0;
            bytes += record.len();
            first || bytes <= MAX_FOUND_BYTES
        };
        let mut messages: Vec<_> = records
            .filter(|record| carries(record, topic, key))
            .take(max)
            .take_while(fits)
            .collect();
        messages.reverse();
        QueryResult {
            messages,
            last_update_timestamp: found.last.end_timestamp,
            last_update_physical: found.last.end_physical,
        }
    }

    /// Up to `max` units of a queue from offset `from` on.
    pub fn units(&self, topic: &str, queue_id: u32, from: u64, max: usize) -> Vec<Unit> {
        self.queue(topic, queue_id).map_or_else(Vec::new, |queue| units_of(&queue, from, max))
    }

    /// Number of light queues.
    pub fn light_queues(&self) -> usize {
        self.derived.queues.light()
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

    /// Whether what lies `behind` bytes before the log's end counts as in memory (Java
    /// `accessMessageInMemoryMaxRatio`).
    pub fn counts_as_in_memory(&self, behind: u64) -> bool {
        behind <= self.derived.options.in_memory_bytes
    }

    /// Lets go what is derived from messages that the log no longer has; to be called when it was
    /// trimmed.
    pub fn cut_to_log(&self) {
        if let Err(error) = self.derived.cut_before(self.log.bounds().min) {
            tracing::error!(%error, "derived files of expired messages could not be removed");
        }
    }

    /// One step of retention: [`Store::cut_to_log`], and the position up to which the log may be
    /// trimmed, where something has expired.
    pub fn clean(&self, moment: Moment) -> Option<u64> {
        self.cut_to_log();
        let options = &self.derived.options;
        let progress = self.derived.progress();
        let facts = Facts {
            timeline: &progress.timeline,
            bounds: self.log.bounds(),
            file_size: options.log_file_size,
        };
        retention::trim_to(&options.retention, moment, &facts)
    }

    /// Things that should not happen, counted.
    pub fn counters(&self) -> &Counters {
        &self.derived.counters
    }

    fn close(&self) -> io::Result<()> {
        self.derived.flush_queues()?;
        self.derived.write_mark(true)?;
        // Java's rule: an `abort` that is left tells the next start that something is missing.
        if self.dispatch_behind_bytes() == 0 {
            match self.derived.options.vfs.remove(&abort_file(&self.derived)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
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

impl<T> Store<T> {
    fn stop_threads(&self) {
        self.derived.stopping.store(true, Ordering::Release);
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Threads { dispatcher, keeper }) = threads {
            keeper.stop();
            // The listener may hold the last reference to the store, on the dispatcher's own thread.
            let own = dispatcher.thread().id() == std::thread::current().id();
            if !own && dispatcher.join().is_err() {
                tracing::error!("dispatcher ended by a panic; the next start goes on where it was");
            }
        }
    }
}

impl<T> Drop for Store<T> {
    fn drop(&mut self) {
        self.stop_threads();
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

/// Java's `abort` file: it exists while the store is open.
fn abort_file(derived: &Derived) -> PathBuf {
    derived.options.root.join("abort")
}

fn note_running(derived: &Derived) -> io::Result<()> {
    let path = abort_file(derived);
    match derived.options.vfs.create(&path) {
        Ok(file) => {
            let pid = std::process::id().to_string();
            write_all_at(&*file, &mut [IoSlice::new(pid.as_bytes())], 0).map_err(|(_, error)| error)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            tracing::warn!(path = %path.display(), "the store was not stopped cleanly");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Whether a record is of this topic and key: keys can share a hash.
fn carries(record: &[u8], topic: &str, key: &str) -> bool {
    Record::read(record).is_ok_and(|record| {
        let properties = record.properties();
        let unique = properties::find(&properties, key::UNIQ_KEY);
        let keys = properties::find(&properties, key::KEYS).unwrap_or_default();
        record.topic == topic && (unique == Some(key) || keys.split(' ').any(|other| other == key))
    })
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
pub(crate) mod tests;
