//! What is committed.

use std::collections::BTreeSet;

use super::Invariant;
use crate::{
    ghost::{Ghost, Seen},
    java::JavaMembers,
};

/// no two members hold different bytes for committed at one index, and none skips an index.
#[derive(Debug, Default)]
pub(super) struct SameApplied;

impl Invariant for SameApplied {
    fn name(&self) -> &'static str {
        "R-7 state-machine safety"
    }

    fn check(&mut self, ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        let Seen::Committed { member, upto } = seen else { return Ok(()) };
        let Some(node) = ghost.member(*member) else { return Ok(()) };
        let from = node.commit.map_or(0, |commit| commit + 1);
        let from = from.max(node.log.first().unwrap_or(0));
        if from > ghost.committed.len() as u64 {
            return Err(format!("n{member} commits entry {from} over a gap"));
        }
        for index in from..=*upto {
            let Some(entry) = node.log.get(index) else {
                return Err(format!("n{member} commits entry {index}, which it has not"));
            };
            match ghost.committed(index) {
                Some(known) if known.entry != *entry => {
                    return Err(format!(
                        "n{member} commits {entry:?} where {:?} was committed",
                        known.entry
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// what was committed, and what was acknowledged, is never contradicted by a later leader.
#[derive(Debug, Default)]
pub(super) struct CommittedStays {
    /// Submissions of which a client was told that they will never be committed.
    gone: BTreeSet<u64>,
}

impl Invariant for CommittedStays {
    fn name(&self) -> &'static str {
        "R-8 committed stays"
    }

    fn check(&mut self, ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::Appended { member, entry } if !ghost.may_lose => {
                match ghost.committed(entry.index) {
                    Some(known) if known.term < entry.term && known.entry != *entry => {
                        Err(format!(
                            "n{member} has a later {entry:?} where {:?} was committed",
                            known.entry
                        ))
                    }
                    _ => Ok(()),
                }
            }
            Seen::Resolved { token, gone: true, .. } => {
                self.gone.insert(*token);
                match ghost.committed.iter().find(|known| known.entry.token == *token) {
                    Some(known) => Err(format!(
                        "submission {token} was given up, {:?} is committed",
                        known.entry
                    )),
                    None => Ok(()),
                }
            }
            Seen::Committed { member, upto } => {
                let new = ghost.committed.len() as u64..=*upto;
                let log = ghost.member(*member).map(|node| &node.log);
                let back = new
                    .filter_map(|index| log?.get(index))
                    .find(|entry| self.gone.contains(&entry.token));
                match back {
                    Some(entry) => Err(format!("n{member} commits {entry:?}, which was given up")),
                    None => Ok(()),
                }
            }
            Seen::Resolved { member, acknowledged: Some((index, hash)), token, .. } => {
                match ghost.committed(*index) {
                    Some(known) if known.entry.hash == *hash => Ok(()),
                    other => Err(format!(
                        "n{member} acknowledged submission {token} as entry {index}, where {other:?} \
                         was committed"
                    )),
                }
            }
            _ => Ok(()),
        }
    }
}

/// the commit index of a process never falls, and is no greater than its last entry.
#[derive(Debug, Default)]
pub(super) struct CommitGrows;

impl Invariant for CommitGrows {
    fn name(&self) -> &'static str {
        "R-9 monotonic commit"
    }

    fn check(&mut self, ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        let Seen::Committed { member, upto } = seen else { return Ok(()) };
        let Some(node) = ghost.member(*member) else { return Ok(()) };
        if node.commit.is_some_and(|commit| *upto < commit) {
            return Err(format!("n{member} commits {upto} after {:?}", node.commit));
        }
        if node.log.last_index().is_none_or(|last| last < *upto) {
            let last = node.log.last_index();
            return Err(format!("n{member} commits {upto}, its last entry is {last:?}"));
        }
        Ok(())
    }
}

/// R-9, of the group: a leader commits first; a follower holds nothing for committed that no leader
/// has committed.
#[derive(Debug, Default)]
pub(super) struct LeaderCommitsFirst {
    /// It may have led a moment ago, when it committed.
    deposed: Option<usize>,
}

impl Invariant for LeaderCommitsFirst {
    fn name(&self) -> &'static str {
        "R-9 a leader commits first"
    }

    fn check(&mut self, ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        if let Seen::Deposed { member } = seen {
            self.deposed = Some(*member);
        } else if seen.member() != self.deposed {
            self.deposed = None;
        }
        let Seen::Committed { member, upto } = seen else { return Ok(()) };
        let Some(node) = ghost.member(*member) else { return Ok(()) };
        let led = node.leads.is_some() || self.deposed == Some(*member);
        if !led && *upto >= ghost.committed.len() as u64 {
            return Err(format!(
                "n{member} follows and commits entry {upto}, leaders have committed {} entries",
                ghost.committed.len()
            ));
        }
        Ok(())
    }
}

/// a leader commits by way of entries of its own term only, and opens its term by an entry.
/// Java's do neither.
#[derive(Debug, Default)]
pub(super) struct OwnTermOnly {
    pub(super) java: JavaMembers,
}

impl Invariant for OwnTermOnly {
    fn name(&self) -> &'static str {
        "R-10 own term only"
    }

    fn check(&mut self, ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        let ours = seen.member().filter(|member| !self.java.models(*member));
        let node = ours.and_then(|member| ghost.member(member));
        let Some((node, term)) = node.and_then(|node| Some((node, node.leads?))) else {
            return Ok(());
        };
        match seen {
            Seen::Committed { member, upto } if node.commit < Some(*upto) => {
                match node.log.get(*upto) {
                    Some(entry) if entry.term != term => Err(format!(
                        "n{member} leads term {term} and commits entry {upto} of term {}",
                        entry.term
                    )),
                    _ => Ok(()),
                }
            }
            Seen::Appended { member, entry } if entry.term == term && !entry.opening => {
                let before = node.log.last().map(|last| last.term);
                if before == Some(term) {
                    return Ok(());
                }
                Err(format!("n{member} leads term {term}, entry {} does not open it", entry.index))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{appended, entry, fresh, judge, started};
    use super::*;
    use crate::ghost::{Ended, Entry};

    fn committed(member: usize, upto: u64) -> Seen {
        Seen::Committed { member, upto }
    }

    #[test]
    fn two_members_that_commit_different_entries_are_found() {
        let good =
            [started(0, &[1, 1], Ended::Never), committed(0, 1), started(1, &[1], Ended::Never)];
        let good = [&good[..], &[committed(1, 0)]].concat();
        assert_eq!(judge(SameApplied, &good), Ok(()));
        let bad = [
            started(0, &[1, 1], Ended::Never),
            committed(0, 1),
            started(1, &[1, 2], Ended::Never),
            committed(1, 1),
        ];
        assert!(judge(SameApplied, &bad).is_err());
        assert!(judge(SameApplied, &[fresh(0), committed(0, 0)]).is_err());
    }

    #[test]
    fn a_later_entry_over_a_committed_one_and_a_false_acknowledgement_are_found() {
        let before = [started(0, &[1], Ended::Never), committed(0, 0), fresh(1)];
        let over = [&before[..], &[appended(1, 2, 0)]].concat();
        assert!(judge(CommittedStays::default(), &over).is_err());
        let told = |hash| resolved(Some((0, hash)), false);
        assert_eq!(
            judge(CommittedStays::default(), &[&before[..], &[told(1000)]].concat()),
            Ok(())
        );
        assert!(judge(CommittedStays::default(), &[&before[..], &[told(1)]].concat()).is_err());
    }

    fn resolved(acknowledged: Option<(u64, u64)>, gone: bool) -> Seen {
        Seen::Resolved { member: 0, token: 5, acknowledged, gone }
    }

    #[test]
    fn a_submission_that_was_given_up_and_is_committed_is_found() {
        let entry = Entry { token: 5, ..entry(1, 0) };
        let appended = Seen::Appended { member: 0, entry };
        let history = |last: &[Seen]| [&[fresh(0), appended.clone()], last].concat();
        let late = history(&[resolved(None, true), committed(0, 0)]);
        assert!(judge(CommittedStays::default(), &late).is_err());
        let early = history(&[committed(0, 0), resolved(None, true)]);
        assert!(judge(CommittedStays::default(), &early).is_err());
        let unsure = history(&[resolved(None, false), committed(0, 0)]);
        assert_eq!(judge(CommittedStays::default(), &unsure), Ok(()));
    }

    #[test]
    fn a_commit_that_falls_or_runs_ahead_is_found() {
        let start = started(0, &[1, 1], Ended::Never);
        assert_eq!(judge(CommitGrows, &[start.clone(), committed(0, 0), committed(0, 1)]), Ok(()));
        assert!(judge(CommitGrows, &[start.clone(), committed(0, 1), committed(0, 0)]).is_err());
        assert!(judge(CommitGrows, &[start, committed(0, 2)]).is_err());
    }

    #[test]
    fn a_follower_that_commits_before_its_leader_is_found() {
        let start = [
            started(0, &[1], Ended::Never),
            started(1, &[1], Ended::Never),
            Seen::Led { member: 0, term: 1 },
        ];
        let history = |then: &[Seen]| [&start[..], then].concat();
        let check = LeaderCommitsFirst::default;
        assert_eq!(judge(check(), &history(&[committed(0, 0), committed(1, 0)])), Ok(()));
        assert!(judge(check(), &history(&[committed(1, 0)])).is_err());
        let at_once = [Seen::Deposed { member: 0 }, committed(0, 0)];
        assert_eq!(judge(check(), &history(&at_once)), Ok(()));
        let later = [Seen::Deposed { member: 0 }, Seen::Passed { at: 9 }, committed(0, 0)];
        assert!(judge(check(), &history(&later)).is_err());
    }

    #[test]
    fn a_commit_by_an_older_term_and_a_term_without_opening_are_found() {
        let led = [started(0, &[1], Ended::Never), Seen::Led { member: 0, term: 2 }];
        assert!(judge(OwnTermOnly::default(), &[&led[..], &[committed(0, 0)]].concat()).is_err());
        assert!(judge(OwnTermOnly::default(), &[&led[..], &[appended(0, 2, 1)]].concat()).is_err());
        let opening = Entry { opening: true, ..entry(2, 1) };
        let opening = Seen::Appended { member: 0, entry: opening };
        let good = [opening, appended(0, 2, 2), committed(0, 2)];
        assert_eq!(judge(OwnTermOnly::default(), &[&led[..], &good[..]].concat()), Ok(()));
    }
}
