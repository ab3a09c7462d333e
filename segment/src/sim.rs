//! A simulated disk, for tests of what a crash or a failing call leaves behind.
//!
//! The model is that of a page cache. A write dirties sectors of [`SECTOR`] bytes, a change of
//! length dirties the length; both become durable by `sync_data`. A change of names becomes durable
//! by `sync_directory`. Folders themselves are durable at once. [`SimVfs::crash`] makes the disk
//! that a power cut leaves: each unsynced sector, length and name is kept, dropped or torn, as the
//! caller decides.

mod choices;
mod disk;

use std::{
    collections::BTreeSet,
    fmt,
    io::{self, IoSlice},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use self::disk::{Disk, FileId, NameChange};
use crate::vfs::{LockError, LockGuard, Space, Vfs, VfsFile};

/// Bytes of a sector: the unit that a power cut keeps or drops.
pub(crate) const SECTOR: usize = 512;

/// A kind of call that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// `write_at`.
    Write,
    /// `read_at`, cached or not.
    Read,
    /// `sync_data`. What was dirty is lost: it can be read until a crash, a later sync reports
    /// success, and a crash brings the older bytes back, as Linux does it.
    Sync,
    /// `create`, `rename`, `remove`, `sync_directory`, `set_length`, `allocate`.
    Metadata,
}

/// What a power cut does to one unsynced change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It reached the disk.
    Keep,
    /// It did not.
    Drop,
    /// The first half of a sector did; other changes count as dropped.
    Torn,
}

/// One change that is not durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsynced {
    /// A sector of a file, by number.
    Sector {
        /// A name of the file, if it has one.
        path: Option<PathBuf>,
        /// Which sector.
        number: u64,
    },
    /// The length of a file.
    Length {
        /// A name of the file, if it has one.
        path: Option<PathBuf>,
    },
    /// A create, rename or remove; the path that appears or goes.
    Name {
        /// The path.
        path: PathBuf,
    },
}

/// A simulated disk; clones share it.
#[derive(Clone, Default)]
pub struct SimVfs {
    disk: Arc<Mutex<Disk>>,
}

impl fmt::Debug for SimVfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the bytes of all files.
        let (calls, boots) = (self.disk().calls, self.disk().boots);
        f.debug_struct("SimVfs").field("calls", &calls).field("boots", &boots).finish()
    }
}

impl SimVfs {
    /// An empty disk with room without end.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets `calls` more changing calls through; the later ones, and all reads, fail as on a machine
    /// without power. See [`SimVfs::crash`] for what is then on the disk.
    pub fn cut_power_after(&self, calls: u64) {
        let mut disk = self.disk();
        disk.power_until = Some(disk.calls + calls);
    }

    /// Changing calls so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.disk().calls
    }

    /// Lets `skip` calls of this kind pass, then fails `times` of them with the system's `errno`.
    pub fn fail(&self, call: Call, skip: u64, times: u64, errno: i32) {
        self.disk().failures.insert(call, (skip, times, errno));
    }

    /// Bytes that may still be written to new sectors; behind that writes are short, then fail with
    /// `ENOSPC`. `None` is no bound.
    pub fn set_room(&self, bytes: Option<u64>) {
        self.disk().room = bytes;
    }

    /// The next write takes at most `bytes`.
    pub fn shorten_next_write(&self, bytes: usize) {
        self.disk().short_write = Some(bytes);
    }

    /// What is not durable now, in the order in which [`SimVfs::crash`] asks about it.
    #[must_use]
    pub fn unsynced(&self) -> Vec<Unsynced> {
        let mut found = Vec::new();
        drop(self.disk().crash(&mut |change| {
            found.push(change.clone());
            Fate::Drop
        }));
        found
    }

    /// The disk after a power cut now: `decide` is asked about every unsynced change. This disk is
    /// left as it is.
    #[must_use]
    pub fn crash(&self, decide: &mut dyn FnMut(&Unsynced) -> Fate) -> Self {
        Self { disk: Arc::new(Mutex::new(self.disk().crash(decide))) }
    }

    /// The disk as a new process finds it when this one was killed: nothing is lost, power is on
    /// and no call fails.
    #[must_use]
    pub fn after_kill(&self) -> Self {
        let mut disk = self.disk().living();
        disk.heal();
        Self { disk: Arc::new(Mutex::new(disk)) }
    }

    /// The empty disk that takes the place of this one, in a machine that boots once more.
    #[must_use]
    pub fn wiped(&self) -> Self {
        let mut disk = Disk::default();
        disk.boots = self.disk().boots + 1;
        Self { disk: Arc::new(Mutex::new(disk)) }
    }

    /// Counts boots on from `boots`: a disk that was rolled back to an older copy runs in a boot
    /// that the copy has never seen.
    pub fn boot_after(&self, boots: u64) {
        let mut disk = self.disk();
        disk.boots = disk.boots.max(boots) + 1;
    }

    /// Boots so far.
    #[must_use]
    pub fn boots(&self) -> u64 {
        self.disk().boots
    }

    /// Whether [`SimVfs::cut_power_after`] has struck.
    #[must_use]
    pub fn is_dark(&self) -> bool {
        self.disk().powered().is_err()
    }

    /// How many calls of this kind an order by [`SimVfs::fail`] has failed so far.
    #[must_use]
    pub fn failed(&self, call: Call) -> u64 {
        self.disk().failed.get(&call).copied().unwrap_or(0)
    }

    /// What a reader sees at `offset`, for an observer: no call is counted and none fails. `None`
    /// where there is no such file or it ends before.
    pub fn peek<R>(
        &self,
        path: &Path,
        (offset, length): (u64, usize),
        look: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        self.disk().cached(path, offset, length).map(look)
    }

    /// As [`SimVfs::peek`], but what a power cut that drops everything unsynced would leave there.
    pub fn peek_durable<R>(
        &self,
        path: &Path,
        (offset, length): (u64, usize),
        look: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        self.disk().durable(path, offset, length).map(look)
    }

    /// The whole content of a file that a power cut which drops everything unsynced would leave.
    #[must_use]
    pub fn durable_content(&self, path: &Path) -> Option<Vec<u8>> {
        self.disk().durable_whole(path).map(<[u8]>::to_vec)
    }

    /// Ends every arranged failure and gives room without end; power that was cut stays cut.
    pub fn heal(&self) {
        self.disk().mend();
    }

    /// Names of all files, sorted, for an observer.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        self.disk().paths()
    }

    /// Flips one bit of a file where it is kept, behind the back of every cache.
    ///
    /// # Errors
    /// When there is no such file or it is shorter.
    pub fn flip_bit(&self, path: &Path, offset: u64) -> io::Result<()> {
        self.disk().flip_bit(path, offset)
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        // A panic in another test thread must not hide behind a poisoned lock.
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, id: FileId) -> Arc<dyn VfsFile> {
        Arc::new(SimFile { disk: self.clone(), id })
    }
}

impl Vfs for SimVfs {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn VfsFile>> {
        let id = {
            let disk = self.disk();
            disk.powered()?;
            disk.find(path)?
        };
        Ok(self.file(id))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn VfsFile>> {
        let id = self.disk().create(path)?;
        Ok(self.file(id))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.begin(Call::Metadata)?;
        let file = disk.find(from)?;
        disk.change_names(NameChange::Rename { from: from.into(), to: to.into(), file });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.begin(Call::Metadata)?;
        disk.find(path)?;
        disk.change_names(NameChange::Unlink { path: path.into() });
        Ok(())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.disk().list(directory)
    }

    fn list_directories(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.disk().list_directories(directory)
    }

    fn space(&self, _path: &Path) -> io::Result<Space> {
        const ENDLESS: u64 = 1 << 50;
        let disk = self.disk();
        disk.powered()?;
        let used = disk.used_bytes();
        let free = disk.room.unwrap_or(ENDLESS);
        Ok(Space { total: used.saturating_add(free), free })
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.powered()?;
        disk.directories.insert(directory.into());
        Ok(())
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.begin(Call::Metadata)?;
        disk.sync_directory(directory);
        Ok(())
    }

    fn sync_disk(&self, _directory: &Path) -> io::Result<()> {
        self.disk().sync_all()
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, LockError> {
        let mut disk = self.disk();
        if !disk.locks.insert(path.into()) {
            let path = path.display().to_string();
            return Err(LockError::Held { path, pid: std::process::id().to_string() });
        }
        Ok(Box::new(SimLock { disk: self.clone(), path: path.into() }))
    }

    fn boot_id(&self) -> String {
        format!("boot-{}", self.disk().boots)
    }
}

#[derive(Debug)]
struct SimLock {
    disk: SimVfs,
    path: PathBuf,
}

impl LockGuard for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let locks: &mut BTreeSet<PathBuf> = &mut self.disk.disk().locks;
        locks.remove(&self.path);
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimVfs,
    id: FileId,
}

impl VfsFile for SimFile {
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let mut bytes = Vec::new();
        for part in parts {
            bytes.extend_from_slice(part);
        }
        self.disk.disk().write(self.id, &bytes, offset)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.disk().read(self.id, buffer, offset)
    }

    fn read_at_if_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        self.read_at(buffer, offset).map(Some)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.disk().sync(self.id)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.disk.disk().set_length(self.id, length)
    }

    fn length(&self) -> io::Result<u64> {
        self.disk.disk().length(self.id)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.disk.disk().allocate(self.id, length)
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        self.disk.disk().next_data(self.id, offset)
    }
}

#[cfg(test)]
mod tests;
