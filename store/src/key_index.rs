//! The key index: messages by UNIQ_KEY and KEYS (Java `IndexService`).

use std::{
    io,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
    time::Instant,
};

use protocol::message::{
    properties::{self, key},
    tags,
};
use segment::{Throttle, Vfs};

use crate::{
    index_file::{IndexFile, IndexHeader, Key, NAME_DIGITS, Shape},
    mark::IndexMark,
    options::StoreOptions,
    record::Record,
};

/// Entries that may wait for the disk, in bytes, before dispatch waits for it too.
const MAX_PENDING: usize = 16 << 20;

/// All index files, oldest first. The dispatcher alone adds to it.
#[derive(Debug)]
pub(crate) struct KeyIndex {
    vfs: Arc<dyn Vfs>,
    directory: PathBuf,
    shape: Shape,
    enabled: bool,
    files: RwLock<Files>,
    /// Warnings that entries cannot be written.
    warned: Throttle,
}

#[derive(Debug, Default)]
struct Files {
    list: Vec<Arc<IndexFile>>,
    /// Physical offset of the last message whose keys are all in.
    indexed_to: Option<u64>,
}

/// What a look-up found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Physical offsets, newest first; some may be of other keys with the same hash.
    pub(crate) physical: Vec<u64>,
    pub(crate) last: IndexHeader,
}

impl KeyIndex {
    pub(crate) fn new(options: &StoreOptions) -> Self {
        Self {
            vfs: Arc::clone(&options.vfs),
            directory: options.root.join("index"),
            shape: Shape { slots: options.index_slots, entries: options.index_entries },
            enabled: options.index_enabled,
            files: RwLock::default(),
            warned: Throttle::new(),
        }
    }

    /// Takes up the files that a mark names, as far as they bear it out. Returns the physical offset
    /// from which keys are missing; `None` where none are. Files that no mark names are removed, and
    /// so is what belongs to messages at or behind `committed`: it is derived again.
    pub(crate) fn recover(
        &self,
        marks: Option<&[IndexMark]>,
        clean: bool,
        committed: u64,
    ) -> io::Result<Option<u64>> {
        if !self.enabled {
            return Ok(None);
        }
        let mut list = Vec::new();
        let mut missing_from = marks.is_none().then_some(0);
        let mut indexed_to = None;
        for mark in marks.unwrap_or_default() {
            let whole = match self.take_up(mark, clean, committed)? {
                None => false,
                Some((file, whole)) => {
                    let header = file.header();
                    if header.count > 1 {
                        indexed_to = Some(header.end_physical);
                    }
                    list.push(Arc::new(file));
                    whole
                }
            };
            if !whole {
                tracing::warn!(
                    file = mark.name,
                    "index file is not what it was; deriving it again"
                );
                missing_from = Some(indexed_to.unwrap_or(0));
                // The keys of the last message may lie in two files, so all of them are added again.
                indexed_to = indexed_to.and_then(|end| end.checked_sub(1));
                break;
            }
        }
        self.remove_others(&list)?;
        *self.write() = Files { list, indexed_to };
        Ok(missing_from)
    }

    /// Collects the keys of a record that are not in yet.
    pub(crate) fn collect(
        &self,
        record: &Record<'_>,
        physical: u64,
        properties: &str,
        keys: &mut Vec<Key>,
    ) {
        let store_timestamp = record.store_timestamp;
        if !self.enabled || !record.is_indexed() {
            return;
        }
        let unique = properties::find(properties, key::UNIQ_KEY);
        let listed = properties::find(properties, key::KEYS).unwrap_or_default();
        let listed = listed.split(' ').filter(|key| !key.is_empty());
        keys.extend(unique.into_iter().chain(listed).map(|key| Key {
            hash: key_hash(record.topic, key),
            physical,
            store_timestamp,
        }));
    }

    /// Adds keys, which come in log order; those that are in are passed over.
    pub(crate) fn add(&self, keys: &[Key]) -> io::Result<()> {
        let before = self.files.read().unwrap_or_else(PoisonError::into_inner).indexed_to;
        let known = keys.partition_point(|key| before.is_some_and(|before| key.physical <= before));
        let mut rest = keys.get(known..).unwrap_or_default();
        while let Some(first) = rest.first() {
            let file = self.file_for(first)?;
            rest = rest.get(file.add(rest)..).unwrap_or_default();
        }
        if let Some(last) = keys.last() {
            let mut files = self.write();
            files.indexed_to = files.indexed_to.max(Some(last.physical));
        }
        self.write_pending()
    }

    /// Whether everything that was added is in the files.
    pub(crate) fn write_pending(&self) -> io::Result<()> {
        for file in self.list().iter().rev().take_while(|file| !file.is_sealed()) {
            if let Err(error) = file.write_pending() {
                if file.pending_bytes() > MAX_PENDING {
                    return Err(error);
                }
                if let Some(held_back) = self.warned.tell(Instant::now()) {
                    tracing::error!(
                        file = file.name(), %error, held_back,
                        "index cannot be written; tried again until it can"
                    );
                }
            }
        }
        Ok(())
    }

    /// The files as a mark names them; `None` while entries wait for the disk.
    pub(crate) fn marks(&self) -> Option<Vec<IndexMark>> {
        let mark = |file: &Arc<IndexFile>| {
            let sealed = file.is_sealed();
            let waits = file.pending_bytes() > 0;
            (!waits).then(|| IndexMark {
                name: file.name().to_owned(),
                header: file.header(),
                sealed,
            })
        };
        self.list().iter().map(mark).collect()
    }

    /// Completes full files on disk and writes the header of the last.
    pub(crate) fn settle(&self) -> io::Result<()> {
        let list = self.list();
        let Some((last, full)) = list.split_last() else { return Ok(()) };
        for file in full.iter().filter(|file| !file.is_sealed()) {
            file.seal()?;
        }
        last.write_header()
    }

    /// Completes all files on disk; returns the newest store timestamp in them.
    pub(crate) fn close(&self) -> io::Result<u64> {
        let list = self.list();
        for file in list.iter().filter(|file| !file.is_sealed()) {
            file.write_slots()?;
        }
        if !list.is_empty() {
            self.vfs.sync_directory(&self.directory)?;
        }
        Ok(list.last().map_or(0, |file| file.header().end_timestamp))
    }

    /// Newest store timestamp in files that a Java broker can read as they are.
    pub(crate) fn sealed_timestamp(&self) -> u64 {
        let list = self.list();
        let sealed = list.iter().rfind(|file| file.is_sealed());
        sealed.map_or(0, |file| file.header().end_timestamp)
    }

    /// Lets the files go whose messages are all before log position `min`; returns their names,
    /// which [`KeyIndex::remove`] takes once a mark no longer has them.
    pub(crate) fn cut_before(&self, min: u64) -> Vec<String> {
        let mut files = self.write();
        let gone = |file: &Arc<IndexFile>| file.is_sealed() && file.header().end_physical < min;
        let count = files.list.iter().take_while(|file| gone(file)).count();
        files.list.drain(..count).map(|file| file.name().to_owned()).collect()
    }

    /// Removes files by name.
    pub(crate) fn remove(&self, names: &[String]) -> io::Result<()> {
        for name in names {
            match self.vfs.remove(&self.directory.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Looks a key up in all files, newest first.
    pub(crate) fn find(&self, topic: &str, key: &str, max: usize, range: (u64, u64)) -> Found {
        let hash = key_hash(topic, key);
        let list = self.list();
        let last = list.last().map(|file| file.header()).unwrap_or_default();
        let mut found = Found { physical: Vec::new(), last };
        for file in list.iter().rev() {
            let header = file.header();
            if header.count > 1
                && header.begin_timestamp <= range.1
                && header.end_timestamp >= range.0
                && let Err(error) = file.find(hash, range, max, &mut found.physical)
            {
                tracing::error!(file = file.name(), %error, "index file cannot be read");
            }
            if found.physical.len() >= max || header.begin_timestamp < range.0 {
                break;
            }
        }
        found
    }

    fn take_up(
        &self,
        mark: &IndexMark,
        clean: bool,
        committed: u64,
    ) -> io::Result<Option<(IndexFile, bool)>> {
        let path = self.directory.join(&mark.name);
        let file = match self.vfs.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        if file.length()? != self.shape.file_bytes() {
            return Ok(None);
        }
        let index = IndexFile::sealed(mark.name.clone(), file, self.shape, mark.header);
        let same = index.header_on_disk()? == Some(mark.header);
        let ahead = mark.header.count > 1 && mark.header.end_physical >= committed;
        if mark.sealed && !ahead {
            let sound = same && index.ends_as_noted()?;
            return Ok(sound.then_some((index, true)));
        }
        if clean && same && !ahead {
            index.load_slots(mark.header)?;
            return Ok(Some((index, true)));
        }
        let whole = index.rebuild(mark.header, committed)?;
        Ok(Some((index, whole)))
    }

    /// Index files that are not taken up would be found by a Java broker.
    fn remove_others(&self, kept: &[Arc<IndexFile>]) -> io::Result<()> {
        let names = match self.vfs.list(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            names => names?,
        };
        for name in names {
            let path = self.directory.join(&name);
            if name.len() != NAME_DIGITS || !name.bytes().all(|byte| byte.is_ascii_digit()) {
                tracing::warn!(path = %path.display(), "not an index file; left alone");
            } else if kept.iter().all(|file| file.name() != name) {
                tracing::warn!(path = %path.display(), "index file is removed; its keys are derived again");
                self.vfs.remove(&path)?;
            }
        }
        Ok(())
    }

    fn file_for(&self, key: &Key) -> io::Result<Arc<IndexFile>> {
        let last = self.list().last().cloned();
        if let Some(file) = last.as_ref().filter(|file| !file.is_full() && !file.is_sealed()) {
            return Ok(Arc::clone(file));
        }
        let name = next_name(last.as_ref().map(|file| file.name()), key.store_timestamp);
        self.vfs.create_directory(&self.directory)?;
        let file = self.vfs.create(&self.directory.join(&name))?;
        file.set_length(self.shape.file_bytes())?;
        let before = last.map(|file| file.header());
        let file = Arc::new(IndexFile::begin(name, file, self.shape, before));
        self.write().list.push(Arc::clone(&file));
        Ok(file)
    }

    fn list(&self) -> Vec<Arc<IndexFile>> {
        self.files.read().unwrap_or_else(PoisonError::into_inner).list.clone()
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Files> {
        self.files.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Java `IndexFile.indexKeyHashMethod` of `topic#key`.
fn key_hash(topic: &str, key: &str) -> u32 {
    let hash = tags::hash_code([topic, "#", key]);
    Some(hash.unsigned_abs()).filter(|hash| *hash <= 0x7fff_ffff).unwrap_or(0)
}

/// Name of a new file: the time of its first message (UTC), behind the names before it.
fn next_name(last: Option<&str>, timestamp: u64) -> String {
    let name = name_of(timestamp);
    match last.and_then(|last| last.parse::<u64>().ok()) {
        Some(last) if name.parse::<u64>().is_ok_and(|name| name <= last) => {
            format!("{:017}", last + 1)
        }
        _ => name,
    }
}

/// yyyyMMddHHmmssSSS of a time in milliseconds.
fn name_of(timestamp: u64) -> String {
    let (days, rest) = (timestamp / 86_400_000, timestamp % 86_400_000);
    let (year, month, day) = civil(days);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, milli) = (rest / 1000 % 60, rest % 1000);
    format!("{:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}{milli:03}", year % 10_000)
}

/// Year, month and day of a number of days since 1970 in the Gregorian calendar, counted in years
/// that begin in March so that the leap day is their last.
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    let since_0000_march = days + 719_468;
    let era = since_0000_march / DAYS_OF_400_YEARS;
    let day_of_era = since_0000_march % DAYS_OF_400_YEARS;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests;
