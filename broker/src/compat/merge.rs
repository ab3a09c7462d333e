//! The tables of a Java master beside what this node knew before that one led.

use std::{collections::BTreeMap, sync::Arc};

use store::journal::Tables;

use crate::timer::{FIRST_RESERVED, Position};

/// The tables that hold while a Java broker leads: `master` is what it says now.
///
/// It was a slave before, and copied the tables of its master every ten seconds only
/// (`BrokerController.java`): what it has not changed since it leads may be older than what this
/// node has. `first` is what it said when it was asked first in its term, where this node followed
/// the master before without a gap; then rows that it did not have at first stay, and offsets that
/// it has not moved count only where they are larger. Without `first` everything is as it says.
pub(super) fn merged(ours: &Tables, mut master: Tables, first: Option<&Tables>) -> Tables {
    let timers = Position::later(Position::of(&ours.delays), Position::of(&master.delays));
    Position::put(timers, &mut master.delays);
    // It tells nobody of ordered pops. Resets that wait end with it: groups go on by what it knows.
    master.orders.clone_from(&ours.orders);
    let Some(first) = first else { return master };
    let kept = keep(&ours.topics, &mut master.topics, &first.topics);
    master.versions.topics.counter += i64::from(kept);
    let mut kept = keep(&ours.groups, &mut master.groups, &first.groups);
    kept |= keep(&ours.forbidden, &mut master.forbidden, &first.forbidden);
    master.versions.groups.counter += i64::from(kept);
    keep(&ours.request_modes, &mut master.request_modes, &first.request_modes);
    for (key, offsets) in &ours.offsets {
        let of_first = first.offsets.get(key);
        let mut queues = master.offsets.remove(key).unwrap_or_default();
        for (queue, known) in offsets {
            let at_first = of_first.and_then(|queues| queues.get(queue));
            match queues.get(queue) {
                // It never had it, or has dropped it.
                None if at_first.is_none() => drop(queues.insert(*queue, *known)),
                Some(now) if at_first == Some(now) && known > now => {
                    queues.insert(*queue, *known);
                }
                _ => {}
            }
        }
        if !queues.is_empty() {
            master.offsets.insert(key.clone(), queues);
        }
    }
    for (level, known) in ours.delays.range(..FIRST_RESERVED) {
        let offset = master.delays.entry(*level).or_default();
        *offset = (*offset).max(*known);
    }
    master
}

/// Keeps the rows that the master did not have at first; gives whether there are any.
fn keep<T: Clone>(
    ours: &BTreeMap<String, T>,
    master: &mut BTreeMap<String, T>,
    first: &BTreeMap<String, T>,
) -> bool {
    let mut kept = false;
    for (name, row) in ours {
        if !first.contains_key(name) && !master.contains_key(name) {
            master.insert(name.clone(), row.clone());
            kept = true;
        }
    }
    kept
}

/// Takes out of a table the mark of a change that Java reads in attributes
/// (`AttributeUtil.java`): tables of a slave of ours may have passed through a Java 5.3 broker.
pub(super) fn plain_attributes(tables: &mut Tables) {
    for topic in tables.topics.values_mut() {
        if topic.attributes.keys().any(|name| name.starts_with('+')) {
            let topic = Arc::make_mut(topic);
            topic.attributes = std::mem::take(&mut topic.attributes)
                .into_iter()
                .map(|(name, value)| (name.trim_start_matches('+').to_owned(), value))
                .collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use protocol::body::TopicConfig;
    use store::journal::{Change, Touched};

    use super::*;

    fn tables(changes: Vec<Change>) -> Tables {
        let mut tables = Tables::default();
        tables.apply(&changes, 1, Touched::default());
        tables
    }

    fn topic(name: &str) -> Change {
        Change::Topic(TopicConfig { topic_name: name.to_owned(), ..TopicConfig::default() })
    }

    fn offsets(key: &str, queues: &[(i32, i64)]) -> Change {
        Change::Offsets { key: key.to_owned(), queues: queues.to_vec() }
    }

    #[test]
    fn a_node_that_was_away_takes_everything_as_the_master_has_it() {
        let ours = tables(vec![topic("Gone"), offsets("T@G", &[(0, 90)])]);
        let master = tables(vec![topic("T"), offsets("T@G", &[(0, 50)])]);
        assert_eq!(merged(&ours, master.clone(), None), master);
    }

    #[test]
    fn timers_go_on_where_the_later_of_the_two_stands() {
        let at = |due, offset| {
            let mut tables = tables(vec![Change::Delays(vec![(1, 5)])]);
            let last = [(1, due), (2, offset)].map(|(row, value)| (FIRST_RESERVED + row, value));
            tables.delays.extend(last);
            tables.delays.extend([(FIRST_RESERVED, 20), (FIRST_RESERVED + 3, 0)]);
            tables
        };
        let (ours, none) = (at(10_000, 5), tables(vec![Change::Delays(vec![(1, 6)])]));
        for first in [None, Some(&none)] {
            for (master, expected) in [
                (at(9_999, 999), Some(&ours)),
                (at(12_999, 999), None),
                (none.clone(), Some(&ours)),
            ] {
                let merged = merged(&ours, master.clone(), first);
                let expected = expected.unwrap_or(&master);
                assert_eq!(Position::of(&merged.delays), Position::of(&expected.delays));
                assert_eq!(merged.delays[&1], master.delays[&1]);
            }
        }
    }

    #[test]
    fn what_the_master_never_had_or_has_not_moved_stays_as_it_was() {
        let ours = tables(vec![
            topic("T"),
            topic("New"),
            topic("Deleted"),
            offsets("T@G", &[(0, 90), (1, 90), (2, 5), (3, 7)]),
            offsets("New@G", &[(0, 3)]),
            offsets("Deleted@G", &[(0, 3)]),
            Change::Delays(vec![(1, 9), (2, 4)]),
        ]);
        let first = tables(vec![
            topic("T"),
            topic("Deleted"),
            offsets("T@G", &[(0, 50), (1, 50), (2, 50)]),
            offsets("Deleted@G", &[(0, 3)]),
        ]);
        let now = tables(vec![
            topic("T"),
            topic("Made"),
            offsets("T@G", &[(0, 50), (1, 60), (2, 50)]),
            Change::Delays(vec![(1, 8), (2, 5)]),
        ]);
        let merged = merged(&ours, now.clone(), Some(&first));
        let names: Vec<&str> = merged.topics.keys().map(String::as_str).collect();
        assert_eq!(names, ["Made", "New", "T"], "what it deleted is gone");
        let queues = &merged.offsets["T@G"];
        assert_eq!(queues[&0], 90, "not moved since it leads");
        assert_eq!(queues[&1], 60, "committed at the master");
        assert_eq!(queues[&2], 50, "it had more than this node");
        assert_eq!(queues[&3], 7, "it never had this one");
        assert_eq!(merged.offsets["New@G"][&0], 3);
        assert!(!merged.offsets.contains_key("Deleted@G"));
        assert_eq!(merged.delays, BTreeMap::from([(1, 9), (2, 5)]));
        assert_ne!(merged.versions.topics, now.versions.topics, "the table is another one");
        let again = super::merged(&merged, now, Some(&first));
        assert_eq!(again, merged, "a second look changes nothing");
    }
}
