//! What is read from files again when they change.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::TlsError;

/// A value made from files.
pub(super) struct Reloading<T> {
    files: Vec<PathBuf>,
    make: Box<dyn Fn() -> Result<T, TlsError> + Send + Sync>,
    state: Mutex<State<T>>,
}

struct State<T> {
    current: Arc<T>,
    seen: Vec<Option<Stamp>>,
    looked: Instant,
}

/// What tells one content of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: (i64, i64),
    length: u64,
    inode: u64,
}

impl<T> Reloading<T> {
    /// The value as the files have it now.
    pub(super) fn new(
        files: Vec<PathBuf>,
        make: impl Fn() -> Result<T, TlsError> + Send + Sync + 'static,
    ) -> Result<Self, TlsError> {
        // Stamps first: what changes while it is read is then read once more.
        let seen = stamps(&files);
        let current = Arc::new(make()?);
        let state = Mutex::new(State { current, seen, looked: Instant::now() });
        Ok(Self { files, make: Box::new(make), state })
    }

    /// The newest good value.
    pub(super) fn current(&self) -> Arc<T> {
        Arc::clone(&self.lock().current)
    }

    /// Whether the last look is at least so long ago.
    pub(super) fn is_due(&self, age: Duration) -> bool {
        !self.files.is_empty() && self.lock().looked.elapsed() >= age
    }

    /// Reads the files again if they have changed; `true` when it did. What cannot be used leaves
    /// the value as it was. It blocks.
    pub(super) fn look(&self) -> Result<bool, TlsError> {
        let mut state = self.lock();
        state.looked = Instant::now();
        let now = stamps(&self.files);
        if now == state.seen {
            return Ok(false);
        }
        state.seen = now;
        state.current = Arc::new((self.make)()?);
        Ok(true)
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for Reloading<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Reloading").field("files", &self.files).finish_non_exhaustive()
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Option<Stamp>> {
    files
        .iter()
        .map(|file| {
            std::fs::metadata(file).ok().map(|metadata| Stamp {
                modified: (metadata.mtime(), metadata.mtime_nsec()),
                length: metadata.len(),
                inode: metadata.ino(),
            })
        })
        .collect()
}
