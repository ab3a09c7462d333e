//! Java's commit log without DLedger: `commitlog/` with message records back to back.
//!
//! A record is never split over two files: where it does not fit, the rest of the file is padding
//! (its length and [`record::MAGIC_BLANK`], Java `CommitLog.DefaultAppendMessageCallback`). A
//! record's physical offset is its position, and stands in it.

mod restamp;
mod writer;

use std::{
    io::{self, IoSlice},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use protocol::message::record::{self, RecordView, at};
use segment::{OpenFilesError, SegmentFiles, Vfs};

pub use self::{
    restamp::restamp,
    writer::{NativeWriter, WriteNativeError},
};
use crate::{
    append_log::{AppendLog, Batch, Bounds, ReadError, RefusalCause, Refused, Run},
    record::physical_offset,
};

/// Bytes that stay free behind every record of a file, for the head of the padding
/// (Java `CommitLog.END_FILE_MIN_BLANK_LENGTH`).
const PADDING_MIN: u64 = 8;
/// Bytes of the shortest record.
const RECORD_MIN: u32 = 91;
/// Bytes read at once, where a reader does not ask for more.
const WINDOW_MIN: u64 = 4096;

/// A native commit log, to which nothing is appended.
#[derive(Debug)]
pub struct NativeLog {
    files: SegmentFiles,
    end: u64,
}

/// Why a native commit log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum NativeError {
    /// The folder is missing or holds no log.
    #[error("{} holds no commit log (files named by 20 digits)", folder.display())]
    Missing {
        /// The folder.
        folder: PathBuf,
    },
    /// Its files are not those of one log.
    #[error(transparent)]
    Files(#[from] OpenFilesError),
    /// There is something behind the end that is no message.
    #[error(
        "{} has bytes at position {position} that are no message and no padding: start the Java \
         broker on it and stop it in order, which cuts off what a crash has torn", folder.display()
    )]
    Torn {
        /// The folder.
        folder: PathBuf,
        /// Where the messages end.
        position: u64,
    },
    /// The disk refused.
    #[error("{} cannot be read: {source}", folder.display())]
    Io {
        /// The folder.
        folder: PathBuf,
        /// Text of the system.
        source: io::Error,
    },
}

/// What lies at a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Here {
    /// The head of a record of so many bytes.
    Record(u32),
    /// The rest of the file is padding.
    Padding,
    /// Nothing was written.
    Nothing,
    /// None of these.
    Bad,
}

impl NativeLog {
    /// Opens the files in `folder`, whose length is taken from them, and finds the end of the log.
    /// Nothing is changed.
    ///
    /// # Errors
    /// See [`NativeError`].
    pub fn open(vfs: &Arc<dyn Vfs>, folder: &Path) -> Result<Self, NativeError> {
        Self::open_as(vfs, folder, false)
    }

    /// As [`NativeLog::open`], but a message that a crash has torn is the end of the log, as in Java
    /// (`CommitLog.recoverAbnormally`). [`NativeLog::seal`] then cuts it off.
    ///
    /// # Errors
    /// See [`NativeError`].
    pub fn open_torn(vfs: &Arc<dyn Vfs>, folder: &Path) -> Result<Self, NativeError> {
        Self::open_as(vfs, folder, true)
    }

    fn open_as(vfs: &Arc<dyn Vfs>, folder: &Path, torn: bool) -> Result<Self, NativeError> {
        let failed = |source| NativeError::Io { folder: folder.to_owned(), source };
        let missing = || NativeError::Missing { folder: folder.to_owned() };
        let size = file_size(&**vfs, folder).map_err(failed)?.ok_or_else(missing)?;
        let (files, flaws) = SegmentFiles::open_sound(Arc::clone(vfs), folder.to_owned(), size)?;
        for flaw in flaws {
            // Java removes an empty last file: it was about to be made.
            if !matches!(&flaw, OpenFilesError::Length { actual: 0, .. }) {
                return Err(flaw.into());
            }
        }
        let range = files.range().ok_or_else(missing)?;
        let mut log = Self { files, end: range.end };
        let (end, sound) = log.find_end(range.start).map_err(failed)?;
        if !sound && !torn {
            return Err(NativeError::Torn { folder: folder.to_owned(), position: end });
        }
        log.end = end;
        Ok(log)
    }

    /// Ends the log for good: what is behind its last message is erased, and the rest of that file
    /// becomes padding, so that another log can go on behind it (Java `DLedgerCommitLog`, where it
    /// finds `dividedCommitlogOffset`). Durable on return; gives the end, which is that of a file.
    ///
    /// # Errors
    /// What the disk answers; it can then be done again.
    pub fn seal(&mut self) -> io::Result<u64> {
        let base = self.files.base_of(self.end);
        self.files.truncate(self.end)?;
        if base != self.end {
            let rest = base + self.file_size() - self.end;
            let padding = writer::padding(rest);
            let mut parts = [IoSlice::new(&padding)];
            self.files.write_at(self.end, &mut parts).map_err(|error| error.source)?;
            self.end = base + self.file_size();
            self.files.flush(base..self.end)?;
        }
        Ok(self.end)
    }

    /// Deletes whole files before log position `before`, the last one too where all of the log lies
    /// before it. Returns the first position that is left.
    ///
    /// # Errors
    /// What the disk answers; what it deleted before that is gone.
    pub fn trim(&self, before: u64) -> io::Result<u64> {
        if before >= self.end {
            self.files.clear()?;
        } else {
            self.files.trim(before)?;
        }
        Ok(self.range().0)
    }

    /// Bytes of each file.
    #[must_use]
    pub fn file_size(&self) -> u64 {
        self.files.file_size()
    }

    /// First position, and position behind the last record or its padding.
    #[must_use]
    pub fn range(&self) -> (u64, u64) {
        (self.files.range().map_or(self.end, |range| range.start), self.end)
    }

    /// Whether no file is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.range().is_none()
    }

    /// The last file that begins with a record is read to its end; Java makes the next one ahead.
    /// Gives the position, and whether nothing was written there.
    fn find_end(&self, begin: u64) -> io::Result<(u64, bool)> {
        let mut base = self.end - self.file_size();
        while base > begin && self.look(base)? == Here::Nothing {
            base -= self.file_size();
        }
        let mut at = base;
        loop {
            match self.look(at)? {
                Here::Record(size) => {
                    let record = self.bytes(at, u64::from(size))?;
                    if !is_record(&record, at) {
                        return Ok((at, false));
                    }
                    at += u64::from(size);
                }
                Here::Padding => return Ok((base + self.file_size(), true)),
                Here::Nothing => return Ok((at, true)),
                Here::Bad => return Ok((at, false)),
            }
        }
    }

    fn look(&self, position: u64) -> io::Result<Here> {
        let file_end = self.files.base_of(position) + self.file_size();
        let room = file_end - position;
        if room < PADDING_MIN {
            return Ok(Here::Bad);
        }
        let mut head = [0; 8];
        self.files.read_at(position, &mut head)?;
        Ok(head_of(&head, room))
    }

    fn bytes(&self, position: u64, length: u64) -> io::Result<Bytes> {
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.files.read_at(position, &mut bytes)?;
        Ok(bytes.into())
    }

    fn record(&self, position: u64) -> Result<Bytes, ReadError> {
        let failed = |error: io::Error| ReadError::Io { position, reason: error.to_string() };
        match self.look(position).map_err(failed)? {
            Here::Record(size) => {
                let bytes = self.bytes(position, u64::from(size)).map_err(failed)?;
                checked(bytes, position)
            }
            Here::Padding | Here::Nothing | Here::Bad => Err(no_record(position)),
        }
    }

    /// Adds the records at `run.next`, which lie in one file; passes over its padding.
    fn read_some(&self, run: &mut Run, max_bytes: u64) -> Result<(), ReadError> {
        let position = run.next;
        let failed = |error: io::Error| ReadError::Io { position, reason: error.to_string() };
        let file_end = (self.files.base_of(position) + self.file_size()).min(self.end);
        let length = (file_end - position).min(max_bytes.max(WINDOW_MIN));
        let window = self.bytes(position, length).map_err(failed)?;
        let whole_file_end = self.files.base_of(position) + self.file_size();
        while run.next < file_end {
            let from = usize::try_from(run.next - position).unwrap_or(usize::MAX);
            let Some(head) = window.get(from..from.saturating_add(8)) else { break };
            match head_of(head.try_into().unwrap_or(&[0; 8]), whole_file_end - run.next) {
                Here::Record(size) => {
                    let to = from + size as usize;
                    if to > window.len() && run.next > position {
                        return Ok(());
                    }
                    let record = if to > window.len() {
                        self.record(run.next)?
                    } else {
                        checked(window.slice(from..to), run.next)?
                    };
                    run.records.push((run.next, record));
                    run.next += u64::from(size);
                }
                Here::Padding => run.next = whole_file_end,
                Here::Nothing | Here::Bad => return Err(no_record(run.next)),
            }
        }
        Ok(())
    }

    fn check_range(&self, physical: u64) -> Result<(), ReadError> {
        let (min, committed) = self.range();
        if physical < min || physical >= committed {
            return Err(ReadError::OutOfRange { offset: physical, min, committed });
        }
        Ok(())
    }
}

impl<T: Send> AppendLog<T> for NativeLog {
    fn submit(&self, batch: Batch<T>) -> Result<(), Refused<T>> {
        let cause = RefusalCause::Stopped("a native commit log is only read".to_owned());
        Err(Refused { batch, cause })
    }

    fn bounds(&self) -> Bounds {
        let (min, committed) = self.range();
        Bounds { min, committed }
    }

    fn read(&self, physical: u64, size: u32) -> Result<Bytes, ReadError> {
        let record = AppendLog::<T>::read_unsized(self, physical)?;
        if record.len() != size as usize {
            return Err(no_record(physical));
        }
        Ok(record)
    }

    fn read_if_cached(&self, _physical: u64, _size: u32) -> Option<Bytes> {
        None
    }

    fn read_unsized(&self, physical: u64) -> Result<Bytes, ReadError> {
        self.check_range(physical)?;
        self.record(physical)
    }

    fn read_forward(&self, from: u64, max_bytes: usize) -> Result<Run, ReadError> {
        let mut run = Run { records: Vec::new(), next: from };
        if from == self.end {
            return Ok(run);
        }
        self.check_range(from)?;
        while run.records.is_empty() && run.next < self.end {
            self.read_some(&mut run, max_bytes as u64)?;
        }
        Ok(run)
    }

    fn wait_committed(&self, beyond: u64, timeout: Duration) -> u64 {
        if beyond >= self.end {
            std::thread::sleep(timeout);
        }
        self.end
    }
}

/// Bytes of a file, as most files in the folder have them.
fn file_size(vfs: &dyn Vfs, folder: &Path) -> io::Result<Option<u64>> {
    let names = match vfs.list(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        names => names?,
    };
    let mut sizes = Vec::new();
    for name in names {
        if name.len() == 20 && name.bytes().all(|byte| byte.is_ascii_digit()) {
            sizes.push(vfs.open(&folder.join(name))?.length()?);
        }
    }
    sizes.sort_unstable();
    let most = sizes.chunk_by(|a, b| a == b).max_by_key(|same| same.len());
    Ok(most.and_then(|same| same.first().copied()).filter(|size| *size > PADDING_MIN))
}

/// What the first eight bytes at a position say; `room` bytes are left in the file.
fn head_of(head: &[u8; 8], room: u64) -> Here {
    let [a, b, c, d, magic @ ..] = *head;
    let size = u32::from_be_bytes([a, b, c, d]);
    match i32::from_be_bytes(magic) {
        record::MAGIC_V1 | record::MAGIC_V2 if size >= RECORD_MIN && u64::from(size) <= room => {
            Here::Record(size)
        }
        record::MAGIC_BLANK => Here::Padding,
        0 if size == 0 => Here::Nothing,
        _ => Here::Bad,
    }
}

fn is_record(bytes: &[u8], position: u64) -> bool {
    physical_offset(bytes) == Some(position)
        && RecordView::parse(bytes).is_ok_and(|view| view.total_size() == bytes.len())
}

fn checked(bytes: Bytes, position: u64) -> Result<Bytes, ReadError> {
    if physical_offset(&bytes) == Some(position) && bytes.len() > at::PHYSICAL_OFFSET {
        Ok(bytes)
    } else {
        Err(no_record(position))
    }
}

fn no_record(position: u64) -> ReadError {
    ReadError::Damaged { position, reason: "no message of a native commit log is here".to_owned() }
}

#[cfg(test)]
mod tests;
