//! Meters by key, and of each queue under its key; bounded in number.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use dashmap::DashMap;

use super::{
    now_millis,
    window::{Amount, Meter},
};
use crate::quota::Quota;

/// The most keys of each table, and the most queues under all of them. What comes beyond counts in
/// the totals of the broker only.
pub(super) const MAX_KEYS: usize = 20_000;

/// Meters by key.
#[derive(Debug)]
pub(super) struct Table {
    rows: DashMap<String, Arc<Row>>,
    queues: Quota,
}

impl Default for Table {
    fn default() -> Self {
        Self { rows: DashMap::new(), queues: Quota::new(MAX_KEYS) }
    }
}

/// The meter of a key, and those of its queues.
#[derive(Debug)]
struct Row {
    all: Arc<Meter>,
    queues: RwLock<HashMap<i32, Arc<Meter>>>,
}

impl Row {
    fn new() -> Self {
        Self { all: Arc::new(Meter::new(now_millis())), queues: RwLock::default() }
    }

    fn queue(&self, queue: i32) -> Option<Arc<Meter>> {
        self.queues.read().unwrap_or_else(PoisonError::into_inner).get(&queue).cloned()
    }
}

impl Table {
    /// Counts a request under a key.
    pub(super) fn add(&self, key: &str, amount: Amount) {
        if let Some(row) = self.row(key) {
            row.all.add(amount);
        }
    }

    /// Counts a request under a key and a queue of it.
    pub(super) fn add_of_queue(&self, key: &str, queue: i32, amount: Amount) {
        let Some(row) = self.row(key) else { return };
        row.all.add(amount);
        if let Some(meter) = row.queue(queue).or_else(|| self.begin_queue(&row, queue)) {
            meter.add(amount);
        }
    }

    /// The meter of a key.
    pub(super) fn get(&self, key: &str) -> Option<Arc<Meter>> {
        self.rows.get(key).map(|row| Arc::clone(&row.all))
    }

    /// The meter of a queue under a key.
    pub(super) fn of_queue(&self, key: &str, queue: i32) -> Option<Arc<Meter>> {
        self.rows.get(key)?.queue(queue)
    }

    /// Keeps the keys that `keeps` lets through.
    pub(super) fn retain(&self, keeps: impl Fn(&str) -> bool) {
        self.rows.retain(|key, row| {
            let keeps = keeps(key);
            if !keeps {
                let queues = row.queues.read().unwrap_or_else(PoisonError::into_inner).len();
                self.queues.give_back(queues);
            }
            keeps
        });
    }

    /// Takes the samples that are due.
    pub(super) fn sample(&self, now: u64) {
        for row in &self.rows {
            row.all.sample(now);
            let queues = row.queues.read().unwrap_or_else(PoisonError::into_inner);
            queues.values().for_each(|meter| meter.sample(now));
        }
    }

    fn row(&self, key: &str) -> Option<Arc<Row>> {
        if let Some(row) = self.rows.get(key) {
            return Some(Arc::clone(&row));
        }
        if self.rows.len() >= MAX_KEYS {
            return None;
        }
        let row = self.rows.entry(key.to_owned()).or_insert_with(|| Arc::new(Row::new()));
        Some(Arc::clone(&row))
    }

    fn begin_queue(&self, row: &Row, queue: i32) -> Option<Arc<Meter>> {
        let mut queues = row.queues.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(present) = queues.get(&queue) {
            return Some(Arc::clone(present));
        }
        if !self.queues.take(1) {
            return None;
        }
        let fresh = Arc::new(Meter::new(now_millis()));
        queues.insert(queue, Arc::clone(&fresh));
        Some(fresh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one() -> Amount {
        Amount { messages: 1, ..Amount::default() }
    }

    #[test]
    fn keys_and_queues_are_bounded_and_room_comes_back() {
        let table = Table::default();
        for queue in 0..i32::try_from(MAX_KEYS).unwrap() + 5 {
            table.add_of_queue("T", queue, one());
        }
        assert_eq!(table.get("T").unwrap().messages(), MAX_KEYS as u64 + 5, "all of the key count");
        assert!(table.of_queue("T", 0).is_some());
        assert!(table.of_queue("T", i32::try_from(MAX_KEYS).unwrap()).is_none());
        table.add_of_queue("U", 0, one());
        assert!(table.of_queue("U", 0).is_none(), "no room");
        table.retain(|key| key != "T");
        assert!(table.get("T").is_none());
        table.add_of_queue("U", 0, one());
        assert_eq!(table.of_queue("U", 0).unwrap().messages(), 1);
        for number in 0..MAX_KEYS + 5 {
            table.add(&number.to_string(), one());
        }
        assert!(table.rows.len() <= MAX_KEYS);
    }
}
