//! Messages that clients took and did not finish in time are given again
//! (`PopReviveService.java`).
//!
//! One thread of the master reads the queues of the revive topic, keeps what is open
//! (`outstanding.rs`), and puts what nobody finished into the retry topic of its group, with a record
//! behind it in the same batch of the log that says that this is done: it is given again at least
//! once, and twice only where a crash or a new leader cut the batch in two. How far the queues are
//! done with is a consumer offset like any other, so that it fails over.

use std::{
    sync::{Arc, atomic::Ordering},
    thread::JoinHandle,
    time::Duration,
};

use protocol::message::record::{MessageRecord, RecordView};
use segment::Throttle;
use store::Unit;

use super::{
    names::{self, REVIVE_GROUP},
    outstanding::{Outstanding, Point},
    point::{self, Entry, Key, Writer},
    retry,
};
use crate::{
    broker::Broker, call::Rejection, clock::now_millis, handlers, role::Role, topics,
    waiting::Unreadable,
};

/// What waits here, for the log of the broker.
const WHAT: &str = "popped";
/// Units that are read at once.
const UNITS: usize = 512;
/// Records of one queue that are read in one turn.
const TURN_UNITS: u64 = 8_192;
/// Check points that are looked at together, at most.
const ROUND_POINTS: usize = 64;
/// Messages that are given again together, at most, but for the last check point.
const ROUND_MESSAGES: usize = 256;
/// Bytes of them, at most, but for the last check point.
const ROUND_BYTES: usize = 2 << 20;
/// How long the thread sleeps.
const PAUSE: Duration = Duration::from_millis(200);
/// How long it sleeps while this node is not the master.
const IDLE: Duration = Duration::from_secs(1);

/// Starts the thread.
///
/// # Errors
/// The system has no thread to give.
pub(crate) fn start(broker: Arc<Broker>) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("pop-revive".to_owned()).spawn(move || {
        Service { broker, waits: Throttle::new() }.run();
    })
}

struct Service {
    broker: Arc<Broker>,
    /// Warnings that messages wait.
    waits: Throttle,
}

/// What is known in one term.
struct Book {
    term: u64,
    topic: String,
    queues: Vec<Queue>,
    /// A moment, and the end of the log then.
    mark: (i64, u64),
    /// All that was committed before this moment is read.
    seen: i64,
}

/// A record, when it was stored, and whether it came by a timer.
type Read = (Entry, (i64, bool));

struct Queue {
    id: u32,
    known: Outstanding,
    /// The end of the queue at the start.
    end: u64,
    /// The end of the log when check points were put again, which may not be read yet.
    put_until: u64,
    /// Whether they are.
    settled: bool,
}

/// What is written together.
#[derive(Default)]
struct Round {
    records: Vec<MessageRecord>,
    bytes: usize,
    messages: usize,
    done: Vec<Key>,
}

impl Round {
    fn is_full(&self) -> bool {
        self.messages >= ROUND_MESSAGES || self.bytes >= ROUND_BYTES
    }

    fn push(&mut self, record: MessageRecord) {
        self.bytes += record.encoded_len();
        self.messages += 1;
        self.records.push(record);
    }
}

impl Service {
    fn run(self) {
        let mut book = None;
        loop {
            let pause = match self.broker.with_role(Role::master_term) {
                Some(term) => self.turn(&mut book, term),
                None => {
                    book = None;
                    IDLE
                }
            };
            let open = book.as_ref().map_or(0, Book::open);
            self.broker.pop.open.store(open, Ordering::Relaxed);
            if !pause.is_zero() && !self.broker.pop.wake.sleep(pause) {
                break;
            }
        }
    }

    /// Reads what is new, and gives again what is due; gives how long nothing more will be.
    fn turn(&self, kept: &mut Option<Book>, term: u64) -> Duration {
        if kept.as_ref().is_none_or(|book| book.term != term) {
            *kept = self.open(term);
        }
        let Some(book) = kept else { return IDLE };
        handlers::pop::freed(&self.broker, &self.broker.pop.orders.free(now_millis()));
        let (asked, end) = book.mark;
        let fresh = self.broker.store.dispatched() >= end;
        let mut reached = true;
        for queue in &mut book.queues {
            reached &= self.read_new(&book.topic, queue);
        }
        if !reached {
            return Duration::ZERO;
        }
        if fresh {
            book.seen = asked;
            book.mark = (now_millis(), self.broker.store.max_physical());
        }
        let mut more = false;
        for queue in &mut book.queues {
            more |= self.give_again(queue, book.seen);
            self.put_again(queue);
        }
        self.commit(book);
        if more { Duration::ZERO } else { PAUSE }
    }

    /// Goes on where the offsets say that the last master was; `None` without a revive topic.
    fn open(&self, term: u64) -> Option<Book> {
        let (broker, store) = (&self.broker, &self.broker.store);
        let topic = names::revive_topic(&broker.config().broker_cluster_name);
        let queues = u32::try_from(broker.topics.get(&topic)?.read_queue_nums).unwrap_or(0);
        let queue = |id: u32| {
            let (min, end) = (store.min_offset(&topic, id), store.max_offset(&topic, id));
            let number = i32::try_from(id).unwrap_or(i32::MAX);
            let done = broker.offsets.query(REVIVE_GROUP, &topic, number);
            let next = done.and_then(|done| u64::try_from(done.saturating_add(1)).ok());
            let next = next.unwrap_or(min).clamp(min, end.max(min));
            Queue { id, known: Outstanding::from(next), end, put_until: 0, settled: true }
        };
        let queues = (0..queues).map(queue).collect();
        let mark = (now_millis(), store.max_physical());
        Some(Book { term, topic, queues, mark, seen: 0 })
    }

    /// Takes new records; gives whether all that are there now were.
    fn read_new(&self, topic: &str, queue: &mut Queue) -> bool {
        let store = &self.broker.store;
        queue.settled = store.dispatched() >= queue.put_until;
        let begin = queue.known.next();
        let end = store.max_offset(topic, queue.id);
        // Those before it are deleted.
        queue.known.passed(store.min_offset(topic, queue.id).min(end));
        while queue.known.next() < end && queue.known.next() < begin + TURN_UNITS {
            let units = store.units(topic, queue.id, queue.known.next(), UNITS);
            if units.is_empty() {
                break;
            }
            for unit in units {
                match self.read(&unit) {
                    Ok(Some((entry, how))) => queue.known.read(unit.offset, entry, how),
                    Ok(None) => queue.known.passed(unit.offset + 1),
                    Err(Unreadable) => return true,
                }
            }
        }
        if queue.known.next() >= queue.end {
            queue.known.is_complete();
        }
        queue.known.next() >= end || queue.known.next() == begin
    }

    /// The record of a unit; `None` where there is none.
    fn read(&self, unit: &Unit) -> Result<Option<Read>, Unreadable> {
        if unit.is_blank() {
            return Ok(None);
        }
        let Some(bytes) = self.broker.waiting_message(unit.physical, WHAT)? else {
            return Ok(None);
        };
        let Ok(view) = RecordView::parse(&bytes) else { return Ok(None) };
        let entry = point::read(&view, &self.broker.config().broker_name);
        Ok(Some((entry, (view.store_timestamp(), point::is_by_timer(&view)))))
    }

    /// Gives messages again whose time was over before `seen`; gives whether there are more.
    fn give_again(&self, queue: &mut Queue, seen: i64) -> bool {
        let due = queue.known.due(seen, ROUND_POINTS);
        if due.is_empty() {
            return false;
        }
        let mut round = Round::default();
        let writer = Writer::of(&self.broker, now_millis());
        for point in &due {
            if round.is_full() {
                break;
            }
            let before = round.records.len();
            if self.unfinished(point, &mut round).is_err() {
                round.records.truncate(before);
                break;
            }
            let queue = i32::try_from(queue.id).unwrap_or(i32::MAX);
            round.records.push(writer.acks(queue, &point.key, &point.open()));
            round.done.push(point.key.clone());
        }
        if round.records.is_empty()
            || self.broker.append_waiting(&round.records, &self.waits, WHAT).is_none()
        {
            return false;
        }
        round.done.iter().for_each(|key| queue.known.done(key));
        tracing::debug!(messages = round.messages, "messages are given again");
        true
    }

    /// Adds the messages of a check point that nobody finished, where topic and group are still
    /// there. Those that are lost must not block the others.
    fn unfinished(&self, point: &Point, round: &mut Round) -> Result<(), Unreadable> {
        let (broker, key) = (&self.broker, &point.key);
        let normal = names::normal_topic(&key.topic, &key.group);
        if broker.topics.get(normal).is_none() || broker.consumer_group(&key.group).is_none() {
            tracing::info!(
                key.topic,
                key.group,
                "popped messages of what was deleted are forgotten"
            );
            return Ok(());
        }
        let config = broker.config();
        let retry = retry::topic(key, config.retry_form());
        let queues = match broker.topics.get(normal).filter(|_| config.use_separate_retry_queue) {
            Some(topic) => topic.write_queue_nums.max(1),
            None => 1,
        };
        let place = (retry.clone(), if key.queue < queues { key.queue.max(0) } else { 0 });
        for offset in point.open() {
            let Some(bytes) = self.message(key, offset)? else { continue };
            match retry::record(&bytes, key, place.clone(), broker.store_host()) {
                Ok(record) => round.push(record),
                Err(error) => {
                    tracing::error!(%error, key.topic, offset, "a popped message is passed over");
                }
            }
        }
        self.ensure_topic(key, &topics::read_write(&retry, queues, false))
    }

    /// Makes the retry topic where it is missing, or gives it the queues that it lacks.
    fn ensure_topic(&self, key: &Key, wanted: &topics::Topic) -> Result<(), Unreadable> {
        let retry = &wanted.topic_name;
        let failed = |rejection: Rejection| {
            let reason = rejection.remark;
            tracing::warn!(reason, topic = retry, "a retry topic was not made; trying again");
            Unreadable
        };
        let made = self.broker.ensure_topic_blocking(wanted.clone()).map_err(failed)?;
        let queues = wanted.write_queue_nums;
        if made.write_queue_nums < queues || made.read_queue_nums < queues {
            let more = topics::Topic {
                write_queue_nums: made.write_queue_nums.max(queues),
                read_queue_nums: made.read_queue_nums.max(queues),
                ..topics::Topic::clone(&made)
            };
            self.broker.change_topic_blocking(more).map_err(failed)?;
        }
        let offsets = &self.broker.offsets;
        for queue in 0..queues {
            if offsets.query(&key.group, retry, queue).is_none() {
                offsets.commit(&key.group, retry, queue, 0);
            }
        }
        Ok(())
    }

    /// The message at an offset; `None` where it is lost or deleted.
    fn message(&self, key: &Key, offset: i64) -> Result<Option<bytes::Bytes>, Unreadable> {
        let store = &self.broker.store;
        let (Ok(queue), Ok(at)) = (u32::try_from(key.queue), u64::try_from(offset)) else {
            return Ok(None);
        };
        if at < store.min_offset(&key.topic, queue) || at >= store.max_offset(&key.topic, queue) {
            return Ok(None);
        }
        let units = store.units(&key.topic, queue, at, 1);
        match units.first().filter(|unit| unit.offset == at) {
            Some(unit) if unit.is_blank() => Ok(None),
            Some(unit) => self.broker.waiting_message(unit.physical, WHAT),
            None => Err(Unreadable),
        }
    }

    /// Puts check points again that are open for long: the file of their record may be deleted, and
    /// a node that takes over shall not read long.
    fn put_again(&self, queue: &mut Queue) {
        let kept = i64::from(self.broker.config().file_reserved_time).saturating_mul(3_600_000);
        let oldest = now_millis().saturating_sub(kept / 2);
        let points = queue.known.to_put_again(oldest, ROUND_MESSAGES);
        if points.is_empty() || !queue.settled {
            return;
        }
        let writer = Writer::of(&self.broker, now_millis());
        let number = i32::try_from(queue.id).unwrap_or(i32::MAX);
        let record = |point: &Point| writer.point(number, &point.key, &point.again());
        let records: Vec<_> = points.iter().map(record).collect();
        // Read like any other, they take the place of those before.
        if self.broker.append_waiting(&records, &self.waits, WHAT).is_some() {
            queue.put_until = self.broker.store.max_physical();
            tracing::debug!(count = records.len(), "check points were put again");
        }
    }

    fn commit(&self, book: &Book) {
        if self.broker.with_role(Role::master_term) != Some(book.term) {
            return;
        }
        for queue in &book.queues {
            let number = i32::try_from(queue.id).unwrap_or(i32::MAX);
            if let Some(done) = queue.known.progress() {
                self.broker.offsets.commit(REVIVE_GROUP, &book.topic, number, done);
            }
        }
    }
}

impl Book {
    fn open(&self) -> usize {
        self.queues.iter().map(|queue| queue.known.len()).sum()
    }
}
