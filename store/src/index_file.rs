//! One file of the key index (Java `IndexFile`, `IndexHeader`).
//!
//! ```text
//! header 40 | slots, 4 bytes each | entries, 20 bytes each
//! header: begin timestamp 8 | end timestamp 8 | begin physical 8 | end physical 8 | slots used 4 | count 4
//! slot: number of its newest entry, 0 for none
//! entry: hash 4 | physical offset 8 | seconds since begin timestamp 4 | number of the entry before 4
//! ```
//!
//! Entry 0 is never used, so `count` starts at 1. The slots of a file that is still written are a
//! table in memory: they change all over the file with every key.

mod layout;

use std::{
    io::{self, IoSlice},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use segment::{VfsFile, read_exact_at, write_all_at};

use layout::number;
pub(crate) use layout::{ENTRY_BYTES, Entry, HEADER_BYTES, IndexHeader, Key, SLOT_BYTES, Shape};

/// Digits of a file's name: yyyyMMddHHmmssSSS.
pub(crate) const NAME_DIGITS: usize = 17;
/// Slots read or written at once.
const SLOT_CHUNK: usize = 1024;
/// Entries read at once when a file is taken up.
const CHUNK_ENTRIES: u32 = 1 << 14;

/// A file of the index.
#[derive(Debug)]
pub(crate) struct IndexFile {
    name: String,
    file: Arc<dyn VfsFile>,
    shape: Shape,
    inner: RwLock<Inner>,
}

#[derive(Debug)]
struct Inner {
    header: IndexHeader,
    /// Newest entry of each slot; `None` once the slots are complete on disk.
    table: Option<Vec<u32>>,
    /// Entries that are not in the file yet, encoded; the last of them is `header.count - 1`.
    pending: Vec<u8>,
}

impl IndexFile {
    /// A new, empty file; `before` is the header of the file before it, whose end is where this one
    /// begins.
    pub(crate) fn begin(
        name: String,
        file: Arc<dyn VfsFile>,
        shape: Shape,
        before: Option<IndexHeader>,
    ) -> Self {
        let mut header = IndexHeader { count: 1, ..IndexHeader::default() };
        if let Some(before) = before {
            header.begin_physical = before.end_physical;
            header.end_physical = before.end_physical;
            header.begin_timestamp = before.end_timestamp;
            header.end_timestamp = before.end_timestamp;
        }
        let table = Some(vec![0; shape.slots.max(1) as usize]);
        Self { name, file, shape, inner: RwLock::new(Inner { header, table, pending: Vec::new() }) }
    }

    /// A file whose slots and entries are complete on disk.
    pub(crate) fn sealed(
        name: String,
        file: Arc<dyn VfsFile>,
        shape: Shape,
        header: IndexHeader,
    ) -> Self {
        let inner = RwLock::new(Inner { header, table: None, pending: Vec::new() });
        Self { name, file, shape, inner }
    }

    /// Takes up a file that was being written when `header` was noted: its table is made again from
    /// its entries. Returns false where entries are missing or changed; then those of the last
    /// sound message and all behind it are cut off, and the header tells where to go on. Entries of
    /// messages at or behind `committed` are not sound.
    pub(crate) fn rebuild(&self, header: IndexHeader, committed: u64) -> io::Result<bool> {
        let mut table = vec![0; self.shape.slots.max(1) as usize];
        let count = header.count.clamp(1, self.shape.entries.max(1));
        let mut inner = self.write();
        inner.header = IndexHeader { count: 1, slots_used: 0, ..header };
        let mut last: Option<(u32, Entry)> = None;
        let mut first_of_last = 1;
        let mut walk = self.walk(count);
        while inner.header.count < count {
            let Some(entry) = walk.entry(inner.header.count)?.filter(|entry| {
                let newest = table.get(self.shape.slot_of(entry.hash) as usize);
                newest == Some(&entry.previous)
                    && entry.physical < committed
                    && (header.begin_physical..=header.end_physical).contains(&entry.physical)
                    && last.is_none_or(|(_, last)| last.physical <= entry.physical)
            }) else {
                break;
            };
            if last.is_none_or(|(_, last)| last.physical != entry.physical) {
                first_of_last = inner.header.count;
            }
            last = Some((inner.header.count, entry));
            take(&mut table, &mut inner.header, self.shape, entry.hash);
        }
        let whole = inner.header.count == header.count;
        if !whole {
            drop(inner);
            self.cut(header, first_of_last)?;
            return Ok(false);
        }
        inner.table = Some(table);
        Ok(true)
    }

    /// Reads the slots that a clean stop has written.
    pub(crate) fn load_slots(&self, header: IndexHeader) -> io::Result<()> {
        let mut table = vec![0; self.shape.slots.max(1) as usize];
        let mut bytes = [0; SLOT_CHUNK * SLOT_BYTES as usize];
        for (nth, chunk) in table.chunks_mut(SLOT_CHUNK).enumerate() {
            let Some(bytes) = bytes.get_mut(..chunk.len() * SLOT_BYTES as usize) else { break };
            read_exact_at(&*self.file, bytes, slot_chunk_at(nth))?;
            // Pages of the table that stay zero take no memory.
            if bytes.iter().any(|byte| *byte != 0) {
                for (slot, bytes) in chunk.iter_mut().zip(bytes.chunks_exact(SLOT_BYTES as usize)) {
                    *slot = number(bytes, 0).unwrap_or(0);
                }
            }
        }
        let mut inner = self.write();
        inner.header = header;
        inner.table = Some(table);
        Ok(())
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn header(&self) -> IndexHeader {
        self.read().header
    }

    pub(crate) fn header_on_disk(&self) -> io::Result<Option<IndexHeader>> {
        let mut bytes = [0; HEADER_BYTES];
        match read_exact_at(&*self.file, &mut bytes, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
            Ok(()) => Ok(IndexHeader::decode(&bytes)),
        }
    }

    /// Whether a sealed file ends with the message that its header names.
    pub(crate) fn ends_as_noted(&self) -> io::Result<bool> {
        let header = self.header();
        let Some(last) = header.count.checked_sub(1).filter(|last| *last > 0) else {
            return Ok(true);
        };
        let last = self.walk(header.count).entry(last)?;
        Ok(last.is_some_and(|last| last.physical == header.end_physical))
    }

    pub(crate) fn is_sealed(&self) -> bool {
        self.read().table.is_none()
    }

    /// Entries that are not in the file yet, in bytes.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.read().pending.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.read().header.count >= self.shape.entries
    }

    /// Adds as many of `keys` as there is room for; returns how many.
    pub(crate) fn add(&self, keys: &[Key]) -> usize {
        let mut inner = self.write();
        let Inner { header, table: Some(table), pending } = &mut *inner else { return 0 };
        let room = self.shape.entries.saturating_sub(header.count) as usize;
        let taken = keys.len().min(room);
        for key in keys.iter().take(taken) {
            let seconds = match header.begin_timestamp {
                0 => 0,
                begin => key.store_timestamp.saturating_sub(begin) / 1000,
            };
            let seconds = u32::try_from(seconds.min(0x7fff_ffff)).unwrap_or(0);
            if header.count <= 1 {
                header.begin_physical = key.physical;
                header.begin_timestamp = key.store_timestamp;
            }
            let previous = take(table, header, self.shape, key.hash);
            Entry { hash: key.hash, physical: key.physical, seconds, previous }.encode(pending);
            header.end_physical = key.physical;
            header.end_timestamp = key.store_timestamp;
        }
        taken
    }

    /// Writes the entries that are not in the file yet. Not synced.
    pub(crate) fn write_pending(&self) -> io::Result<()> {
        let mut inner = self.write();
        if inner.pending.is_empty() {
            return Ok(());
        }
        let at = self.shape.entry_at(inner.first_pending());
        write_all_at(&*self.file, &mut [IoSlice::new(&inner.pending)], at)
            .map_err(|(_, error)| error)?;
        inner.pending.clear();
        Ok(())
    }

    /// Writes the header. Not synced.
    pub(crate) fn write_header(&self) -> io::Result<()> {
        let header = self.header().encode();
        write_all_at(&*self.file, &mut [IoSlice::new(&header)], 0).map_err(|(_, error)| error)
    }

    /// Writes slots and header and syncs the file, so that a Java broker can read it.
    pub(crate) fn write_slots(&self) -> io::Result<()> {
        self.write_pending()?;
        {
            let inner = self.read();
            let chunks = inner.table.iter().flat_map(|table| table.chunks(SLOT_CHUNK)).enumerate();
            for (nth, chunk) in chunks {
                self.write_slot_chunk(chunk, slot_chunk_at(nth))?;
            }
        }
        self.write_header()?;
        self.file.sync_data()
    }

    /// Slots without an entry stay a hole where they are one.
    fn write_slot_chunk(&self, chunk: &[u32], at: u64) -> io::Result<()> {
        if chunk.iter().all(|slot| *slot == 0) {
            let end = at + chunk.len() as u64 * SLOT_BYTES;
            if self.file.next_data(at)?.is_none_or(|data| data >= end) {
                return Ok(());
            }
        }
        let bytes: Vec<u8> = chunk.iter().flat_map(|slot| slot.to_be_bytes()).collect();
        write_all_at(&*self.file, &mut [IoSlice::new(&bytes)], at).map_err(|(_, error)| error)
    }

    /// As [`IndexFile::write_slots`], and lets the table go: the file is not written any more.
    pub(crate) fn seal(&self) -> io::Result<()> {
        self.write_slots()?;
        self.write().table = None;
        Ok(())
    }

    /// Physical offsets, newest first, of entries with this hash in [begin, end] milliseconds;
    /// `max` at most in `found`.
    pub(crate) fn find(
        &self,
        hash: u32,
        (begin, end): (u64, u64),
        max: usize,
        found: &mut Vec<u64>,
    ) -> io::Result<()> {
        let header = self.header();
        let mut number = self.newest(hash)?;
        while number > 0 && number < header.count && found.len() < max {
            let Some(entry) = self.entry(number)? else { break };
            // The time was cut to seconds when it was stored.
            let stored = header.begin_timestamp.saturating_add(u64::from(entry.seconds) * 1000);
            let within = stored.saturating_add(999) >= begin && stored <= end;
            if entry.hash == hash && within && found.last() != Some(&entry.physical) {
                found.push(entry.physical);
            }
            if entry.previous >= number || stored.saturating_add(999) < begin {
                break;
            }
            number = entry.previous;
        }
        Ok(())
    }

    fn newest(&self, hash: u32) -> io::Result<u32> {
        let slot = self.shape.slot_of(hash);
        if let Some(table) = &self.read().table {
            return Ok(table.get(slot as usize).copied().unwrap_or(0));
        }
        let mut bytes = [0; SLOT_BYTES as usize];
        read_exact_at(&*self.file, &mut bytes, Shape::slot_at(slot))?;
        Ok(u32::from_be_bytes(bytes))
    }

    fn entry(&self, number: u32) -> io::Result<Option<Entry>> {
        {
            let inner = self.read();
            if let Some(nth) = number.checked_sub(inner.first_pending()) {
                let at = nth as usize * ENTRY_BYTES;
                return Ok(inner.pending.get(at..).and_then(Entry::decode));
            }
        }
        let mut bytes = [0; ENTRY_BYTES];
        read_exact_at(&*self.file, &mut bytes, self.shape.entry_at(number))?;
        Ok(Entry::decode(&bytes))
    }

    /// Cuts off everything from entry `from` on.
    fn cut(&self, header: IndexHeader, from: u32) -> io::Result<()> {
        let mut walk = self.walk(from);
        let last = match from.checked_sub(1).filter(|last| *last > 0) {
            Some(last) => walk.entry(last)?,
            None => None,
        };
        let mut kept = IndexHeader { count: from.max(1), ..header };
        match last {
            Some(last) => {
                kept.end_physical = last.physical;
                kept.end_timestamp = header.begin_timestamp + u64::from(last.seconds) * 1000;
            }
            None => {
                kept.end_physical = header.begin_physical;
                kept.end_timestamp = header.begin_timestamp;
            }
        }
        let mut table = vec![0; self.shape.slots.max(1) as usize];
        let mut counted = IndexHeader { count: 1, slots_used: 0, ..kept };
        while counted.count < kept.count {
            let Some(entry) = walk.entry(counted.count)? else { break };
            take(&mut table, &mut counted, self.shape, entry.hash);
        }
        let mut inner = self.write();
        inner.header = counted;
        inner.table = Some(table);
        Ok(())
    }

    fn walk(&self, count: u32) -> Walk<'_> {
        Walk { file: self, count, first: 0, bytes: Vec::new() }
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the entries of a file one after another, many at a time.
struct Walk<'a> {
    file: &'a IndexFile,
    count: u32,
    first: u32,
    bytes: Vec<u8>,
}

impl Walk<'_> {
    /// Entry `number`; `None` where the file ends before it.
    fn entry(&mut self, number: u32) -> io::Result<Option<Entry>> {
        let held = u32::try_from(self.bytes.len() / ENTRY_BYTES).unwrap_or(0);
        if number < self.first || number >= self.first + held {
            let wanted = self.count.saturating_sub(number).clamp(1, CHUNK_ENTRIES);
            self.bytes.resize(wanted as usize * ENTRY_BYTES, 0);
            let at = self.file.shape.entry_at(number);
            match read_exact_at(&*self.file.file, &mut self.bytes, at) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.bytes.clear();
                    return Ok(None);
                }
                read => read?,
            }
            self.first = number;
        }
        let at = (number - self.first) as usize * ENTRY_BYTES;
        Ok(self.bytes.get(at..).and_then(Entry::decode))
    }
}

impl Inner {
    fn first_pending(&self) -> u32 {
        let pending = u32::try_from(self.pending.len() / ENTRY_BYTES).unwrap_or(u32::MAX);
        self.header.count.saturating_sub(pending)
    }
}

fn slot_chunk_at(nth: usize) -> u64 {
    HEADER_BYTES as u64 + (nth * SLOT_CHUNK) as u64 * SLOT_BYTES
}

/// Makes the next entry the newest of its slot; returns the one before.
fn take(table: &mut [u32], header: &mut IndexHeader, shape: Shape, hash: u32) -> u32 {
    let mut previous = 0;
    if let Some(newest) = table.get_mut(shape.slot_of(hash) as usize) {
        previous = std::mem::replace(newest, header.count);
    }
    if previous == 0 {
        header.slots_used += 1;
    }
    header.count += 1;
    previous
}
