//! What this node knows of its own log: its ends, its marks and where terms begin.

use crate::{
    config::{ConfigError, State},
    terms::TermRuns,
    types::{EntryId, LogIndex, Policy, Term},
};

/// The log without its bodies: `committed <= written <= last` and `flushed <= written`.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    first: LogIndex,
    terms: TermRuns,
    last: Option<EntryId>,
    written: Option<LogIndex>,
    flushed: Option<LogIndex>,
    committed: Option<LogIndex>,
    /// The lowest cut since the last completion that was of an entry which is still here.
    cut_from: Option<LogIndex>,
}

impl Ledger {
    /// A log that was recovered: all of it is durable. A commit index beyond its end is a bookmark
    /// of entries that are gone, and falls to the end.
    pub(crate) fn recovered(state: &State) -> Result<Self, ConfigError> {
        let wrong = || ConfigError::Terms {
            terms: state.terms.clone(),
            first: state.first,
            last: state.last,
        };
        let terms = match state.last {
            Some(last) if state.terms.is_empty() => vec![(last.term, state.first)],
            Some(_) | None => state.terms.clone(),
        };
        let terms = TermRuns::of(terms).ok_or_else(wrong)?;
        let fits = match (state.last, terms.first(), terms.last()) {
            (None, None, None) => true,
            (Some(last), Some((_, first)), Some((term, begin))) => {
                first == state.first && term == last.term && begin <= last.index
            }
            (None | Some(_), None | Some(_), None | Some(_)) => false,
        };
        if !fits {
            return Err(wrong());
        }
        let end = state.last.map(|id| id.index);
        let committed = state.committed.min(end);
        Ok(Self {
            first: state.first,
            terms,
            last: state.last,
            written: end,
            flushed: end,
            committed,
            cut_from: None,
        })
    }

    /// Index of the first entry, which may be yet to come.
    pub(crate) fn first(&self) -> LogIndex {
        self.first
    }

    /// The last entry, which may not be written yet.
    pub(crate) fn last(&self) -> Option<EntryId> {
        self.last
    }

    /// Nothing is here, and nothing tells that there ever was anything. A log that began anew behind
    /// others is about to be filled with what a leader had, and is not new.
    pub(crate) fn is_new(&self) -> bool {
        self.last.is_none() && self.first == LogIndex(0)
    }

    pub(crate) fn last_index(&self) -> Option<LogIndex> {
        self.last.map(|last| last.index)
    }

    /// Index of the next entry to be appended.
    pub(crate) fn next_index(&self) -> LogIndex {
        self.last.map_or(self.first, |last| last.index.plus(1))
    }

    pub(crate) fn written(&self) -> Option<LogIndex> {
        self.written
    }

    pub(crate) fn flushed(&self) -> Option<LogIndex> {
        self.flushed
    }

    pub(crate) fn committed(&self) -> Option<LogIndex> {
        self.committed
    }

    /// What this node may vouch for.
    pub(crate) fn kept(&self, policy: Policy) -> Option<LogIndex> {
        match policy {
            Policy::Written => self.written,
            Policy::Flushed => self.flushed,
        }
    }

    pub(crate) fn term_at(&self, index: LogIndex) -> Option<Term> {
        let within = self.last.is_some_and(|last| index <= last.index) && index >= self.first;
        if within { self.terms.at(index) } else { None }
    }

    pub(crate) fn id_at(&self, index: LogIndex) -> Option<EntryId> {
        self.term_at(index).map(|term| EntryId { term, index })
    }

    pub(crate) fn holds(&self, id: EntryId) -> bool {
        self.term_at(id.index) == Some(id.term)
    }

    /// Where terms begin from `first` to `last`.
    pub(crate) fn terms_within(&self, first: LogIndex, last: LogIndex) -> Vec<(Term, LogIndex)> {
        self.terms.within(first, last)
    }

    /// `count` entries of `term` follow.
    pub(crate) fn extend(&mut self, term: Term, count: u64) {
        let first = self.next_index();
        let Some(more) = count.checked_sub(1) else { return };
        self.terms.extend(term, first);
        self.last = Some(EntryId { term, index: first.plus(more) });
    }

    pub(crate) fn note_written(&mut self, upto: EntryId) {
        self.written = self.written.max(self.completed(upto));
    }

    pub(crate) fn note_flushed(&mut self, upto: EntryId) {
        let upto = self.completed(upto);
        self.written = self.written.max(upto);
        self.flushed = self.flushed.max(upto);
    }

    /// How far a completion speaks for this log. Where its entry was cut off meanwhile, it still
    /// speaks for what lies before every cut: the disk took that with it, and is not asked again.
    fn completed(&mut self, upto: EntryId) -> Option<LogIndex> {
        if self.holds(upto) {
            // One from before the cut says nothing of what was begun before the cut and is yet to end.
            self.cut_from = self.cut_from.filter(|cut| upto.index < *cut);
            return Some(upto.index);
        }
        let left = self.cut_from?.before()?.min(upto.index);
        self.term_at(left).map(|_| left)
    }

    /// Drops all from `index` on. What is committed is the caller's care.
    pub(crate) fn cut(&mut self, index: LogIndex) {
        self.terms.cut(index);
        self.cut_from = self.cut_from.map_or(Some(index), |lowest| Some(lowest.min(index)));
        let end = index.before().filter(|end| *end >= self.first && !self.terms.is_empty());
        self.last = end.and_then(|index| Some(EntryId { term: self.terms.at(index)?, index }));
        let end = self.last_index();
        self.written = self.written.min(end);
        self.flushed = self.flushed.min(end);
    }

    /// Drops all; the next entry will be `first`, and what was before it is committed elsewhere.
    pub(crate) fn restart(&mut self, first: LogIndex) {
        self.first = first;
        self.cut_from = Some(LogIndex(0));
        self.terms = TermRuns::default();
        self.last = None;
        self.written = None;
        self.flushed = None;
    }

    /// Retention removed what was before `first`.
    pub(crate) fn trim(&mut self, first: LogIndex) {
        if self.last.is_some_and(|last| first <= last.index) && first > self.first {
            self.first = first;
            self.terms.trim(first);
        }
    }

    /// Raises the commit index. `false` where that would pass what is written, and so the end of the
    /// log, too.
    pub(crate) fn commit(&mut self, upto: LogIndex) -> bool {
        if self.written < Some(upto) {
            return false;
        }
        self.committed = self.committed.max(Some(upto));
        true
    }

    /// Only a planted fault passes the end.
    #[cfg(feature = "planted")]
    pub(crate) fn force_commit(&mut self, upto: LogIndex) {
        self.committed = self.committed.max(Some(upto));
    }
}

#[cfg(test)]
mod tests;
