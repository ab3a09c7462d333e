//! What has happened at least once. A set of runs in which a kind of fault or a branch that matters
//! never happened proves less than it seems to: such a set fails.

use std::collections::BTreeMap;

use crate::plan::Fault;

/// A branch that a set of runs must reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Branch {
    /// A member was elected.
    Elected,
    /// A leader gave up the lead.
    Deposed,
    /// Two members held themselves for leader at once, in different terms.
    TwoLeaders,
    /// A follower cut a tail that differed.
    Truncated,
    /// It had flushed what it cut.
    TruncatedFlushed,
    /// A leader committed entries of an older term by way of its own.
    OldTermCommitted,
    /// A power cut took entries that were written and not flushed.
    TailLost,
    /// A member that was down, or empty, caught up.
    CaughtUp,
    /// A follower's log was started anew at the leader's first entry.
    LogRestarted,
    /// A provisional member became a full one.
    Proved,
    /// A rotten range was found.
    RotFound,
    /// The rotten range was mended.
    RotMended,
    /// A submission timed out.
    TimedOut,
    /// A submission was cut off by another leader.
    CutOff,
    /// A submission was committed.
    Acknowledged,
    /// A member stopped because its disk failed.
    DiskFailed,
    /// A transfer of the lead succeeded.
    Transferred,
    /// A quorum was healed while the rest stayed broken, and went on.
    QuorumHealed,
    /// A quorum was healed that could not elect by the rule and waited for the others.
    WaitsForAll,
    /// Beside members that are taken for Java's, one asked in its own term whether to raise it.
    Sounded,
    /// It was told of a leader or of a longer log.
    SoundedInVain,
    /// A leader of Java's was halted so that a member with a larger term gets back.
    StrayLetIn,
    /// A member that is taken for Java's led.
    JavaLed,
}

/// Branches that only very few runs reach: they are counted and need not be met.
const RARE: [Branch; 2] = [Branch::WaitsForAll, Branch::StrayLetIn];

impl Branch {
    /// Every branch that is counted.
    pub const ALL: [Self; 23] = [
        Self::Elected,
        Self::Deposed,
        Self::TwoLeaders,
        Self::Truncated,
        Self::TruncatedFlushed,
        Self::OldTermCommitted,
        Self::TailLost,
        Self::CaughtUp,
        Self::LogRestarted,
        Self::Proved,
        Self::RotFound,
        Self::RotMended,
        Self::TimedOut,
        Self::CutOff,
        Self::Acknowledged,
        Self::DiskFailed,
        Self::Transferred,
        Self::QuorumHealed,
        Self::WaitsForAll,
        Self::Sounded,
        Self::SoundedInVain,
        Self::StrayLetIn,
        Self::JavaLed,
    ];
}

/// Counters of one run or of many.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    faults: BTreeMap<Fault, u64>,
    branches: BTreeMap<Branch, u64>,
    /// Virtual milliseconds.
    pub virtual_millis: u64,
    /// Happenings.
    pub happenings: u64,
}

impl Coverage {
    /// A fault took effect.
    pub fn fault(&mut self, fault: Fault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    /// A branch was reached.
    pub fn reach(&mut self, branch: Branch) {
        *self.branches.entry(branch).or_default() += 1;
    }

    /// How often a branch was reached.
    #[must_use]
    pub fn reached(&self, branch: Branch) -> u64 {
        self.branches.get(&branch).copied().unwrap_or(0)
    }

    /// Adds the counters of another run.
    pub fn add(&mut self, other: &Self) {
        for (fault, count) in &other.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        for (branch, count) in &other.branches {
            *self.branches.entry(*branch).or_default() += count;
        }
        self.virtual_millis += other.virtual_millis;
        self.happenings += other.happenings;
    }

    /// What never happened.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let faults = Fault::ALL.into_iter().filter(|fault| !self.faults.contains_key(fault));
        let branches = Branch::ALL.into_iter().filter(|branch| !RARE.contains(branch));
        let branches = branches.filter(|branch| self.reached(*branch) == 0);
        let faults = faults.map(|fault| format!("fault {fault:?}"));
        faults.chain(branches.map(|branch| format!("branch {branch:?}"))).collect()
    }

    /// All counters in a few lines.
    #[must_use]
    pub fn report(&self) -> String {
        let faults = Fault::ALL.into_iter().map(|fault| {
            let count = self.faults.get(&fault).unwrap_or(&0);
            format!(" {fault:?} {count}")
        });
        let branches =
            Branch::ALL.into_iter().map(|branch| format!(" {branch:?} {}", self.reached(branch)));
        let lines = ["faults:".to_owned()].into_iter().chain(faults);
        lines.chain(["\nbranches:".to_owned()]).chain(branches).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_happened_is_named() {
        let mut coverage = Coverage::default();
        for fault in Fault::ALL.into_iter().filter(|fault| *fault != Fault::Ring) {
            coverage.fault(fault);
        }
        let mut other = Coverage::default();
        for branch in Branch::ALL.into_iter().filter(|branch| *branch != Branch::CutOff) {
            other.reach(branch);
        }
        coverage.add(&other);
        assert_eq!(coverage.missing(), ["fault Ring", "branch CutOff"]);
        other.reach(Branch::CutOff);
        coverage.add(&other);
        coverage.fault(Fault::Ring);
        assert_eq!(coverage.missing(), Vec::<String>::new());
    }
}
