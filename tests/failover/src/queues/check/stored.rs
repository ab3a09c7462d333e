//! What must be there and what must not: B-1, B-2, B-3, B-8, B-17.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::{Facts, Findings, Rule};
use crate::queues::{Attempt, Outcome, Queue, Sight, Span};

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings) {
    acknowledged(facts, findings);
    later(facts, findings);
    for seen in &facts.history.seen {
        let reader = Reader { name: &seen.by, span: Some(seen.span), queue: &seen.queue };
        sent(facts, &reader, &seen.sight, findings);
        stays(facts, &reader, &seen.sight, findings);
    }
    for holding in &facts.history.holdings {
        let reader = Reader { name: &holding.node, span: None, queue: &holding.queue };
        for sight in &holding.messages {
            sent(facts, &reader, sight, findings);
        }
    }
    copies(facts, findings);
}

/// Who shows a message.
struct Reader<'a> {
    name: &'a str,
    /// `None`: at the end.
    span: Option<Span>,
    queue: &'a Queue,
}

impl Reader<'_> {
    fn place(&self, offset: i64) -> String {
        let when = self.span.map_or_else(String::new, |span| format!(" at {span}"));
        format!("{}@{offset} of {}{when}", self.queue, self.name)
    }
}

/// Every acknowledged message is on every node at its offset.
fn acknowledged(facts: &Facts<'_>, findings: &mut Findings) {
    for attempt in &facts.history.attempts {
        let Outcome::At(offset) = attempt.outcome else { continue };
        let Attempt { key, queue, span, .. } = attempt;
        let told = || format!("{key} was acknowledged at {queue}@{offset} at {span}");
        if facts.nodes.is_empty() {
            findings.add(Rule::AtLeastOnce, || format!("{}, and no node was read", told()));
        }
        for node in &facts.nodes {
            let Some(held) = facts.held.get(&(queue, *node)) else {
                findings.add(Rule::AtLeastOnce, || format!("{}: {node} has no {queue}", told()));
                continue;
            };
            match held.at.get(&offset) {
                None => {
                    let absent = held.absent(offset);
                    findings.add(Rule::AtLeastOnce, || format!("{}: {absent}", told()));
                }
                Some(other) if other.key != *key => {
                    let other = &other.key;
                    findings.add(Rule::OneMessage, || format!("{}: {node} has {other}", told()));
                }
                Some(_it) => {}
            }
        }
    }
}

/// Every delayed message that was acknowledged is on every node in its queue.
fn later(facts: &Facts<'_>, findings: &mut Findings) {
    let delayed: Vec<&Attempt> =
        facts.history.attempts.iter().filter(|one| one.outcome == Outcome::Later).collect();
    let queues: BTreeSet<&Queue> = delayed.iter().map(|attempt| &attempt.queue).collect();
    let mut there: HashSet<(&Queue, &str, &str)> = HashSet::new();
    for holding in facts.history.holdings.iter().filter(|one| queues.contains(&one.queue)) {
        let keys = holding.messages.iter().map(|sight| sight.key.as_str());
        there.extend(keys.map(|key| (&holding.queue, holding.node.as_str(), key)));
    }
    for Attempt { key, queue, span, .. } in delayed {
        let told = || format!("{key} was to come to {queue} later, acknowledged at {span}");
        if facts.nodes.is_empty() {
            findings.add(Rule::AtLeastOnce, || format!("{}, and no node was read", told()));
        }
        for node in &facts.nodes {
            if !there.contains(&(queue, *node, key.as_str())) {
                findings.add(Rule::AtLeastOnce, || format!("{}: {node} has none", told()));
            }
        }
    }
}

/// What is shown was sent to this queue, byte for byte, and before it is shown.
fn sent(facts: &Facts<'_>, reader: &Reader<'_>, sight: &Sight, findings: &mut Findings) {
    let Sight { key, offset, body, .. } = sight;
    let place = || reader.place(*offset);
    let attempts = facts.attempts(key);
    let Some(first) = attempts.first() else {
        findings.add(Rule::NoPhantom, || format!("{key} at {} was never sent", place()));
        return;
    };
    if attempts.iter().all(|attempt| attempt.queue != *reader.queue) {
        let queue = &first.queue;
        findings.add(Rule::NoPhantom, || format!("{key} at {} was sent to {queue}", place()));
        return;
    }
    let taken = || attempts.iter().filter(|attempt| attempt.outcome != Outcome::Refused);
    match taken().map(|attempt| attempt.span.from).min() {
        None => {
            let text = || format!("{key} at {}: each attempt of it was refused", place());
            findings.add(Rule::NoPhantom, text);
        }
        Some(from) if reader.span.is_some_and(|span| span.to < from) => {
            let text = || format!("{key} at {} was sent at {from} only", place());
            findings.add(Rule::NoPhantom, text);
        }
        Some(_from) => {}
    }
    if first.body != *body {
        let text = || format!("{key} at {} has body {body:x}, sent was {:x}", place(), first.body);
        findings.add(Rule::EqualBytes, text);
    }
}

/// What was shown once is there at the end. That it is the same message is another check.
fn stays(facts: &Facts<'_>, reader: &Reader<'_>, sight: &Sight, findings: &mut Findings) {
    let told = || format!("{} was at {}", sight.key, reader.place(sight.offset));
    for node in &facts.nodes {
        let Some(held) = facts.held.get(&(reader.queue, *node)) else {
            findings.add(Rule::Committed, || format!("{}: {node} has no such queue", told()));
            continue;
        };
        if sight.offset >= held.holding.min && !held.at.contains_key(&sight.offset) {
            let absent = held.absent(sight.offset);
            findings.add(Rule::Committed, || format!("{}: {absent}", told()));
        }
    }
}

/// No message is there more often than attempts may have stored it.
fn copies(facts: &Facts<'_>, findings: &mut Findings) {
    let mut copies: HashMap<&str, BTreeMap<&str, Vec<String>>> = HashMap::new();
    for holding in &facts.history.holdings {
        for sight in &holding.messages {
            let of_key = copies.entry(&sight.key).or_default();
            let places = of_key.entry(holding.node.as_str()).or_default();
            places.push(format!("{}@{}", holding.queue, sight.offset));
        }
    }
    let mut copies: Vec<_> = copies.into_iter().collect();
    copies.sort_unstable();
    for (key, nodes) in copies {
        let attempts = facts.attempts(key);
        let may = attempts.iter().filter(|attempt| attempt.outcome != Outcome::Refused).count();
        for (node, places) in nodes {
            // One that nobody can have stored is a phantom.
            if may > 0 && places.len() > may {
                findings.add(Rule::Duplicates, || {
                    let (count, places) = (places.len(), places.join(", "));
                    format!("{node} has {key} {count} times ({places}); {may} attempts may have stored it")
                });
            }
        }
    }
}
