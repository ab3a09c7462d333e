//! The checksum chain from one entry to the next: it alone tells rot in the fields of a header that no
//! other field repeats.
//!
//! ```text
//!   entry 6          entry 7          entry 8
//!   chain 6  <-----  chain 7  <-----  chain 8       chain n covers header n and the chain before
//!
//!   broken           broken  is what?
//!   6-7              holds   entry 7: something in its header other than the chain
//!   6-7              7-8     entry 7: its chain
//!   5-6 and 6-7      holds   entry 6: its chain
//! ```

use super::{DiskLog, ranges::io_at};
use crate::{
    ReadError,
    entry::{Found, Header, Previous, be_u64, look},
    index_log::Unit,
};

/// Whether an entry follows the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// It does, or it carries no checksums.
    Holds,
    /// It does not, or it is not what the index names.
    Broken,
    /// One of both cannot be read.
    Unknown,
}

impl DiskLog {
    /// Whether the entry of this header, which was just read, follows the one before.
    pub(crate) fn link_of(&self, header: &Header) -> Link {
        if header.chain_crc == 0 && header.body_crc == 0 {
            return Link::Holds;
        }
        match self.previous_of(header.index) {
            Some(previous) if header.chain_crc == header.chain_behind(previous) => Link::Holds,
            Some(_) => Link::Broken,
            None => Link::Unknown,
        }
    }

    /// What an entry behind entry `index` is tied to; `None` where the log does not hold that one.
    ///
    /// # Errors
    /// That it is rotten, or what the disk answers.
    pub(crate) fn tie_behind(&self, index: u64) -> Result<Option<Previous>, ReadError> {
        if self.index.get(index).map_err(|error| io_at(0, &error))?.is_none() {
            return Ok(None);
        }
        let bytes = self.entry(index)?;
        let position = be_u64(&bytes, 24).unwrap_or(0);
        match look(&bytes, position) {
            Found::Entry(header) => Ok(Some(Previous::of(&header))),
            Found::Padding | Found::Nothing | Found::Bad(_) => Ok(None),
        }
    }

    /// Which entries are rotten where entry `index` cannot be read, with the reason; none where it
    /// can. An entry that does not follow the one before may be sound, and that one may not be.
    pub(crate) fn culprits(&self, index: u64) -> Vec<(u64, String)> {
        let Err(ReadError::Damaged { reason, .. }) = self.range_on_disk(index, index, 1) else {
            return Vec::new();
        };
        let before = match index.checked_sub(1) {
            Some(before) if self.link(index) == Link::Broken && self.is_named(index) => before,
            // It is bad in itself, or its own begin is that of the log.
            _ => return vec![(index, reason)],
        };
        let (own, behind) = ((index, reason), self.link(index + 1));
        let other = (before, "the entry behind it does not follow from its checksum".to_owned());
        match (self.link(before), behind) {
            (Link::Holds, _) | (Link::Unknown, Link::Broken) => vec![own],
            (Link::Broken, Link::Holds | Link::Unknown) => vec![other],
            (Link::Broken, Link::Broken) | (Link::Unknown, _) => vec![other, own],
        }
    }

    /// Whether entry `index` follows the one before.
    pub(super) fn link(&self, index: u64) -> Link {
        match self.named(index) {
            Some((unit, header)) if Unit::from(&header) == unit => self.link_of(&header),
            Some(_) => Link::Broken,
            None => Link::Unknown,
        }
    }

    fn is_named(&self, index: u64) -> bool {
        self.named(index).is_some_and(|(unit, header)| Unit::from(&header) == unit)
    }

    /// What the index and the data say of entry `index`.
    fn named(&self, index: u64) -> Option<(Unit, Header)> {
        let unit = self.index.get(index).ok()??;
        Some((unit, self.header_at(unit.position).ok()?))
    }

    /// What entry `index` is tied to; `None` where the entry before cannot be read.
    fn previous_of(&self, index: u64) -> Option<Previous> {
        let Some(before) = index.checked_sub(1) else { return Some(Previous::Start) };
        let (Unit { index, term, position, .. }, header) = self.named(before)?;
        // Where Java wrote it, the index says as much as its header.
        match header.chain_crc {
            0 => Some(Previous::Entry { index, term, position }),
            chain => Some(Previous::Chain(chain)),
        }
    }
}

#[cfg(test)]
mod tests;
