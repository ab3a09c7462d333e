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
use dledger::{
    Appended, AskError, Body, DiskLog, Dledger, Entries, Hook, HookError, Sink, Status, Tail,
    TransferCode, Transport,
};
use protocol::message::record;
use store::{
    Tails,
    append_log::{
        AppendFailure, AppendLog, Batch, Bounds, CommitSink, Completed, HEADROOM, Placed,
        ReadError, RefusalCause, Refused, Run,
    },
    journal::Record,
    native::NativeLog,
};
use tokio::sync::watch;

use crate::journal;

const _: () = assert!(HEADROOM == dledger::ENTRY_HEADER, "both headers are of one length");

/// A DLedger log that the store appends to, and the native log in front of it, where there is one.
#[derive(Debug)]
pub(crate) struct DledgerLog<T: Send + 'static> {
    log: Dledger<T>,
    front: Option<NativeLog>,
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
        Self::open_behind(None, options, sink)
    }

    /// As [`DledgerLog::open`], with a native log in front that ends where this one begins.
    ///
    /// # Errors
    /// See [`dledger::OpenError`].
    pub(crate) fn open_behind(
        front: Option<NativeLog>,
        options: &dledger::Options,
        sink: Arc<dyn CommitSink<T>>,
    ) -> Result<Self, dledger::OpenError> {
        Ok(Self { log: Dledger::open(options, Arc::new(Forward(sink)))?, front })
    }

    /// Log position at which the native log in front ends; 0 without one.
    #[must_use]
    pub(crate) fn front_end(&self) -> u64 {
        self.front.as_ref().map_or(0, |front| front.range().1)
    }

    /// Starts the log: alone, or with the way to the other members. `take_tails` gives the queues'
    /// tails for a log that begins at a position, each time that this node is to lead; `needed_from`
    /// the position from which on the tables need the log; `host` is written into the entries that
    /// this node makes by itself.
    ///
    /// # Errors
    /// See [`dledger::StartError`].
    pub(crate) fn start(
        &self,
        (take_tails, needed_from): (TakeTails, NeededFrom),
        host: SocketAddr,
        transport: Option<Arc<dyn Transport>>,
    ) -> Result<(), dledger::StartError> {
        let log = Arc::clone(self.log.log());
        let needed_from: NeededFrom = match &self.front {
            // The first file of this log tells where the two meet; see [`DledgerLog::trim`].
            Some(front) if !front.is_empty() => Box::new(|| 0),
            Some(_) | None => needed_from,
        };
        let stamper = Stamper { take_tails, needed_from, log, tails: Tails::new(), host };
        match transport {
            Some(transport) => self.log.start_with(stamper, transport),
            None => self.log.start(stamper),
        }
    }

    /// Hands the lead to member `to`, or to the one that is furthest where that is `None`. The future
    /// borrows nothing.
    pub(crate) fn transfer(
        &self,
        to: Option<String>,
    ) -> impl Future<Output = Result<TransferCode, AskError>> + Send + 'static {
        self.log.transfer(to)
    }

    /// Tells whether there is room for what clients send; see [`Dledger::note_room`].
    pub(crate) fn note_room(&self, enough: bool) {
        self.log.note_room(enough);
    }

    /// The turns of this node's life in words, oldest first, with the time of each.
    #[must_use]
    pub(crate) fn records(&self) -> Vec<(SystemTime, String)> {
        self.log.records().into_iter().map(|(at, record)| (at, record.to_string())).collect()
    }

    /// What this member tells operators; see [`Dledger::told`].
    pub(crate) async fn told(&self, id: &str) -> serde_json::Value {
        self.log.told(id).await
    }

    /// Role, term, whether the term is opened, and why the log has failed, if it has.
    #[must_use]
    pub(crate) fn status(&self) -> watch::Receiver<Status> {
        self.log.status()
    }

    /// Deletes whole files before log position `before`; returns the first position that is left.
    /// While the native log in front has files, only of that one: the first file of this log tells
    /// where the two meet.
    ///
    /// # Errors
    /// What the disk answers.
    pub(crate) fn trim(&self, before: u64) -> std::io::Result<u64> {
        match self.front.as_ref().filter(|front| !front.is_empty()) {
            Some(front) => front.trim(before),
            None => self.log.trim(before),
        }
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
        let min = match self.front.as_ref().filter(|front| !front.is_empty()) {
            Some(front) => front.range().0,
            None => min,
        };
        Bounds { min, committed }
    }

    fn read(&self, physical: u64, size: u32) -> Result<Bytes, ReadError> {
        if let Some(front) = self.front_at(physical) {
            return front.read(physical, size);
        }
        self.log.read(self.position_of(physical)?, size).map_err(read_error)
    }

    fn read_if_cached(&self, physical: u64, size: u32) -> Option<Bytes> {
        self.log.read_if_cached(physical.checked_sub(HEADROOM as u64)?, size)
    }

    fn read_unsized(&self, physical: u64) -> Result<Bytes, ReadError> {
        if let Some(front) = self.front_at(physical) {
            return front.read_unsized(physical);
        }
        self.log.read_unsized(self.position_of(physical)?).map_err(read_error)
    }

    fn read_forward(&self, from: u64, max_bytes: usize) -> Result<Run, ReadError> {
        if let Some(front) = self.front_at(from) {
            return front.read_forward(from, max_bytes);
        }
        let run = self.log.read_forward(from, max_bytes).map_err(read_error)?;
        let physical = |(position, body)| (position + HEADROOM as u64, body);
        Ok(Run { records: run.entries.into_iter().map(physical).collect(), next: run.next })
    }

    fn wait_committed(&self, beyond: u64, timeout: Duration) -> u64 {
        self.log.wait_committed(beyond, timeout)
    }
}

impl<T: Send + 'static> DledgerLog<T> {
    /// The native log, where it holds this position.
    fn front_at(&self, position: u64) -> Option<&dyn AppendLog<T>> {
        let front = self.front.as_ref().filter(|front| position < front.range().1)?;
        Some(front)
    }

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

/// Gives the next offset of every queue at the dispatch point, for a log that begins at a position.
pub(crate) type TakeTails = Box<dyn Fn(u64) -> Tails + Send>;

/// Gives the log position from which on nothing of the log can be missed yet.
pub(crate) type NeededFrom = Box<dyn Fn() -> u64 + Send>;

/// Assigns queue offsets and store times on the log's writing thread.
struct Stamper {
    take_tails: TakeTails,
    needed_from: NeededFrom,
    log: Arc<DiskLog>,
    /// Those at the end of the log while this node leads; else empty.
    tails: Tails,
    host: SocketAddr,
}

impl Hook for Stamper {
    fn elected(&mut self, term: u64, tail: &mut dyn Tail) -> Result<(), HookError> {
        // A follower's queues are at the dispatch point, and this node may have followed until now:
        // what it stamped in an earlier term counts only where it is in the log still.
        self.tails = (self.take_tails)(self.log.bounds().min);
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

    fn deposed(&mut self) {
        self.tails = Tails::new();
    }

    fn needed_from(&mut self) -> u64 {
        (self.needed_from)()
    }
}

/// The entry by which a new leader opens its term, as a record of the journal: only message records
/// may be bodies, or a Java dispatcher would derail.
pub(crate) fn opening_record(term: u64, host: SocketAddr, now_ms: u64) -> Vec<u8> {
    let born = i64::try_from(now_ms).unwrap_or(i64::MAX);
    let mut bytes = BytesMut::new();
    let encoded = journal::message(&Record::Opening { term }, host, born)
        .map_err(|error| error.to_string())
        .and_then(|opening| {
            record::encode(&opening, &mut bytes).map_err(|error| error.to_string())
        });
    if let Err(error) = encoded {
        // An empty body stops the log with a text; a constant topic always fits.
        tracing::error!(error, "opening entry cannot be encoded");
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
        dledger::RefusalCause::Transferring { to } => {
            RefusalCause::NotLeader { term: 0, leader: Some(to) }
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
        dledger::AppendFailure::Refused(cause) => AppendFailure::Refused(refusal(cause)),
        dledger::AppendFailure::DiskFull(reason) => AppendFailure::DiskFull(reason),
        dledger::AppendFailure::Unconfirmed(reason) => AppendFailure::Unconfirmed(reason),
    }
}

fn read_error(error: dledger::ReadError) -> ReadError {
    match error {
        dledger::ReadError::OutOfRange { position, min, committed } => {
            ReadError::OutOfRange { offset: position, min, committed }
        }
        dledger::ReadError::Damaged { position, reason } => ReadError::Damaged { position, reason },
        missing @ dledger::ReadError::NoEntry { .. } => {
            ReadError::Damaged { position: 0, reason: missing.to_string() }
        }
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
                let host = SocketAddr::from(([127, 0, 0, 1], 10911));
                let needed = Box::new(|| u64::MAX);
                log.start((Box::new(|_min| Tails::new()), needed), host, None).unwrap();
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
        assert_eq!(decoded.topic, store::journal::TOPIC);
        assert_eq!(decoded.body, "{\"version\":1,\"kind\":\"opening\",\"term\":7}");
    }
}
