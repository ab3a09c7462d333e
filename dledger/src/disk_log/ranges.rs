//! Reading the log for other members: ranges of entries, where terms begin, equality of an entry.

use std::io;

use bytes::{Bytes, BytesMut};
use dledger_core::{EntryId, LogIndex, Term};

use super::{DiskLog, links::Link};
use crate::{
    ENTRY_HEADER, ReadError,
    entry::{self, Found, Header},
    index_log::Unit,
    planted::planted,
    range::{EntriesRead, Entry, Runs},
    scan::Before,
};

/// Most bytes that are read for a member at once, unless one entry has more.
const LONGEST_RANGE: u64 = 4 * 1024 * 1024;

/// What a walk over entries has taken so far.
#[derive(Debug, Default)]
struct Taken {
    first: u64,
    last: Option<Header>,
    runs: Runs,
    bytes: Vec<Bytes>,
    length: u64,
}

impl Taken {
    fn next_index(&self) -> u64 {
        self.last.map_or(self.first, |last| last.index + 1)
    }

    /// Takes whole entries from the front of `bytes`, which begin at `position`, up to entry `upto`
    /// and a bound; tells whether it wants more.
    fn take(&mut self, bytes: &Bytes, position: u64, (upto, max_bytes): (u64, u64)) -> bool {
        let mut at = 0_usize;
        let more = loop {
            if self.next_index() > upto || (self.last.is_some() && self.length >= max_bytes) {
                break false;
            }
            let rest = bytes.get(at..).unwrap_or(&[]);
            let Found::Entry(header) = entry::look(rest, position + at as u64) else { break true };
            let fits = header.size as usize <= rest.len() && header.index == self.next_index();
            if !fits || (self.last.is_some() && self.length + u64::from(header.size) > max_bytes) {
                break !fits;
            }
            at += header.size as usize;
            self.length += u64::from(header.size);
            self.runs.note(&header);
            self.last = Some(header);
        };
        if at > 0 {
            self.bytes.push(bytes.slice(..at));
        }
        more
    }

    fn finish(self, before: Option<EntryId>) -> Option<EntriesRead> {
        let last = self.last?;
        Some(EntriesRead {
            first: LogIndex(self.first),
            count: last.index + 1 - self.first,
            last: EntryId::from(&last),
            before,
            runs: self.runs.0,
            bytes: self.bytes,
            length: self.length,
        })
    }
}

impl DiskLog {
    /// Entries from index `from` to at most `upto`, committed or not, out of the hot ring: at least
    /// one, and no more than `max_bytes` but for that one. `None` where `from` is not in the ring.
    #[must_use]
    pub fn range_in_memory(&self, from: u64, upto: u64, max_bytes: u64) -> Option<EntriesRead> {
        let unit = self.index.get(from).ok().flatten()?;
        let limit = max_bytes.min(LONGEST_RANGE);
        let runs = self.ring.from(unit.position, usize::try_from(limit).ok()?.max(1))?;
        let mut taken = Taken { first: from, ..Taken::default() };
        for run in runs {
            if !taken.take(&run.bytes, run.position, (upto, limit)) {
                break;
            }
        }
        let before = self.entry_before(from).ok()?;
        taken.finish(before)
    }

    /// As [`DiskLog::range_in_memory`], from the disk, every entry checked, the first one against the
    /// one before it, too; it ends with the file that holds the first entry. May wait for the disk.
    ///
    /// # Errors
    /// See [`ReadError`]; a bad entry behind a good one ends the range in front of it.
    pub fn range_on_disk(
        &self,
        from: u64,
        upto: u64,
        max_bytes: u64,
    ) -> Result<EntriesRead, ReadError> {
        let unit = self.unit(from)?;
        let file_end = self.data.base_of(unit.position) + self.data.file_size();
        let last = self.unit(upto.max(from))?;
        let room = last.end().clamp(unit.end(), file_end.max(unit.end())) - unit.position;
        let limit = max_bytes.min(LONGEST_RANGE);
        let wanted = limit.max(u64::from(unit.size)).min(room);
        let wanted = wanted.min(self.sound_end(unit.position) - unit.position);
        let bytes = self.read_raw(unit.position, wanted as usize)?;
        let before = Before::start(None).trusts(planted!(self.planted, P15));
        let sound = sound_length(&bytes, &unit, before)?;
        if let Found::Entry(header) = entry::look(&bytes, unit.position)
            && self.link_of(&header) == Link::Broken
        {
            return Err(lost(&unit, "its checksum does not follow from the entry before"));
        }
        let mut taken = Taken { first: from, ..Taken::default() };
        taken.take(&bytes.slice(..sound), unit.position, (upto, limit));
        let before = self.entry_before(from).map_err(|error| lost(&unit, &error.to_string()))?;
        taken.finish(before).ok_or_else(|| lost(&unit, "no entry begins there"))
    }

    /// The committed entry `index`.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn get(&self, index: u64) -> Result<Entry, ReadError> {
        if index >= self.committed_entries() {
            return Err(ReadError::NoEntry { index });
        }
        let unit = self.unit(index)?;
        let Unit { term, position, size, .. } = unit;
        let min = self.bounds().min;
        if position < min {
            let committed = self.bounds().committed;
            return Err(ReadError::OutOfRange { position, min, committed });
        }
        let whole = self.entry(index).inspect_err(|error| self.suspect(error))?;
        if whole.len() != size as usize || size as usize <= ENTRY_HEADER {
            return Err(lost(&unit, "it is not as long as the index says"));
        }
        Ok(Entry { index, term, position, body: whole.slice(ENTRY_HEADER..) })
    }

    /// Committed entries from index `from` on: at least one where there is one, and no more once
    /// their bodies reach `max_bytes`.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn entries(&self, from: u64, max_bytes: usize) -> Result<Vec<Entry>, ReadError> {
        let mut all = Vec::new();
        let mut bytes = 0;
        while all.is_empty() || bytes < max_bytes {
            match self.get(from + all.len() as u64) {
                Ok(entry) => {
                    bytes += entry.body.len();
                    all.push(entry);
                }
                Err(ReadError::NoEntry { .. })
                    if from + all.len() as u64 >= self.committed_entries() =>
                {
                    break;
                }
                Err(_) if !all.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// The term and index of the entry in front of entry `index`; `None` where the log begins with
    /// that.
    pub(crate) fn entry_before(&self, index: u64) -> io::Result<Option<EntryId>> {
        let Some(before) = index.checked_sub(1) else { return Ok(None) };
        Ok(self.index.get(before)?.as_ref().map(EntryId::from))
    }

    /// Index of the first entry; `None` where the log is empty.
    pub(crate) fn first_index(&self) -> io::Result<Option<u64>> {
        let Some(begin) = self.data.range().map(|range| range.start) else { return Ok(None) };
        let rotten = self.rotten().into_iter().find(|rotten| rotten.position == begin);
        if let Some(rotten) = rotten {
            return Ok(Some(rotten.first));
        }
        // Also where its header cannot be read.
        if begin == 0 && self.last_id().is_some() {
            return Ok(Some(0));
        }
        let Some(first) = self.first_header()? else { return Ok(None) };
        let named = |index: u64| {
            let unit = self.index.get(index)?;
            io::Result::Ok(unit.is_some_and(|unit| unit.position == begin))
        };
        if !named(first.index)?
            && let Some(second) = self.header_behind(&first)
            && let Some(index) = second.index.checked_sub(1)
            && named(index)?
        {
            // Nothing in front of it vouches for its header, which may have rotted.
            return Ok(Some(index));
        }
        Ok(Some(first.index))
    }

    /// The header of the entry behind `header`, in its file or at the start of the next one.
    fn header_behind(&self, header: &Header) -> Option<Header> {
        let next_file = self.data.base_of(header.position) + self.data.file_size();
        let found = |position: u64| self.header_at(position).ok();
        found(header.end()).or_else(|| found(next_file))
    }

    /// The first index of each term, ascending, found by bisection of the index.
    ///
    /// # Errors
    /// What the disk answers, or that the index lacks an entry.
    pub fn terms(&self) -> io::Result<Vec<(Term, LogIndex)>> {
        let (Some(first), Some(last)) = (self.first_index()?, self.last_id()) else {
            return Ok(Vec::new());
        };
        let mut runs = vec![(self.term_of(first)?, LogIndex(first))];
        while let Some((term, begin)) = runs.last().copied()
            && term < last.term
        {
            let (mut low, mut high) = (begin.0, last.index.0);
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if self.term_of(middle)? > term { high = middle } else { low = middle }
            }
            runs.push((self.term_of(high)?, LogIndex(high)));
        }
        Ok(runs)
    }

    /// Index of the entry that begins at log position `position`, found by bisection of the index.
    pub(crate) fn index_at(&self, position: u64) -> Option<u64> {
        let (mut low, mut high) = (self.first_index().ok()??, self.last_id()?.index.0);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.unit(middle).ok()?.position < position {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        (self.unit(low).ok()?.position == position).then_some(low)
    }

    /// The term of entry `index`.
    pub(crate) fn term_of(&self, index: u64) -> io::Result<Term> {
        self.index
            .get(index)?
            .map(|unit| Term(unit.term))
            .ok_or_else(|| io::Error::other(format!("the index has no entry {index}")))
    }

    /// Whether this log holds `bytes` as an entry: all fields and the body, but for the checksums,
    /// which Java neither fills nor compares (Java: `DLedgerEntry.equals`).
    ///
    /// # Errors
    /// That `bytes` are no entry, or what the disk answers.
    pub fn holds(&self, bytes: &[u8]) -> Result<bool, ReadError> {
        let position = entry::be_u64(bytes, 24).unwrap_or(0);
        let Found::Entry(header) = entry::look(bytes, position) else {
            let reason = "what was sent for comparison is no entry".to_owned();
            return Err(ReadError::Damaged { position, reason });
        };
        let found = self.index.get(header.index).map_err(|error| io_at(position, &error))?;
        if found != Some(Unit::from(&header)) || header.size as usize != bytes.len() {
            return Ok(false);
        }
        let same =
            |own: &Bytes| own.get(..36) == bytes.get(..36) && own.get(44..) == bytes.get(44..);
        if let Some(own) = self.ring.get(position, bytes.len()) {
            return Ok(same(&own));
        }
        self.refuse_rotten(position, header.end())?;
        if same(&self.read_raw(position, bytes.len())?) {
            return Ok(true);
        }
        // Term and index are the same, so the entry was: either side's has rotted. What rotted here
        // must not look like a log that diverges.
        self.range_on_disk(header.index, header.index, 1)
            .inspect_err(|error| self.suspect(error))?;
        Ok(false)
    }

    /// The whole entry `index`, checked, from memory or from the disk.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub(crate) fn entry(&self, index: u64) -> Result<Bytes, ReadError> {
        let unit = self.unit(index)?;
        if let Some(bytes) = self.ring.get(unit.position, unit.size as usize) {
            return Ok(bytes);
        }
        self.range_on_disk(index, index, 1).map(|read| {
            let mut pieces = read.bytes.into_iter();
            pieces.next().unwrap_or_default()
        })
    }

    /// Position behind entry `index`.
    pub(crate) fn end_of(&self, index: u64) -> Result<u64, ReadError> {
        Ok(self.unit(index)?.end())
    }

    pub(crate) fn unit(&self, index: u64) -> Result<Unit, ReadError> {
        let found = self.index.get(index).map_err(|error| io_at(0, &error))?;
        found.ok_or(ReadError::NoEntry { index })
    }

    /// Bytes of the log as they lie on the disk, whatever they are.
    pub(crate) fn read_raw(&self, position: u64, length: usize) -> Result<Bytes, ReadError> {
        let mut bytes = BytesMut::zeroed(length);
        self.fill(position, &mut bytes)?;
        Ok(bytes.freeze())
    }
}

/// Bytes of the sound entries at the front of `bytes`, of which the first one is that of `unit`.
fn sound_length(bytes: &Bytes, unit: &Unit, mut before: Before) -> Result<usize, ReadError> {
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= ENTRY_HEADER) {
        let Found::Entry(header) = entry::look(rest, unit.position + at as u64) else { break };
        let Some(body) = rest.get(ENTRY_HEADER..header.size as usize) else { break };
        if at == 0 && Unit::from(&header) != *unit {
            return Err(lost(unit, "it is not the entry that the index names"));
        }
        match before.check(&header, body) {
            Ok(()) => before.advance(header),
            Err(reason) if at == 0 => return Err(lost(unit, reason)),
            Err(_) => break,
        }
        at += header.size as usize;
    }
    if at == 0 { Err(lost(unit, "no sound entry is there")) } else { Ok(at) }
}

fn lost(unit: &Unit, reason: &str) -> ReadError {
    let reason = format!("entry {}: {reason}", unit.index);
    ReadError::Damaged { position: unit.position, reason }
}

pub(super) fn io_at(position: u64, error: &io::Error) -> ReadError {
    ReadError::Io { position, reason: error.to_string() }
}

#[cfg(test)]
mod tests;
