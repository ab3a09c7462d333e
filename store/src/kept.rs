//! What a store that is stopped serves: which records of its log, and at which queue offsets.
//!
//! The log has records that no queue shows any more: those of topics that were deleted, and of
//! queues that began anew. Where each queue begins is therefore taken from its units; from there on
//! the log decides, by the rule of the dispatcher, as a Java broker that was killed may have lost
//! units without a trace (spec: store-dledger.md 6.9).

use std::{
    collections::{BTreeMap, HashSet, btree_map::Entry},
    io,
    path::Path,
    sync::Arc,
};

use segment::{Backup, SmallFile, Vfs};

use crate::{
    consume_queue::QueueState,
    handles::Handles,
    mark::Mark,
    options::StoreOptions,
    placement::QueueEnd,
    record::Record,
    unit::{UNIT_BYTES, Unit},
    unit_files::UnitFiles,
};

/// Units read at once.
const AT_ONCE: u64 = 4096;
/// Files that are open at once.
const OPEN_FILES: usize = 64;

/// The queues of a store that is stopped.
#[derive(Debug)]
pub struct KeptQueues {
    queues: BTreeMap<(Arc<str>, u32), Kept>,
    /// Topics that are no deleted ones, though they may have no queue.
    topics: HashSet<String>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Kept {
    /// Physical offset and queue offset of the first unit of a message that the log has.
    first: Option<(u64, u64)>,
    /// Records before this physical offset are not served.
    from: u64,
    /// Next offset that the files or the mark tell.
    next: u64,
    end: QueueEnd,
    /// Offset of the first message that was placed, and how many were.
    begin: u64,
    messages: u64,
}

/// What becomes of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A queue shows it at this offset.
    Queued(u64),
    /// It is in no queue by its kind: prepared, or rolled back.
    Beside,
    /// It was deleted with its topic.
    Deleted,
    /// It is no message, for this reason.
    Unreadable(String),
}

/// The messages of one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSpan {
    /// Topic of the queue.
    pub topic: Arc<str>,
    /// Id of the queue.
    pub id: u32,
    /// Offset of its first message; that of the next one where there is none.
    pub first: u64,
    /// Next offset.
    pub next: u64,
    /// Messages.
    pub messages: u64,
}

impl KeptQueues {
    /// Reads where the queues under `options.root` begin. `log_min` is the physical offset of the
    /// first record of the log, `topics` are those of the store's table.
    ///
    /// # Errors
    /// What the disk answers.
    pub fn open(options: &StoreOptions, log_min: u64, topics: HashSet<String>) -> io::Result<Self> {
        let mut queues = BTreeMap::new();
        let marked = marked_queues(options)?;
        let handles = Arc::new(Handles::new(Arc::clone(&options.vfs), OPEN_FILES));
        for (serial, (topic, id)) in on_disk(options)?.into_iter().enumerate() {
            let files = files_of(&options.root, options, &handles, (serial, &topic, id));
            files.look()?;
            let mark = marked.get(&(Arc::from(topic.as_str()), id));
            let kept = look(&files, mark, log_min)?;
            queues.insert((Arc::from(topic.as_str()), id), kept);
        }
        for (name, state) in marked {
            let from = state.cleared_below;
            queues.entry(name).or_insert(Kept { from, next: state.end.next, ..Kept::default() });
        }
        Ok(Self { queues, topics })
    }

    /// Where a record at `physical` goes. Records come in log order.
    pub fn place(&mut self, physical: u64, bytes: &[u8]) -> Place {
        let record = match Record::read(bytes) {
            Ok(record) => record,
            Err(error) => return Place::Unreadable(error.to_string()),
        };
        if !record.is_queued() {
            return Place::Beside;
        }
        let name = (Arc::from(record.topic), record.queue_id);
        let strange = !self.queues.is_empty() && !self.topics.contains(record.topic);
        let kept = match self.queues.entry(name) {
            Entry::Vacant(_) if strange => return Place::Deleted,
            entry => entry.or_default(),
        };
        if physical < kept.from {
            return Place::Deleted;
        }
        let recorded = match kept.first {
            Some((first, offset)) if first == physical => {
                kept.end = QueueEnd { next: offset, seen: 0, anchored: true };
                offset
            }
            _ => record.queue_offset,
        };
        let Some(offset) = kept.end.fold(recorded, physical, record.total_size) else {
            return Place::Deleted;
        };
        if kept.messages == 0 {
            kept.begin = offset;
        }
        kept.messages += 1;
        Place::Queued(offset)
    }

    /// Physical offset and queue offset of the first message that a queue shows.
    pub(crate) fn begin(&self, topic: &Arc<str>, id: u32) -> Option<(u64, u64)> {
        self.queues.get(&(Arc::clone(topic), id))?.first
    }

    /// The queues with what was placed in them; those without a message, too, where they have a
    /// next offset.
    #[must_use]
    pub fn spans(&self) -> Vec<QueueSpan> {
        let spans = self.queues.iter().filter_map(|((topic, id), kept)| {
            let (first, next) = match kept.messages {
                0 => (kept.next, kept.next),
                _ => (kept.begin, kept.end.next),
            };
            let topic = Arc::clone(topic);
            (next > 0).then_some(QueueSpan { topic, id: *id, first, next, messages: kept.messages })
        });
        spans.collect()
    }
}

/// Writes, for each queue without a message, files that tell its next offset: the last unit stands
/// for a message before the log begins, as where all have expired.
///
/// # Errors
/// What the disk answers.
pub fn write_empty_queues(options: &StoreOptions, spans: &[QueueSpan]) -> io::Result<()> {
    let handles = Arc::new(Handles::new(Arc::clone(&options.vfs), OPEN_FILES));
    for (serial, span) in spans.iter().enumerate().filter(|(_, span)| span.messages == 0) {
        let files = files_of(&options.root, options, &handles, (serial, &span.topic, span.id));
        let offset = span.next.saturating_sub(1);
        files.write(&[Unit { offset, physical: 0, size: 1, tags_code: 0 }])?;
        files.flush()?;
    }
    Ok(())
}

/// How a queue begins and where it goes on.
fn look(files: &UnitFiles, mark: Option<&QueueState>, log_min: u64) -> io::Result<Kept> {
    let next = files.found_next()?;
    let mut at = files.first_base().unwrap_or(0);
    let mut from = 0;
    if let Some(state) = mark {
        let sound = match state.last_physical {
            Some(last) => files.verify(state.min, state.end.next, last)? == state.end.next,
            None => next <= state.end.next,
        };
        if sound {
            (at, from) = (at.max(state.min), state.cleared_below);
        }
    }
    let next = mark.map_or(next, |state| next.max(state.end.next));
    let mut first = None;
    while first.is_none() && at < next {
        let units = files.read(at, (next - at).min(AT_ONCE))?;
        let Some(last) = units.last() else { break };
        at = last.offset + 1;
        let live =
            |unit: &&Unit| !unit.is_blank() && unit.physical >= log_min && unit.physical >= from;
        first = units.iter().find(live).map(|unit| (unit.physical, unit.offset));
    }
    let from = first.map_or(from, |(physical, _)| physical);
    Ok(Kept { first, from, next, ..Kept::default() })
}

fn marked_queues(options: &StoreOptions) -> io::Result<BTreeMap<(Arc<str>, u32), QueueState>> {
    let path = options.root.join("derived.mark");
    let file = SmallFile::new(Arc::clone(&options.vfs), path, Backup::None);
    let mark = file.load()?.and_then(|bytes| Mark::decode(&bytes).ok()).unwrap_or_default();
    Ok(mark.queues.into_iter().map(|queue| ((queue.topic, queue.id), queue.state)).collect())
}

/// Topic and id of each folder `consumequeue/<topic>/<id>`.
fn on_disk(options: &StoreOptions) -> io::Result<Vec<(String, u32)>> {
    let root = options.root.join("consumequeue");
    let mut found = Vec::new();
    for topic in folders(&*options.vfs, &root)? {
        for id in folders(&*options.vfs, &root.join(&topic))? {
            if let Some(id) = id.parse::<u32>().ok().filter(|number| number.to_string() == id) {
                found.push((topic.clone(), id));
            }
        }
    }
    Ok(found)
}

fn folders(vfs: &dyn Vfs, path: &Path) -> io::Result<Vec<String>> {
    match vfs.list_directories(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        names => names,
    }
}

fn files_of(
    root: &Path,
    options: &StoreOptions,
    handles: &Arc<Handles>,
    (serial, topic, id): (usize, &str, u32),
) -> UnitFiles {
    let per_file = options.consume_queue_file_size.div_ceil(UNIT_BYTES).max(1);
    let directory = root.join("consumequeue").join(topic).join(id.to_string());
    UnitFiles::fresh(directory, serial, per_file, Arc::clone(handles))
}

#[cfg(test)]
mod tests;
