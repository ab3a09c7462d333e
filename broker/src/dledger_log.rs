//! The commit log of a broker: a DLedger log behind the store's append seam.
//!
//! The one place that names both crates. A record's physical offset is its entry's position plus the
//! entry header (Java: `DLedgerCommitLog`, `DLedgerEntry.BODY_OFFSET`).

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::{Bytes, BytesMut};
use dledger::{Appended, Body, Dledger, Entries, Hook, HookError, Sink, Status, Tail};
use protocol::message::record::{self, MessageRecord};
use store::{
    Tails,
    append_log::{
        AppendFailure, AppendLog, Batch, Bounds, CommitSink, Completed, HEADROOM, Placed,
        ReadError, RefusalCause, Refused, Run,
    },
};
use tokio::sync::watch;

/// The system topic whose records carry what fails over beside messages. A new leader's first entry
/// is one of them: only message records may be bodies, or a Java dispatcher would derail.
pub(crate) const JOURNAL_TOPIC: &str = "rmq_sys_LEDGERMQ_JOURNAL";

const _: () = assert!(HEADROOM == dledger::ENTRY_HEADER, "both headers are of one length");

/// A DLedger log that the store appends to.
#[derive(Debug)]
pub(crate) struct DledgerLog<T: Send + 'static> {
    log: Dledger<T>,
}

impl<T: Send + 'static> DledgerLog<T> {
    /// Opens and repairs the log; what becomes of batches goes to `sink`. It can be read at once and
    /// takes batches after [`DledgerLog::start`].
    ///
    /// # Errors
    /// See [`dledger::OpenError`].
    pub(crate) fn open(
        options: &dledger::Options,
        sink: Arc<dyn CommitSink<T>>,
    ) -> Result<Self, dledger::OpenError> {
        Ok(Self { log: Dledger::open(options, Arc::new(Forward(sink)))? })
    }

    /// Starts the log with the queues' tails, which the store knows once it is open. `host` is
    /// written into the entries that this node makes by itself.
    ///
    /// # Errors
    /// See [`dledger::StartError`].
    pub(crate) fn start(&self, tails: Tails, host: SocketAddr) -> Result<(), dledger::StartError> {
        self.log.start(Stamper { tails, host })
    }

    /// Role, term, whether the term is opened, and why the log has failed, if it has.
    #[must_use]
    pub(crate) fn status(&self) -> watch::Receiver<Status> {
        self.log.status()
    }

    /// Deletes whole files before log position `before`; returns the first position that is left.
    ///
    /// # Errors
    /// What the disk answers.
    pub(crate) fn trim(&self, before: u64) -> std::io::Result<u64> {
        self.log.trim(before)
    }

    /// Stops in order; see [`Dledger::shutdown`].
    ///
    /// # Errors
    /// Why the log failed before or while it stopped.
    pub(crate) fn shutdown(&self) -> Result<(), String> {
        self.log.shutdown()
    }
}

impl<T: Send + 'static> AppendLog<T> for DledgerLog<T> {
    fn submit(&self, batch: Batch<T>) -> Result<(), Refused<T>> {
        let Batch { buffer, lengths, token } = batch;
        self.log.submit(Entries { buffer, lengths, token }).map_err(|refused| {
            let Entries { buffer, lengths, token } = refused.entries;
            Refused { batch: Batch { buffer, lengths, token }, cause: refusal(refused.cause) }
        })
    }

    fn bounds(&self) -> Bounds {
        let dledger::Bounds { min, committed } = self.log.bounds();
        Bounds { min, committed }
    }

    fn read(&self, physical: u64, size: u32) -> Result<Bytes, ReadError> {
        self.log.read(self.position_of(physical)?, size).map_err(read_error)
    }

    fn read_if_cached(&self, physical: u64, size: u32) -> Option<Bytes> {
        self.log.read_if_cached(physical.checked_sub(HEADROOM as u64)?, size)
    }

    fn read_unsized(&self, physical: u64) -> Result<Bytes, ReadError> {
        self.log.read_unsized(self.position_of(physical)?).map_err(read_error)
    }

    fn read_forward(&self, from: u64, max_bytes: usize) -> Result<Run, ReadError> {
        let run = self.log.read_forward(from, max_bytes).map_err(read_error)?;
        let physical = |(position, body)| (position + HEADROOM as u64, body);
        Ok(Run { records: run.entries.into_iter().map(physical).collect(), next: run.next })
    }

    fn wait_committed(&self, beyond: u64, timeout: Duration) -> u64 {
        self.log.wait_committed(beyond, timeout)
    }
}

impl<T: Send + 'static> DledgerLog<T> {
    fn position_of(&self, physical: u64) -> Result<u64, ReadError> {
        physical.checked_sub(HEADROOM as u64).ok_or_else(|| {
            let dledger::Bounds { min, committed } = self.log.bounds();
            ReadError::OutOfRange { offset: physical, min, committed }
        })
    }
}

/// Hands committed groups to the store's sink.
struct Forward<T>(Arc<dyn CommitSink<T>>);

impl<T: Send + 'static> Sink<T> for Forward<T> {
    fn completed(&self, group: Vec<dledger::Completed<T>>) {
        let completed = group.into_iter().map(|one| Completed {
            token: one.token,
            result: one
                .result
                .map(|Appended { bytes, lengths }| Placed { bytes, lengths })
                .map_err(failure),
        });
        self.0.completed(completed.collect());
    }
}

/// Assigns queue offsets and store times on the log's writing thread.
#[derive(Debug)]
struct Stamper {
    tails: Tails,
    host: SocketAddr,
}

impl Hook for Stamper {
    fn elected(&mut self, term: u64, tail: &mut dyn Tail) -> Result<(), HookError> {
        let from = self.tails.position();
        let mut folded = 0_u64;
        tail.visit(from, &mut |_, body| {
            folded += 1;
            self.tails.fold(body);
            Ok(())
        })?;
        tracing::info!(term, from, folded, "queue tails are complete");
        Ok(())
    }

    fn opening(&mut self, term: u64) -> Vec<u8> {
        opening_record(term, self.host, now_ms())
    }

    fn stamp(&mut self, group: &mut [Body<'_>]) -> Result<(), HookError> {
        let now = now_ms();
        self.tails.begin_group();
        for body in group {
            let physical = body.position + HEADROOM as u64;
            self.tails
                .stamp(body.bytes, physical, now)
                .map_err(|error| HookError(error.to_string()))?;
        }
        Ok(())
    }

    fn undo(&mut self) {
        self.tails.undo();
    }
}

/// The entry by which a new leader opens its term, as a record of the journal.
fn opening_record(term: u64, host: SocketAddr, now_ms: u64) -> Vec<u8> {
    let born = i64::try_from(now_ms).unwrap_or(i64::MAX);
    let opening = MessageRecord {
        queue_id: 0,
        flag: 0,
        queue_offset: 0,
        physical_offset: 0,
        sys_flag: 0,
        born_timestamp: born,
        born_host: host,
        store_timestamp: born,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: Bytes::from(format!("{{\"version\":1,\"kind\":\"opening\",\"term\":{term}}}")),
        topic: JOURNAL_TOPIC.to_owned(),
        properties: String::new(),
    };
    let mut bytes = BytesMut::new();
    if let Err(error) = record::encode(&opening, &mut bytes) {
        // An empty body stops the log with a text; a constant topic always fits.
        tracing::error!(%error, "opening entry cannot be encoded");
    }
    bytes.to_vec()
}

fn refusal(cause: dledger::RefusalCause) -> RefusalCause {
    match cause {
        dledger::RefusalCause::Full { pending_bytes, limit_bytes } => {
            RefusalCause::Full { pending_bytes, limit_bytes }
        }
        dledger::RefusalCause::NotLeader { term, leader } => {
            RefusalCause::NotLeader { term, leader }
        }
        dledger::RefusalCause::TooLarge { length, limit } => {
            RefusalCause::TooLarge { length, limit }
        }
        malformed @ dledger::RefusalCause::Malformed { .. } => {
            RefusalCause::Stopped(malformed.to_string())
        }
        dledger::RefusalCause::Stopped(reason) => RefusalCause::Stopped(reason),
    }
}

fn failure(failure: dledger::AppendFailure) -> AppendFailure {
    match failure {
        dledger::AppendFailure::Truncated { term } => AppendFailure::Truncated { term },
        dledger::AppendFailure::TimedOut { waited } => AppendFailure::TimedOut { waited },
        dledger::AppendFailure::NotWritten(reason) => AppendFailure::Write(reason),
        dledger::AppendFailure::Unconfirmed(reason) => AppendFailure::Unconfirmed(reason),
    }
}

fn read_error(error: dledger::ReadError) -> ReadError {
    match error {
        dledger::ReadError::OutOfRange { position, min, committed } => {
            ReadError::OutOfRange { offset: position, min, committed }
        }
        dledger::ReadError::Damaged { position, reason } => ReadError::Damaged { position, reason },
        dledger::ReadError::Io { position, reason } => ReadError::Io { position, reason },
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use store::append_log::suite::{self, Subject};

    fn wait_opened<T: Send + 'static>(log: &DledgerLog<T>) {
        let status = log.status();
        let deadline = Instant::now() + Duration::from_secs(30);
        while !status.borrow().opened {
            assert!(Instant::now() < deadline, "not opened: {:?}", status.borrow());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn keeps_the_promises_of_an_append_log() {
        for durability in [dledger::Durability::Sync, dledger::Durability::Async] {
            let folders = std::cell::RefCell::new(Vec::new());
            let open = |sink: Arc<dyn CommitSink<u64>>| -> Subject {
                let folder = tempfile::tempdir().unwrap();
                let options = dledger::Options {
                    // Small files, so that batches cross them.
                    file_size: 8192,
                    durability,
                    append_timeout: Duration::from_secs(30),
                    ..dledger::Options::one_node(folder.path().join("dledger-n0"))
                };
                folders.borrow_mut().push(folder);
                let log = DledgerLog::open(&options, sink).unwrap();
                log.start(Tails::new(), SocketAddr::from(([127, 0, 0, 1], 10911))).unwrap();
                wait_opened(&log);
                Arc::new(log)
            };
            suite::run(&open).unwrap();
        }
    }

    #[test]
    fn the_opening_entry_is_a_message_record() {
        let bytes = opening_record(7, SocketAddr::from(([127, 0, 0, 1], 10911)), 1);
        let decoded = record::decode(&bytes).unwrap();
        assert_eq!(decoded.topic, JOURNAL_TOPIC);
        assert_eq!(decoded.body, "{\"version\":1,\"kind\":\"opening\",\"term\":7}");
    }
}
