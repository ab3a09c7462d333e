//! A data folder with Java's native commit log, copied to one on DLedger.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::{BufMut, BytesMut};
use dledger::{
    Body, Completed, Dledger, ENTRY_HEADER, Entries, Hook, HookError, RefusalCause, Sink, Tail,
};
use protocol::message::record::RecordView;
use segment::{ReadOnlyVfs, RealVfs, Vfs};
use store::{
    StoreOptions,
    append_log::AppendLog,
    kept::write_empty_queues,
    native::{NativeLog, restamp},
};

use super::{
    Nobody, Progress,
    convert::{Conversion, ConvertError, Sorting, Taken, derive},
    staging::{Staging, at, refuse_unclean},
};
use crate::{
    config::BrokerConfig,
    dledger_log::{DledgerLog, opening_record},
    start::open::{log_options, store_options},
};

/// Bytes of records that are appended at once.
const BATCH: usize = 1 << 20;
/// How long the log of the copy may take for an append, or for its election.
const PATIENCE: Duration = Duration::from_secs(120);

/// A data folder of a Java broker without DLedger, which no broker works on.
#[derive(Debug)]
pub struct NativeOffline {
    config: BrokerConfig,
    commitlog: PathBuf,
}

impl NativeOffline {
    /// The folder that `config.storePathRootDir` names; its commit log is in `commitlog`, or in the
    /// folder of that name in it. Lengths of files are taken from what is there.
    #[must_use]
    pub fn new(config: BrokerConfig, commitlog: Option<PathBuf>) -> Self {
        let root = Path::new(&config.store_path_root_dir);
        let commitlog = commitlog.unwrap_or_else(|| root.join("commitlog"));
        Self { config, commitlog }
    }

    /// The folder of all data.
    #[must_use]
    pub fn root(&self) -> &Path {
        Path::new(&self.config.store_path_root_dir)
    }

    /// Copies this data folder to `to` for a broker on DLedger: messages as entries of term 1 at new
    /// physical offsets, each queue with the offsets that it has, and the tables. The caller holds
    /// the lock of this folder.
    ///
    /// # Errors
    /// See [`ConvertError`]; then there is no copy.
    pub fn import(
        &self,
        to: &Path,
        progress: &mut Progress<'_>,
    ) -> Result<Conversion, ConvertError> {
        refuse_unclean(self.root())?;
        let vfs: Arc<dyn Vfs> = Arc::new(ReadOnlyVfs);
        let native = NativeLog::open(&vfs, &self.commitlog)?;
        let staging = Staging::begin(self.root(), to, std::slice::from_ref(&self.commitlog))?;
        let mut options = store_options(&self.config, Arc::clone(&vfs));
        options.consume_queue_file_size =
            store::verify::queue_file_size(&options).map_err(|source| at(self.root(), source))?;
        let mut sorting = Sorting::new(&options, native.range().0)?;
        let config = self.config_of_copy(&staging, &native, &options)?;
        let range = Appending::all(&config, &native, &mut sorting, progress)?;
        sorting.conversion.range = range;
        sorting.conversion.file_size = native.file_size();
        sorting.conversion.tables = staging.copy_tables(self.root())?;
        let spans = sorting.spans();
        sorting.conversion.queues = spans.len();
        let options = store_options(&config, Arc::new(RealVfs));
        write_empty_queues(&options, &spans).map_err(|source| at(staging.folder(), source))?;
        let log = DledgerLog::<()>::open(&log_options(&config), Arc::new(Nobody));
        let log = Arc::new(log.map_err(|error| ConvertError::Log(error.to_string()))?);
        derive(options, Arc::clone(&log) as Arc<dyn AppendLog<()>>, &spans, progress)?;
        log.shutdown().map_err(ConvertError::Log)?;
        staging.finish()?;
        Ok(sorting.conversion)
    }

    /// A group of one in the folder of the copy, with files of the lengths that the source has.
    fn config_of_copy(
        &self,
        staging: &Staging,
        native: &NativeLog,
        options: &StoreOptions,
    ) -> Result<BrokerConfig, ConvertError> {
        let folder = staging.folder();
        let root = folder.to_str().ok_or_else(|| {
            at(folder, std::io::Error::other("the path must be in UTF-8, as broker.conf has it"))
        })?;
        let mut config = self.config.clone();
        root.clone_into(&mut config.store_path_root_dir);
        config.dleger_peers.clear();
        config.mapped_file_size_commit_log = native.file_size();
        config.mapped_file_size_consume_queue = options.consume_queue_file_size;
        Ok(config)
    }
}

/// A new log that takes the records of a native one.
struct Appending {
    log: Dledger<()>,
    outcome: Arc<Outcome>,
    submitted: u64,
}

impl Appending {
    /// Appends all records; gives the range of the new log.
    fn all(
        config: &BrokerConfig,
        native: &NativeLog,
        sorting: &mut Sorting,
        progress: &mut Progress<'_>,
    ) -> Result<(u64, u64), ConvertError> {
        let (begin, end) = native.range();
        let mut appending = Self::start(config, first_stored(native))?;
        let mut at = begin;
        while at < end {
            let run = AppendLog::<()>::read_forward(native, at, BATCH);
            let run = run.map_err(|error| ConvertError::Damaged(error.to_string()))?;
            let mut entries = Entries { buffer: BytesMut::new(), lengths: Vec::new(), token: () };
            for (physical, record) in &run.records {
                if let Taken::Copied(offset) = sorting.take(*physical, record) {
                    entries.buffer.put_bytes(0, ENTRY_HEADER);
                    let from = entries.buffer.len();
                    entries.buffer.extend_from_slice(record);
                    restamp(entries.buffer.get_mut(from..).unwrap_or_default(), offset, *physical);
                    entries.lengths.push(u32::try_from(record.len()).unwrap_or(u32::MAX));
                }
            }
            appending.submit(entries)?;
            at = run.next;
            progress(at - begin, end - begin);
        }
        appending.finish()
    }

    fn start(config: &BrokerConfig, first_stored: u64) -> Result<Self, ConvertError> {
        let failed = |error: &dyn std::fmt::Display| ConvertError::Log(error.to_string());
        let outcome = Arc::new(Outcome::default());
        let options = dledger::Options {
            durability: dledger::Durability::Async,
            append_timeout: PATIENCE,
            ..log_options(config)
        };
        let log = Dledger::open(&options, Arc::clone(&outcome) as Arc<dyn Sink<()>>);
        let log = log.map_err(|error| failed(&error))?;
        let host = SocketAddr::from(([127, 0, 0, 1], config.listen_port));
        log.start(Keeping { host, first_stored }).map_err(|error| failed(&error))?;
        let appending = Self { log, outcome, submitted: 0 };
        appending.wait("it was not opened", |log| log.log.status().borrow().opened)?;
        Ok(appending)
    }

    fn submit(&mut self, mut entries: Entries<()>) -> Result<(), ConvertError> {
        if entries.lengths.is_empty() {
            return Ok(());
        }
        let begun = Instant::now();
        loop {
            let Err(refused) = self.log.submit(entries) else {
                self.submitted += 1;
                return Ok(());
            };
            self.check()?;
            if !matches!(refused.cause, RefusalCause::Full { .. }) || begun.elapsed() > PATIENCE {
                return Err(ConvertError::Log(refused.cause.to_string()));
            }
            entries = refused.entries;
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for all that was appended and stops the log.
    fn finish(self) -> Result<(u64, u64), ConvertError> {
        let submitted = self.submitted;
        self.wait("its last messages were not written", |appending| {
            appending.outcome.done.load(Ordering::Acquire) >= submitted
        })?;
        self.check()?;
        let bounds = self.log.bounds();
        self.log.shutdown().map_err(ConvertError::Log)?;
        Ok((bounds.min, bounds.committed))
    }

    fn wait(&self, what: &str, holds: impl Fn(&Self) -> bool) -> Result<(), ConvertError> {
        let mut begun = (self.outcome.done.load(Ordering::Acquire), Instant::now());
        while !holds(self) {
            self.check()?;
            let done = self.outcome.done.load(Ordering::Acquire);
            if done != begun.0 {
                begun = (done, Instant::now());
            }
            if begun.1.elapsed() > PATIENCE {
                return Err(ConvertError::Log(format!("{what} within {PATIENCE:?}")));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn check(&self) -> Result<(), ConvertError> {
        if let Some(reason) = self.log.status().borrow().failure.clone() {
            return Err(ConvertError::Log(reason));
        }
        let failed = self.outcome.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.clone().map_or(Ok(()), |reason| Err(ConvertError::Log(reason)))
    }
}

/// What became of the appends.
#[derive(Debug, Default)]
struct Outcome {
    done: AtomicU64,
    failed: Mutex<Option<String>>,
}

impl Sink<()> for Outcome {
    fn completed(&self, group: Vec<Completed<()>>) {
        for completed in &group {
            if let Err(failure) = &completed.result {
                let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.get_or_insert_with(|| failure.to_string());
            }
        }
        self.done.fetch_add(group.len() as u64, Ordering::AcqRel);
    }
}

/// Gives records their new physical offsets, and keeps everything else.
struct Keeping {
    host: SocketAddr,
    /// Store time of the first message: the entry before it must not be younger.
    first_stored: u64,
}

impl Hook for Keeping {
    fn elected(&mut self, _term: u64, _tail: &mut dyn Tail) -> Result<(), HookError> {
        Ok(())
    }

    fn opening(&mut self, term: u64) -> Vec<u8> {
        opening_record(term, self.host, self.first_stored)
    }

    fn stamp(&mut self, group: &mut [Body<'_>]) -> Result<(), HookError> {
        for body in group {
            restamp(body.bytes, None, body.position + ENTRY_HEADER as u64);
        }
        Ok(())
    }

    fn undo(&mut self) {}
}

fn first_stored(native: &NativeLog) -> u64 {
    let run = AppendLog::<()>::read_forward(native, native.range().0, 1).unwrap_or_default();
    let first = run.records.first().and_then(|(_, record)| RecordView::parse(record).ok());
    first.map_or(0, |view| u64::try_from(view.store_timestamp()).unwrap_or(0))
}
