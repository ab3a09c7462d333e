//! COMPARE: where do two logs part?
//!
//! Java walks back one entry for each answer. Here the end that the follower tells bounds the search,
//! steps double until an entry is equal, then halves close in: twice the logarithm of the distance.

use crate::{ledger::Ledger, types::LogIndex};

/// The search in the leader's log for the last entry that a follower holds, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Search {
    /// The follower holds this one.
    low: Option<LogIndex>,
    /// It can hold none behind this one.
    high: Option<LogIndex>,
    probe: Option<LogIndex>,
    step: u64,
    /// The leader's end when the search began.
    last: Option<LogIndex>,
    /// Nothing differed yet: it is an end alone that bounds the search.
    agrees: bool,
}

/// What a search came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Ask for this one.
    Probe(LogIndex),
    /// The follower holds the leader's log up to this one.
    Match(LogIndex),
    /// It holds nothing of it.
    Nothing,
}

impl Search {
    /// Begins at the leader's end, or at the follower's where that is known and shorter.
    pub(crate) fn new(ledger: &Ledger, end: Option<LogIndex>) -> Self {
        let last = ledger.last_index();
        let high = if end.is_some() { last.min(end) } else { last };
        let mut search = Self { low: None, high, probe: None, step: 1, last, agrees: true };
        search.probe = search.high.filter(|high| *high >= ledger.first());
        search
    }

    pub(crate) fn found(&self) -> Found {
        match (self.probe, self.low) {
            (Some(probe), _) => Found::Probe(probe),
            (None, Some(low)) => Found::Match(low),
            (None, None) => Found::Nothing,
        }
    }

    /// Whether an answer about `index` is the one that is waited for.
    pub(crate) fn awaits(&self, index: Option<LogIndex>) -> bool {
        self.probe.is_some() && self.probe == index
    }

    /// Takes the answer to the probe. `end` is the follower's.
    pub(crate) fn answered(&mut self, equal: bool, end: Option<LogIndex>, first: LogIndex) {
        let Some(probe) = self.probe.take() else { return };
        self.agrees &= equal;
        if self.agrees {
            // The end by which it began may have grown by what was on its way then. A Java follower
            // would cut that off without a word, though it has acknowledged it.
            self.high = self.last;
        }
        self.high = self.high.min(end);
        if equal {
            self.low = Some(probe);
            self.high = self.high.max(Some(probe));
        } else {
            self.high = self.high.min(probe.before());
        }
        let Some(high) = self.high.filter(|high| *high >= first) else {
            // Not even the first entry, unless that is what was found to be equal.
            return;
        };
        self.probe = match self.low {
            Some(low) if low >= high => None,
            Some(_) if self.agrees => Some(high),
            // The upper half, so that the distance shrinks in any case.
            Some(low) => Some(LogIndex(low.0 + (high.0 - low.0).div_ceil(2))),
            None => {
                let back = self.step - 1;
                self.step = self.step.saturating_mul(2);
                Some(LogIndex(high.0.saturating_sub(back)).max(first))
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::State,
        types::{EntryId, Term},
    };

    /// Runs a search in a log of `first..=last` against a follower that is equal up to `equal` and
    /// ends at `end`.
    fn search(first: u64, last: u64, equal: Option<u64>, end: Option<u64>) -> (Found, usize) {
        let ledger = Ledger::recovered(&State {
            first: LogIndex(first),
            last: Some(EntryId { term: Term(1), index: LogIndex(last) }),
            ..State::default()
        })
        .unwrap();
        let mut search = Search::new(&ledger, None);
        for asked in 0..200 {
            let Found::Probe(probe) = search.found() else { return (search.found(), asked) };
            assert!(probe.0 >= first && probe.0 <= last, "{probe}");
            let is_equal = equal.is_some_and(|equal| probe.0 <= equal);
            search.answered(is_equal, end.map(LogIndex), LogIndex(first));
        }
        panic!("no end: {search:?}");
    }

    #[test]
    fn the_last_common_entry_is_found_wherever_it_is() {
        for last in [0_u64, 1, 2, 7, 40] {
            for first in [0, last / 3, last] {
                for end in (first..=last + 5).map(Some).chain([None]) {
                    let top = end.map(|end| end.min(last));
                    for equal in (first..=last).map(Some).chain([None]) {
                        let equal = equal.min(top);
                        let expected =
                            equal.map_or(Found::Nothing, |equal| Found::Match(LogIndex(equal)));
                        let (found, _) = search(first, last, equal, end);
                        assert_eq!(found, expected, "{first} {last} {equal:?} {end:?}");
                    }
                }
            }
        }
    }

    /// The follower took more since it told its end.
    #[test]
    fn an_end_that_has_grown_is_asked_for() {
        let ledger = Ledger::recovered(&State {
            last: Some(EntryId { term: Term(1), index: LogIndex(9) }),
            ..State::default()
        })
        .unwrap();
        let mut search = Search::new(&ledger, Some(LogIndex(5)));
        assert_eq!(search.found(), Found::Probe(LogIndex(5)));
        search.answered(true, Some(LogIndex(7)), LogIndex(0));
        assert_eq!(search.found(), Found::Probe(LogIndex(7)));
        let mut differs = search.clone();
        search.answered(true, Some(LogIndex(7)), LogIndex(0));
        assert_eq!(search.found(), Found::Match(LogIndex(7)));
        differs.answered(false, Some(LogIndex(7)), LogIndex(0));
        assert_eq!(differs.found(), Found::Probe(LogIndex(6)));
    }

    #[test]
    fn a_long_way_takes_few_questions() {
        let million = 1_000_000;
        assert_eq!(search(0, million, Some(million), Some(million)).1, 1);
        assert_eq!(search(0, million, Some(999_000), Some(999_000)).1, 2);
        assert!(search(0, million, Some(1), Some(million)).1 <= 42);
        assert!(search(0, million, None, Some(million)).1 <= 24);
        assert_eq!(search(0, million, None, None).1, 1);
    }
}
