//! Votes and terms.

use std::collections::BTreeMap;

use super::Invariant;
use crate::ghost::{Ghost, Seen};

/// one vote in a term, across restarts, and durable before it is told.
#[derive(Debug, Default)]
pub(super) struct VoteOnce {
    votes: BTreeMap<(usize, u64), usize>,
}

impl Invariant for VoteOnce {
    fn name(&self) -> &'static str {
        "R-2 vote once"
    }

    fn check(&mut self, _ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::Started { member, before, .. } if before.forgets() => {
                self.votes.retain(|(voter, _), _| voter != member);
                Ok(())
            }
            Seen::Granted { member, term, candidate, stored, .. } => {
                if !stored {
                    return Err(format!(
                        "n{member} told n{candidate} its vote in term {term} before it was durable"
                    ));
                }
                match self.votes.insert((*member, *term), *candidate) {
                    Some(other) if other != *candidate => Err(format!(
                        "n{member} voted for n{candidate} in term {term}, and for n{other} before"
                    )),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}

/// the term of a member never falls, across restarts.
#[derive(Debug, Default)]
pub(super) struct TermsGrow {
    highest: BTreeMap<usize, u64>,
}

impl Invariant for TermsGrow {
    fn name(&self) -> &'static str {
        "R-3 terms grow"
    }

    fn check(&mut self, _ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        let (member, term) = match seen {
            Seen::Started { member, term, before, .. } => {
                if before.forgets() {
                    self.highest.remove(member);
                }
                (*member, *term)
            }
            Seen::Term { member, term } | Seen::Led { member, term } => (*member, *term),
            // What was said is known to others: a restart must not fall behind it. What was only
            // thought of may be forgotten.
            Seen::Spoke { member, term } => {
                let highest = self.highest.entry(*member).or_default();
                *highest = (*highest).max(*term);
                return Ok(());
            }
            _ => return Ok(()),
        };
        let highest = self.highest.entry(member).or_default();
        if term < *highest {
            return Err(format!("n{member} is in term {term} after it was in term {highest}"));
        }
        if !matches!(seen, Seen::Term { .. }) {
            *highest = term;
        }
        Ok(())
    }
}

/// R-3, of those who vote: a request of a larger term is adopted before the log is looked at.
#[derive(Debug, Default)]
pub(super) struct TermBeforeLog;

impl Invariant for TermBeforeLog {
    fn name(&self) -> &'static str {
        "R-3 the term before the log"
    }

    fn check(&mut self, _ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::Refused { member, term, asked } if term < asked => Err(format!(
                "n{member} refused a vote in term {asked} because of its log and stayed in {term}"
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{judge, started};
    use super::*;
    use crate::ghost::Ended;

    fn granted(term: u64, candidate: usize, stored: bool) -> Seen {
        Seen::Granted { member: 0, term, candidate, stored, provisional: false }
    }

    #[test]
    fn a_second_vote_and_an_early_one_are_found() {
        let restart = started(0, &[], Ended::PowerCut);
        let good = [granted(1, 1, true), restart.clone(), granted(1, 1, true), granted(2, 2, true)];
        assert_eq!(judge(VoteOnce::default(), &good), Ok(()));
        let twice = [granted(1, 1, true), restart, granted(1, 2, true)];
        assert!(judge(VoteOnce::default(), &twice).is_err());
        assert!(judge(VoteOnce::default(), &[granted(1, 1, false)]).is_err());
    }

    #[test]
    fn a_refusal_that_leaves_the_term_as_it_was_is_found() {
        let refused = |term| [Seen::Refused { member: 0, term, asked: 4 }];
        assert_eq!(judge(TermBeforeLog, &refused(4)), Ok(()));
        assert!(judge(TermBeforeLog, &refused(3)).is_err());
    }

    #[test]
    fn a_term_that_falls_is_found_unless_it_was_never_told() {
        let term = |term| Seen::Term { member: 0, term };
        let spoke = |term| Seen::Spoke { member: 0, term };
        let restart = started(0, &[1], Ended::PowerCut);
        assert_eq!(judge(TermsGrow::default(), &[term(3), restart.clone(), term(2)]), Ok(()));
        assert!(judge(TermsGrow::default(), &[term(3), spoke(3), restart]).is_err());
        assert!(judge(TermsGrow::default(), &[spoke(3), term(2)]).is_err());
        let wiped = started(0, &[1], Ended::Wiped);
        assert_eq!(judge(TermsGrow::default(), &[spoke(3), wiped]), Ok(()));
    }
}
