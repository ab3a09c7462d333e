//! The rules.

mod order;
mod places;
mod progress;
mod stored;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
};

use super::{Attempt, History, Holding, Queue, Sight};

/// A rule of spec section "Broker level"; its number is what `Display` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// B-1: what was acknowledged is there, on every node.
    AtLeastOnce,
    /// B-2: what is there was sent, not before, and not refused each time.
    NoPhantom,
    /// B-3: it is there byte for byte.
    EqualBytes,
    /// B-4: an offset is one message, at every node and at all times.
    OneMessage,
    /// B-5: offsets are dense and in the order of the log; the ends of a queue never go back.
    Dense,
    /// B-6: what was sent after an acknowledgement lies behind what was acknowledged.
    InOrder,
    /// B-7: offsets of groups are never below the last acknowledged one.
    Progress,
    /// B-8: what was once shown stays.
    Committed,
    /// B-17: there are no more copies than attempts that may have stored one.
    Duplicates,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AtLeastOnce => "B-1",
            Self::NoPhantom => "B-2",
            Self::EqualBytes => "B-3",
            Self::OneMessage => "B-4",
            Self::Dense => "B-5",
            Self::InOrder => "B-6",
            Self::Progress => "B-7",
            Self::Committed => "B-8",
            Self::Duplicates => "B-17",
        })
    }
}

/// A rule that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// The messages, places and nodes.
    pub text: String,
}

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    counts: BTreeMap<Rule, usize>,
    /// The first violations of each rule.
    pub violations: Vec<Violation>,
}

impl Findings {
    /// Whether every rule holds.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The rules that do not hold.
    pub fn rules(&self) -> impl Iterator<Item = Rule> + '_ {
        self.counts.keys().copied()
    }

    fn add(&mut self, rule: Rule, text: impl FnOnce() -> String) {
        let count = self.counts.entry(rule).or_default();
        *count += 1;
        if *count <= TOLD {
            self.violations.push(Violation { rule, text: text() });
        }
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return write!(f, "B-1 to B-8 and B-17 hold");
        }
        for (rule, count) in &self.counts {
            writeln!(f, "{rule}: {count} violations")?;
            for one in self.violations.iter().filter(|one| one.rule == *rule) {
                writeln!(f, "  {}", one.text)?;
            }
        }
        Ok(())
    }
}

/// Checks every rule.
#[must_use]
pub fn check(history: &History) -> Findings {
    let mut findings = Findings::default();
    let facts = Facts::of(history);
    stored::check(&facts, &mut findings);
    places::check(&facts, &mut findings);
    order::check(&facts, &mut findings);
    progress::check(history, &mut findings);
    findings
}

/// A history, ordered by what is looked for.
#[derive(Debug)]
struct Facts<'a> {
    history: &'a History,
    by_key: HashMap<&'a str, Vec<&'a Attempt>>,
    nodes: BTreeSet<&'a str>,
    held: BTreeMap<(&'a Queue, &'a str), Held<'a>>,
}

/// What a node holds of a queue, by offset.
#[derive(Debug)]
struct Held<'a> {
    holding: &'a Holding,
    at: HashMap<i64, &'a Sight>,
}

impl<'a> Facts<'a> {
    fn of(history: &'a History) -> Self {
        let mut by_key: HashMap<&str, Vec<&Attempt>> = HashMap::new();
        for attempt in &history.attempts {
            by_key.entry(&attempt.key).or_default().push(attempt);
        }
        let nodes = history.holdings.iter().map(|one| one.node.as_str()).collect();
        let held = |holding: &'a Holding| {
            let at = holding.messages.iter().map(|sight| (sight.offset, sight)).collect();
            ((&holding.queue, holding.node.as_str()), Held { holding, at })
        };
        let held = history.holdings.iter().map(held).collect();
        Self { history, by_key, nodes, held }
    }

    fn attempts(&self, key: &str) -> &[&'a Attempt] {
        self.by_key.get(key).map_or(&[], Vec::as_slice)
    }
}

impl Held<'_> {
    /// What is said of an offset that is not there.
    fn absent(&self, offset: i64) -> String {
        let Holding { node, queue, min, max, .. } = self.holding;
        if offset < *min {
            format!("{node} begins {queue} at {min}")
        } else if offset >= *max {
            format!("{node} ends {queue} at {max}")
        } else {
            format!("{node} has a hole there")
        }
    }
}

/// Violations of one rule that are told in full.
const TOLD: usize = 20;
