//! The thread that runs the engine.

use std::{
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::sync::watch;

use crate::{
    Completed, DiskLog, Entries, Sink,
    disk_log::lock,
    engine::{Done, Engine, Event, Status},
    flusher::{JobQueue, since},
};

/// How long a stop waits for what is in flight.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Tells everybody when a thread of the log ends by a panic: without it the log is dead.
#[derive(Debug)]
pub(crate) struct Alarm<T>(pub(crate) Arc<Shared<T>>);

impl<T> Drop for Alarm<T> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.status.send_modify(|status| {
                status.opened = false;
                status.failure.get_or_insert_with(|| "a thread of the log panicked".to_owned());
            });
            self.0.log.wake_readers();
        }
    }
}

/// What waits for the driver.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    pub(crate) submitted: Vec<Entries<Counted<T>>>,
    done: Vec<Done>,
    pub(crate) stopping: bool,
}

/// What the handle, the driver and the flusher share.
#[derive(Debug)]
pub(crate) struct Shared<T> {
    pub(crate) inbox: Mutex<Inbox<T>>,
    wake: Condvar,
    /// Bytes of submissions that are not completed.
    pub(crate) pending_bytes: AtomicU64,
    pub(crate) status: watch::Sender<Status>,
    pub(crate) log: Arc<DiskLog>,
    pub(crate) jobs: Arc<JobQueue>,
}

impl<T> Shared<T> {
    pub(crate) fn new(log: Arc<DiskLog>, status: Status) -> Self {
        let inbox = Inbox { submitted: Vec::new(), done: Vec::new(), stopping: false };
        Self {
            inbox: Mutex::new(inbox),
            wake: Condvar::new(),
            pending_bytes: AtomicU64::new(0),
            status: watch::Sender::new(status),
            log,
            jobs: Arc::default(),
        }
    }

    pub(crate) fn wake_driver(&self) {
        self.wake.notify_one();
    }

    pub(crate) fn report(&self, done: Done) {
        lock(&self.inbox).done.push(done);
        self.wake_driver();
    }

    pub(crate) fn stop(&self) {
        lock(&self.inbox).stopping = true;
        self.wake_driver();
    }
}

/// A token with the bytes that its submission counts for.
#[derive(Debug)]
pub(crate) struct Counted<T> {
    pub(crate) token: T,
    pub(crate) bytes: u64,
}

/// The engine on its thread.
pub(crate) struct Driver<T> {
    pub(crate) engine: Engine<Counted<T>>,
    pub(crate) shared: Arc<Shared<T>>,
    pub(crate) sink: Arc<dyn Sink<T>>,
    pub(crate) started: Instant,
}

/// What one look into the inbox found.
struct Mail<T> {
    submitted: Vec<Entries<Counted<T>>>,
    done: Vec<Done>,
    stopping: bool,
}

impl<T: Send + 'static> Driver<T> {
    /// Runs until a stop is asked for and everything in flight has ended.
    pub(crate) fn run(mut self) -> Result<(), String> {
        let mut stop_at = None;
        self.step(Event::Tick);
        loop {
            let mail = self.wait();
            for done in mail.done {
                self.step(Event::Done(done));
            }
            if mail.submitted.is_empty() {
                self.step(Event::Tick);
            } else {
                self.step(Event::Submitted(mail.submitted));
            }
            if mail.stopping {
                let stop_at = *stop_at.get_or_insert_with(|| Instant::now() + STOP_PATIENCE);
                let failed = self.engine.status().failure.is_some();
                if self.engine.is_idle() || failed || Instant::now() >= stop_at {
                    return self.finish();
                }
            }
        }
    }

    fn wait(&self) -> Mail<T> {
        let mut inbox = lock(&self.shared.inbox);
        if inbox.submitted.is_empty() && inbox.done.is_empty() {
            let now = since(self.started);
            let until = self.engine.timeout().map(|at| at.0.saturating_sub(now.0));
            let longest = if inbox.stopping { 10 } else { 1000 };
            let nap = Duration::from_millis(until.unwrap_or(longest).min(longest));
            if !nap.is_zero() {
                inbox = self
                    .shared
                    .wake
                    .wait_timeout(inbox, nap)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
        }
        Mail {
            submitted: std::mem::take(&mut inbox.submitted),
            done: std::mem::take(&mut inbox.done),
            stopping: inbox.stopping,
        }
    }

    fn step(&mut self, event: Event<Counted<T>>) {
        self.engine.handle(since(self.started), event);
        while let Some(job) = self.engine.poll_job() {
            self.shared.jobs.push(job);
        }
        self.publish();
    }

    fn publish(&mut self) {
        let completed = self.engine.take_completed();
        if !completed.is_empty() {
            self.complete(completed);
        }
        let status = self.engine.status();
        self.shared.status.send_if_modified(|known| {
            let changed = known != status;
            if changed {
                known.clone_from(status);
            }
            changed
        });
    }

    fn complete(&self, completed: Vec<Completed<Counted<T>>>) {
        let mut bytes = 0;
        let group = completed
            .into_iter()
            .map(|Completed { token: Counted { token, bytes: own }, result }| {
                bytes += own;
                Completed { token, result }
            })
            .collect();
        self.shared.pending_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.sink.completed(group);
    }

    fn finish(mut self) -> Result<(), String> {
        self.shared.jobs.stop();
        let closed = self.engine.close();
        self.publish();
        self.shared.log.wake_readers();
        match (&self.engine.status().failure, closed) {
            (Some(failure), _) => Err(failure.clone()),
            (None, Err(error)) => Err(format!("log could not be closed: {error}")),
            (None, Ok(())) => Ok(()),
        }
    }
}
