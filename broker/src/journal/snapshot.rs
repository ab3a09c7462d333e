//! Snapshots of the tables, which the leader writes at the start of every data file.

use std::{
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Instant,
};

use protocol::code::response;
use store::journal::{QueueRange, Record, Tables, snapshot_records};
use tokio::sync::oneshot;

use super::{APPLY_LIMIT, write::no_text};
use crate::{broker::Broker, call::Rejection, clock};

/// How much longer than a snapshot the log must be until the next one: with small files a snapshot
/// may reach into the next file, and must not be a reason for another.
const SPACING: u64 = 4;

/// What a snapshot describes: the tables and the queues at its begin.
#[derive(Debug)]
pub(super) struct Captured {
    tables: Tables,
    queues: Vec<(String, Vec<QueueRange>)>,
}

impl Broker {
    /// Starts a snapshot where one is due and none is being written.
    pub(super) fn snapshot_where_due(self: &Arc<Self>) {
        if !self.is_master() || !self.snapshot_is_due() {
            return;
        }
        if self.journal.snapshots.running.swap(true, Ordering::AcqRel) {
            return;
        }
        let broker = Arc::clone(self);
        self.runtime.spawn(async move {
            match broker.write_snapshot().await {
                Ok(records) => tracing::debug!(records, "a snapshot of the tables was written"),
                Err(rejection) => {
                    let reason = rejection.remark;
                    let warned = &broker.journal.snapshots.warned;
                    if let Some(held_back) = warned.tell(Instant::now()) {
                        tracing::warn!(
                            reason,
                            held_back,
                            "no snapshot of the tables; it is tried again until there is one"
                        );
                    }
                }
            }
            broker.journal.snapshots.running.store(false, Ordering::Release);
        });
    }

    /// A leader whose tables came from files, or that knows no snapshot, writes one at once.
    fn snapshot_is_due(&self) -> bool {
        let (newest, whole) = {
            let state = self.journal.state();
            (state.replay.newest(), state.replay.is_whole())
        };
        let Some(newest) = newest.filter(|_| whole) else { return true };
        let file = self.config().mapped_file_size_commit_log.max(1);
        let position = self.store.dispatched();
        let length = newest.end.saturating_sub(newest.begin);
        position / file > newest.begin / file
            && position.saturating_sub(newest.end) >= length.saturating_mul(SPACING)
    }

    async fn write_snapshot(&self) -> Result<usize, Rejection> {
        let id = self.next_snapshot_id();
        let (tell, captured) = oneshot::channel();
        *self.awaited() = Some((id, tell));
        let begun = self.write_records(&[Record::Begin { snapshot: id }]).await;
        let captured = match begun {
            Ok(_) => tokio::time::timeout(APPLY_LIMIT, captured).await.ok().and_then(Result::ok),
            Err(rejection) => {
                *self.awaited() = None;
                return Err(rejection);
            }
        };
        let Some(Captured { tables, queues }) = captured else {
            let remark = "its begin was not applied in time";
            return Err(Rejection::new(response::SYSTEM_BUSY, remark));
        };
        let encoding = tokio::task::spawn_blocking(move || snapshot_records(id, &tables, queues));
        let records = encoding
            .await
            .map_err(|panic| Rejection::new(response::SYSTEM_ERROR, panic.to_string()))?
            .map_err(|error| no_text(&error))?;
        // One by one: a large snapshot must not fill the queue of appends.
        for record in &records {
            self.write_records(std::slice::from_ref(record)).await?;
        }
        Ok(records.len() + 1)
    }

    /// The begin of a snapshot is applied: what it describes is taken where this node writes it.
    pub(super) fn capture_snapshot(&self, id: u64, tables: &Tables) {
        let mut awaited = self.awaited();
        if awaited.as_ref().is_none_or(|(wanted, _)| *wanted != id) {
            return;
        }
        if let Some((_, tell)) = awaited.take() {
            let captured = Captured { tables: tables.clone(), queues: self.store.queue_ranges() };
            if tell.send(captured).is_err() {
                tracing::debug!(id, "nobody waits for a snapshot's begin any more");
            }
        }
    }

    /// Larger than every id before, also of an earlier run: the clock may only have gone forward
    /// since, or the records of another term part both.
    fn next_snapshot_id(&self) -> u64 {
        let now = u64::try_from(clock::now_millis()).unwrap_or(0);
        let last = self.journal.snapshots.last_id.load(Ordering::Acquire);
        let id = now.max(last + 1);
        self.journal.snapshots.last_id.store(id, Ordering::Release);
        id
    }

    fn awaited(&self) -> std::sync::MutexGuard<'_, Option<(u64, oneshot::Sender<Captured>)>> {
        self.journal.snapshots.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
