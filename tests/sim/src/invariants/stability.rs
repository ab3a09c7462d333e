//! When the lead must stay, and when it must go.

use std::collections::BTreeMap;

use super::Invariant;
use crate::ghost::{Ghost, Seen};

/// one member that is cut off, deaf, slow or flapping changes the leader at most once.
#[derive(Debug, Default)]
pub(super) struct LeadStays {
    elections: Option<u64>,
}

impl Invariant for LeadStays {
    fn name(&self) -> &'static str {
        "R-21 no disruption"
    }

    fn check(&mut self, _ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        match (seen, &mut self.elections) {
            (Seen::Undisturbed, elections) => *elections = Some(0),
            // A member that is down does not come back by itself.
            (Seen::Led { member, term }, Some(elections)) => {
                *elections += 1;
                if *elections > 1 {
                    return Err(format!(
                        "n{member} leads term {term}: the {elections}. election, and one member \
                         alone is disturbed"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Longest time in which a leader may go on without its disk, in milliseconds: one election
/// timeout, and one heartbeat to notice.
pub(crate) const STUCK_MILLIS: u64 = 1200 + 300;

/// a leader whose disk makes no progress steps down.
#[derive(Debug, Default)]
pub(super) struct StuckLeaderGoes {
    stuck: BTreeMap<usize, u64>,
}

impl Invariant for StuckLeaderGoes {
    fn name(&self) -> &'static str {
        "R-22 a stuck leader goes"
    }

    fn check(&mut self, ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::Stuck { member, since } => {
                self.stuck.insert(*member, *since);
            }
            Seen::Freed { member } | Seen::Started { member, .. } | Seen::Stopped { member } => {
                self.stuck.remove(member);
            }
            Seen::Passed { at } => {
                for (member, since) in &self.stuck {
                    let leads = ghost.member(*member).and_then(|member| member.leads);
                    if *at > since + STUCK_MILLIS
                        && let Some(term) = leads
                    {
                        return Err(format!(
                            "n{member} leads term {term} at {at} ms, its disk is stuck since {since}"
                        ));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fresh, judge};
    use super::*;

    #[test]
    fn a_lead_that_wanders_is_found() {
        let led = |member, term| Seen::Led { member, term };
        let good = [led(0, 1), led(1, 2), Seen::Undisturbed, led(0, 3)];
        assert_eq!(judge(LeadStays::default(), &good), Ok(()));
        let bad = [Seen::Undisturbed, led(0, 3), led(1, 4)];
        assert!(judge(LeadStays::default(), &bad).is_err());
    }

    #[test]
    fn a_leader_that_stays_with_a_stuck_disk_is_found() {
        let history = |then: &[Seen]| {
            let start =
                [fresh(0), Seen::Led { member: 0, term: 1 }, Seen::Stuck { member: 0, since: 100 }];
            [&start[..], then, &[Seen::Passed { at: 101 + STUCK_MILLIS }]].concat()
        };
        assert!(judge(StuckLeaderGoes::default(), &history(&[])).is_err());
        let deposed = history(&[Seen::Deposed { member: 0 }]);
        assert_eq!(judge(StuckLeaderGoes::default(), &deposed), Ok(()));
        let freed = history(&[Seen::Freed { member: 0 }]);
        assert_eq!(judge(StuckLeaderGoes::default(), &freed), Ok(()));
    }
}
