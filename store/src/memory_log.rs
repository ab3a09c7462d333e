//! A log in memory, for tests: same promises as the replicated log, no disk and no peers.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    net::SocketAddr,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use bytes::{Bytes, BytesMut};
use protocol::message::record::{MessageRecord, encode};

use crate::{
    append_log::{
        AppendFailure, AppendLog, Batch, Bounds, CommitSink, Completed, HEADROOM, Placed,
        ReadError, RefusalCause, Refused, Run,
    },
    tails::Tails,
};

/// Longest record that this log takes, in bytes.
pub const MAX_RECORD: usize = (4 << 20) - HEADROOM;

/// An [`AppendLog`] whose entries live in memory and are committed by a thread of its own.
#[derive(Debug)]
pub struct MemoryLog<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    sink: Arc<dyn CommitSink<T>>,
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
}

struct State<T> {
    waiting: VecDeque<Batch<T>>,
    waiting_bytes: u64,
    limit_bytes: u64,
    entries: BTreeMap<u64, Bytes>,
    min: u64,
    end: u64,
    tails: Tails,
    paused: bool,
    stopped: bool,
    refuse: Option<RefusalCause>,
    fail: Option<String>,
}

impl<T: Send + 'static> MemoryLog<T> {
    /// An empty log that reports to `sink` and takes the time from the system.
    pub fn new(sink: Arc<dyn CommitSink<T>>) -> Self {
        Self::with_clock(sink, now_ms)
    }

    /// As [`MemoryLog::new`] with a clock in milliseconds.
    pub fn with_clock(
        sink: Arc<dyn CommitSink<T>>,
        clock: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        let state = State {
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            limit_bytes: 64 << 20,
            entries: BTreeMap::new(),
            min: 0,
            end: 0,
            tails: Tails::new(),
            paused: false,
            stopped: false,
            refuse: None,
            fail: None,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            sink,
            clock: Box::new(clock),
        });
        let writer = Arc::clone(&shared);
        std::thread::spawn(move || writer.run());
        Self { shared }
    }
}

impl<T> MemoryLog<T> {
    /// Takes batches but commits none until [`MemoryLog::resume`].
    pub fn pause(&self) {
        self.change(|state| state.paused = true);
    }

    /// Commits again.
    pub fn resume(&self) {
        self.change(|state| state.paused = false);
    }

    /// Refuses every batch with `cause`; `None` takes them again.
    pub fn refuse(&self, cause: Option<RefusalCause>) {
        self.change(|state| state.refuse = cause);
    }

    /// The next group is not written, for this reason; its effects are undone.
    pub fn fail_next(&self, reason: impl Into<String>) {
        self.change(|state| state.fail = Some(reason.into()));
    }

    /// Bound in bytes of batches that wait.
    pub fn limit_waiting(&self, bytes: u64) {
        self.change(|state| state.limit_bytes = bytes);
    }

    /// Forgets the entries before log position `position`.
    pub fn trim(&self, position: u64) {
        self.change(|state| {
            state.entries = state.entries.split_off(&position);
            state.min = state.entries.keys().next().copied().unwrap_or(state.end);
        });
    }

    /// Appends a record as it is, as if another node had stamped it; returns its physical offset.
    pub fn append_foreign(&self, record: impl FnOnce(u64) -> Bytes) -> u64 {
        let mut physical = 0;
        self.change(|state| {
            physical = state.end + HEADROOM as u64;
            let record = record(physical);
            let position = state.end;
            state.end = physical + record.len() as u64;
            state.tails.fold(&record);
            state.entries.insert(position, record);
        });
        physical
    }

    fn change(&self, change: impl FnOnce(&mut State<T>)) {
        change(&mut self.shared.lock());
        self.shared.changed.notify_all();
    }
}

impl<T> Drop for MemoryLog<T> {
    fn drop(&mut self) {
        self.change(|state| state.stopped = true);
    }
}

impl<T: Send> Shared<T> {
    /// The writer's thread: gathers what waits, writes it as one group, reports.
    fn run(&self) {
        let mut state = self.lock();
        loop {
            if state.stopped {
                let waiting = std::mem::take(&mut state.waiting);
                drop(state);
                let failure = AppendFailure::Write("log is stopped".to_owned());
                return self.report(waiting.into(), &failure);
            }
            if state.paused || state.waiting.is_empty() {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let group: Vec<_> = std::mem::take(&mut state.waiting).into();
            state.waiting_bytes = 0;
            let outcome = state.write(group, (self.clock)());
            drop(state);
            self.changed.notify_all();
            match outcome {
                Ok(completed) => self.sink.completed(completed),
                Err((group, failure)) => self.report(group, &failure),
            }
            state = self.lock();
        }
    }

    fn report(&self, group: Vec<Batch<T>>, failure: &AppendFailure) {
        let failed =
            |batch: Batch<T>| Completed { token: batch.token, result: Err(failure.clone()) };
        if !group.is_empty() {
            self.sink.completed(group.into_iter().map(failed).collect());
        }
    }
}

type Failed<T> = (Vec<Batch<T>>, AppendFailure);

impl<T> State<T> {
    fn write(
        &mut self,
        mut group: Vec<Batch<T>>,
        now_ms: u64,
    ) -> Result<Vec<Completed<T>>, Failed<T>> {
        self.tails.begin_group();
        let mut end = self.end;
        for batch in &mut group {
            let mut rest = batch.buffer.as_mut();
            for length in &batch.lengths {
                let (entry, behind) = rest.split_at_mut(HEADROOM + *length as usize);
                rest = behind;
                let (_, record) = entry.split_at_mut(HEADROOM);
                let physical = end + HEADROOM as u64;
                if let Err(error) = self.tails.stamp(record, physical, now_ms) {
                    self.fail.get_or_insert_with(|| error.to_string());
                }
                end = physical + u64::from(*length);
            }
        }
        if let Some(reason) = self.fail.take() {
            self.tails.undo();
            return Err((group, AppendFailure::Write(reason)));
        }
        Ok(group.into_iter().map(|batch| self.keep(batch)).collect())
    }

    fn keep(&mut self, batch: Batch<T>) -> Completed<T> {
        let placed = Placed { bytes: batch.buffer.freeze(), lengths: batch.lengths };
        let mut at = 0;
        for length in &placed.lengths {
            let start = at + HEADROOM;
            at = start + *length as usize;
            self.entries.insert(self.end, placed.bytes.slice(start..at));
            self.end += HEADROOM as u64 + u64::from(*length);
        }
        Completed { token: batch.token, result: Ok(placed) }
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Send> AppendLog<T> for MemoryLog<T> {
    fn submit(&self, batch: Batch<T>) -> Result<(), Refused<T>> {
        let mut state = self.shared.lock();
        let longest = batch.lengths.iter().copied().max().unwrap_or(0);
        let bytes = batch.buffer.len() as u64;
        let cause = if state.stopped {
            Some(RefusalCause::Stopped("log is stopped".to_owned()))
        } else if longest as usize > MAX_RECORD {
            let limit = MAX_RECORD as u64;
            Some(RefusalCause::TooLarge { length: u64::from(longest), limit })
        } else if state.waiting_bytes > 0 && state.waiting_bytes + bytes > state.limit_bytes {
            let (pending_bytes, limit_bytes) = (state.waiting_bytes, state.limit_bytes);
            Some(RefusalCause::Full { pending_bytes, limit_bytes })
        } else {
            state.refuse.clone()
        };
        if let Some(cause) = cause {
            return Err(Refused { batch, cause });
        }
        state.waiting_bytes += bytes;
        state.waiting.push_back(batch);
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }

    fn bounds(&self) -> Bounds {
        let state = self.shared.lock();
        Bounds { min: state.min, committed: state.end }
    }

    fn read(&self, physical: u64, size: u32) -> Result<Bytes, ReadError> {
        let record = self.read_unsized(physical)?;
        if record.len() == size as usize {
            return Ok(record);
        }
        let position = physical - HEADROOM as u64;
        let reason = format!("record has {} bytes, not {size}", record.len());
        Err(ReadError::Damaged { position, reason })
    }

    fn read_if_cached(&self, physical: u64, size: u32) -> Option<Bytes> {
        self.read(physical, size).ok()
    }

    fn read_unsized(&self, physical: u64) -> Result<Bytes, ReadError> {
        let state = self.shared.lock();
        let out = ReadError::OutOfRange { offset: physical, min: state.min, committed: state.end };
        let Some(position) = physical.checked_sub(HEADROOM as u64) else { return Err(out) };
        if position < state.min || position >= state.end {
            return Err(out);
        }
        let damaged = || ReadError::Damaged { position, reason: "no entry begins here".to_owned() };
        state.entries.get(&position).cloned().ok_or_else(damaged)
    }

    fn read_forward(&self, from: u64, max_bytes: usize) -> Result<Run, ReadError> {
        let state = self.shared.lock();
        if from < state.min || from > state.end {
            let (min, committed) = (state.min, state.end);
            return Err(ReadError::OutOfRange { offset: from, min, committed });
        }
        if from < state.end && !state.entries.contains_key(&from) {
            let reason = "no entry begins here".to_owned();
            return Err(ReadError::Damaged { position: from, reason });
        }
        let mut run = Run { records: Vec::new(), next: from };
        let mut bytes = 0;
        for (position, record) in state.entries.range(from..) {
            if bytes >= max_bytes && !run.records.is_empty() {
                break;
            }
            bytes += HEADROOM + record.len();
            let physical = position + HEADROOM as u64;
            run.next = physical + record.len() as u64;
            run.records.push((physical, record.clone()));
        }
        Ok(run)
    }

    fn wait_committed(&self, beyond: u64, timeout: Duration) -> u64 {
        let deadline = Instant::now() + timeout;
        let mut state = self.shared.lock();
        while state.end <= beyond {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.end
    }
}

impl<T> fmt::Debug for Shared<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        formatter.debug_struct("Shared").field("min", &state.min).field("end", &state.end).finish()
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A record for tests: IPv4 hosts, not yet stamped.
pub fn test_record(topic: &str, queue_id: u32, body: &[u8], properties: &str) -> Bytes {
    let host = SocketAddr::from(([127, 0, 0, 1], 10911));
    let record = MessageRecord {
        queue_id: queue_id.cast_signed(),
        flag: 0,
        queue_offset: 0,
        physical_offset: 0,
        sys_flag: 0,
        born_timestamp: 0,
        born_host: host,
        store_timestamp: 0,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: Bytes::copy_from_slice(body),
        topic: topic.to_owned(),
        properties: properties.to_owned(),
    };
    let mut bytes = BytesMut::new();
    let encoded = encode(&record, &mut bytes);
    debug_assert!(encoded.is_ok(), "{encoded:?}");
    bytes.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_promises_of_an_append_log() {
        crate::append_log::suite::run(&|sink| Arc::new(MemoryLog::new(sink))).unwrap();
    }
}
