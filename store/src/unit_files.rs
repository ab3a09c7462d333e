//! The files of one consume queue: `consumequeue/<topic>/<queueId>/<first byte, 20 digits>`.
//!
//! Everything here is derived from the log, so nothing is synced on the way: what a crash takes is
//! found by [`UnitFiles::verify`] and written again.

use std::{
    collections::BTreeSet,
    io::{self, IoSlice},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use segment::{VfsFile, write_all_at};

use crate::{
    handles::Handles,
    unit::{UNIT_BYTES, Unit},
};

/// Units read, or blank ones written, at once.
const CHUNK_UNITS: u64 = 4096;
/// So many files at the end of a queue are checked unit by unit, as Java's recovery does it.
const CHECKED_FILES: u64 = 3;

/// The files of one queue. Offsets are those of units.
#[derive(Debug)]
pub(crate) struct UnitFiles {
    directory: PathBuf,
    serial: usize,
    per_file: u64,
    handles: Arc<Handles>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// First unit of each file.
    bases: BTreeSet<u64>,
    /// Files written since they were synced.
    dirty: BTreeSet<u64>,
    /// Whether files were made or removed since the directory was synced.
    renamed: bool,
}

impl UnitFiles {
    /// A queue that has no file yet.
    pub(crate) fn fresh(
        directory: PathBuf,
        serial: usize,
        per_file: u64,
        handles: Arc<Handles>,
    ) -> Self {
        Self { directory, serial, per_file, handles, state: Mutex::default() }
    }

    /// Takes up the files that are there. One of a wrong length gets the right one: what it lacks
    /// reads as zeros and is found missing. Other names are left alone.
    pub(crate) fn take_up(&self) -> io::Result<()> {
        let names = match self.handles.vfs().list(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            names => names?,
        };
        let mut bases = BTreeSet::new();
        for name in names {
            let path = self.directory.join(&name);
            let Some(base) = self.base_of_name(&name) else {
                tracing::warn!(path = %path.display(), "not a file of this consume queue; left alone");
                continue;
            };
            let file = self.handles.vfs().open(&path)?;
            let length = file.length()?;
            if length != self.file_bytes() {
                tracing::warn!(
                    path = %path.display(), length, expected = self.file_bytes(),
                    "consume-queue file has a wrong length; what it lacks is derived again"
                );
                file.set_length(self.file_bytes())?;
            }
            bases.insert(base);
        }
        self.lock().bases = bases;
        Ok(())
    }

    /// Takes up the files of the right length without changing any; tells what is wrong with others.
    pub(crate) fn look(&self) -> io::Result<Vec<(PathBuf, String)>> {
        let names = match self.handles.vfs().list(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            names => names?,
        };
        let mut wrong = Vec::new();
        for name in names {
            let Some(base) = self.base_of_name(&name) else { continue };
            let path = self.directory.join(&name);
            let length = self.handles.vfs().open(&path)?.length()?;
            if length == self.file_bytes() {
                self.lock().bases.insert(base);
            } else {
                let what = format!("has {length} bytes, not {}", self.file_bytes());
                wrong.push((path, what));
            }
        }
        Ok(wrong)
    }

    /// Offset at which the first file begins.
    pub(crate) fn first_base(&self) -> Option<u64> {
        self.lock().bases.first().copied()
    }

    /// Offset behind the last sound unit of the last file that has one.
    pub(crate) fn found_next(&self) -> io::Result<u64> {
        let bases: Vec<_> = self.lock().bases.iter().copied().collect();
        for base in bases.into_iter().rev() {
            let (mut low, mut high) = (base, base + self.per_file);
            while low < high {
                let middle = low + (high - low) / 2;
                match self.read(middle, 1)?.first() {
                    Some(_) => low = middle + 1,
                    None => high = middle,
                }
            }
            if low > base {
                return Ok(low);
            }
        }
        Ok(0)
    }

    /// Writes consecutive units, making files as needed. The space before the first unit of the
    /// first file is filled with blank ones, as Java does it.
    pub(crate) fn write(&self, units: &[Unit]) -> io::Result<()> {
        let mut rest = units;
        while let Some(first) = rest.first() {
            let base = self.base_of(first.offset);
            let room = usize::try_from(base + self.per_file - first.offset).unwrap_or(usize::MAX);
            let (here, behind) = rest.split_at(room.min(rest.len()));
            let file = self.file_to_write(base, first.offset)?;
            let bytes: Vec<u8> = here.iter().flat_map(Unit::encode).collect();
            self.put(&*file, &bytes, base, first.offset)?;
            rest = behind;
        }
        Ok(())
    }

    /// Up to `max` consecutive units from `from` on; the run ends before the first that is unsound
    /// or lies in no file.
    pub(crate) fn read(&self, from: u64, max: u64) -> io::Result<Vec<Unit>> {
        let mut units = Vec::new();
        let mut at = from;
        let end = from.saturating_add(max);
        while at < end {
            let base = self.base_of(at);
            if !self.lock().bases.contains(&base) {
                break;
            }
            let count = (end.min(base + self.per_file) - at).min(CHUNK_UNITS);
            let bytes = self.bytes(base, at, count)?;
            let whole = bytes.chunks_exact(UNIT_BYTES as usize);
            let found = units.len();
            units
                .extend((at..).zip(whole).map_while(|(offset, bytes)| Unit::decode(offset, bytes)));
            let sound = (units.len() - found) as u64;
            at += sound;
            if sound < count {
                break;
            }
        }
        Ok(units)
    }

    /// Offset of the first unit in [from, next) that is missing or out of order; `next` where all
    /// are sound and the last one is of the message at `last_physical`. A queue whose last unit is
    /// of another message was written by somebody else: nothing of it is trusted.
    pub(crate) fn verify(&self, from: u64, next: u64, last_physical: u64) -> io::Result<u64> {
        let closely = self
            .base_of(next.saturating_sub(1))
            .saturating_sub((CHECKED_FILES - 1) * self.per_file)
            .max(from);
        let mut before = None;
        let mut base = self.base_of(from);
        while base < closely {
            let (first, last) = (base.max(from), (base + self.per_file).min(closely) - 1);
            for offset in [first, last] {
                match self.read(offset, 1)?.first() {
                    Some(unit) if follows(unit, &mut before) => {}
                    _ => return Ok(first),
                }
            }
            base += self.per_file;
        }
        let mut at = closely;
        while at < next {
            let units = self.read(at, (next - at).min(CHUNK_UNITS))?;
            for unit in &units {
                if !follows(unit, &mut before) {
                    return Ok(unit.offset);
                }
            }
            if units.is_empty() {
                return Ok(at);
            }
            at += units.len() as u64;
        }
        Ok(if before == Some(last_physical) { next } else { from })
    }

    /// Cuts the queue off at `next`: nothing sound is left at or behind it.
    pub(crate) fn cut_behind(&self, next: u64) -> io::Result<()> {
        let bases: Vec<_> = self.lock().bases.iter().copied().collect();
        for base in bases.into_iter().rev() {
            if base >= next {
                self.remove(base)?;
            } else if base + self.per_file > next {
                let file = self.handles.get((self.serial, base), &self.path(base))?;
                file.set_length((next - base) * UNIT_BYTES)?;
                file.set_length(self.file_bytes())?;
                self.lock().dirty.insert(base);
            }
        }
        Ok(())
    }

    /// Removes the files whose units are all before `min`, never the last one: its name keeps the
    /// next offset for a Java broker.
    pub(crate) fn cut_before(&self, min: u64) -> io::Result<()> {
        let bases: Vec<_> = self.lock().bases.iter().copied().collect();
        let all_but_last = bases.len().saturating_sub(1);
        for base in bases.into_iter().take(all_but_last) {
            if base + self.per_file <= min {
                self.remove(base)?;
            }
        }
        Ok(())
    }

    /// Files that [`UnitFiles::flush`] would sync.
    pub(crate) fn unsynced(&self) -> usize {
        self.lock().dirty.len()
    }

    /// Whether files, and perhaps folders above them, were made or removed since the last sync.
    pub(crate) fn is_renamed(&self) -> bool {
        self.lock().renamed
    }

    /// Takes note that everything was synced.
    pub(crate) fn synced(&self) {
        let mut state = self.lock();
        state.dirty.clear();
        state.renamed = false;
    }

    /// Makes what was written durable, but no names.
    pub(crate) fn flush(&self) -> io::Result<()> {
        let dirty = std::mem::take(&mut self.lock().dirty);
        for base in dirty {
            self.handles.get((self.serial, base), &self.path(base))?.sync_data()?;
        }
        Ok(())
    }

    pub(crate) fn base_of(&self, offset: u64) -> u64 {
        offset - offset % self.per_file
    }

    fn base_of_name(&self, name: &str) -> Option<u64> {
        let digits = name.len() == 20 && name.bytes().all(|byte| byte.is_ascii_digit());
        let byte: u64 = name.parse().ok().filter(|_| digits)?;
        byte.is_multiple_of(self.file_bytes()).then_some(byte / UNIT_BYTES)
    }

    fn file_bytes(&self) -> u64 {
        self.per_file * UNIT_BYTES
    }

    fn path(&self, base: u64) -> PathBuf {
        self.directory.join(format!("{:020}", base.saturating_mul(UNIT_BYTES)))
    }

    fn file_to_write(&self, base: u64, first: u64) -> io::Result<Arc<dyn VfsFile>> {
        let path = self.path(base);
        if self.lock().bases.contains(&base) {
            return self.handles.get((self.serial, base), &path).map_err(|error| at(&path, error));
        }
        let file = self.make(&path).map_err(|error| at(&path, error))?;
        self.handles.put((self.serial, base), Arc::clone(&file));
        self.put_blanks(&*file, base, first)?;
        let mut state = self.lock();
        state.bases.insert(base);
        state.renamed = true;
        Ok(file)
    }

    fn put_blanks(&self, file: &dyn VfsFile, base: u64, first: u64) -> io::Result<()> {
        let mut at = base;
        while at < first {
            let count = (first - at).min(CHUNK_UNITS);
            let blank = Unit::blank(at).encode();
            self.put(file, &blank.repeat(usize::try_from(count).unwrap_or(1)), base, at)?;
            at += count;
        }
        Ok(())
    }

    fn make(&self, path: &Path) -> io::Result<Arc<dyn VfsFile>> {
        let vfs = self.handles.vfs();
        // The dispatcher, and every topic with it, would wait for a durable one.
        vfs.make_directory(&self.directory)?;
        let file = match vfs.create(path) {
            // It was made by a write that failed before it was told.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => vfs.open(path)?,
            made => made?,
        };
        file.set_length(self.file_bytes())?;
        Ok(file)
    }

    fn put(&self, file: &dyn VfsFile, bytes: &[u8], base: u64, offset: u64) -> io::Result<()> {
        write_all_at(file, &mut [IoSlice::new(bytes)], (offset - base) * UNIT_BYTES)
            .map_err(|(_, error)| at(&self.path(base), error))?;
        self.lock().dirty.insert(base);
        Ok(())
    }

    fn bytes(&self, base: u64, offset: u64, count: u64) -> io::Result<Vec<u8>> {
        let path = self.path(base);
        let file = match self.handles.get((self.serial, base), &path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            file => file.map_err(|error| at(&path, error))?,
        };
        let mut bytes = vec![0; usize::try_from(count * UNIT_BYTES).map_err(io::Error::other)?];
        let mut done = 0;
        while done < bytes.len() {
            let from = (offset - base) * UNIT_BYTES + done as u64;
            match file.read_at(bytes.get_mut(done..).unwrap_or_default(), from) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(at(&path, error)),
            }
        }
        bytes.truncate(done);
        Ok(bytes)
    }

    fn remove(&self, base: u64) -> io::Result<()> {
        let path = self.path(base);
        self.handles.forget((self.serial, base));
        {
            let mut state = self.lock();
            state.bases.remove(&base);
            state.dirty.remove(&base);
            state.renamed = true;
        }
        match self.handles.vfs().remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(&path, error)),
            _ => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the unit's message lies behind the one before; blank units are passed over.
fn follows(unit: &Unit, before: &mut Option<u64>) -> bool {
    if unit.is_blank() {
        return true;
    }
    let sound = before.is_none_or(|before| unit.physical > before);
    *before = Some(unit.physical);
    sound
}

fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
