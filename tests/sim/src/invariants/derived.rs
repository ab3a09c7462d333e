//! Rot, files that are derived, and the head of the log.

use super::Invariant;
use crate::ghost::{Ended, Ghost, Seen};

/// a reader gets the bytes that were committed or none.
#[derive(Debug, Default)]
pub(super) struct RotIsNotServed;

impl Invariant for RotIsNotServed {
    fn name(&self) -> &'static str {
        "R-15 rot is not served"
    }

    fn check(&mut self, ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        let Seen::Read { member, index, hash } = seen else { return Ok(()) };
        match ghost.committed(*index) {
            Some(committed) if committed.entry.hash == *hash => Ok(()),
            other => Err(format!("n{member} gave a reader entry {index}, committed is {other:?}")),
        }
    }
}

/// without index and checkpoint a member recovers the same log.
#[derive(Debug, Default)]
pub(super) struct IndexIsDerived;

impl Invariant for IndexIsDerived {
    fn name(&self) -> &'static str {
        "R-16 the index is derived"
    }

    fn check(&mut self, ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        let Seen::Started { member, log, before: Ended::LostIndex, .. } = seen else {
            return Ok(());
        };
        let Some(node) = ghost.member(*member) else { return Ok(()) };
        if node.log.last() == log.last() {
            return Ok(());
        }
        let (had, has) = (node.log.last(), log.last());
        Err(format!("n{member} lost its index: its log ended with {had:?}, now with {has:?}"))
    }
}

/// only what is committed is deleted at the head of a log, or never copied to it.
#[derive(Debug, Default)]
pub(super) struct OnlyCommittedIsTrimmed;

impl Invariant for OnlyCommittedIsTrimmed {
    fn name(&self) -> &'static str {
        "R-19 only what is committed is trimmed"
    }

    fn check(&mut self, ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        let (member, first) = match seen {
            Seen::Trimmed { member, first } => (member, *first),
            Seen::Appended { member, entry } => {
                let empty = ghost.member(*member).is_some_and(|node| node.log.last().is_none());
                if !empty {
                    return Ok(());
                }
                (member, entry.index)
            }
            _ => return Ok(()),
        };
        if first > ghost.committed.len() as u64 {
            let committed = ghost.committed.len();
            return Err(format!(
                "the log of n{member} begins at entry {first}, {committed} entries are committed"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{appended, fresh, judge, started};
    use super::*;

    #[test]
    fn other_bytes_than_the_committed_ones_are_found() {
        let start = [started(0, &[1], Ended::Never), Seen::Committed { member: 0, upto: 0 }];
        let read = |hash| [&start[..], &[Seen::Read { member: 0, index: 0, hash }]].concat();
        assert_eq!(judge(RotIsNotServed, &read(1000)), Ok(()));
        assert!(judge(RotIsNotServed, &read(1001)).is_err());
    }

    #[test]
    fn a_log_that_is_shorter_without_its_index_is_found() {
        let start = started(0, &[1, 1], Ended::Never);
        let same = [start.clone(), started(0, &[1, 1], Ended::LostIndex)];
        assert_eq!(judge(IndexIsDerived, &same), Ok(()));
        assert!(judge(IndexIsDerived, &[start, started(0, &[1], Ended::LostIndex)]).is_err());
    }

    #[test]
    fn a_head_that_goes_before_it_is_committed_is_found() {
        let start = [started(0, &[1, 1, 1], Ended::Never), Seen::Committed { member: 0, upto: 0 }];
        let trim = |first| [&start[..], &[Seen::Trimmed { member: 0, first }]].concat();
        assert_eq!(judge(OnlyCommittedIsTrimmed, &trim(1)), Ok(()));
        assert!(judge(OnlyCommittedIsTrimmed, &trim(2)).is_err());
        assert!(judge(OnlyCommittedIsTrimmed, &[fresh(1), appended(1, 1, 1)]).is_err());
    }
}
