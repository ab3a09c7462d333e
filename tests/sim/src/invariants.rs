//! What must be true after every step, each a checker of its own, named as in the promises of
//! docs/dledger.md. A checker sees what happened before it is written into the [`Ghost`].

mod bounds;
mod commit;
mod derived;
mod durability;
mod election;
mod liveness;
mod log;
mod provisional;
mod queues;
mod reads;
mod stability;
mod terms;
mod truncation;

use std::fmt;

pub(crate) use self::{
    liveness::{Voter, can_elect},
    stability::STUCK_MILLIS,
};

use crate::{
    ghost::{Ghost, Seen},
    java::JavaMembers,
};

/// One property.
pub trait Invariant: fmt::Debug {
    /// Its number, such as `R-1`, and its name.
    fn name(&self) -> &'static str;

    /// Looks at what happened.
    ///
    /// # Errors
    /// What contradicts the property.
    fn check(&mut self, ghost: &Ghost, seen: &Seen) -> Result<(), String>;
}

/// A property that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub invariant: &'static str,
    /// When, in virtual milliseconds.
    pub at: u64,
    /// What contradicts it.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} broken at {} ms: {}", self.invariant, self.at, self.text)
    }
}

/// All properties of the log, where these members are taken for Java's. R-17 is about changes of
/// membership, which do not exist.
#[must_use]
pub fn all(java: JavaMembers) -> Vec<Box<dyn Invariant>> {
    vec![
        Box::<election::OneLeader>::default(),
        Box::<terms::VoteOnce>::default(),
        Box::<terms::TermsGrow>::default(),
        Box::<terms::TermBeforeLog>::default(),
        Box::<log::LeaderAppendOnly>::default(),
        Box::<log::LogMatching>::default(),
        Box::<election::LeaderCompleteness>::default(),
        Box::<commit::SameApplied>::default(),
        Box::<commit::CommittedStays>::default(),
        Box::<commit::CommitGrows>::default(),
        Box::<commit::LeaderCommitsFirst>::default(),
        Box::new(commit::OwnTermOnly { java }),
        Box::<truncation::NothingCommittedIsCut>::default(),
        Box::<truncation::NothingCutComesBack>::default(),
        Box::<durability::KeptBeforeSaid>::default(),
        Box::<durability::QuorumKeeps>::default(),
        Box::<durability::SilentAfterDiskError>::default(),
        Box::<provisional::ForgetfulSaySo>::default(),
        Box::<provisional::ForgetfulDoNotCount>::default(),
        Box::<derived::RotIsNotServed>::default(),
        Box::<derived::IndexIsDerived>::default(),
        Box::<reads::ReadsAreLinear>::default(),
        Box::<derived::OnlyCommittedIsTrimmed>::default(),
        Box::<liveness::LeaderInTime>::default(),
        Box::<liveness::EveryAppendResolves>::default(),
        Box::<stability::LeadStays>::default(),
        Box::<stability::StuckLeaderGoes>::default(),
        Box::<bounds::QueuesAreBounded>::default(),
        Box::<queues::QueuesAreDense>::default(),
    ]
}

#[cfg(test)]
mod testing {
    use super::*;
    use crate::ghost::{Entry, Log};

    /// An entry of `term` with bytes that follow from index and term.
    pub(super) fn entry(term: u64, index: u64) -> Entry {
        Entry {
            index,
            term,
            position: index * 100,
            size: 100,
            chain: 7,
            hash: term * 1000 + index,
            token: 0,
            opening: false,
            place: None,
        }
    }

    /// A log of entries of these terms, from index 0.
    pub(super) fn log(terms: &[u64]) -> Log {
        (0..).zip(terms).map(|(index, term)| entry(*term, index)).collect()
    }

    /// A member starts for the first time.
    pub(super) fn fresh(member: usize) -> Seen {
        started(member, &[], crate::ghost::Ended::Never)
    }

    /// A member starts with a log of these terms.
    pub(super) fn started(member: usize, terms: &[u64], before: crate::ghost::Ended) -> Seen {
        let term = terms.last().copied().unwrap_or(0);
        Seen::Started { member, log: log(terms), term, before }
    }

    /// Shows a history of a group of three to a checker; what it says of the last step.
    pub(super) fn judge(mut checker: impl Invariant, history: &[Seen]) -> Result<(), String> {
        let mut ghost = Ghost::new(3);
        let mut verdict = Ok(());
        for seen in history {
            assert_eq!(verdict, Ok(()), "broken before {seen:?}");
            verdict = checker.check(&ghost, seen);
            ghost.learn(seen);
        }
        verdict
    }

    /// Appends entries of `terms` behind what `log` of the same terms holds.
    pub(super) fn appended(member: usize, term: u64, index: u64) -> Seen {
        Seen::Appended { member, entry: entry(term, index) }
    }
}
