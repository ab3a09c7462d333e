//! Passing over entries that rotted: the index tells which they were and where the log goes on.

use std::io;

use super::{Recovery, Rot};
use crate::{
    disk_log::rot::RottenRange,
    entry::Header,
    index_log::Unit,
    scan::{Before, Scanned, Scanner},
};

impl Recovery {
    /// The entries from log position `position` on that are not sound, where the index knows them
    /// all. `last` is the sound entry before.
    pub(super) fn rotten_range(
        &self,
        position: u64,
        last: Option<&Header>,
        rot: &Rot,
    ) -> io::Result<Option<RottenRange>> {
        let first = match last {
            Some(last) => last.index + 1,
            None if position == 0 => 0,
            None => match self.first_differs(position)? {
                Some(named) => named.index,
                None => return Ok(None),
            },
        };
        let Some(unit) = self.index.get(first)? else { return Ok(None) };
        let file_end = self.data.base_of(position) + self.data.file_size();
        if unit.position != position && unit.position != file_end {
            return Ok(None);
        }
        let mut range = RottenRange {
            first,
            last: first,
            position: unit.position,
            end: unit.end(),
            reason: rot.reason.clone(),
        };
        while let Some(next) = self.index.get(range.last + 1)?
            && next.position >= range.end
            && !self.holds_sound(&next)?
        {
            range.last = next.index;
            range.end = next.end();
        }
        Ok(Some(range))
    }

    /// What the index names in the place of the entry at `position`, with which the log begins: no
    /// entry in front of it vouches for its header, but the one behind tells its number.
    pub(super) fn first_differs(&self, position: u64) -> io::Result<Option<Unit>> {
        if self.data.range().is_none_or(|range| range.start != position) {
            return Ok(None);
        }
        let Some(first) = self.header_at(position)? else { return Ok(None) };
        let next_file = self.data.base_of(position) + self.data.file_size();
        let behind = match next_file.checked_sub(first.end()) {
            Some(room) if room >= crate::ENTRY_HEADER as u64 => self.header_at(first.end())?,
            _ => None,
        };
        let behind = match behind {
            None => self.header_at(next_file)?,
            found => found,
        };
        let Some(index) = behind.and_then(|behind| behind.index.checked_sub(1)) else {
            return Ok(None);
        };
        let named = self.index.get(index)?.filter(|named| named.position == position);
        Ok(named.filter(|named| *named != Unit::from(&first)))
    }

    /// Where the log goes on behind `range`.
    pub(super) fn behind(&self, range: &RottenRange) -> io::Result<u64> {
        let next = self.index.get(range.last + 1)?;
        Ok(next.map_or(range.end, |next| next.position))
    }

    /// Whether the entry behind `range` is at `position`, or at the start of the next file, and sound. The
    /// index may not know it yet: its units lag behind the log, and those that a killed process held are
    /// lost.
    pub(super) fn goes_on(&self, range: &RottenRange, position: &mut u64) -> io::Result<bool> {
        let next_file = self.data.base_of(*position) + self.data.file_size();
        let mut scanner = Scanner::new(&self.data);
        for at in [*position, next_file] {
            if let Scanned::Entry(header) = scanner.at(at, &Before::start(None))?
                && header.index == range.last + 1
            {
                *position = at;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn holds_sound(&self, unit: &Unit) -> io::Result<bool> {
        let found = Scanner::new(&self.data).at(unit.position, &Before::start(None))?;
        Ok(matches!(found, Scanned::Entry(header) if Unit::from(&header) == *unit))
    }
}

#[cfg(test)]
mod tests;
