//! Making durable what a start finds in the page cache only.

use std::io::{self, IoSlice};

use super::{Recovery, Tip};

/// Bytes that are written once more at a time.
const REWRITTEN_AT_ONCE: u64 = 1024 * 1024;

impl Recovery {
    /// Makes the log up to its tip durable, which was scanned from `scanned` on and begins at `begin`, and
    /// what the next checkpoint will take for durable.
    pub(super) fn make_durable(&self, tip: &Tip, (scanned, begin): (u64, u64)) -> io::Result<()> {
        let end = tip.end;
        let mut from = self.mark.position.min(scanned);
        if self.after_kill() {
            self.rewrite_unsynced(end)?;
            // As do units that no checkpoint knows to be durable: those that a failed sync has dropped
            // are equal to what the scan would write.
            let checkpointed = self.checkpointed.map_or(0, |last| last + 1);
            self.index.rewrite(checkpointed, tip.last.map_or(0, |last| last.index + 1))?;
            // Rotten entries may have been put back in front of the mark.
            from = begin;
        }
        self.data.flush(from..end.max(begin + 1))
    }

    /// Whether the process was killed, and the page cache still shows what it wrote.
    fn after_kill(&self) -> bool {
        !self.boot_id.is_empty() && self.mark.boot_id == self.boot_id && !self.mark.clean
    }

    /// Writes what lies behind the durable mark once more. A sync that failed in the life before may
    /// have dropped it while the page cache still shows it, and the next sync would report success
    /// without writing anything: only bytes that were written since are its concern.
    fn rewrite_unsynced(&self, end: u64) -> io::Result<()> {
        let begin = self.data.range().map_or(end, |range| range.start);
        let mut at = self.mark.position.max(begin);
        let mut bytes = Vec::new();
        while at < end {
            let file_end = self.data.base_of(at) + self.data.file_size();
            let count = (file_end.min(end) - at).min(REWRITTEN_AT_ONCE);
            bytes.resize(usize::try_from(count).map_err(io::Error::other)?, 0);
            self.data.read_at(at, &mut bytes)?;
            self.data.write_at(at, &mut [IoSlice::new(&bytes)]).map_err(|error| error.source)?;
            at += count;
        }
        Ok(())
    }
}
