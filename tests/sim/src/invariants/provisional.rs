//! Members that may have forgotten what they vouched for.

use std::collections::{BTreeMap, BTreeSet};

use super::Invariant;
use crate::ghost::{Ghost, Member, Seen};

/// Whether a member came back with less than it had and does not hold yet what was committed then.
fn is_unproved(member: &Member, ghost: &Ghost) -> bool {
    member.before.forgets() && !ghost.holds(member, member.committed_at_start)
}

/// R-14, of the member: with an empty disk in a group that has a history it says that it is
/// provisional whenever it votes.
#[derive(Debug, Default)]
pub(super) struct ForgetfulSaySo;

impl Invariant for ForgetfulSaySo {
    fn name(&self) -> &'static str {
        "R-14 a forgetful member says so"
    }

    fn check(&mut self, ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        let Seen::Granted { member, term, candidate, provisional: false, .. } = seen else {
            return Ok(());
        };
        match ghost.member(*member) {
            Some(node) if node.log.last().is_none() && is_unproved(node, ghost) => Err(format!(
                "n{member} came back empty and gave n{candidate} a full vote in term {term}"
            )),
            _ => Ok(()),
        }
    }
}

/// R-14, of the group: what a forgetful member keeps counts only once it holds all that was
/// committed when it came back.
#[derive(Debug, Default)]
pub(super) struct ForgetfulDoNotCount {
    /// Who kept an entry, by term and index, while it was proved.
    holders: BTreeMap<(u64, u64), BTreeSet<usize>>,
    counted: BTreeMap<usize, u64>,
}

impl Invariant for ForgetfulDoNotCount {
    fn name(&self) -> &'static str {
        "R-14 a forgetful member does not count"
    }

    fn check(&mut self, ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::Started { member, .. } => {
                self.counted.remove(member);
            }
            Seen::Truncated { member, from } => {
                if let Some(counted) = self.counted.get_mut(member) {
                    *counted = (*counted).min(*from);
                }
            }
            Seen::Kept { member, upto: Some(upto) } => {
                let Some(node) = ghost.member(*member) else { return Ok(()) };
                if is_unproved(node, ghost) {
                    return Ok(());
                }
                let from = self.counted.insert(*member, *upto).unwrap_or(0);
                for entry in (from..=*upto).filter_map(|index| node.log.get(index)) {
                    self.holders.entry((entry.term, entry.index)).or_default().insert(*member);
                }
            }
            Seen::Committed { member, upto } => {
                let Some(node) = ghost.member(*member) else { return Ok(()) };
                if node.leads.is_none() || node.commit >= Some(*upto) {
                    return Ok(());
                }
                let entry = node.log.get(*upto);
                let holders = entry.and_then(|entry| self.holders.get(&(entry.term, entry.index)));
                if holders.map_or(0, BTreeSet::len) < ghost.quorum() {
                    return Err(format!(
                        "n{member} commits entry {upto}; of those that keep it only {holders:?} \
                         had forgotten nothing"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{appended, judge, started};
    use super::*;
    use crate::ghost::Ended;

    fn history() -> Vec<Seen> {
        vec![
            started(0, &[1, 1], Ended::Never),
            started(1, &[1, 1], Ended::Never),
            started(2, &[], Ended::Never),
            Seen::Committed { member: 1, upto: 1 },
            started(1, &[], Ended::Wiped),
        ]
    }

    #[test]
    fn a_full_vote_of_an_empty_member_is_found() {
        let vote = |provisional| Seen::Granted {
            member: 1,
            term: 2,
            candidate: 2,
            stored: true,
            provisional,
        };
        assert_eq!(judge(ForgetfulSaySo, &[history(), vec![vote(true)]].concat()), Ok(()));
        assert!(judge(ForgetfulSaySo, &[history(), vec![vote(false)]].concat()).is_err());
        let proved = vec![appended(1, 1, 0), appended(1, 1, 1), vote(false)];
        assert_eq!(judge(ForgetfulSaySo, &[history(), proved].concat()), Ok(()));
    }

    #[test]
    fn a_commit_that_rests_on_a_forgetful_member_is_found() {
        let kept = |member, upto| Seen::Kept { member, upto: Some(upto) };
        let led = |upto| {
            vec![Seen::Led { member: 0, term: 1 }, kept(0, upto), appended(1, 1, 0), kept(1, 0)]
        };
        let early = [history(), led(1), vec![Seen::Committed { member: 0, upto: 0 }]].concat();
        assert!(judge(ForgetfulDoNotCount::default(), &early).is_err());
        let late = vec![appended(1, 1, 1), kept(1, 1), Seen::Committed { member: 0, upto: 1 }];
        assert_eq!(
            judge(ForgetfulDoNotCount::default(), &[history(), led(1), late].concat()),
            Ok(())
        );
    }
}
