//! The disk seam: what the rest of the product may ask of a file system.

use std::{
    fmt,
    io::{self, IoSlice},
    path::Path,
    sync::Arc,
};

/// A file system. A change of names (create, rename, remove) is durable only after
/// [`Vfs::sync_directory`]; a change of bytes or length only after [`VfsFile::sync_data`].
pub trait Vfs: fmt::Debug + Send + Sync {
    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn VfsFile>>;

    /// Creates a file; one that exists is an error of kind `AlreadyExists`.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn VfsFile>>;

    /// Gives a file another name, replacing what had it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Names of the files (not folders) in `directory`, sorted. A missing folder is an error of
    /// kind `NotFound`.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;

    /// Names of the folders in `directory`, sorted. A missing folder is an error of kind `NotFound`.
    fn list_directories(&self, directory: &Path) -> io::Result<Vec<String>>;

    /// Room of the disk that holds `path`, which must exist.
    fn space(&self, path: &Path) -> io::Result<Space>;

    /// Creates `directory` and its parents where they are missing, durably.
    fn create_directory(&self, directory: &Path) -> io::Result<()>;

    /// As [`Vfs::create_directory`], but without waiting for the disk: for what can be made again.
    /// The names are durable once [`Vfs::sync_directory`] was called on each parent.
    fn make_directory(&self, directory: &Path) -> io::Result<()> {
        self.create_directory(directory)
    }

    /// As [`Vfs::create_directory`], but it need not be durable.
    fn create_directory_unsynced(&self, directory: &Path) -> io::Result<()> {
        self.create_directory(directory)
    }

    /// Makes the names in `directory` durable.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;

    /// Makes everything durable on the disk that holds `directory`: for many files at once.
    fn sync_disk(&self, directory: &Path) -> io::Result<()>;

    /// Takes the lock file at `path` for the life of the guard and writes this process's id to it.
    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, LockError>;

    /// Differs after each boot of the machine: what a process wrote without syncing survives the
    /// process, but not the boot. Empty where the system does not tell.
    fn boot_id(&self) -> String;
}

/// An open file. All calls name their position, so one handle serves many threads.
pub trait VfsFile: fmt::Debug + Send + Sync {
    /// Writes the parts one behind another from `offset`; returns how many bytes were written,
    /// which may be fewer than asked (see [`write_all_at`]).
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize>;

    /// Reads from `offset`; returns how many bytes were read, 0 at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// As [`VfsFile::read_at`] where it needs no disk; `None` where it would have to wait.
    fn read_at_if_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>>;

    /// Makes the bytes, and the length needed to read them, durable. After an error the file must
    /// not be trusted again: the system may have dropped what it could not write.
    fn sync_data(&self) -> io::Result<()>;

    /// Sets the length; a longer file reads as zeros there.
    fn set_length(&self, length: u64) -> io::Result<()>;

    /// Length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Reserves room on the disk for the first `length` bytes.
    fn allocate(&self, length: u64) -> io::Result<()>;

    /// First offset at or behind `offset` that may hold something other than a hole; `None` where
    /// only a hole follows.
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>>;
}

/// Room of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes in all.
    pub total: u64,
    /// Bytes that this process may still use.
    pub free: u64,
}

impl Space {
    /// Share that is used, from 0 to 1, as `df` computes it.
    #[must_use]
    pub fn used_ratio(&self) -> f64 {
        if self.total == 0 {
            return 0.0;
        }
        #[expect(clippy::cast_precision_loss, reason = "a share needs no more precision")]
        let share = self.free.min(self.total) as f64 / self.total as f64;
        1.0 - share
    }
}

/// Holds a lock file; dropped, it lets the lock go.
pub trait LockGuard: fmt::Debug + Send + Sync {}

/// Why a lock file could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// A running process has it.
    #[error("{path} is locked by process {pid}: stop that process or use another data directory")]
    Held {
        /// The lock file.
        path: String,
        /// What the holder wrote into it.
        pid: String,
    },
    /// The file could not be opened or locked.
    #[error("lock file {path} could not be taken: {source}")]
    Io {
        /// The lock file.
        path: String,
        /// Why.
        source: io::Error,
    },
}

/// Writes all parts from `offset`, going on after short writes.
///
/// # Errors
/// The number of bytes written before the failure, and the failure.
pub fn write_all_at(
    file: &dyn VfsFile,
    mut parts: &mut [IoSlice<'_>],
    offset: u64,
) -> Result<(), (u64, io::Error)> {
    let mut written = 0;
    IoSlice::advance_slices(&mut parts, 0);
    while !parts.is_empty() {
        match file.write_at(parts, offset + written) {
            Ok(0) => return Err((written, io::ErrorKind::WriteZero.into())),
            Ok(count) => {
                written += count as u64;
                IoSlice::advance_slices(&mut parts, count);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err((written, error)),
        }
    }
    Ok(())
}

/// Fills `buffer` from `offset`; an end of file before that is an error of kind `UnexpectedEof`.
///
/// # Errors
/// What the file answers.
pub fn read_exact_at(file: &dyn VfsFile, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
