//! The file `provisional`: why this member may lack entries that it has acknowledged, until it holds
//! what the group has committed.

use std::{io, path::Path, sync::Arc};

use dledger_core::Provisional;
use segment::{Backup, SmallFile, Vfs};

use super::value;

/// Why a member may lack entries that it has acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// Its log was empty when it started.
    Empty,
    /// Its log ends before an entry that it knew to be committed, or was removed to start anew.
    RolledBack,
    /// The machine went down under a log that acknowledges before it syncs.
    UncleanBoot,
    /// The end of a log that acknowledges before it syncs was torn: it may have been whole once.
    TornTail,
    /// A flush has failed.
    FailedFlush,
}

impl From<Doubt> for Provisional {
    fn from(doubt: Doubt) -> Self {
        match doubt {
            Doubt::Empty => Self::Empty,
            Doubt::RolledBack => Self::RolledBack,
            Doubt::UncleanBoot => Self::UncleanBoot,
            Doubt::TornTail => Self::TornTail,
            Doubt::FailedFlush => Self::FailedFlush,
        }
    }
}

impl Doubt {
    const ALL: [Self; 5] =
        [Self::Empty, Self::RolledBack, Self::UncleanBoot, Self::TornTail, Self::FailedFlush];

    fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::RolledBack => "rolled-back",
            Self::UncleanBoot => "unclean-boot",
            Self::TornTail => "torn-tail",
            Self::FailedFlush => "failed-flush",
        }
    }
}

/// The file `provisional`.
#[derive(Debug)]
pub(crate) struct DoubtFile(SmallFile);

impl DoubtFile {
    pub(crate) fn new(vfs: Arc<dyn Vfs>, directory: &Path) -> Self {
        Self(SmallFile::new(vfs, directory.join("provisional"), Backup::None))
    }

    /// A file that cannot be read is a doubt as well.
    pub(crate) fn load(&self) -> io::Result<Option<Doubt>> {
        let Some(bytes) = self.0.load()? else { return Ok(None) };
        let text = String::from_utf8_lossy(&bytes);
        Ok(match value(&text, "reason") {
            Some("") => None,
            Some(name) => Some(
                Doubt::ALL
                    .into_iter()
                    .find(|doubt| doubt.name() == name)
                    .unwrap_or(Doubt::RolledBack),
            ),
            None => Some(Doubt::RolledBack),
        })
    }

    /// Durable on return.
    pub(crate) fn store(&self, doubt: Option<Doubt>) -> io::Result<()> {
        let reason = doubt.map_or("", Doubt::name);
        self.0.store(format!("reason={reason}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use segment::SimVfs;
    use std::io::IoSlice;

    #[test]
    fn a_doubt_is_kept_until_it_is_settled() {
        let disk = SimVfs::new();
        let file = DoubtFile::new(Arc::new(disk), Path::new("d"));
        assert_eq!(file.load().unwrap(), None);
        for doubt in Doubt::ALL {
            file.store(Some(doubt)).unwrap();
            assert_eq!(file.load().unwrap(), Some(doubt));
        }
        file.store(None).unwrap();
        assert_eq!(file.load().unwrap(), None);
    }

    #[test]
    fn a_damaged_file_is_a_doubt() {
        for content in ["", "reason=strange\n", "\0\0"] {
            let disk = SimVfs::new();
            let file = disk.create(Path::new("d/provisional")).unwrap();
            file.write_at(&[IoSlice::new(content.as_bytes())], 0).unwrap();
            let file = DoubtFile::new(Arc::new(disk), Path::new("d"));
            assert_eq!(file.load().unwrap(), Some(Doubt::RolledBack), "{content:?}");
        }
    }
}
