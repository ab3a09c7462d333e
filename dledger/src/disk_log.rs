//! The log on disk: data files, index, the small files beside them, and the hot ring.
//!
//! The driver's thread writes (see `writer`), the flusher's thread syncs and writes behind, any
//! thread reads.

pub(crate) mod cut;
pub(crate) mod links;
pub(crate) mod ranges;
pub(crate) mod rot;
#[cfg(test)]
mod sequences;

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use dledger_core::{EntryId, LogIndex, Millis, Term};
use segment::{SegmentFiles, Throttle, Vfs};

use self::rot::Rot;
use crate::{
    index_log::{IndexLog, Unit},
    planted::{Planted, planted},
    ring::HotRing,
    state_files::{Checkpoint, DurableFile, DurableMark},
};

/// Time between two checkpoints (Java: `DLedgerConfig.checkPointInterval`).
const CHECKPOINT_MILLIS: u64 = 3000;

/// Sizes of a log on disk.
#[derive(Debug, Clone)]
pub struct DiskOptions {
    /// The folder `dledger-<selfId>`.
    pub directory: PathBuf,
    /// Bytes of a data file.
    pub file_size: u64,
    /// Bytes of an index file; a multiple of 32.
    pub index_file_size: u64,
    /// Bytes of recent entries kept in memory.
    pub hot_ring_bytes: usize,
    /// No more than this many bytes are written ahead of a flush. Recovery relies on it: an entry
    /// further than this behind a bad one was written after the bad one was durable.
    pub unflushed_window: u64,
    /// Bytes that are filled with zeros ahead of the entries, so that a flush writes no metadata;
    /// 0 for none.
    pub zero_ahead: u64,
    /// None are written while more than this many bytes wait for a flush.
    pub zero_limit: u64,
}

impl DiskOptions {
    /// The sizes that a server uses.
    #[must_use]
    pub fn new(directory: PathBuf, file_size: u64) -> Self {
        Self {
            directory,
            file_size,
            index_file_size: crate::index_log::FILE_SIZE,
            hot_ring_bytes: 32 * 1024 * 1024,
            unflushed_window: 64 * 1024 * 1024,
            zero_ahead: 0,
            zero_limit: 128 * 1024,
        }
    }
}

/// First and end of what can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// Log position of the first entry that is kept.
    pub min: u64,
    /// Log position behind the last committed entry.
    pub committed: u64,
}

/// The end of the log as the committed and the durable mark see it.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    /// Position behind the last committed entry.
    committed: AtomicU64,
    /// Index of the last committed entry, plus 1.
    committed_entries: AtomicU64,
    /// The last entry.
    last: Mutex<Option<EntryId>>,
    waiters: AtomicUsize,
    lock: Mutex<()>,
    grown: Condvar,
}

#[derive(Debug)]
struct Checkpoints {
    file: Checkpoint,
    /// When the next one is due.
    due: Millis,
    /// What the last one said: committed and end, as numbers of entries.
    last: (u64, u64),
}

#[derive(Debug)]
struct Durable {
    file: DurableFile,
    /// How often something was erased at the end of the log.
    cuts: u64,
}

/// A log on disk.
#[derive(Debug)]
pub struct DiskLog {
    pub(crate) data: SegmentFiles,
    pub(crate) index: IndexLog,
    pub(crate) ring: HotRing,
    pub(crate) ends: Ends,
    pub(crate) options: DiskOptions,
    pub(crate) rot: Rot,
    durable: Mutex<Durable>,
    checkpoints: Mutex<Checkpoints>,
    boot_id: String,
    /// Which faults are planted.
    pub(crate) planted: Planted,
    /// Warnings that what may lag behind has no room.
    behind: Throttle,
}

impl DiskLog {
    /// Puts the parts together that recovery has opened and repaired.
    pub(crate) fn new(
        vfs: &Arc<dyn Vfs>,
        options: DiskOptions,
        (data, index, durable): (SegmentFiles, IndexLog, DurableFile),
        planted: &Planted,
    ) -> Self {
        let file = Checkpoint::new(Arc::clone(vfs), &options.directory);
        Self {
            data,
            index,
            ring: HotRing::new(options.hot_ring_bytes),
            ends: Ends::default(),
            rot: Rot::default(),
            durable: Mutex::new(Durable { file: durable, cuts: 0 }),
            checkpoints: Mutex::new(Checkpoints {
                file,
                due: Millis(CHECKPOINT_MILLIS),
                last: (u64::MAX, u64::MAX),
            }),
            boot_id: vfs.boot_id(),
            planted: planted.clone(),
            behind: Throttle::new(),
            options,
        }
    }

    /// The folder of this log.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.options.directory
    }

    /// What can be read now. Both ends only grow.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        let committed = self.ends.committed.load(Ordering::Acquire);
        let min = self.data.range().map_or(committed, |range| range.start).min(committed);
        Bounds { min, committed }
    }

    /// How many entries are committed: the index of the last of them, plus 1.
    #[must_use]
    pub fn committed_entries(&self) -> u64 {
        self.ends.committed_entries.load(Ordering::Acquire)
    }

    /// Log position up to which this node has synced its entries.
    #[must_use]
    pub fn flushed(&self) -> u64 {
        lock(&self.durable).file.mark().position
    }

    /// Waits until more than `beyond` is committed or `timeout` is over; returns the committed end.
    pub fn wait_committed(&self, beyond: u64, timeout: Duration) -> u64 {
        let deadline = Instant::now() + timeout;
        self.ends.waiters.fetch_add(1, Ordering::SeqCst);
        let mut lock = lock(&self.ends.lock);
        loop {
            let committed = self.ends.committed.load(Ordering::SeqCst);
            let left = deadline.saturating_duration_since(Instant::now());
            if committed > beyond || left.is_zero() {
                self.ends.waiters.fetch_sub(1, Ordering::SeqCst);
                return committed;
            }
            lock =
                self.ends.grown.wait_timeout(lock, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Lets readers see what lies before `position`, which is behind entry number `entries - 1`.
    pub(crate) fn set_committed(&self, position: u64, entries: u64) {
        self.ends.committed_entries.fetch_max(entries, Ordering::SeqCst);
        self.ends.committed.fetch_max(position, Ordering::SeqCst);
        self.wake_readers();
    }

    /// Wakes all that wait for more to be committed.
    pub(crate) fn wake_readers(&self) {
        if self.ends.waiters.load(Ordering::SeqCst) > 0 {
            drop(lock(&self.ends.lock));
            self.ends.grown.notify_all();
        }
    }

    pub(crate) fn set_last(&self, last: Option<&Unit>) {
        *lock(&self.ends.last) =
            last.map(|unit| EntryId { term: Term(unit.term), index: LogIndex(unit.index) });
    }

    pub(crate) fn last_id(&self) -> Option<EntryId> {
        *lock(&self.ends.last)
    }

    /// Syncs the data from the durable mark to `end` (both log positions).
    ///
    /// # Errors
    /// What the disk answers; the log must then not be used any more.
    pub(crate) fn flush(&self, end: u64) -> io::Result<()> {
        let (from, cuts) = {
            let durable = lock(&self.durable);
            (durable.file.mark().position, durable.cuts)
        };
        self.data.flush(from.min(end)..end.max(from + 1))?;
        let mut durable = lock(&self.durable);
        if durable.cuts != cuts {
            // The log was cut meanwhile, and what was written since may lie before `end`.
            return Ok(());
        }
        durable.file.note(DurableMark { position: end, ..self.running_mark() })
    }

    /// What may lag behind an acknowledgement: the index, and now and then a checkpoint.
    ///
    /// # Errors
    /// What the disk answers, other than that it is full: then all of it is tried again later.
    pub(crate) fn write_behind(&self, now: Millis) -> io::Result<()> {
        let result = self.index.write_behind().and_then(|()| self.checkpoint_if_due(now));
        match result {
            Err(error) if is_full(&error) => {
                if let Some(held_back) = self.behind.tell(Instant::now()) {
                    tracing::warn!(
                        %error, held_back,
                        "no room for the index or the checkpoint: tried again until there is"
                    );
                }
                Ok(())
            }
            other => other,
        }
    }

    fn checkpoint_if_due(&self, now: Millis) -> io::Result<()> {
        let mut checkpoints = lock(&self.checkpoints);
        if now < checkpoints.due || checkpoints.last == self.ends_now() {
            return Ok(());
        }
        checkpoints.due = Millis(now.0 + CHECKPOINT_MILLIS);
        self.checkpoint(&mut checkpoints)
    }

    fn checkpoint(&self, checkpoints: &mut Checkpoints) -> io::Result<()> {
        self.index.flush()?;
        lock(&self.durable).file.sync()?;
        let (mut committed, end) = self.ends_now();
        if planted!(self.planted, P19) {
            committed = end;
        }
        checkpoints.file.store(committed.checked_sub(1), end.checked_sub(1))?;
        checkpoints.last = (committed, end);
        Ok(())
    }

    fn ends_now(&self) -> (u64, u64) {
        let committed = self.ends.committed_entries.load(Ordering::SeqCst);
        (committed, self.last_id().map_or(0, |last| last.index.0 + 1))
    }

    /// The last calls of an orderly stop: everything up to `end` durable, and said so.
    ///
    /// # Errors
    /// What the disk answers.
    pub(crate) fn close(&self, end: u64) -> io::Result<()> {
        self.flush(end)?;
        self.index.write_behind()?;
        self.checkpoint(&mut lock(&self.checkpoints))?;
        let mark = DurableMark { position: end, clean: true, ..self.running_mark() };
        lock(&self.durable).file.store(mark)
    }

    /// Deletes whole files that lie before log position `before`, never the last one, and nothing
    /// that is not committed. The first file that is left holds a durable entry: a power cut would
    /// otherwise leave a log without one. Returns the first position that is left.
    ///
    /// # Errors
    /// What the disk answers; what it deleted before that is gone.
    pub fn trim(&self, before: u64) -> io::Result<u64> {
        let durable = lock(&self.durable).file.mark().position;
        let before = before
            .min(self.ends.committed.load(Ordering::SeqCst))
            .min(self.data.base_of(durable.saturating_sub(1)));
        let begin = self.data.trim(before)?.unwrap_or(0);
        if let Some(first) = self.first_index()? {
            self.index.trim(first)?;
            let all = Unit { index: u64::MAX, position: u64::MAX, size: 0, term: 0 };
            self.rot.keep((first, begin), &all);
        }
        Ok(begin)
    }

    fn running_mark(&self) -> DurableMark {
        DurableMark { boot_id: self.boot_id.clone(), ..DurableMark::default() }
    }
}

/// Whether the disk, or the user's part of it, has no room left.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked has stopped the log already; what it left is still readable.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
