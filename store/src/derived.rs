//! What is derived from the log, shared by dispatcher, readers and keeper.

use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use segment::{Backup, SmallFile};

use crate::{
    checkpoint::{Checkpoint, CheckpointFile},
    dispatch::JournalRecord,
    journal::{self, Change},
    key_index::KeyIndex,
    mark::{Mark, QueueMark},
    options::StoreOptions,
    queue_table::QueueTable,
    timeline::Timeline,
};

/// Queues, index and how far they have come.
#[derive(Debug)]
pub(crate) struct Derived {
    pub(crate) options: StoreOptions,
    pub(crate) queues: QueueTable,
    pub(crate) index: KeyIndex,
    pub(crate) counters: Counters,
    pub(crate) stopping: AtomicBool,
    /// Held while a batch is shown, so that a mark never names half of one.
    progress: Mutex<Progress>,
    dispatched: AtomicU64,
    /// Start of the log to which everything was cut last.
    cut_to: AtomicU64,
    mark_file: MarkFile,
}

/// How far dispatch has come, beside the position itself.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) store_timestamp: u64,
    pub(crate) timeline: Timeline,
}

/// `derived.mark` and the checkpoint, written together.
#[derive(Debug)]
struct MarkFile {
    mark: SmallFile,
    checkpoint: CheckpointFile,
    written: Mutex<Option<Written>>,
}

/// The mark that was written last.
#[derive(Debug, Clone, Copy)]
struct Written {
    position: u64,
    bytes: u64,
    at: Instant,
}

/// Things that should not happen, counted.
#[derive(Debug, Default)]
pub struct Counters {
    /// Records whose offset differs from the unit they got.
    pub misplaced: AtomicU64,
    /// Committed records that cannot be read as messages.
    pub unreadable: AtomicU64,
    /// Failed writes of derived files; each is tried again.
    pub write_errors: AtomicU64,
}

impl Derived {
    pub(crate) fn new(options: StoreOptions) -> Self {
        let file = |name| options.root.join(name);
        let vfs = || Arc::clone(&options.vfs);
        let mark_file = MarkFile {
            mark: SmallFile::new(vfs(), file("derived.mark"), Backup::None),
            checkpoint: CheckpointFile::new(vfs(), file("checkpoint")),
            written: Mutex::default(),
        };
        Self {
            queues: QueueTable::new(&options),
            index: KeyIndex::new(&options),
            options,
            counters: Counters::default(),
            stopping: AtomicBool::new(false),
            progress: Mutex::default(),
            dispatched: AtomicU64::new(0),
            cut_to: AtomicU64::new(0),
            mark_file,
        }
    }

    /// Log position before which everything is derived.
    pub(crate) fn dispatched(&self) -> u64 {
        self.dispatched.load(Ordering::Acquire)
    }

    pub(crate) fn set_dispatched(&self, position: u64) {
        self.dispatched.store(position, Ordering::Release);
    }

    /// Goes on at the start of the log, which lies behind everything that was dispatched.
    pub(crate) fn skip_to(&self, min: u64) {
        for queue in self.queues.all() {
            if queue.state().end.seen <= min {
                queue.unanchor();
            }
        }
        self.set_dispatched(min);
    }

    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of log between two samples of store time.
    pub(crate) fn sample_step(&self) -> u64 {
        (self.options.log_file_size / 16).clamp(4 << 10, 64 << 20)
    }

    pub(crate) fn load_mark(&self) -> io::Result<Option<Mark>> {
        let Some(bytes) = self.mark_file.mark.load()? else { return Ok(None) };
        match Mark::decode(&bytes) {
            Ok(mark) => Ok(Some(mark)),
            Err(error) => {
                let path = self.mark_file.mark.path().display();
                tracing::warn!(%path, %error, "mark is not believed; everything is derived again");
                Ok(None)
            }
        }
    }

    /// Writes down how far the derived files have come. Does nothing while index entries wait for
    /// the disk.
    pub(crate) fn write_mark(&self, clean: bool) -> io::Result<()> {
        let mut written = self.mark_file.written.lock().unwrap_or_else(PoisonError::into_inner);
        self.index.settle()?;
        // A mark that says clean is believed about the slots on disk.
        let index = if clean { self.index.close()? } else { self.index.sealed_timestamp() };
        // One at a time, so that dispatch waits for one write and not for all.
        for queue in self.queues.all() {
            let _progress = self.progress();
            queue.write_pending(1)?;
        }
        let Some(mark) = self.snapshot(clean)? else { return Ok(()) };
        let bytes = mark.encode();
        self.mark_file.mark.store(&bytes)?;
        self.mark_file.checkpoint.store(&Checkpoint {
            physic: mark.store_timestamp,
            logics: mark.store_timestamp,
            index,
        })?;
        let (position, bytes) = (mark.position, bytes.len() as u64);
        *written = Some(Written { position, bytes, at: Instant::now() });
        Ok(())
    }

    /// Whether so much was derived since the last mark that a new one is worth its bytes.
    pub(crate) fn mark_is_due(&self) -> bool {
        const LONGEST: u32 = 6;
        let written = *self.mark_file.written.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(last) = written else { return true };
        let grown = self.dispatched().saturating_sub(last.position);
        let waited = last.at.elapsed();
        grown > 0
            && waited >= self.options.mark_interval
            && (grown >= last.bytes.saturating_mul(8)
                || waited >= self.options.mark_interval * LONGEST)
    }

    /// Writes all units and makes them durable, one by one where they are few.
    pub(crate) fn flush_queues(&self) -> io::Result<()> {
        const FEW: usize = 16;
        let queues = self.queues.all();
        queues.iter().try_for_each(|queue| queue.write_pending(1))?;
        let unsynced: usize = queues.iter().map(|queue| queue.files().unsynced()).sum();
        let renamed = queues.iter().any(|queue| queue.files().is_renamed());
        if unsynced <= FEW && !renamed {
            return queues.iter().try_for_each(|queue| queue.files().flush());
        }
        self.options.vfs.sync_disk(&self.options.root)?;
        queues.iter().for_each(|queue| queue.files().synced());
        Ok(())
    }

    /// Lets go what is derived from messages before log position `min`. The mark is written before
    /// files are removed: one that names a missing file would not be believed.
    pub(crate) fn cut_before(&self, min: u64) -> io::Result<()> {
        if min <= self.cut_to.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut raised = Vec::new();
        for queue in self.queues.all() {
            if queue.raise_min(queue.first_from(min)?) {
                raised.push(queue);
            }
        }
        let names = self.index.cut_before(min);
        self.progress().timeline.cut_before(min);
        if !raised.is_empty() || !names.is_empty() {
            self.write_mark(false)?;
            self.index.remove(&names)?;
            let _progress = self.progress();
            raised.iter().try_for_each(|queue| queue.files().cut_before(queue.range().0))?;
        }
        self.cut_to.store(min, Ordering::Release);
        Ok(())
    }

    /// Does to queues what a record of the journal says, with all before it derived: topics that it
    /// deletes are cleared, and a snapshot tells the next offsets of queues whose messages are gone.
    /// A record that cannot be read does nothing here.
    pub(crate) fn journal(&self, record: &JournalRecord<'_>) {
        match journal::decode(record.body) {
            Ok(journal::Record::Changes { changes }) => {
                for change in changes {
                    let Change::DeleteTopic(topic) = change else { continue };
                    if let Err(error) = self.delete_topic(&topic, record.position) {
                        tracing::error!(topic, %error, "queues of a deleted topic were not removed");
                    }
                }
            }
            Ok(journal::Record::Part { rows, .. }) => self.know_queues(rows, record.position),
            Ok(_) | Err(_) => {}
        }
    }

    fn know_queues(&self, rows: Vec<Change>, position: u64) {
        let _progress = self.progress();
        for row in rows {
            let Change::Queues { topic, queues } = row else { continue };
            for range in queues {
                self.queues.find_or_make(&topic, range.id).know(range.next, position);
            }
        }
    }

    /// Deletes the messages of a topic before log position `position`.
    pub(crate) fn delete_topic(&self, topic: &str, position: u64) -> io::Result<()> {
        let queues = self.queues.of(topic);
        {
            let _progress = self.progress();
            queues.iter().try_for_each(|queue| queue.clear(position))?;
        }
        self.write_mark(false)?;
        let _progress = self.progress();
        for queue in &queues {
            match queue.range() {
                (min, next) if min == next => queue.files().cut_behind(0)?,
                (min, _) => queue.files().cut_before(min)?,
            }
        }
        Ok(())
    }

    fn snapshot(&self, clean: bool) -> io::Result<Option<Mark>> {
        let progress = self.progress();
        let queues = self.queues.all();
        queues.iter().try_for_each(|queue| queue.write_pending(1))?;
        let Some(indexes) = self.index.marks() else { return Ok(None) };
        let mark = |queue: &Arc<crate::consume_queue::ConsumeQueue>| QueueMark {
            topic: Arc::clone(queue.topic()),
            id: queue.id(),
            state: queue.state(),
        };
        Ok(Some(Mark {
            position: self.dispatched(),
            store_timestamp: progress.store_timestamp,
            clean,
            queues: queues.iter().map(mark).collect(),
            indexes,
            timeline: progress.timeline.clone(),
        }))
    }
}
