//! The timers that are due next, in memory: never more than a bound, whatever waits in the queue.

use std::collections::{BTreeSet, HashSet};

use super::position::Key;

/// The most timers that are kept in memory: about 60 MiB.
const MOST: usize = 2_000_000;
/// The most messages that take another back in one second; further ones do nothing.
const MOST_TAKEN_BACK: usize = 100_000;

/// The next timers, and whether there are others behind them.
#[derive(Debug)]
pub(super) struct Agenda {
    keys: BTreeSet<Key>,
    /// Timers behind this one lie in the queue alone.
    horizon: Option<Key>,
    /// How many lie behind it.
    beyond: u64,
    /// Messages before this offset are counted, wherever they went.
    counted: u64,
    most: usize,
}

impl Default for Agenda {
    fn default() -> Self {
        Self::new(MOST)
    }
}

impl Agenda {
    fn new(most: usize) -> Self {
        Self { keys: BTreeSet::new(), horizon: None, beyond: 0, counted: 0, most: most.max(1) }
    }

    /// Adds a timer; where there are too many the last of them is left to the queue. One that was
    /// added before is the same one: a turn that failed looks at its messages again.
    pub(super) fn insert(&mut self, key: Key) {
        let is_new = key.offset >= self.counted;
        self.counted = self.counted.max(key.offset.saturating_add(1));
        if self.is_beyond(key) {
            self.beyond += u64::from(is_new);
        } else {
            self.keep(key);
        }
    }

    /// Adds one again that was taken out.
    pub(super) fn put_back(&mut self, key: Key) {
        if self.is_beyond(key) {
            self.beyond += 1;
        } else {
            self.keep(key);
        }
    }

    fn is_beyond(&self, key: Key) -> bool {
        self.horizon.is_some_and(|horizon| key > horizon)
    }

    fn keep(&mut self, key: Key) {
        self.keys.insert(key);
        if self.keys.len() > self.most {
            self.keys.pop_last();
            self.beyond += 1;
            self.horizon = self.keys.last().copied();
        }
    }

    /// The next timer.
    pub(super) fn first(&self) -> Option<Key> {
        self.keys.first().copied()
    }

    /// Takes one out.
    pub(super) fn remove(&mut self, key: Key) {
        if !self.keys.remove(&key) && self.is_beyond(key) {
            self.beyond = self.beyond.saturating_sub(1);
        }
    }

    /// Whether all that were kept are taken and there may be others in the queue.
    pub(super) fn must_look_again(&self) -> bool {
        self.keys.is_empty() && self.horizon.is_some()
    }

    /// Forgets all, to be filled again.
    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.horizon = None;
        (self.beyond, self.counted) = (0, 0);
    }

    /// How many are kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// How many wait, with those that lie in the queue alone.
    pub(super) fn waiting(&self) -> u64 {
        self.keys.len() as u64 + self.beyond
    }
}

/// Messages of one second that were taken back.
#[derive(Debug, Default)]
pub(super) struct TakenBack {
    second: u64,
    keys: HashSet<String>,
}

impl TakenBack {
    /// Takes back the message that `named` names: a unique key, or topic and unique key.
    pub(super) fn add(&mut self, second: u64, named: &str) {
        if self.second != second {
            self.keys.clear();
            self.second = second;
        }
        if self.keys.len() < MOST_TAKEN_BACK {
            self.keys.insert(named.to_owned());
        } else {
            tracing::warn!(second, "too many messages are taken back in one second");
        }
    }

    /// Whether a message of that second was taken back.
    pub(super) fn has(&self, second: u64, topic: &str, unique_key: &str) -> bool {
        if self.second != second || self.keys.is_empty() {
            return false;
        }
        self.keys.contains(unique_key) || self.keys.contains(&name(topic, unique_key))
    }
}

/// How a message that is taken back is named (`TimerMessageStore.buildDeleteKey`).
pub(crate) fn name(topic: &str, unique_key: &str) -> String {
    format!("{topic}+{unique_key}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_are_kept_and_the_others_are_found_again() {
        let key = |due| Key { due, offset: 100 - due };
        let mut agenda = Agenda::new(3);
        let mut position = Key::default();
        let mut order = Vec::new();
        let waiting: Vec<Key> = [5, 1, 9, 3, 7, 2, 8].into_iter().map(key).collect();
        waiting.iter().for_each(|key| agenda.insert(*key));
        assert_eq!(agenda.len(), 3);
        loop {
            if agenda.must_look_again() {
                agenda.clear();
                waiting.iter().filter(|key| **key > position).for_each(|key| agenda.insert(*key));
            }
            let Some(next) = agenda.first() else { break };
            agenda.remove(next);
            position = next;
            order.push(next.due);
            assert!(agenda.len() <= 3);
        }
        assert_eq!(order, [1, 2, 3, 5, 7, 8, 9]);
    }

    #[test]
    fn a_later_timer_that_is_due_earlier_is_kept() {
        let key = |due| Key { due, offset: due };
        let mut agenda = Agenda::new(2);
        [10, 20, 30].into_iter().map(key).for_each(|key| agenda.insert(key));
        agenda.insert(key(25));
        assert_eq!(agenda.len(), 2, "behind the horizon");
        agenda.insert(key(5));
        assert_eq!(agenda.first(), Some(key(5)));
    }

    #[test]
    fn all_that_wait_are_counted_wherever_they_lie() {
        let key = |due, offset| Key { due, offset };
        let mut agenda = Agenda::new(2);
        let keys = [key(10, 0), key(20, 1), key(30, 2), key(40, 3), key(5, 4)];
        keys.iter().for_each(|key| agenda.insert(*key));
        assert_eq!((agenda.len(), agenda.waiting()), (2, 5));
        keys.iter().for_each(|key| agenda.insert(*key));
        assert_eq!(agenda.waiting(), 5, "a turn that failed looks at them again");
        agenda.remove(key(5, 4));
        agenda.remove(key(40, 3));
        assert_eq!((agenda.len(), agenda.waiting()), (1, 3));
        agenda.put_back(key(40, 3));
        agenda.put_back(key(5, 4));
        assert_eq!((agenda.len(), agenda.waiting()), (2, 5));
        agenda.clear();
        assert_eq!(agenda.waiting(), 0);
        keys[2..].iter().for_each(|key| agenda.insert(*key));
        assert_eq!(agenda.waiting(), 3);
    }

    #[test]
    fn what_is_taken_back_is_of_one_second() {
        let mut taken = TakenBack::default();
        taken.add(7, "T+k");
        taken.add(7, "j");
        assert!(taken.has(7, "T", "k"));
        assert!(!taken.has(7, "U", "k"));
        assert!(taken.has(7, "U", "j"));
        assert!(!taken.has(8, "T", "k"));
        taken.add(8, "T+x");
        assert!(!taken.has(7, "T", "k"));
        for number in 0..=MOST_TAKEN_BACK {
            taken.add(9, &number.to_string());
        }
        assert!(!taken.has(9, "T", &MOST_TAKEN_BACK.to_string()));
    }
}
