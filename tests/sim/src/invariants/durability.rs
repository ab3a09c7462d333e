//! What lies on disks when it is said to.

use std::collections::{BTreeMap, BTreeSet};

use super::Invariant;
use crate::ghost::{Ghost, Seen};

/// R-12, of one member: it vouches only for what its disk holds, as the policy counts it.
#[derive(Debug, Default)]
pub(super) struct KeptBeforeSaid {
    kept: BTreeMap<usize, u64>,
}

impl Invariant for KeptBeforeSaid {
    fn name(&self) -> &'static str {
        "R-12 kept before it is said"
    }

    fn check(&mut self, _ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::Kept { member, upto } => {
                match upto {
                    Some(upto) => self.kept.insert(*member, *upto),
                    None => self.kept.remove(member),
                };
                Ok(())
            }
            Seen::Vouched { member, upto } => match self.kept.get(member) {
                Some(kept) if upto <= kept => Ok(()),
                kept => Err(format!("n{member} vouches for entry {upto}, its disk has {kept:?}")),
            },
            _ => Ok(()),
        }
    }
}

/// R-12, of the group: a leader commits what a majority has kept.
#[derive(Debug, Default)]
pub(super) struct QuorumKeeps {
    /// Who has kept an entry, by term and index: of each member the last entry and all before it.
    holders: BTreeMap<(u64, u64), BTreeSet<usize>>,
    counted: BTreeMap<usize, u64>,
}

impl QuorumKeeps {
    fn kept(&mut self, ghost: &Ghost, member: usize, upto: u64) {
        let from = self.counted.get(&member).map_or(0, |counted| counted + 1);
        let Some(log) = ghost.member(member).map(|member| &member.log) else { return };
        for entry in (from..=upto).filter_map(|index| log.get(index)) {
            self.holders.entry((entry.term, entry.index)).or_default().insert(member);
        }
        self.counted.insert(member, upto);
    }

    fn cut(&mut self, ghost: &Ghost, member: usize, from: u64) {
        let Some(log) = ghost.member(member).map(|member| &member.log) else { return };
        for entry in log.entries().iter().filter(|entry| entry.index >= from) {
            if let Some(holders) = self.holders.get_mut(&(entry.term, entry.index)) {
                holders.remove(&member);
            }
        }
        self.count_down(member, from);
    }

    fn count_down(&mut self, member: usize, from: u64) {
        match from.checked_sub(1) {
            Some(last) => {
                if let Some(counted) = self.counted.get_mut(&member) {
                    *counted = last.min(*counted);
                }
            }
            None => drop(self.counted.remove(&member)),
        }
    }
}

impl Invariant for QuorumKeeps {
    fn name(&self) -> &'static str {
        "R-12 a majority keeps what is committed"
    }

    fn check(&mut self, ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::Kept { member, upto: Some(upto) } => self.kept(ghost, *member, *upto),
            Seen::Truncated { member, from } => self.cut(ghost, *member, *from),
            // What it had kept before a disk was replaced counted when it was counted: entries
            // stay, only the counting begins anew.
            Seen::Started { member, .. } => self.count_down(*member, 0),
            Seen::Committed { member, upto } => {
                let Some(node) = ghost.member(*member) else { return Ok(()) };
                if node.leads.is_none() || node.commit >= Some(*upto) {
                    return Ok(());
                }
                let entry = node.log.get(*upto);
                let holders = entry.and_then(|entry| self.holders.get(&(entry.term, entry.index)));
                if holders.map_or(0, BTreeSet::len) < ghost.quorum() {
                    return Err(format!("n{member} commits entry {upto}, kept by {holders:?}"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// after a failed write or sync a member vouches for nothing until it has restarted.
#[derive(Debug, Default)]
pub(super) struct SilentAfterDiskError {
    failed: BTreeSet<usize>,
}

impl Invariant for SilentAfterDiskError {
    fn name(&self) -> &'static str {
        "R-13 silent after a disk error"
    }

    fn check(&mut self, _ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::DiskFailed { member } => {
                self.failed.insert(*member);
            }
            Seen::Started { member, .. } => {
                self.failed.remove(member);
            }
            Seen::Vouched { member, .. } | Seen::Granted { member, .. }
                if self.failed.contains(member) =>
            {
                return Err(format!("n{member} goes on after its disk failed: {seen:?}"));
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

    fn kept(member: usize, upto: u64) -> Seen {
        Seen::Kept { member, upto: Some(upto) }
    }

    #[test]
    fn a_word_that_the_disk_does_not_keep_is_found() {
        let vouched = Seen::Vouched { member: 0, upto: 3 };
        assert_eq!(judge(KeptBeforeSaid::default(), &[kept(0, 3), vouched.clone()]), Ok(()));
        assert!(judge(KeptBeforeSaid::default(), &[kept(0, 2), vouched.clone()]).is_err());
        let lost = Seen::Kept { member: 0, upto: None };
        assert!(judge(KeptBeforeSaid::default(), &[kept(0, 3), lost, vouched]).is_err());
    }

    #[test]
    fn a_commit_that_only_a_minority_keeps_is_found() {
        let start = [
            started(0, &[1, 1], Ended::Never),
            started(1, &[1, 1], Ended::Never),
            Seen::Led { member: 0, term: 1 },
        ];
        let committed = Seen::Committed { member: 0, upto: 1 };
        let good = [&start[..], &[kept(0, 1), kept(1, 1), committed.clone()]].concat();
        assert_eq!(judge(QuorumKeeps::default(), &good), Ok(()));
        let bad = [&start[..], &[kept(0, 1), kept(1, 0), committed.clone()]].concat();
        assert!(judge(QuorumKeeps::default(), &bad).is_err());
        let cut = Seen::Truncated { member: 1, from: 1 };
        let bad = [&start[..], &[kept(0, 1), kept(1, 1), cut, committed]].concat();
        assert!(judge(QuorumKeeps::default(), &bad).is_err());
    }

    #[test]
    fn a_member_that_vouches_after_a_disk_error_is_found() {
        let failed = Seen::DiskFailed { member: 0 };
        let vouched = Seen::Vouched { member: 0, upto: 0 };
        let restart = started(0, &[1], Ended::Killed);
        let good = [failed.clone(), restart, vouched.clone()];
        assert_eq!(judge(SilentAfterDiskError::default(), &good), Ok(()));
        assert!(judge(SilentAfterDiskError::default(), &[failed, vouched]).is_err());
    }
}
