//! A member of a group whose bodies are any bytes, with the client protocol on its peer port: the
//! original library's server (Java: `DLedgerServer`).

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use bytes::{BufMut, Bytes, BytesMut};
use segment::{RealVfs, Vfs};
use tokio::runtime::Handle;

use crate::{
    AppendFailure, Appended, Completed, Dledger, ENTRY_HEADER, Entries, Hook, OpenError, Options,
    Peers, PeersError, ReadError, RefusalCause, Role, Sink, StartError,
    entry::be_u64,
    transport::{
        AppendAnswer, ClientService, RemotingTransport, StatusAnswer, TransferAnswer, Transport,
        TransportError, TransportOptions,
    },
    wire::{ResponseCode, entry::JsonEntry},
};

/// How a member is started.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The log.
    pub log: Options,
    /// Local address to listen on, at the port that `log.peers` names; all where `None`.
    pub bind: Option<IpAddr>,
    /// Name of the cluster, where members are to check it.
    pub cluster: Option<String>,
}

impl ServerOptions {
    /// A member that listens on all addresses.
    #[must_use]
    pub fn new(log: Options) -> Self {
        Self { log, bind: None, cluster: None }
    }
}

/// Why a member could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The list of members.
    #[error(transparent)]
    Peers(#[from] PeersError),
    /// The log.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The peer port.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// Its threads.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// A member that runs. Dropped, it stops in order.
#[derive(Debug)]
pub struct LogServer {
    log: Arc<Dledger<AppendAnswer>>,
    transport: Arc<RemotingTransport>,
}

impl LogServer {
    /// Opens the log, listens on the peer port and takes part in elections from now on. Must be
    /// called within a tokio runtime.
    ///
    /// # Errors
    /// See [`ServerError`].
    pub fn start(options: ServerOptions, hook: impl Hook) -> Result<Self, ServerError> {
        let ServerOptions { log: options, bind, cluster } = options;
        let log = Arc::new(Dledger::open(&options, Arc::new(Answers))?);
        let transport = Arc::new(RemotingTransport::new(TransportOptions {
            group: options.group.clone(),
            self_id: options.self_id.clone(),
            peers: Peers::parse(&options.peers)?,
            bind,
            introduction: options.introduction(cluster),
            memory: Some((Arc::new(RealVfs) as Arc<dyn Vfs>, options.directory.join("peers"))),
            runtime: Handle::current(),
        })?);
        let service =
            Service { log: Arc::clone(&log), id: options.self_id, runtime: Handle::current() };
        transport.serve_clients(Arc::new(service));
        log.start_with(hook, Arc::clone(&transport) as Arc<dyn Transport>)?;
        Ok(Self { log, transport })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.transport.address()
    }

    /// The log.
    #[must_use]
    pub fn log(&self) -> &Arc<Dledger<AppendAnswer>> {
        &self.log
    }

    /// Waits until the log has stopped for good, and says why.
    pub async fn failed(&self) -> String {
        let mut status = self.log.status();
        loop {
            if let Some(failure) = status.borrow_and_update().failure.clone() {
                return failure;
            }
            if status.changed().await.is_err() {
                return "the log was dropped".to_owned();
            }
        }
    }

    /// Stops in order: completes what is in flight, makes everything durable, closes the port.
    ///
    /// # Errors
    /// Why the log failed before or while it stopped.
    pub async fn shutdown(self) -> Result<(), String> {
        let log = Arc::clone(&self.log);
        let stopped = tokio::task::spawn_blocking(move || log.shutdown()).await;
        self.transport.stop();
        stopped.unwrap_or_else(|_| Err("stopping it panicked".to_owned()))
    }
}

impl Drop for LogServer {
    fn drop(&mut self) {
        // The first stop counts; who wants to know how it went calls `shutdown`.
        if let Err(reason) = self.log.shutdown() {
            tracing::debug!(reason, "the log had failed");
        }
        self.transport.stop();
    }
}

/// Answers appends, each connection woken once a group.
struct Answers;

impl Sink<AppendAnswer> for Answers {
    fn completed(&self, group: Vec<Completed<AppendAnswer>>) {
        let flushes: Vec<_> = group
            .into_iter()
            .filter_map(|Completed { token, result }| match result {
                Ok(appended) => match last_of(&appended) {
                    Some((index, position, term)) => token.committed(index, position, term),
                    None => token.refused(ResponseCode::INTERNAL_ERROR, None),
                },
                Err(failure) => token.refused(code_of(&failure), None),
            })
            .collect();
        drop(flushes);
    }
}

/// Index, position and term of the last entry.
fn last_of(appended: &Appended) -> Option<(u64, u64, u64)> {
    let length = usize::try_from(*appended.lengths.last()?).ok()?;
    let at = appended.bytes.len().checked_sub(ENTRY_HEADER + length)?;
    let header = appended.bytes.get(at..)?;
    Some((be_u64(header, 8)?, be_u64(header, 24)?, be_u64(header, 16)?))
}

fn code_of(failure: &AppendFailure) -> ResponseCode {
    match failure {
        AppendFailure::Truncated { .. } => ResponseCode::TERM_CHANGED,
        AppendFailure::TimedOut { .. } => ResponseCode::WAIT_QUORUM_ACK_TIMEOUT,
        AppendFailure::NotWritten(_) => ResponseCode::DISK_ERROR,
        AppendFailure::Refused(RefusalCause::Transferring { .. }) => {
            ResponseCode::LEADER_TRANSFERRING
        }
        AppendFailure::Refused(RefusalCause::Full { .. }) => ResponseCode::LEADER_PENDING_FULL,
        AppendFailure::Refused(_) => ResponseCode::NOT_LEADER,
        AppendFailure::DiskFull(_) => ResponseCode::DISK_FULL,
        AppendFailure::Unconfirmed(_) => ResponseCode::INTERNAL_ERROR,
    }
}

/// The log as its clients see it.
struct Service {
    log: Arc<Dledger<AppendAnswer>>,
    id: String,
    runtime: Handle,
}

impl ClientService for Service {
    fn leader(&self) -> (u64, Option<String>) {
        let status = self.log.status();
        let status = status.borrow();
        (status.term, status.leader.clone())
    }

    fn append(&self, bodies: Vec<Bytes>, answer: AppendAnswer) {
        let bytes: usize = bodies.iter().map(|body| ENTRY_HEADER + body.len()).sum();
        let mut buffer = BytesMut::with_capacity(bytes);
        let mut lengths = Vec::with_capacity(bodies.len());
        for body in &bodies {
            buffer.put_bytes(0, ENTRY_HEADER);
            buffer.put_slice(body);
            lengths.push(u32::try_from(body.len()).unwrap_or(u32::MAX));
        }
        let Err(refused) = self.log.submit(Entries { buffer, lengths, token: answer }) else {
            return;
        };
        let (code, leader) = match refused.cause {
            RefusalCause::Full { .. } => (ResponseCode::LEADER_PENDING_FULL, None),
            RefusalCause::NotLeader { leader, .. } => (ResponseCode::NOT_LEADER, leader),
            RefusalCause::Transferring { to } => (ResponseCode::LEADER_TRANSFERRING, Some(to)),
            RefusalCause::TooLarge { .. } | RefusalCause::Malformed { .. } => {
                (ResponseCode::UNEXPECTED_ARGUMENT, None)
            }
            RefusalCause::Stopped(_) => (ResponseCode::ILLEGAL_MEMBER_STATE, None),
        };
        drop(refused.entries.token.refused(code, leader));
    }

    fn get(&self, index: u64) -> Result<JsonEntry, ResponseCode> {
        let (role, opened) = {
            let status = self.log.status();
            let status = status.borrow();
            (status.role, status.opened)
        };
        if role != Role::Leader {
            return Err(ResponseCode::NOT_LEADER);
        }
        let entry = self.log.get(index).map_err(|error| match error {
            ReadError::NoEntry { .. } | ReadError::OutOfRange { .. } if opened => {
                ResponseCode::INDEX_OUT_OF_RANGE
            }
            // What earlier terms left, and acknowledged, is not known to be committed yet.
            ReadError::NoEntry { .. } | ReadError::OutOfRange { .. } => {
                ResponseCode::LEADER_NOT_READY
            }
            _ => ResponseCode::DISK_ERROR,
        })?;
        let long = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        Ok(JsonEntry {
            size: i32::try_from(ENTRY_HEADER + entry.body.len()).unwrap_or(i32::MAX),
            body: entry.body,
            index: long(entry.index),
            magic: 1,
            pos: long(entry.position),
            term: long(entry.term),
            ..JsonEntry::default()
        })
    }

    fn transfer(&self, to: String, answer: TransferAnswer) {
        let status = self.log.status();
        let outcome = self.log.transfer(Some(to));
        self.runtime.spawn(async move {
            let code = match outcome.await {
                Ok(code) => ResponseCode(code.code()),
                Err(_stopped) => ResponseCode::TAKE_LEADERSHIP_FAILED,
            };
            answer.done(code, status.borrow().term);
        });
    }

    fn status(&self, answer: StatusAnswer) {
        let (log, id) = (Arc::clone(&self.log), self.id.clone());
        self.runtime.spawn(async move { answer.done(log.told(&id).await.to_string()) });
    }
}
