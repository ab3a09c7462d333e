//! A machine with its disk, its clock and, while it runs, its process.

use std::collections::VecDeque;

use dledger_core::{Millis, Role};

use super::clock::Clock;
use crate::{
    ghost::Ended,
    plan::Plan,
    process::{Disk, Process, Standing},
};

impl Standing {
    /// Whether it leads, as far as it knows.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.role == Role::Leader && !self.failed
    }
}

/// A machine.
#[derive(Debug)]
pub(super) struct Slot<P: Process> {
    pub(super) disk: P::Disk,
    pub(super) process: Option<P>,
    /// The number of its present or last life.
    pub(super) life: u64,
    pub(super) clock: Clock,
    /// Until when it is frozen.
    pub(super) frozen_until: u64,
    /// When it is to be woken, so that a later plan is not heeded.
    pub(super) wake_at: u64,
    pub(super) jobs: VecDeque<P::Job>,
    /// At most one on each lane.
    pub(super) running: Vec<Running<P>>,
    /// How its last life ended.
    pub(super) ended: Ended,
    /// A start is planned.
    pub(super) starting: bool,
    /// An older copy of its disk.
    pub(super) copy: Option<P::Disk>,
    /// It lost what it may have vouched for: the number of entries that it must hold before another
    /// member may lose something.
    pub(super) lacks: Option<u64>,
    /// Up to where its disk holds its log, as the policy counts.
    pub(super) kept: Option<u64>,
    /// Jobs are slow.
    pub(super) hangs: bool,
    /// Power goes when term and vote are stored next.
    pub(super) tears_vote: bool,
    /// Calls that had failed when it was last looked at.
    pub(super) failures: u64,
    /// Why it did not start when it was last tried.
    pub(super) start_failure: Option<String>,
    /// What it was last seen to be.
    pub(super) standing: Option<Standing>,
}

/// A job under way.
#[derive(Debug)]
pub(super) struct Running<P: Process> {
    /// Not done yet, or done and not told.
    pub(super) state: JobState<P>,
    pub(super) is_flush: bool,
    pub(super) lane: Lane,
    /// Its number.
    pub(super) number: u64,
}

/// Jobs of one lane run one at a time, in the order polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// Terms and votes, which wait for nothing else.
    Votes,
    Log,
}

impl Lane {
    pub(super) const ALL: [Self; 2] = [Self::Log, Self::Votes];

    pub(super) fn of<P: Process>(job: &P::Job) -> Self {
        if P::is_vote(job) { Self::Votes } else { Self::Log }
    }
}

/// Whether a job has had its effect.
#[derive(Debug)]
pub(super) enum JobState<P: Process> {
    /// It will have it when it ends.
    Ahead(P::Job),
    /// It has had it.
    Done(P::Done),
}

impl<P: Process> Slot<P> {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            disk: P::Disk::new(plan),
            process: None,
            life: 0,
            clock: Clock::new(),
            frozen_until: 0,
            wake_at: u64::MAX,
            jobs: VecDeque::new(),
            running: Vec::new(),
            ended: Ended::Never,
            starting: true,
            copy: None,
            // A member that never held anything lacks as much as one that lost it.
            lacks: Some(0),
            kept: None,
            hangs: false,
            tears_vote: false,
            failures: 0,
            start_failure: None,
            standing: None,
        }
    }

    pub(super) fn standing(&self) -> Option<Standing> {
        self.process.as_ref().map(Process::standing)
    }

    /// The next job of a lane on which none runs.
    pub(super) fn next_job(&mut self, lane: Lane) -> Option<P::Job> {
        if self.running.iter().any(|running| running.lane == lane) {
            return None;
        }
        let next = self.jobs.iter().position(|job| Lane::of::<P>(job) == lane)?;
        self.jobs.remove(next)
    }

    pub(super) fn own_time(&self, now: u64) -> Millis {
        Millis(self.clock.read(now))
    }
}
