//! What comes more than once: the bound on copies, on what is consumed again, and B-12.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Facts, Fate, Findings, Got, Key, Kind, Life, Rule,
    fates::{tell, told},
    rule_of,
};

pub(super) fn check(key: Key, life: &Life<'_>, facts: &Facts<'_>, findings: &mut Findings) {
    match key.kind {
        Kind::Pop | Kind::Grpc => {
            finished(key, life, facts, findings);
            not_before_its_time(key, life, facts, findings);
        }
        Kind::Retry => consumed_again(key, life, facts, findings),
        Kind::Plain | Kind::Orderly | Kind::Transaction | Kind::Delay | Kind::Timer => {
            copies(key, life, facts, findings);
            consumed_again(key, life, facts, findings);
        }
    }
}

/// There are no more copies in the log than attempts that may have stored one.
fn copies(key: Key, life: &Life<'_>, facts: &Facts<'_>, findings: &mut Findings) {
    // How many dead letters there may be is B-11's.
    let sent = life.got.iter().filter(|got| !got.place.is_dead());
    let positions: BTreeSet<u64> = sent.map(|got| got.place.position).collect();
    let bound = facts.copies(life);
    // One that was never stored is B-2's.
    if positions.len() > bound && bound > 0 {
        let rule = match rule_of(key.kind) {
            Rule::AtLeastOnce => Rule::Duplicates,
            rule => rule,
        };
        let text =
            format!("{key} is there {} times, {bound} may be: {}", positions.len(), told(life));
        findings.add(rule, text);
    }
}

/// A consumer commits how far it is every few seconds, so that a copy which was consumed longer ago
/// comes no more. Time in which nothing could be committed does not count.
fn consumed_again(key: Key, life: &Life<'_>, facts: &Facts<'_>, findings: &mut Findings) {
    let mut last: BTreeMap<u64, &Got> = BTreeMap::new();
    for got in &life.got {
        let Some(before) = last.insert(got.place.position, got) else { continue };
        let (from, to) = (before.span.to, got.span.from);
        let calm = to.saturating_sub(from).saturating_sub(facts.outage(from, to));
        if before.took && calm > COMMITTED {
            let (first, again) = (tell(before), tell(got));
            let text =
                format!("{key} came again {calm} ms after it was consumed: {first}; {again}");
            findings.add(Rule::Duplicates, text);
        }
    }
}

/// Once as many copies as there may be are done, it comes no more.
fn finished(key: Key, life: &Life<'_>, facts: &Facts<'_>, findings: &mut Findings) {
    let mut done: Vec<u64> = if key.kind == Kind::Grpc {
        let confirmed = life.acked.iter().filter(|acked| acked.confirmed);
        confirmed.map(|acked| acked.span.to).collect()
    } else {
        // This client acknowledges at once, and nobody hears of the answer: in calm it is a success.
        let took = life.got.iter().filter(|got| got.took && !facts.troubled(got.span));
        took.map(|got| got.span.to).collect()
    };
    done.sort_unstable();
    let copies = facts.copies(life);
    let Some(end) = copies.checked_sub(1).and_then(|last| done.get(last)) else { return };
    if life.got.iter().any(|got| got.span.from > *end) {
        let text = format!("{key} came after it was acknowledged at {end}: {}", told(life));
        findings.add(Rule::Pops, text);
    }
}

/// What was left alone comes again, but not while it is the first one's.
fn not_before_its_time(key: Key, life: &Life<'_>, facts: &Facts<'_>, findings: &mut Findings) {
    let (Some(Fate::Leave(millis)), [first, second, ..]) = (life.fate(), life.got.as_slice())
    else {
        return;
    };
    let after = second.span.from.saturating_sub(first.span.from);
    if after + TRANSIT < millis && facts.copies(life) == 1 {
        let text = format!("{key} came again after {after} ms of {millis}: {}", told(life));
        findings.add(Rule::Pops, text);
    }
}

/// Milliseconds after which what was consumed is committed: three times the client's interval.
const COMMITTED: u64 = 15_000;

/// Milliseconds that a popped message may be on its way.
const TRANSIT: u64 = 5_000;
