//! What Java's slaves are told of timers: how far they are delivered (code 60, the form of
//! `TimerCheckpoint.java`), and how many wait for each topic (code 61, that of `TimerMetrics.java`).
//! Runtime info tells operators how many wait, and whether delivery keeps up.
//!
//! A Java member that becomes the master puts into its wheel what lies from the one number on, and
//! delivers what is out from the other on, so that both must hold of the same moment.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use protocol::{
    body::{DataVersion, TimerMetricsSerializeWrapper},
    json::Value,
};

use super::{
    book::Book,
    position::{Key, PRECISION, Position},
};

/// What is told; the thread that delivers says it.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    /// How far timers are delivered, while this node delivers them.
    checkpoint: Option<Checkpoint>,
    /// How many wait, once somebody has asked for it.
    census: Option<Census>,
    /// What waits, while this node delivers.
    pending: Option<Pending>,
}

/// What a master has before it.
#[derive(Debug, Clone, Copy)]
struct Pending {
    /// When the first of them is due.
    first: Option<u64>,
    /// The first offset that was not looked at.
    next: u64,
    number: u64,
}

/// How delivery keeps up, for runtime info; nothing where this node delivers no timers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Backlog {
    /// For how many seconds the next timer has been due.
    pub(crate) late: u64,
    /// Messages of the queue that were not looked at.
    pub(crate) unseen: u64,
    /// Timers that wait, those apart that were not looked at.
    pub(crate) waiting: u64,
}

/// How far timers are delivered, in Java's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Checkpoint {
    /// What lies before `next` and is out before this time is delivered.
    read: u64,
    /// The first offset that was not looked at.
    next: u64,
    /// When it moved last, in milliseconds since 1970.
    moved: i64,
    /// How often it has moved.
    moves: i64,
}

impl Checkpoint {
    /// As [`Position::of_java`] reads it. Java's log of timers and its own place in the queue, the
    /// second and third word, are the slave's own matter.
    fn encode(self) -> Vec<u8> {
        let (read, next) = (self.read.cast_signed(), self.next.cast_signed());
        [read, 0, next, next, 0, self.moved, self.moves]
            .into_iter()
            .flat_map(i64::to_be_bytes)
            .collect()
    }
}

/// The time before which all that was looked at is delivered: never later than now, as Java has it,
/// nor than the time of the `first` that waits.
fn read_until(first: Option<Key>, now: u64) -> u64 {
    let waits = first.map_or(now, |key| key.due.saturating_sub(PRECISION));
    waits.min(now) / PRECISION * PRECISION
}

/// Timers that wait, by the topic that they belong to.
#[derive(Debug, Default)]
struct Census {
    /// Messages before this offset are counted.
    upto: u64,
    /// Whether nothing was left to be counted.
    whole: bool,
    topics: BTreeMap<String, Count>,
    changes: i64,
    changed: i64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    number: i64,
    changed: i64,
}

/// A timer that waits no more, or that was found to wait: its topic, and by how much that moves the
/// number of the topic. One that takes another back counts against it, as in Java.
pub(super) type Moved = (String, i64);

impl Census {
    fn add(&mut self, (topic, by): Moved, now: i64) {
        let count = self.topics.entry(topic).or_default();
        (count.number, count.changed) = (count.number + by, now);
        self.changes += 1;
        self.changed = now;
    }

    /// Topics for which none waits are left out.
    fn tidy(&mut self) {
        self.topics.retain(|_, count| count.number != 0);
    }

    fn body(&self) -> TimerMetricsSerializeWrapper {
        let row = |(topic, count): (&String, &Count)| {
            let field = |name: &str, number| (Value::Text(name.to_owned()), Value::Int(number));
            let fields = vec![field("count", count.number), field("timeStamp", count.changed)];
            (topic.clone(), Value::Object(fields))
        };
        TimerMetricsSerializeWrapper {
            data_version: DataVersion {
                counter: self.changes,
                state_version: 0,
                timestamp: self.changed,
            },
            timing_count: self.topics.iter().map(row).collect(),
        }
    }
}

impl Shown {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to code 60; `None` where this node does not deliver timers.
    pub(crate) fn checkpoint(&self) -> Option<Vec<u8>> {
        self.told().checkpoint.map(Checkpoint::encode)
    }

    /// The answer to code 61; `None` where they are not counted yet. To be asked makes them be.
    pub(crate) fn metrics(&self) -> Option<TimerMetricsSerializeWrapper> {
        let mut told = self.told();
        let delivers = told.checkpoint.is_some();
        let census = told.census.get_or_insert_default();
        (delivers && census.whole).then(|| census.body())
    }

    /// How far delivery is behind, where the queue ends at `end`.
    pub(crate) fn backlog(&self, end: u64, now: u64) -> Backlog {
        let Some(pending) = self.told().pending else { return Backlog::default() };
        Backlog {
            late: pending.first.map_or(0, |due| now.saturating_sub(due) / 1_000),
            unseen: end.saturating_sub(pending.next),
            waiting: pending.number,
        }
    }

    /// This node delivers no timers, or begins to.
    pub(super) fn forget(&self) {
        let mut told = self.told();
        (told.checkpoint, told.pending) = (None, None);
        told.census = told.census.take().map(|_old| Census::default());
    }

    /// Says how far `book` is.
    pub(super) fn show(&self, book: &Book, now: u64) {
        let first = book.agenda.first();
        let Position { next, .. } = book.position;
        let number = book.waiting();
        self.told().pending = Some(Pending { first: first.map(|key| key.due), next, number });
        if first.is_none() && book.agenda.must_look_again() {
            return;
        }
        let read = read_until(first, now);
        let mut told = self.told();
        let before = told.checkpoint.unwrap_or(Checkpoint { read: 0, next: 0, moved: 0, moves: 0 });
        if told.checkpoint.is_none() || (before.read, before.next) != (read, next) {
            let (moved, moves) = (now.cast_signed(), before.moves + 1);
            told.checkpoint = Some(Checkpoint { read, next, moved, moves });
        }
    }

    /// The first offset that is not counted yet; `None` where nobody wants to know.
    pub(super) fn counted(&self) -> Option<u64> {
        self.told().census.as_ref().map(|census| census.upto)
    }

    /// Counts what was found before `upto`.
    pub(super) fn count(&self, found: Vec<Moved>, upto: u64, whole: bool, now: i64) {
        let mut told = self.told();
        let Some(census) = &mut told.census else { return };
        found.into_iter().for_each(|one| census.add(one, now));
        census.tidy();
        (census.upto, census.whole) = (upto, whole);
    }

    /// Takes out what waits no more.
    pub(super) fn settle(&self, gone: Vec<Moved>, now: i64) {
        let mut told = self.told();
        let Some(census) = &mut told.census else { return };
        if !gone.is_empty() {
            gone.into_iter().for_each(|(topic, by)| census.add((topic, -by), now));
            census.tidy();
        }
    }

    /// Something went that nobody could read: all are counted anew.
    pub(super) fn count_again(&self) {
        let mut told = self.told();
        if let Some(census) = &mut told.census {
            let (changes, changed) = (census.changes + 1, census.changed);
            *census = Census { changes, changed, ..Census::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(next: u64, waiting: &[u64]) -> Book {
        let mut book = Book::new(7, Position { next, last: Key::default(), floor: 0 });
        waiting.iter().for_each(|due| book.agenda.insert(Key { due: *due, offset: 1 }));
        book
    }

    /// What a checkpoint says is delivered, and no more, to a member that reads it as Java does.
    #[test]
    fn a_checkpoint_tells_what_is_delivered_and_nothing_that_waits() {
        let shown = Shown::default();
        assert_eq!(shown.checkpoint(), None, "this node delivers none");
        for (waiting, now, read) in [
            (&[][..], 90_750, 90_000),
            (&[100_000][..], 90_750, 90_000),
            // It is late: what is out from then on comes from the next master.
            (&[80_000, 100_000][..], 90_750, 79_000),
            // A millisecond before the second: it takes another back.
            (&[79_999][..], 90_750, 78_000),
            (&[500][..], 90_750, 0),
        ] {
            shown.show(&book(9, waiting), now);
            let told = shown.checkpoint().expect("it delivers");
            assert_eq!(told.len(), 56);
            let words: Vec<u64> =
                told.chunks(8).map(|word| u64::from_be_bytes(word.try_into().unwrap())).collect();
            assert_eq!((words[0], words[2], words[3]), (read, 9, 9), "{waiting:?}");
            let Some(position) = Position::of_java(&told) else { continue };
            for due in waiting {
                assert!(position.waits(Key { due: *due, offset: 1 }), "{due} of {waiting:?}");
            }
        }
    }

    #[test]
    fn a_checkpoint_has_another_version_when_it_has_moved() {
        let shown = Shown::default();
        let version = |shown: &Shown| shown.checkpoint().map(|told| told[32..].to_vec());
        shown.show(&book(9, &[]), 90_750);
        let first = version(&shown);
        shown.show(&book(9, &[]), 90_900);
        assert_eq!(version(&shown), first, "the same second");
        shown.show(&book(10, &[]), 90_900);
        assert_ne!(version(&shown), first);
        shown.forget();
        assert_eq!(version(&shown), None);
    }

    #[test]
    fn a_backlog_tells_what_is_late_unseen_and_waiting() {
        let shown = Shown::default();
        assert_eq!(shown.backlog(9, 90_000), Backlog::default(), "this node delivers none");
        shown.show(&book(9, &[]), 90_000);
        assert_eq!(shown.backlog(9, 95_000), Backlog::default(), "nothing waits");
        shown.show(&book(9, &[92_000, 200_000]), 90_000);
        assert_eq!(shown.backlog(14, 90_000), Backlog { late: 0, unseen: 5, waiting: 2 });
        assert_eq!(shown.backlog(9, 99_500), Backlog { late: 7, unseen: 0, waiting: 2 });
        shown.forget();
        assert_eq!(shown.backlog(14, 99_500), Backlog::default());
    }

    #[test]
    fn what_waits_is_counted_once_somebody_asks() {
        let shown = Shown::default();
        shown.show(&book(9, &[]), 5_000);
        assert_eq!((shown.counted(), shown.metrics()), (None, None));
        assert_eq!(shown.counted(), Some(0), "somebody asked");
        let one = |topic: &str, by| (topic.to_owned(), by);
        shown.count(vec![one("T", 1), one("T", 1), one("U", 1), one("T", -1)], 5, false, 1_000);
        assert_eq!(shown.metrics(), None, "not all are counted");
        shown.count(Vec::new(), 9, true, 2_000);
        let told = shown.metrics().expect("all are counted");
        let number = |topic: &str, name: &str| told.timing_count[topic].get(name)?.to_i64();
        assert_eq!((number("T", "count"), number("T", "timeStamp")), (Some(1), Some(1_000)));
        assert_eq!(number("U", "count"), Some(1));
        shown.settle(vec![one("U", 1)], 3_000);
        let later = shown.metrics().expect("all are counted");
        assert!(!later.timing_count.contains_key("U"), "none waits");
        assert_ne!(later.data_version, told.data_version);
        shown.count_again();
        assert_eq!((shown.counted(), shown.metrics()), (Some(0), None));
    }
}
