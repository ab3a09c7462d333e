//! Groups in which some members are taken for Java's.
//!
//! Of one that is taken for Java's the others are told so, and it is told so of all others: Java's
//! rules and timings hold then, and mail to it and from it carries what Java's form carries. It runs
//! our core, with Java's manners at two rules (`crate::bare::java`), or a model of Java's
//! (`crate::bare::java_node`).

use std::{fmt, str::FromStr};

use crate::{
    plan::{Fault, Faults, Plan, Scenario},
    random::Random,
};

/// Which members are taken for Java's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JavaMembers {
    mask: u8,
    /// They run a model of Java's, and not our core.
    modelled: bool,
}

impl JavaMembers {
    /// Some, but not all, of `members`.
    #[must_use]
    pub fn draw(seed: u64, members: usize) -> Self {
        let mut random = Random::stream(seed, MEMBERS);
        let mask = u8::try_from(1 + random.below((1 << members) - 2)).unwrap_or(1);
        Self { mask, modelled: random.chance(500) }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.mask == 0
    }

    /// Whether this member is one.
    #[must_use]
    pub fn has(self, member: usize) -> bool {
        u8::try_from(member).is_ok_and(|member| member < 8 && self.mask & (1 << member) != 0)
    }

    /// Whether some run a model of Java's.
    #[must_use]
    pub fn has_models(self) -> bool {
        self.modelled && !self.is_empty()
    }

    /// Whether this member runs a model of Java's.
    #[must_use]
    pub fn models(self, member: usize) -> bool {
        self.modelled && self.has(member)
    }

    /// Whether this member is taken for Java's and runs our core.
    #[must_use]
    pub fn stands_in(self, member: usize) -> bool {
        !self.modelled && self.has(member)
    }

    /// Whether these two speak in Java's form.
    #[must_use]
    pub fn between(self, one: usize, other: usize) -> bool {
        self.has(one) || self.has(other)
    }

    fn numbers(self) -> impl Iterator<Item = usize> {
        (0..8).filter(move |member| self.has(*member))
    }
}

impl fmt::Display for JavaMembers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.numbers().map(|member| member.to_string()).collect();
        f.write_str(&numbers.join(","))?;
        f.write_str(if self.modelled { MODEL } else { "" })
    }
}

impl FromStr for JavaMembers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.strip_suffix(MODEL);
        let mut members = Self { mask: 0, modelled: numbers.is_some() };
        for number in numbers.unwrap_or(text).split(',') {
            let member: u32 =
                number.parse().map_err(|error| format!("java={text}: {number}: {error}"))?;
            members.mask |= 1u8
                .checked_shl(member)
                .ok_or_else(|| format!("java={text}: no group has a member {member}"))?;
        }
        Ok(members)
    }
}

impl Plan {
    /// The same with members that are taken for Java's: those that the plan names, else those that its
    /// seed draws.
    ///
    /// Left out is what is promised only for groups without them. That one member cannot disturb the
    /// others is not asked, and no member loses what it acknowledged, as Java's form does not carry
    /// that it may have.
    #[must_use]
    pub fn of_java(self) -> Self {
        let java = if self.java.is_empty() {
            JavaMembers::draw(self.seed, self.members)
        } else {
            self.java
        };
        let mut random = Random::stream(self.seed, FAULTS);
        let faults = if self.scenario == Scenario::Disturbed {
            Fault::ALL.into_iter().filter(|_| random.chance(200)).collect()
        } else {
            self.faults
        };
        let faults = LOSSES.into_iter().fold(faults, Faults::without);
        let faults = if java.modelled {
            NOT_OF_JAVA.into_iter().fold(faults, Faults::without)
        } else {
            faults
        };
        Self {
            java,
            faults,
            scenario: Scenario::Swarm,
            millis: self.millis * SLOWER,
            fault_gap: self.fault_gap * 2,
            client_gap: self.client_gap * SLOWER,
            ..self
        }
    }

    /// How long a group may be without a leader once a majority is whole, in milliseconds: five
    /// election timeouts.
    #[must_use]
    pub fn leader_millis(&self) -> u64 {
        if self.java.is_empty() { 5 * 1200 } else { 5 * 6700 }
    }

    /// How long it may take until all logs are equal once all are whole, in milliseconds.
    #[must_use]
    pub fn equal_millis(&self) -> u64 {
        if self.java.is_empty() { 60_000 } else { 60_000 * SLOWER }
    }
}

/// Streams of draws that no other part of a plan uses.
const MEMBERS: u64 = 6;
const FAULTS: u64 = 7;

/// How many times as long a run takes, as Java's timings are so much longer.
const SLOWER: u64 = 3;

/// Faults by which a member loses what it acknowledged.
const LOSSES: [Fault; 4] = [Fault::Wipe, Fault::Rollback, Fault::SyncError, Fault::Rot];

/// What Java does not bear. A TRUNCATE that comes again, which a connection keeps away, cuts what was
/// acknowledged since. Where the leader's log begins behind the last common entry, a Java follower
/// keeps its own entries before that.
const NOT_OF_JAVA: [Fault; 3] = [Fault::Duplicates, Fault::Reorder, Fault::Trim];

/// Stands behind the numbers of members that run a model.
const MODEL: &str = ":model";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_are_javas_and_not_all() {
        for seed in 0..200 {
            let plan = Plan::draw(seed).of_java();
            let count = (0..plan.members).filter(|member| plan.java.has(*member)).count();
            assert!((1..plan.members).contains(&count), "{plan}");
            assert_eq!(plan.java.to_string().parse(), Ok(plan.java));
        }
        assert!("0,1:model".parse().is_ok_and(|java: JavaMembers| java.models(1)));
        assert!("0,x".parse::<JavaMembers>().unwrap_err().contains("java=0,x: x:"));
        assert!("9".parse::<JavaMembers>().unwrap_err().contains("no group has a member 9"));
    }

    #[test]
    fn the_members_that_a_plan_names_stay() {
        let plan: Plan = "seed=4 java=0,2".parse().unwrap();
        assert_eq!(plan.to_string(), "seed=4 java=0,2");
        assert_eq!(plan.of_java().java.to_string(), "0,2");
    }
}
