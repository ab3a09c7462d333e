//! Offsets as a function that is the same everywhere, and dense: B-4 and B-5.

use std::collections::{BTreeMap, HashMap};

use super::{Facts, Findings, Rule};
use crate::queues::{Extent, Holding, Queue, Sight};

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings) {
    one_message(facts, findings);
    equal_nodes(facts, findings);
    for holding in &facts.history.holdings {
        dense(holding, findings);
    }
    never_back(&facts.history.extents, findings);
}

/// Whoever reads an offset, and whenever, finds the same message.
fn one_message(facts: &Facts<'_>, findings: &mut Findings) {
    let mut known: HashMap<(&Queue, i64), (&str, &Sight)> = HashMap::new();
    let held = facts.history.holdings.iter().flat_map(|holding| {
        holding.messages.iter().map(|sight| (&holding.queue, holding.node.as_str(), sight))
    });
    let seen = facts.history.seen.iter().map(|seen| (&seen.queue, seen.by.as_str(), &seen.sight));
    for (queue, by, sight) in held.chain(seen) {
        let (first, other) = *known.entry((queue, sight.offset)).or_insert((by, sight));
        let place = || format!("{queue}@{}", sight.offset);
        if other.key != sight.key {
            findings.add(Rule::OneMessage, || {
                format!("{} is {} for {first} and {} for {by}", place(), other.key, sight.key)
            });
        } else if let (Some(here), Some(there)) = (other.position, sight.position)
            && here != there
        {
            findings.add(Rule::OneMessage, || {
                let key = &sight.key;
                format!("{key} at {} lies at {here} for {first} and at {there} for {by}", place())
            });
        }
    }
}

/// At the end all nodes have the same queues up to the same offsets.
fn equal_nodes(facts: &Facts<'_>, findings: &mut Findings) {
    let mut first: Option<&Holding> = None;
    for ((queue, node), held) in &facts.held {
        let before = match first {
            Some(before) if before.queue == **queue => before,
            _ => first.insert(held.holding),
        };
        if before.max != held.holding.max {
            findings.add(Rule::OneMessage, || {
                let (one, end) = (&before.node, before.max);
                format!("{queue} ends at {end} on {one} and at {} on {node}", held.holding.max)
            });
        }
    }
    let queues: std::collections::BTreeSet<&Queue> =
        facts.held.keys().map(|(queue, _node)| *queue).collect();
    for queue in queues {
        let has = |node: &&&str| facts.held.contains_key(&(queue, **node));
        let has_messages = |node: &&str| {
            let held = facts.held.get(&(queue, *node));
            held.is_some_and(|held| !held.holding.messages.is_empty())
        };
        if facts.nodes.iter().any(has_messages) {
            for node in facts.nodes.iter().filter(|node| !has(node)) {
                findings.add(Rule::OneMessage, || format!("{node} has no {queue}, others have"));
            }
        }
    }
}

/// No hole, nothing twice, and positions in the log rise with the offsets.
fn dense(holding: &Holding, findings: &mut Findings) {
    let Holding { node, queue, min, max, messages } = holding;
    let mut expected = *min;
    let mut before: Option<&Sight> = None;
    for sight in messages {
        let offset = sight.offset;
        if offset != expected {
            let what = if offset > expected { "a hole" } else { "an offset twice" };
            let key = &sight.key;
            findings.add(Rule::Dense, || {
                format!("{node} has {what} in {queue}: {key} at {offset} where {expected} is next")
            });
        }
        expected = expected.max(offset) + 1;
        if let Some(before) = before
            && let (Some(here), Some(there)) = (before.position, sight.position)
            && here >= there
        {
            findings.add(Rule::Dense, || {
                let (one, other) = (&before.key, &sight.key);
                format!(
                    "{node} has {one} at {queue}@{} and {other} at {offset}, but in the log at \
                     {here} and {there}",
                    before.offset
                )
            });
        }
        before = Some(sight);
    }
    if expected != *max {
        findings.add(Rule::Dense, || {
            format!("{node} says that {queue} ends at {max}, and its messages end at {expected}")
        });
    }
}

/// The ends of a queue as one reader is told them.
fn never_back(extents: &[Extent], findings: &mut Findings) {
    let mut readers: BTreeMap<(&str, &Queue), Vec<&Extent>> = BTreeMap::new();
    for extent in extents {
        readers.entry((&extent.by, &extent.queue)).or_default().push(extent);
        if extent.min > extent.max {
            let Extent { by, queue, span, min, max } = extent;
            findings.add(Rule::Dense, || {
                format!("{by} was told at {span} that {queue} begins at {min} and ends at {max}")
            });
        }
    }
    for ((by, queue), mut extents) in readers {
        extents.sort_unstable_by_key(|extent| extent.span.from);
        for pair in extents.windows(2) {
            let [one, next] = pair else { continue };
            for (what, before, after) in
                [("begins", one.min, next.min), ("ends", one.max, next.max)]
            {
                if after < before {
                    let (one, next) = (one.span, next.span);
                    findings.add(Rule::Dense, || {
                        format!(
                            "{by} was told that {queue} {what} at {before} at {one}, and at \
                             {after} at {next}"
                        )
                    });
                }
            }
        }
    }
}
