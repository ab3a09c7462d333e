//! Questions to producers about transactions that do not end, and the progress of half topic and op
//! topic.

use std::{
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use protocol::{
    Command,
    code::request,
    header::CheckTransactionStateRequest,
    message::{id::offset_message_id, record},
    name,
};
use remoting::Connection;
use segment::Throttle;
use store::Unit;

use super::{
    GROUP, HALF_TOPIC,
    half::Half,
    op,
    outcomes::{Outcomes, Place, Standing},
};
use crate::{broker::Broker, clock::now_millis, pending, topics, waiting::Unreadable};

/// What waits here, for the log of the broker.
const WHAT: &str = "transaction";
/// Half messages that are put again together, at most.
const ROUND_MESSAGES: usize = 256;
/// Bytes of them, at most.
const ROUND_BYTES: usize = 2 << 20;
/// Units that are read at a time.
const UNITS: usize = 1_024;
/// How long the thread sleeps at most.
const IDLE: Duration = Duration::from_secs(1);
/// How long it waits after a disk that could not be read.
const AFTER_FAILURE: Duration = Duration::from_millis(200);
/// Bytes that may wait for a producer that does not read before it is asked no more.
const UNREAD: usize = 4 << 20;

/// Starts the thread.
///
/// # Errors
/// The system has no thread to give.
pub(crate) fn start(broker: Arc<Broker>) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("transactions".to_owned()).spawn(move || {
        Checks { broker, waits: Throttle::new() }.run();
    })
}

struct Checks {
    broker: Arc<Broker>,
    /// Warnings that half messages wait.
    waits: Throttle,
}

/// One turn of the checks, in one term.
#[derive(Debug, Clone, Copy)]
struct Turn {
    term: u64,
    /// When it began, in milliseconds since 1970.
    begun: i64,
}

/// What becomes of a half message in a turn.
enum Verdict {
    /// It is done with.
    Pass,
    /// It and those behind it wait for the next turn.
    Stay,
    /// It is put again further on; `true`: and its producers are asked.
    Renew(Half, bool),
    /// Nobody could tell its end: the message goes to a topic for such ones.
    GiveUp(Half),
    /// Its message is visible, and the record that says so was lost.
    TakeOff(Half),
}

/// What is written together.
#[derive(Default)]
struct Round {
    done: Vec<(Half, Kind)>,
    bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Renewed { asks: bool },
    GivenUp,
    TakenOff,
}

impl Round {
    fn is_full(&self) -> bool {
        self.done.len() >= ROUND_MESSAGES || self.bytes >= ROUND_BYTES
    }

    fn add(&mut self, half: Half, kind: Kind) {
        self.bytes += half.record().encoded_len();
        self.done.push((half, kind));
    }
}

impl Checks {
    fn run(self) {
        let mut last: Option<(u64, Instant)> = None;
        loop {
            let pause = match self.broker.master_term() {
                None => IDLE,
                Some(term) => self.look(term, &mut last),
            };
            if !self.broker.transactions.wake.sleep(pause) {
                break;
            }
        }
    }

    /// Does what is due in a term; gives how long nothing more is. The first turn comes after a whole
    /// interval, in which producers find the new master.
    fn look(&self, term: u64, last: &mut Option<(u64, Instant)>) -> Duration {
        if !self.broker.transactions.is_loaded(term) {
            let Some(outcomes) = self.read_outcomes() else { return AFTER_FAILURE };
            self.broker.transactions.load(term, outcomes);
        }
        let now = Instant::now();
        let since = match last {
            Some((of, at)) if *of == term => *at,
            _ => {
                *last = Some((term, now));
                now
            }
        };
        let every = Duration::from_millis(self.broker.config().transaction_check_interval);
        if now.saturating_duration_since(since) >= every {
            self.turn(Turn { term, begun: now_millis() });
            *last = Some((term, Instant::now()));
        }
        every.min(IDLE)
    }

    /// What the topics say of transactions, from the recorded progress on; `None` where the disk
    /// refuses.
    fn read_outcomes(&self) -> Option<Outcomes> {
        let half = self.recorded(HALF_TOPIC);
        let op = self.recorded(name::TRANS_OP_HALF_TOPIC);
        let end = self.broker.store.max_offset(HALF_TOPIC, 0);
        let mut outcomes = Outcomes::from(half, op, end);
        let begun = Instant::now();
        self.each_unit(name::TRANS_OP_HALF_TOPIC, op, |unit| {
            outcomes.read_op(unit.offset, &self.read_op(unit).ok()?);
            Some(())
        })?;
        let mut open = 0_usize;
        self.each_unit(HALF_TOPIC, half, |unit| {
            if outcomes.unread(unit.offset).is_some() {
                return Some(());
            }
            let Some(half) = self.read_half(unit).ok()? else { return Some(()) };
            if half.origin() != unit.offset {
                outcomes.renewed(half.origin(), unit.offset);
            }
            open += 1;
            Some(())
        })?;
        let millis = begun.elapsed().as_millis();
        tracing::info!(half, end, op, open, millis, "transactions are known");
        Some(outcomes)
    }

    /// The recorded progress of a topic, within its queue.
    fn recorded(&self, topic: &str) -> u64 {
        let store = &self.broker.store;
        let (min, max) = (store.min_offset(topic, 0), store.max_offset(topic, 0));
        let said = self.broker.offsets.query(GROUP, topic, 0);
        said.and_then(|offset| u64::try_from(offset).ok()).unwrap_or(min).clamp(min, max.max(min))
    }

    fn turn(&self, turn: Turn) {
        if !self.read_ops(turn) {
            return;
        }
        let Some(progress) = self.with(turn, |outcomes| outcomes.progress()) else { return };
        let Some(reached) = self.walk(turn, progress) else { return };
        let Some(op) = self.with(turn, |outcomes| outcomes.advance(reached)) else { return };
        if self.broker.master_term() != Some(turn.term) {
            return;
        }
        // In this order: with half messages that are done with, records may be missing that say so.
        for (topic, offset) in [(HALF_TOPIC, reached), (name::TRANS_OP_HALF_TOPIC, op)] {
            // Without transactions nothing is written.
            if offset > self.recorded(topic) {
                self.broker.offsets.commit(GROUP, topic, 0, offset.cast_signed());
            }
        }
    }

    /// Takes what the op topic has got that this node has not written, or does not know that it has.
    fn read_ops(&self, turn: Turn) -> bool {
        let Some(from) = self.with(turn, |outcomes| outcomes.op_next()) else { return false };
        let read = self.each_unit(name::TRANS_OP_HALF_TOPIC, from, |unit| {
            if self.with(turn, |outcomes| outcomes.pass_own_op(unit.offset))? {
                return Some(());
            }
            let offsets = self.read_op(unit).ok()?;
            self.with(turn, |outcomes| outcomes.read_op(unit.offset, &offsets))
        });
        read.is_some()
    }

    fn read_op(&self, unit: &Unit) -> Result<Vec<u64>, Unreadable> {
        Ok(self.read(unit)?.map(|bytes| op::offsets(&bytes)).unwrap_or_default())
    }

    /// Looks at half messages from `progress` on, and does what is due; gives where it stopped.
    fn walk(&self, turn: Turn, progress: u64) -> Option<u64> {
        let end = self.broker.store.max_offset(HALF_TOPIC, 0);
        let mut at = progress.max(self.broker.store.min_offset(HALF_TOPIC, 0));
        let mut round = Round::default();
        let mut written = at;
        'walk: while at < end {
            let units = self.broker.store.units(HALF_TOPIC, 0, at, UNITS);
            if units.is_empty() {
                break;
            }
            for unit in units.iter().take_while(|unit| unit.offset < end) {
                match self.judge(turn, unit)? {
                    Verdict::Pass => {}
                    Verdict::Stay => break 'walk,
                    Verdict::Renew(half, asks) => round.add(half, Kind::Renewed { asks }),
                    Verdict::GiveUp(half) => round.add(half, Kind::GivenUp),
                    Verdict::TakeOff(half) => round.add(half, Kind::TakenOff),
                }
                at = unit.offset + 1;
                if round.is_full() {
                    if !self.write(turn, std::mem::take(&mut round)) {
                        return Some(written);
                    }
                    written = at;
                }
            }
        }
        Some(if self.write(turn, round) { at } else { written })
    }

    /// What becomes of the half message at a unit; `None` where the term is over.
    fn judge(&self, turn: Turn, unit: &Unit) -> Option<Verdict> {
        let known = self.with(turn, |outcomes| outcomes.unread(unit.offset))?;
        if let Some(standing) = known {
            return Some(Verdict::of(standing));
        }
        let half = match self.read_half(unit) {
            Ok(Some(half)) => half,
            Ok(None) => return Some(Verdict::Pass),
            Err(Unreadable) => return Some(Verdict::Stay),
        };
        let place = place(&half);
        let (standing, inherited) =
            self.with(turn, |it| (it.standing(place), it.is_inherited(place)))?;
        if standing != Standing::Open {
            return Some(Verdict::of(standing));
        }
        let verdict = match self.due(turn, half) {
            Verdict::Renew(half, _) | Verdict::GiveUp(half)
                if inherited && self.broker.is_committed(&half) =>
            {
                Verdict::TakeOff(half)
            }
            verdict => verdict,
        };
        if matches!(verdict, Verdict::GiveUp(_) | Verdict::TakeOff(_)) {
            // From here on no producer ends it.
            let begun = self.with(turn, |outcomes| outcomes.begin(place))?;
            return Some(if begun.is_ok() { verdict } else { Verdict::Stay });
        }
        Some(verdict)
    }

    /// What is due for a transaction that is open.
    fn due(&self, turn: Turn, half: Half) -> Verdict {
        let config = self.broker.config();
        let record = half.record();
        let age = turn.begun.saturating_sub(record.born_timestamp);
        let reserved = i64::from(config.file_reserved_time).saturating_mul(3_600_000);
        let lasts = half.checks() < config.transaction_check_max && age <= reserved;
        if !lasts || !half.is_renewable() {
            return Verdict::GiveUp(half);
        }
        if record.store_timestamp >= turn.begun {
            return Verdict::Stay;
        }
        let timeout = Duration::from_millis(config.transaction_time_out);
        let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        match half.immunity(timeout) {
            // It must not hold back those behind it.
            Some(immunity) if age < millis(immunity) => Verdict::Renew(half, false),
            None if (0..millis(timeout)).contains(&age) => Verdict::Stay,
            Some(_) | None => Verdict::Renew(half, true),
        }
    }

    /// Writes a round and waits until it is committed, then asks the producers.
    fn write(&self, turn: Turn, round: Round) -> bool {
        if round.done.is_empty() {
            return true;
        }
        let host = self.broker.store_host();
        let mut records = Vec::with_capacity(round.done.len());
        for (half, kind) in &round.done {
            match kind {
                Kind::Renewed { asks } => records.push(half.renewed(*asks, host)),
                Kind::GivenUp => records.push(half.given_up(host)),
                Kind::TakenOff => {}
            }
            if !matches!(kind, Kind::Renewed { .. }) {
                records.push(op::record(&place(half).offsets(), host, turn.begun));
            }
        }
        if round.done.iter().any(|(_, kind)| *kind == Kind::GivenUp) {
            self.broker.ensure_topic_soon(topics::read_write(
                name::TRANS_CHECK_MAX_TIME_TOPIC,
                1,
                false,
            ));
        }
        let Some(placed) = self.broker.append_waiting(&records, &self.waits, WHAT) else {
            self.not_written(turn, &round);
            return false;
        };
        let mut placed = placed.records();
        for (half, kind) in &round.done {
            if *kind == Kind::GivenUp {
                placed.next();
            }
            let Some(bytes) = placed.next() else { break };
            self.take(turn, half, (*kind, bytes));
        }
        true
    }

    fn not_written(&self, turn: Turn, round: &Round) {
        let ended = round.done.iter().filter(|(_, kind)| !matches!(kind, Kind::Renewed { .. }));
        for (half, _) in ended {
            self.with(turn, |outcomes| outcomes.failed(place(half)));
        }
    }

    /// Takes note of what was written for one half message.
    fn take(&self, turn: Turn, half: &Half, (kind, bytes): (Kind, &[u8])) {
        let offset = pending::offsets(bytes).0.cast_unsigned();
        match kind {
            Kind::Renewed { asks } => {
                let known = self.with(turn, |outcomes| outcomes.renewed(half.origin(), offset));
                if asks && known.is_some() {
                    self.ask(bytes);
                }
            }
            Kind::GivenUp | Kind::TakenOff => {
                self.with(turn, |outcomes| outcomes.recorded(place(half), offset));
                if kind == Kind::GivenUp {
                    let (half, group) = (half.offset(), half.group());
                    tracing::warn!(half, group, "no producer ended a transaction in time");
                }
            }
        }
    }

    /// Asks one of the producers that are online, another one each time.
    fn ask(&self, bytes: &[u8]) {
        let half = match Half::read(bytes) {
            Ok(half) => half,
            Err(error) => return tracing::error!(%error, "a half message cannot be asked about"),
        };
        let Some(producer) = self.producer(half.group()) else {
            tracing::debug!(group = half.group(), "no producer is online to be asked");
            return;
        };
        match self.question(&half) {
            Ok(question) => producer.oneway(question),
            Err(error) => tracing::error!(error, "a half message cannot be asked about"),
        }
    }

    fn producer(&self, group: &str) -> Option<Arc<Connection>> {
        let mut members = self.broker.producers.members(group);
        members.retain(|member| member.handle.is_open() && member.handle.queued_bytes() < UNREAD);
        members.sort_unstable_by_key(|member| member.id);
        let turn = self.broker.transactions.next_turn().checked_rem(members.len())?;
        members.get(turn).map(|member| Arc::clone(&member.handle))
    }

    fn question(&self, half: &Half) -> Result<Command, String> {
        let record = half.record();
        let unique = half.unique_key().map(str::to_owned);
        let header = CheckTransactionStateRequest {
            topic: Some(HALF_TOPIC.to_owned()),
            tran_state_table_offset: record.queue_offset,
            commit_log_offset: record.physical_offset,
            msg_id: unique.clone(),
            transaction_id: unique,
            offset_msg_id: Some(offset_message_id(record.store_host, record.physical_offset)),
        };
        let question = half.question().map_err(|error| error.to_string())?;
        let mut body = BytesMut::with_capacity(question.encoded_len());
        record::encode(&question, &mut body).map_err(|error| error.to_string())?;
        Ok(Command::request_with(request::CHECK_TRANSACTION_STATE, &header)
            .with_field("bname", &self.broker.config().broker_name)
            .with_body(body.freeze()))
    }

    /// Visits the units of a topic from an offset to its end, until `visit` gives `None`.
    fn each_unit(
        &self,
        topic: &str,
        from: u64,
        mut visit: impl FnMut(&Unit) -> Option<()>,
    ) -> Option<()> {
        let (min, end) =
            (self.broker.store.min_offset(topic, 0), self.broker.store.max_offset(topic, 0));
        let mut at = from.max(min);
        while at < end {
            let units = self.broker.store.units(topic, 0, at, UNITS);
            let Some(last) = units.last() else { break };
            at = last.offset + 1;
            units.iter().try_for_each(&mut visit)?;
        }
        Some(())
    }

    fn read_half(&self, unit: &Unit) -> Result<Option<Half>, Unreadable> {
        let Some(bytes) = self.read(unit)? else { return Ok(None) };
        match Half::read(&bytes) {
            Ok(half) => Ok(Some(half)),
            Err(error) => {
                tracing::error!(%error, physical = unit.physical, "a half message is passed over");
                Ok(None)
            }
        }
    }

    /// The record of a unit; `None` where there is none.
    fn read(&self, unit: &Unit) -> Result<Option<bytes::Bytes>, Unreadable> {
        if unit.is_blank() {
            return Ok(None);
        }
        self.broker.waiting_message(unit.physical, WHAT)
    }

    fn with<R>(&self, turn: Turn, look: impl FnOnce(&mut Outcomes) -> R) -> Option<R> {
        self.broker.transactions.with(turn.term, look)
    }
}

impl Verdict {
    fn of(standing: Standing) -> Self {
        match standing {
            Standing::Done => Self::Pass,
            Standing::Open | Standing::Ending => Self::Stay,
        }
    }
}

fn place(half: &Half) -> Place {
    Place { origin: half.origin(), offset: half.offset() }
}
