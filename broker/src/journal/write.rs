//! What the leader writes into the journal.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};

use bytes::Bytes;
use protocol::{code::response, message::record::MessageRecord};
use segment::Throttle;
use store::{
    append_log::{HEADROOM, Placed},
    journal::{self, Change, Record},
};
use tokio::{sync::oneshot, time::MissedTickBehavior};

use super::APPLY_LIMIT;
use crate::{
    broker::Broker,
    call::Rejection,
    clock, drafts,
    offsets::{self, Sent},
    pending::{self, Outcome},
};

/// How long commits that nobody waits for are gathered.
const GATHER: Duration = Duration::from_secs(1);
/// How long a stop waits for the last commits.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// What was given to the log, where it took it.
type Submitted = Result<oneshot::Receiver<Outcome>, Rejection>;

/// A record as a message of the journal's topic, made by `host` at `born`, in milliseconds since 1970.
///
/// # Errors
/// It has no text.
pub(crate) fn message(
    record: &Record,
    host: SocketAddr,
    born: i64,
) -> Result<MessageRecord, serde_json::Error> {
    Ok(drafts::of_broker(journal::TOPIC, Bytes::from(record.encode()?), host, born))
}

/// Writes what is gathered, and snapshots, until it is dropped.
pub(crate) async fn run(broker: Arc<Broker>) {
    let mut period = tokio::time::interval(GATHER);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let warned = Throttle::new();
    loop {
        tokio::select! {
            _ = period.tick() => {}
            () = broker.journal.flush.wake.notified() => {}
        }
        broker.write_gathered(&warned).await;
        broker.snapshot_where_due();
    }
}

impl Broker {
    /// Does changes: they are committed and applied when this returns.
    ///
    /// # Errors
    /// The log did not take or not commit them. Those that were taken may be committed later.
    pub(crate) async fn change(&self, changes: Vec<Change>) -> Result<(), Rejection> {
        if changes.is_empty() {
            return Ok(());
        }
        let told = self.submit_changes(changes)?;
        self.applied(told).await
    }

    /// Gives changes to the log.
    fn submit_changes(&self, changes: Vec<Change>) -> Submitted {
        self.submit_journal(&journal::changes(changes).map_err(|error| no_text(&error))?)
    }

    /// Waits until what was given to the log is committed and applied.
    async fn applied(&self, told: oneshot::Receiver<Outcome>) -> Result<(), Rejection> {
        let position = committed(told).await?;
        let mut applied = self.journal.applied.subscribe();
        let done = applied.wait_for(|applied| *applied > position);
        match tokio::time::timeout(APPLY_LIMIT, done).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Rejection::new(
                response::SYSTEM_ERROR,
                "the change is committed and holds soon: this broker is busy deriving its queues",
            )),
        }
    }

    /// Looks at the tables and does what `plan` says, while no other such change is under way.
    ///
    /// # Errors
    /// Those of `plan` and of [`Broker::change`].
    pub(crate) async fn change_by<R>(
        &self,
        plan: impl FnOnce() -> Result<(Vec<Change>, R), Rejection>,
    ) -> Result<R, Rejection> {
        let _changing = self.journal.changing.lock().await;
        let (changes, result) = plan()?;
        self.change(changes).await?;
        Ok(result)
    }

    /// As [`Broker::change_by`], for handlers that may block.
    ///
    /// # Errors
    /// See there.
    pub(crate) fn change_blocking<R>(
        &self,
        plan: impl FnOnce() -> Result<(Vec<Change>, R), Rejection>,
    ) -> Result<R, Rejection> {
        self.runtime.block_on(self.change_by(plan))
    }

    /// Waits until every offset that was committed here before is in the log.
    ///
    /// # Errors
    /// The log did not take or not commit them; they are tried again.
    pub(crate) async fn flush_offsets(&self) -> Result<(), Rejection> {
        let flush = &self.journal.flush;
        let mut done = flush.done.subscribe();
        let mine = flush.wanted.fetch_add(1, Ordering::AcqRel) + 1;
        flush.wake.notify_one();
        let limit = APPLY_LIMIT + self.append_patience();
        match tokio::time::timeout(limit, done.wait_for(|(turn, _)| *turn >= mine)).await {
            Ok(Ok(done)) => done.1.clone(),
            Ok(Err(_)) | Err(_) => Err(Rejection::new(
                response::SYSTEM_BUSY,
                "offsets could not be committed in time; commit again",
            )),
        }
    }

    async fn write_gathered(&self, warned: &Throttle) {
        let turn = self.journal.flush.wanted.load(Ordering::Acquire);
        let written = match self.require_master_for_journal() {
            Ok(()) => self.write_pending().await,
            Err(rejection) => Err(rejection),
        };
        if let Err(rejection) = &written
            && self.is_master()
            && let Some(held_back) = warned.tell(Instant::now())
        {
            let reason = &rejection.remark;
            tracing::warn!(reason, held_back, "offsets and groups wait for the log");
        }
        drop(self.journal.flush.done.send_replace((turn, written)));
    }

    /// A stop writes what clients committed before, for a bounded time, and answers who waits.
    pub(crate) async fn flush_at_stop(&self) {
        let turn = self.journal.flush.wanted.load(Ordering::Acquire);
        let written = tokio::time::timeout(STOP_LIMIT, self.write_pending()).await;
        let written = written.unwrap_or_else(|_late| {
            let remark = "the broker stops and its log is busy; commit again elsewhere";
            Err(Rejection::new(response::SERVICE_NOT_AVAILABLE, remark))
        });
        if let Err(rejection) = &written
            && self.is_master()
        {
            tracing::warn!(reason = rejection.remark, "the last commits were not written");
        }
        drop(self.journal.flush.done.send_replace((turn, written)));
    }

    /// Also while it stops: what clients committed before is written.
    fn require_master_for_journal(&self) -> Result<(), Rejection> {
        if self.is_master() { Ok(()) } else { self.require_master() }
    }

    /// Writes what use changed and what clients committed, and waits until it is applied.
    pub(crate) async fn write_pending(&self) -> Result<(), Rejection> {
        let _writing = self.journal.writing.lock().await;
        let Some((soon, sent, told)) = self.submit_pending() else { return Ok(()) };
        let written = match told {
            Ok(told) => self.applied(told).await,
            Err(rejection) => Err(rejection),
        };
        self.offsets.settle(sent, written.is_ok());
        if written.is_err() && self.is_master() {
            let mut again = self.journal.soon.lock().unwrap_or_else(PoisonError::into_inner);
            again.splice(0..0, soon);
        }
        written
    }

    /// Takes what is to be written, and gives it to the log; `None` where there is nothing.
    fn submit_pending(&self) -> Option<(Vec<Change>, Sent, Submitted)> {
        let _ordered = self.offsets.in_order();
        let soon = {
            let mut soon = self.journal.soon.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *soon)
        };
        let sent = self.offsets.take_unsent();
        if soon.is_empty() && sent.is_empty() {
            return None;
        }
        let mut changes = soon.clone();
        changes.extend(sent.changes());
        let told = self.submit_changes(changes);
        Some((soon, sent, told))
    }

    /// Writes records as one batch; gives the log position of the last when all are committed.
    pub(super) async fn write_records(&self, records: &[Record]) -> Result<u64, Rejection> {
        committed(self.submit_journal(records)?).await
    }

    /// Gives records to the log as one batch.
    fn submit_journal(&self, records: &[Record]) -> Submitted {
        let (host, now) = (self.store_host(), clock::now_millis());
        let messages = records.iter().map(|record| message(record, host, now));
        let messages: Vec<_> =
            messages.collect::<Result<_, _>>().map_err(|error| no_text(&error))?;
        // Whatever the room on the disk is: consumers that go on let a full disk become empty.
        self.submit_records(&messages)
    }

    /// The progress of a delivery of delayed messages, to stand behind them in one batch.
    pub(crate) fn delay_record(
        &self,
        reached: &BTreeMap<u32, u64>,
    ) -> Result<MessageRecord, serde_json::Error> {
        let levels = reached.iter().map(|(level, offset)| (*level, *offset)).collect();
        let record = Record::Changes { changes: vec![Change::Delays(levels)] };
        message(&record, self.store_host(), clock::now_millis())
    }

    /// Takes an administrator's reset that a group hears of now. Should the lead go before that is in the
    /// log, it hears of it once more, and consumes some messages again; were it in the log first, an answer
    /// that is lost would lose the reset.
    pub(crate) fn take_reset(&self, group: &str, topic: &str, queue: i32) -> Option<i64> {
        let offset = self.offsets.take_reset(group, topic, queue)?;
        self.journal.soon(offsets::told(group, topic, queue, offset));
        Some(offset)
    }

    fn append_patience(&self) -> Duration {
        Duration::from_millis(self.config().append_timeout_millis)
    }
}

/// The log position of the last record of a batch, when it is committed.
async fn committed(told: oneshot::Receiver<Outcome>) -> Result<u64, Rejection> {
    let stopped = "the log has stopped; ask the broker that takes over";
    Ok(last_position(&pending::settled(told.await, stopped)?))
}

fn last_position(placed: &Placed) -> u64 {
    let physical = placed.records().last().map_or(0, |record| pending::offsets(record).1);
    physical.cast_unsigned().saturating_sub(HEADROOM as u64)
}

pub(super) fn no_text(error: &serde_json::Error) -> Rejection {
    Rejection::new(response::SYSTEM_ERROR, format!("a record of the journal has no text: {error}"))
}
