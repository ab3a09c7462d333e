//! The lock of a data folder: one process at a time works on it.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, fcntl_lock};

/// A lock that is held while this lives.
///
/// It is a POSIX record lock on the file `lock`, as `DefaultMessageStore.java` takes it, so that a
/// Java broker and this one exclude each other as well. The process id inside is for people.
#[derive(Debug)]
pub(crate) struct DataLock {
    /// Closing the file gives the lock back.
    _file: File,
}

/// Why a data folder cannot be worked on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    /// Another process has it.
    #[error(
        "data folder {} is in use by {holder}; stop that process, or choose another folder by \
         {flag}", folder.display()
    )]
    Held {
        /// The folder.
        folder: PathBuf,
        /// Who has it, as far as is known.
        holder: String,
        /// What chooses another folder.
        flag: &'static str,
    },
    /// The folder or the lock file cannot be made.
    #[error("{} cannot be used as a data folder: {source}", folder.display())]
    Io {
        /// The folder.
        folder: PathBuf,
        /// Text of the system.
        source: io::Error,
    },
}

impl DataLock {
    /// Takes the lock of a folder, which is made where it does not exist. `flag` is what chooses
    /// another one, for the error.
    pub(crate) fn take(folder: &Path, flag: &'static str) -> Result<Self, LockError> {
        let failed = |source| LockError::Io { folder: folder.to_owned(), source };
        fs::create_dir_all(folder).map_err(failed)?;
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(folder.join("lock"))
            .map_err(failed)?;
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => {
                let holder = holder(&mut file);
                return Err(LockError::Held { folder: folder.to_owned(), holder, flag });
            }
            Err(errno) => return Err(failed(errno.into())),
        }
        // Over the old text before it is cut: on a full disk there may be no block for an empty file.
        let text = format!("{}\n", std::process::id());
        file.write_all(text.as_bytes())
            .and_then(|()| file.set_len(text.len() as u64))
            .map_err(failed)?;
        Ok(Self { _file: file })
    }

    /// Keeps others from taking the lock of a folder that is only read; nothing in it is changed.
    /// `None` where it has no lock file, as in a copy: then nobody can have it.
    pub(crate) fn share(folder: &Path) -> Result<Option<Self>, LockError> {
        let failed = |source| LockError::Io { folder: folder.to_owned(), source };
        let mut file = match File::open(folder.join("lock")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        match fcntl_lock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => {
                let holder = holder(&mut file);
                Err(LockError::Held { folder: folder.to_owned(), holder, flag: "DIR" })
            }
            Err(errno) => Err(failed(errno.into())),
        }
    }
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.take(32).read_to_string(&mut text));
    match (read, text.trim().parse::<u32>()) {
        (Ok(_), Ok(pid)) => format!("process {pid}"),
        // Java writes the word "lock".
        _ => "another process".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_tells_who_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("new/data");
        let lock = DataLock::take(&data, "--data").unwrap();
        let mut file = File::open(data.join("lock")).unwrap();
        assert_eq!(holder(&mut file), format!("process {}", std::process::id()));
        drop(lock);
        File::create(data.join("lock")).unwrap().write_all(b"lock").unwrap();
        let mut file = File::open(data.join("lock")).unwrap();
        assert_eq!(holder(&mut file), "another process");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = DataLock::take(&file.path().join("data"), "--data").unwrap_err().to_string();
        assert!(error.contains(file.path().to_str().unwrap()), "{error}");
    }
}
