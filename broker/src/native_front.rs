//! The native commit log of a plain Java broker in front of the DLedger log, as Java's own change to
//! DLedger has it (`DLedgerCommitLog`, `dividedCommitlogOffset`): old messages stay where they are,
//! and the first entry begins where the last old file ends. The old log belongs to this node alone;
//! members of one group must have old logs that end in the same file.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use segment::{Vfs, VfsFile};
use store::native::{NativeError, NativeLog};

use crate::config::BrokerConfig;

/// Why the old log cannot be read in front of the new one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrontError {
    /// It cannot be read.
    #[error(transparent)]
    Native(#[from] NativeError),
    /// Its files are of another length.
    #[error(
        "{} has files of {found} bytes: set mappedFileSizeCommitLog={found}, as the Java broker had it",
        folder.display()
    )]
    FileSize {
        /// The folder `commitlog`.
        folder: PathBuf,
        /// Length of its files.
        found: u64,
    },
    /// The disk refused.
    #[error("{} cannot be read or written: {source}", place.display())]
    Io {
        /// The folder.
        place: PathBuf,
        /// Text of the system.
        source: io::Error,
    },
}

/// Where the two logs lie.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// `storePathRootDir`.
    root: PathBuf,
    /// The folder `commitlog`.
    native: PathBuf,
    /// The folder `data` of the DLedger log.
    data: PathBuf,
    /// `mappedFileSizeCommitLog`.
    file_size: u64,
}

impl Places {
    /// Those of a configuration; `log` is the folder `dledger-<selfId>`.
    pub(crate) fn of(config: &BrokerConfig, log: &Path) -> Self {
        let root = PathBuf::from(&config.store_path_root_dir);
        let (native, data) = (root.join("commitlog"), log.join("data"));
        Self { root, native, data, file_size: config.mapped_file_size_commit_log }
    }

    /// The old log, where there is one and the new log begins at its end.
    ///
    /// Where the new log has no file yet, the old one is sealed and the first file of the new one is
    /// made, whose name tells from then on where it begins.
    pub(crate) fn front(&self, vfs: &Arc<dyn Vfs>) -> Result<Option<NativeLog>, FrontError> {
        if numbered(&**vfs, &self.native)?.is_empty() {
            return Ok(None);
        }
        let Some(begin) = numbered(&**vfs, &self.data)?.into_iter().min() else {
            return self.divide(vfs).map(Some);
        };
        // A crash may have come between the name of the file and its length.
        let path = self.data.join(format!("{begin:020}"));
        let file = vfs.open(&path).map_err(|source| at(&path, source))?;
        if file.length().map_err(|source| at(&path, source))? == 0 {
            self.give_length(vfs, &*file)?;
        }
        self.existing(vfs)
    }

    /// As [`Places::front`], of a store that was divided before; nothing is changed.
    pub(crate) fn existing(&self, vfs: &Arc<dyn Vfs>) -> Result<Option<NativeLog>, FrontError> {
        let begin = numbered(&**vfs, &self.data)?.into_iter().min();
        let Some(begin) = begin.filter(|begin| *begin > 0) else { return Ok(None) };
        if numbered(&**vfs, &self.native)?.is_empty() {
            return Ok(None);
        }
        let native = NativeLog::open(vfs, &self.native)?;
        if native.range().1 != begin {
            tracing::warn!(
                folder = %self.native.display(), ends = native.range().1, begins = begin,
                "this commit log does not end where the DLedger log begins: it is not read"
            );
            return Ok(None);
        }
        Ok(Some(native))
    }

    fn divide(&self, vfs: &Arc<dyn Vfs>) -> Result<NativeLog, FrontError> {
        let killed = vfs.open(&self.root.join("abort")).is_ok();
        let opened = if killed { NativeLog::open_torn } else { NativeLog::open };
        let mut native = opened(vfs, &self.native)?;
        if native.file_size() != self.file_size {
            let found = native.file_size();
            return Err(FrontError::FileSize { folder: self.native.clone(), found });
        }
        let begin = native.seal().map_err(|source| at(&self.native, source))?;
        vfs.create_directory(&self.data).map_err(|source| at(&self.data, source))?;
        let path = self.data.join(format!("{begin:020}"));
        let file = vfs.create(&path).map_err(|source| at(&path, source))?;
        self.give_length(vfs, &*file)?;
        tracing::info!(
            folder = %self.native.display(), begins = begin,
            "a native commit log was found: the DLedger log begins behind it"
        );
        Ok(native)
    }

    fn give_length(&self, vfs: &Arc<dyn Vfs>, file: &dyn VfsFile) -> Result<(), FrontError> {
        let made = file
            .set_length(self.file_size)
            .and_then(|()| file.sync_data())
            .and_then(|()| vfs.sync_directory(&self.data));
        made.map_err(|source| at(&self.data, source))
    }
}

/// Positions by which the files in a folder are named.
fn numbered(vfs: &dyn Vfs, folder: &Path) -> Result<Vec<u64>, FrontError> {
    let names = match vfs.list(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        names => names.map_err(|source| at(folder, source))?,
    };
    let numbers = names.iter().filter(|name| name.len() == 20).filter_map(|name| name.parse().ok());
    Ok(numbers.collect())
}

fn at(place: &Path, source: io::Error) -> FrontError {
    FrontError::Io { place: place.to_owned(), source }
}
