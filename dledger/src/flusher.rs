//! The threads that wait for the disk, one job at a time: the flusher, which then writes what may
//! lag behind, the keeper of terms and votes, and the reader of what members lack.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use dledger_core::Millis;

use crate::{
    disk_log::lock,
    engine::{Done, Job, Workshop},
};

/// How long the thread sleeps at most: a checkpoint may be due.
const NAP: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    stopping: bool,
}

/// Jobs on their way to a thread. The engine has few at a time: one flush, one vote, one read for each
/// member.
#[derive(Debug, Default)]
pub(crate) struct JobQueue {
    queue: Mutex<Queue>,
    wake: Condvar,
}

impl JobQueue {
    pub(crate) fn push(&self, job: Job) {
        lock(&self.queue).jobs.push_back(job);
        self.wake.notify_one();
    }

    pub(crate) fn stop(&self) {
        lock(&self.queue).stopping = true;
        self.wake.notify_one();
    }

    /// The next job, or none after a while; `Err` once stopped and empty.
    fn next(&self) -> Result<Option<Job>, Stopped> {
        let mut queue = lock(&self.queue);
        if queue.jobs.is_empty() && !queue.stopping {
            queue = self.wake.wait_timeout(queue, NAP).unwrap_or_else(PoisonError::into_inner).0;
        }
        match queue.jobs.pop_front() {
            None if queue.stopping => Err(Stopped),
            job => Ok(job),
        }
    }
}

struct Stopped;

/// What a thread works on.
#[derive(Debug)]
pub(crate) struct Flusher {
    pub(crate) jobs: Arc<JobQueue>,
    pub(crate) workshop: Workshop,
    /// Whether this is the thread that writes what may lag behind.
    pub(crate) writes_behind: bool,
    pub(crate) started: Instant,
}

impl Flusher {
    /// Runs until the queue is stopped or the disk fails; `report` gets the end of each job.
    pub(crate) fn run(self, report: impl Fn(Done)) {
        while let Ok(job) = self.jobs.next() {
            if let Some(job) = job {
                let done = self.workshop.run(job);
                let failed = matches!(done, Done::Failed(_));
                report(done);
                if failed {
                    return;
                }
            }
            if self.writes_behind
                && let Err(error) = self.workshop.log.write_behind(since(self.started))
            {
                report(Done::Failed(format!("index or checkpoint could not be written: {error}")));
                return;
            }
        }
    }
}

/// Milliseconds since the log was opened.
pub(crate) fn since(started: Instant) -> Millis {
    Millis(u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX))
}
