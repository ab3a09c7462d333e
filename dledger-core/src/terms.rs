//! Where terms begin in a log: what the core knows of its entries.

use std::collections::VecDeque;

use crate::types::{EntryId, LogIndex, Term};

/// The term and the first index of each run of entries of one term, ascending in both.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TermRuns(VecDeque<(Term, LogIndex)>);

impl TermRuns {
    /// `None` where terms or indexes do not ascend.
    pub(crate) fn of(runs: Vec<(Term, LogIndex)>) -> Option<Self> {
        let ascending = runs.iter().zip(runs.iter().skip(1)).all(|(a, b)| a.0 < b.0 && a.1 < b.1);
        ascending.then(|| Self(runs.into()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn first(&self) -> Option<(Term, LogIndex)> {
        self.0.front().copied()
    }

    pub(crate) fn last(&self) -> Option<(Term, LogIndex)> {
        self.0.back().copied()
    }

    /// The term of the run that `index` lies in or behind. The caller knows that the log reaches it.
    pub(crate) fn at(&self, index: LogIndex) -> Option<Term> {
        // Most questions are about the end.
        if let Some((term, first)) = self.last()
            && first <= index
        {
            return Some(term);
        }
        let behind = self.0.partition_point(|(_, first)| *first <= index);
        self.0.get(behind.checked_sub(1)?).map(|(term, _)| *term)
    }

    /// Entries of `term` follow from `first` on.
    pub(crate) fn extend(&mut self, term: Term, first: LogIndex) {
        if self.last().is_none_or(|(last, _)| last != term) {
            self.0.push_back((term, first));
        }
    }

    /// Drops all from `index` on.
    pub(crate) fn cut(&mut self, index: LogIndex) {
        while self.0.pop_back_if(|(_, first)| *first >= index).is_some() {}
    }

    /// Drops all before `index`.
    pub(crate) fn trim(&mut self, index: LogIndex) {
        let covering = self.0.partition_point(|(_, first)| *first <= index).saturating_sub(1);
        self.0.drain(..covering);
        if let Some((_, first)) = self.0.front_mut() {
            *first = (*first).max(index);
        }
    }

    /// The runs of the entries from `first` to `last`.
    pub(crate) fn within(&self, first: LogIndex, last: LogIndex) -> Vec<(Term, LogIndex)> {
        let covering = self.0.partition_point(|(_, begin)| *begin <= first).saturating_sub(1);
        let runs = self.0.iter().skip(covering).take_while(|(_, begin)| *begin <= last);
        runs.map(|(term, begin)| (*term, (*begin).max(first))).collect()
    }
}

/// The term that `runs` gives to `index`.
pub(crate) fn term_within(runs: &[(Term, LogIndex)], index: LogIndex) -> Option<Term> {
    runs.iter().rev().find(|(_, first)| *first <= index).map(|(term, _)| *term)
}

/// Whether `runs` can describe entries from `first` to `last` that are written in the term of `last`
/// at most. Term 0 is one like any other: the first leader of a new Java group writes in it.
pub(crate) fn describes(runs: &[(Term, LogIndex)], first: LogIndex, last: EntryId) -> bool {
    let ascending = runs.iter().zip(runs.iter().skip(1)).all(|(a, b)| a.0 < b.0 && a.1 < b.1);
    let begins = runs.first().is_some_and(|(_, begin)| *begin == first);
    let ends = runs.last().is_some_and(|(term, begin)| *begin <= last.index && *term <= last.term);
    ascending && begins && ends
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(runs: &[(u64, u64)]) -> Vec<(Term, LogIndex)> {
        runs.iter().map(|(term, index)| (Term(*term), LogIndex(*index))).collect()
    }

    fn log() -> TermRuns {
        TermRuns::of(runs(&[(1, 0), (3, 4), (7, 5)])).unwrap()
    }

    #[test]
    fn each_entry_has_the_term_of_its_run() {
        let terms: Vec<u64> = (0..8).map(|index| log().at(LogIndex(index)).unwrap().0).collect();
        assert_eq!(terms, [1, 1, 1, 1, 3, 7, 7, 7]);
        assert_eq!(TermRuns::default().at(LogIndex(0)), None);
        assert_eq!(TermRuns::of(runs(&[(3, 0), (3, 4)])), None);
        assert_eq!(TermRuns::of(runs(&[(3, 4), (4, 4)])), None);
    }

    #[test]
    fn runs_follow_what_happens_to_the_log() {
        let mut cut = log();
        cut.cut(LogIndex(4));
        assert_eq!(cut, TermRuns::of(runs(&[(1, 0)])).unwrap());
        cut.extend(Term(1), LogIndex(4));
        cut.extend(Term(9), LogIndex(6));
        assert_eq!(cut, TermRuns::of(runs(&[(1, 0), (9, 6)])).unwrap());
        let mut trimmed = log();
        trimmed.trim(LogIndex(2));
        assert_eq!(trimmed, TermRuns::of(runs(&[(1, 2), (3, 4), (7, 5)])).unwrap());
        trimmed.trim(LogIndex(6));
        assert_eq!(trimmed, TermRuns::of(runs(&[(7, 6)])).unwrap());
    }

    #[test]
    fn entries_of_a_new_java_group_may_be_of_term_0() {
        let last = EntryId { term: Term(0), index: LogIndex(3) };
        assert!(describes(&runs(&[(0, 0)]), LogIndex(0), last));
        assert!(!describes(&runs(&[(0, 0), (1, 2)]), LogIndex(0), last), "of a later term");
        assert!(!describes(&[], LogIndex(0), last));
    }

    #[test]
    fn a_part_has_the_runs_that_it_touches() {
        assert_eq!(log().within(LogIndex(2), LogIndex(4)), runs(&[(1, 2), (3, 4)]));
        assert_eq!(log().within(LogIndex(5), LogIndex(9)), runs(&[(7, 5)]));
        assert_eq!(log().within(LogIndex(0), LogIndex(0)), runs(&[(1, 0)]));
    }
}
