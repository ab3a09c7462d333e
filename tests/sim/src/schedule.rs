//! What happens next: a heap ordered by virtual time, then by the order of planning.

use std::{cmp::Ordering, collections::BinaryHeap};

/// Planned happenings.
#[derive(Debug)]
pub struct Schedule<T> {
    heap: BinaryHeap<Planned<T>>,
    sequence: u64,
}

#[derive(Debug)]
struct Planned<T> {
    at: u64,
    sequence: u64,
    what: T,
}

impl<T> Planned<T> {
    fn key(&self) -> (u64, u64) {
        (self.at, self.sequence)
    }
}

impl<T> PartialEq for Planned<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Planned<T> {}

impl<T> PartialOrd for Planned<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Planned<T> {
    /// Turned round: the heap gives its greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<T> Default for Schedule<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), sequence: 0 }
    }
}

impl<T> Schedule<T> {
    /// Plans `what` for virtual millisecond `at`.
    pub fn plan(&mut self, at: u64, what: T) {
        self.sequence += 1;
        self.heap.push(Planned { at, sequence: self.sequence, what });
    }

    /// The next happening and its time.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        self.heap.pop().map(|planned| (planned.at, planned.what))
    }

    /// How many are planned.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing is planned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_of_one_time_the_one_planned_first() {
        let mut schedule = Schedule::default();
        schedule.plan(5, "late");
        schedule.plan(3, "first");
        schedule.plan(3, "second");
        let order: Vec<_> = std::iter::from_fn(|| schedule.pop()).collect();
        assert_eq!(order, [(3, "first"), (3, "second"), (5, "late")]);
        assert!(schedule.is_empty());
    }
}
