//! How much may wait.

use super::Invariant;
use crate::ghost::{Ghost, Seen};

/// no queue grows beyond its bound.
#[derive(Debug, Default)]
pub(super) struct QueuesAreBounded;

impl Invariant for QueuesAreBounded {
    fn name(&self) -> &'static str {
        "R-23 queues are bounded"
    }

    fn check(&mut self, _ghost: &Ghost, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::Queued { member, load } if load.amount > load.bound => {
                Err(format!("n{member} has {} {}, {} may be", load.amount, load.what, load.bound))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use dledger_core::Load;

    use super::super::testing::judge;
    use super::*;

    #[test]
    fn a_queue_over_its_bound_is_found() {
        let queued = |count| [Seen::Queued { member: 0, load: Load::new("readers", count, 3) }];
        assert_eq!(judge(QueuesAreBounded, &queued(3)), Ok(()));
        assert!(judge(QueuesAreBounded, &queued(4)).is_err());
    }
}
