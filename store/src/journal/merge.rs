//! Tables that two have changed: the journal, and whoever wrote the files in between.

use std::collections::BTreeMap;

use super::{Tables, Touched};

impl Tables {
    /// Adds what the journal changed to tables of `kinds` that another has written. `base` is what
    /// the other began with, `ours` what the journal says now. A row that the other left alone is
    /// ours; every other row is the other's, also where that deleted it.
    pub fn merge(&mut self, kinds: Touched, base: &Self, ours: &Self) {
        if kinds.topics {
            rows(&mut self.topics, &base.topics, &ours.topics);
        }
        if kinds.groups {
            rows(&mut self.groups, &base.groups, &ours.groups);
            rows(&mut self.forbidden, &base.forbidden, &ours.forbidden);
        }
        if kinds.offsets {
            let (none, mut names) = (BTreeMap::new(), Vec::new());
            names.extend(base.offsets.keys().chain(ours.offsets.keys()).cloned());
            for name in names {
                let queues = self.offsets.entry(name.clone()).or_default();
                let of = |tables: &'_ Self| tables.offsets.get(&name).unwrap_or(&none).clone();
                rows(queues, &of(base), &of(ours));
                if queues.is_empty() {
                    self.offsets.remove(&name);
                }
            }
        }
        if kinds.delays {
            rows(&mut self.delays, &base.delays, &ours.delays);
        }
        if kinds.request_modes {
            rows(&mut self.request_modes, &base.request_modes, &ours.request_modes);
        }
        if kinds.orders {
            rows(&mut self.orders, &base.orders, &ours.orders);
        }
        if kinds.resets {
            rows(&mut self.resets, &base.resets, &ours.resets);
        }
    }
}

fn rows<K: Ord + Clone, V: PartialEq + Clone>(
    theirs: &mut BTreeMap<K, V>,
    base: &BTreeMap<K, V>,
    ours: &BTreeMap<K, V>,
) {
    for key in base.keys().chain(ours.keys()) {
        if theirs.get(key) != base.get(key) {
            continue;
        }
        match ours.get(key) {
            Some(value) => drop(theirs.insert(key.clone(), value.clone())),
            None => drop(theirs.remove(key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_keeps_what_it_alone_changed_and_the_other_writer_wins() {
        let table = |rows: &[(u32, u64)]| Tables {
            delays: rows.iter().copied().collect(),
            ..Tables::default()
        };
        let base = table(&[(1, 10), (2, 20), (3, 30), (4, 40), (7, 70)]);
        let ours = table(&[(1, 11), (2, 21), (3, 30), (5, 50), (6, 60), (7, 71)]);
        let mut theirs = table(&[(1, 10), (2, 22), (3, 33), (4, 40), (6, 66)]);
        let kinds = Touched { delays: true, ..Touched::default() };
        theirs.merge(kinds, &base, &ours);
        let expected = table(&[(1, 11), (2, 22), (3, 33), (5, 50), (6, 66)]);
        assert_eq!(theirs.delays, expected.delays, "ours, theirs, theirs, deleted, new, both new");
    }

    #[test]
    fn offsets_are_merged_queue_by_queue() {
        let table = |queues: &[(i32, i64)]| Tables {
            offsets: BTreeMap::from([("T@G".to_owned(), queues.iter().copied().collect())]),
            ..Tables::default()
        };
        let mut theirs = table(&[(0, 5), (1, 9)]);
        let kinds = Touched { offsets: true, ..Touched::default() };
        theirs.merge(kinds, &table(&[(0, 5), (1, 5)]), &table(&[(0, 8), (1, 7), (2, 1)]));
        assert_eq!(theirs, table(&[(0, 8), (1, 9), (2, 1)]));
        theirs.merge(kinds, &table(&[(0, 8), (1, 9), (2, 1)]), &Tables::default());
        assert_eq!(theirs, Tables::default(), "all of it was deleted");
    }
}
