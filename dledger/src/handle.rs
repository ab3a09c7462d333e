//! The handle on a running log.

mod asking;
mod entropy;
mod told;

use std::{
    fmt,
    sync::{Arc, Mutex, atomic::Ordering},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use bytes::Bytes;
use dledger_core::Role;
use segment::{LockError, LockGuard, RealVfs, Vfs};
use tokio::sync::watch;

use crate::{
    Alone, Bounds, DiskLog, DiskOptions, Durability, ENTRY_HEADER, Entries, Event, Hook, Options,
    Peers, PeersError, ReadError, RefusalCause, Refused, Run, Sink, Status, Transport,
    disk_log::lock,
    driver::Driver,
    engine::{Engine, EngineConfig, EngineError, Workshop},
    flusher::{Flusher, JobQueue},
    mailbox::{Alarm, Counted, Shared},
};

pub use self::asking::AskError;

/// Zeros written ahead of the entries where flushes are waited for. Measured: docs/performance.md.
const ZERO_AHEAD: u64 = 4 * 1024 * 1024;

/// Why a log could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it, or the lock file could not be taken.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The list of members cannot be read.
    #[error(transparent)]
    Peers(#[from] PeersError),
    /// The log could not be recovered.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The system refused.
    #[error("log in {directory} could not be opened: {source}")]
    Io {
        /// The folder.
        directory: String,
        /// Why.
        source: std::io::Error,
    },
}

/// Why a log could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It runs already, or was shut down.
    #[error("the log was started before")]
    Started,
    /// The group has other members, and there is no way to them.
    #[error("the group has {members} members: start it with a transport")]
    NoTransport {
        /// How many.
        members: usize,
    },
    /// The system gave no thread.
    #[error("the log's threads could not be started: {0}")]
    Threads(#[from] std::io::Error),
}

type Stopped = Result<(), String>;

/// The threads of a log.
struct Threads {
    driving: JoinHandle<Stopped>,
    /// Those that wait for the disk, with what they are called.
    working: [(&'static str, JoinHandle<()>); 3],
}

/// What waits for [`Dledger::start`].
struct Dormant<T> {
    engine: Engine<Counted<T>>,
    sink: Arc<dyn Sink<T>>,
}

/// A DLedger log. Dropped, it stops in order, as by [`Dledger::shutdown`].
pub struct Dledger<T: Send + 'static> {
    shared: Arc<Shared<T>>,
    pending_limit: u64,
    body_limit: u64,
    submission_limit: u64,
    members: usize,
    workshop: Workshop,
    started: Instant,
    dormant: Mutex<Option<Dormant<T>>>,
    threads: Mutex<Option<Threads>>,
    outcome: Mutex<Option<Stopped>>,
    /// The folder is this log's until it has stopped.
    folder: Mutex<Option<Box<dyn LockGuard>>>,
}

impl<T: Send + 'static> Dledger<T> {
    /// Opens the log in `options.directory` on the machine's file system and repairs what a crash
    /// left. It can then be read; it takes appends after [`Dledger::start`], once
    /// [`Dledger::status`] says that it leads. `sink` gets what becomes of them.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(options: &Options, sink: Arc<dyn Sink<T>>) -> Result<Self, OpenError> {
        Self::open_on(&(Arc::new(RealVfs) as Arc<dyn Vfs>), options, sink)
    }

    /// As [`Dledger::open`], on any file system.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_on(
        vfs: &Arc<dyn Vfs>,
        options: &Options,
        sink: Arc<dyn Sink<T>>,
    ) -> Result<Self, OpenError> {
        let io =
            |source| OpenError::Io { directory: options.directory.display().to_string(), source };
        let peers = Peers::parse(&options.peers)?;
        vfs.create_directory(&options.directory).map_err(io)?;
        let guard = vfs.lock(&options.directory.join("lock"))?;
        let engine = Engine::open(vfs, engine_config(options, &peers))?;
        let recorder = Arc::clone(engine.recorder());
        let shared = Shared::new(Arc::clone(engine.log()), recorder, engine.status().clone());
        Ok(Self {
            shared: Arc::new(shared),
            pending_limit: options.pending_bytes,
            body_limit: engine.body_limit(),
            submission_limit: engine.submission_limit(),
            members: peers.iter().count(),
            workshop: engine.workshop().clone(),
            started: Instant::now(),
            dormant: Mutex::new(Some(Dormant { engine, sink })),
            threads: Mutex::new(None),
            outcome: Mutex::new(None),
            folder: Mutex::new(Some(guard)),
        })
    }

    /// Gives the log of a group of one its owner and starts its threads.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(&self, hook: impl Hook) -> Result<(), StartError> {
        if self.members > 1 {
            return Err(StartError::NoTransport { members: self.members });
        }
        self.start_with(hook, Arc::new(Alone))
    }

    /// Gives the log its owner and the way to the other members, and starts its threads: it takes
    /// part in elections from now on.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start_with(
        &self,
        hook: impl Hook,
        transport: Arc<dyn Transport>,
    ) -> Result<(), StartError> {
        let mut threads = lock(&self.threads);
        let Some(Dormant { mut engine, sink }) = lock(&self.dormant).take() else {
            return Err(StartError::Started);
        };
        engine.start(Box::new(hook));
        let working = [
            ("flusher", self.work("dledger-flush", &self.shared.jobs, true)?),
            ("keeper of votes", self.work("dledger-vote", &self.shared.votes, false)?),
            ("reader", self.work("dledger-read", &self.shared.reads, false)?),
        ];
        transport.start(Arc::<Shared<T>>::clone(&self.shared));
        let shared = Arc::clone(&self.shared);
        let driver = Driver { engine, shared, sink, transport, started: self.started };
        let alarm = Alarm(Arc::clone(&self.shared));
        let driving = thread::Builder::new().name("dledger-drive".to_owned()).spawn(move || {
            let outcome = driver.run();
            drop(alarm);
            outcome
        })?;
        *threads = Some(Threads { driving, working });
        Ok(())
    }

    /// Starts a thread that does the jobs of a queue.
    fn work(
        &self,
        name: &str,
        jobs: &Arc<JobQueue>,
        writes_behind: bool,
    ) -> std::io::Result<JoinHandle<()>> {
        let worker = Flusher {
            jobs: Arc::clone(jobs),
            workshop: self.workshop.clone(),
            writes_behind,
            started: self.started,
        };
        let alarm = Alarm(Arc::clone(&self.shared));
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            worker.run(|done| alarm.0.report(done));
        })
    }

    /// Hands entries over. Never blocks; the order of calls on one thread is log order.
    ///
    /// # Errors
    /// The entries as they came, with the cause; then nothing of them is written. On `Ok` the token
    /// reaches the [`Sink`] exactly once, unless the process dies.
    pub fn submit(&self, entries: Entries<T>) -> Result<(), Refused<T>> {
        if let Err(cause) = self.admit(&entries) {
            return Err(Refused { entries, cause });
        }
        let bytes = entries.buffer.len() as u64;
        let before = self.shared.pending_bytes.fetch_add(bytes, Ordering::Relaxed);
        // One submission is always let in, however long.
        if before > 0 && before.saturating_add(bytes) > self.pending_limit {
            self.shared.pending_bytes.fetch_sub(bytes, Ordering::Relaxed);
            let limit_bytes = self.pending_limit;
            let cause = RefusalCause::Full { pending_bytes: before, limit_bytes };
            return Err(Refused { entries, cause });
        }
        let Entries { buffer, lengths, token } = entries;
        let mut inbox = lock(&self.shared.mailbox);
        if inbox.stopping {
            drop(inbox);
            self.shared.pending_bytes.fetch_sub(bytes, Ordering::Relaxed);
            let cause = RefusalCause::Stopped("it is shutting down".to_owned());
            return Err(Refused { entries: Entries { buffer, lengths, token }, cause });
        }
        let first = inbox.is_empty();
        inbox.submitted.push(Entries { buffer, lengths, token: Counted { token, bytes } });
        drop(inbox);
        if first {
            self.shared.wake_driver();
        }
        Ok(())
    }

    fn admit(&self, entries: &Entries<T>) -> Result<(), RefusalCause> {
        let described: u64 =
            entries.lengths.iter().map(|length| u64::from(*length) + ENTRY_HEADER as u64).sum();
        let buffer = entries.buffer.len() as u64;
        if described != buffer || entries.lengths.contains(&0) || entries.lengths.is_empty() {
            return Err(RefusalCause::Malformed { buffer, described });
        }
        let longest = u64::from(entries.lengths.iter().copied().max().unwrap_or(0));
        if longest > self.body_limit {
            return Err(RefusalCause::TooLarge { length: longest, limit: self.body_limit });
        }
        if buffer > self.submission_limit {
            return Err(RefusalCause::TooLarge { length: buffer, limit: self.submission_limit });
        }
        let status = self.shared.status.borrow();
        if let Some(failure) = &status.failure {
            return Err(RefusalCause::Stopped(failure.clone()));
        }
        if status.role != Role::Leader {
            let (term, leader) = (status.term, status.leader.clone());
            return Err(RefusalCause::NotLeader { term, leader });
        }
        Ok(())
    }

    /// First and end of what can be read now. Both only grow.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        self.shared.log.bounds()
    }

    /// The body of `length` bytes of the committed entry at `position`; may wait for the disk.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn read(&self, position: u64, length: u32) -> Result<Bytes, ReadError> {
        self.shared.log.read(position, length)
    }

    /// As [`Dledger::read`] where the bytes are in memory, else `None` at once.
    #[must_use]
    pub fn read_if_cached(&self, position: u64, length: u32) -> Option<Bytes> {
        self.shared.log.read_if_cached(position, length)
    }

    /// The body of the committed entry at `position`, its length taken from its header.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn read_unsized(&self, position: u64) -> Result<Bytes, ReadError> {
        self.shared.log.read_unsized(position)
    }

    /// Committed entries from log position `from` on; see [`DiskLog::read_forward`].
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn read_forward(&self, from: u64, max_bytes: usize) -> Result<Run, ReadError> {
        self.shared.log.read_forward(from, max_bytes)
    }

    /// Waits until more than `beyond` is committed or `timeout` is over; returns the committed end.
    #[must_use]
    pub fn wait_committed(&self, beyond: u64, timeout: Duration) -> u64 {
        self.shared.log.wait_committed(beyond, timeout)
    }

    /// Tells whether there is room for what clients append: a leader without room hands the lead to a
    /// member that has some. There is at the start.
    pub fn note_room(&self, enough: bool) {
        self.shared.tell(Event::Room { enough });
    }

    /// Role, term and failure, now and on every change.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<Status> {
        self.shared.status.subscribe()
    }

    /// Deletes whole files that lie before log position `before`, never the last one, and nothing
    /// that is not committed. Returns the first position that is left.
    ///
    /// # Errors
    /// What the disk answers.
    pub fn trim(&self, before: u64) -> std::io::Result<u64> {
        let begin = self.shared.log.trim(before)?;
        self.shared.tell(Event::Trimmed);
        Ok(begin)
    }

    /// The log on disk.
    #[must_use]
    pub fn log(&self) -> &Arc<DiskLog> {
        &self.shared.log
    }

    /// Bytes of one data file.
    #[must_use]
    pub fn file_size(&self) -> u64 {
        self.shared.log.data.file_size()
    }

    /// Stops in order: takes no more appends, completes what is in flight, makes everything durable,
    /// writes the checkpoint, marks the log clean and lets the folder go. A second call answers as the first did.
    ///
    /// # Errors
    /// Why the log failed before or while it stopped.
    pub fn shutdown(&self) -> Result<(), String> {
        self.shared.stop();
        drop(lock(&self.dormant).take());
        let mut outcome = lock(&self.outcome);
        if let Some(Threads { driving, working }) = lock(&self.threads).take() {
            let stopped = driving.join().unwrap_or_else(|_| Err("its driver panicked".to_owned()));
            self.shared.stop_threads();
            *outcome = Some(working.into_iter().fold(stopped, |stopped, (name, thread)| {
                stopped.and(thread.join().map_err(|_panic| format!("its {name} panicked")))
            }));
        }
        // Nothing is written any more: who still holds this handle must not keep the next owner out.
        drop(lock(&self.folder).take());
        outcome.clone().unwrap_or(Ok(()))
    }
}

impl<T: Send + 'static> Drop for Dledger<T> {
    fn drop(&mut self) {
        if let Err(reason) = self.shutdown() {
            tracing::error!(reason, "the log did not stop in order");
        }
    }
}

impl<T: Send + 'static> fmt::Debug for Dledger<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dledger")
            .field("directory", &self.shared.log.directory())
            .field("status", &*self.shared.status.borrow())
            .field("bounds", &self.bounds())
            .finish_non_exhaustive()
    }
}

pub(crate) fn engine_config(options: &Options, peers: &Peers) -> EngineConfig {
    let members: Vec<&str> = peers.iter().map(|peer| peer.id.as_str()).collect();
    let disk = DiskOptions {
        hot_ring_bytes: options.hot_ring_bytes,
        zero_ahead: match options.durability {
            Durability::Sync => ZERO_AHEAD,
            Durability::Async => 0,
        },
        ..DiskOptions::new(options.directory.clone(), options.file_size)
    };
    EngineConfig {
        policy: options.durability.policy(),
        append_timeout: options.append_timeout,
        seed: entropy::draw(),
        life: entropy::draw(),
        timings: options.timings,
        preferred: options.preferred.clone(),
        advises: options.advises,
        count_java_acks: options.count_java_acks,
        disk_patience: Duration::from_millis(options.timings.election_max),
        pending_bytes: options.pending_bytes,
        ..EngineConfig::new(&options.self_id, &members, disk)
    }
}
