//! Writing entries that a leader sent: verbatim, where they say they lie, in one write.

use super::{AppendError, Cursor, Part, Region, Writer, push};
use crate::{
    entry::{self, Header, Previous},
    index_log::Unit,
    range::{CheckedRange, place_behind},
    ring::HotRun,
};

impl Writer {
    /// Writes `range` behind the last entry, if it follows it. The log is durable up to `flushed`.
    pub(crate) fn append_range(
        &mut self,
        range: &CheckedRange,
        flushed: u64,
    ) -> Result<(), AppendError> {
        let (Some(first), Some(last)) = (range.first(), range.last()) else { return Ok(()) };
        self.follows(first).map_err(AppendError::Unfit)?;
        let regions = self.regions_of(range);
        self.write(&regions, &[range.bytes()])?;
        self.cursor = Cursor {
            position: last.end(),
            index: last.index + 1,
            previous: Some(Previous::of(last)),
        };
        let units: Vec<Unit> = range.headers().iter().map(Unit::from).collect();
        self.log.index.push(&units);
        self.log.set_last(units.last());
        self.zero_ahead(flushed);
        let runs = regions.iter().flat_map(|region| {
            let mut position = region.position;
            region.parts.iter().filter_map(move |part| {
                let Part::Entries { range: part, .. } = part else { return None };
                let run = HotRun { position, bytes: range.bytes().slice(part.clone()) };
                position += part.len() as u64;
                Some(run)
            })
        });
        self.log.ring.push(runs);
        Ok(())
    }

    /// Index, position and chain of the entry against the end of this log.
    fn follows(&self, first: &Header) -> Result<(), String> {
        let Cursor { position, index, previous } = self.cursor;
        if first.index != index {
            return Err(format!("entry {} was sent, entry {index} is next", first.index));
        }
        let place = place_behind(position, first.size, self.log.data.file_size());
        if first.position != place {
            return Err(format!(
                "entry {index} lies at {} with the leader and belongs at {place} here: \
                 mappedFileSizeCommitLog or the start of the log differs",
                first.position
            ));
        }
        if self.log.last_id().is_some_and(|last| first.term < last.term.0) {
            return Err(format!("entry {index} is of term {}, older than its log", first.term));
        }
        match previous {
            _ if first.chain_crc == 0 => Ok(()),
            // See `scan::Before`: a term that has lost its checksums never gets them back.
            Some(Previous::Entry { term, .. }) if term == first.term => {
                Err(format!("entry {index} has checksums, the one before has lost them"))
            }
            Some(previous) if first.chain_crc != first.chain_behind(previous) => {
                Err(format!("the checksum of entry {index} does not follow from the entry before"))
            }
            _ => Ok(()),
        }
    }

    /// What is written with one call for each file: padding where a file ends, entries as they came.
    fn regions_of(&self, range: &CheckedRange) -> Vec<Region> {
        let mut position = self.cursor.position;
        let mut regions = vec![Region { position, parts: Vec::new() }];
        let mut at = 0;
        for header in range.headers() {
            if header.position > position {
                let mut padding = vec![0; (header.position - position) as usize];
                entry::pad(&mut padding);
                push(&mut regions, Part::Padding(padding));
                regions.push(Region { position: header.position, parts: Vec::new() });
            }
            let size = header.size as usize;
            push(&mut regions, Part::Entries { nth: 0, range: at..at + size });
            at += size;
            position = header.end();
        }
        regions
    }
}

#[cfg(test)]
mod tests;
