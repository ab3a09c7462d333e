//! The JSON files of config/: replaced whole, with the previous content as backup
//! (Java `ConfigManager`, `MixAll.string2File`).

mod java_text;

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use segment::{Backup, SmallFile, Vfs};

pub use java_text::{JavaText, java_text};

/// One configuration file and its `.bak`.
#[derive(Debug)]
pub struct ConfigFile {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    /// Whether the file holds what is worth a backup.
    sound: AtomicBool,
}

/// Why a configuration file could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadConfigError {
    /// The file is there, and neither it nor its backup can be read as what it should be.
    #[error(
        "{path} is damaged ({reason}) and so is its .bak ({backup}); restore one of them, or move \
         both away to start with an empty table"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// What is wrong with the backup.
        backup: String,
    },
    /// The disk refused.
    #[error("{path} cannot be read: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl ConfigFile {
    /// The file at `path`, whether it exists or not.
    pub fn new(vfs: Arc<dyn Vfs>, path: impl Into<PathBuf>) -> Self {
        Self { vfs, path: path.into(), sound: AtomicBool::new(false) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file with `parse`. One that is missing, empty or damaged is read from its backup,
    /// with a warning; `None` where there is neither.
    pub fn load<V, E: fmt::Display>(
        &self,
        parse: impl Fn(&[u8]) -> Result<V, E>,
    ) -> Result<Option<V>, LoadConfigError> {
        Ok(self.load_telling(parse)?.map(|(value, _)| value))
    }

    /// As [`ConfigFile::load`], with whether the backup was read.
    pub fn load_telling<V, E: fmt::Display>(
        &self,
        parse: impl Fn(&[u8]) -> Result<V, E>,
    ) -> Result<Option<(V, bool)>, LoadConfigError> {
        let file = self.file(Backup::None);
        let failed = |source| LoadConfigError::Io { path: self.path.clone(), source };
        let reason = match read(file.load().map_err(failed)?, &parse) {
            Read::Sound(value) => {
                self.sound.store(true, Ordering::Relaxed);
                return Ok(Some((value, false)));
            }
            Read::Missing => None,
            Read::Damaged(reason) => Some(reason),
        };
        match (read(file.load_backup().map_err(failed)?, &parse), reason) {
            (Read::Sound(value), reason) => {
                let reason = reason.unwrap_or_else(|| "missing".to_owned());
                tracing::warn!(path = %self.path.display(), reason, "configuration is read from its .bak");
                Ok(Some((value, true)))
            }
            (_, None) => Ok(None),
            (Read::Missing, Some(reason)) => self.damaged(reason, "missing".to_owned()),
            (Read::Damaged(backup), Some(reason)) => self.damaged(reason, backup),
        }
    }

    /// Replaces the content, durably. The previous one is kept as `.bak` if it was sound: a damaged
    /// file must not push a good backup out.
    pub fn store(&self, content: &[u8]) -> io::Result<()> {
        let backup = if self.sound.load(Ordering::Relaxed) { Backup::Keep } else { Backup::None };
        if let Some(directory) = self.path.parent() {
            self.vfs.create_directory(directory)?;
        }
        self.file(backup).store(content)?;
        self.sound.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn file(&self, backup: Backup) -> SmallFile {
        SmallFile::new(Arc::clone(&self.vfs), self.path.clone(), backup)
    }

    fn damaged<V>(&self, reason: String, backup: String) -> Result<V, LoadConfigError> {
        Err(LoadConfigError::Damaged { path: self.path.clone(), reason, backup })
    }
}

enum Read<V> {
    Sound(V),
    Missing,
    Damaged(String),
}

fn read<V, E: fmt::Display>(
    content: Option<Vec<u8>>,
    parse: impl Fn(&[u8]) -> Result<V, E>,
) -> Read<V> {
    let Some(content) = content else { return Read::Missing };
    if content.iter().all(|byte| *byte == 0 || byte.is_ascii_whitespace()) {
        return Read::Damaged(format!("{} blank bytes", content.len()));
    }
    match parse(&content) {
        Ok(value) => Read::Sound(value),
        Err(error) => Read::Damaged(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use segment::SimVfs;

    use super::*;

    fn number(bytes: &[u8]) -> Result<u32, String> {
        let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
        text.parse().map_err(|error| format!("{text:?}: {error}"))
    }

    fn file(disk: &SimVfs) -> ConfigFile {
        ConfigFile::new(Arc::new(disk.clone()), "config/topics.json")
    }

    fn overwrite(disk: &SimVfs, path: &str, content: &[u8]) {
        SmallFile::new(Arc::new(disk.clone()), path.into(), Backup::None).store(content).unwrap();
    }

    #[test]
    fn the_previous_content_is_the_backup() {
        let disk = SimVfs::new();
        assert_eq!(file(&disk).load(number).unwrap(), None);
        let config = file(&disk);
        config.store(b"1").unwrap();
        config.store(b"2").unwrap();
        assert_eq!(file(&disk).load(number).unwrap(), Some(2));
        disk.remove(Path::new("config/topics.json")).unwrap();
        assert_eq!(file(&disk).load(number).unwrap(), Some(1));
    }

    /// Case 32 of the known faults: empty, cut, blank and NUL-filled files.
    #[test]
    fn a_damaged_file_is_read_from_its_backup_and_does_not_replace_it() {
        for damage in [&b""[..], b"\0\0\0", b" \n", b"{"] {
            let disk = SimVfs::new();
            let config = file(&disk);
            config.store(b"1").unwrap();
            config.store(b"2").unwrap();
            overwrite(&disk, "config/topics.json", damage);
            let config = file(&disk);
            assert_eq!(config.load(number).unwrap(), Some(1), "{damage:?}");
            config.store(b"3").unwrap();
            overwrite(&disk, "config/topics.json", damage);
            assert_eq!(file(&disk).load(number).unwrap(), Some(1), "{damage:?}");
            overwrite(&disk, "config/topics.json.bak", damage);
            let error = file(&disk).load(number).unwrap_err();
            assert!(error.to_string().contains("topics.json"), "{error}");
        }
    }
}
