//! Delivery of delayed messages when they are due (`ScheduleMessageService.java`).
//!
//! One thread reads the queues of the schedule topic, one for each level, and puts each message
//! into its own topic again once its time has come: never before, and within milliseconds after.
//! Progress stands behind the messages that it accounts for, in the same batch of the log: a message
//! is delivered at least once, and again only where a crash or a new leader cut the batch in two.

mod beyond;
mod progress;
mod restore;

use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use protocol::message::record::MessageRecord;
use segment::Throttle;

use crate::{
    broker::Broker, clock::now_millis, role::Role, timer::FIRST_RESERVED, topics::SCHEDULE_TOPIC,
    waiting::Unreadable,
};

pub(crate) use progress::Progress;

use beyond::{Beyond, Waiting};

/// What waits here, for the log of the broker.
const WHAT: &str = "delayed";
/// Messages that are delivered together, at most.
const ROUND_MESSAGES: usize = 256;
/// Bytes of them, at most.
const ROUND_BYTES: usize = 2 << 20;
/// Messages of one level in one round, so that a busy level does not hold up the others.
const LEVEL_MESSAGES: usize = 64;
/// How long the thread sleeps where nothing is due and nothing arrives.
const IDLE: Duration = Duration::from_secs(1);
/// How long it waits after a delivery that failed.
const AFTER_FAILURE: Duration = Duration::from_millis(200);

/// Wakes and stops the thread.
#[derive(Debug, Default)]
pub(crate) struct Wake {
    state: Mutex<WakeState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct WakeState {
    arrived: bool,
    stopping: bool,
}

impl Wake {
    /// A message was put on hold, or the role changed.
    pub(crate) fn wake(&self) {
        self.state().arrived = true;
        self.changed.notify_one();
    }

    /// The thread is to end.
    pub(crate) fn stop(&self) {
        self.state().stopping = true;
        self.changed.notify_one();
    }

    /// Sleeps until something changes or `limit` is over; gives whether to go on.
    pub(crate) fn sleep(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut state = self.state();
        while !state.arrived && !state.stopping {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.arrived = false;
        !state.stopping
    }

    fn state(&self) -> MutexGuard<'_, WakeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the thread.
///
/// # Errors
/// The system has no thread to give.
pub(crate) fn start(broker: Arc<Broker>) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("delay".to_owned()).spawn(move || {
        let beyond = Beyond::default();
        Delivery { broker, waits: Throttle::new(), beyond, highest: 0, term: None }.run();
    })
}

struct Delivery {
    broker: Arc<Broker>,
    /// Warnings that messages wait.
    waits: Throttle,
    /// Messages that are due later than their level says now.
    beyond: Beyond,
    /// The highest level that may have messages; above the table where that had more levels before.
    highest: u32,
    /// The term that this node led when the thread looked last.
    term: Option<u64>,
}

/// Messages that are due, and where their levels stand once they are delivered.
#[derive(Debug, Default)]
struct Round {
    records: Vec<MessageRecord>,
    bytes: usize,
    reached: BTreeMap<u32, u64>,
    /// When the next message is due, in milliseconds from now.
    next: Option<u64>,
}

impl Round {
    fn is_full(&self) -> bool {
        self.records.len() >= ROUND_MESSAGES || self.bytes >= ROUND_BYTES
    }

    fn due_in(&mut self, millis: u64) {
        self.next = Some(self.next.map_or(millis, |next| next.min(millis)));
    }
}

impl Delivery {
    fn run(mut self) {
        loop {
            let term = self.broker.with_role(Role::master_term);
            if term.is_some() && term != self.term {
                self.begin();
            }
            self.term = term;
            let pause = if term.is_some() { self.turn() } else { IDLE };
            if !pause.is_zero() && !self.broker.delay_wake.sleep(pause) {
                break;
            }
        }
    }

    /// This node leads from now on.
    fn begin(&mut self) {
        self.beyond.forget();
        let table = self.broker.config().message_delay_level.highest();
        self.highest = table;
        for level in self.levels_above(table) {
            let last = self.broker.config().message_delay_level.delay_millis(level);
            tracing::warn!(
                level,
                table,
                last,
                "messages wait in a delay level above those of messageDelayLevel; they are delivered when they are due, and at the latest after the delay of the last level"
            );
            self.highest = self.highest.max(level);
        }
    }

    /// Levels with messages above a table of so many levels. None is added while this node leads, as
    /// a message of such a level goes into the last one.
    fn levels_above(&self, table: u32) -> Vec<u32> {
        let store = &self.broker.store;
        let waiting = |level: &u32| {
            let queue = level - 1;
            let bounds =
                (store.min_offset(SCHEDULE_TOPIC, queue), store.max_offset(SCHEDULE_TOPIC, queue));
            self.broker.delay_progress.within(*level, bounds) < bounds.1
        };
        let queues = store.queues().into_iter().filter(|(topic, _)| topic == SCHEDULE_TOPIC);
        let levels = queues.flat_map(|(_, ids)| ids).map(|queue| queue.saturating_add(1));
        levels.filter(|level| (table + 1..FIRST_RESERVED).contains(level)).filter(waiting).collect()
    }

    /// Delivers what is due; gives how long nothing more will be.
    fn turn(&mut self) -> Duration {
        let round = self.collect();
        if round.reached.is_empty() {
            return round.next.map_or(IDLE, Duration::from_millis).min(self.flush_interval());
        }
        let Round { mut records, reached, .. } = round;
        match self.broker.delay_record(&reached) {
            Ok(progress) => records.push(progress),
            Err(error) => {
                tracing::error!(%error, "progress of delayed messages has no text");
                return AFTER_FAILURE;
            }
        }
        if self.broker.append_waiting(&records, &self.waits, WHAT).is_none() {
            return AFTER_FAILURE;
        }
        let reached: Vec<_> = reached.into_iter().collect();
        self.broker.delay_progress.take(&reached);
        Duration::ZERO
    }

    fn collect(&mut self) -> Round {
        let mut round = Round::default();
        for level in 1..=self.highest {
            if round.is_full() {
                break;
            }
            self.collect_level(level, &mut round);
        }
        round
    }

    fn collect_level(&mut self, level: u32, round: &mut Round) {
        let (store, queue) = (&self.broker.store, level - 1);
        let (min, max) =
            (store.min_offset(SCHEDULE_TOPIC, queue), store.max_offset(SCHEDULE_TOPIC, queue));
        let from = self.broker.delay_progress.within(level, (min, max));
        if from >= max {
            return;
        }
        let delay = self.broker.config().message_delay_level.delay_millis(level);
        let now = u64::try_from(now_millis()).unwrap_or(0);
        for unit in store.units(SCHEDULE_TOPIC, queue, from, LEVEL_MESSAGES) {
            let due = u64::try_from(unit.tags_code).unwrap_or(0);
            let message = Waiting { due, offset: unit.offset, end: max };
            let wait = self.beyond.wait((level, delay), message, (now, Instant::now()));
            if wait > 0 {
                round.due_in(wait);
                return;
            }
            if round.is_full() {
                return;
            }
            match self.read(unit.physical) {
                Ok(Some(record)) => {
                    round.bytes += record.encoded_len();
                    round.records.push(record);
                }
                Ok(None) => {}
                Err(Unreadable) => {
                    round.due_in(u64::try_from(AFTER_FAILURE.as_millis()).unwrap_or(0));
                    return;
                }
            }
            round.reached.insert(level, unit.offset + 1);
        }
    }

    /// The message as it goes into its own topic; `None` where there is none to deliver, which
    /// must not block those behind it.
    fn read(&self, physical: u64) -> Result<Option<MessageRecord>, Unreadable> {
        let Some(bytes) = self.broker.waiting_message(physical, WHAT)? else { return Ok(None) };
        match restore::restore(&bytes, self.broker.store_host()) {
            Ok(record) => Ok(Some(record)),
            Err(reason) => {
                tracing::error!(%reason, physical, "a delayed message is passed over");
                Ok(None)
            }
        }
    }

    fn flush_interval(&self) -> Duration {
        Duration::from_millis(self.broker.config().flush_delay_offset_interval)
    }
}
