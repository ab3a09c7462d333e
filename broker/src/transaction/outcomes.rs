//! Which transactions have ended, as far as their half messages are not behind the progress.
//!
//! A transaction is named by the offset of the half message that its producer sent. Questions put
//! the half message again further on, so that several offsets belong to one transaction: whichever
//! of them a producer ends, it ends once.

use std::collections::{BTreeSet, HashMap};

/// The most transactions that are kept: those that ended since the last turn of the checks, and those
/// that were put again.
const MAX_KEPT: usize = 1_000_000;

/// The ends of transactions in one term of this node.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    /// Half messages before this offset are done with, or were put again further on.
    progress: u64,
    /// Records of the op topic before this offset are read.
    op_next: u64,
    /// Half messages before this offset were there when this node took over.
    inherited: u64,
    /// Those that have ended, by each of their offsets that is known.
    ended: HashMap<u64, Ended>,
    /// Transactions whose half message was put again: where its newest is.
    newest: HashMap<u64, u64>,
    /// Records of the op topic at or behind `op_next` that need not be read: this node wrote them.
    own_ops: BTreeSet<u64>,
}

/// How far the end of a transaction has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// It was given to the log, and is not known to be committed.
    Submitted,
    /// The record of the op topic at this offset says so.
    Recorded(u64),
}

/// What is known of a half message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its transaction waits for its end.
    Open,
    /// Its end is on its way.
    Ending,
    /// Its transaction has ended, or its half message was put again further on.
    Done,
}

/// Why a transaction is not ended by a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotEnded {
    /// It has ended before, or somebody ends it just now.
    Already,
    /// Too many ends are kept.
    Full,
}

/// A half message: its own offset and that of its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) origin: u64,
    pub(super) offset: u64,
}

impl Place {
    /// The offsets that its end names: both, where they differ.
    pub(super) fn offsets(self) -> Vec<u64> {
        if self.offset == self.origin { vec![self.offset] } else { vec![self.offset, self.origin] }
    }
}

impl Outcomes {
    /// Nothing is known yet: to be read from half offset `progress` and op offset `op_next` on.
    pub(super) fn from(progress: u64, op_next: u64, inherited: u64) -> Self {
        Self { progress, op_next, inherited, ..Self::default() }
    }

    pub(super) fn progress(&self) -> u64 {
        self.progress
    }

    pub(super) fn op_next(&self) -> u64 {
        self.op_next
    }

    /// Whether a half message was there when this node took over: what the term before has done
    /// with it is not all known.
    pub(super) fn is_inherited(&self, place: Place) -> bool {
        place.offset < self.inherited
    }

    /// What is known of the half message at an offset, before it is read: `None` where it has to be.
    pub(super) fn unread(&self, offset: u64) -> Option<Standing> {
        self.ended.get(&offset).map(|ended| ended.standing())
    }

    /// What is known of a half message.
    pub(super) fn standing(&self, place: Place) -> Standing {
        if let Some(ended) = self.ended.get(&place.origin).or(self.ended.get(&place.offset)) {
            return ended.standing();
        }
        let newest = self.newest.get(&place.origin).copied();
        if newest.is_some_and(|newest| newest > place.offset) {
            return Standing::Done;
        }
        Standing::Open
    }

    /// Begins the end of a transaction by whichever of its half messages.
    pub(super) fn begin(&mut self, place: Place) -> Result<(), NotEnded> {
        let known = |offset: &u64| self.ended.contains_key(offset);
        if known(&place.origin) || known(&place.offset) || self.is_past(place.origin) {
            return Err(NotEnded::Already);
        }
        if self.ended.len() + self.newest.len() >= MAX_KEPT {
            return Err(NotEnded::Full);
        }
        place.offsets().into_iter().for_each(|offset| {
            self.ended.insert(offset, Ended::Submitted);
        });
        Ok(())
    }

    /// Nothing of an end was kept: the transaction waits for another.
    pub(super) fn failed(&mut self, place: Place) {
        for offset in place.offsets() {
            if self.ended.get(&offset) == Some(&Ended::Submitted) {
                self.ended.remove(&offset);
            }
        }
    }

    /// An end is committed, as the record of the op topic at `op` says.
    pub(super) fn recorded(&mut self, place: Place, op: u64) {
        self.record(&place.offsets(), op);
        if op >= self.op_next {
            self.own_ops.insert(op);
        }
    }

    /// Takes the record of the op topic at `op_next`, where it was read.
    pub(super) fn read_op(&mut self, op: u64, offsets: &[u64]) {
        self.record(offsets, op);
        self.op_next = self.op_next.max(op + 1);
    }

    /// Whether the next record of the op topic need not be read; passes over it then.
    pub(super) fn pass_own_op(&mut self, op: u64) -> bool {
        let own = self.own_ops.remove(&op);
        if own {
            self.op_next = self.op_next.max(op + 1);
        }
        own
    }

    /// The half message of a transaction was put again at `offset`.
    pub(super) fn renewed(&mut self, origin: u64, offset: u64) {
        let newest = self.newest.entry(origin).or_insert(offset);
        *newest = offset.max(*newest);
    }

    /// Goes on to half offset `progress`, and forgets what no half message from there on needs.
    /// Gives the op offset from which on another node would have to read.
    pub(super) fn advance(&mut self, progress: u64) -> u64 {
        self.progress = self.progress.max(progress);
        let progress = self.progress;
        self.newest.retain(|_, newest| *newest >= progress);
        let newest = &self.newest;
        self.ended.retain(|offset, ended| {
            *offset >= progress || *ended == Ended::Submitted || newest.contains_key(offset)
        });
        let recorded = self.ended.values().filter_map(|ended| match ended {
            Ended::Recorded(op) => Some(*op),
            Ended::Submitted => None,
        });
        recorded.min().map_or(self.op_next, |first| first.min(self.op_next))
    }

    /// Whether all half messages of a transaction are behind the progress.
    fn is_past(&self, origin: u64) -> bool {
        origin < self.progress && !self.newest.contains_key(&origin)
    }

    fn record(&mut self, offsets: &[u64], op: u64) {
        for offset in offsets {
            self.ended.insert(*offset, Ended::Recorded(op));
        }
    }
}

impl Ended {
    fn standing(self) -> Standing {
        match self {
            Self::Submitted => Standing::Ending,
            Self::Recorded(_) => Standing::Done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(offset: u64) -> Place {
        Place { origin: offset, offset }
    }

    fn again(origin: u64, offset: u64) -> Place {
        Place { origin, offset }
    }

    #[test]
    fn a_transaction_ends_once() {
        let mut outcomes = Outcomes::from(0, 0, 0);
        assert_eq!(outcomes.begin(first(3)), Ok(()));
        assert_eq!(outcomes.standing(first(3)), Standing::Ending);
        assert_eq!(outcomes.begin(first(3)), Err(NotEnded::Already));
        outcomes.recorded(first(3), 0);
        assert_eq!(outcomes.begin(first(3)), Err(NotEnded::Already));
        assert_eq!(outcomes.unread(3), Some(Standing::Done));
    }

    #[test]
    fn an_end_of_which_nothing_was_kept_may_be_tried_again() {
        let mut outcomes = Outcomes::from(0, 0, 0);
        outcomes.begin(first(3)).unwrap();
        outcomes.failed(first(3));
        assert_eq!(outcomes.standing(first(3)), Standing::Open);
        outcomes.begin(first(3)).unwrap();
        outcomes.recorded(first(3), 0);
        outcomes.failed(first(3));
        assert_eq!(outcomes.standing(first(3)), Standing::Done, "it is recorded");
    }

    #[test]
    fn ends_have_a_bound_and_the_next_turn_makes_room() {
        let mut outcomes = Outcomes::from(0, 0, 0);
        for offset in 0..MAX_KEPT as u64 {
            outcomes.begin(first(offset)).unwrap();
            outcomes.recorded(first(offset), offset);
        }
        let next = first(MAX_KEPT as u64);
        assert_eq!(outcomes.begin(next), Err(NotEnded::Full));
        outcomes.advance(next.offset);
        assert_eq!(outcomes.begin(next), Ok(()));
    }

    /// A late end by the first half message and the answer to a question end the same transaction.
    #[test]
    fn every_half_message_of_a_transaction_ends_it() {
        let mut outcomes = Outcomes::from(0, 0, 0);
        outcomes.renewed(3, 8);
        assert_eq!(outcomes.standing(first(3)), Standing::Done, "its newest is further on");
        assert_eq!(outcomes.standing(again(3, 8)), Standing::Open);
        outcomes.advance(5);
        assert_eq!(outcomes.begin(first(3)), Ok(()), "behind the progress, and not past");
        outcomes.recorded(first(3), 0);
        assert_eq!(outcomes.standing(again(3, 8)), Standing::Done);
        assert_eq!(outcomes.begin(again(3, 8)), Err(NotEnded::Already));
        assert_eq!(outcomes.advance(8), 0, "the half message at 8 needs the record");
        assert_eq!(outcomes.begin(again(3, 8)), Err(NotEnded::Already));
        outcomes.read_op(0, &[3]);
        assert_eq!(outcomes.advance(9), 1);
        assert!(outcomes.ended.is_empty() && outcomes.newest.is_empty());
        assert_eq!(outcomes.begin(first(3)), Err(NotEnded::Already), "long ago");
    }

    /// What another node reads from the op offset on gives the same answers.
    #[test]
    fn the_records_from_the_op_progress_on_are_enough() {
        let mut outcomes = Outcomes::from(0, 0, 0);
        for (nth, offset) in [4, 0, 2, 6].into_iter().enumerate() {
            outcomes.begin(first(offset)).unwrap();
            outcomes.recorded(first(offset), nth as u64);
        }
        (0..4).for_each(|op| assert!(outcomes.pass_own_op(op), "{op}"));
        assert_eq!(outcomes.advance(1), 0, "offset 4 is recorded first");
        assert_eq!(outcomes.advance(5), 3);
        assert_eq!(outcomes.advance(7), 4);
    }

    #[test]
    fn what_is_on_its_way_is_not_forgotten() {
        let mut outcomes = Outcomes::from(0, 0, 0);
        outcomes.begin(first(1)).unwrap();
        assert_eq!(outcomes.advance(5), 0);
        assert_eq!(outcomes.begin(first(1)), Err(NotEnded::Already));
        outcomes.read_op(0, &[1]);
        assert_eq!(outcomes.advance(5), 1);
    }
}
