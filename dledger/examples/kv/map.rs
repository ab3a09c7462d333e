//! The state: a hash map, made by applying the log's commands in order.

use std::collections::{HashMap, VecDeque};

use crate::command::{Change, Command, Outcome};

/// Outcomes remembered, so that a repeated request gets the first one's outcome. A repeat that is
/// more than so many commands late is taken for a new request.
const REMEMBERED: usize = 65_536;

/// Keys, values and the outcomes of the last commands. Two maps to which the same commands were
/// applied are equal.
#[derive(Debug, Default)]
pub(crate) struct Map {
    values: HashMap<String, String>,
    outcomes: HashMap<String, Outcome>,
    /// Ids of `outcomes`, the oldest first.
    order: VecDeque<String>,
}

impl Map {
    /// Applies a command unless one of its id was applied before.
    pub(crate) fn apply(&mut self, command: Command) {
        if self.outcomes.contains_key(&command.id) {
            return;
        }
        let outcome = self.change(command.key, command.change);
        if self.order.len() == REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.outcomes.remove(&oldest);
        }
        self.order.push_back(command.id.clone());
        self.outcomes.insert(command.id, outcome);
    }

    fn change(&mut self, key: String, change: Change) -> Outcome {
        match change {
            Change::Put { value } => {
                self.values.insert(key, value);
            }
            Change::Delete => {
                self.values.remove(&key);
            }
            Change::CompareAndSet { expect, value } => {
                let found = self.values.get(&key).cloned();
                if found != expect {
                    return Outcome::Mismatch { found };
                }
                self.values.insert(key, value);
            }
        }
        Outcome::Done
    }

    pub(crate) fn get(&self, key: &str) -> Option<&String> {
        self.values.get(key)
    }

    /// What came of the command with this id, if it is among the last.
    pub(crate) fn outcome(&self, id: &str) -> Option<&Outcome> {
        self.outcomes.get(id)
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(map: &mut Map, id: &str, change: Change) -> Outcome {
        map.apply(Command { id: id.to_owned(), key: "k".to_owned(), change });
        map.outcome(id).unwrap().clone()
    }

    fn put(value: &str) -> Change {
        Change::Put { value: value.to_owned() }
    }

    fn cas(expect: Option<&str>, value: &str) -> Change {
        Change::CompareAndSet { expect: expect.map(str::to_owned), value: value.to_owned() }
    }

    #[test]
    fn a_compare_and_set_changes_only_what_it_expects() {
        let mut map = Map::default();
        assert_eq!(apply(&mut map, "1", cas(None, "a")), Outcome::Done);
        let mismatch = Outcome::Mismatch { found: Some("a".to_owned()) };
        assert_eq!(apply(&mut map, "2", cas(None, "b")), mismatch);
        assert_eq!(apply(&mut map, "3", cas(Some("b"), "c")), mismatch);
        assert_eq!(apply(&mut map, "4", cas(Some("a"), "c")), Outcome::Done);
        assert_eq!(map.get("k").unwrap(), "c");
        assert_eq!(apply(&mut map, "5", Change::Delete), Outcome::Done);
        assert_eq!((map.get("k"), map.len()), (None, 0));
    }

    #[test]
    fn a_repeat_gets_the_first_outcome_and_changes_nothing() {
        let mut map = Map::default();
        assert_eq!(apply(&mut map, "1", put("a")), Outcome::Done);
        assert_eq!(apply(&mut map, "2", cas(Some("a"), "b")), Outcome::Done);
        assert_eq!(apply(&mut map, "3", put("c")), Outcome::Done);
        assert_eq!(apply(&mut map, "1", put("a")), Outcome::Done);
        assert_eq!(apply(&mut map, "2", cas(Some("a"), "b")), Outcome::Done);
        assert_eq!(map.get("k").unwrap(), "c");
    }

    #[test]
    fn remembered_outcomes_are_bounded() {
        let mut map = Map::default();
        for id in 0..=REMEMBERED {
            apply(&mut map, &id.to_string(), Change::Delete);
        }
        assert_eq!((map.outcomes.len(), map.order.len()), (REMEMBERED, REMEMBERED));
        assert_eq!(map.outcome("0"), None);
        assert_eq!(map.outcome("1"), Some(&Outcome::Done));
    }
}
