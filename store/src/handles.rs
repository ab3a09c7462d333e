//! Open files, few enough that thousands of queues do not run out of descriptors.

use std::{
    collections::HashMap,
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use segment::{Vfs, VfsFile};

/// A bounded cache of open files, by the number of their owner and their base.
#[derive(Debug)]
pub(crate) struct Handles {
    vfs: Arc<dyn Vfs>,
    limit: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    files: HashMap<Key, (Arc<dyn VfsFile>, u64)>,
    clock: u64,
}

/// Serial number of the owner and base of the file.
pub(crate) type Key = (usize, u64);

impl Handles {
    pub(crate) fn new(vfs: Arc<dyn Vfs>, limit: usize) -> Self {
        Self { vfs, limit, open: Mutex::default() }
    }

    pub(crate) fn vfs(&self) -> &Arc<dyn Vfs> {
        &self.vfs
    }

    /// The file of `key`, opened at `path` where it is not.
    pub(crate) fn get(&self, key: Key, path: &Path) -> io::Result<Arc<dyn VfsFile>> {
        {
            let mut open = self.lock();
            open.clock += 1;
            let clock = open.clock;
            if let Some((file, used)) = open.files.get_mut(&key) {
                *used = clock;
                return Ok(Arc::clone(file));
            }
        }
        let file = self.vfs.open(path)?;
        self.put(key, Arc::clone(&file));
        Ok(file)
    }

    /// Keeps a file that was opened elsewhere.
    pub(crate) fn put(&self, key: Key, file: Arc<dyn VfsFile>) {
        let mut open = self.lock();
        if open.files.len() >= self.limit {
            // A quarter goes at once, so that a full cache does not sort on each miss.
            let mut used: Vec<_> = open.files.values().map(|(_, used)| *used).collect();
            let (_, oldest, _) = used.select_nth_unstable(self.limit / 4);
            let oldest = *oldest;
            open.files.retain(|_, (_, used)| *used > oldest);
        }
        let clock = open.clock;
        open.files.insert(key, (file, clock));
    }

    /// Lets a file go that is removed.
    pub(crate) fn forget(&self, key: Key) {
        self.lock().files.remove(&key);
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use segment::SimVfs;

    use super::*;

    #[test]
    fn the_cache_stays_within_its_bound_and_forgets_the_oldest() {
        let disk = SimVfs::new();
        let handles = Handles::new(Arc::new(disk.clone()), 8);
        let path = |nth: u64| PathBuf::from(format!("d/{nth}"));
        for nth in 0..20 {
            disk.create(&path(nth)).unwrap();
            handles.get((0, nth), &path(nth)).unwrap();
            assert!(handles.lock().files.len() <= 8);
        }
        disk.remove(&path(19)).unwrap();
        handles.get((0, 19), &path(19)).unwrap();
        handles.forget((0, 19));
        assert!(handles.get((0, 19), &path(19)).is_err());
    }
}
