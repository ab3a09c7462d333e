//! What a reader may rely on.

use std::collections::BTreeMap;

use super::Invariant;
use crate::ghost::{Ghost, Seen};

/// who asks how far to read is told of everything that was committed before the question.
#[derive(Debug, Default)]
pub(super) struct ReadsAreLinear {
    asked: BTreeMap<u64, u64>,
}

impl Invariant for ReadsAreLinear {
    fn name(&self) -> &'static str {
        "R-18 linearizable reads"
    }

    fn check(&mut self, ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::Asked { call, .. } => {
                self.asked.insert(*call, ghost.committed.len() as u64);
            }
            Seen::Told { member, call, entries } => {
                let before = self.asked.remove(call).unwrap_or(0);
                if entries.is_some_and(|entries| entries < before) {
                    return Err(format!(
                        "n{member} tells a reader of {entries:?} entries, {before} were committed \
                         when it asked"
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
    use super::super::testing::{judge, started};
    use super::*;
    use crate::ghost::Ended;

    #[test]
    fn a_reader_that_is_told_of_less_than_was_committed_is_found() {
        let start = [
            started(0, &[1, 1], Ended::Never),
            Seen::Committed { member: 0, upto: 1 },
            Seen::Asked { member: 1, call: 4 },
        ];
        let told = |entries| [&start[..], &[Seen::Told { member: 1, call: 4, entries }]].concat();
        assert_eq!(judge(ReadsAreLinear::default(), &told(Some(2))), Ok(()));
        assert_eq!(judge(ReadsAreLinear::default(), &told(None)), Ok(()));
        assert!(judge(ReadsAreLinear::default(), &told(Some(1))).is_err());
    }
}
