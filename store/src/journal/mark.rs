//! `config/journal.mark`: which part of the journal Java's JSON files hold.
//!
//! It is written before the files, with what they are about to hold, and again behind them, so that
//! a crash at any place leaves files that the mark knows. A file that it does not know was written
//! by somebody else: a Java broker ran on the folder, or a person edited it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{SnapshotPlace, Versions};

/// The form of the file that this code writes and reads.
const VERSION: u32 = 1;

/// What the files hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    /// Form of this file.
    pub version: u32,
    /// Records before this log position are in the files; later ones may be.
    pub position: u64,
    /// The newest term that was opened before that.
    pub term: u64,
    /// The last record before that. A log in which it does not lie there any more has lost its end.
    #[serde(default)]
    pub last: Option<RecordMark>,
    /// Whether the tables are all that the journal ever said; else the next snapshot decides.
    pub whole: bool,
    /// The newest complete snapshot before that.
    pub snapshot: Option<SnapshotPlace>,
    /// Versions of the tables there.
    pub versions: Versions,
    /// Each file by its name.
    pub files: BTreeMap<String, FileMark>,
    /// What files are about to hold, while they are written.
    pub upcoming: BTreeMap<String, FileMark>,
}

/// What tells one record from every other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordMark {
    /// Its log position.
    pub position: u64,
    /// CRC-32 of its body.
    pub crc32: u32,
}

impl RecordMark {
    /// Of the record at a log position.
    #[must_use]
    pub fn of(position: u64, body: &[u8]) -> Self {
        Self { position, crc32: crc32fast::hash(body) }
    }
}

/// What one file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileMark {
    /// Bytes.
    pub length: u64,
    /// CRC-32 of them.
    pub crc32: u32,
}

/// Why a mark is not believed.
#[derive(Debug, thiserror::Error)]
pub enum MarkError {
    /// It is not what it should be.
    #[error("journal.mark is no mark: {0}")]
    Damaged(#[from] serde_json::Error),
    /// A newer node wrote it.
    #[error(
        "journal.mark has version {0}, and this node knows versions up to {VERSION}; install the version that wrote it"
    )]
    Newer(u32),
}

impl FileMark {
    /// Of a file's content.
    #[must_use]
    pub fn of(content: &[u8]) -> Self {
        Self { length: content.len() as u64, crc32: crc32fast::hash(content) }
    }
}

impl Mark {
    /// Whether a file is as the last projection, or one that was cut short, left it.
    #[must_use]
    pub fn knows(&self, name: &str, content: &[u8]) -> bool {
        let found = FileMark::of(content);
        self.files.get(name) == Some(&found) || self.upcoming.get(name) == Some(&found)
    }

    /// The file's content.
    ///
    /// # Errors
    /// It has no text form, which no mark lacks.
    pub fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec_pretty(&Self { version: VERSION, ..self.clone() })
    }

    /// Reads the file.
    ///
    /// # Errors
    /// See [`MarkError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, MarkError> {
        let mark: Self = serde_json::from_slice(bytes)?;
        if mark.version > VERSION { Err(MarkError::Newer(mark.version)) } else { Ok(mark) }
    }
}
