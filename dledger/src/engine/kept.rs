//! Entries that members sent and that are not written yet.

use std::collections::{BTreeMap, VecDeque};

use dledger_core::{CallId, LogIndex, NodeId};

use crate::range::CheckedRange;

/// Most bytes that are kept. The node keeps to less; beyond, the oldest are forgotten, as if lost on
/// their way.
pub(super) const LIMIT: usize = 64 * 1024 * 1024;

/// Checked entries, by who sent them and with which call.
#[derive(Debug, Default)]
pub(super) struct Kept {
    ranges: BTreeMap<(NodeId, CallId), CheckedRange>,
    bytes: usize,
    /// The last entry that came with a `TRUNCATE`: the node takes it or never speaks of it again.
    cut: Option<(NodeId, CallId)>,
}

impl Kept {
    pub(super) fn keep(&mut self, from: NodeId, call: CallId, range: CheckedRange) {
        self.bytes += range.bytes().len();
        if let Some(before) = self.ranges.insert((from, call), range) {
            self.bytes -= before.bytes().len();
        }
        while self.bytes > LIMIT && self.ranges.len() > 1 {
            let Some((_, oldest)) = self.ranges.pop_first() else { break };
            self.bytes -= oldest.bytes().len();
        }
    }

    /// As [`Kept::keep`] for the entry of a `TRUNCATE`; the one before is forgotten.
    pub(super) fn keep_cut(&mut self, from: NodeId, call: CallId, range: CheckedRange) {
        if let Some((from, call)) = self.cut.replace((from.clone(), call)) {
            self.take(from, call);
        }
        self.keep(from, call, range);
    }

    pub(super) fn take(&mut self, from: NodeId, call: CallId) -> Option<CheckedRange> {
        let range = self.ranges.remove(&(from, call))?;
        self.bytes -= range.bytes().len();
        Some(range)
    }

    /// How many ranges are kept, and their bytes.
    pub(super) fn waiting(&self) -> (usize, usize) {
        (self.ranges.len(), self.bytes)
    }

    /// Forgets what others than `leader` sent.
    pub(super) fn only_of(&mut self, leader: Option<&str>) {
        self.ranges.retain(|(from, _), _| Some(from.0.as_str()) == leader);
        self.bytes = self.ranges.values().map(|range| range.bytes().len()).sum();
    }
}

/// Kept entries that are to be written next.
#[derive(Debug)]
pub(super) struct Accept {
    pub(super) range: CheckedRange,
    pub(super) first: LogIndex,
}

/// In log order; each waits until not too much is written ahead of a flush.
#[derive(Debug, Default)]
pub(super) struct Accepts(pub(super) VecDeque<Accept>);

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::fixture::{FILE, Fixture};

    fn range(first: u64) -> CheckedRange {
        let mut log = Fixture::new(0);
        log.append(1, &[100; 4]);
        let bytes: Bytes = log.sent(first);
        CheckedRange::check(bytes, FILE).unwrap()
    }

    #[test]
    fn what_is_kept_is_taken_once_and_forgotten_with_its_leader() {
        let (n1, n2) = (NodeId("n1".to_owned()), NodeId("n2".to_owned()));
        let mut kept = Kept::default();
        kept.keep(n1.clone(), CallId(1), range(0));
        kept.keep(n2.clone(), CallId(2), range(1));
        assert_eq!(kept.take(n1.clone(), CallId(1)), Some(range(0)));
        assert_eq!(kept.take(n1.clone(), CallId(1)), None);
        kept.keep(n1.clone(), CallId(3), range(0));
        kept.only_of(Some("n2"));
        assert_eq!(kept.take(n1, CallId(3)), None);
        assert_eq!(kept.bytes, range(1).bytes().len());
        assert_eq!(kept.take(n2, CallId(2)), Some(range(1)));
        assert_eq!(kept.bytes, 0);
    }

    #[test]
    fn the_entry_of_an_older_cut_is_forgotten() {
        let n1 = NodeId("n1".to_owned());
        let mut kept = Kept::default();
        kept.keep_cut(n1.clone(), CallId(1), range(0));
        kept.keep_cut(n1.clone(), CallId(2), range(1));
        assert_eq!(kept.take(n1.clone(), CallId(1)), None);
        assert_eq!(kept.take(n1, CallId(2)), Some(range(1)));
    }
}
