//! Ordered pops: of a queue nothing else is given until all that was given is done, or its time is
//! over (`ConsumerOrderInfoManager.java`).
//!
//! What was given of each queue is a row of the journal, written in one batch with the consumer
//! offset, so that it fails over. The master works on its own copy, which is ahead of the journal by
//! what is on its way.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use protocol::body::OrderInfo;
use store::journal::Tables;

use super::handle::Infos;

/// A queue of a topic, as a group consumes it in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Queue {
    pub(crate) topic: String,
    pub(crate) group: String,
    pub(crate) queue: i32,
}

impl Queue {
    /// The key of the table that the queue is in.
    pub(crate) fn key(&self) -> String {
        format!("{}@{}", self.topic, self.group)
    }
}

/// One ordered pop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Given<'a> {
    /// Attempt of the client, where it names one.
    pub(crate) attempt: Option<&'a str>,
    /// When it is.
    pub(crate) pop_time: i64,
    /// How long messages are with the client, in milliseconds.
    pub(crate) invisible_time: i64,
}

/// What an acknowledgement means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Done {
    /// The group goes on at this offset.
    Next(i64),
    /// It was given by another pop than the last: nothing changes.
    Outdated,
    /// It is none of the messages that were given.
    Unknown,
}

/// What is given of each queue.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    table: Mutex<Table>,
    /// Moves with every change.
    changes: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    queues: HashMap<Queue, OrderInfo>,
    /// When queues become free, in milliseconds since 1970.
    free: BTreeSet<(i64, Queue)>,
}

impl Orders {
    /// The table as the journal has it.
    pub(crate) fn load(&self, tables: &Tables) {
        let mut queues = HashMap::new();
        for (key, rows) in &tables.orders {
            let Some((topic, group)) = key.split_once('@') else { continue };
            for (queue, info) in rows {
                let (topic, group) = (topic.to_owned(), group.to_owned());
                queues.insert(Queue { topic, group, queue: *queue }, info.clone());
            }
        }
        let free = queues.iter().filter_map(|(of, info)| Some((free_at(info)?, of.clone())));
        *self.table() = Table { free: free.collect(), queues };
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// A number that moves with every change.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Whether nothing is given of a queue at `now`.
    pub(crate) fn is_blocked(&self, of: &Queue, attempt: Option<&str>, now: i64) -> bool {
        self.table().queues.get(of).is_some_and(|info| blocks(info, attempt, now))
    }

    /// What is known of a queue.
    pub(crate) fn row(&self, of: &Queue) -> Option<OrderInfo> {
        self.table().queues.get(of).cloned()
    }

    /// Messages at these offsets are given; tells in `infos` how often they were before. Gives the
    /// row for the journal, and the one before it.
    pub(crate) fn give(
        &self,
        of: &Queue,
        given: Given<'_>,
        offsets: &[u64],
        infos: &mut Infos,
    ) -> (OrderInfo, Option<OrderInfo>) {
        let mut table = self.table();
        let before = table.queues.get(of).cloned();
        let info = next(before.as_ref(), given, offsets);
        tell_counts(of, &info, infos);
        self.put(&mut table, of, info.clone());
        (info, before)
    }

    /// A message is done. Gives what that means, and the row for the journal.
    pub(crate) fn acknowledge(
        &self,
        of: &Queue,
        (offset, pop_time): (i64, i64),
    ) -> (Done, Option<OrderInfo>) {
        let mut table = self.table();
        let Some(mut info) = table.queues.get(of).cloned() else {
            return (Done::Next(offset.saturating_add(1)), None);
        };
        let done = acknowledge(&mut info, offset, pop_time);
        if !matches!(done, Done::Next(_)) {
            return (done, None);
        }
        self.put(&mut table, of, info.clone());
        (done, Some(info))
    }

    /// A message stays with its client until `until`. Gives the row for the journal, where there is a
    /// change.
    pub(crate) fn keep_until(
        &self,
        of: &Queue,
        (offset, pop_time): (i64, i64),
        until: i64,
    ) -> Option<OrderInfo> {
        let mut table = self.table();
        let mut info = table.queues.get(of).filter(|info| info.pop_time == pop_time)?.clone();
        info.offset_next_visible_time.get_or_insert_with(BTreeMap::new).insert(offset, until);
        self.put(&mut table, of, info.clone());
        Some(info)
    }

    /// A queue is as it was: what was given of it did not reach its client.
    pub(crate) fn restore(&self, of: &Queue, before: Option<OrderInfo>) {
        match before {
            Some(info) => self.put(&mut self.table(), of, info),
            None => drop(self.clear(of)),
        }
    }

    /// Forgets queues.
    pub(crate) fn forget(&self, gone: impl Fn(&Queue) -> bool) {
        let mut table = self.table();
        table.queues.retain(|of, _| !gone(of));
        table.free.retain(|(_, of)| !gone(of));
    }

    /// Forgets a queue; gives whether there was something.
    pub(crate) fn clear(&self, of: &Queue) -> bool {
        let mut table = self.table();
        let known = table.queues.remove(of);
        if let Some(at) = known.as_ref().and_then(free_at) {
            table.free.remove(&(at, of.clone()));
        }
        self.changes.fetch_add(1, Ordering::AcqRel);
        known.is_some()
    }

    /// The queues that have become free at `now`, each once.
    pub(crate) fn free(&self, now: i64) -> Vec<Queue> {
        let mut table = self.table();
        let mut free = Vec::new();
        while let Some((at, _)) = table.free.first()
            && *at <= now
        {
            free.extend(table.free.pop_first().map(|(_, of)| of));
        }
        free
    }

    fn put(&self, table: &mut Table, of: &Queue, info: OrderInfo) {
        let at = free_at(&info);
        if let Some(before) = table.queues.insert(of.clone(), info).as_ref().and_then(free_at) {
            table.free.remove(&(before, of.clone()));
        }
        if let Some(at) = at {
            table.free.insert((at, of.clone()));
        }
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// A panic of another holder of the lock leaves the table usable: each change is whole.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The offsets of a row.
fn offsets(info: &OrderInfo) -> Vec<i64> {
    let list = info.offset_list.as_deref().unwrap_or_default();
    let first = list.first().copied().unwrap_or(0);
    let offset = |(nth, entry): (usize, &i64)| match nth {
        0 => first,
        _ => first.saturating_add(*entry),
    };
    list.iter().enumerate().map(offset).collect()
}

/// The messages of a row that are not done, and until when each stays with its client.
fn open(info: &OrderInfo) -> impl Iterator<Item = (i64, i64)> {
    let over = info.pop_time.saturating_add(info.invisible_time.unwrap_or(0));
    let until = info.offset_next_visible_time.as_ref();
    let open = |nth: usize| info.commit_offset_bit & bit(nth) == 0;
    let offsets = offsets(info).into_iter().enumerate().filter(move |(nth, _)| open(*nth));
    offsets.map(move |(_, offset)| {
        (offset, until.and_then(|until| until.get(&offset).copied()).unwrap_or(over))
    })
}

fn bit(nth: usize) -> i64 {
    u32::try_from(nth).ok().and_then(|nth| 1_i64.checked_shl(nth)).unwrap_or(0)
}

fn blocks(info: &OrderInfo, attempt: Option<&str>, now: i64) -> bool {
    let repeated = info.attempt_id.is_some() && info.attempt_id.as_deref() == attempt;
    !repeated && open(info).any(|(_, until)| now < until)
}

/// When a queue becomes free by time alone; `None` where it is.
fn free_at(info: &OrderInfo) -> Option<i64> {
    open(info).map(|(_, until)| until).max()
}

fn next(before: Option<&OrderInfo>, given: Given<'_>, taken: &[u64]) -> OrderInfo {
    let signed: Vec<i64> =
        taken.iter().map(|offset| i64::try_from(*offset).unwrap_or(i64::MAX)).collect();
    let first = signed.first().copied().unwrap_or(0);
    let distance = |(nth, offset): (usize, &i64)| if nth == 0 { first } else { *offset - first };
    OrderInfo {
        attempt_id: given.attempt.map(str::to_owned),
        commit_offset_bit: 0,
        invisible_time: Some(given.invisible_time),
        last_consume_timestamp: given.pop_time,
        offset_list: Some(signed.iter().enumerate().map(distance).collect()),
        offset_consumed_count: before.map(|before| counts(before, given.attempt, &signed)),
        offset_next_visible_time: None,
        pop_time: given.pop_time,
    }
}

/// How often messages were given before: those that the last pop gave too, once more than it says. A
/// repeated attempt is no further time.
fn counts(before: &OrderInfo, attempt: Option<&str>, taken: &[i64]) -> BTreeMap<i64, i32> {
    let known = before.offset_consumed_count.clone().unwrap_or_default();
    if before.attempt_id.is_some() && before.attempt_id.as_deref() == attempt {
        return known;
    }
    let last: HashSet<i64> = offsets(before).into_iter().collect();
    let count = |offset: &i64| known.get(offset).map_or(1, |count| count.saturating_add(1));
    let again = taken.iter().filter(|offset| last.contains(offset));
    again.map(|offset| (*offset, count(offset))).collect()
}

fn tell_counts(of: &Queue, info: &OrderInfo, infos: &mut Infos) {
    let queue = u32::try_from(of.queue).unwrap_or(0);
    let counts = info.offset_consumed_count.clone().unwrap_or_default();
    for (offset, count) in &counts {
        infos.add_count(&of.topic, queue, *offset, *count);
    }
    let given = info.offset_list.as_ref().map_or(0, Vec::len);
    let least = counts.values().min().copied().filter(|_| counts.len() == given);
    infos.add_least_count(&of.topic, queue, least.unwrap_or(0));
}

fn acknowledge(info: &mut OrderInfo, offset: i64, pop_time: i64) -> Done {
    let given = offsets(info);
    if given.is_empty() {
        return Done::Unknown;
    }
    if info.pop_time != pop_time {
        return Done::Outdated;
    }
    let Some(nth) = given.iter().position(|known| *known == offset) else { return Done::Unknown };
    info.commit_offset_bit |= bit(nth);
    let next = open(info).map(|(offset, _)| offset).next();
    let last = given.last().copied().unwrap_or(offset);
    Done::Next(next.unwrap_or_else(|| last.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of() -> Queue {
        Queue { topic: "T".into(), group: "g".into(), queue: 2 }
    }

    fn given(attempt: Option<&str>, pop_time: i64) -> Given<'_> {
        Given { attempt, pop_time, invisible_time: 100 }
    }

    #[test]
    fn a_queue_is_blocked_until_all_is_done_or_its_time_is_over() {
        let (orders, mut infos) = (Orders::default(), Infos::default());
        assert!(!orders.is_blocked(&of(), None, 0));
        let (info, before) = orders.give(&of(), given(Some("a"), 1_000), &[5, 7, 8], &mut infos);
        assert_eq!(before, None);
        assert_eq!(info.offset_list, Some(vec![5, 2, 3]), "Java's form");
        assert_eq!(infos.counts, "0 2 0");
        assert!(orders.is_blocked(&of(), Some("b"), 1_099));
        assert!(!orders.is_blocked(&of(), Some("a"), 1_099), "a repeat of the attempt");
        assert!(!orders.is_blocked(&of(), None, 1_100));
        let ack = |offset: i64| orders.acknowledge(&of(), (offset, 1_000)).0;
        assert_eq!(ack(7), Done::Next(5), "the first is not done");
        assert_eq!(ack(6), Done::Unknown);
        assert_eq!(orders.acknowledge(&of(), (5, 999)).0, Done::Outdated);
        assert_eq!(ack(5), Done::Next(8));
        assert!(orders.is_blocked(&of(), None, 1_000));
        assert_eq!(ack(8), Done::Next(9));
        assert!(!orders.is_blocked(&of(), None, 1_000));
    }

    #[test]
    fn messages_that_come_again_are_counted_but_not_for_a_repeated_attempt() {
        let orders = Orders::default();
        let counts = |attempt, time, offsets: &[u64]| {
            let mut infos = Infos::default();
            orders.give(&of(), given(attempt, time), offsets, &mut infos);
            infos.counts
        };
        assert_eq!(counts(Some("a"), 1, &[5, 6]), "0 2 0");
        assert_eq!(counts(Some("a"), 2, &[5, 6]), "0 2 0");
        assert_eq!(counts(Some("b"), 3, &[5, 6]), "0 qo2%5 1;0 qo2%6 1;0 2 1");
        assert_eq!(counts(Some("c"), 4, &[6, 7]), "0 qo2%6 2;0 2 0", "a new one is among them");
    }

    #[test]
    fn queues_become_free_at_their_times() {
        let (orders, mut infos) = (Orders::default(), Infos::default());
        orders.give(&of(), given(None, 1_000), &[5, 6], &mut infos);
        let before = orders.changes();
        assert!(orders.keep_until(&of(), (6, 1_000), 5_000).is_some());
        assert!(orders.keep_until(&of(), (6, 999), 9_000).is_none(), "of another pop");
        assert!(orders.changes() > before);
        assert_eq!(orders.free(4_999), []);
        assert_eq!(orders.free(5_000), [of()]);
        assert_eq!(orders.free(5_000), [], "once");
        assert!(orders.clear(&of()) && !orders.clear(&of()));
    }

    #[test]
    fn the_table_is_that_of_the_journal() {
        let (orders, mut infos) = (Orders::default(), Infos::default());
        let (info, _) = orders.give(&of(), given(None, 1_000), &[5], &mut infos);
        let mut tables = Tables::default();
        tables.orders.insert(of().key(), BTreeMap::from([(2, info)]));
        let other = Orders::default();
        other.load(&tables);
        assert!(other.is_blocked(&of(), None, 1_000));
        assert_eq!(other.free(i64::MAX), [of()]);
        other.load(&Tables::default());
        assert!(!other.is_blocked(&of(), None, 1_000));
    }
}
