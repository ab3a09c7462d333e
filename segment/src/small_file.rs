//! Whole-file replacement that a crash cannot tear.

use std::{
    ffi::OsString,
    io::{self, IoSlice},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::vfs::{Vfs, read_exact_at, write_all_at};

/// Whether the previous content is kept beside the new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backup {
    /// As `<name>.bak`, as Java's `MixAll.string2File` does for the files of config/.
    Keep,
    /// Not at all.
    None,
}

/// A file that is only ever replaced whole: written beside, synced, renamed over, directory synced.
#[derive(Debug, Clone)]
pub struct SmallFile {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    backup: Backup,
}

impl SmallFile {
    /// The file at `path`, whether it exists or not.
    #[must_use]
    pub fn new(vfs: Arc<dyn Vfs>, path: PathBuf, backup: Backup) -> Self {
        Self { vfs, path, backup }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The content; `None` where there is no such file.
    ///
    /// # Errors
    /// What the file system answers, other than that the file is missing.
    pub fn load(&self) -> io::Result<Option<Vec<u8>>> {
        read_whole(&*self.vfs, &self.path)
    }

    /// The content of the `.bak` file; `None` where there is none.
    ///
    /// # Errors
    /// What the file system answers, other than that the file is missing.
    pub fn load_backup(&self) -> io::Result<Option<Vec<u8>>> {
        read_whole(&*self.vfs, &self.with_suffix(".bak"))
    }

    /// Replaces the content. On `Ok` it is durable; on an error, and after a crash on the way, the
    /// file holds the old or the new content, whole.
    ///
    /// # Errors
    /// What the file system answers.
    pub fn store(&self, content: &[u8]) -> io::Result<()> {
        if self.backup == Backup::Keep
            && let Some(previous) = self.load()?
        {
            self.replace(&self.with_suffix(".bak"), &previous)?;
        }
        self.replace(&self.path, content)?;
        self.vfs.sync_directory(self.path.parent().unwrap_or(Path::new("")))
    }

    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let temporary = self.with_suffix(".tmp");
        match self.vfs.remove(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = self.vfs.create(&temporary)?;
        let written = write_all_at(&*file, &mut [IoSlice::new(content)], 0)
            .map_err(|(_, error)| error)
            .and_then(|()| file.sync_data());
        if let Err(error) = written {
            drop(file);
            // On a full disk its room is needed; what failed first is told.
            drop(self.vfs.remove(&temporary));
            return Err(error);
        }
        self.vfs.rename(&temporary, path)
    }

    fn with_suffix(&self, suffix: &str) -> PathBuf {
        let mut name = OsString::from(self.path.as_os_str());
        name.push(suffix);
        PathBuf::from(name)
    }
}

fn read_whole(vfs: &dyn Vfs, path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match vfs.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let length = usize::try_from(file.length()?).map_err(io::Error::other)?;
    let mut content = vec![0; length];
    read_exact_at(&*file, &mut content, 0)?;
    Ok(Some(content))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fate, SimVfs};

    #[test]
    fn the_previous_content_is_kept_as_bak() {
        let file = SmallFile::new(Arc::new(SimVfs::new()), PathBuf::from("d/a.json"), Backup::Keep);
        assert_eq!(file.load().unwrap(), None);
        file.store(b"one").unwrap();
        file.store(b"two").unwrap();
        assert_eq!(file.load().unwrap().unwrap(), b"two");
        assert_eq!(file.load_backup().unwrap().unwrap(), b"one");
    }

    #[test]
    fn power_loss_at_any_call_leaves_old_or_new() {
        for backup in [Backup::Keep, Backup::None] {
            for calls in 0..40 {
                for fate in [Fate::Keep, Fate::Drop, Fate::Torn] {
                    check_power_loss(backup, calls, fate);
                }
            }
        }
    }

    fn check_power_loss(backup: Backup, calls: u64, fate: Fate) {
        let disk = SimVfs::new();
        let path = PathBuf::from("d/currterm");
        let file = SmallFile::new(Arc::new(disk.clone()), path.clone(), backup);
        file.store(b"old").unwrap();
        disk.cut_power_after(calls);
        let stored = file.store(b"new");
        let after = SmallFile::new(Arc::new(disk.crash(&mut |_| fate)), path, backup);
        let content = after.load().unwrap().unwrap();
        if stored.is_ok() {
            assert_eq!(content, b"new");
        } else {
            assert!(content == b"old" || content == b"new", "{content:?} after {calls} calls");
        }
        after.store(b"next").unwrap();
        assert_eq!(after.load().unwrap().unwrap(), b"next");
    }
}
