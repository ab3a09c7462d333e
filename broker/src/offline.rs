//! A data folder that no broker works on: read through, brought in order, and copied in another
//! form.

mod convert;
mod export;
mod force;
mod import;
mod staging;

use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use dledger::{
    RecoverError,
    verify::{self, LogSurvey, Visitor},
};
use protocol::{
    body::{
        ConsumerOffsetSerializeWrapper, DelayOffsetSerializeWrapper,
        MessageRequestModeSerializeWrapper, SubscriptionGroupWrapper, TopicConfigSerializeWrapper,
    },
    message::record::RecordView,
};
use segment::{Finding, Mend, ReadOnlyVfs, RealVfs, Vfs};
use store::{
    Arrival, ArrivalListener, JournalRecord, Store, StoreOptions,
    append_log::{AppendLog, CommitSink, Completed, HEADROOM},
    native::NativeLog,
    verify::{Comparison, DerivedSurvey},
};

pub use self::{
    convert::{Conversion, ConvertError},
    import::NativeOffline,
};
use crate::{
    config::BrokerConfig,
    dledger_log::DledgerLog,
    native_front::Places,
    start::open::{log_options, store_options},
};

/// Why a data folder cannot be worked on.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// It is no data folder of a broker, or of several.
    #[error("{0}")]
    NoStore(String),
    /// The disk refused.
    #[error("{place} cannot be read or written: {source}")]
    Io {
        /// The folder.
        place: String,
        /// Text of the system.
        source: io::Error,
    },
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] RecoverError),
    /// The log or the store could not be opened or closed.
    #[error("{0}")]
    Open(String),
}

/// Messages of one topic behind a damage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LostTopic {
    /// Its name.
    pub topic: String,
    /// How many.
    pub messages: u64,
    /// When the first and the last of them were stored, in milliseconds since 1970.
    pub stored: (i64, i64),
}

/// All that a look through a data folder found.
#[derive(Debug, Default)]
pub struct StoreSurvey {
    /// The log.
    pub log: LogSurvey,
    /// Queues and key index.
    pub derived: DerivedSurvey,
    /// The tables in config/.
    pub tables: Vec<Finding>,
    /// What a start that gives up the damage would lose.
    pub lost: Vec<LostTopic>,
}

impl StoreSurvey {
    /// Everything that is wrong.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.log.findings.iter().chain(&self.derived.findings).chain(&self.tables)
    }

    /// How many findings are damage.
    #[must_use]
    pub fn damages(&self) -> usize {
        self.findings().filter(|finding| !finding.mend.is_harmless()).count()
    }
}

/// A data folder. The caller holds its lock where it changes something.
#[derive(Debug)]
pub struct Offline {
    config: BrokerConfig,
    /// The folder of the log.
    log: PathBuf,
}

/// How far a look has come: done and all.
pub type Progress<'a> = dyn FnMut(u64, u64) + 'a;

impl Offline {
    /// The folder that `config.storePathRootDir` names. Node, and lengths of files, are taken from
    /// what is there.
    ///
    /// # Errors
    /// See [`OfflineError`].
    pub fn find(mut config: BrokerConfig) -> Result<Self, OfflineError> {
        let root = PathBuf::from(&config.store_path_root_dir);
        let failed = |source| OfflineError::Io { place: root.display().to_string(), source };
        let folders = ReadOnlyVfs.list_directories(&root).map_err(failed)?;
        let nodes: Vec<_> =
            folders.iter().filter_map(|name| name.strip_prefix("dledger-")).collect();
        if !nodes.contains(&config.dleger_self_id.as_str()) {
            let [node] = nodes[..] else {
                return Err(OfflineError::NoStore(format!(
                    "{} holds {} logs (folders dledger-<id>) and none of {}: name the folder that a broker has as storePathRootDir, and its dLegerSelfId by --set",
                    root.display(),
                    nodes.len(),
                    config.dleger_self_id
                )));
            };
            node.clone_into(&mut config.dleger_self_id);
        }
        let log = root.join(format!("dledger-{}", config.dleger_self_id));
        let size = config.mapped_file_size_commit_log;
        config.mapped_file_size_commit_log = match verify::data_file_size(&ReadOnlyVfs, &log, size)
        {
            Err(error) if error.kind() == io::ErrorKind::NotFound => size,
            found => found.map_err(failed)?,
        };
        let options = store_options(&config, Arc::new(ReadOnlyVfs));
        config.mapped_file_size_consume_queue =
            store::verify::queue_file_size(&options).map_err(failed)?;
        Ok(Self { config, log })
    }

    /// The folder of all data.
    #[must_use]
    pub fn root(&self) -> &Path {
        Path::new(&self.config.store_path_root_dir)
    }

    /// The folder of the log.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Bytes of a data file.
    #[must_use]
    pub fn data_file_size(&self) -> u64 {
        self.config.mapped_file_size_commit_log
    }

    /// Reads everything and changes nothing. A broker that runs meanwhile makes it find what is only
    /// not written yet.
    ///
    /// # Errors
    /// See [`OfflineError`].
    pub fn verify(&self, progress: &mut Progress<'_>) -> Result<StoreSurvey, OfflineError> {
        let vfs: Arc<dyn Vfs> = Arc::new(ReadOnlyVfs);
        let failed = |source| OfflineError::Io { place: self.root().display().to_string(), source };
        let comparison = Comparison::open(self.store_options(&vfs)?).map_err(failed)?;
        let mut reading = Reading { comparison, error: None, lost: BTreeMap::new(), progress };
        if let Some(front) = self.front(&vfs)? {
            each_record(&front, &mut |physical, record| reading.record(physical, record))?;
        }
        let log = verify::survey(&vfs, &self.log, self.data_file_size(), &mut reading)?;
        let Reading { comparison, error, lost, .. } = reading;
        error.map_or(Ok(()), Err).map_err(failed)?;
        let mut derived = comparison.finish().map_err(failed)?;
        if log.rot.is_some() {
            // Behind the damage there was nothing to compare with.
            derived.findings.retain(|finding| finding.mend != Mend::Derive);
        }
        let tables = self.tables(&*vfs).map_err(failed)?;
        Ok(StoreSurvey { log, derived, tables, lost: lost.into_values().collect() })
    }

    /// Gives up the log from position `position` on.
    ///
    /// # Errors
    /// See [`OfflineError`].
    pub fn give_up_behind(&self, position: u64) -> Result<(), OfflineError> {
        let vfs: Arc<dyn Vfs> = Arc::new(RealVfs);
        Ok(verify::give_up_behind(&vfs, &self.log, self.data_file_size(), position)?)
    }

    /// Opens log and store as a start does, which mends what a crash left and makes again what is
    /// missing of the derived files, and closes them in order.
    ///
    /// # Errors
    /// See [`OfflineError`].
    pub fn rebuild(&self, progress: &mut Progress<'_>) -> Result<(), OfflineError> {
        let open = |error: &dyn fmt::Display| OfflineError::Open(error.to_string());
        let vfs: Arc<dyn Vfs> = Arc::new(RealVfs);
        let (front, options) = (self.front(&vfs)?, self.store_options(&vfs)?);
        let log_options = log_options(&self.config);
        let log = DledgerLog::<()>::open_behind(front, &log_options, Arc::new(Nobody));
        let log = Arc::new(log.map_err(|error| open(&error))?);
        let store = Store::open(options, Arc::clone(&log) as Arc<dyn AppendLog<()>>);
        let store = store.map_err(|error| open(&error))?;
        store.start_dispatch(Arc::new(Nobody));
        let begin = store.dispatched();
        let end = store.max_physical();
        while store.dispatch_behind_bytes() > 0 {
            progress(store.dispatched().saturating_sub(begin), end.saturating_sub(begin));
            std::thread::sleep(Duration::from_millis(20));
        }
        store.shutdown();
        log.shutdown().map_err(OfflineError::Open)
    }

    /// The native log in front of the DLedger log, where there is one.
    fn front(&self, vfs: &Arc<dyn Vfs>) -> Result<Option<NativeLog>, OfflineError> {
        Places::of(&self.config, &self.log)
            .existing(vfs)
            .map_err(|error| OfflineError::Open(error.to_string()))
    }

    /// Options of the store over both logs.
    fn store_options(&self, vfs: &Arc<dyn Vfs>) -> Result<StoreOptions, OfflineError> {
        let native_below = self.front(vfs)?.map_or(0, |front| front.range().1);
        Ok(StoreOptions { native_below, ..store_options(&self.config, Arc::clone(vfs)) })
    }

    fn tables(&self, vfs: &dyn Vfs) -> io::Result<Vec<Finding>> {
        let folder = self.root().join("config");
        let mut findings = Vec::new();
        for (name, check) in TABLES {
            let path = folder.join(name);
            let Some(reason) = fault(vfs, &path, *check)? else { continue };
            let mut backup = path.clone().into_os_string();
            backup.push(".bak");
            let backup = PathBuf::from(backup);
            let finding = if vfs.open(&backup).is_ok() && fault(vfs, &backup, *check)?.is_none() {
                (format!("{reason}; its .bak is read in its place"), Mend::Start)
            } else {
                (
                    format!("{reason}, and there is no sound .bak: a broker does not start"),
                    Mend::Lost,
                )
            };
            let (what, mend) = finding;
            findings.push(Finding { place: path, position: None, what, mend });
        }
        Ok(findings)
    }
}

type Check = fn(&[u8]) -> Result<(), String>;

/// The tables that a start reads.
const TABLES: &[(&str, Check)] = &[
    ("topics.json", |bytes| outcome(TopicConfigSerializeWrapper::decode(bytes))),
    ("subscriptionGroup.json", |bytes| outcome(SubscriptionGroupWrapper::decode(bytes))),
    ("consumerOffset.json", |bytes| outcome(ConsumerOffsetSerializeWrapper::decode(bytes))),
    ("delayOffset.json", |bytes| outcome(DelayOffsetSerializeWrapper::decode(bytes))),
    ("messageRequestMode.json", |bytes| outcome(MessageRequestModeSerializeWrapper::decode(bytes))),
];

fn outcome<T, E: fmt::Display>(decoded: Result<T, E>) -> Result<(), String> {
    decoded.map(|_| ()).map_err(|error| error.to_string())
}

/// What is wrong with a table; nothing where it is missing.
fn fault(vfs: &dyn Vfs, path: &Path, check: Check) -> io::Result<Option<String>> {
    let file = match vfs.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut bytes = vec![0; usize::try_from(file.length()?).map_err(io::Error::other)?];
    segment::read_exact_at(&*file, &mut bytes, 0)?;
    Ok(check(&bytes).err().map(|reason| format!("cannot be read: {reason}")))
}

/// Hands entries to the comparison, or counts them where they are behind damage.
struct Reading<'a, 'b> {
    comparison: Comparison,
    error: Option<io::Error>,
    lost: BTreeMap<String, LostTopic>,
    progress: &'a mut Progress<'b>,
}

impl Reading<'_, '_> {
    fn record(&mut self, physical: u64, record: &[u8]) {
        if self.error.is_none()
            && let Err(error) = self.comparison.record(physical, record)
        {
            self.error = Some(error);
        }
    }
}

/// Reads a native log from its first record to its last.
fn each_record(native: &NativeLog, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), OfflineError> {
    let (mut at, end) = native.range();
    while at < end {
        let run = AppendLog::<()>::read_forward(native, at, NATIVE_AT_ONCE)
            .map_err(|error| OfflineError::Open(format!("the log in commitlog/: {error}")))?;
        for (physical, record) in &run.records {
            visit(*physical, record);
        }
        at = run.next;
    }
    Ok(())
}

/// Bytes of a native log that are read at once.
const NATIVE_AT_ONCE: usize = 1 << 20;

impl Visitor for Reading<'_, '_> {
    fn entry(&mut self, position: u64, body: &[u8], behind_damage: bool) {
        if behind_damage {
            let Ok(view) = RecordView::parse(body) else { return };
            let lost = self.lost.entry(view.topic().to_owned()).or_default();
            let stored = view.store_timestamp();
            if lost.messages == 0 {
                view.topic().clone_into(&mut lost.topic);
                lost.stored.0 = stored;
            }
            lost.messages += 1;
            lost.stored.1 = stored;
            return;
        }
        self.record(position + HEADROOM as u64, body);
    }

    fn progress(&mut self, position: u64, end: u64) {
        (self.progress)(position, end);
    }
}

/// Waits for nothing.
pub(crate) struct Nobody;

impl CommitSink<()> for Nobody {
    fn completed(&self, _group: Vec<Completed<()>>) {}
}

impl ArrivalListener for Nobody {
    fn arrived(&self, _arrivals: &[Arrival]) {}

    fn journal(&self, _record: &JournalRecord<'_>) -> bool {
        true
    }
}
