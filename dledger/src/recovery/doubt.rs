//! Whether this member may lack entries that it has acknowledged.

use std::io;

use dledger_core::Policy;

use crate::{
    index_log::Unit,
    planted::Planted,
    state_files::{Doubt, DoubtFile, DurableMark},
};

/// What recovery has to know about the group.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// How many members it has.
    pub(crate) members: usize,
    /// When an entry counts as kept.
    pub(crate) policy: Policy,
    /// Which faults are planted.
    pub(crate) planted: Planted,
}

impl Group {
    pub(crate) fn is_one(&self) -> bool {
        self.members < 2
    }

    /// What the files beside the log say: a doubt of an earlier run that was not settled, or an end
    /// of the machine that may have taken what was acknowledged from the page cache.
    pub(super) fn doubt(
        &self,
        file: &DoubtFile,
        (mark, boot_id): (&DurableMark, &str),
        by_java: bool,
    ) -> io::Result<Option<Doubt>> {
        let known = file.load()?;
        if known.is_some() || self.is_one() {
            return Ok(known);
        }
        let unsynced = self.policy == Policy::Written || by_java;
        let rebooted = !mark.boot_id.is_empty() && mark.boot_id != boot_id;
        if unsynced && rebooted && (by_java || !mark.clean) {
            return keep(file, Doubt::UncleanBoot);
        }
        Ok(None)
    }

    /// Where to note that the end of the log was torn, if that is a doubt. A process that is killed leaves
    /// half an entry that nobody was told of; where acknowledgements do not wait for the disk, one that
    /// was acknowledged and rotted before it was durable looks the same.
    pub(super) fn doubts_tears(&self, file: DoubtFile, by_java: bool) -> Option<DoubtFile> {
        let unsynced = self.policy == Policy::Written || by_java;
        (unsynced && !self.is_one()).then_some(file)
    }

    /// What the end of the recovered log says.
    pub(super) fn doubt_of_end(
        &self,
        file: &DoubtFile,
        last: Option<&Unit>,
        committed: Option<u64>,
    ) -> io::Result<Option<Doubt>> {
        if self.is_one() {
            return Ok(None);
        }
        match last {
            None => keep(file, Doubt::Empty),
            Some(last) if committed.is_some_and(|committed| committed > last.index) => {
                tracing::error!(
                    committed,
                    last = last.index,
                    "the log ends before an entry that was committed"
                );
                keep(file, Doubt::RolledBack)
            }
            Some(_) => Ok(None),
        }
    }
}

/// Once a log takes entries again it no longer shows why it is in doubt: the file does.
fn keep(file: &DoubtFile, doubt: Doubt) -> io::Result<Option<Doubt>> {
    file.store(Some(doubt))?;
    Ok(Some(doubt))
}

#[cfg(test)]
mod tests;
