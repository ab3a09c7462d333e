//! Writing a native commit log from its beginning.

use std::{
    io::{self, IoSlice},
    path::PathBuf,
    sync::Arc,
};

use protocol::message::record::MAGIC_BLANK;
use segment::{OpenFilesError, SegmentFiles, Vfs};

use super::{PADDING_MIN, restamp};

/// Bytes written at once.
const CHUNK: usize = 1 << 20;

/// Writes records one behind another into a folder of its own.
#[derive(Debug)]
pub struct NativeWriter {
    files: SegmentFiles,
    next: u64,
    /// What is not written yet; it ends at `next`.
    pending: Vec<u8>,
}

/// Why a native commit log could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteNativeError {
    /// The folder could not be made.
    #[error(transparent)]
    Files(#[from] OpenFilesError),
    /// A record has no place in a file.
    #[error("a message of {length} bytes has no place in a commit log file of {file_size} bytes")]
    TooLong {
        /// Bytes of the record.
        length: usize,
        /// Bytes of a file.
        file_size: u64,
    },
    /// The disk refused.
    #[error("commit log could not be written: {0}")]
    Io(#[from] io::Error),
}

impl NativeWriter {
    /// Makes the first file, which begins at the end of a file that is not there: so what a queue
    /// had before all messages of the log can be told from what it has now.
    ///
    /// # Errors
    /// See [`WriteNativeError`].
    pub fn create(
        vfs: Arc<dyn Vfs>,
        folder: PathBuf,
        file_size: u64,
    ) -> Result<Self, WriteNativeError> {
        let files = SegmentFiles::open(vfs, folder, file_size)?;
        files.append_file(file_size)?;
        Ok(Self { files, next: file_size, pending: Vec::new() })
    }

    /// Appends a record, which gets its physical offset and, where one is given, a queue offset.
    /// Returns the physical offset.
    ///
    /// # Errors
    /// See [`WriteNativeError`].
    pub fn append(
        &mut self,
        record: &mut [u8],
        queue_offset: Option<u64>,
    ) -> Result<u64, WriteNativeError> {
        let length = record.len() as u64;
        let file_size = self.files.file_size();
        if length.saturating_add(PADDING_MIN) > file_size {
            return Err(WriteNativeError::TooLong { length: record.len(), file_size });
        }
        let room = self.files.base_of(self.next) + file_size - self.next;
        if length + PADDING_MIN > room {
            self.roll(room)?;
        }
        let physical = self.next;
        restamp(record, queue_offset, physical);
        self.put(record)?;
        Ok(physical)
    }

    /// Writes what is left; gives the position behind the last record.
    ///
    /// # Errors
    /// See [`WriteNativeError`].
    pub fn finish(mut self) -> Result<u64, WriteNativeError> {
        self.write()?;
        if let Some(range) = self.files.range() {
            self.files.flush(range)?;
        }
        Ok(self.next)
    }

    /// Pads the rest of the file, of `room` bytes, and begins the next one.
    fn roll(&mut self, room: u64) -> Result<(), WriteNativeError> {
        self.put(&padding(room))?;
        self.write()?;
        self.next += room - PADDING_MIN;
        self.files.append_file(self.next)?;
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), WriteNativeError> {
        self.pending.extend_from_slice(bytes);
        self.next += bytes.len() as u64;
        if self.pending.len() >= CHUNK { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), WriteNativeError> {
        let from = self.next - self.pending.len() as u64;
        if !self.pending.is_empty() {
            let mut parts = [IoSlice::new(&self.pending)];
            self.files.write_at(from, &mut parts).map_err(|error| error.source)?;
            self.pending.clear();
        }
        Ok(())
    }
}

/// What a file's last `room` bytes begin with; the others stay zeros.
pub(super) fn padding(room: u64) -> [u8; PADDING_MIN as usize] {
    let mut padding = [0; PADDING_MIN as usize];
    let length = u32::try_from(room).unwrap_or(u32::MAX);
    padding[..4].copy_from_slice(&length.to_be_bytes());
    padding[4..].copy_from_slice(&MAGIC_BLANK.to_be_bytes());
    padding
}
