//! A folder that is made beside its place and put there when it is whole.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use segment::{RealVfs, Vfs};

use super::ConvertError;

/// What a copy may need beyond the bytes of its log: the first files of queues and index.
const SPARE: u64 = 64 << 20;

/// A folder under construction. Dropped before [`Staging::finish`], it is removed.
#[derive(Debug)]
pub(super) struct Staging {
    to: PathBuf,
    part: PathBuf,
    finished: bool,
}

impl Staging {
    /// Makes the folder `<to>.part`. `logs` are the folders of the files that will be
    /// copied.
    pub(super) fn begin(from: &Path, to: &Path, logs: &[PathBuf]) -> Result<Self, ConvertError> {
        if fs::read_dir(to).is_ok_and(|mut names| names.next().is_some()) || to.is_file() {
            return Err(ConvertError::Exists(to.to_owned()));
        }
        let to = absolute(to)?;
        let from = fs::canonicalize(from).map_err(|source| at(from, source))?;
        if to.starts_with(&from) {
            return Err(ConvertError::Inside(to));
        }
        let mut part = to.clone().into_os_string();
        part.push(".part");
        let part = PathBuf::from(part);
        if part.exists() {
            return Err(ConvertError::Interrupted(part));
        }
        RealVfs.create_directory(&part).map_err(|source| at(&part, source))?;
        let staging = Self { to, part, finished: false };
        let bytes = logs.iter().map(|folder| allocated(folder)).sum::<Result<u64, _>>()?;
        staging.check_room(bytes)?;
        Ok(staging)
    }

    /// Where the copy is made.
    pub(super) fn folder(&self) -> &Path {
        &self.part
    }

    /// Makes all durable and puts the folder in its place.
    pub(super) fn finish(mut self) -> Result<(), ConvertError> {
        let failed = |source| at(&self.part, source);
        RealVfs.sync_disk(&self.part).map_err(failed)?;
        RealVfs.rename(&self.part, &self.to).map_err(failed)?;
        self.finished = true;
        let parent = self.to.parent().unwrap_or(Path::new("/"));
        RealVfs.sync_directory(parent).map_err(|source| at(parent, source))
    }

    /// Copies the tables of `config/`, each with its backup, and how far Java delivered timers; gives
    /// the names of the tables.
    pub(super) fn copy_tables(&self, root: &Path) -> Result<Vec<String>, ConvertError> {
        let (from, to) = (root.join("config"), self.part.join("config"));
        RealVfs.create_directory(&to).map_err(|source| at(&to, source))?;
        let names = match RealVfs.list(&from) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            names => names.map_err(|source| at(&from, source))?,
        };
        let mut copied = Vec::new();
        for name in names {
            let timers = name == crate::timer::JAVAS_PROGRESS;
            if timers || name.ends_with(".json") || name.ends_with(".json.bak") {
                let path = from.join(&name);
                fs::copy(&path, to.join(&name)).map_err(|source| at(&path, source))?;
                if name.ends_with(".json") {
                    copied.push(name);
                }
            }
        }
        Ok(copied)
    }

    fn check_room(&self, bytes: u64) -> Result<(), ConvertError> {
        let space = RealVfs.space(&self.part).map_err(|source| at(&self.part, source))?;
        let needed = bytes.saturating_add(bytes / 8).saturating_add(SPARE);
        if space.free < needed {
            let folder = self.part.clone();
            return Err(ConvertError::Room { folder, needed, free: space.free });
        }
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.finished
            && let Err(error) = fs::remove_dir_all(&self.part)
        {
            let folder = self.part.display();
            tracing::warn!(%folder, %error, "what was made so far could not be removed");
        }
    }
}

/// A store that is in use, or that was not stopped in order, is refused.
pub(super) fn refuse_unclean(root: &Path) -> Result<(), ConvertError> {
    let abort = root.join("abort");
    match abort.try_exists() {
        Ok(false) => Ok(()),
        Ok(true) => Err(ConvertError::Unclean(root.to_owned())),
        Err(source) => Err(at(&abort, source)),
    }
}

/// Bytes on the disk of the files of a log.
fn allocated(folder: &Path) -> Result<u64, ConvertError> {
    const BLOCK: u64 = 512;
    let failed = |source| at(folder, source);
    let mut bytes = 0;
    for entry in fs::read_dir(folder).map_err(failed)? {
        let found = entry.and_then(|entry| fs::metadata(entry.path())).map_err(failed)?;
        bytes += found.blocks() * BLOCK;
    }
    Ok(bytes)
}

/// An error of the disk with its place.
pub(super) fn at(place: &Path, source: io::Error) -> ConvertError {
    ConvertError::Io { place: place.to_owned(), source }
}

/// The path with its parent resolved, so that it can be compared; the parent is made.
fn absolute(path: &Path) -> Result<PathBuf, ConvertError> {
    let path = std::path::absolute(path).map_err(|source| at(path, source))?;
    let parent = path.parent().unwrap_or(Path::new("/"));
    RealVfs.create_directory(parent).map_err(|source| at(parent, source))?;
    let parent = fs::canonicalize(parent).map_err(|source| at(parent, source))?;
    Ok(path.file_name().map_or_else(|| parent.clone(), |name| parent.join(name)))
}
