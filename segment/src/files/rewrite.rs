//! Writing once more what a failed sync may have dropped.

use std::{
    io::{self, IoSlice},
    ops::Range,
};

use super::SegmentFiles;

/// Bytes that are written once more at a time.
const AT_ONCE: u64 = 1024 * 1024;

impl SegmentFiles {
    /// Writes the bytes of `range` once more, as they read now, not synced. A sync that failed may have
    /// dropped them while the page cache still shows them, and the next sync would report success without
    /// writing anything: only bytes that were written since are its concern.
    ///
    /// # Errors
    /// What the file system answers.
    pub fn rewrite(&self, range: Range<u64>) -> io::Result<()> {
        let mut at = range.start;
        let mut bytes = Vec::new();
        while at < range.end {
            let file_end = self.base_of(at) + self.file_size();
            let count = (file_end.min(range.end) - at).min(AT_ONCE);
            bytes.resize(usize::try_from(count).map_err(io::Error::other)?, 0);
            self.read_at(at, &mut bytes)?;
            self.write_at(at, &mut [IoSlice::new(&bytes)]).map_err(|error| error.source)?;
            at += count;
        }
        Ok(())
    }
}
