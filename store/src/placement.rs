//! Where a record goes in its queue: one rule for the assigner of offsets and for the dispatcher.

/// How far a recorded offset may lie beyond the next unit. A larger step is not a gap that a queue
/// can be filled up to, but a damaged or foreign record.
const MAX_GAP: u64 = 1 << 16;
/// No queue reaches this offset; a first record beyond it is damaged.
const MAX_OFFSET: u64 = 1 << 48;

/// The end of one queue at some log position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct QueueEnd {
    /// Offset of the next unit.
    pub(crate) next: u64,
    /// Records before this physical offset are accounted for.
    pub(crate) seen: u64,
    /// False where `next` is only what old files said, so that the first record decides.
    pub(crate) anchored: bool,
}

impl QueueEnd {
    /// Offset of a record that says it has `recorded`: never before the next unit, because a queue
    /// that a Java broker rebuilt after a kill repeats offsets (spec: store-dledger.md 6.9 A).
    pub(crate) fn place(&self, recorded: u64) -> u64 {
        if !self.anchored && recorded < MAX_OFFSET {
            return recorded;
        }
        match recorded.checked_sub(self.next) {
            Some(gap) if gap <= MAX_GAP => recorded,
            _ => self.next,
        }
    }

    /// Takes into account what a snapshot of the journal at `physical` says of the next offset. A
    /// queue that is known from its messages is never moved back. Gives whether it was moved.
    pub(crate) fn know(&mut self, next: u64, physical: u64) -> bool {
        if next >= MAX_OFFSET || (self.anchored && self.next >= next) {
            return false;
        }
        *self = Self { next, seen: self.seen.max(physical), anchored: true };
        true
    }

    /// Takes a record of `size` bytes at `physical` into account; returns its offset, or `None`
    /// where it already was.
    pub(crate) fn fold(&mut self, recorded: u64, physical: u64, size: u32) -> Option<u64> {
        if physical < self.seen {
            return None;
        }
        let offset = self.place(recorded);
        *self = Self { next: offset + 1, seen: physical + u64::from(size), anchored: true };
        Some(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_offsets_go_to_the_end_and_steps_forward_are_followed() {
        let mut end = QueueEnd { next: 5, seen: 100, anchored: true };
        assert_eq!(end.fold(3, 50, 10), None);
        assert_eq!(end.fold(5, 100, 10), Some(5));
        assert_eq!(end.fold(2, 110, 10), Some(6));
        assert_eq!(end.fold(9, 120, 10), Some(9));
        assert_eq!(end.fold(u64::MAX, 130, 10), Some(10));
    }

    #[test]
    fn a_snapshot_moves_a_queue_forward_only() {
        let mut end = QueueEnd::default();
        assert!(end.know(7, 500));
        assert!(!end.know(5, 600), "it is known to be further");
        assert_eq!(end, QueueEnd { next: 7, seen: 500, anchored: true });
        assert_eq!(end.fold(7, 700, 10), Some(7));
        assert!(!end.know(u64::MAX, 800), "no queue is so long");
    }

    #[test]
    fn the_first_record_anchors_a_queue_known_from_old_files() {
        let mut end = QueueEnd { next: 70, seen: 0, anchored: false };
        assert_eq!(end.fold(40, 0, 10), Some(40));
        assert_eq!(end.next, 41);
    }
}
