//! Where blocking work of handlers runs: lanes of bounded width and bounded queue.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
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

    /// Requests that wait for a lane, and the bound of its queue.
    pub(crate) fn waiting(&self, lane: Lane) -> (usize, usize) {
        match lane {
            Lane::Inline => (0, 0),
            Lane::Pull => self.pull.waiting(),
            Lane::Query => self.query.waiting(),
            Lane::Admin => self.admin.waiting(),
        }
    }
}

#[derive(Debug)]
struct Track {
    free: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    queue: usize,
}

impl Track {
    fn new(width: usize, queue: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(width.max(1))),
            waiting: Arc::new(AtomicUsize::new(0)),
            queue,
        }
    }

    fn waiting(&self) -> (usize, usize) {
        (self.waiting.load(Ordering::Relaxed), self.queue)
    }

    fn place(&self) -> Result<Place, Rejection> {
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return Ok(Place::Free(permit));
        }
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.queue {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(Rejection::new(
                response::SYSTEM_BUSY,
                "[OVERLOAD]system busy, start flow control for a while",
            ));
        }
        let waiting = Waiting(Arc::clone(&self.waiting));
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
pub(crate) struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
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
    use std::{sync::mpsc, time::Duration};

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
        let refused = track.place().expect_err("full");
        assert_eq!(refused.code, response::SYSTEM_BUSY);
        release.send(()).expect("held");
        let limit = Duration::from_secs(10);
        assert_eq!((ran.recv_timeout(limit), ran.recv_timeout(limit)), (Ok(1), Ok(2)));
        assert_eq!(track.waiting(), (0, 1));
    }
}
