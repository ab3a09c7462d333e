//! Reading a log from front to back, entry by entry, with every check there is.

use std::io;

use segment::SegmentFiles;

use crate::{
    ENTRY_HEADER,
    entry::{self, Found, Header, Previous},
};

/// Bytes read at once.
const WINDOW: usize = 1024 * 1024;

/// What was found at a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scanned {
    /// A sound entry that follows the one before.
    Entry(Header),
    /// Padding: the next entry is at the start of the next file.
    Padding,
    /// Nothing was written here, or the files end.
    Nothing,
    /// What is here is no entry, or not the next one.
    Bad(&'static str),
}

/// What an entry has to fit to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Before {
    /// The entry before; `None` where the scan begins.
    pub(crate) header: Option<Header>,
    /// What its chain is tied to; `None` where that is not known.
    pub(crate) previous: Option<Previous>,
    /// The term of the last entry without checksums. A Java node that is started on our log leads
    /// on in the term in which we voted for ourselves, so one term may begin with checksums and go
    /// on without; we never do so, and no term goes on with them again.
    unchecked_term: Option<u64>,
    /// A planted fault: bodies are not checked.
    trusts: bool,
}

impl Before {
    pub(crate) fn start(previous: Option<Previous>) -> Self {
        Self { previous, ..Self::default() }
    }

    pub(crate) fn trusts(self, trusts: bool) -> Self {
        Self { trusts, ..self }
    }

    /// Java's rules of recovery (`DLedgerMmapFileStore.recover`), then the checksums.
    pub(crate) fn check(&self, header: &Header, body: &[u8]) -> Result<(), &'static str> {
        if let Some(before) = &self.header {
            if header.index != before.index + 1 {
                return Err("its index is not the next one");
            }
            if header.term < before.term {
                return Err("its term is below that of the entry before");
            }
        }
        if header.chain_crc == 0 && header.body_crc == 0 {
            return Ok(());
        }
        if self.unchecked_term == Some(header.term) {
            return Err("the entry before it has lost its checksums");
        }
        if !self.trusts && header.body_crc != entry::body_crc(body) {
            return Err("its body does not match its checksum");
        }
        match self.previous {
            Some(previous) if header.chain_crc != header.chain_behind(previous) => {
                Err("its checksum does not follow from the entry before")
            }
            _ => Ok(()),
        }
    }

    /// Goes on behind `header`.
    pub(crate) fn advance(&mut self, header: Header) {
        if header.chain_crc == 0 && header.body_crc == 0 {
            self.unchecked_term = Some(header.term);
        }
        self.previous = Some(Previous::of(&header));
        self.header = Some(header);
    }
}

/// Reads through a window, so that small entries cost no call each.
#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    data: &'a SegmentFiles,
    window: Vec<u8>,
    start: u64,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(data: &'a SegmentFiles) -> Self {
        Self { data, window: Vec::new(), start: 0 }
    }

    /// What lies at `position`, which must come behind `before`.
    pub(crate) fn at(&mut self, position: u64, before: &Before) -> io::Result<Scanned> {
        let Some(range) = self.data.range().filter(|range| range.contains(&position)) else {
            return Ok(Scanned::Nothing);
        };
        let file_end = self.data.base_of(position) + self.data.file_size();
        debug_assert!(file_end <= range.end, "files are contiguous");
        let room = file_end - position;
        let head = self.bytes(position, room.min(ENTRY_HEADER as u64) as usize)?;
        let header = match entry::look(head, position) {
            Found::Entry(header) => header,
            Found::Padding => return Ok(Scanned::Padding),
            Found::Nothing => return Ok(Scanned::Nothing),
            Found::Bad(reason) => return Ok(Scanned::Bad(reason)),
        };
        if u64::from(header.size) > room {
            return Ok(Scanned::Bad("it is longer than its file"));
        }
        let whole = self.bytes(position, header.size as usize)?;
        Ok(match before.check(&header, &whole[ENTRY_HEADER..]) {
            Ok(()) => Scanned::Entry(header),
            Err(reason) => Scanned::Bad(reason),
        })
    }

    /// The position of the first whole entry at or behind `from` that carries our checksums.
    ///
    /// Entries that Java wrote are not looked for: after a truncation Java leaves whole ones behind
    /// the end of its log.
    pub(crate) fn find_checked(&mut self, from: u64) -> io::Result<Option<u64>> {
        let Some(range) = self.data.range() else { return Ok(None) };
        let mut at = from;
        while at < range.end {
            let file_end = self.data.base_of(at) + self.data.file_size();
            let Some(found) = self.data.next_data(at)?.filter(|found| *found < file_end) else {
                at = file_end;
                continue;
            };
            at = found;
            let count = (file_end - at).min(WINDOW as u64) as usize;
            if let Some(nth) = candidate(self.bytes(at, count)?, at) {
                if self.is_checked_entry(at + nth as u64, file_end)? {
                    return Ok(Some(at + nth as u64));
                }
                at += nth as u64 + 1;
            } else if at + count as u64 == file_end {
                at = file_end;
            } else {
                // A header may lie across the edge of the window.
                at += (count - ENTRY_HEADER) as u64;
            }
        }
        Ok(None)
    }

    fn is_checked_entry(&mut self, position: u64, file_end: u64) -> io::Result<bool> {
        let Found::Entry(header) = entry::look(self.bytes(position, ENTRY_HEADER)?, position)
        else {
            return Ok(false);
        };
        if header.body_crc == 0 || header.end() > file_end {
            return Ok(false);
        }
        let whole = self.bytes(position, header.size as usize)?;
        Ok(header.body_crc == entry::body_crc(&whole[ENTRY_HEADER..]))
    }

    /// The first byte that is not 0 at or behind `from`, in the file that holds it.
    pub(crate) fn first_nonzero(&mut self, from: u64) -> io::Result<Option<u64>> {
        let Some(range) = self.data.range().filter(|range| range.contains(&from)) else {
            return Ok(None);
        };
        let end = (self.data.base_of(from) + self.data.file_size()).min(range.end);
        let mut at = from;
        while let Some(found) = self.data.next_data(at)?.filter(|found| *found < end) {
            let count = (end - found).min(WINDOW as u64) as usize;
            if let Some(nth) = self.bytes(found, count)?.iter().position(|byte| *byte != 0) {
                return Ok(Some(found + nth as u64));
            }
            at = found + count as u64;
            if at == end {
                break;
            }
        }
        Ok(None)
    }

    /// The `length` bytes at `position`, which lie in one file.
    fn bytes(&mut self, position: u64, length: usize) -> io::Result<&[u8]> {
        let have = position
            .checked_sub(self.start)
            .filter(|from| from + length as u64 <= self.window.len() as u64);
        let from = match have {
            Some(from) => from as usize,
            None => {
                let file_end = self.data.base_of(position) + self.data.file_size();
                let count = (file_end - position).min(WINDOW.max(length) as u64);
                self.window.resize(count as usize, 0);
                self.start = position;
                self.data.read_at(position, &mut self.window)?;
                0
            }
        };
        self.window
            .get(from..from + length)
            .ok_or_else(|| io::Error::other("an entry reaches over the end of its file"))
    }
}

/// The first place in `bytes`, which begin at `position`, that could be the header of an entry.
fn candidate(bytes: &[u8], position: u64) -> Option<usize> {
    (0..bytes.len().saturating_sub(ENTRY_HEADER - 1)).find(|nth| {
        bytes.get(*nth..nth + 4) == Some(&[0, 0, 0, 1])
            && entry::be_u64(bytes, nth + 24) == Some(position + *nth as u64)
    })
}
