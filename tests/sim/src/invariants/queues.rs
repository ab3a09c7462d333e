//! Queues over the log.

use std::collections::BTreeMap;

use super::Invariant;
use crate::ghost::{Ghost, Seen};

/// B-4, B-5: in the committed log the offsets of each queue count from 0 without a gap, so that an
/// offset names one message, on every member and before and after a change of the lead.
#[derive(Debug, Default)]
pub(super) struct QueuesAreDense {
    next: BTreeMap<u32, u64>,
}

impl Invariant for QueuesAreDense {
    fn name(&self) -> &'static str {
        "B-5 queue offsets are dense"
    }

    fn check(&mut self, ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        let Seen::Committed { member, upto } = seen else { return Ok(()) };
        let Some(node) = ghost.member(*member) else { return Ok(()) };
        let new = ghost.committed.len() as u64..=*upto;
        for entry in new.filter_map(|index| node.log.get(index)) {
            let Some((queue, offset)) = entry.place else { continue };
            let next = self.next.entry(queue).or_default();
            if offset != *next {
                return Err(format!(
                    "n{member} commits {entry:?}, the next offset of queue {queue} is {next}"
                ));
            }
            *next += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{entry, fresh, judge};
    use super::*;
    use crate::ghost::Entry;

    #[test]
    fn a_gap_and_a_repeat_in_a_queue_are_found() {
        let history = |places: &[(u32, u64)]| {
            let mut seen = vec![fresh(0)];
            for (index, place) in (0..).zip(places) {
                let entry = Entry { place: Some(*place), ..entry(1, index) };
                seen.push(Seen::Appended { member: 0, entry });
            }
            seen.push(Seen::Committed { member: 0, upto: places.len() as u64 - 1 });
            seen
        };
        let check = QueuesAreDense::default;
        assert_eq!(judge(check(), &history(&[(0, 0), (1, 0), (0, 1)])), Ok(()));
        assert!(judge(check(), &history(&[(0, 0), (1, 0), (0, 2)])).is_err());
        assert!(judge(check(), &history(&[(0, 0), (1, 0), (0, 0)])).is_err());
    }
}
