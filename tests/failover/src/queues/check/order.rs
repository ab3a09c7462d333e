//! What was sent later lies further behind: B-6.
//!
//! For messages of one sender this is the order that he sent them in. It holds between senders too:
//! what is acknowledged is in the log, and what is sent after that goes behind it.

use std::collections::BTreeMap;

use super::{Facts, Findings, Rule};
use crate::queues::{Attempt, Outcome, Queue, Sight};

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings) {
    let mut queues: BTreeMap<&Queue, Vec<(&Attempt, i64)>> = BTreeMap::new();
    for attempt in &facts.history.attempts {
        if let Outcome::At(offset) = attempt.outcome {
            queues.entry(&attempt.queue).or_default().push((attempt, offset));
        }
    }
    for (queue, acknowledged) in queues {
        let highest = Highest::of(acknowledged.clone());
        for (attempt, offset) in &acknowledged {
            behind(&highest, queue, (attempt, *offset), findings);
        }
        without_answer(facts, queue, &highest, findings);
    }
}

/// The highest offset that was acknowledged until a time.
#[derive(Debug)]
struct Highest<'a> {
    /// By the time of the answer; the highest of all until then.
    steps: Vec<(u64, &'a Attempt, i64)>,
}

impl<'a> Highest<'a> {
    fn of(mut acknowledged: Vec<(&'a Attempt, i64)>) -> Self {
        acknowledged.sort_unstable_by_key(|(attempt, _)| attempt.span.to);
        let mut steps: Vec<(u64, &Attempt, i64)> = Vec::with_capacity(acknowledged.len());
        for (attempt, offset) in acknowledged {
            let (owner, highest) = match steps.last() {
                Some((_, owner, highest)) if *highest >= offset => (*owner, *highest),
                _ => (attempt, offset),
            };
            steps.push((attempt.span.to, owner, highest));
        }
        Self { steps }
    }

    /// Of answers that were there before `time`.
    fn before(&self, time: u64) -> Option<(&'a Attempt, i64)> {
        let count = self.steps.partition_point(|(to, _, _)| *to < time);
        let (_, owner, highest) = self.steps.get(count.checked_sub(1)?)?;
        Some((owner, *highest))
    }
}

fn behind(
    highest: &Highest<'_>,
    queue: &Queue,
    (attempt, offset): (&Attempt, i64),
    findings: &mut Findings,
) {
    let Some((before, held)) = highest.before(attempt.span.from) else { return };
    if held >= offset {
        findings.add(Rule::InOrder, || {
            format!(
                "{} of {} was acknowledged at {queue}@{held} at {}; {} of {} was sent after that, \
                 at {}, and lies at {queue}@{offset}",
                before.key, before.sender, before.span, attempt.key, attempt.sender, attempt.span
            )
        });
    }
}

/// Copies of attempts without an answer may come late, but not early.
fn without_answer(
    facts: &Facts<'_>,
    queue: &Queue,
    highest: &Highest<'_>,
    findings: &mut Findings,
) {
    // All nodes have the same, or another rule tells.
    let Some(node) = facts.nodes.first() else { return };
    let Some(held) = facts.held.get(&(queue, *node)) else { return };
    for sight in &held.holding.messages {
        let Sight { key, offset, .. } = sight;
        let attempts = facts.attempts(key);
        if attempts.iter().any(|attempt| attempt.outcome == Outcome::At(*offset)) {
            continue;
        }
        let unknown = attempts.iter().filter(|attempt| attempt.outcome == Outcome::Unknown);
        if let Some(first) = unknown.min_by_key(|attempt| attempt.span.from) {
            behind(highest, queue, (first, *offset), findings);
        }
    }
}
