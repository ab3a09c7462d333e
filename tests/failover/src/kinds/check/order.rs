//! What is consumed in order: B-6.

use std::collections::BTreeMap;

use super::{
    Facts, Findings, Got, Kind, Rule,
    fates::{MAX_TRIES, tell},
};
use crate::queues::Queue;

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings) {
    let mut queues: BTreeMap<&Queue, Vec<&Got>> = BTreeMap::new();
    for got in facts.ledger.got.iter().filter(|got| in_order(got)) {
        queues.entry(&got.place.queue).or_default().push(got);
    }
    for deliveries in queues.values_mut() {
        deliveries.sort_by_key(|got| got.span.from);
        by_one_at_a_time(deliveries, findings);
        without_gap(deliveries, findings);
    }
    as_sent(facts, findings);
}

/// Dead letters are consumed without order.
fn in_order(got: &Got) -> bool {
    got.key.kind == Kind::Orderly && !got.place.is_dead()
}

/// No two listeners have messages of a queue at the same time.
fn by_one_at_a_time(deliveries: &[&Got], findings: &mut Findings) {
    let mut last: Option<&Got> = None;
    for got in deliveries {
        if let Some(before) = last
            && before.by != got.by
            && got.span.from < before.span.to
        {
            let text = format!(
                "{} and {} are consumed at the same time: {}; {}",
                before.key,
                got.key,
                tell(before),
                tell(got)
            );
            findings.add(Rule::InOrder, text);
        }
        if last.is_none_or(|before| before.span.to < got.span.to) {
            last = Some(got);
        }
    }
}

/// What comes next is the next one, that which was refused, or one that came before. The next one comes
/// also after the last try of one that is refused always.
fn without_gap(deliveries: &[&Got], findings: &mut Findings) {
    let mut next = 0;
    let mut before = String::from("nothing came before");
    for got in deliveries {
        let offset = got.place.offset;
        if offset > next {
            let text =
                format!("{} came before what is at {next}: {before}; {}", got.key, tell(got));
            findings.add(Rule::InOrder, text);
        }
        next = if got.took || got.tries >= MAX_TRIES { offset + 1 } else { offset };
        before = tell(got);
    }
}

/// First copies of what a sender sent lie in its order.
fn as_sent(facts: &Facts<'_>, findings: &mut Findings) {
    let mut last: BTreeMap<(u32, &Queue), (u64, i64)> = BTreeMap::new();
    let orderly = facts.lives.iter().filter(|(key, _)| key.kind == Kind::Orderly);
    for (key, life) in orderly.filter(|(_, life)| life.acknowledged()) {
        let copies = life.got.iter().filter(|got| in_order(got));
        let Some(first) = copies.min_by_key(|got| got.place.offset) else { continue };
        let place = (key.sender, &first.place.queue);
        let offset = first.place.offset;
        if let Some((number, before)) = last.insert(place, (key.number, offset))
            && offset < before
        {
            let text = format!("{key} lies at {offset}, before number {number} at {before}");
            findings.add(Rule::InOrder, text);
        }
    }
}
