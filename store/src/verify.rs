//! Comparing derived files with the log that they were derived from, without changing either.
//!
//! The log is shown record by record, in order; each queue and the key index are walked beside it.
//! Only what `derived.mark` names is compared: the next start makes all else again.

mod key_index;
mod queue;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use protocol::name;
use segment::{Finding, Mend, SmallFile};

use self::{key_index::IndexWalk, queue::QueueWalk};
use crate::{
    handles::Handles, key_index::KeyIndex, mark::Mark, options::StoreOptions, record::Record,
};

/// Files of queues that are open at once.
const OPEN_FILES: usize = 256;

/// What was compared, and what is wrong.
#[derive(Debug, Default)]
pub struct DerivedSurvey {
    /// Queues that were compared.
    pub queues: usize,
    /// Units that were compared.
    pub units: u64,
    /// Index files that were compared.
    pub index_files: usize,
    /// Keys that were compared.
    pub keys: u64,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

/// Bytes of a consume-queue file under `root`, as most of the files have them: the configured size
/// where there is none.
///
/// # Errors
/// What the disk answers.
pub fn queue_file_size(options: &StoreOptions) -> io::Result<u64> {
    let (vfs, root) = (&options.vfs, options.root.join("consumequeue"));
    let mut sizes: BTreeMap<u64, usize> = BTreeMap::new();
    for topic in or_none(vfs.list_directories(&root))? {
        let folder = root.join(topic);
        for queue in or_none(vfs.list_directories(&folder))? {
            let folder = folder.join(queue);
            for name in or_none(vfs.list(&folder))?.iter().filter(|name| digits(name)) {
                *sizes.entry(vfs.open(&folder.join(name))?.length()?).or_default() += 1;
            }
        }
    }
    let most = sizes.into_iter().filter(|(size, _)| *size > 0).max_by_key(|(_, count)| *count);
    Ok(most.map_or(options.consume_queue_file_size, |(size, _)| size))
}

/// A comparison that is under way.
#[derive(Debug)]
pub struct Comparison {
    options: StoreOptions,
    mark: Option<Mark>,
    queues: BTreeMap<(Arc<str>, u32), QueueWalk>,
    keys: KeyIndex,
    index: Option<IndexWalk>,
    survey: DerivedSurvey,
}

impl Comparison {
    /// Opens what is under `options.root`.
    ///
    /// # Errors
    /// What the disk answers.
    pub fn open(options: StoreOptions) -> io::Result<Self> {
        let mut survey = DerivedSurvey::default();
        let mark = load_mark(&options, &mut survey)?;
        let handles = Arc::new(Handles::new(Arc::clone(&options.vfs), OPEN_FILES));
        let mut queues = BTreeMap::new();
        for (serial, known) in mark.iter().flat_map(|mark| &mark.queues).enumerate() {
            let walk = QueueWalk::open(&options, &handles, serial, known, &mut survey.findings)?;
            queues.insert((Arc::clone(&known.topic), known.id), walk);
        }
        survey.queues = queues.len();
        let index = match &mark {
            Some(mark) if options.index_enabled => {
                survey.index_files = mark.indexes.len();
                Some(IndexWalk::open(&options, mark))
            }
            _ => None,
        };
        strays(&options, &mut survey.findings)?;
        let keys = KeyIndex::new(&options);
        Ok(Self { options, mark, queues, keys, index, survey })
    }

    /// The next record of the log, at this physical offset.
    ///
    /// # Errors
    /// What the disk answers.
    pub fn record(&mut self, physical: u64, bytes: &[u8]) -> io::Result<()> {
        let record = match Record::read(bytes) {
            Ok(record) => record,
            Err(error) => {
                let position = Some(physical);
                let what =
                    format!("committed entry is no message, which consumers do not see: {error}");
                let place = self.options.root.clone();
                self.survey.findings.push(Finding { place, position, what, mend: Mend::Start });
                return Ok(());
            }
        };
        let derived = self.mark.as_ref().map_or(0, |mark| mark.position);
        if self.options.position_of(physical) >= derived {
            return Ok(());
        }
        let properties = record.properties();
        if let Some(index) = &mut self.index {
            let mut keys = Vec::new();
            self.keys.collect(&record, physical, &properties, &mut keys);
            self.survey.keys += index.record(physical, &keys)?;
        }
        if !record.is_queued() {
            return Ok(());
        }
        let levels = &self.options.delay_levels;
        let tags_code = crate::dispatch::tags_code(&record, &properties, levels);
        // A Java broker derives the units of the timer topic as those of any other.
        let javas = if record.topic == name::TIMER_TOPIC {
            crate::dispatch::tag_hash(&properties)
        } else {
            tags_code
        };
        // A message that was derived under another table of levels has another time, not before its own.
        let stored = i64::try_from(record.store_timestamp).unwrap_or(i64::MAX);
        let delayed = record.topic == name::SCHEDULE_TOPIC;
        let fits = |code: i64| [tags_code, javas].contains(&code) || (delayed && code >= stored);
        let own = (record.topic, record.queue_id, record.queue_offset);
        let mut lights = crate::light::places(&record, &properties);
        lights.sort_unstable();
        lights.dedup_by_key(|light| (light.0, light.1));
        lights.retain(|light| (light.0, light.1) != (own.0, own.1));
        for (topic, id, _) in std::iter::once(own).chain(lights) {
            if let Some(walk) = self.queues.get_mut(&(Arc::from(topic), id)) {
                self.survey.units += walk.record(physical, record.total_size, &fits)?;
            }
        }
        Ok(())
    }

    /// The end of the log.
    ///
    /// # Errors
    /// What the disk answers.
    pub fn finish(mut self) -> io::Result<DerivedSurvey> {
        for walk in self.queues.into_values() {
            self.survey.findings.extend(walk.finish()?);
        }
        if let Some(index) = self.index {
            self.survey.findings.extend(index.finish()?);
        }
        Ok(self.survey)
    }
}

fn load_mark(options: &StoreOptions, survey: &mut DerivedSurvey) -> io::Result<Option<Mark>> {
    let path = options.root.join("derived.mark");
    let file = SmallFile::new(Arc::clone(&options.vfs), path.clone(), segment::Backup::None);
    let mut tell = |what: String| {
        let what = format!("{what}: all queues and the index are made again from the log");
        survey.findings.push(Finding {
            place: path.clone(),
            position: None,
            what,
            mend: Mend::Start,
        });
    };
    let Some(bytes) = file.load()? else {
        tell("missing, as where a Java broker ran".to_owned());
        return Ok(None);
    };
    match Mark::decode(&bytes) {
        Ok(mark) => Ok(Some(mark)),
        Err(error) => {
            tell(error.to_string());
            Ok(None)
        }
    }
}

/// Names that a broker does not give.
fn strays(options: &StoreOptions, findings: &mut Vec<Finding>) -> io::Result<()> {
    let vfs = &options.vfs;
    let root = options.root.join("consumequeue");
    let mut tell = |place: PathBuf, what: &str| {
        let what = format!("not {what}");
        findings.push(Finding { place, position: None, what, mend: Mend::MoveAside });
    };
    for name in or_none(vfs.list(&root))? {
        tell(root.join(name), "a folder of a topic");
    }
    for topic in or_none(vfs.list_directories(&root))? {
        let folder = root.join(&topic);
        for name in or_none(vfs.list(&folder))? {
            tell(folder.join(name), "a folder of a queue");
        }
        for name in or_none(vfs.list_directories(&folder))? {
            if name.parse::<u32>().is_ok_and(|id| id.to_string() == name) {
                queue_strays(options, &folder.join(name), &mut tell)?;
            } else {
                tell(folder.join(name), "a consume queue");
            }
        }
    }
    let index = options.root.join("index");
    for name in or_none(vfs.list(&index))? {
        if name.len() != crate::index_file::NAME_DIGITS || !digits(&name) {
            tell(index.join(name), "an index file");
        }
    }
    Ok(())
}

fn queue_strays(
    options: &StoreOptions,
    folder: &Path,
    tell: &mut dyn FnMut(PathBuf, &str),
) -> io::Result<()> {
    for name in or_none(options.vfs.list(folder))? {
        if name.len() != 20 || !digits(&name) {
            tell(folder.join(name), "a file of a consume queue");
        }
    }
    Ok(())
}

fn digits(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit())
}

fn or_none(names: io::Result<Vec<String>>) -> io::Result<Vec<String>> {
    match names {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        names => names,
    }
}

#[cfg(test)]
mod tests;
