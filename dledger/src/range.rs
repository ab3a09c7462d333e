//! Entries on their way between members: whole ones, one behind another, as they lie in the log but
//! without the padding of files.

use bytes::Bytes;
use dledger_core::{EntryId, LogIndex, Term};

use crate::{
    ENTRY_HEADER,
    entry::{self, Found, Header, PADDING_MIN},
    index_log::Unit,
    scan::Before,
};

/// Why bytes that a member sent are not taken for entries.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{nth} sound entries, then byte {offset} of {length}: {reason}")]
pub struct RangeFault {
    /// How many sound entries came before.
    pub nth: usize,
    /// Where the bad one begins.
    pub offset: usize,
    /// Bytes in all.
    pub length: usize,
    /// What is wrong with it.
    pub reason: String,
}

/// Entries that a member sent: each is sound in itself and follows the one before. Whether the first
/// one follows this node's own log is for `Writer::append_range` to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckedRange {
    headers: Vec<Header>,
    bytes: Bytes,
}

impl CheckedRange {
    /// As [`CheckedRange::check_behind`], with nothing known of what came before.
    #[cfg(test)]
    pub(crate) fn check(bytes: Bytes, file_size: u64) -> Result<Self, RangeFault> {
        Self::check_behind(Before::start(None), bytes, file_size)
    }

    /// Checks what a member sent, for data files of `file_size` bytes.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(crate) fn check_behind(
        mut before: Before,
        bytes: Bytes,
        file_size: u64,
    ) -> Result<Self, RangeFault> {
        let mut headers = Vec::new();
        let mut at = 0;
        loop {
            match check_entry(bytes.get(at..).unwrap_or(&[]), &before, file_size) {
                Ok(header) => {
                    at += header.size as usize;
                    before.advance(header);
                    headers.push(header);
                }
                Err(reason) => {
                    let (nth, length) = (headers.len(), bytes.len());
                    return Err(RangeFault { nth, offset: at, length, reason: reason.to_owned() });
                }
            }
            if at == bytes.len() {
                return Ok(Self { headers, bytes });
            }
        }
    }

    pub(crate) fn headers(&self) -> &[Header] {
        &self.headers
    }

    /// The first entry.
    pub(crate) fn first(&self) -> Option<&Header> {
        self.headers.first()
    }

    /// Index of the first entry.
    pub(crate) fn first_index(&self) -> LogIndex {
        LogIndex(self.first().map_or(0, |first| first.index))
    }

    /// The last entry.
    pub(crate) fn last(&self) -> Option<&Header> {
        self.headers.last()
    }

    /// Header and body, alternating.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Where each term begins in it.
    pub(crate) fn runs(&self) -> Vec<(Term, LogIndex)> {
        let mut runs = Runs::default();
        for header in &self.headers {
            runs.note(header);
        }
        runs.0
    }

    /// The `count` entries from `first` on; `None` where some of them are not here.
    pub(crate) fn part(&self, first: u64, count: u64) -> Option<Self> {
        let nth = usize::try_from(first.checked_sub(self.first()?.index)?).ok()?;
        let end = nth.checked_add(usize::try_from(count).ok()?)?;
        let headers = self.headers.get(nth..end)?.to_vec();
        let length = |headers: &[Header]| -> usize {
            headers.iter().map(|header| header.size as usize).sum()
        };
        let start = length(self.headers.get(..nth)?);
        let bytes = self.bytes.slice(start..start + length(&headers));
        Some(Self { headers, bytes })
    }
}

/// One entry at the front of `bytes`, which must come behind `before`.
fn check_entry(bytes: &[u8], before: &Before, file_size: u64) -> Result<Header, &'static str> {
    let Some(position) = entry::be_u64(bytes, 24) else { return Err("its header is cut") };
    let header = match entry::look(bytes, position) {
        Found::Entry(header) => header,
        Found::Padding | Found::Nothing => return Err("no entry begins there"),
        Found::Bad(reason) => return Err(reason),
    };
    let Some(body) = bytes.get(ENTRY_HEADER..header.size as usize) else {
        return Err("its body is cut");
    };
    if position.checked_add(file_size).is_none() {
        return Err("its position is beyond every log");
    }
    if let Some(last) = &before.header
        && position != place_behind(last.end(), header.size, file_size)
    {
        return Err("its position is not behind the entry before");
    }
    if u64::from(header.size) + PADDING_MIN > file_size - position % file_size {
        return Err("it leaves no room for padding in its file: file sizes differ");
    }
    before.check(&header, body)?;
    Ok(header)
}

/// Where an entry of `size` bytes goes behind `end` (Java: `MmapFileList.preAppend`): to the next
/// file where it would leave fewer than 8 bytes in this one.
pub(crate) fn place_behind(end: u64, size: u32, file_size: u64) -> u64 {
    let room = file_size - end % file_size;
    if u64::from(size) + PADDING_MIN > room { end + room } else { end }
}

/// First index of each term, ascending.
#[derive(Debug, Default)]
pub(crate) struct Runs(pub(crate) Vec<(Term, LogIndex)>);

impl Runs {
    pub(crate) fn note(&mut self, header: &Header) {
        let term = Term(header.term);
        if self.0.last().is_none_or(|(last, _)| *last != term) {
            self.0.push((term, LogIndex(header.index)));
        }
    }
}

/// One committed entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its number.
    pub index: u64,
    /// The term that wrote it.
    pub term: u64,
    /// Where it lies in the log.
    pub position: u64,
    /// Its body.
    pub body: Bytes,
}

/// Entries that were read for a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntriesRead {
    /// Index of the first.
    pub first: LogIndex,
    /// How many; never 0.
    pub count: u64,
    /// The last of them.
    pub last: EntryId,
    /// The entry in front of the first; `None` where the log begins with it.
    pub before: Option<EntryId>,
    /// First index of each term in it, ascending.
    pub runs: Vec<(Term, LogIndex)>,
    /// Header and body, alternating, in one or more pieces. No entry is split.
    pub bytes: Vec<Bytes>,
    /// Bytes in all.
    pub length: u64,
}

/// Which entry a unit or a header belongs to.
pub(crate) fn id_of(term: u64, index: u64) -> EntryId {
    EntryId { term: Term(term), index: LogIndex(index) }
}

impl From<&Unit> for EntryId {
    fn from(unit: &Unit) -> Self {
        id_of(unit.term, unit.index)
    }
}

impl From<&Header> for EntryId {
    fn from(header: &Header) -> Self {
        id_of(header.term, header.index)
    }
}

#[cfg(test)]
mod tests;
