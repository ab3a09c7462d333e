//! A log cut into files of one size, each named by the position of its first byte.

mod rewrite;
mod zeros;

use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use crate::vfs::{Vfs, VfsFile, write_all_at};

/// Digits of a file's name (Java: `UtilAll.offset2FileName`).
const NAME_DIGITS: usize = 20;

/// Why a folder of numbered files could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenFilesError {
    /// The file system refused.
    #[error("{path} could not be opened: {source}")]
    Io {
        /// Folder or file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Java's DLedger refuses such a file, too.
    #[error(
        "{path} has {actual} bytes, the configured file size is {expected}: set the size that the \
         folder was written with (mappedFileSizeCommitLog for data files), or bring the file back \
         from a copy if the others have that size"
    )]
    Length {
        /// The file.
        path: PathBuf,
        /// Its length.
        actual: u64,
        /// The configured one.
        expected: u64,
    },
    /// A file is named by a position at which no file can begin.
    #[error(
        "{path} is named by a position that is no multiple of the configured file size \
         {file_size}: set the size that the folder was written with, or move the file away if it \
         is foreign"
    )]
    Name {
        /// The file.
        path: PathBuf,
        /// The configured size.
        file_size: u64,
    },
    /// A file between two others is missing.
    #[error(
        "{directory} has a file at {at}, but the one before it ends at {expected}: bring what is \
         missing back from a copy, or set the file size that the folder was written with"
    )]
    Gap {
        /// The folder.
        directory: PathBuf,
        /// Position of the file behind the gap.
        at: u64,
        /// Where it should begin.
        expected: u64,
    },
}

/// A write that stopped on the way.
#[derive(Debug, thiserror::Error)]
#[error("write stopped after {written} bytes: {source}")]
pub struct WriteError {
    /// Bytes that were written, from the start of the write.
    pub written: u64,
    /// Why it stopped.
    pub source: io::Error,
}

#[derive(Debug)]
struct Segment {
    base: u64,
    file: Arc<dyn VfsFile>,
}

/// Files of one size, one behind another. One thread writes; others may read and flush meanwhile.
///
/// Every file has its full length from the start, as Java demands; what is not written yet is a
/// hole and reads as zeros.
#[derive(Debug)]
pub struct SegmentFiles {
    vfs: Arc<dyn Vfs>,
    directory: PathBuf,
    file_size: u64,
    files: RwLock<VecDeque<Arc<Segment>>>,
    foreign: Vec<String>,
    /// The last file, where it was made longer, with its length before.
    extended: Option<(PathBuf, u64)>,
}

impl SegmentFiles {
    /// Opens `directory`, which is created where it is missing.
    ///
    /// A last file of length 0 is what a crash leaves between creating a file and giving it its
    /// length: it is removed. Files of other names, and empty ones named by a position that no file
    /// begins at, are left alone.
    ///
    /// # Errors
    /// See [`OpenFilesError`].
    pub fn open(
        vfs: Arc<dyn Vfs>,
        directory: PathBuf,
        file_size: u64,
    ) -> Result<Self, OpenFilesError> {
        Self::open_as(vfs, directory, file_size, false)
    }

    /// As [`SegmentFiles::open`], but a last file that is shorter than the one before it is made as
    /// long: what it lacks reads as not written, so that whoever knows how far the log was durable
    /// finds it out.
    ///
    /// # Errors
    /// See [`OpenFilesError`].
    pub fn open_extending(
        vfs: Arc<dyn Vfs>,
        directory: PathBuf,
        file_size: u64,
    ) -> Result<Self, OpenFilesError> {
        Self::open_as(vfs, directory, file_size, true)
    }

    fn open_as(
        vfs: Arc<dyn Vfs>,
        directory: PathBuf,
        file_size: u64,
        extend: bool,
    ) -> Result<Self, OpenFilesError> {
        let failed = |source| OpenFilesError::Io { path: directory.clone(), source };
        vfs.create_directory(&directory).map_err(failed)?;
        // A process that was killed may have left names that are only in memory.
        vfs.sync_directory(&directory).map_err(failed)?;
        let (bases, mut foreign) = numbered(vfs.list(&directory).map_err(failed)?);
        let mut files: VecDeque<Arc<Segment>> = VecDeque::new();
        let mut extended = None;
        for (nth, base) in bases.iter().enumerate() {
            let path = directory.join(file_name(*base));
            let io = |source| OpenFilesError::Io { path: path.clone(), source };
            let file = vfs.open(&path).map_err(io)?;
            let actual = file.length().map_err(io)?;
            if base % file_size != 0 {
                if actual == 0 {
                    foreign.push(file_name(*base));
                    continue;
                }
                return Err(OpenFilesError::Name { path, file_size });
            }
            let is_last = nth + 1 == bases.len();
            if actual == 0 && is_last {
                vfs.remove(&path).map_err(io)?;
                vfs.sync_directory(&directory).map_err(io)?;
                continue;
            }
            let follows = files.back().map(|last| last.base + file_size);
            if let Some(expected) = follows.filter(|expected| expected != base) {
                return Err(OpenFilesError::Gap { directory, at: *base, expected });
            }
            if extend && actual < file_size && is_last && follows.is_some() {
                file.set_length(file_size).map_err(io)?;
                extended = Some((path, actual));
            } else if actual != file_size {
                return Err(OpenFilesError::Length { path, actual, expected: file_size });
            }
            files.push_back(Arc::new(Segment { base: *base, file }));
        }
        if let Some(last) = files.back() {
            // Likewise its length; all files before it were synced when they were made.
            last.file.sync_data().map_err(failed)?;
        }
        Ok(Self { vfs, directory, file_size, files: RwLock::new(files), foreign, extended })
    }

    /// The first files of the folder that are sound and follow each other, and what is wrong with the
    /// others. Nothing is changed, and what lies behind the first that is unsound is left out.
    ///
    /// # Errors
    /// See [`OpenFilesError::Io`].
    pub fn open_sound(
        vfs: Arc<dyn Vfs>,
        directory: PathBuf,
        file_size: u64,
    ) -> Result<(Self, Vec<OpenFilesError>), OpenFilesError> {
        let failed = |source| OpenFilesError::Io { path: directory.clone(), source };
        let (bases, foreign) = numbered(vfs.list(&directory).map_err(failed)?);
        let mut files: VecDeque<Arc<Segment>> = VecDeque::new();
        let mut flaws = Vec::new();
        for base in bases {
            let path = directory.join(file_name(base));
            let io = |source| OpenFilesError::Io { path: path.clone(), source };
            let file = vfs.open(&path).map_err(io)?;
            let actual = file.length().map_err(io)?;
            let expected = files.back().map_or(base, |last| last.base + file_size);
            if base % file_size != 0 {
                flaws.push(OpenFilesError::Name { path, file_size });
            } else if actual != file_size {
                flaws.push(OpenFilesError::Length { path, actual, expected: file_size });
            } else if expected != base {
                flaws.push(OpenFilesError::Gap {
                    directory: directory.clone(),
                    at: base,
                    expected,
                });
            } else if flaws.is_empty() {
                files.push_back(Arc::new(Segment { base, file }));
            }
        }
        let files = RwLock::new(files);
        Ok((Self { vfs, directory, file_size, files, foreign, extended: None }, flaws))
    }

    /// Names in the folder that are none of ours. Java's DLedger takes every name for a data file,
    /// so they keep a Java broker from opening the folder.
    #[must_use]
    pub fn foreign_names(&self) -> &[String] {
        &self.foreign
    }

    /// The last file, where [`SegmentFiles::open_extending`] made it longer, with its length before.
    #[must_use]
    pub fn extended(&self) -> Option<(&Path, u64)> {
        self.extended.as_ref().map(|(path, length)| (path.as_path(), *length))
    }

    /// Bytes of one file.
    #[must_use]
    pub fn file_size(&self) -> u64 {
        self.file_size
    }

    /// Positions that the files cover; `None` where there is no file.
    #[must_use]
    pub fn range(&self) -> Option<Range<u64>> {
        let files = self.read_files();
        Some(files.front()?.base..files.back()?.base + self.file_size)
    }

    /// Start of the file that holds `position`, whether it exists or not.
    #[must_use]
    pub fn base_of(&self, position: u64) -> u64 {
        position - position % self.file_size
    }

    /// Appends an empty file that begins at `base`, durably. A file that is already there is kept.
    ///
    /// # Errors
    /// What the file system answers; then no file was appended.
    pub fn append_file(&self, base: u64) -> io::Result<()> {
        match self.range() {
            Some(range) if range.contains(&base) => return Ok(()),
            Some(range) if range.end != base => {
                return Err(io::Error::other(format!("file {base} is not next to {}", range.end)));
            }
            _ => {}
        }
        let path = self.directory.join(file_name(base));
        let file = self.vfs.create(&path)?;
        if let Err(error) = self.prepare(&*file) {
            return Err(match self.vfs.remove(&path) {
                Ok(()) => error,
                Err(second) => io::Error::new(
                    error.kind(),
                    format!("{error}; {} could not be removed: {second}", path.display()),
                ),
            });
        }
        self.write_files().push_back(Arc::new(Segment { base, file }));
        Ok(())
    }

    fn prepare(&self, file: &dyn VfsFile) -> io::Result<()> {
        file.set_length(self.file_size)?;
        file.sync_data()?;
        self.vfs.sync_directory(&self.directory)
    }

    /// Writes the parts from `position`; they must lie in one file.
    ///
    /// # Errors
    /// How far it came and why it stopped.
    pub fn write_at(&self, position: u64, parts: &mut [IoSlice<'_>]) -> Result<(), WriteError> {
        let length: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let segment =
            self.segment(position, length).map_err(|source| WriteError { written: 0, source })?;
        write_all_at(&*segment.file, parts, position - segment.base)
            .map_err(|(written, source)| WriteError { written, source })
    }

    /// Fills `buffer` from `position`; it must lie in one file.
    ///
    /// # Errors
    /// What the file system answers.
    pub fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<()> {
        let segment = self.segment(position, buffer.len() as u64)?;
        crate::read_exact_at(&*segment.file, buffer, position - segment.base)
    }

    /// As [`SegmentFiles::read_at`] where that needs no disk, else `false`.
    ///
    /// # Errors
    /// What the file system answers.
    pub fn read_at_if_cached(&self, position: u64, buffer: &mut [u8]) -> io::Result<bool> {
        let segment = self.segment(position, buffer.len() as u64)?;
        let read = segment.file.read_at_if_cached(buffer, position - segment.base)?;
        Ok(read == Some(buffer.len()))
    }

    /// Makes the bytes of `range` durable, and whatever else is in its files.
    ///
    /// # Errors
    /// What the file system answers; then the files must not be trusted again.
    pub fn flush(&self, range: Range<u64>) -> io::Result<()> {
        for segment in self.segments(range) {
            segment.file.sync_data()?;
        }
        Ok(())
    }

    /// First position at or behind `from` that may hold something other than a hole, in the file
    /// that holds `from`.
    ///
    /// # Errors
    /// What the file system answers.
    pub fn next_data(&self, from: u64) -> io::Result<Option<u64>> {
        let segment = self.segment(from, 0)?;
        Ok(segment.file.next_data(from - segment.base)?.map(|found| segment.base + found))
    }

    /// Cuts the log off at `position`: files that begin at or behind it are removed, the rest of
    /// the file that holds it is zeroed. A first file that begins at `position` is zeroed, too, as
    /// its name tells where the log begins. Durable on return: stale bytes must never look like a
    /// log again.
    ///
    /// # Errors
    /// What the file system answers; then some of the tail may be left.
    pub fn truncate(&self, position: u64) -> io::Result<()> {
        // From the last file on, so that no crash leaves a gap.
        while let Some(base) = self.last_base_behind(position) {
            self.write_files().pop_back();
            self.remove_file(base)?;
        }
        if let Some(range) = self.range().filter(|range| range.contains(&position)) {
            self.zero(position..range.end)?;
            self.flush(position..range.end)?;
        }
        Ok(())
    }

    /// Removes whole files whose last byte is before `position`, never the last file; returns the
    /// position of the first byte that is left.
    ///
    /// # Errors
    /// What the file system answers; files before the failing one are gone.
    pub fn trim(&self, position: u64) -> io::Result<Option<u64>> {
        loop {
            let base = {
                let mut files = self.write_files();
                let Some(front) = files.front().map(|segment| segment.base) else {
                    return Ok(None);
                };
                if files.len() < 2 || front + self.file_size > position {
                    return Ok(Some(front));
                }
                files.pop_front();
                front
            };
            self.remove_file(base)?;
        }
    }

    /// Each removal is durable before the next: a crash must not leave a gap.
    fn remove_file(&self, base: u64) -> io::Result<()> {
        self.vfs.remove(&self.directory.join(file_name(base)))?;
        self.vfs.sync_directory(&self.directory)
    }

    /// The folder.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Removes all files, from the last to the first.
    ///
    /// # Errors
    /// What the file system answers; then some files may be left.
    pub fn clear(&self) -> io::Result<()> {
        loop {
            let Some(last) = self.write_files().pop_back() else { return Ok(()) };
            self.remove_file(last.base)?;
        }
    }

    /// The last file, if a cut at `position` takes it whole.
    fn last_base_behind(&self, position: u64) -> Option<u64> {
        let files = self.read_files();
        let base = files.back()?.base;
        (base > position || (base == position && files.len() > 1)).then_some(base)
    }

    fn segment(&self, position: u64, length: u64) -> io::Result<Arc<Segment>> {
        let files = self.read_files();
        let outside = || {
            io::Error::new(
                io::ErrorKind::NotFound,
                format!(
                    "no file of {} holds {length} bytes at {position}",
                    self.directory.display()
                ),
            )
        };
        let first = files.front().ok_or_else(outside)?.base;
        let nth = position.checked_sub(first).ok_or_else(outside)? / self.file_size;
        let nth = usize::try_from(nth).map_err(io::Error::other)?;
        let segment = files.get(nth).ok_or_else(outside)?;
        let end = position.checked_add(length).ok_or_else(outside)?;
        if end > segment.base + self.file_size {
            return Err(outside());
        }
        Ok(Arc::clone(segment))
    }

    fn segments(&self, range: Range<u64>) -> Vec<Arc<Segment>> {
        self.read_files()
            .iter()
            .filter(|segment| {
                segment.base < range.end && segment.base + self.file_size > range.start
            })
            .map(Arc::clone)
            .collect()
    }

    fn read_files(&self) -> std::sync::RwLockReadGuard<'_, VecDeque<Arc<Segment>>> {
        self.files.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_files(&self) -> std::sync::RwLockWriteGuard<'_, VecDeque<Arc<Segment>>> {
        self.files.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Name of the file that begins at `base`.
fn file_name(base: u64) -> String {
    format!("{base:0width$}", width = NAME_DIGITS)
}

/// Positions of the numbered files, sorted, and the other names.
fn numbered(names: Vec<String>) -> (Vec<u64>, Vec<String>) {
    let mut bases = Vec::new();
    let mut foreign = Vec::new();
    for name in names {
        let digits = name.len() == NAME_DIGITS && name.bytes().all(|byte| byte.is_ascii_digit());
        match name.parse() {
            Ok(base) if digits => bases.push(base),
            _ => foreign.push(name),
        }
    }
    bases.sort_unstable();
    (bases, foreign)
}

#[cfg(test)]
mod tests;
