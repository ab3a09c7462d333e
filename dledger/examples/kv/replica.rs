//! One member of the group: its log, and the map that its committed entries make.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::Context;
use dledger::{
    AppendFailure, AskError, Log, LogError, Options, Peers, RefusalCause, Status,
    transport::{RemotingTransport, TransportOptions},
};
use tokio::{
    runtime::Handle,
    sync::watch,
    time::{error::Elapsed, timeout},
};

use crate::{
    command::{Command, Outcome},
    map::Map,
};

/// How long a request waits for its entry to be committed and applied. The log gives up before.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a read waits for a majority.
const READ_PATIENCE: Duration = Duration::from_secs(2);

/// Bytes of entries that are applied at once.
const RUN_BYTES: usize = 1024 * 1024;

/// How often the thread that applies looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Why a request was not served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// Another member leads. Nothing was done.
    #[error("this member does not lead; the leader is {}", leader.as_deref().unwrap_or("not known yet"))]
    NotLeader { leader: Option<String> },
    /// Nothing was done, and a later try may succeed.
    #[error("{0}")]
    Busy(String),
    /// It may have been done, or may be done later.
    #[error("{0}: ask again with the same request id")]
    Unknown(String),
    /// This member is out of order for good.
    #[error("{0}")]
    Stopped(String),
}

/// How far the log is applied.
#[derive(Debug, Clone, Default)]
struct Progress {
    /// How many entries are applied.
    entries: u64,
    /// Why no more will be.
    failure: Option<String>,
}

/// A member of the group.
pub(crate) struct Replica {
    log: Log,
    map: Mutex<Map>,
    progress: watch::Sender<Progress>,
    stopping: AtomicBool,
    applying: Mutex<Option<JoinHandle<()>>>,
}

impl Replica {
    /// Opens the log, takes part in the group and applies what is committed.
    pub(crate) fn start(options: Options) -> anyhow::Result<Arc<Self>> {
        let transport = transport(&options)?;
        let replica = Arc::new(Self {
            log: Log::open(options)?,
            map: Mutex::default(),
            progress: watch::Sender::default(),
            stopping: AtomicBool::new(false),
            applying: Mutex::default(),
        });
        let (own, runtime) = (Arc::clone(&replica), Handle::current());
        let applying = thread::Builder::new().name("kv-apply".to_owned());
        let applying = applying.spawn(move || own.apply_all(&runtime))?;
        *replica.applying.lock().unwrap_or_else(PoisonError::into_inner) = Some(applying);
        replica.log.start_with(Arc::new(transport))?;
        Ok(replica)
    }

    /// Appends a command and waits until it is applied here.
    pub(crate) async fn change(&self, command: &Command) -> Result<Outcome, Fault> {
        let body = serde_json::to_vec(command).map_err(|error| Fault::Busy(error.to_string()))?;
        let appended = timeout(PATIENCE, self.log.append(&body)).await;
        let entry = appended.map_err(late)?.map_err(append_fault)?;
        self.applied(entry.index + 1).await?;
        let outcome = self.map().outcome(&command.id).cloned();
        // Only 65,536 later commands can have pushed it out.
        outcome.ok_or_else(|| Fault::Unknown("the outcome is forgotten".to_owned()))
    }

    /// The value of `key`, no older than this call: every change that anybody was told of before it
    /// is in what it sees.
    pub(crate) async fn get(&self, key: &str) -> Result<Option<String>, Fault> {
        let entries = self.log.read_index(READ_PATIENCE).await.map_err(read_fault)?;
        self.applied(entries).await?;
        Ok(self.local(key))
    }

    /// The value of `key` as it is applied here; it may be old.
    pub(crate) fn local(&self, key: &str) -> Option<String> {
        self.map().get(key).cloned()
    }

    /// Waits until so many entries are applied.
    async fn applied(&self, entries: u64) -> Result<(), Fault> {
        let mut progress = self.progress.subscribe();
        let reached =
            |progress: &Progress| progress.entries >= entries || progress.failure.is_some();
        let waited = timeout(PATIENCE, progress.wait_for(reached)).await.map_err(late)?;
        match waited.ok().and_then(|progress| progress.failure.clone()) {
            Some(failure) => Err(Fault::Stopped(failure)),
            None => Ok(()),
        }
    }

    /// Applies committed entries, from the first one on, until the replica stops.
    fn apply_all(&self, runtime: &Handle) {
        let mut committed = self.log.committed();
        let mut next = 0;
        while !self.stopping.load(Ordering::Relaxed) {
            if *committed.borrow_and_update() <= next {
                // Whether there is more or the time is over, the next round looks again.
                runtime.block_on(async { timeout(LOOK, committed.changed()).await.ok() });
                continue;
            }
            match self.apply_from(next) {
                Ok(applied) => {
                    next += applied;
                    self.progress.send_modify(|progress| progress.entries = next);
                }
                Err(reason) => {
                    tracing::error!(reason, next, "the log cannot be applied");
                    self.progress.send_modify(|progress| progress.failure = Some(reason));
                    return;
                }
            }
        }
    }

    /// Applies a run of entries that begins with entry `next`; returns how many.
    fn apply_from(&self, next: u64) -> Result<u64, String> {
        let entries = self.log.entries(next, RUN_BYTES).map_err(|error| error.to_string())?;
        for (index, entry) in (next..).zip(&entries) {
            if entry.index != index {
                return Err(format!("entry {} follows where {index} should", entry.index));
            }
            if Log::is_opening(entry) {
                continue;
            }
            match serde_json::from_slice(&entry.body) {
                Ok(command) => self.map().apply(command),
                Err(error) => return Err(format!("entry {index} is no command: {error}")),
            }
        }
        Ok(entries.len() as u64)
    }

    fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Role, term and leader of the log.
    pub(crate) fn status(&self) -> Status {
        self.log.status().borrow().clone()
    }

    /// How many entries are committed, how many are applied, and number of keys.
    pub(crate) fn figures(&self) -> (u64, u64, usize) {
        (*self.log.committed().borrow(), self.progress.borrow().entries, self.map().len())
    }

    /// Returns the reason once this member is out of order for good.
    pub(crate) async fn failed(&self) -> String {
        let (mut status, mut progress) = (self.log.status(), self.progress.subscribe());
        loop {
            let failure = status.borrow_and_update().failure.clone();
            let unapplied = progress.borrow_and_update().failure.clone();
            if let Some(reason) = failure.or(unapplied) {
                return reason;
            }
            tokio::select! {
                changed = status.changed() => if changed.is_err() { return "the log is gone".to_owned() },
                _ = progress.changed() => {}
            }
        }
    }

    /// Stops in order. It waits; so it is not for a task of the runtime.
    pub(crate) fn stop(&self) -> Result<(), String> {
        self.stopping.store(true, Ordering::Relaxed);
        let applying = self.applying.lock().unwrap_or_else(PoisonError::into_inner).take();
        let applied = applying.map_or(Ok(()), JoinHandle::join);
        self.log.shutdown()?;
        applied.map_err(|_panic| "the thread that applies entries panicked".to_owned())
    }
}

/// The way to the other members: this one listens at the address that `--peers` has for it.
fn transport(options: &Options) -> anyhow::Result<RemotingTransport> {
    let peers = Peers::parse(&options.peers).context("--peers")?;
    let own = peers.get(&options.self_id).map_or("", |peer| peer.address.as_str());
    let host = own.rsplit_once(':').map_or(own, |(host, _port)| host);
    let transport = RemotingTransport::new(TransportOptions {
        group: options.group.clone(),
        self_id: options.self_id.clone(),
        // A name is not resolved here: then it listens at all addresses.
        bind: host.trim_matches(['[', ']']).parse().ok(),
        peers,
        introduction: options.introduction(None),
        // Nobody runs Java's DLedger here, so nothing about it needs to be remembered.
        memory: None,
        runtime: Handle::current(),
    })?;
    Ok(transport)
}

fn late(_elapsed: Elapsed) -> Fault {
    Fault::Unknown("it took too long".to_owned())
}

/// A submission that was refused was not written; of one that was taken, little is sure: even a tail
/// that a new leader cut off may come back from a member that kept it.
fn append_fault(error: LogError) -> Fault {
    match error {
        LogError::Refused(cause) => refusal(cause),
        LogError::Failed(AppendFailure::NotWritten(reason)) => Fault::Busy(reason),
        LogError::Failed(AppendFailure::Refused(cause)) => refusal(cause),
        LogError::Failed(failure) => Fault::Unknown(failure.to_string()),
        LogError::Stopped => Fault::Unknown(error.to_string()),
    }
}

/// A read that cannot be served has done nothing.
fn read_fault(error: AskError) -> Fault {
    match error {
        AskError::Refused(cause) => refusal(cause),
        AskError::NoAnswer | AskError::TimedOut(_) => Fault::Busy(error.to_string()),
    }
}

fn refusal(cause: RefusalCause) -> Fault {
    match cause {
        RefusalCause::NotLeader { leader, .. } => Fault::NotLeader { leader },
        RefusalCause::Stopped(reason) => Fault::Stopped(reason),
        full_or_odd => Fault::Busy(full_or_odd.to_string()),
    }
}
