//! Pop consumption: the broker gives messages to whoever of a group asks, for a time, and gives them
//! again where they are not acknowledged by then (`PopMessageProcessor.java`).
//!
//! What was given is a record of the revive topic, a check point, in one batch of the log with the
//! consumer offset behind it; what is done is a record behind that. So everything follows from the
//! log, and goes on where another node takes over. Handlers are in `handlers/pop`.

pub(crate) mod handle;
pub(crate) mod names;
pub(crate) mod order;
mod outstanding;
pub(crate) mod point;
pub(crate) mod polls;
mod retry;
mod revive;

use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
    sync::{
        Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
};

use crate::{
    config::BrokerConfig,
    delay,
    handlers::pop::{Take, Watch},
};

use names::Form;
use order::Orders;
use polls::{Order, Waiting};

pub(crate) use revive::start;

/// Number of locks that all groups and topics share.
const LOCKS: usize = 256;

/// What this node knows of pops.
#[derive(Debug)]
pub(crate) struct Pop {
    /// Pops that wait for messages.
    pub(crate) polls: Waiting<Take>,
    /// Questions whether there are messages, which wait for some.
    pub(crate) watches: Waiting<Watch>,
    /// What ordered pops were given.
    pub(crate) orders: Orders,
    /// Wakes and stops the thread that gives messages again.
    pub(crate) wake: delay::Wake,
    /// Check points that are open, as that thread knows.
    pub(crate) open: AtomicUsize,
    /// Held while messages of a group and topic are taken: their check points and offsets stand in
    /// the log in the order of the queue.
    locks: Vec<Mutex<()>>,
    turn: AtomicU32,
}

impl Default for Pop {
    fn default() -> Self {
        Self {
            polls: Waiting::new(Order::First),
            watches: Waiting::new(Order::Last),
            orders: Orders::default(),
            wake: delay::Wake::default(),
            open: AtomicUsize::new(0),
            locks: (0..LOCKS).map(|_| Mutex::new(())).collect(),
            turn: AtomicU32::new(0),
        }
    }
}

impl Pop {
    /// Waits until nobody else takes messages of the group and topic.
    pub(crate) fn lock(&self, group: &str, topic: &str) -> Option<MutexGuard<'_, ()>> {
        let lock = self.lock_of(group, topic)?;
        Some(lock.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// As [`Pop::lock`] where it need not wait.
    pub(crate) fn try_lock(&self, group: &str, topic: &str) -> Option<MutexGuard<'_, ()>> {
        match self.lock_of(group, topic)?.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// A number that differs from one pop to the next, from 0 to 99, spread evenly.
    pub(crate) fn dice(&self) -> u32 {
        // No common divisor with 100.
        self.turn.fetch_add(1, Ordering::Relaxed).wrapping_mul(37) % 100
    }

    /// One of the queues of the revive topic, each in its turn.
    pub(crate) fn revive_queue(&self, queues: i32) -> i32 {
        let turn = self.turn.load(Ordering::Relaxed);
        u32::try_from(queues)
            .ok()
            .and_then(|queues| turn.checked_rem(queues))
            .and_then(|queue| i32::try_from(queue).ok())
            .unwrap_or(0)
    }

    fn lock_of(&self, group: &str, topic: &str) -> Option<&Mutex<()>> {
        let mut hasher = DefaultHasher::new();
        (group, topic).hash(&mut hasher);
        let at = usize::try_from(hasher.finish() % LOCKS as u64).unwrap_or(0);
        self.locks.get(at)
    }
}

impl BrokerConfig {
    /// The form of retry topics that new messages go to.
    pub(crate) fn retry_form(&self) -> Form {
        if self.enable_retry_topic_v2 { Form::V2 } else { Form::V1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_of_a_group_and_topic() {
        let pop = Pop::default();
        let held = pop.lock("g", "T").expect("a lock");
        assert!(pop.try_lock("g", "T").is_none());
        drop(held);
        assert!(pop.try_lock("g", "T").is_some());
    }

    #[test]
    fn the_dice_shows_every_number() {
        let pop = Pop::default();
        let shown: std::collections::BTreeSet<u32> = (0..100).map(|_| pop.dice()).collect();
        assert_eq!(shown.len(), 100);
        assert!((0..8).contains(&pop.revive_queue(8)));
        assert_eq!(pop.revive_queue(0), 0);
    }
}
