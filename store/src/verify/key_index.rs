//! The key index beside the log: its entries come in the order of the log.

use std::{collections::VecDeque, io, path::PathBuf, sync::Arc};

use segment::{Finding, Mend, Vfs, VfsFile, read_exact_at};

use crate::{
    index_file::{ENTRY_BYTES, Entry, HEADER_BYTES, IndexHeader, Key, SLOT_BYTES, Shape},
    mark::{IndexMark, Mark},
    options::StoreOptions,
};

/// Entries or slots read at once.
const AT_ONCE: u32 = 4096;

/// All index files that a mark names, walked as the log is read.
#[derive(Debug)]
pub(super) struct IndexWalk {
    vfs: Arc<dyn Vfs>,
    directory: PathBuf,
    shape: Shape,
    waiting: VecDeque<IndexMark>,
    open: Option<OpenFile>,
    begun: bool,
    /// Physical offset of the last message with keys.
    last: Option<u64>,
    flaw: Option<Finding>,
}

#[derive(Debug)]
struct OpenFile {
    mark: IndexMark,
    path: PathBuf,
    file: Arc<dyn VfsFile>,
    /// Number of the next entry.
    next: u32,
    ahead: VecDeque<Entry>,
    /// Newest entry of each slot so far.
    table: Vec<u32>,
}

impl IndexWalk {
    pub(super) fn open(options: &StoreOptions, mark: &Mark) -> Self {
        Self {
            vfs: Arc::clone(&options.vfs),
            directory: options.root.join("index"),
            shape: Shape { slots: options.index_slots, entries: options.index_entries },
            waiting: mark.indexes.iter().cloned().collect(),
            open: None,
            begun: false,
            last: None,
            flaw: None,
        }
    }

    /// Compares the entries of a record's keys; gives how many were compared. After the first flaw
    /// nothing more is: a repair makes all behind it again.
    pub(super) fn record(&mut self, physical: u64, keys: &[Key]) -> io::Result<u64> {
        let mut compared = 0;
        for key in keys {
            loop {
                if self.flaw.is_some() {
                    return Ok(compared);
                }
                let Some(entry) = self.take()? else {
                    let what = format!("a key of the message at {physical} is missing at its end");
                    self.wrong(None, what);
                    return Ok(compared);
                };
                if entry.physical == physical && entry.hash == key.hash {
                    self.begun = true;
                    compared += 1;
                    break;
                }
                // After a crash the keys of one message may have been added a second time.
                let repeated = self.last == Some(entry.physical)
                    || (entry.physical == physical
                        && keys.iter().any(|other| other.hash == entry.hash));
                // At the front, entries are of messages that the log no longer has.
                if !repeated && (self.begun || entry.physical > physical) {
                    let what =
                        format!("a key of the message at {physical} is not where it belongs");
                    self.wrong_before(what);
                }
            }
        }
        if !keys.is_empty() {
            self.last = Some(physical);
        }
        Ok(compared)
    }

    pub(super) fn finish(mut self) -> io::Result<Option<Finding>> {
        let mut more = 0_u64;
        while self.flaw.is_none()
            && let Some(entry) = self.take()?
        {
            more += u64::from(self.begun && self.last != Some(entry.physical));
        }
        if more > 0 {
            self.wrong_before(format!("{more} entries are of no message"));
        }
        Ok(self.flaw)
    }

    /// The next entry of all files; its chain is checked on the way.
    fn take(&mut self) -> io::Result<Option<Entry>> {
        loop {
            if self.open.is_none() && !self.open_next()? {
                return Ok(None);
            }
            let Some(open) = &mut self.open else { return Ok(None) };
            if open.next >= open.mark.header.count {
                let slots = open.check_slots()?;
                if let Err(what) = slots {
                    self.wrong_before(what);
                }
                self.open = None;
                continue;
            }
            match open.take(self.shape)? {
                Ok(entry) => return Ok(Some(entry)),
                Err(what) => {
                    self.wrong_before(what);
                    return Ok(None);
                }
            }
        }
    }

    fn open_next(&mut self) -> io::Result<bool> {
        let Some(mark) = self.waiting.pop_front() else { return Ok(false) };
        let path = self.directory.join(&mark.name);
        let file = match self.vfs.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.wrong(Some(path), "missing".to_owned());
                return Ok(false);
            }
            file => file?,
        };
        let length = file.length()?;
        if length != self.shape.file_bytes() {
            let what = format!(
                "has {length} bytes, not {} (maxHashSlotNum, maxIndexNum: give the broker's configuration by -c)",
                self.shape.file_bytes()
            );
            self.wrong(Some(path), what);
            return Ok(false);
        }
        let mut bytes = [0; HEADER_BYTES];
        read_exact_at(&*file, &mut bytes, 0)?;
        if mark.sealed && IndexHeader::decode(&bytes) != Some(mark.header) {
            self.wrong(Some(path), "its header is not what it was".to_owned());
            return Ok(false);
        }
        let table = vec![0; self.shape.slots.max(1) as usize];
        let next = 1;
        self.open = Some(OpenFile { mark, path, file, next, ahead: VecDeque::new(), table });
        Ok(true)
    }

    fn wrong_before(&mut self, what: String) {
        let path = self.open.as_ref().map(|open| open.path.clone());
        self.wrong(path, what);
    }

    fn wrong(&mut self, path: Option<PathBuf>, what: String) {
        let place = path.unwrap_or_else(|| self.directory.clone());
        self.flaw.get_or_insert(Finding { place, position: None, what, mend: Mend::Derive });
    }
}

impl OpenFile {
    fn take(&mut self, shape: Shape) -> io::Result<Result<Entry, String>> {
        if self.ahead.is_empty() {
            let count = (self.mark.header.count - self.next).min(AT_ONCE);
            let mut bytes = vec![0; count as usize * ENTRY_BYTES];
            read_exact_at(&*self.file, &mut bytes, shape.entry_at(self.next))?;
            self.ahead = bytes.chunks_exact(ENTRY_BYTES).filter_map(Entry::decode).collect();
        }
        let number = self.next;
        let Some(entry) = self.ahead.pop_front() else {
            return Ok(Err(format!("entry {number} cannot be read")));
        };
        self.next += 1;
        let slot = self.table.get_mut(shape.slot_of(entry.hash) as usize);
        let sound = slot.as_ref().is_some_and(|slot| **slot == entry.previous);
        if let Some(slot) = slot {
            *slot = number;
        }
        if sound {
            return Ok(Ok(entry));
        }
        Ok(Err(format!("entry {number} does not name the one before it in its slot")))
    }

    /// The slots on disk, where they should be complete, lead to the newest entries.
    fn check_slots(&self) -> io::Result<Result<(), String>> {
        if !self.mark.sealed {
            return Ok(Ok(()));
        }
        let mut first = 0;
        for chunk in self.table.chunks(AT_ONCE as usize) {
            let mut bytes = vec![0; chunk.len() * SLOT_BYTES as usize];
            read_exact_at(&*self.file, &mut bytes, Shape::slot_at(first))?;
            let found = bytes.as_chunks::<4>().0.iter().map(|slot| u32::from_be_bytes(*slot));
            if let Some(nth) = found.zip(chunk).position(|(found, wanted)| found != *wanted) {
                let slot = u64::from(first) + nth as u64;
                return Ok(Err(format!("slot {slot} does not lead to its newest entry")));
            }
            first += AT_ONCE;
        }
        Ok(Ok(()))
    }
}
