//! Calls that wait for their answer, by opaque.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::Command;
use tokio::sync::oneshot;

/// The calls of one connection that wait for an answer.
#[derive(Debug)]
pub(crate) struct PendingCalls {
    bound: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    next_opaque: i32,
    waiting: HashMap<i32, oneshot::Sender<Command>>,
}

/// Why a call could not be registered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Closed,
    Full(usize),
}

/// The waiting end of one call; dropping it forgets the call.
#[derive(Debug)]
pub(crate) struct Waiter {
    calls: Arc<PendingCalls>,
    opaque: i32,
    receiver: oneshot::Receiver<Command>,
}

impl Waiter {
    pub(crate) fn opaque(&self) -> i32 {
        self.opaque
    }

    /// The answer, or `None` when the connection closed.
    pub(crate) async fn answer(mut self) -> Option<Command> {
        (&mut self.receiver).await.ok()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.calls.lock().waiting.remove(&self.opaque);
    }
}

impl PendingCalls {
    pub(crate) fn new(bound: usize) -> Arc<Self> {
        Arc::new(Self { bound, state: Mutex::default() })
    }

    pub(crate) fn register(self: &Arc<Self>) -> Result<Waiter, Refused> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.lock();
        if state.closed {
            return Err(Refused::Closed);
        }
        if state.waiting.len() >= self.bound {
            return Err(Refused::Full(state.waiting.len()));
        }
        // The numbers wrap; one that still waits is stepped over.
        let mut opaque = state.next_opaque;
        while state.waiting.contains_key(&opaque) {
            opaque = opaque.wrapping_add(1);
        }
        state.next_opaque = opaque.wrapping_add(1);
        state.waiting.insert(opaque, sender);
        drop(state);
        Ok(Waiter { calls: Arc::clone(self), opaque, receiver })
    }

    /// Hands an answer to its waiter; `false` when nobody waits for it (any more).
    pub(crate) fn complete(&self, answer: Command) -> bool {
        let sender = self.lock().waiting.remove(&answer.opaque);
        sender.is_some_and(|sender| sender.send(answer).is_ok())
    }

    /// Fails all that wait and refuses all that come.
    pub(crate) fn close(&self) {
        let waiting = {
            let mut state = self.lock();
            state.closed = true;
            std::mem::take(&mut state.waiting)
        };
        // Dropping the senders wakes the waiters; done outside the lock, which they take.
        drop(waiting);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_use_are_stepped_over_when_they_wrap() {
        let calls = PendingCalls::new(8);
        let first = calls.register().expect("room");
        calls.lock().next_opaque = first.opaque();
        let second = calls.register().expect("room");
        assert_ne!(first.opaque(), second.opaque());
    }

    #[test]
    fn the_bound_and_the_close_refuse() {
        let calls = PendingCalls::new(1);
        let kept = calls.register().expect("room");
        assert_eq!(calls.register().err(), Some(Refused::Full(1)));
        drop(kept);
        drop(calls.register().expect("a dropped waiter frees its place"));
        calls.close();
        assert_eq!(calls.register().err(), Some(Refused::Closed));
    }
}
