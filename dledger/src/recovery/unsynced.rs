//! Making durable what a start finds in the page cache only.

use std::io;

use super::{Recovery, Tip};

impl Recovery {
    /// Makes the log up to its tip durable, which was scanned from `scanned` on and begins at `begin`, and
    /// what the next checkpoint will take for durable.
    pub(super) fn make_durable(&self, tip: &Tip, (scanned, begin): (u64, u64)) -> io::Result<()> {
        let end = tip.end;
        let mut from = self.mark.position.min(scanned);
        if self.after_kill() {
            // What lies behind the durable mark may have been dropped by a sync that failed.
            self.data.rewrite(self.mark.position.max(begin)..end)?;
            // As may units that no checkpoint knows to be durable: those that a failed sync has dropped
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
}
