//! What one connection still owes its peer: queued frames and requests in flight.
//!
//! One lock holds all of it, so that the driver can decide to sleep and be sure of being woken.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use protocol::Command;

use crate::limits::Limits;

/// Estimated bytes of queued frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    total: usize,
    /// The part that answers the peer's requests. Only it holds up the reading of more requests:
    /// a caller whose own requests pile up must go on reading, or two sides could wait for each
    /// other.
    answers: usize,
}

/// Bytes that a queued command is taken to cost beside its body and fields.
const COMMAND_COST: usize = 256;

#[derive(Debug)]
pub(crate) struct Outbox {
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Command>,
    /// Queued here or at the writer.
    queued: Cost,
    in_flight: usize,
    in_flight_bytes: usize,
    /// Set only while the driver sleeps.
    waker: Option<Waker>,
    /// A `Flush` is out and will wake the driver when it is dropped.
    flush_owed: bool,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    #[default]
    Open,
    /// What is queued is still written, nothing is read.
    Draining,
    /// To be closed at once.
    Closing,
    /// To be closed at once, because the outbox is over its limit.
    Overflowed,
    /// To be closed at once, because all connections together hold too much and this one the most.
    Greedy,
    /// The driver has ended.
    Closed,
}

/// What the driver waits for when it goes to sleep.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sleep {
    /// The phase that the driver has acted upon.
    pub(crate) phase: Phase,
    pub(crate) write_blocked: bool,
    pub(crate) read_paused: bool,
}

impl Outbox {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, state: Mutex::default() }
    }

    /// Queues a frame and wakes the driver; `false` when the connection takes no more.
    pub(crate) fn push(&self, command: Command) -> bool {
        let (queued, waker) = {
            let mut state = self.lock();
            (state.push(command, &self.limits), state.waker.take())
        };
        wake(waker);
        queued
    }

    /// Counts a request as in flight; `true` when more may be read.
    pub(crate) fn admit(&self, held_bytes: usize) -> bool {
        let mut state = self.lock();
        state.in_flight += 1;
        state.in_flight_bytes += held_bytes;
        state.may_read(&self.limits)
    }

    /// Ends a request, with its answer where there is one, and wakes the driver if it has
    /// something to do.
    pub(crate) fn finish(&self, held_bytes: usize, answer: Option<Command>) {
        let waker = {
            let mut state = self.lock();
            let was_paused = !state.may_read(&self.limits);
            state.finish(held_bytes);
            let answered = answer.is_some();
            if let Some(answer) = answer {
                state.push(answer, &self.limits);
            }
            if answered || was_paused { state.waker.take() } else { None }
        };
        wake(waker);
    }

    /// Ends a request without waking the driver; `true` when the caller owes a [`Self::flush`].
    pub(crate) fn finish_unflushed(&self, held_bytes: usize, answer: Command) -> bool {
        let mut state = self.lock();
        state.finish(held_bytes);
        state.push(answer, &self.limits);
        !std::mem::replace(&mut state.flush_owed, true)
    }

    /// Wakes the driver for what was queued without a wake.
    pub(crate) fn flush(&self) {
        let waker = {
            let mut state = self.lock();
            state.flush_owed = false;
            state.waker.take()
        };
        wake(waker);
    }

    /// Moves towards closing and wakes the driver; a later phase is never left for an earlier one.
    pub(crate) fn advance(&self, phase: Phase) {
        let waker = {
            let mut state = self.lock();
            if (state.phase as u8) < (phase as u8) {
                state.phase = phase;
            }
            if phase == Phase::Closed {
                state.queue.clear();
            }
            state.waker.take()
        };
        wake(waker);
    }

    /// The driver is awake: pushes need not wake it. Tells the phase, whether it may read, and the
    /// bytes that requests in flight and queued frames hold.
    pub(crate) fn begin(&self) -> (Phase, bool, usize) {
        let mut state = self.lock();
        state.waker = None;
        (state.phase, state.may_read(&self.limits), state.held())
    }

    /// Takes everything that is queued.
    pub(crate) fn take(&self, into: &mut VecDeque<Command>) {
        debug_assert!(into.is_empty(), "what is taken replaces nothing");
        std::mem::swap(&mut self.lock().queue, into);
    }

    /// Frames of this estimated size have been written.
    pub(crate) fn written(&self, cost: Cost) {
        let mut state = self.lock();
        state.queued.total = state.queued.total.saturating_sub(cost.total);
        state.queued.answers = state.queued.answers.saturating_sub(cost.answers);
    }

    /// Registers the driver's waker; `false` when there is something to do at once. Tells the held
    /// bytes, too.
    pub(crate) fn sleep(&self, waker: &Waker, sleep: Sleep) -> (bool, usize) {
        let mut state = self.lock();
        let to_write = !state.queue.is_empty() && !sleep.write_blocked;
        let to_read = sleep.read_paused && state.may_read(&self.limits);
        let held = state.held();
        if to_write || to_read || state.phase != sleep.phase {
            return (false, held);
        }
        state.waker = Some(waker.clone());
        (true, held)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.lock().phase == Phase::Open
    }

    pub(crate) fn queued_bytes(&self) -> usize {
        self.lock().queued.total
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, command: Command, limits: &Limits) -> bool {
        if !matches!(self.phase, Phase::Open | Phase::Draining) {
            return false;
        }
        let mut queued = self.queued;
        queued.add(&command);
        if queued.total > limits.outbox_limit_bytes {
            self.phase = Phase::Overflowed;
            return false;
        }
        self.queued = queued;
        self.queue.push_back(command);
        true
    }

    fn finish(&mut self, held_bytes: usize) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.in_flight_bytes = self.in_flight_bytes.saturating_sub(held_bytes);
    }

    /// Bytes of requests in flight and of queued frames.
    fn held(&self) -> usize {
        self.in_flight_bytes + self.queued.total
    }

    fn may_read(&self, limits: &Limits) -> bool {
        self.in_flight < limits.max_in_flight
            && self.in_flight_bytes < limits.max_in_flight_bytes
            && self.queued.answers < limits.outbox_pause_bytes
    }
}

impl Cost {
    /// Adds a frame, without encoding it.
    pub(crate) fn add(&mut self, command: &Command) {
        let remark = command.remark.as_ref().map_or(0, String::len);
        let fields = command.ext_fields.as_ref().map_or(0, |fields| {
            fields.iter().map(|(name, value)| name.len() + value.len() + 8).sum()
        });
        let bytes = COMMAND_COST + command.body.len() + remark + fields;
        self.total += bytes;
        if command.is_response() {
            self.answers += bytes;
        }
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
