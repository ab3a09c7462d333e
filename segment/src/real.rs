//! The file system of the machine.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, IoSlice, IoSliceMut, Read, Write},
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
};

use rustix::{
    fs::{FallocateFlags, FlockOperation, SeekFrom},
    io::{Errno, ReadWriteFlags},
};

use crate::vfs::{LockError, LockGuard, Space, Vfs, VfsFile};

/// Most parts that one vectored write takes (Linux: `IOV_MAX`).
const MAX_PARTS: usize = 1024;

/// The file system of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealVfs;

impl Vfs for RealVfs {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn VfsFile>> {
        Ok(Arc::new(RealFile(OpenOptions::new().read(true).write(true).open(path)?)))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn VfsFile>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        Ok(Arc::new(RealFile(file)))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the seam; callers sync the directory")]
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        names_where(directory, fs::FileType::is_file)
    }

    fn list_directories(&self, directory: &Path) -> io::Result<Vec<String>> {
        names_where(directory, fs::FileType::is_dir)
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        let found = rustix::fs::statvfs(path)?;
        let used = found.f_blocks.saturating_sub(found.f_bfree);
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        let total = used.saturating_mul(found.f_frsize).saturating_add(free);
        Ok(Space { total, free })
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        if directory.as_os_str().is_empty() || directory.is_dir() {
            return Ok(());
        }
        let parent = directory.parent().unwrap_or(Path::new("/"));
        self.create_directory(parent)?;
        match fs::create_dir(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => self.sync_directory(parent),
        }
    }

    fn make_directory(&self, directory: &Path) -> io::Result<()> {
        fs::create_dir_all(directory)
    }

    fn create_directory_unsynced(&self, directory: &Path) -> io::Result<()> {
        fs::create_dir_all(directory)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        File::open(directory)?.sync_all()
    }

    fn sync_disk(&self, directory: &Path) -> io::Result<()> {
        Ok(rustix::fs::syncfs(File::open(directory)?)?)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, LockError> {
        let name = path.display().to_string();
        let failed = |source| LockError::Io { path: name.clone(), source };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut pid = String::new();
                file.read_to_string(&mut pid).map_err(failed)?;
                return Err(LockError::Held { path: name, pid: pid.trim().to_owned() });
            }
            Err(error) => return Err(failed(error.into())),
        }
        file.set_len(0).map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Box::new(FlockGuard(file)))
    }

    fn boot_id(&self) -> String {
        fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map(|id| id.trim().to_owned())
            .unwrap_or_default()
    }
}

fn names_where(directory: &Path, wanted: fn(&fs::FileType) -> bool) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let mut kind = entry.file_type()?;
        if kind.is_symlink() {
            // What it leads to counts; one that leads nowhere is neither file nor folder.
            match fs::metadata(entry.path()) {
                Ok(found) => kind = found.file_type(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        if wanted(&kind) {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// The lock lasts as long as the file is open.
#[derive(Debug)]
struct FlockGuard(#[expect(dead_code, reason = "held for its lock, never read")] File);

impl LockGuard for FlockGuard {}

#[derive(Debug)]
pub(crate) struct RealFile(pub(crate) File);

impl VfsFile for RealFile {
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let parts = parts.get(..MAX_PARTS).unwrap_or(parts);
        Ok(rustix::io::pwritev(&self.0, parts, offset)?)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(&self.0, buffer, offset)
    }

    fn read_at_if_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        let mut parts = [IoSliceMut::new(buffer)];
        match rustix::io::preadv2(&self.0, &mut parts, offset, ReadWriteFlags::NOWAIT) {
            Ok(count) => Ok(Some(count)),
            // The file system may not know the flag; then only a blocking read can tell.
            Err(Errno::AGAIN | Errno::OPNOTSUPP) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(&self.0, FallocateFlags::empty(), 0, length)?)
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        match rustix::fs::seek(&self.0, SeekFrom::Data(offset)) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NXIO) => Ok(None),
            Err(Errno::INVAL) => Ok(Some(offset)),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_lock_names_the_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let guard = RealVfs.lock(&path).unwrap();
        let refused = RealVfs.lock(&path).unwrap_err();
        assert!(refused.to_string().contains(&std::process::id().to_string()), "{refused}");
        drop(guard);
        RealVfs.lock(&path).unwrap();
    }

    #[test]
    fn vectored_writes_longer_than_the_systems_bound_are_completed() {
        let folder = tempfile::tempdir().unwrap();
        let file = RealVfs.create(&folder.path().join("file")).unwrap();
        let bytes: Vec<u8> = (0..3000_u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
        let mut parts: Vec<IoSlice<'_>> = bytes.chunks(1).map(IoSlice::new).collect();
        crate::write_all_at(&*file, &mut parts, 7).unwrap();
        let mut back = vec![0; 3000];
        crate::read_exact_at(&*file, &mut back, 7).unwrap();
        assert_eq!(back, bytes);
        assert_eq!(file.length().unwrap(), 3007);
    }

    #[test]
    fn folders_are_listed_apart_from_files_and_space_is_known() {
        let folder = tempfile::tempdir().unwrap();
        RealVfs.create(&folder.path().join("file")).unwrap();
        RealVfs.create_directory(&folder.path().join("b/c")).unwrap();
        assert_eq!(RealVfs.list_directories(folder.path()).unwrap(), ["b"]);
        assert_eq!(RealVfs.list(folder.path()).unwrap(), ["file"]);
        let used = RealVfs.space(folder.path()).unwrap().used_ratio();
        assert!((0.0..=1.0).contains(&used), "{used}");
    }

    #[test]
    fn a_hole_is_told_from_data() {
        let folder = tempfile::tempdir().unwrap();
        let file = RealVfs.create(&folder.path().join("file")).unwrap();
        file.set_length(1 << 20).unwrap();
        assert_eq!(file.next_data(0).unwrap(), None);
        file.write_at(&[IoSlice::new(b"x")], 1 << 19).unwrap();
        assert_eq!(file.next_data(0).unwrap(), Some(1 << 19));
    }
}
