//! How logs grow and that they agree.

use std::collections::BTreeMap;

use super::Invariant;
use crate::ghost::{Entry, Ghost, Seen};

/// a leader never cuts or overwrites its own log.
#[derive(Debug, Default)]
pub(super) struct LeaderAppendOnly;

impl Invariant for LeaderAppendOnly {
    fn name(&self) -> &'static str {
        "R-4 leader append-only"
    }

    fn check(&mut self, ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::Truncated { member, from } => {
                match ghost.member(*member).and_then(|member| member.leads) {
                    Some(term) => Err(format!("n{member} leads term {term} and cut entry {from}")),
                    None => Ok(()),
                }
            }
            Seen::Appended { member, entry } => {
                let last = ghost.member(*member).and_then(|member| member.log.last_index());
                match last {
                    Some(last) if entry.index != last + 1 => {
                        Err(format!("n{member} wrote entry {} behind {last}", entry.index))
                    }
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}

/// two entries of one index and term are the same bytes at the same position, and so is all
/// before them.
#[derive(Debug, Default)]
pub(super) struct LogMatching {
    /// Each entry ever seen, with the term of the one before it.
    known: BTreeMap<(u64, u64), (Entry, Option<u64>)>,
}

impl LogMatching {
    fn meet(&mut self, member: usize, entry: &Entry, before: Option<u64>) -> Result<(), String> {
        let known = self.known.entry((entry.term, entry.index)).or_insert((*entry, before));
        if known.0 != *entry {
            return Err(format!("n{member} has {entry:?} where another has {:?}", known.0));
        }
        match (known.1, before) {
            (Some(term), Some(own)) if term != own => Err(format!(
                "entry {} of term {} follows one of term {own} on n{member}, and one of term {term} \
                 elsewhere",
                entry.index, entry.term
            )),
            (None, Some(_)) => {
                known.1 = before;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Invariant for LogMatching {
    fn name(&self) -> &'static str {
        "R-5 log matching"
    }

    fn check(&mut self, ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::Appended { member, entry } => {
                let last = ghost.member(*member).and_then(|member| member.log.last());
                self.meet(*member, entry, last.map(|last| last.term))
            }
            Seen::Started { member, log, .. } => {
                let mut term_before = None;
                for entry in log.entries() {
                    self.meet(*member, entry, term_before)?;
                    term_before = Some(entry.term);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{appended, entry, judge, started};
    use super::*;
    use crate::ghost::Ended;

    #[test]
    fn a_leader_that_cuts_its_log_is_found() {
        let cut = Seen::Truncated { member: 0, from: 1 };
        let start = started(0, &[1, 1], Ended::Never);
        assert_eq!(judge(LeaderAppendOnly, &[start.clone(), cut.clone()]), Ok(()));
        let led = Seen::Led { member: 0, term: 2 };
        assert!(judge(LeaderAppendOnly, &[start.clone(), led, cut]).is_err());
        assert!(judge(LeaderAppendOnly, &[start, appended(0, 1, 3)]).is_err());
    }

    #[test]
    fn one_entry_with_two_contents_or_two_histories_is_found() {
        let good = [appended(0, 1, 0), appended(0, 2, 1), appended(1, 1, 0), appended(1, 2, 1)];
        assert_eq!(judge(LogMatching::default(), &good), Ok(()));
        let other = Entry { hash: 99, ..entry(1, 0) };
        let other = Seen::Appended { member: 1, entry: other };
        assert!(judge(LogMatching::default(), &[appended(0, 1, 0), other]).is_err());
        let moved = Entry { position: 4, ..entry(1, 0) };
        let moved = Seen::Appended { member: 1, entry: moved };
        assert!(judge(LogMatching::default(), &[appended(0, 1, 0), moved]).is_err());
        let histories = [started(0, &[1, 3], Ended::Never), started(1, &[2, 3], Ended::Never)];
        assert!(judge(LogMatching::default(), &histories).is_err());
    }
}
