//! The file system of the machine for those who must change nothing.

use std::{fs::File, io, path::Path, sync::Arc};

use crate::{
    real::{RealFile, RealVfs},
    vfs::{LockError, LockGuard, Space, Vfs, VfsFile},
};

/// The file system of the machine; whatever would change it is an error. Files need no right to
/// write, so that a copy on a read-only disk can be read, too.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadOnlyVfs;

fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "this is only read")
}

impl Vfs for ReadOnlyVfs {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn VfsFile>> {
        Ok(Arc::new(RealFile(File::open(path)?)))
    }

    fn create(&self, _path: &Path) -> io::Result<Arc<dyn VfsFile>> {
        Err(refused())
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn remove(&self, _path: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        RealVfs.list(directory)
    }

    fn list_directories(&self, directory: &Path) -> io::Result<Vec<String>> {
        RealVfs.list_directories(directory)
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        RealVfs.space(path)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        if directory.is_dir() { Ok(()) } else { Err(refused()) }
    }

    fn sync_directory(&self, _directory: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_disk(&self, _directory: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, LockError> {
        Err(LockError::Io { path: path.display().to_string(), source: refused() })
    }

    fn boot_id(&self) -> String {
        RealVfs.boot_id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_can_be_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        RealVfs.create(&path).unwrap().set_length(3).unwrap();
        let file = ReadOnlyVfs.open(&path).unwrap();
        assert_eq!(file.length().unwrap(), 3);
        file.set_length(9).unwrap_err();
        file.write_at(&[io::IoSlice::new(b"x")], 0).unwrap_err();
        ReadOnlyVfs.create(&folder.path().join("b")).unwrap_err();
        ReadOnlyVfs.remove(&path).unwrap_err();
        ReadOnlyVfs.rename(&path, &folder.path().join("b")).unwrap_err();
        assert_eq!(RealVfs.list(folder.path()).unwrap(), ["a"]);
        assert_eq!(file.length().unwrap(), 3);
    }
}
