//! The index log: one unit of 32 bytes for each entry, derived from the data
//! (Java: `DLedgerIndexEntry`).
//!
//! Units are kept in memory until [`IndexLog::write_behind`] puts them into their files, and they
//! are not synced before an append is acknowledged: recovery rebuilds what a crash takes.

use std::{
    io::{self, IoSlice},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use segment::{OpenFilesError, SegmentFiles, Vfs};

use crate::entry::{Header, be_u32, be_u64};

/// Bytes of a unit.
pub(crate) const UNIT: usize = 32;
/// Java: `DLedgerConfig.mappedFileSizeForEntryIndex`; not configurable from broker.conf.
pub(crate) const FILE_SIZE: u64 = UNIT as u64 * 5 * 1024 * 1024;

/// Where an entry lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) position: u64,
    pub(crate) size: u32,
    pub(crate) index: u64,
    pub(crate) term: u64,
}

impl From<&Header> for Unit {
    fn from(header: &Header) -> Self {
        Self {
            position: header.position,
            size: header.size,
            index: header.index,
            term: header.term,
        }
    }
}

impl Unit {
    pub(crate) fn encode(&self) -> [u8; UNIT] {
        let mut bytes = [0; UNIT];
        bytes[0..4].copy_from_slice(&1_u32.to_be_bytes());
        bytes[4..12].copy_from_slice(&self.position.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.size.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.index.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.term.to_be_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let unit = Self {
            position: be_u64(bytes, 4)?,
            size: be_u32(bytes, 12)?,
            index: be_u64(bytes, 16)?,
            term: be_u64(bytes, 24)?,
        };
        (be_u32(bytes, 0)? == 1).then_some(unit)
    }

    /// Position behind the entry.
    pub(crate) fn end(&self) -> u64 {
        self.position + u64::from(self.size)
    }
}

/// Units that are not in their file yet.
#[derive(Debug, Default)]
struct Unwritten {
    /// Index of the first of them.
    first: u64,
    bytes: Vec<u8>,
}

/// The index log. One thread pushes, another writes behind; any may read.
#[derive(Debug)]
pub(crate) struct IndexLog {
    files: SegmentFiles,
    unwritten: Mutex<Unwritten>,
    /// Held by whoever changes the files.
    writing: Mutex<()>,
}

impl IndexLog {
    /// Opens the index files. Files that cannot be an index are removed, as all of it is derived.
    pub(crate) fn open(
        vfs: &Arc<dyn Vfs>,
        directory: PathBuf,
        file_size: u64,
    ) -> Result<Self, OpenFilesError> {
        let files = match SegmentFiles::open(Arc::clone(vfs), directory.clone(), file_size) {
            Err(
                error @ (OpenFilesError::Gap { .. }
                | OpenFilesError::Length { .. }
                | OpenFilesError::Name { .. }),
            ) => {
                tracing::warn!(%error, "index files are unusable and are built anew");
                remove_all(&**vfs, &directory)?;
                SegmentFiles::open(Arc::clone(vfs), directory, file_size)?
            }
            other => other?,
        };
        Ok(Self { files, unwritten: Mutex::default(), writing: Mutex::default() })
    }

    pub(crate) fn foreign_names(&self) -> &[String] {
        self.files.foreign_names()
    }

    /// Appends the units of entries that were just written. They follow each other.
    pub(crate) fn push(&self, units: &[Unit]) {
        let Some(first) = units.first() else { return };
        let mut unwritten = self.unwritten();
        if unwritten.bytes.is_empty() {
            unwritten.first = first.index;
        }
        for unit in units {
            unwritten.bytes.extend_from_slice(&unit.encode());
        }
    }

    /// The unit of entry `index`; `None` where there is none or its place holds something else.
    pub(crate) fn get(&self, index: u64) -> io::Result<Option<Unit>> {
        {
            let unwritten = self.unwritten();
            if let Some(nth) = index.checked_sub(unwritten.first) {
                let start = usize::try_from(nth).map_err(io::Error::other)?.saturating_mul(UNIT);
                if let Some(bytes) = unwritten.bytes.get(start..start.saturating_add(UNIT)) {
                    return Ok(Unit::decode(bytes));
                }
            }
        }
        let place = index.saturating_mul(UNIT as u64);
        if !self.files.range().is_some_and(|range| range.contains(&place)) {
            return Ok(None);
        }
        let mut bytes = [0; UNIT];
        self.files.read_at(place, &mut bytes)?;
        Ok(Unit::decode(&bytes).filter(|unit| unit.index == index))
    }

    /// Puts what was pushed into the files, not synced. After an error all of it stays in memory.
    pub(crate) fn write_behind(&self) -> io::Result<()> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, bytes) = {
            let unwritten = self.unwritten();
            (unwritten.first, unwritten.bytes.clone())
        };
        self.write(first, &bytes)?;
        let mut unwritten = self.unwritten();
        unwritten.bytes.drain(..bytes.len());
        // Where nothing was there to be written, entries that were pushed meanwhile have set it.
        unwritten.first += (bytes.len() / UNIT) as u64;
        Ok(())
    }

    /// Makes sure that the units from entry `first` on are these, writing only what differs.
    pub(crate) fn ensure(&self, first: u64, bytes: &[u8]) -> io::Result<()> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let start = first * UNIT as u64;
        let end = start + bytes.len() as u64;
        let one_file = self.files.base_of(start) == self.files.base_of(end.saturating_sub(1));
        if one_file
            && self.files.range().is_some_and(|range| range.start <= start && end <= range.end)
        {
            let mut found = vec![0; bytes.len()];
            self.files.read_at(start, &mut found)?;
            if found == bytes {
                return Ok(());
            }
        }
        self.write(first, bytes)
    }

    /// Writes the units of entries from `from` on and before `end` once more, not synced. Not what lies
    /// behind: a file is as long as all the units that it is to hold, and takes room for those it has.
    pub(crate) fn rewrite(&self, from: u64, end: u64) -> io::Result<()> {
        let Some(range) = self.files.range() else { return Ok(()) };
        let place = |index: u64| index.saturating_mul(UNIT as u64);
        self.files.rewrite(place(from).max(range.start)..place(end).min(range.end))
    }

    /// Removes the unit of entry `index` and all behind it, durably.
    pub(crate) fn truncate(&self, index: u64) -> io::Result<()> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut unwritten = self.unwritten();
            let keep = index.saturating_sub(unwritten.first).saturating_mul(UNIT as u64);
            let keep = usize::try_from(keep).unwrap_or(usize::MAX);
            unwritten.bytes.truncate(keep);
        }
        self.files.truncate(index * UNIT as u64)
    }

    /// Removes all units, durably.
    pub(crate) fn clear(&self) -> io::Result<()> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.unwritten().bytes.clear();
        self.files.clear()
    }

    /// Puts the units of entries that were written anew in their places, where they are in a file.
    pub(crate) fn mend(&self, first: u64, bytes: &[u8]) -> io::Result<()> {
        for (nth, unit) in bytes.chunks(UNIT).enumerate() {
            let index = first + nth as u64;
            if self.get(index)?.map(|known| known.encode().to_vec()).as_deref() != Some(unit) {
                self.ensure(index, unit)?;
            }
        }
        Ok(())
    }

    /// Removes files whose units are all before entry `index`.
    pub(crate) fn trim(&self, index: u64) -> io::Result<()> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.files.trim(index * UNIT as u64).map(|_| ())
    }

    /// Makes all units that are in the files durable.
    pub(crate) fn flush(&self) -> io::Result<()> {
        let Some(range) = self.files.range() else { return Ok(()) };
        // Older files were synced when the next one was begun.
        self.files.flush(range.end - 1..range.end)
    }

    fn write(&self, first: u64, bytes: &[u8]) -> io::Result<()> {
        let mut place = first * UNIT as u64;
        let mut rest = bytes;
        while !rest.is_empty() {
            let base = self.files.base_of(place);
            let room = base + self.files.file_size() - place;
            let count = rest.len().min(usize::try_from(room).unwrap_or(usize::MAX));
            let (now, later) = rest.split_at(count);
            self.begin_file(base)?;
            self.files.write_at(place, &mut [IoSlice::new(now)]).map_err(|error| error.source)?;
            place += count as u64;
            rest = later;
        }
        Ok(())
    }

    fn begin_file(&self, base: u64) -> io::Result<()> {
        match self.files.range() {
            Some(range) if range.contains(&base) => return Ok(()),
            Some(range) if range.end != base => {
                // Units in between are missing; recovery finds that and rebuilds all of them.
                self.files.clear()?;
            }
            Some(_) => self.flush()?,
            None => {}
        }
        self.files.append_file(base)
    }

    fn unwritten(&self) -> MutexGuard<'_, Unwritten> {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn remove_all(vfs: &dyn Vfs, directory: &Path) -> Result<(), OpenFilesError> {
    let failed = |source| OpenFilesError::Io { path: directory.to_owned(), source };
    for name in vfs.list(directory).map_err(failed)? {
        if name.bytes().all(|byte| byte.is_ascii_digit()) {
            vfs.remove(&directory.join(name)).map_err(failed)?;
        }
    }
    vfs.sync_directory(directory).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use segment::SimVfs;

    const JAVA: &[u8] = include_bytes!("../tests/data/dledger-index-head.bin");

    fn unit(index: u64) -> Unit {
        Unit { position: index * 100, size: 100, index, term: 1 }
    }

    fn open(disk: &SimVfs) -> IndexLog {
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        IndexLog::open(&vfs, "log/index".into(), 4 * UNIT as u64).unwrap()
    }

    #[test]
    fn units_that_java_wrote_are_read_and_written_alike() {
        let mut position = 0;
        for (nth, bytes) in JAVA.chunks(UNIT).enumerate() {
            let unit = Unit::decode(bytes).unwrap();
            assert_eq!((unit.index, unit.position), (nth as u64, position));
            assert_eq!(unit.encode(), bytes);
            position = unit.end();
        }
    }

    #[test]
    fn units_are_found_before_and_after_they_are_written() {
        let index = open(&SimVfs::new());
        let units: Vec<Unit> = (0..10).map(unit).collect();
        index.push(&units[..7]);
        for written in [false, true] {
            assert_eq!(index.get(6).unwrap(), Some(unit(6)), "written {written}");
            assert_eq!(index.get(7).unwrap(), None);
            index.write_behind().unwrap();
        }
        index.push(&units[7..]);
        assert_eq!(index.get(9).unwrap(), Some(unit(9)));
        index.truncate(8).unwrap();
        index.write_behind().unwrap();
        assert_eq!(index.get(7).unwrap(), Some(unit(7)));
        assert_eq!(index.get(8).unwrap(), None);
    }

    #[test]
    fn a_full_disk_keeps_units_in_memory() {
        let disk = SimVfs::new();
        let index = open(&disk);
        disk.set_room(Some(0));
        index.push(&[unit(0)]);
        index.write_behind().unwrap_err();
        assert_eq!(index.get(0).unwrap(), Some(unit(0)));
        disk.set_room(None);
        index.write_behind().unwrap();
        assert_eq!(open(&disk).get(0).unwrap(), Some(unit(0)));
    }

    #[test]
    fn a_cut_file_is_thrown_away() {
        let disk = SimVfs::new();
        let index = open(&disk);
        index.push(&[unit(0)]);
        index.write_behind().unwrap();
        let path = Path::new("log/index/00000000000000000000");
        disk.open(path).unwrap().set_length(33).unwrap();
        assert_eq!(open(&disk).get(0).unwrap(), None);
    }
}
