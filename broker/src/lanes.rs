//! Where blocking work of handlers runs: lanes of bounded width and bounded queue.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use protocol::code::response;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{call::Rejection, config::BrokerConfig};

/// Where a handler runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// In the connection's task: it does not block.
    Inline,
    /// Reads the disk for a pull.
    Pull,
    /// Reads the disk for a query.
    Query,
    /// Administration: reads and writes tables and files.
    Admin,
}

/// The lanes of a broker.
#[derive(Debug)]
pub(crate) struct Lanes {
    pull: Track,
    query: Track,
    admin: Track,
}

impl Lanes {
    /// Lanes as wide as configured.
    pub(crate) fn new(config: &BrokerConfig) -> Self {
        let track = |width: u32, queue: u32| Track::new(width as usize, queue as usize);
        Self {
            pull: track(
                config.pull_message_thread_pool_nums,
                config.pull_thread_pool_queue_capacity,
            ),
            query: track(
                config.query_message_thread_pool_nums,
                config.query_thread_pool_queue_capacity,
            ),
            admin: track(
                config.admin_broker_thread_pool_nums,
                config.admin_thread_pool_queue_capacity,
            ),
        }
    }

    /// Takes a place on a lane: to run now, or to wait for others.
    ///
    /// # Errors
    /// The lane's queue is full.
    pub(crate) fn place(&self, lane: Lane) -> Result<Place, Rejection> {
        match lane {
            Lane::Inline => Ok(Place::Inline),
            Lane::Pull => self.pull.place(),
            Lane::Query => self.query.place(),
            Lane::Admin => self.admin.place(),
        }
    }

    /// What waits for a lane.
    pub(crate) fn waiting(&self, lane: Lane) -> Queued {
        match lane {
            Lane::Inline => Queued::default(),
            Lane::Pull => self.pull.waiting(),
            Lane::Query => self.query.waiting(),
            Lane::Admin => self.admin.waiting(),
        }
    }
}

/// The queue of a lane at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Queued {
    /// Requests that wait.
    pub(crate) number: usize,
    /// The most that may.
    pub(crate) bound: usize,
    /// For how long the first of them has waited.
    pub(crate) longest: Duration,
}

#[derive(Debug)]
struct Track {
    free: Arc<Semaphore>,
    line: Arc<Mutex<Line>>,
    queue: usize,
}

/// Requests that wait, in the order in which they came.
#[derive(Debug, Default)]
struct Line {
    since: BTreeMap<u64, Instant>,
    next: u64,
}

fn lock(line: &Mutex<Line>) -> MutexGuard<'_, Line> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Track {
    fn new(width: usize, queue: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(width.max(1))), line: Arc::default(), queue }
    }

    fn waiting(&self) -> Queued {
        let line = lock(&self.line);
        let longest = line.since.first_key_value().map_or(Duration::ZERO, |(_, at)| at.elapsed());
        Queued { number: line.since.len(), bound: self.queue, longest }
    }

    fn place(&self) -> Result<Place, Rejection> {
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return Ok(Place::Free(permit));
        }
        let mut line = lock(&self.line);
        if line.since.len() >= self.queue {
            return Err(Rejection::new(
                response::SYSTEM_BUSY,
                "[OVERLOAD]system busy, start flow control for a while",
            ));
        }
        let place = line.next;
        line.next += 1;
        line.since.insert(place, Instant::now());
        let waiting = Waiting { line: Arc::clone(&self.line), place };
        Ok(Place::Queued(Arc::clone(&self.free), waiting))
    }
}

/// A place on a lane, given back when it was used or is dropped.
#[derive(Debug)]
#[must_use = "a place that is dropped runs nothing"]
pub(crate) enum Place {
    /// In the caller's own task.
    Inline,
    /// At once on a blocking thread.
    Free(OwnedSemaphorePermit),
    /// On a blocking thread, once others are done.
    Queued(Arc<Semaphore>, Waiting),
}

/// One request that waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    line: Arc<Mutex<Line>>,
    place: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        lock(&self.line).since.remove(&self.place);
    }
}

impl Place {
    /// Runs `work` here.
    pub(crate) fn run(self, work: impl FnOnce() + Send + 'static) {
        match self {
            Self::Inline => work(),
            Self::Free(permit) => run_blocking(permit, work),
            Self::Queued(free, waiting) => {
                tokio::spawn(async move {
                    // The semaphore is never closed, so that this always gives a permit.
                    let Ok(permit) = free.acquire_owned().await else { return };
                    drop(waiting);
                    run_blocking(permit, work);
                });
            }
        }
    }
}

fn run_blocking(permit: OwnedSemaphorePermit, work: impl FnOnce() + Send + 'static) {
    tokio::task::spawn_blocking(move || {
        work();
        drop(permit);
    });
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_full_queue_refuses_and_waiting_work_runs_later() {
        let track = Track::new(1, 1);
        let (release, held) = mpsc::channel::<()>();
        let (done, ran) = mpsc::channel::<u32>();
        let first = done.clone();
        track.place().expect("free").run(move || {
            held.recv().expect("released");
            first.send(1).expect("listening");
        });
        track.place().expect("queued").run(move || done.send(2).expect("listening"));
        let queued = track.waiting();
        assert_eq!((queued.number, queued.bound), (1, 1));
        assert!(queued.longest > Duration::ZERO);
        let refused = track.place().expect_err("full");
        assert_eq!(refused.code, response::SYSTEM_BUSY);
        release.send(()).expect("held");
        let limit = Duration::from_secs(10);
        assert_eq!((ran.recv_timeout(limit), ran.recv_timeout(limit)), (Ok(1), Ok(2)));
        assert_eq!(track.waiting(), Queued { number: 0, bound: 1, longest: Duration::ZERO });
    }
}
