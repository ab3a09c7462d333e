//! Reading committed entries: hot ring first, then positioned reads.

use bytes::{Bytes, BytesMut};

use crate::{
    Bounds, ENTRY_HEADER, HookError, Visit,
    disk_log::{DiskLog, links::Link},
    entry::{self, Found, Header, Previous},
    planted::planted,
};

/// Bytes read at once where the length of an entry is not known.
const GUESS: usize = 4096;

/// Why a read failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Before the first entry or behind the last committed one.
    #[error("position {position} is outside the committed log [{min}, {committed})")]
    OutOfRange {
        /// What was asked for.
        position: u64,
        /// First readable position.
        min: u64,
        /// End of the committed log.
        committed: u64,
    },
    /// The log has no entry of that number.
    #[error("the log has no entry {index}")]
    NoEntry {
        /// What was asked for.
        index: u64,
    },
    /// The bytes there are not a sound entry.
    #[error("entry at {position} is damaged: {reason}")]
    Damaged {
        /// Log position.
        position: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The disk refused.
    #[error("log could not be read at {position}: {reason}")]
    Io {
        /// Log position.
        position: u64,
        /// Text of the system.
        reason: String,
    },
}

/// Consecutive committed entries.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// Position and body of each entry.
    pub entries: Vec<(u64, Bytes)>,
    /// Log position behind the last of them: where the next run begins.
    pub next: u64,
}

impl DiskLog {
    /// The body of `length` bytes of the committed entry at `position`; may wait for the disk.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn read(&self, position: u64, length: u32) -> Result<Bytes, ReadError> {
        let size = self.checked_size(position, length).inspect_err(|error| self.suspect(error))?;
        if let Some(bytes) = self.ring.get(position, size) {
            return body_of(&bytes, position, Some(length), Trust::Memory);
        }
        let mut bytes = BytesMut::zeroed(size);
        self.fill(position, &mut bytes)?;
        body_of(&bytes.freeze(), position, Some(length), self.trust())
            .inspect_err(|error| self.suspect(error))
    }

    /// As [`DiskLog::read`] where the bytes are in memory, else `None` at once.
    #[must_use]
    pub fn read_if_cached(&self, position: u64, length: u32) -> Option<Bytes> {
        let size = self.checked_size(position, length).ok()?;
        if let Some(bytes) = self.ring.get(position, size) {
            return body_of(&bytes, position, Some(length), Trust::Memory).ok();
        }
        self.refuse_rotten(position, position + 1).ok()?;
        let mut bytes = BytesMut::zeroed(size);
        let cached = self.data.read_at_if_cached(position, &mut bytes).ok()?;
        if !cached {
            return None;
        }
        body_of(&bytes.freeze(), position, Some(length), self.trust()).ok()
    }

    /// The body of the committed entry at `position`, its length taken from its header.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn read_unsized(&self, position: u64) -> Result<Bytes, ReadError> {
        self.check_range(position, ENTRY_HEADER as u64)?;
        if let Some(bytes) = self.ring.rest_at(position) {
            return body_of(&bytes, position, None, Trust::Memory);
        }
        let header = self.header_at(position).inspect_err(|error| self.suspect(error))?;
        self.read(position, header.body_length())
    }

    /// Committed entries from log position `from` on: at least one where there is one, and no more
    /// once `max_bytes` are reached. Padding at the end of a file is passed over.
    ///
    /// # Errors
    /// See [`ReadError`]; a bad entry behind a good one ends the run in front of it.
    pub fn read_forward(&self, from: u64, max_bytes: usize) -> Result<Run, ReadError> {
        let committed = self.bounds().committed;
        if from == committed {
            return Ok(Run { entries: Vec::new(), next: from });
        }
        self.check_range(from, 1)?;
        let mut run = Run { entries: Vec::new(), next: from };
        let mut taken = 0;
        while run.next < committed && (taken < max_bytes || run.entries.is_empty()) {
            let before = run.next;
            let extended = self.extend(&mut run, committed, max_bytes - taken.min(max_bytes));
            match extended.inspect_err(|error| self.suspect(error)) {
                Ok(added) => taken += added,
                Err(_) if !run.entries.is_empty() => break,
                Err(error) => return Err(error),
            }
            if run.next == before {
                break;
            }
        }
        Ok(run)
    }

    /// Adds entries from `run.next` on, out of one source, within one file; returns their bytes.
    fn extend(&self, run: &mut Run, end: u64, max_bytes: usize) -> Result<usize, ReadError> {
        if let Some(hot) = self.ring.from(run.next, max_bytes.max(1)) {
            let mut taken = 0;
            for part in hot {
                if part.position >= end {
                    break;
                }
                run.next = part.position;
                let added = self.take(run, &part.bytes, (end, max_bytes, taken), Trust::Memory)?;
                taken += added;
                // What is left of this part comes before the next one: going on would skip it.
                if added < part.bytes.len() {
                    break;
                }
            }
            return Ok(taken);
        }
        let end = end.min(self.sound_end(run.next));
        let file_end = self.data.base_of(run.next) + self.data.file_size();
        let room = file_end.min(end.max(run.next + 8)) - run.next;
        let wanted = (max_bytes.max(GUESS) as u64).min(room);
        let bytes = self.read_raw(run.next, wanted as usize)?;
        let found = entry::look(&bytes, run.next);
        if let Found::Entry(header) = &found
            && self.link_of(header) == Link::Broken
        {
            self.suspect(&damaged(run.next, "it does not follow the entry before"));
        }
        match found {
            Found::Padding if self.hides_entry(run.next) => {
                Err(damaged(run.next, "padding is where an entry belongs"))
            }
            Found::Padding => {
                run.next = file_end;
                Ok(0)
            }
            Found::Entry(header) if header.size as usize > bytes.len() => {
                if header.end() > file_end.min(end) {
                    return Err(damaged(run.next, "it is longer than what is committed"));
                }
                let bytes = self.read_raw(run.next, header.size as usize)?;
                self.take(run, &bytes, (end, max_bytes, 0), self.trust())
            }
            Found::Entry(_) => self.take(run, &bytes, (end, max_bytes, 0), self.trust()),
            Found::Nothing => Err(damaged(run.next, "nothing was written there")),
            Found::Bad(reason) => Err(damaged(run.next, reason)),
        }
    }

    /// Whether an entry belongs where padding was found, into which it has rotted: going on behind it
    /// would leave a gap. Each file begins with an entry.
    fn hides_entry(&self, position: u64) -> bool {
        position == self.data.base_of(position) || self.index_at(position).is_some()
    }

    /// The header of the entry at `position`, committed or not.
    pub(crate) fn header_at(&self, position: u64) -> Result<Header, ReadError> {
        let bytes = self.read_raw(position, ENTRY_HEADER)?;
        match entry::look(&bytes, position) {
            Found::Entry(header) => Ok(header),
            Found::Padding => Err(damaged(position, "the file's padding is there")),
            Found::Nothing => Err(damaged(position, "nothing was written there")),
            Found::Bad(reason) => Err(damaged(position, reason)),
        }
    }

    /// The header of the first entry; `None` where the log is empty.
    pub(crate) fn first_header(&self) -> std::io::Result<Option<Header>> {
        let Some(range) = self.data.range() else { return Ok(None) };
        let mut bytes = [0; ENTRY_HEADER];
        self.data.read_at(range.start, &mut bytes)?;
        match entry::look(&bytes, range.start) {
            Found::Entry(header) => Ok(Some(header)),
            Found::Padding | Found::Nothing | Found::Bad(_) => Ok(None),
        }
    }

    /// Calls `visit` for each entry in `[from, end)`, committed or not.
    pub(crate) fn visit(
        &self,
        (from, end): (u64, u64),
        visit: &mut Visit<'_>,
    ) -> Result<(), HookError> {
        let min = self.data.range().map_or(0, |range| range.start);
        let mut run = Run { entries: Vec::new(), next: from.max(min) };
        while run.next < end {
            self.extend(&mut run, end, 1024 * 1024).inspect_err(|error| self.suspect(error))?;
            for (position, body) in run.entries.drain(..) {
                visit(position, &body)?;
            }
        }
        Ok(())
    }

    /// Adds the whole entries at the front of `bytes`, up to position `end` and a bound; returns
    /// their bytes. `taken` counts towards the bound.
    fn take(
        &self,
        run: &mut Run,
        bytes: &Bytes,
        (end, max_bytes, taken): (u64, usize, usize),
        trust: Trust,
    ) -> Result<usize, ReadError> {
        let mut at = 0;
        let mut before = None;
        loop {
            let rest = bytes.slice(at..);
            let full = taken + at >= max_bytes && !run.entries.is_empty();
            if full || rest.len() < ENTRY_HEADER || run.next >= end {
                return Ok(at);
            }
            let Found::Entry(header) = entry::look(&rest, run.next) else {
                return if at > 0 {
                    Ok(at)
                } else {
                    Err(damaged(run.next, "no entry begins there"))
                };
            };
            if header.size as usize > rest.len() || header.end() > end {
                return Ok(at);
            }
            let body = body_of(&rest, run.next, None, trust)?;
            if trust == Trust::Disk && !follows(&header, before.as_ref()) {
                // Its body is sound, and all that is given away of it; one of both headers is not.
                self.suspect(&damaged(run.next, "it does not follow the entry before"));
            }
            run.entries.push((run.next, body));
            run.next = header.end();
            at += header.size as usize;
            before = Some(header);
        }
    }

    /// Reads from the disk. A file that was trimmed away meanwhile is out of range.
    pub(crate) fn fill(&self, position: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        // A window that goes on into rot is cut by the checks of its entries.
        self.refuse_rotten(position, position + 1)?;
        self.data.read_at(position, bytes).map_err(|error| {
            let Bounds { min, committed } = self.bounds();
            if position < min {
                return ReadError::OutOfRange { position, min, committed };
            }
            ReadError::Io { position, reason: error.to_string() }
        })
    }

    /// Bytes of the entry at `position` with a body of `length` bytes, if there can be such a one: no
    /// memory is taken for any other.
    fn checked_size(&self, position: u64, length: u32) -> Result<usize, ReadError> {
        let size = ENTRY_HEADER + length as usize;
        self.check_range(position, size as u64)?;
        let room = self.data.file_size() - position % self.data.file_size();
        if size as u64 > room {
            let reason = format!("a body of {length} bytes would reach over the end of its file");
            return Err(ReadError::Damaged { position, reason });
        }
        Ok(size)
    }

    /// How far bytes are believed that came from the disk.
    fn trust(&self) -> Trust {
        if planted!(self.planted, P15) { Trust::Memory } else { Trust::Disk }
    }

    fn check_range(&self, position: u64, length: u64) -> Result<(), ReadError> {
        let bounds = self.bounds();
        let fits = position >= bounds.min
            && position.checked_add(length).is_some_and(|end| end <= bounds.committed);
        if fits {
            return Ok(());
        }
        Err(ReadError::OutOfRange { position, min: bounds.min, committed: bounds.committed })
    }
}

/// Whether a checksum has to be looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// These are the bytes that were handed to the disk.
    Memory,
    /// These came back from it.
    Disk,
}

/// Whether the index and the checksum of an entry follow from those of the one before.
fn follows(header: &Header, before: Option<&Header>) -> bool {
    let Some(before) = before else { return true };
    let tied = (header.chain_crc == 0 && header.body_crc == 0)
        || header.chain_crc == header.chain_behind(Previous::of(before));
    tied && header.index == before.index + 1 && header.term >= before.term
}

/// The body of the entry that `bytes` begins with, checked.
fn body_of(
    bytes: &Bytes,
    position: u64,
    length: Option<u32>,
    trust: Trust,
) -> Result<Bytes, ReadError> {
    let header = match entry::look(bytes, position) {
        Found::Entry(header) => header,
        Found::Padding => return Err(damaged(position, "the file's padding is there")),
        Found::Nothing => return Err(damaged(position, "nothing was written there")),
        Found::Bad(reason) => return Err(damaged(position, reason)),
    };
    if let Some(length) = length
        && header.body_length() != length
    {
        let reason = format!("its body has {} bytes, not {length}", header.body_length());
        return Err(ReadError::Damaged { position, reason });
    }
    if header.size as usize > bytes.len() {
        return Err(damaged(position, "it is longer than what is committed"));
    }
    let body = bytes.slice(ENTRY_HEADER..header.size as usize);
    if trust == Trust::Disk && header.body_crc != 0 && header.body_crc != entry::body_crc(&body) {
        return Err(damaged(position, "its body does not match its checksum"));
    }
    Ok(body)
}

fn damaged(position: u64, reason: &str) -> ReadError {
    ReadError::Damaged { position, reason: reason.to_owned() }
}
