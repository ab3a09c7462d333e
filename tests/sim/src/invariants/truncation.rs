//! What is cut off.

use std::collections::BTreeSet;

use super::Invariant;
use crate::ghost::{Entry, Ghost, Log, Seen};

/// R-11, first half: nothing is cut that the member holds for committed.
#[derive(Debug, Default)]
pub(super) struct NothingCommittedIsCut;

impl Invariant for NothingCommittedIsCut {
    fn name(&self) -> &'static str {
        "R-11 nothing committed is cut"
    }

    fn check(&mut self, ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        let Seen::Truncated { member, from } = seen else { return Ok(()) };
        let commit = ghost.member(*member).and_then(|member| member.commit);
        match commit {
            Some(commit) if *from <= commit => {
                Err(format!("n{member} cut entry {from}, it had committed up to {commit}"))
            }
            _ => Ok(()),
        }
    }
}

/// R-11, second half: after a restart the log is the beginning of what it was, perhaps with entries
/// that were being written when the process ended; nothing that was cut can be read again.
#[derive(Debug, Default)]
pub(super) struct NothingCutComesBack {
    /// What each member cut and has not written since.
    cut: BTreeSet<(usize, u64, u64)>,
}

impl NothingCutComesBack {
    fn is_strange(&self, member: usize, had: &Log, entry: &Entry) -> bool {
        match had.get(entry.index) {
            Some(known) => known != entry,
            None => self.cut.contains(&(member, entry.term, entry.index)),
        }
    }
}

impl Invariant for NothingCutComesBack {
    fn name(&self) -> &'static str {
        "R-11 nothing cut comes back"
    }

    fn check(&mut self, ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        let Some(member) = seen.member() else { return Ok(()) };
        let Some(node) = ghost.member(member) else { return Ok(()) };
        match seen {
            Seen::Truncated { from, .. } => {
                let gone = node.log.entries().iter().filter(|entry| entry.index >= *from);
                self.cut.extend(gone.map(|entry| (member, entry.term, entry.index)));
            }
            Seen::Appended { entry, .. } => {
                self.cut.remove(&(member, entry.term, entry.index));
            }
            Seen::Started { before, .. } if before.forgets() => {
                self.cut.retain(|(other, _, _)| *other != member);
            }
            Seen::Started { log, .. } => {
                let first = node.log.first().unwrap_or(0);
                let strange = log
                    .entries()
                    .iter()
                    .filter(|entry| entry.index >= first)
                    .find(|entry| self.is_strange(member, &node.log, entry));
                if let Some(entry) = strange {
                    let had = node.log.get(entry.index);
                    return Err(format!("n{member} restarts with {entry:?}, where it had {had:?}"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{judge, started};
    use super::*;
    use crate::ghost::Ended;

    #[test]
    fn a_cut_below_the_commit_is_found() {
        let start = [started(0, &[1, 1, 1], Ended::Never), Seen::Committed { member: 0, upto: 1 }];
        let cut = |from| [&start[..], &[Seen::Truncated { member: 0, from }]].concat();
        assert_eq!(judge(NothingCommittedIsCut, &cut(2)), Ok(()));
        assert!(judge(NothingCommittedIsCut, &cut(1)).is_err());
    }

    #[test]
    fn a_tail_that_was_cut_and_comes_back_is_found() {
        let cut = [started(0, &[1, 1, 1], Ended::Never), Seen::Truncated { member: 0, from: 1 }];
        let restart = |terms: &[u64]| [&cut[..], &[started(0, terms, Ended::PowerCut)]].concat();
        assert_eq!(judge(NothingCutComesBack::default(), &restart(&[1])), Ok(()));
        assert_eq!(judge(NothingCutComesBack::default(), &restart(&[])), Ok(()));
        assert!(judge(NothingCutComesBack::default(), &restart(&[1, 1])).is_err());
        assert!(judge(NothingCutComesBack::default(), &restart(&[2])).is_err());
        let being_written = restart(&[1, 2]);
        assert_eq!(judge(NothingCutComesBack::default(), &being_written), Ok(()));
    }
}
