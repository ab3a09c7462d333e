//! How far this node's own log has come.

use crate::types::{EntryId, LogIndex, Policy};

/// The ends of the log: `committed <= flushed <= written <= last` but for what a policy of
/// [`Policy::Written`] commits before it is flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Marks {
    /// The last entry, which may not be written yet.
    pub(crate) last: Option<EntryId>,
    written: Option<LogIndex>,
    flushed: Option<LogIndex>,
    /// The last entry known to be committed.
    pub(crate) committed: Option<LogIndex>,
}

impl Marks {
    /// A log that was recovered: all of it is durable.
    pub(crate) fn recovered(last: Option<EntryId>, committed: Option<LogIndex>) -> Self {
        let end = last.map(|id| id.index);
        Self { last, written: end, flushed: end, committed: committed.min(end) }
    }

    /// Index of the next entry to be appended.
    pub(crate) fn next_index(&self) -> LogIndex {
        self.last.map_or(LogIndex(0), |last| last.index.plus(1))
    }

    /// A completion of an entry that was cut off meanwhile, or was never appended, counts for
    /// nothing: its term and index are not those of the log.
    pub(crate) fn note_written(&mut self, upto: EntryId) {
        if self.holds(upto) {
            self.written = self.written.max(Some(upto.index));
        }
    }

    pub(crate) fn note_flushed(&mut self, upto: EntryId) {
        if self.holds(upto) {
            self.written = self.written.max(Some(upto.index));
            self.flushed = self.flushed.max(Some(upto.index));
        }
    }

    /// What this node may vouch for.
    pub(crate) fn kept(&self, policy: Policy) -> Option<LogIndex> {
        match policy {
            Policy::Written => self.written,
            Policy::Flushed => self.flushed,
        }
    }

    fn holds(&self, id: EntryId) -> bool {
        self.last.is_some_and(|last| id.index <= last.index && id.term <= last.term)
    }
}
