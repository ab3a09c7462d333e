//! How many requests of each code were served, refused, and how long they took until their
//! handler returned.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::routes::{self, ROUTES};

/// Counters of requests, by line of the route table.
#[derive(Debug)]
pub(crate) struct RequestCounters {
    lines: Vec<Line>,
    unserved: AtomicU64,
}

#[derive(Debug, Default)]
struct Line {
    served: AtomicU64,
    refused: AtomicU64,
    micros: AtomicU64,
    passed_on: AtomicU64,
}

/// Counters of one code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestFigures {
    /// Request code.
    pub code: i32,
    /// Requests that reached the handler.
    pub served: u64,
    /// Requests that this node passed on to the leader, whatever that answered.
    pub passed_on: u64,
    /// Those that reached the handler and that it refused.
    pub refused: u64,
    /// Microseconds from the complete frame to the handler's return, summed.
    pub micros: u64,
}

impl RequestCounters {
    /// All at zero.
    pub(crate) fn new() -> Self {
        Self {
            lines: ROUTES.iter().map(|_| Line::default()).collect(),
            unserved: AtomicU64::new(0),
        }
    }

    /// Counts a request that a handler returned from.
    pub(crate) fn served(&self, line: usize, elapsed: Duration, refused: bool) {
        let Some(line) = self.lines.get(line) else { return };
        line.served.fetch_add(1, Ordering::Relaxed);
        line.refused.fetch_add(u64::from(refused), Ordering::Relaxed);
        let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        line.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Counts a request that the leader served in place of this node.
    pub(crate) fn passed_on(&self, code: i32) {
        if let Some(line) = routes::find(code).and_then(|(at, _)| self.lines.get(at)) {
            line.passed_on.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a request that reached no handler.
    pub(crate) fn refused_unserved(&self) {
        self.unserved.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests that reached no handler: unknown, declined, not the master, lane full.
    pub(crate) fn unserved(&self) -> u64 {
        self.unserved.load(Ordering::Relaxed)
    }

    /// Counters of every code that was asked.
    pub(crate) fn figures(&self) -> Vec<RequestFigures> {
        let asked = ROUTES.iter().zip(&self.lines).map(|(route, line)| RequestFigures {
            code: route.code,
            served: line.served.load(Ordering::Relaxed),
            passed_on: line.passed_on.load(Ordering::Relaxed),
            refused: line.refused.load(Ordering::Relaxed),
            micros: line.micros.load(Ordering::Relaxed),
        });
        asked.filter(|figures| figures.served > 0 || figures.passed_on > 0).collect()
    }
}
