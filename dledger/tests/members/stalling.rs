//! The machine's file system, on which syncs of data files can be held up.

use std::{
    io::{self, IoSlice},
    path::Path,
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use segment::{LockError, LockGuard, RealVfs, Space, Vfs, VfsFile};

/// Holds syncs up while it is shut.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    shut: bool,
    waiting: u32,
}

impl Gate {
    pub(crate) fn shut(&self) {
        self.state.lock().unwrap().shut = true;
    }

    pub(crate) fn open(&self) {
        self.state.lock().unwrap().shut = false;
        self.changed.notify_all();
    }

    /// Waits until a sync is held up; whether one is.
    pub(crate) fn holds_one(&self, patience: Duration) -> bool {
        let state = self.state.lock().unwrap();
        let waited = self.changed.wait_timeout_while(state, patience, |state| state.waiting == 0);
        waited.unwrap().0.waiting > 0
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.waiting += 1;
        self.changed.notify_all();
        let mut state = self.changed.wait_while(state, |state| state.shut).unwrap();
        state.waiting -= 1;
    }
}

/// A file system with such a gate.
#[derive(Debug, Default)]
pub(crate) struct StallingVfs {
    real: RealVfs,
    pub(crate) gate: Arc<Gate>,
}

impl StallingVfs {
    fn file(&self, path: &Path, real: Arc<dyn VfsFile>) -> Arc<dyn VfsFile> {
        let is_data = path.parent().is_some_and(|folder| folder.ends_with("data"));
        let gate = is_data.then(|| Arc::clone(&self.gate));
        Arc::new(File { real, gate })
    }
}

impl Vfs for StallingVfs {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn VfsFile>> {
        Ok(self.file(path, self.real.open(path)?))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn VfsFile>> {
        Ok(self.file(path, self.real.create(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.real.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.real.remove(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.real.list(directory)
    }

    fn list_directories(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.real.list_directories(directory)
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        self.real.space(path)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        self.real.create_directory(directory)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.real.sync_directory(directory)
    }

    fn sync_disk(&self, directory: &Path) -> io::Result<()> {
        self.real.sync_disk(directory)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, LockError> {
        self.real.lock(path)
    }

    fn boot_id(&self) -> String {
        self.real.boot_id()
    }
}

#[derive(Debug)]
struct File {
    real: Arc<dyn VfsFile>,
    gate: Option<Arc<Gate>>,
}

impl VfsFile for File {
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        self.real.write_at(parts, offset)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.real.read_at(buffer, offset)
    }

    fn read_at_if_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        self.real.read_at_if_cached(buffer, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        if let Some(gate) = &self.gate {
            gate.pass();
        }
        self.real.sync_data()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.real.set_length(length)
    }

    fn length(&self) -> io::Result<u64> {
        self.real.length()
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.real.allocate(length)
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        self.real.next_data(offset)
    }
}
