//! A DLedger engine on a simulated disk, driven by hand: nothing happens but what a test says.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::{BufMut, Bytes, BytesMut};
use dledger::{
    AppendFailure, Body, Completed, DiskOptions, Done, ENTRY_HEADER, Engine, EngineConfig,
    EngineError, Entries, Event, Hook, HookError, Policy, ReadError, Tail,
};
use dledger_core::Millis;
use segment::{SimVfs, Vfs};

/// Bytes of a data file.
pub const FILE_SIZE: u64 = 4096;
/// How far the log may be written ahead of a flush.
pub const WINDOW: u64 = 3 * FILE_SIZE;
/// The folder of the log.
pub const FOLDER: &str = "store/dledger-n0";

/// An entry that was acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acked {
    /// Its position.
    pub position: u64,
    /// Its body.
    pub body: Bytes,
}

/// What the hook was asked for, in order.
#[derive(Debug, Default)]
pub struct HookCalls {
    /// Bodies that were stamped, less those that were undone.
    pub stamped: u64,
    /// Groups that were undone.
    pub undone: u64,
    /// Entries seen on election.
    pub tail: Vec<u64>,
    last_group: u64,
}

/// Counts calls; the first byte of a body is changed by the stamp.
#[derive(Debug, Clone, Default)]
struct CountingHook(Arc<Mutex<HookCalls>>);

impl CountingHook {
    fn calls(&self) -> std::sync::MutexGuard<'_, HookCalls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hook for CountingHook {
    fn elected(&mut self, _term: u64, tail: &mut dyn Tail) -> Result<(), HookError> {
        tail.visit(0, &mut |position, _| {
            self.calls().tail.push(position);
            Ok(())
        })
    }

    fn opening(&mut self, term: u64) -> Vec<u8> {
        format!("?opening {term}").into_bytes()
    }

    fn stamp(&mut self, group: &mut [Body<'_>]) -> Result<(), HookError> {
        let mut calls = self.calls();
        calls.last_group = group.len() as u64;
        calls.stamped += calls.last_group;
        for body in group {
            if let Some(first) = body.bytes.first_mut() {
                *first = b'#';
            }
        }
        Ok(())
    }

    fn undo(&mut self) {
        let mut calls = self.calls();
        calls.stamped -= calls.last_group;
        calls.undone += 1;
    }
}

/// One node of a group of one.
#[derive(Debug)]
pub struct World {
    /// The engine.
    pub engine: Engine<u64>,
    /// What was acknowledged, in order.
    pub acked: Vec<Acked>,
    /// What failed, with its token.
    pub failed: Vec<(u64, AppendFailure)>,
    /// Bodies in the order in which they were submitted, as the stamp leaves them.
    pub submitted: Vec<Bytes>,
    /// Number of the first body: it is written into it.
    pub first_number: u64,
    hook: CountingHook,
    now: u64,
}

/// How a test's log is built.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// When an entry counts as kept.
    pub policy: Policy,
    /// Zeros written ahead.
    pub zero_ahead: u64,
    /// Unflushed bytes above which there are none.
    pub zero_limit: u64,
    /// How far the log may be written ahead of a flush.
    pub window: u64,
    /// Bytes of recent entries kept in memory for readers.
    pub hot_ring: usize,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            policy: Policy::Flushed,
            zero_ahead: 0,
            zero_limit: u64::MAX,
            window: WINDOW,
            hot_ring: 0,
        }
    }
}

impl World {
    /// Opens the log on `disk`; a candidate.
    ///
    /// # Errors
    /// What the engine answers.
    pub fn open(vfs: &Arc<dyn Vfs>, setup: Setup) -> Result<Self, EngineError> {
        let disk = DiskOptions {
            index_file_size: 32 * 64,
            hot_ring_bytes: setup.hot_ring,
            unflushed_window: setup.window,
            zero_ahead: setup.zero_ahead,
            zero_limit: setup.zero_limit,
            ..DiskOptions::new(PathBuf::from(FOLDER), FILE_SIZE)
        };
        let config = EngineConfig {
            policy: setup.policy,
            append_timeout: Duration::from_secs(3600),
            ..EngineConfig::new("n0", &["n0"], disk)
        };
        let mut engine = Engine::open(vfs, config)?;
        let hook = CountingHook::default();
        engine.start(Box::new(hook.clone()));
        Ok(Self {
            engine,
            acked: Vec::new(),
            failed: Vec::new(),
            submitted: Vec::new(),
            first_number: 0,
            hook,
            now: 0,
        })
    }

    /// As [`World::open`] on a simulated disk, and leads.
    ///
    /// # Errors
    /// What the engine answers.
    pub fn lead(disk: &SimVfs) -> Result<Self, EngineError> {
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let mut world = Self::open(&vfs, Setup::default())?;
        world.settle();
        Ok(world)
    }

    /// Lets time pass and does every job, until there is none.
    pub fn settle(&mut self) {
        // Each round ends a job; a group of one never needs more than a few.
        for _ in 0..20 {
            self.event(Event::Tick);
            while let Some(job) = self.engine.poll_job() {
                let done = self.engine.run_job(job);
                self.event(Event::Done(done));
            }
        }
    }

    /// Does the jobs that wait now.
    pub fn run_jobs(&mut self) -> Vec<Done> {
        let mut all = Vec::new();
        while let Some(job) = self.engine.poll_job() {
            let done = self.engine.run_job(job);
            self.event(Event::Done(done.clone()));
            all.push(done);
        }
        all
    }

    /// Submits bodies of these lengths as one submission; gives its token.
    pub fn append(&mut self, lengths: &[usize]) -> u64 {
        let token = self.submitted.len() as u64;
        let mut buffer = BytesMut::new();
        for (nth, length) in lengths.iter().enumerate() {
            buffer.put_bytes(0, ENTRY_HEADER);
            let body = body(self.first_number + token + nth as u64, *length);
            buffer.put_slice(&body);
            let mut stamped = BytesMut::from(&body[..]);
            if let Some(first) = stamped.first_mut() {
                *first = b'#';
            }
            self.submitted.push(stamped.freeze());
        }
        let lengths = lengths.iter().map(|length| u32::try_from(*length).unwrap_or(0)).collect();
        self.event(Event::Submitted(vec![Entries { buffer, lengths, token }]));
        token
    }

    /// Submits one body that leaves no room for another in the present file.
    pub fn append_to_file_end(&mut self) {
        let used = self.engine.end() % FILE_SIZE;
        let room = (FILE_SIZE - used).saturating_sub(ENTRY_HEADER as u64 + 8);
        self.append(&[usize::try_from(room).unwrap_or(1).max(1)]);
    }

    /// What may lag behind, with a checkpoint.
    ///
    /// # Errors
    /// What the disk answers.
    pub fn checkpoint(&mut self) -> io::Result<()> {
        self.now += 10_000;
        self.engine.write_behind(Millis(self.now))
    }

    /// Positions and bodies of all committed entries.
    ///
    /// # Errors
    /// What the log answers.
    pub fn entries(&self) -> Result<Vec<(u64, Bytes)>, ReadError> {
        let log = self.engine.log();
        let mut from = log.bounds().min;
        let mut all = Vec::new();
        while from < log.bounds().committed {
            let run = log.read_forward(from, 700)?;
            from = run.next;
            all.extend(run.entries);
        }
        Ok(all)
    }

    /// What the hook was asked for.
    pub fn hook<R>(&self, look: impl FnOnce(&HookCalls) -> R) -> R {
        look(&self.hook.calls())
    }

    /// Lets time pass.
    pub fn pass_millis(&mut self, millis: u64) {
        self.now += millis;
    }

    /// Lets something happen.
    pub fn event(&mut self, event: Event<u64>) {
        self.now += 1;
        self.engine.handle(Millis(self.now), event);
        for Completed { token, result } in self.engine.take_completed() {
            match result {
                Ok(appended) => self.acked.extend(appended.entries().map(|(position, body)| {
                    Acked { position, body: Bytes::copy_from_slice(body) }
                })),
                Err(failure) => self.failed.push((token, failure)),
            }
        }
    }
}

fn body(number: u64, length: usize) -> Vec<u8> {
    let text = format!("?body {number} ");
    text.bytes().cycle().take(length).collect()
}
