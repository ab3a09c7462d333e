//! Delivery of messages at any time (`TimerMessageStore.java`).
//!
//! A timer message waits in queue 0 of the timer topic, as in Java. Java sorts these into a wheel and
//! a log of its own files; here the units of the queue tell when each is due (`store::timer`), the
//! next of them are in memory (`agenda.rs`), and the others are found in the queue again. So there is
//! nothing to lose beside the log, and what waits costs 20 bytes of disk and a bounded memory.
//!
//! One thread of the master delivers: a message goes into its own topic within a second after its
//! time and never before it, and progress (`position.rs`) stands behind it in the same batch of the
//! log. A message is delivered at least once, and again only where a crash or a new leader cut the
//! batch in two. One whose file will be deleted before it is due is put into the queue again.

mod agenda;
mod book;
mod census;
mod held;
mod position;
mod shown;
#[cfg(test)]
mod tests;

use std::{
    path::Path,
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use protocol::{message::record::MessageRecord, name::TIMER_TOPIC};
use segment::{Backup, RealVfs, SmallFile, Throttle};
use store::Unit;

use crate::{broker::Broker, clock::now_millis, role::Role, waiting::Unreadable};

pub(crate) use agenda::name as name_to_take_back;
pub(crate) use held::{asks_for_a_time, forget_requests, hold_back};
pub(crate) use position::{FIRST_RESERVED, JAVAS_PROGRESS, Position};
pub(crate) use shown::Shown;

use agenda::TakenBack;
use book::Book;
use held::Held;
use position::Key;
use shown::Moved;

/// What waits here, for the log of the broker.
const WHAT: &str = "timer";
/// Queue of the timer topic.
const QUEUE: u32 = 0;
/// Messages that are delivered together, at most.
const ROUND_MESSAGES: usize = 256;
/// Messages that are taken back or passed over, at most.
const ROUND_TAKEN: usize = 4_096;
/// Bytes of messages, at most.
const ROUND_BYTES: usize = 2 << 20;
/// Units that are read at once.
const UNITS: usize = 512;
/// New messages that are looked at before what is due is delivered.
const ROUND_UNITS: u64 = 8_192;
/// How long the thread sleeps where nothing is due and nothing arrives.
const IDLE: Duration = Duration::from_secs(1);
/// How long it waits after a failure.
const AFTER_FAILURE: Duration = Duration::from_millis(200);
/// Time between two looks at the oldest messages.
const LOOK_AT_OLDEST: Duration = Duration::from_secs(60);

/// Starts the thread.
///
/// # Errors
/// The system has no thread to give.
pub(crate) fn start(broker: Arc<Broker>) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("timer".to_owned()).spawn(move || {
        Service { broker, waits: Throttle::new() }.run();
    })
}

struct Service {
    broker: Arc<Broker>,
    /// Warnings that messages wait.
    waits: Throttle,
}

/// What one turn does.
#[derive(Debug)]
struct Round {
    records: Vec<MessageRecord>,
    bytes: usize,
    /// What was taken out of the agenda, to go back where the log does not take it.
    taken: Vec<Key>,
    /// Where delivery stands afterwards.
    position: Position,
    /// There are more messages to look at.
    more: bool,
    /// Something has to be written down.
    moved: bool,
    /// Timers that were found in the queue.
    found: u64,
    /// Messages that go to their own topics.
    delivered: u64,
    /// When the next message is due, in milliseconds from now.
    next: Option<u64>,
    /// Messages before this offset are counted by topic.
    counted: u64,
    /// Those of them that wait no more.
    gone: Vec<Moved>,
    /// One of them could not be read, so that nobody knows whose it was.
    lost: bool,
}

impl Round {
    fn new(position: Position, counted: Option<u64>) -> Self {
        Self {
            records: Vec::new(),
            bytes: 0,
            taken: Vec::new(),
            position,
            more: false,
            moved: false,
            found: 0,
            delivered: 0,
            next: None,
            counted: counted.unwrap_or(0),
            gone: Vec::new(),
            lost: false,
        }
    }

    /// A message waits no more.
    fn leaves(&mut self, unit: &Unit, held: &Held) {
        if unit.offset < self.counted {
            self.gone.push(held.weight());
        }
    }

    fn is_full(&self) -> bool {
        self.records.len() >= ROUND_MESSAGES
            || self.bytes >= ROUND_BYTES
            || self.taken.len() >= ROUND_TAKEN
    }

    fn push(&mut self, record: MessageRecord) {
        self.bytes += record.encoded_len();
        self.records.push(record);
    }

    fn try_again(&mut self) {
        self.next = Some(u64::try_from(AFTER_FAILURE.as_millis()).unwrap_or(0));
    }
}

impl Service {
    fn run(self) {
        let mut book = None;
        loop {
            let waits = self.broker.java_slaves.timers_wait();
            let pause = match self.broker.with_role(Role::master_term) {
                // What Java members know of the progress must stay true until one of them leads.
                Some(_) if waits => IDLE,
                Some(term) => self.turn(&mut book, term),
                None => {
                    book = None;
                    self.broker.timers_shown.forget();
                    IDLE
                }
            };
            let now = u64::try_from(now_millis()).unwrap_or(0);
            book.iter().for_each(|book| self.broker.timers_shown.show(book, now));
            if waits {
                self.broker.java_slaves.timers_stopped();
            }
            if !pause.is_zero() && !self.broker.timer_wake.sleep(pause) {
                break;
            }
        }
    }

    /// Looks at what is new and delivers what is due; gives how long nothing more will be.
    fn turn(&self, kept: &mut Option<Book>, term: u64) -> Duration {
        if kept.as_ref().is_none_or(|book| book.term != term) {
            self.broker.timers_shown.forget();
            *kept = self.open(term);
        }
        let Some(book) = kept else { return AFTER_FAILURE };
        let mut round = Round::new(book.position, self.broker.timers_shown.counted());
        if self.look_at_new(book, &mut round) {
            self.take_due(book, &mut round);
            self.look_at_oldest(book, &mut round);
        }
        if round.moved && !self.write(&mut round) {
            round.taken.into_iter().for_each(|key| book.agenda.put_back(key));
            return AFTER_FAILURE;
        }
        book.position = round.position;
        self.broker.stats.timers.moved(round.found, round.delivered);
        self.broker.timers_shown.settle(round.gone, now_millis());
        if round.lost {
            self.broker.timers_shown.count_again();
        }
        let uncounted = self.count(book);
        if round.more || round.moved || matches!(uncounted, Ok(true)) {
            return Duration::ZERO;
        }
        let most = if uncounted.is_ok() { IDLE } else { AFTER_FAILURE };
        round.next.map_or(most, Duration::from_millis).min(most)
    }

    /// Goes on where the journal says that the last master was.
    fn open(&self, term: u64) -> Option<Book> {
        let range = self.range();
        let known = self.broker.journal.with_tables(|tables| Position::of(&tables.delays));
        let known = Position::later(known, self.of_java());
        let known = known.unwrap_or_else(|| Position::start(range.0));
        let position = known.within(range.0, range.1);
        let mut book = Book::new(term, position);
        book.position.floor = self.fill(&mut book, position).ok()?;
        if range.0 < range.1 {
            let (next, floor) = (book.position.next, book.position.floor);
            tracing::info!(waiting = book.waiting(), next, floor, "timers go on");
        }
        Some(book)
    }

    /// Where a Java broker ended, whose store this is.
    fn of_java(&self) -> Option<Position> {
        let root = self.broker.config().store_path_root_dir.clone();
        let path = Path::new(&root).join("config").join(JAVAS_PROGRESS);
        let file = SmallFile::new(Arc::new(RealVfs), path, Backup::None);
        match file.load() {
            Ok(bytes) => bytes.as_deref().and_then(Position::of_java),
            Err(error) => {
                tracing::warn!(%error, "Java's progress of timers cannot be read");
                None
            }
        }
    }

    fn range(&self) -> (u64, u64) {
        let store = &self.broker.store;
        (store.min_offset(TIMER_TOPIC, QUEUE), store.max_offset(TIMER_TOPIC, QUEUE))
    }

    /// Finds the messages that wait among those that were looked at before; gives the first of them.
    fn fill(&self, book: &mut Book, position: Position) -> Result<u64, Unreadable> {
        book.agenda.clear();
        let mut at = position.floor.max(self.range().0);
        let mut first = None;
        while at < position.next {
            let units = self.broker.store.units(TIMER_TOPIC, QUEUE, at, UNITS);
            let Some(end) = units.last().map(|unit| unit.offset + 1) else { break };
            for unit in units.iter().filter(|unit| unit.offset < position.next) {
                let Some(key) = self.key(unit)? else { continue };
                if position.waits(key) {
                    first.get_or_insert(key.offset);
                    book.agenda.insert(key);
                } else if key.second() == position.last.second() {
                    self.take_back_again(book, unit, key)?;
                }
            }
            at = end;
        }
        Ok(first.unwrap_or(position.next))
    }

    /// A message of the second that is being delivered, which may take others of it back.
    fn take_back_again(&self, book: &mut Book, unit: &Unit, key: Key) -> Result<(), Unreadable> {
        let held = self.read(unit)?;
        if let Some(named) = held.as_ref().and_then(Held::takes_back) {
            book.taken_back.add(key.second(), named);
        }
        Ok(())
    }

    /// Takes new messages into the agenda, and delivers those whose turn has passed already. Gives
    /// whether all were looked at: what takes a message back must be known before that is delivered.
    fn look_at_new(&self, book: &mut Book, round: &mut Round) -> bool {
        let (min, max) = self.range();
        let begin = round.position.next.max(min);
        let mut at = begin;
        while at < max && at - begin < ROUND_UNITS && !round.is_full() {
            let units = self.broker.store.units(TIMER_TOPIC, QUEUE, at, UNITS);
            let before = at;
            for unit in units {
                if round.is_full() || self.look_at(&unit, book, round).is_err() {
                    break;
                }
                at = unit.offset + 1;
            }
            if at == before {
                break;
            }
        }
        round.position.next = at;
        round.more = at > begin && at < max;
        if at < max && !round.more {
            round.try_again();
        }
        at >= max
    }

    fn look_at(&self, unit: &Unit, book: &mut Book, round: &mut Round) -> Result<(), Unreadable> {
        let Some(key) = self.key(unit)? else { return Ok(()) };
        if key > book.position.last {
            book.agenda.insert(key);
        } else {
            self.deliver(unit, key, &mut book.taken_back, round)?;
        }
        round.found += 1;
        Ok(())
    }

    /// Takes what is due out of the agenda.
    fn take_due(&self, book: &mut Book, round: &mut Round) {
        let now = u64::try_from(now_millis()).unwrap_or(0);
        while !round.is_full() {
            if book.agenda.must_look_again() {
                match self.fill(book, round.position) {
                    Ok(floor) => round.position.floor = floor,
                    Err(Unreadable) => return round.try_again(),
                }
            }
            let Some(key) = book.agenda.first() else { return };
            if key.due > now {
                round.next = Some(key.due - now);
                return;
            }
            if self.deliver_key(key, &mut book.taken_back, round).is_err() {
                return round.try_again();
            }
            book.agenda.remove(key);
            round.taken.push(key);
            round.position.last = key;
        }
    }

    fn deliver_key(
        &self,
        key: Key,
        taken_back: &mut TakenBack,
        round: &mut Round,
    ) -> Result<(), Unreadable> {
        let units = self.broker.store.units(TIMER_TOPIC, QUEUE, key.offset, 1);
        let unit = units.first().filter(|unit| unit.offset == key.offset && !unit.is_blank());
        let Some(unit) = unit else {
            if key.offset >= self.range().0 {
                if let Some(held_back) = self.waits.tell(Instant::now()) {
                    tracing::warn!(offset = key.offset, held_back, "a timer message has no unit");
                }
                return Err(Unreadable);
            }
            tracing::error!(offset = key.offset, "a timer message was deleted before it was due");
            (round.moved, round.lost) = (true, true);
            return Ok(());
        };
        self.deliver(unit, key, taken_back, round)
    }

    /// Puts a message into the round, where it was not taken back.
    fn deliver(
        &self,
        unit: &Unit,
        key: Key,
        taken_back: &mut TakenBack,
        round: &mut Round,
    ) -> Result<(), Unreadable> {
        round.moved = true;
        let Some(held) = self.read(unit)? else {
            round.lost = true;
            return Ok(());
        };
        round.leaves(unit, &held);
        if let Some(named) = held.takes_back() {
            taken_back.add(key.second(), named);
            return Ok(());
        }
        let (topic, unique_key) = held.names();
        if taken_back.has(key.second(), topic, unique_key) {
            tracing::debug!(topic, unique_key, "a timer message was taken back");
            return Ok(());
        }
        match held.restored(self.broker.store_host(), now_millis()) {
            Ok(record) => {
                round.push(record);
                round.delivered += 1;
            }
            Err(reason) => {
                tracing::error!(%reason, offset = unit.offset, "a timer message is passed over");
            }
        }
        Ok(())
    }

    /// Puts messages that wait into the queue again before their file is deleted, and moves the
    /// mark before which none waits.
    fn look_at_oldest(&self, book: &mut Book, round: &mut Round) {
        if Instant::now() < book.look_at_oldest {
            return;
        }
        let oldest = now_millis().saturating_sub(self.keeping_millis());
        let mut at = round.position.floor.max(self.range().0);
        let end = round.position.next.min(at + ROUND_UNITS);
        while at < end && !round.is_full() {
            let Some(unit) = self.broker.store.units(TIMER_TOPIC, QUEUE, at, 1).pop() else {
                break;
            };
            match self.roll(&unit, oldest, book, round) {
                Ok(true) => at = unit.offset + 1,
                Ok(false) => {
                    book.look_at_oldest = Instant::now() + self.between_looks();
                    break;
                }
                Err(Unreadable) => break,
            }
        }
        if at >= round.position.next {
            book.look_at_oldest = Instant::now() + self.between_looks();
        }
        round.position.floor = at.max(round.position.floor);
    }

    /// Whether a message does not wait any more: it is delivered, or it is so old that it goes into
    /// the queue again.
    fn roll(
        &self,
        unit: &Unit,
        oldest: i64,
        book: &mut Book,
        round: &mut Round,
    ) -> Result<bool, Unreadable> {
        let Some(key) = self.key(unit)? else { return Ok(true) };
        if key <= round.position.last {
            return Ok(true);
        }
        let Some(held) = self.read(unit)? else { return Ok(true) };
        if held.stored() > oldest {
            return Ok(false);
        }
        round.leaves(unit, &held);
        round.push(held.rolled(self.broker.store_host()));
        round.moved = true;
        book.agenda.remove(key);
        round.taken.push(key);
        Ok(true)
    }

    /// How long a message lies in one file: Java's window, and half the time that files are kept.
    fn keeping_millis(&self) -> i64 {
        let config = self.broker.config();
        let kept = i64::from(config.file_reserved_time) * 3_600_000 / 2;
        (i64::from(config.timer_roll_window_slot) * 1_000).min(kept)
    }

    fn between_looks(&self) -> Duration {
        let window = u64::try_from(self.keeping_millis()).unwrap_or(0);
        Duration::from_millis(window / 4).min(LOOK_AT_OLDEST)
    }

    /// When the message of a unit is due; `None` where none is there that says so.
    fn key(&self, unit: &Unit) -> Result<Option<Key>, Unreadable> {
        if unit.is_blank() {
            return Ok(None);
        }
        if let Some(due) = store::timer::due_of_unit(unit.tags_code) {
            return Ok(Some(Key { due, offset: unit.offset }));
        }
        let held = self.read(unit)?;
        let due = held.as_ref().and_then(Held::due);
        if held.is_some() && due.is_none() {
            tracing::error!(offset = unit.offset, "a timer message has no time and is passed over");
        }
        Ok(due.map(|due| Key { due, offset: unit.offset }))
    }

    /// The message of a unit; `None` where it is none, which must not block those behind it.
    fn read(&self, unit: &Unit) -> Result<Option<Held>, Unreadable> {
        let Some(bytes) = self.broker.waiting_message(unit.physical, WHAT)? else {
            return Ok(None);
        };
        match Held::read(&bytes) {
            Ok(held) => Ok(Some(held)),
            Err(reason) => {
                tracing::error!(%reason, offset = unit.offset, "a timer message is passed over");
                Ok(None)
            }
        }
    }

    /// Puts the messages and the progress behind them into the log and waits until they are
    /// committed.
    fn write(&self, round: &mut Round) -> bool {
        match self.broker.delay_record(&round.position.rows()) {
            Ok(progress) => round.records.push(progress),
            Err(error) => {
                tracing::error!(%error, "progress of timer messages has no text");
                return false;
            }
        }
        self.broker.append_waiting(&round.records, &self.waits, WHAT).is_some()
    }
}
