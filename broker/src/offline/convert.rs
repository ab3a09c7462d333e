//! Copies of a data folder in the other form: a DLedger log becomes Java's native commit log, and
//! the other way round. The source is only read.

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use protocol::body::TopicConfigSerializeWrapper;
use segment::{ReadOnlyVfs, Vfs};
use store::{
    Store, StoreOptions,
    append_log::AppendLog,
    config_file::ConfigFile,
    journal::TOPIC as JOURNAL_TOPIC,
    kept::{KeptQueues, Place, QueueSpan},
    native::{NativeError, WriteNativeError},
};

use super::{Nobody, Progress};

/// Why a copy could not be made. What was made so far is removed.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// The place is taken.
    #[error("{} is there already: name a folder that does not exist", .0.display())]
    Exists(PathBuf),
    /// The copy would lie in the source.
    #[error("{} lies within the data folder that is copied: name another", .0.display())]
    Inside(PathBuf),
    /// An earlier run left its work.
    #[error("{} is left by a run that was interrupted: remove it and run again", .0.display())]
    Interrupted(PathBuf),
    /// A broker works on the source, or was killed.
    #[error(
        "{} was not stopped in order (it holds the file abort): start its broker and stop it, so \
         that everything is written", .0.display()
    )]
    Unclean(PathBuf),
    /// It does not fit.
    #[error("{} has {free} bytes of room, and {needed} may be needed", folder.display())]
    Room {
        /// The folder.
        folder: PathBuf,
        /// Bytes at most.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The source is damaged.
    #[error("{0}: run `ledgermq store verify` on it")]
    Damaged(String),
    /// The native log cannot be read.
    #[error(transparent)]
    Native(#[from] NativeError),
    /// The native log cannot be written.
    #[error(transparent)]
    Write(#[from] WriteNativeError),
    /// The log of the copy could not be written.
    #[error("the log of the copy could not be written: {0}")]
    Log(String),
    /// The copy is not what the source is.
    #[error("the copy is not what it should be, and was removed: {0}")]
    Differs(String),
    /// The disk refused.
    #[error("{} cannot be read or written: {source}", place.display())]
    Io {
        /// File or folder.
        place: PathBuf,
        /// Text of the system.
        source: io::Error,
    },
}

/// What a copy holds, and what was left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conversion {
    /// Messages in the log of the copy.
    pub messages: u64,
    /// Those of them that a queue shows.
    pub queued: u64,
    /// Queues that have messages or a next offset.
    pub queues: usize,
    /// First position of the log of the copy, and position behind its last message.
    pub range: (u64, u64),
    /// Bytes of a file of the log: the `mappedFileSizeCommitLog` that the copy must be started with.
    pub file_size: u64,
    /// Records of the journal, which only a group needs; left out.
    pub journal: u64,
    /// Messages of deleted topics; left out.
    pub deleted: u64,
    /// Entries that are no message; left out.
    pub unreadable: u64,
    /// The tables that were copied.
    pub tables: Vec<String>,
}

/// What becomes of one record of the source.
pub(super) enum Taken {
    /// It is copied, with this queue offset; without one, as it says.
    Copied(Option<u64>),
    /// It is left out.
    LeftOut,
}

/// Sorts records of the source and counts them.
#[derive(Debug)]
pub(super) struct Sorting {
    kept: KeptQueues,
    pub(super) conversion: Conversion,
}

/// How long the derivation of the copy may stand still.
const STALLED: Duration = Duration::from_secs(60);

impl Sorting {
    pub(super) fn new(options: &StoreOptions, log_min: u64) -> Result<Self, ConvertError> {
        let root = &options.root;
        let topics = topics(root)?;
        let kept = KeptQueues::open(options, log_min, topics);
        let kept = kept.map_err(|source| super::staging::at(root, source))?;
        Ok(Self { kept, conversion: Conversion::default() })
    }

    pub(super) fn take(&mut self, physical: u64, record: &[u8]) -> Taken {
        let place = self.kept.place(physical, record);
        let topic = protocol::message::record::RecordView::parse(record).map(|view| view.topic());
        let counts = &mut self.conversion;
        if topic.as_ref().is_ok_and(|topic| *topic == JOURNAL_TOPIC) {
            counts.journal += 1;
            return Taken::LeftOut;
        }
        match place {
            Place::Queued(offset) => {
                counts.messages += 1;
                counts.queued += 1;
                Taken::Copied(Some(offset))
            }
            Place::Beside => {
                counts.messages += 1;
                Taken::Copied(None)
            }
            Place::Deleted => {
                counts.deleted += 1;
                Taken::LeftOut
            }
            Place::Unreadable(reason) => {
                counts.unreadable += 1;
                tracing::warn!(physical, reason, "left out: no message");
                Taken::LeftOut
            }
        }
    }

    /// The queues of the copy.
    pub(super) fn spans(&self) -> Vec<QueueSpan> {
        let spans = self.kept.spans().into_iter();
        spans.filter(|span| span.topic.as_ref() != JOURNAL_TOPIC).collect()
    }
}

/// Derives queues and index of the copy from its log as a broker does, and compares what they hold
/// with what was copied.
pub(super) fn derive(
    options: StoreOptions,
    log: Arc<dyn AppendLog<()>>,
    spans: &[QueueSpan],
    progress: &mut Progress<'_>,
) -> Result<(), ConvertError> {
    let store = Store::open(options, log);
    let store = store.map_err(|error| ConvertError::Differs(error.to_string()))?;
    store.start_dispatch(Arc::new(Nobody));
    let (begin, end) = (store.dispatched(), store.max_physical());
    let mut moved = (begin, Instant::now());
    while store.dispatch_behind_bytes() > 0 {
        let now = store.dispatched();
        progress(now.saturating_sub(begin), end.saturating_sub(begin));
        if now != moved.0 {
            moved = (now, Instant::now());
        } else if moved.1.elapsed() > STALLED {
            let text = format!("its queues could not be made behind position {now}");
            return Err(ConvertError::Differs(text));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let found = compare(&store, spans);
    store.shutdown();
    found
}

fn compare(store: &Store<()>, spans: &[QueueSpan]) -> Result<(), ConvertError> {
    for span in spans.iter().filter(|span| span.messages > 0) {
        let first = store.min_offset(&span.topic, span.id);
        let next = store.max_offset(&span.topic, span.id);
        if (first, next) != (span.first, span.next) {
            let QueueSpan { topic, id, .. } = span;
            return Err(ConvertError::Differs(format!(
                "queue {id} of {topic} goes from {first} to {next}, not from {} to {}",
                span.first, span.next
            )));
        }
    }
    let unreadable = store.counters().unreadable.load(std::sync::atomic::Ordering::Relaxed);
    if unreadable > 0 {
        return Err(ConvertError::Differs(format!("{unreadable} messages cannot be read")));
    }
    Ok(())
}

/// Names in the table of topics.
fn topics(root: &Path) -> Result<HashSet<String>, ConvertError> {
    let vfs: Arc<dyn Vfs> = Arc::new(ReadOnlyVfs);
    let file = ConfigFile::new(vfs, root.join("config").join("topics.json"));
    let table = file.load(TopicConfigSerializeWrapper::decode);
    let table = table.map_err(|error| ConvertError::Damaged(error.to_string()))?;
    Ok(table.map(|table| table.topic_config_table.into_keys().collect()).unwrap_or_default())
}
