//! Taking entries off the end of the log, or all of them.

use std::{io, sync::atomic::Ordering};

use segment::SegmentFiles;

use super::{DiskLog, lock};
use crate::{
    ReadError,
    entry::Previous,
    index_log::Unit,
    planted::planted,
    state_files::{DurableFile, DurableMark},
    writer::Cursor,
};

impl DiskLog {
    /// Removes entry `index` and all behind it, durably; tells where the next entry goes. `None`
    /// where there is no such entry.
    ///
    /// # Errors
    /// What the disk answers, or that the entry is committed; the log must then not be used any
    /// more.
    pub(crate) fn truncate(&self, index: u64) -> io::Result<Option<Cursor>> {
        let committed = self.ends.committed_entries.load(Ordering::SeqCst);
        if index < committed {
            let text = format!("entry {index} is committed, as all before {committed} are");
            return Err(io::Error::other(text));
        }
        let Some(unit) = self.index.get(index)? else { return Ok(None) };
        let before = match index.checked_sub(1) {
            Some(before) => self.index.get(before)?,
            None => None,
        };
        let tie = match index.checked_sub(1).map(|before| self.tie_behind(before)).transpose() {
            Ok(tie) => tie.flatten(),
            // It is rotten: what the next entry is tied to is seen once it is mended.
            Err(error @ ReadError::Damaged { .. }) => {
                self.suspect(&error);
                None
            }
            Err(error) => return Err(io::Error::other(error)),
        };
        // With the padding in front of it: another leader's entry may fit where this one did not.
        let end = before.as_ref().map_or(unit.position, Unit::end);
        self.ring.truncate(unit.position);
        self.index.truncate(unit.index)?;
        if !planted!(self.planted, P16) {
            self.erase_behind(end, |data| data.truncate(end))?;
        }
        self.set_last(before.as_ref());
        self.rot.keep((0, 0), &unit);
        let previous = if index == 0 { Some(Previous::Start) } else { tie };
        Ok(Some(Cursor { position: end, index, previous }))
    }

    /// Removes everything; the log begins anew with entry `index` at `position`, which is the first
    /// of a leader whose log begins behind the end of this one (Java: `rebuildWithPos`). All before
    /// it counts as committed.
    ///
    /// # Errors
    /// What the disk answers, or that no file begins at `position`; the log must then not be used
    /// any more.
    pub(crate) fn restart(&self, index: u64, position: u64) -> io::Result<Cursor> {
        if self.data.base_of(position) != position {
            let size = self.data.file_size();
            return Err(io::Error::other(format!(
                "the leader's first entry {index} lies at {position}, where no file of {size} bytes \
                 begins: set mappedFileSizeCommitLog to the leader's value"
            )));
        }
        self.ring.truncate(0);
        self.index.clear()?;
        // From position 0 on, so that a crash in between leaves no mark that is behind the end.
        self.erase_behind(0, |data| {
            data.clear()?;
            data.append_file(position)
        })?;
        self.set_last(None);
        self.rot.clear();
        self.set_committed(position, index);
        let previous = (index == 0).then_some(Previous::Start);
        Ok(Cursor { position, index, previous })
    }

    /// Runs `erase`, which makes bytes at or behind `position` vanish. While it runs the mark says
    /// so, for a crash in the midst of it leaves what looks like rot.
    pub(crate) fn erase_behind(
        &self,
        position: u64,
        erase: impl FnOnce(&SegmentFiles) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut durable = lock(&self.durable);
        durable.cuts += 1;
        erase_behind(&self.data, &mut durable.file, (position, &self.boot_id), erase)
    }
}

/// See [`DiskLog::erase_behind`].
pub(crate) fn erase_behind(
    data: &SegmentFiles,
    durable: &mut DurableFile,
    (position, boot_id): (u64, &str),
    erase: impl FnOnce(&SegmentFiles) -> io::Result<()>,
) -> io::Result<()> {
    let mark = DurableMark {
        position: durable.mark().position.min(position),
        boot_id: boot_id.to_owned(),
        clean: false,
        cutting: true,
    };
    durable.store(mark.clone())?;
    erase(data)?;
    durable.store(DurableMark { cutting: false, ..mark })
}

#[cfg(test)]
mod tests;
