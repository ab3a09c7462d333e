//! The rules.

mod fates;
mod order;
mod repeats;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::{Acked, Fate, Got, Key, Kind, Ledger, Outcome, Sent};
use crate::queues::Span;

/// A rule of spec section "Broker level"; its number is what `Display` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// B-1: what was acknowledged comes.
    AtLeastOnce,
    /// B-2: what comes was sent, and not refused each time.
    NoPhantom,
    /// B-3: it comes byte for byte.
    EqualBytes,
    /// B-6: what is consumed in order comes in the order in which it was sent, to one at a time.
    InOrder,
    /// B-9: what is committed comes once, what is rolled back never.
    Transactions,
    /// B-10: what is delayed comes once, and no more than a second early.
    Delays,
    /// B-11: what is refused comes again, and becomes a dead letter once, after its last try.
    Retries,
    /// B-12: what is popped and acknowledged comes no more, what is not comes again after its time.
    Pops,
    /// B-17: there are no more copies than attempts that may have stored one, and nothing comes again
    /// that was consumed long before.
    Duplicates,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AtLeastOnce => "B-1",
            Self::NoPhantom => "B-2",
            Self::EqualBytes => "B-3",
            Self::InOrder => "B-6",
            Self::Transactions => "B-9",
            Self::Delays => "B-10",
            Self::Retries => "B-11",
            Self::Pops => "B-12",
            Self::Duplicates => "B-17",
        })
    }
}

/// A rule that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// The message, with what was seen of it.
    pub text: String,
}

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// All violations, in the order of the messages.
    pub violations: Vec<Violation>,
}

impl Findings {
    /// Whether every rule holds.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.violations.is_empty()
    }

    fn add(&mut self, rule: Rule, text: String) {
        self.violations.push(Violation { rule, text });
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return write!(f, "B-1 to B-3, B-6, B-9 to B-12 and B-17 hold");
        }
        let rules: BTreeSet<Rule> = self.violations.iter().map(|one| one.rule).collect();
        for rule in rules {
            let of_rule = || self.violations.iter().filter(|one| one.rule == rule);
            writeln!(f, "{rule}: {} violations", of_rule().count())?;
            for one in of_rule().take(TOLD) {
                writeln!(f, "  {}", one.text)?;
            }
        }
        Ok(())
    }
}

/// Checks every rule.
#[must_use]
pub fn check(ledger: &Ledger) -> Findings {
    let facts = Facts::of(ledger);
    let mut findings = Findings::default();
    for (key, life) in &facts.lives {
        fates::check(*key, life, &facts, &mut findings);
        repeats::check(*key, life, &facts, &mut findings);
    }
    order::check(&facts, &mut findings);
    findings
}

/// Messages that were acknowledged and have not come yet.
#[must_use]
pub fn missing(ledger: &Ledger) -> Vec<Key> {
    let facts = Facts::of(ledger);
    let open = facts.lives.iter().filter(|(_, life)| life.acknowledged() && !life.arrived());
    open.map(|(key, _)| *key).collect()
}

/// A ledger, ordered by message.
#[derive(Debug)]
struct Facts<'a> {
    ledger: &'a Ledger,
    lives: BTreeMap<Key, Life<'a>>,
}

/// All that is known of one message.
#[derive(Debug, Default)]
struct Life<'a> {
    sent: Vec<&'a Sent>,
    /// In the order in which they came.
    got: Vec<&'a Got>,
    acked: Vec<&'a Acked>,
}

impl<'a> Facts<'a> {
    fn of(ledger: &'a Ledger) -> Self {
        let mut lives: BTreeMap<Key, Life<'a>> = BTreeMap::new();
        for one in &ledger.sent {
            lives.entry(one.key).or_default().sent.push(one);
        }
        for one in &ledger.got {
            lives.entry(one.key).or_default().got.push(one);
        }
        for one in &ledger.acked {
            lives.entry(one.key).or_default().acked.push(one);
        }
        for life in lives.values_mut() {
            life.got.sort_by_key(|got| got.span.from);
        }
        Self { ledger, lives }
    }

    /// Whether a client's request at this time can have been lost with a broker.
    fn troubled(&self, span: Span) -> bool {
        let near =
            |trouble: &Span| span.to + AROUND >= trouble.from && span.from <= trouble.to + AROUND;
        self.ledger.troubles.iter().any(near)
    }

    /// How much of the time between the two was trouble.
    fn outage(&self, from: u64, to: u64) -> u64 {
        let part = |trouble: &Span| trouble.to.min(to).saturating_sub(trouble.from.max(from));
        self.ledger.troubles.iter().map(part).sum()
    }

    /// How many copies of a message there may be.
    fn copies(&self, life: &Life<'_>) -> usize {
        let of = |sent: &&Sent| match sent.outcome {
            Outcome::Refused => 0,
            // This client does not tell of attempts that it repeats by itself.
            _ if sent.key.kind == Kind::Grpc && self.troubled(sent.span) => GRPC_ATTEMPTS,
            Outcome::Stored | Outcome::Unknown => 1,
        };
        life.sent.iter().map(of).sum()
    }
}

impl Life<'_> {
    fn acknowledged(&self) -> bool {
        self.sent.iter().any(|sent| sent.outcome == Outcome::Stored)
    }

    fn fate(&self) -> Option<Fate> {
        self.sent.first().map(|sent| sent.fate)
    }

    /// Whether it has come to its end, as far as it must.
    fn arrived(&self) -> bool {
        let mut took = self.got.iter().filter(|got| got.took);
        match self.fate() {
            Some(Fate::Rollback) => true,
            Some(Fate::Dead) => took.any(|got| got.place.is_dead()),
            _ => took.next().is_some(),
        }
    }
}

/// The rule that a message breaks which does not come.
fn rule_of(kind: Kind) -> Rule {
    match kind {
        Kind::Plain | Kind::Orderly => Rule::AtLeastOnce,
        Kind::Transaction => Rule::Transactions,
        Kind::Delay | Kind::Timer => Rule::Delays,
        Kind::Retry => Rule::Retries,
        Kind::Pop | Kind::Grpc => Rule::Pops,
    }
}

/// Violations of one rule that are told in full.
const TOLD: usize = 20;

/// Milliseconds before and after a trouble in which a request may have met it: longer than clients
/// wait for an answer.
const AROUND: u64 = 4_000;

/// Attempts that the client for gRPC makes by itself (`ProducerBuilder.setMaxAttempts`).
const GRPC_ATTEMPTS: usize = 3;
