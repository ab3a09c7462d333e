//! What the handle, the threads and the transport share with the driver.

use std::{
    collections::HashMap,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use dledger_core::CallId;
use tokio::sync::{oneshot, watch};

use crate::{
    Answer, DiskLog, Done, Entries, Event, FlightRecorder, Inbox, Incoming, Job, Status,
    disk_log::lock, flusher::JobQueue,
};

/// Most messages of members that wait for the driver.
const ARRIVALS: usize = 8192;
/// Most bytes of the entries that came with them. What is beyond is as if lost on its way.
const ARRIVED_BYTES: usize = 64 * 1024 * 1024;
/// Most operators and readers that wait for an answer.
const ASKED: usize = 65_536;
/// The calls of operators and readers begin here; those of members are numbered by the transport.
const OWN_CALLS: u64 = 1 << 63;

/// A token with the bytes that its submission counts for.
#[derive(Debug)]
pub(crate) struct Counted<T> {
    pub(crate) token: T,
    pub(crate) bytes: u64,
}

/// What waits for the driver.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    pub(crate) submitted: Vec<Entries<Counted<T>>>,
    pub(crate) events: Vec<Event<Counted<T>>>,
    messages: usize,
    bytes: usize,
    pub(crate) stopping: bool,
    /// The driver has ended: not even what members say is taken any more.
    pub(crate) closed: bool,
}

/// What one look into the mailbox found.
#[derive(Debug)]
pub(crate) struct Mail<T> {
    pub(crate) submitted: Vec<Entries<Counted<T>>>,
    pub(crate) events: Vec<Event<Counted<T>>>,
    pub(crate) stopping: bool,
}

impl<T> Mailbox<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.submitted.is_empty() && self.events.is_empty()
    }

    pub(crate) fn take(&mut self) -> Mail<T> {
        (self.messages, self.bytes) = (0, 0);
        Mail {
            submitted: std::mem::take(&mut self.submitted),
            events: std::mem::take(&mut self.events),
            stopping: self.stopping,
        }
    }

    /// Whether another message with `bytes` of entries may wait; it is counted then.
    fn admit(&mut self, bytes: usize) -> bool {
        let fits = self.messages < ARRIVALS
            && (self.bytes == 0 || self.bytes.saturating_add(bytes) <= ARRIVED_BYTES);
        if fits {
            self.messages += 1;
            self.bytes += bytes;
        }
        fits
    }
}

/// What the handle, the threads and the transport share.
#[derive(Debug)]
pub(crate) struct Shared<T> {
    pub(crate) mailbox: Mutex<Mailbox<T>>,
    pub(crate) wake: Condvar,
    /// Bytes of submissions that are not completed.
    pub(crate) pending_bytes: AtomicU64,
    pub(crate) status: watch::Sender<Status>,
    /// How many entries are committed.
    pub(crate) committed: watch::Sender<u64>,
    pub(crate) log: Arc<DiskLog>,
    pub(crate) recorder: Arc<FlightRecorder>,
    /// Jobs that run one behind another.
    pub(crate) jobs: Arc<JobQueue>,
    /// Terms and votes: they wait for no flush.
    pub(crate) votes: Arc<JobQueue>,
    /// Reads for members.
    pub(crate) reads: Arc<JobQueue>,
    asked: Mutex<HashMap<CallId, oneshot::Sender<Answer>>>,
    calls: AtomicU64,
}

impl<T> Shared<T> {
    pub(crate) fn new(log: Arc<DiskLog>, recorder: Arc<FlightRecorder>, status: Status) -> Self {
        let mailbox = Mailbox {
            submitted: Vec::new(),
            events: Vec::new(),
            messages: 0,
            bytes: 0,
            stopping: false,
            closed: false,
        };
        Self {
            mailbox: Mutex::new(mailbox),
            wake: Condvar::new(),
            pending_bytes: AtomicU64::new(0),
            status: watch::Sender::new(status),
            committed: watch::Sender::new(log.committed_entries()),
            log,
            recorder,
            jobs: Arc::default(),
            votes: Arc::default(),
            reads: Arc::default(),
            asked: Mutex::default(),
            calls: AtomicU64::new(OWN_CALLS),
        }
    }

    /// Hands a job to its thread.
    pub(crate) fn hand_out(&self, job: Job) {
        let queue = match job {
            Job::Read(_) => &self.reads,
            Job::StoreVote { .. } => &self.votes,
            Job::Flush { .. }
            | Job::Truncate { .. }
            | Job::Restart { .. }
            | Job::Mend(_)
            | Job::GiveUp { .. }
            | Job::StoreDoubt(_) => &self.jobs,
        };
        queue.push(job);
    }

    /// No job comes any more: the threads end once what waits is done.
    pub(crate) fn stop_threads(&self) {
        [&self.jobs, &self.votes, &self.reads].into_iter().for_each(|queue| queue.stop());
    }

    pub(crate) fn wake_driver(&self) {
        self.wake.notify_one();
    }

    pub(crate) fn report(&self, done: Done) {
        lock(&self.mailbox).events.push(Event::Done(done));
        self.wake_driver();
    }

    /// Something of which there is never much.
    pub(crate) fn tell(&self, event: Event<Counted<T>>) -> bool {
        let mut mailbox = lock(&self.mailbox);
        if mailbox.stopping {
            return false;
        }
        mailbox.events.push(event);
        drop(mailbox);
        self.wake_driver();
        true
    }

    pub(crate) fn stop(&self) {
        lock(&self.mailbox).stopping = true;
        self.wake_driver();
    }

    /// Asks the engine; the answer comes by the receiver, which hears nothing where the log stops.
    pub(crate) fn ask(
        &self,
        event: impl FnOnce(CallId) -> Event<Counted<T>>,
    ) -> oneshot::Receiver<Answer> {
        let (sender, receiver) = oneshot::channel();
        let call = CallId(self.calls.fetch_add(1, Ordering::Relaxed));
        {
            let mut asked = lock(&self.asked);
            if asked.len() >= ASKED {
                asked.retain(|_, waiting| !waiting.is_closed());
            }
            if asked.len() >= ASKED {
                return receiver;
            }
            asked.insert(call, sender);
        }
        if !self.tell(event(call)) {
            lock(&self.asked).remove(&call);
        }
        receiver
    }

    pub(crate) fn answer(&self, answer: Answer) {
        let waiting = lock(&self.asked).remove(&answer.call());
        if let Some(waiting) = waiting
            && waiting.send(answer).is_err()
        {
            tracing::debug!("an answer that nobody waits for any more");
        }
    }

    /// Nobody gets an answer any more.
    pub(crate) fn forget_asked(&self) {
        lock(&self.asked).clear();
    }
}

impl<T: Send + 'static> Inbox for Shared<T> {
    fn deliver(&self, incoming: Incoming) -> bool {
        let mut mailbox = lock(&self.mailbox);
        // What is in flight is completed during a stop, by what members say.
        if mailbox.closed {
            return false;
        }
        let event = match incoming {
            Incoming::Peer { id, kind } => Event::Peer { id, kind },
            Incoming::Message { from, call, message, entries } => {
                if !mailbox.admit(entries.as_ref().map_or(0, bytes::Bytes::len)) {
                    tracing::debug!(from, "the driver is behind: a message is dropped");
                    return true;
                }
                Event::Received { from, call, message, entries }
            }
        };
        let first = mailbox.is_empty();
        mailbox.events.push(event);
        drop(mailbox);
        if first {
            self.wake_driver();
        }
        true
    }
}

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
            self.0.forget_asked();
            self.0.log.wake_readers();
        }
    }
}
