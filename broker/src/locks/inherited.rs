//! What a new master knows of leases that it has not given: their holders say so by what they do.
//!
//! Leases are memory of the master. After a switch their holders go on consuming until they ask for
//! renewal, up to half a minute later. For one lease a queue therefore goes to a client that shows
//! that it holds it: it pulls from the queue, which a client without the lease does not; it renews
//! several leases in one request, where a client that wants a new one names one queue; or it gives
//! the queue back, and then it is free.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use super::LEASE;

/// Queues of groups that are remembered; what comes beyond waits until its lease is over.
const MOST: usize = 100_000;

/// A queue of a group: group, topic, number.
type Key = (String, String, i32);

/// What is known since this node has taken over.
#[derive(Debug, Default)]
pub(super) struct Inherited {
    /// Whether a lease of an earlier master may still hold.
    guarded: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    since: Option<Instant>,
    /// The connection that pulled from a queue last.
    pulled: HashMap<Key, u64>,
    given_back: HashSet<Key>,
}

impl Inherited {
    /// This node has become the master: what earlier masters granted holds for one lease more.
    pub(super) fn begin(&self, now: Instant) {
        *self.state() = State { since: Some(now), ..State::default() };
        self.guarded.store(true, Ordering::Release);
    }

    /// Whether a lease of an earlier master may still hold.
    pub(super) fn is_guarded(&self, now: Instant) -> bool {
        if !self.guarded.load(Ordering::Acquire) {
            return false;
        }
        let mut state = self.state();
        let over = state.since.is_none_or(|since| now.saturating_duration_since(since) >= LEASE);
        if over {
            *state = State::default();
            self.guarded.store(false, Ordering::Release);
        }
        !over
    }

    /// A client pulled from the queue by this connection.
    pub(super) fn pulled(&self, group: &str, topic: &str, queue: i32, connection: u64) {
        let mut state = self.state();
        if state.pulled.len() < MOST {
            state.pulled.insert(key(group, topic, queue), connection);
        }
    }

    /// A client gave the queue back that this node has granted to nobody.
    pub(super) fn given_back(&self, group: &str, topic: &str, queue: i32) {
        let mut state = self.state();
        if state.given_back.len() < MOST {
            state.given_back.insert(key(group, topic, queue));
        }
    }

    /// The client that this node had granted the queue gave it back: that it pulled from it counts no
    /// more.
    pub(super) fn released(&self, group: &str, topic: &str, queue: i32) {
        self.state().pulled.remove(&key(group, topic, queue));
        self.given_back(group, topic, queue);
    }

    /// Whether the client with this connection shows that it holds the queue, or nobody does.
    pub(super) fn may_have(
        &self,
        group: &str,
        topic: &str,
        queue: i32,
        connection: Option<u64>,
    ) -> bool {
        let (state, key) = (self.state(), key(group, topic, queue));
        match state.pulled.get(&key) {
            Some(holder) => connection == Some(*holder),
            None => state.given_back.contains(&key),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(group: &str, topic: &str, queue: i32) -> Key {
    (group.to_owned(), topic.to_owned(), queue)
}
