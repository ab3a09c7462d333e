//! Requests of members that the engine has and not yet answered.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use dledger_core::{CallId, PushName};
use remoting::Responder;

use crate::wire::message::{Form, Ids};

/// The sender has given up after 3 s (Java: `DLedgerRpcNettyService`); a transfer may take longer.
const LONGEST: Duration = Duration::from_secs(6);
/// Requests that are held at a time.
const CALLS: usize = 16_384;
/// Bytes of them. A heartbeat or a vote is let in beyond it: none waits behind data.
const BYTES: usize = 64 << 20;

/// A request that waits for its answer.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) responder: Responder,
    pub(super) ids: Ids,
    pub(super) form: Form,
    pub(super) bytes: usize,
    pub(super) since: Instant,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct HeldCalls {
    next: u64,
    bytes: usize,
    calls: HashMap<u64, Held>,
}

impl HeldCalls {
    /// Whether one more push of this size is let in.
    pub(super) fn has_room(&self, kind: PushName, bytes: usize) -> bool {
        let light = kind != PushName::Append;
        self.calls.len() < CALLS && (light || self.calls.is_empty() || self.bytes + bytes <= BYTES)
    }

    pub(super) fn insert(&mut self, held: Held) -> CallId {
        self.next += 1;
        self.bytes += held.bytes;
        self.calls.insert(self.next, held);
        CallId(self.next)
    }

    pub(super) fn take(&mut self, call: CallId) -> Option<Held> {
        let held = self.calls.remove(&call.0)?;
        self.bytes = self.bytes.saturating_sub(held.bytes);
        Some(held)
    }

    /// Those that nobody waits for any more.
    pub(super) fn expired(&mut self, now: Instant) -> Vec<Held> {
        let late = |held: &Held| now.saturating_duration_since(held.since) >= LONGEST;
        let old: Vec<_> =
            self.calls.iter().filter(|(_, held)| late(held)).map(|(call, _)| *call).collect();
        old.into_iter().filter_map(|call| self.take(CallId(call))).collect()
    }

    pub(super) fn drain(&mut self) -> Vec<Held> {
        self.bytes = 0;
        self.calls.drain().map(|(_, held)| held).collect()
    }
}
