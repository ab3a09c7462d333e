//! How far the application is in one queue.

use std::collections::BTreeMap;

/// Messages of one queue that were handed out, and the offset up to which all are done.
///
/// Messages may be finished in any order; what is committed never passes one that is not.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Queue offset of each message that was handed out and not yet passed, and whether it is done.
    open: BTreeMap<i64, bool>,
    /// Where to go on when nothing is open.
    next: i64,
}

impl Progress {
    /// Nothing handed out yet; the first pull is at `next`.
    pub(crate) fn new(next: i64) -> Self {
        Self { open: BTreeMap::new(), next }
    }

    /// A message was handed out.
    pub(crate) fn started(&mut self, offset: i64) {
        self.open.insert(offset, false);
    }

    /// The next pull is at `next`: everything before it was handed out or does not matter.
    pub(crate) fn pulled_to(&mut self, next: i64) {
        self.next = next;
    }

    /// A message is done with.
    pub(crate) fn finished(&mut self, offset: i64) {
        if let Some(done) = self.open.get_mut(&offset) {
            *done = true;
        }
        while let Some(first) = self.open.first_entry() {
            if !*first.get() {
                break;
            }
            first.remove();
        }
    }

    /// Messages that are handed out and cannot be passed yet.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    /// The offset to commit: everything before it is done.
    pub(crate) fn committable(&self) -> i64 {
        self.open.first_key_value().map_or(self.next, |(offset, _)| *offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_message_holds_the_offset_back() {
        let mut progress = Progress::new(5);
        assert_eq!(progress.committable(), 5);
        for offset in [5, 6, 7] {
            progress.started(offset);
        }
        progress.pulled_to(8);
        progress.finished(6);
        progress.finished(7);
        assert_eq!((progress.committable(), progress.open()), (5, 3));
        progress.finished(5);
        assert_eq!((progress.committable(), progress.open()), (8, 0));
    }

    #[test]
    fn offsets_that_were_filtered_out_are_passed() {
        let mut progress = Progress::new(0);
        progress.pulled_to(100);
        assert_eq!(progress.committable(), 100);
        progress.started(150);
        progress.pulled_to(200);
        assert_eq!(progress.committable(), 150);
        progress.finished(150);
        assert_eq!(progress.committable(), 200);
    }

    #[test]
    fn finishing_twice_or_a_stranger_changes_nothing() {
        let mut progress = Progress::new(0);
        progress.started(0);
        progress.finished(9);
        assert_eq!(progress.committable(), 0);
        progress.pulled_to(1);
        progress.finished(0);
        progress.finished(0);
        assert_eq!(progress.committable(), 1);
    }
}
