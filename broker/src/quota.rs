//! A bound on what several threads at once make the broker keep.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How much is kept, and how much may be.
#[derive(Debug)]
pub(crate) struct Quota {
    taken: AtomicUsize,
    most: usize,
}

impl Quota {
    /// One of which nothing is taken.
    pub(crate) const fn new(most: usize) -> Self {
        Self { taken: AtomicUsize::new(0), most }
    }

    /// Takes so much; `false`, and nothing is taken, where that is more than is left.
    pub(crate) fn take(&self, count: usize) -> bool {
        let room = |taken: usize| taken.checked_add(count).filter(|sum| *sum <= self.most);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_ok()
    }

    /// Gives back so much of what was taken.
    pub(crate) fn give_back(&self, count: usize) {
        let less = |taken: usize| Some(taken.saturating_sub(count));
        // It gives a value for every count, so that this cannot fail.
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok();
    }

    /// The most that may be taken.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// How much is taken.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_bound_is_taken_and_what_is_given_back_may_be_taken_again() {
        let quota = Quota::new(3);
        assert!(quota.take(2));
        assert!(!quota.take(2), "one is left");
        assert!(quota.take(1));
        assert!(!quota.take(usize::MAX), "a sum beyond what a number holds");
        assert_eq!(quota.taken(), 3, "refusals take nothing");
        quota.give_back(2);
        assert!(quota.take(2));
        quota.give_back(9);
        assert_eq!(quota.taken(), 0, "never below nothing");
    }

    #[test]
    fn threads_that_take_at_once_get_what_there_is_and_no_more() {
        let quota = Quota::new(1000);
        let got: usize = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..1000).filter(|_| quota.take(1)).count()))
                .collect();
            takers.into_iter().map(|taker| taker.join().unwrap()).sum()
        });
        assert_eq!((got, quota.taken()), (1000, 1000));
    }
}
