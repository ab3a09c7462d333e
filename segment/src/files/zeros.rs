//! Writing zeros.

use std::{
    io::{self, IoSlice},
    ops::Range,
};

use super::{SegmentFiles, WriteError};
use crate::write_all_at;

/// Zeros are written in parts of this many bytes.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

impl SegmentFiles {
    /// Writes `length` zeros from `position`, holes and all; they must lie in one file.
    ///
    /// # Errors
    /// How far it came and why it stopped.
    pub fn write_zeros(&self, position: u64, length: usize) -> Result<(), WriteError> {
        let mut parts = vec![IoSlice::new(&ZEROS); length / ZEROS.len()];
        let rest = ZEROS.get(..length % ZEROS.len()).filter(|rest| !rest.is_empty());
        parts.extend(rest.map(IoSlice::new));
        self.write_at(position, &mut parts)
    }

    /// Overwrites `range` with zeros, passing over holes. Not flushed.
    ///
    /// # Errors
    /// What the file system answers.
    pub fn zero(&self, range: Range<u64>) -> io::Result<()> {
        for segment in self.segments(range.clone()) {
            let end = range.end.min(segment.base + self.file_size) - segment.base;
            let mut at = range.start.saturating_sub(segment.base);
            while let Some(found) = segment.file.next_data(at)?.filter(|found| *found < end) {
                // Each write ends with a block of the file system. Zeros that end within one would be
                // found as data, and the whole hole behind them would be filled.
                let part = ZEROS.len() as u64;
                let count = (end - found).min(part - found % part);
                let zeros = ZEROS.get(..usize::try_from(count).unwrap_or(0)).unwrap_or(&ZEROS);
                write_all_at(&*segment.file, &mut [IoSlice::new(zeros)], found)
                    .map_err(|(_, error)| error)?;
                at = found + count;
            }
        }
        Ok(())
    }
}
