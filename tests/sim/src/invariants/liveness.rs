//! What must happen once faults end.

use std::collections::BTreeMap;

use super::Invariant;
use crate::ghost::{Ghost, Seen};

/// What a member of a healed quorum can do for an election.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Voter {
    /// Term and index of its last entry.
    pub(crate) last: Option<(u64, u64)>,
    /// It vouches for what it once acknowledged: it is not provisional.
    pub(crate) is_firm: bool,
    /// If it has no entries, nothing tells that it ever had any.
    pub(crate) is_new: bool,
    /// Its log begins behind the first entry that there ever was.
    pub(crate) lacks_head: bool,
}

impl Voter {
    fn grants(&self, candidate: &Self) -> bool {
        let knows_of_more =
            self.lacks_head && candidate.last.is_none() && !std::ptr::eq(self, candidate);
        self.last <= candidate.last && !knows_of_more
    }
}

/// Whether one of `voters`, of a group of `members` of which the others are away, can be elected by
/// the rule of R-14: by a majority of firm votes; or of any, for a candidate that is new; or by all.
pub(crate) fn can_elect(voters: &[Voter], members: usize) -> bool {
    let is_majority = |count: usize| count > members / 2;
    voters.iter().any(|candidate| {
        let grants: Vec<_> = voters.iter().filter(|voter| voter.grants(candidate)).collect();
        let firm = grants.iter().filter(|voter| voter.is_firm).count();
        let is_new = candidate.last.is_none() && candidate.is_new;
        is_majority(firm) || (is_new && is_majority(grants.len())) || grants.len() == members
    })
}

/// R-20, first half: after healing there is a leader, with its term opened, in time, unless the
/// members that were healed cannot elect one by the rule.
#[derive(Debug, Default)]
pub(super) struct LeaderInTime {
    limit: Option<u64>,
}

impl Invariant for LeaderInTime {
    fn name(&self) -> &'static str {
        "R-20 a leader in time"
    }

    fn check(&mut self, _ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::Healed { limit } => self.limit = Some(*limit),
            Seen::Opened { .. } | Seen::Unelectable => self.limit = None,
            Seen::Passed { at } if self.limit.is_some_and(|limit| *at > limit) => {
                return Err(format!("no leader has opened a term by {:?}", self.limit));
            }
            _ => {}
        }
        Ok(())
    }
}

/// R-20, second half: every submission is answered, as long as the process lives that took it.
#[derive(Debug, Default)]
pub(super) struct EveryAppendResolves {
    /// Deadline and member of each submission without an answer.
    waiting: BTreeMap<u64, (u64, usize)>,
    earliest: u64,
}

impl Invariant for EveryAppendResolves {
    fn name(&self) -> &'static str {
        "R-20 every append resolves"
    }

    fn check(&mut self, _ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::Submitted { member, token, deadline } => {
                self.earliest =
                    if self.waiting.is_empty() { *deadline } else { self.earliest.min(*deadline) };
                self.waiting.insert(*token, (*deadline, *member));
            }
            Seen::Resolved { member, token, .. } if self.waiting.remove(token).is_none() => {
                return Err(format!("n{member} answered submission {token} twice"));
            }
            // Its clients see the connection close.
            Seen::Stopped { member } => self.waiting.retain(|_, (_, other)| other != member),
            Seen::Passed { at } if *at > self.earliest => {
                let late = self.waiting.iter().find(|(_, (deadline, _))| at > deadline);
                if let Some((token, (deadline, member))) = late {
                    return Err(format!(
                        "n{member} has not answered submission {token} by {deadline}"
                    ));
                }
                let left = self.waiting.values().map(|(deadline, _)| *deadline);
                self.earliest = left.min().unwrap_or(u64::MAX);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::judge;
    use super::*;

    #[test]
    fn a_group_without_a_leader_is_found_when_time_is_up() {
        let healed = Seen::Healed { limit: 100 };
        let passed = |at| Seen::Passed { at };
        let opened = Seen::Opened { member: 0 };
        let good = [healed.clone(), passed(100), opened, passed(200)];
        assert_eq!(judge(LeaderInTime::default(), &good), Ok(()));
        assert!(judge(LeaderInTime::default(), &[healed.clone(), passed(101)]).is_err());
        let waits = [healed, Seen::Unelectable, passed(101)];
        assert_eq!(judge(LeaderInTime::default(), &waits), Ok(()));
    }

    #[test]
    fn a_quorum_can_elect_where_the_firm_members_alone_can() {
        let firm = |term, index| Voter {
            last: Some((term, index)),
            is_firm: true,
            is_new: false,
            lacks_head: false,
        };
        let shaky = |term, index| Voter { is_firm: false, ..firm(term, index) };
        assert!(can_elect(&[firm(4, 576), firm(5, 573)], 3));
        assert!(!can_elect(&[firm(4, 576), shaky(5, 573)], 3), "the better log is provisional");
        assert!(!can_elect(&[firm(5, 576), shaky(4, 573)], 3), "one firm vote of three");
        assert!(can_elect(&[firm(4, 9), shaky(5, 1), firm(4, 8), firm(5, 1)], 5));
        assert!(!can_elect(&[firm(4, 9), shaky(5, 1), shaky(4, 8), firm(5, 1)], 5));
        assert!(can_elect(&[shaky(4, 9), shaky(5, 1), shaky(4, 8)], 3), "all of them");
    }

    #[test]
    fn members_without_entries_can_elect_where_they_are_new() {
        let empty = |is_new| Voter { last: None, is_firm: false, is_new, lacks_head: false };
        let being_filled = Voter { lacks_head: true, ..empty(false) };
        assert!(!can_elect(&[empty(true), being_filled], 3), "there are entries elsewhere");
        assert!(can_elect(&[empty(true), empty(false)], 3));
        assert!(!can_elect(&[empty(false), empty(false)], 3));
        assert!(!can_elect(&[empty(true)], 3));
    }

    #[test]
    fn a_submission_without_an_answer_and_one_with_two_are_found() {
        let submitted = Seen::Submitted { member: 0, token: 7, deadline: 100 };
        let resolved = Seen::Resolved { member: 0, token: 7, acknowledged: None, gone: false };
        let passed = Seen::Passed { at: 101 };
        let check = EveryAppendResolves::default;
        assert_eq!(judge(check(), &[submitted.clone(), resolved.clone(), passed.clone()]), Ok(()));
        assert!(judge(check(), &[submitted.clone(), passed.clone()]).is_err());
        let twice = [submitted.clone(), resolved.clone(), resolved];
        assert!(judge(check(), &twice).is_err());
        assert_eq!(judge(check(), &[submitted, Seen::Stopped { member: 0 }, passed]), Ok(()));
    }
}
