//! Memory that all connections together may hold.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::admission::Admission;
use crate::connection::Connection;

/// A bound on the bytes that the connections of one process hold: buffers of unfinished frames,
/// bodies of requests in flight, and answers that wait to be written.
///
/// Each connection counts its own and settles with the budget when its part has changed by
/// [`Budget::GRAIN`], so that ordinary traffic costs nothing. Over the budget, requests with a body
/// are answered `SYSTEM_BUSY`, and the connection that holds the most is closed.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
    relieving: AtomicBool,
    servers: Mutex<Vec<Weak<Admission>>>,
}

impl Budget {
    /// Change of one connection's part below which it is not counted.
    pub const GRAIN: usize = 16 << 10;

    /// A budget of so many bytes. Listeners that share it count together.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            used: AtomicUsize::new(0),
            relieving: AtomicBool::new(false),
            servers: Mutex::default(),
        })
    }

    /// Bytes that are held now.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// The bound.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Whether more is held than should be.
    pub fn is_exceeded(&self) -> bool {
        self.used() > self.limit
    }

    pub(crate) fn serves(&self, admission: &Arc<Admission>) {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.retain(|server| server.strong_count() > 0);
        servers.push(Arc::downgrade(admission));
    }

    /// A connection holds `now` bytes where it held `before`.
    pub(crate) fn settle(&self, connection: &Connection, before: usize, now: usize) {
        connection.held().store(now, Ordering::Relaxed);
        if now >= before {
            self.used.fetch_add(now - before, Ordering::Relaxed);
        } else {
            self.used.fetch_sub(before - now, Ordering::Relaxed);
        }
        if self.is_exceeded() {
            self.relieve();
        }
    }

    /// Closes the greediest connections until what the others hold fits.
    pub(crate) fn relieve(&self) {
        if self.relieving.swap(true, Ordering::Acquire) {
            return;
        }
        let servers: Vec<_> = {
            let servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
            servers.iter().filter_map(Weak::upgrade).collect()
        };
        let mut held: Vec<(usize, Arc<Connection>)> = servers
            .iter()
            .flat_map(|server| server.connections())
            .map(|connection| (connection.held().load(Ordering::Relaxed), connection))
            .filter(|(bytes, _)| *bytes > 0)
            .collect();
        held.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        let mut excess = self.used().saturating_sub(self.limit);
        for (bytes, connection) in held {
            if excess == 0 {
                break;
            }
            // One that is closing already gives its part back soon.
            connection.close_for_memory(bytes);
            excess = excess.saturating_sub(bytes);
        }
        self.relieving.store(false, Ordering::Release);
    }
}
