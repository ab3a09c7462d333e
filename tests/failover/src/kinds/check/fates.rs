//! Each message meets its fate: B-1 to B-3, and what B-9 to B-11 say of one message.

use super::{Facts, Fate, Findings, Got, Key, Kind, Life, Outcome, Rule, rule_of};

pub(super) fn check(key: Key, life: &Life<'_>, facts: &Facts<'_>, findings: &mut Findings) {
    if life.acknowledged() && !life.arrived() {
        let told = told(life);
        findings.add(rule_of(key.kind), format!("{key} was acknowledged and did not come: {told}"));
    }
    if let Some(got) = life.got.first()
        && facts.copies(life) == 0
    {
        findings.add(Rule::NoPhantom, format!("{key} was never stored and came: {}", tell(got)));
    }
    for got in life.got.iter().filter(|got| !got.whole) {
        findings.add(Rule::EqualBytes, format!("{key} is not what was sent: {}", tell(got)));
    }
    match life.fate() {
        Some(Fate::Rollback) => {
            for got in &life.got {
                let text = format!("{key} was rolled back and came: {}", tell(got));
                findings.add(Rule::Transactions, text);
            }
        }
        Some(Fate::After(_) | Fate::At(_)) => not_early(key, life, findings),
        Some(Fate::Refuse(_) | Fate::Dead) if key.kind == Kind::Retry => {
            tries(key, life, facts, findings);
        }
        Some(Fate::Dead) if key.kind == Kind::Orderly => tries(key, life, facts, findings),
        _ => {}
    }
}

/// No delivery is earlier than a second before the first time that it was sent with.
fn not_early(key: Key, life: &Life<'_>, findings: &mut Findings) {
    let stored = life.sent.iter().filter(|sent| sent.outcome != Outcome::Refused);
    let fates: Vec<Fate> = stored.map(|sent| sent.fate).collect();
    for got in &life.got {
        let due = |fate: &Fate| match fate {
            Fate::After(millis) => Some(got.born + millis),
            Fate::At(time) => Some(*time),
            _ => None,
        };
        let due = fates.iter().filter_map(due).min().unwrap_or(0);
        if got.span.from + EARLY < due {
            let early = due - got.span.from;
            let text = format!("{key} came {early} ms before its time: {}", tell(got));
            findings.add(Rule::Delays, text);
        }
    }
}

/// Each try follows a refusal of the one before it, a dead letter that of the last one; and there are
/// no more of them than refusals.
fn tries(key: Key, life: &Life<'_>, facts: &Facts<'_>, findings: &mut Findings) {
    let refused = || life.got.iter().filter(|got| !got.took && !got.place.is_dead());
    for got in &life.got {
        let before = if got.place.is_dead() { Some(MAX_TRIES) } else { got.tries.checked_sub(1) };
        let Some(before) = before else { continue };
        if !refused().any(|it| it.tries == before && it.span.from <= got.span.from) {
            let text = format!("{key} came before try {before} was refused: {}", told(life));
            findings.add(Rule::Retries, text);
            return;
        }
    }
    let mut positions: Vec<(u64, bool)> = Vec::new();
    for got in &life.got {
        let first = got.tries == 0 && !got.place.is_dead();
        if !positions.iter().any(|(position, _)| *position == got.place.position) {
            positions.push((got.place.position, first));
        }
    }
    let again = positions.iter().filter(|(_, first)| !first).count();
    let may = |got: &&&Got| if facts.troubled(got.span) { 1 + SENT_BACK_AGAIN } else { 1 };
    // What is consumed in order is tried where it lies, and sent back after its last try alone.
    let sent_back = |got: &&&Got| key.kind == Kind::Retry || got.tries >= MAX_TRIES;
    let bound: usize = refused().filter(sent_back).map(|got| may(&got)).sum();
    if again > bound {
        let text = format!("{key} came again {again} times, {bound} may be: {}", told(life));
        findings.add(Rule::Retries, text);
    }
}

/// What was seen of a message, for a violation.
pub(super) fn told(life: &Life<'_>) -> String {
    let sent = life.sent.iter().map(|sent| format!("sent {} {:?}", sent.span, sent.outcome));
    let got = life.got.iter().map(|got| tell(got));
    let acked = life.acked.iter().map(|acked| format!("acked {}", acked.span));
    sent.chain(got).chain(acked).collect::<Vec<_>>().join(", ")
}

/// A delivery, for a violation.
pub(super) fn tell(got: &Got) -> String {
    let Got { span, by, place, tries, took, .. } = got;
    let did = if *took { "took" } else { "refused" };
    format!("{by} {did} it at {span} from {place}, try {tries}")
}

/// Milliseconds that a delayed message may come before its time.
const EARLY: u64 = 1_000;

/// How often what a listener refuses comes again (`Kinds.MAX_TRIES`).
pub(super) const MAX_TRIES: u32 = 3;

/// Copies that a client makes in place of a message whose return was not answered: it sends it like a
/// new one, and repeats that twice.
const SENT_BACK_AGAIN: usize = 3;
