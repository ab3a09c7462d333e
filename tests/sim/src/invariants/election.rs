//! Who leads.

use std::collections::BTreeMap;

use super::Invariant;
use crate::ghost::{Ghost, Seen};

/// at most one leader in a term.
#[derive(Debug, Default)]
pub(super) struct OneLeader {
    leaders: BTreeMap<u64, usize>,
}

impl Invariant for OneLeader {
    fn name(&self) -> &'static str {
        "R-1 election safety"
    }

    fn check(&mut self, _ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        let Seen::Led { member, term } = seen else { return Ok(()) };
        match self.leaders.insert(*term, *member) {
            Some(other) if other != *member => {
                Err(format!("n{member} leads term {term}, which n{other} led"))
            }
            _ => Ok(()),
        }
    }
}

/// what was committed in a term is in the log of every leader of a later one.
#[derive(Debug, Default)]
pub(super) struct LeaderCompleteness;

impl Invariant for LeaderCompleteness {
    fn name(&self) -> &'static str {
        "R-6 leader completeness"
    }

    fn check(&mut self, ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        let Seen::Led { member, term } = seen else { return Ok(()) };
        let Some(leader) = ghost.member(*member) else { return Ok(()) };
        if ghost.may_lose {
            return Ok(());
        }
        let first = leader.log.first().unwrap_or(0);
        for committed in ghost.committed.iter().filter(|committed| committed.term < *term) {
            let index = committed.entry.index;
            if index < first {
                continue;
            }
            match leader.log.get(index) {
                Some(entry) if *entry == committed.entry => {}
                other => {
                    let term_of_entry = committed.entry.term;
                    return Err(format!(
                        "n{member} leads term {term} and has {other:?} where entry {index} of term \
                         {term_of_entry} was committed in term {}",
                        committed.term
                    ));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{appended, fresh, judge};
    use super::*;

    #[test]
    fn two_leaders_in_one_term_are_found() {
        let led = |member, term| Seen::Led { member, term };
        assert_eq!(judge(OneLeader::default(), &[led(0, 1), led(1, 2), led(0, 1)]), Ok(()));
        assert!(judge(OneLeader::default(), &[led(0, 1), led(1, 1)]).is_err());
    }

    #[test]
    fn a_leader_without_a_committed_entry_is_found() {
        let before = [
            fresh(0),
            fresh(1),
            Seen::Term { member: 0, term: 1 },
            appended(0, 1, 0),
            Seen::Committed { member: 0, upto: 0 },
        ];
        let led = Seen::Led { member: 1, term: 2 };
        let without = [&before[..], std::slice::from_ref(&led)].concat();
        assert!(judge(LeaderCompleteness, &without).is_err());
        let with = [&before[..], &[appended(1, 1, 0), led]].concat();
        assert_eq!(judge(LeaderCompleteness, &with), Ok(()));
        let late_winner = [&before[..], &[Seen::Led { member: 1, term: 1 }]].concat();
        assert_eq!(judge(LeaderCompleteness, &late_winner), Ok(()));
    }
}
