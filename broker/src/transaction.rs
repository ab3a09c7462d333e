//! Transactions: half messages, how they end, and questions to producers about those that do not
//! (`TransactionalMessageServiceImpl.java`).
//!
//! A half message waits in a topic of its own. Its end appends the message to its own topic and a
//! record that takes the half message off, in one batch and in this order: whatever a crash cuts off,
//! the message is not lost. What was cut is found by the message itself, which is looked for before
//! another node ends a transaction of the term before. Where half topic and op topic are done with is
//! a consumer offset like any other, so that it fails over.

mod check;
mod half;
mod op;
mod outcomes;
#[cfg(test)]
mod tests;

use std::{
    net::SocketAddr,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use protocol::{
    code::response,
    message::{
        properties::key,
        record::{MessageRecord, RecordView},
        sys_flag::{TRANSACTION_COMMIT, transaction_type},
    },
    name,
};
use store::append_log::{AppendFailure, Placed};

use crate::{
    broker::Broker, call::Rejection, clock, delay, drafts, pending, timer, topics::SCHEDULE_TOPIC,
};

pub(crate) use check::start;
pub(crate) use half::{GROWTH, Half, is_half, prepare};
use outcomes::{NotEnded, Outcomes, Place};

/// The group whose consumer offsets say how far half topic and op topic are done with
/// (`MixAll.CID_RMQ_SYS_TRANS`).
const GROUP: &str = "CID_RMQ_SYS_TRANS";

/// Where half messages lie.
const HALF_TOPIC: &str = name::TRANS_HALF_TOPIC;

/// How long an end waits until a node that has just taken over knows its transactions.
const LOADING: Duration = Duration::from_secs(3);

/// Messages with one unique key that are looked at.
const SAME_KEY: usize = 32;

/// What this node knows of transactions while it is the master.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    state: Mutex<State>,
    loaded: Condvar,
    /// Wakes and stops the thread that asks producers.
    pub(crate) wake: delay::Wake,
    /// Whose turn it is among the producers of a group.
    turn: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    /// The term that `outcomes` are of.
    term: Option<u64>,
    outcomes: Outcomes,
}

/// How a producer ends a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The message becomes visible.
    Commit,
    /// It never does.
    Rollback,
}

/// An end that is given to the log.
#[derive(Debug)]
pub(crate) struct Ending {
    term: u64,
    place: Place,
    /// What is to be appended; the record that takes the half message off is the last.
    pub(crate) records: Vec<MessageRecord>,
    /// Topic of the message that becomes visible.
    pub(crate) topic: Option<String>,
}

impl Transactions {
    /// This node leads no more: what it knows may be old.
    pub(crate) fn forget(&self) {
        *self.state() = State::default();
    }

    /// Takes what is known at the start of a term.
    fn load(&self, term: u64, outcomes: Outcomes) {
        *self.state() = State { term: Some(term), outcomes };
        self.loaded.notify_all();
    }

    fn is_loaded(&self, term: u64) -> bool {
        self.state().term == Some(term)
    }

    /// Looks at what is known in `term`; `None` where that is over.
    fn with<R>(&self, term: u64, look: impl FnOnce(&mut Outcomes) -> R) -> Option<R> {
        let mut state = self.state();
        (state.term == Some(term)).then(|| look(&mut state.outcomes))
    }

    /// As [`Transactions::with`], for a request: waits until it is known.
    fn wait_with<R>(&self, term: u64, look: impl FnOnce(&mut Outcomes) -> R) -> Option<R> {
        let deadline = Instant::now() + LOADING;
        let mut state = self.state();
        while state.term.is_none_or(|loaded| loaded < term) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let waited = self.loaded.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        (state.term == Some(term)).then(|| look(&mut state.outcomes))
    }

    /// A number that differs from one question to the next.
    fn next_turn(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Broker {
    /// Begins the end of a transaction: nobody else ends it until [`Broker::transaction_ended`] or
    /// [`Broker::transaction_failed`] is told.
    pub(crate) fn end_transaction(&self, half: &Half, end: End) -> Result<Ending, Rejection> {
        let Some(term) = self.master_term() else { return Err(self.not_served()) };
        let place = Place { origin: half.origin(), offset: half.offset() };
        let begun = self.transactions.wait_with(term, |outcomes| {
            outcomes.begin(place).map(|()| outcomes.is_inherited(place))
        });
        let inherited = begun.ok_or_else(not_known_yet)?.map_err(not_ended)?;
        let ending = self.compose_end(half, end, (term, place), inherited);
        if ending.is_err() {
            self.transaction_failed(term, place);
        }
        ending
    }

    fn compose_end(
        &self,
        half: &Half,
        end: End,
        (term, place): (u64, Place),
        inherited: bool,
    ) -> Result<Ending, Rejection> {
        let host = self.store_host();
        let mut ending = Ending { term, place, records: Vec::new(), topic: None };
        // The term before may have committed the message and lost the record behind it.
        let visible = inherited && self.is_committed(half);
        match end {
            End::Rollback if visible => {
                self.take_off(place);
                return Err(not_ended(NotEnded::Already));
            }
            End::Commit if !visible => {
                ending.records.push(self.visible(half, host)?);
                ending.topic = half.real_place().ok().map(|(topic, _)| topic.to_owned());
            }
            End::Commit | End::Rollback => {}
        }
        ending.records.push(op::record(&place.offsets(), host, clock::now_millis()));
        Ok(ending)
    }

    /// The message that a commit makes visible, or puts on hold where it asks for a delay.
    fn visible(&self, half: &Half, host: SocketAddr) -> Result<MessageRecord, Rejection> {
        let (mut record, mut properties) = half
            .committed(host)
            .map_err(|error| Rejection::new(response::SYSTEM_ERROR, error.to_string()))?;
        let level = properties.get(key::DELAY).and_then(|text| text.parse().ok()).unwrap_or(0);
        if level > 0 {
            let levels = &self.config().message_delay_level;
            drafts::schedule(&mut record, &mut properties, level, levels);
        } else {
            let (config, now) = (self.config(), clock::now_millis());
            // It was possible when the half message came; a commit is not refused any more.
            if let Err(rejection) = timer::hold_back(&mut record, &mut properties, &config, now) {
                tracing::warn!(reason = rejection.remark, "a committed message comes at once");
                timer::forget_requests(&mut properties);
            }
        }
        record.properties = drafts::text(&record.topic, &properties);
        Ok(record)
    }

    /// The end is committed.
    pub(crate) fn transaction_ended(&self, ending: &Ending, placed: &Placed) {
        let op = placed.records().last().map(|record| pending::offsets(record).0.cast_unsigned());
        if let Some(op) = op {
            self.transactions.with(ending.term, |outcomes| outcomes.recorded(ending.place, op));
        }
    }

    /// The end is not known to be committed. Where nothing of it is kept, the transaction waits for
    /// another; else the record of the op topic will tell.
    pub(crate) fn transaction_not_ended(&self, ending: &Ending, failure: &AppendFailure) {
        match failure {
            AppendFailure::Truncated { .. }
            | AppendFailure::Refused(_)
            | AppendFailure::DiskFull(_)
            | AppendFailure::Write(_) => self.transaction_failed(ending.term, ending.place),
            AppendFailure::TimedOut { .. } | AppendFailure::Unconfirmed(_) => {}
        }
    }

    /// The log has not taken the end.
    pub(crate) fn transaction_refused(&self, ending: &Ending) {
        self.transaction_failed(ending.term, ending.place);
    }

    fn transaction_failed(&self, term: u64, place: Place) {
        self.transactions.with(term, |outcomes| outcomes.failed(place));
    }

    /// Whether the message of a transaction is visible, or on hold, already.
    fn is_committed(&self, half: &Half) -> bool {
        let (Some(unique), Ok((topic, _))) = (half.unique_key(), half.real_place()) else {
            return false;
        };
        [topic, SCHEDULE_TOPIC, name::TIMER_TOPIC].into_iter().any(|topic| {
            let found = self.store.query_by_key(topic, unique, SAME_KEY, (0, i64::MAX as u64));
            found.messages.iter().any(|bytes| is_commit_of(bytes, unique))
        })
    }

    /// Takes a half message off whose message is visible, without waiting for it: where that fails,
    /// it is found again.
    fn take_off(&self, place: Place) {
        let record = op::record(&place.offsets(), self.store_host(), clock::now_millis());
        if let Err(rejection) = self.submit_records(&[record]) {
            let (half, reason) = (place.offset, rejection.remark);
            tracing::warn!(half, reason, "a half message was not taken off");
        }
    }

    /// The term in which this node is the master.
    fn master_term(&self) -> Option<u64> {
        self.with_role(crate::role::Role::master_term)
    }
}

fn is_commit_of(bytes: &[u8], unique: &str) -> bool {
    RecordView::parse(bytes).is_ok_and(|view| {
        transaction_type(view.sys_flag()) == TRANSACTION_COMMIT
            && view.property(key::UNIQ_KEY).is_some_and(|found| found == unique)
    })
}

fn not_known_yet() -> Rejection {
    Rejection::new(
        response::SYSTEM_BUSY,
        "this broker has just taken over and reads the transactions of the term before; it will ask the producer again",
    )
}

fn not_ended(reason: NotEnded) -> Rejection {
    match reason {
        NotEnded::Already => Rejection::new(
            response::SYSTEM_ERROR,
            "Find prepared transaction message failed: the transaction has ended, and its outcome stays",
        ),
        NotEnded::Full => Rejection::new(
            response::SYSTEM_BUSY,
            "too many transactions have ended since the last check (transactionCheckInterval); the broker will ask the producer again",
        ),
    }
}
