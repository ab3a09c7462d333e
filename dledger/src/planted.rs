//! Faults of the disk that tests/sim turns on to show that it finds them. In the product there are
//! none, and no way to turn one on.

/// Which faults are planted.
#[cfg(feature = "planted")]
pub(crate) use dledger_core::Planted;

/// Which faults are planted: none.
#[cfg(not(feature = "planted"))]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Planted;

/// Whether a fault is planted: never, in the product.
#[cfg(feature = "planted")]
macro_rules! planted {
    ($planted:expr, $bug:ident) => {
        $planted.has(dledger_core::Bug::$bug)
    };
}
#[cfg(not(feature = "planted"))]
macro_rules! planted {
    ($planted:expr, $bug:ident) => {{
        let _: &$crate::planted::Planted = &$planted;
        false
    }};
}
pub(crate) use planted;

/// The file system for the small files of term and vote.
#[cfg(not(feature = "planted"))]
pub(crate) fn careless(
    vfs: &std::sync::Arc<dyn segment::Vfs>,
    _planted: &Planted,
) -> std::sync::Arc<dyn segment::Vfs> {
    std::sync::Arc::clone(vfs)
}

#[cfg(feature = "planted")]
pub(crate) use self::careless::careless;

#[cfg(feature = "planted")]
mod careless {
    use std::{io, path::Path, sync::Arc};

    use dledger_core::{Bug, Planted};
    use segment::{LockError, LockGuard, Space, Vfs, VfsFile};

    /// A file system that replaces files as Java does, or forgets to sync their names.
    #[derive(Debug)]
    struct Careless {
        vfs: Arc<dyn Vfs>,
        planted: Planted,
    }

    pub(crate) fn careless(vfs: &Arc<dyn Vfs>, planted: &Planted) -> Arc<dyn Vfs> {
        Arc::new(Careless { vfs: Arc::clone(vfs), planted: planted.clone() })
    }

    impl Vfs for Careless {
        fn open(&self, path: &Path) -> io::Result<Arc<dyn VfsFile>> {
            self.vfs.open(path)
        }

        fn create(&self, path: &Path) -> io::Result<Arc<dyn VfsFile>> {
            self.vfs.create(path)
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            if self.planted.has(Bug::P18) {
                match self.vfs.remove(to) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => self.vfs.sync_directory(to.parent().unwrap_or(Path::new("")))?,
                }
            }
            self.vfs.rename(from, to)
        }

        fn remove(&self, path: &Path) -> io::Result<()> {
            self.vfs.remove(path)
        }

        fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
            self.vfs.list(directory)
        }

        fn list_directories(&self, directory: &Path) -> io::Result<Vec<String>> {
            self.vfs.list_directories(directory)
        }

        fn space(&self, path: &Path) -> io::Result<Space> {
            self.vfs.space(path)
        }

        fn create_directory(&self, directory: &Path) -> io::Result<()> {
            self.vfs.create_directory(directory)
        }

        fn sync_directory(&self, directory: &Path) -> io::Result<()> {
            if self.planted.has(Bug::P17) { Ok(()) } else { self.vfs.sync_directory(directory) }
        }

        fn sync_disk(&self, directory: &Path) -> io::Result<()> {
            self.vfs.sync_disk(directory)
        }

        fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, LockError> {
            self.vfs.lock(path)
        }

        fn boot_id(&self) -> String {
            self.vfs.boot_id()
        }
    }
}
