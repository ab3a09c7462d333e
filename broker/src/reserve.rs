//! Room that is set aside for a start on a full disk.
//!
//! To open a log costs a few blocks: the vote, marks, tables. On a disk without any the broker could
//! not start, and so could not delete what has expired either. Hence a file of a few MiB, which is
//! given up for a start that finds less free than that, or by a broker that runs and can delete
//! nothing for want of room, and made again once there is room. Java passes over it.

use std::{
    io,
    path::{Path, PathBuf},
};

use segment::Vfs;

/// The file under `storePathRootDir`.
const FILE: &str = "reserve";
/// Its bytes, in which a start and the first turns of retention fit.
const BYTES: u64 = 4 << 20;
/// It is made where so many times its bytes are free.
const PLENTY: u64 = 4;

/// The reserve of a broker.
#[derive(Debug)]
pub(crate) struct Reserve {
    root: PathBuf,
}

impl Reserve {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    fn path(&self) -> PathBuf {
        self.root.join(FILE)
    }

    /// Gives it up where the disk has less than that free; whether it did. A disk that cannot be
    /// measured is left to what opens files on it.
    ///
    /// # Errors
    /// What the disk answers.
    pub(crate) fn give_up_if_needed(&self, vfs: &dyn Vfs) -> io::Result<bool> {
        let Ok(space) = vfs.space(&self.root) else { return Ok(false) };
        if space.free >= BYTES {
            return Ok(false);
        }
        match vfs.remove(&self.path()) {
            Ok(()) => {
                tracing::warn!(
                    folder = %self.root.display(), free = space.free,
                    "the disk is full: what is set aside for that is used up now"
                );
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sets it aside where there is plenty of room. Where that fails nothing is lost but the help at
    /// a start on a full disk.
    pub(crate) fn keep(&self, vfs: &dyn Vfs) {
        let plenty = vfs.space(&self.root).is_ok_and(|space| space.free >= PLENTY * BYTES);
        if !plenty {
            return;
        }
        if let Err(error) = set_aside(vfs, &self.path()) {
            tracing::debug!(%error, "no room was set aside for a start on a full disk");
        }
    }
}

fn set_aside(vfs: &dyn Vfs, path: &Path) -> io::Result<()> {
    let file = match vfs.create(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error),
    };
    file.allocate(BYTES).inspect_err(|_| drop(vfs.remove(path)))
}

#[cfg(test)]
mod tests {
    use segment::SimVfs;

    use super::*;

    #[test]
    fn it_is_given_up_once_on_a_full_disk_and_made_again_with_room() {
        let disk = SimVfs::new();
        disk.create_directory(Path::new("store")).unwrap();
        let reserve = Reserve::new("store".into());
        disk.set_room(Some(PLENTY * BYTES - 1));
        reserve.keep(&disk);
        assert!(disk.open(&reserve.path()).is_err(), "there was not plenty");
        disk.set_room(Some(PLENTY * BYTES));
        for _ in 0..2 {
            reserve.keep(&disk);
            assert_eq!(disk.space(Path::new("store")).unwrap().free, (PLENTY - 1) * BYTES);
            assert!(!reserve.give_up_if_needed(&disk).unwrap(), "there is room");
        }
        disk.set_room(Some(0));
        assert!(reserve.give_up_if_needed(&disk).unwrap());
        assert!(!reserve.give_up_if_needed(&disk).unwrap(), "it is gone");
    }
}
