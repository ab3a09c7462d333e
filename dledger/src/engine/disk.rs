//! The disk under the log: flushes, whether it can be relied on, and what rotted on it.

use std::time::Duration;

use dledger_core::{EntryId, Input, Millis, NodeId, PeerKind, Policy};

use super::{Engine, Job, after};

/// Time between two flushes that no acknowledgement waits for.
const ASYNC_MILLIS: u64 = 200;
/// Bytes behind which such a flush does not wait.
const ASYNC_BYTES: u64 = 8 * 1024 * 1024;
/// How often a full disk is tried again, and a member is asked for what rotted.
pub(super) const RETRY_MILLIS: u64 = 500;

/// How far the log is durable.
#[derive(Debug)]
pub(super) struct Flushes {
    /// Position up to which the log is durable.
    pub(super) durable: u64,
    /// When the flush began that is running.
    begun: Option<Millis>,
    /// When the last one began.
    last_begun: Millis,
}

impl Flushes {
    pub(super) fn new(durable: u64) -> Self {
        Self { durable, begun: None, last_begun: Millis(0) }
    }

    pub(super) fn running(&self) -> bool {
        self.begun.is_some()
    }
}

/// Whether the disk takes appends, in time.
#[derive(Debug)]
pub(super) struct Health {
    patience: Duration,
    /// The disk was full; when it is tried again.
    full: Option<Millis>,
}

impl Health {
    pub(super) fn new(patience: Duration) -> Self {
        Self { patience, full: None }
    }

    pub(super) fn is_full(&mut self, now: Millis) {
        self.full = Some(now.after(RETRY_MILLIS));
    }
}

impl<T> Engine<T> {
    pub(super) fn start_flush(&mut self, now: Millis) {
        if self.flush_due().is_none_or(|due| now < due) {
            return;
        }
        if let Some(upto) = self.written {
            self.flushes.begun = Some(now);
            self.flushes.last_begun = now;
            self.jobs.push_back(Job::Flush { upto, end: self.writer.end() });
        }
    }

    /// When the next flush is to begin, if there is anything to flush. Where acknowledgements do not
    /// wait for it, flushes are some time apart.
    pub(super) fn flush_due(&self) -> Option<Millis> {
        let ahead = self.writer.end().saturating_sub(self.flushes.durable);
        if self.flushes.running() || ahead == 0 || self.status.failure.is_some() || self.cutting {
            return None;
        }
        // Entries of the leader wait to be written until less is ahead of a flush.
        let holds_up = !self.accepts.0.is_empty();
        let at_once = self.is_awaited()
            || (self.leads() && !self.status.opened)
            || ahead >= ASYNC_BYTES
            || holds_up;
        Some(if at_once { Millis(0) } else { self.flushes.last_begun.after(ASYNC_MILLIS) })
    }

    /// Whether acknowledgements wait for flushes: by this node's own policy, or its leader's.
    fn is_awaited(&self) -> bool {
        let leader = self.status.leader.as_ref().and_then(|id| self.peers.get(&NodeId(id.clone())));
        self.policy == Policy::Flushed
            || matches!(leader, Some(PeerKind::Own(own)) if own.policy == Policy::Flushed)
    }

    pub(super) fn flushed(&mut self, now: Millis, upto: EntryId, end: u64) {
        self.flushes.begun = None;
        if self.log.term_of(upto.index.0).is_ok_and(|term| term == upto.term) {
            self.flushes.durable = self.flushes.durable.max(end.min(self.writer.end()));
        }
        self.feed(now, Input::Flushed { upto });
    }

    /// Tells the node when the disk cannot be relied on any more, or can be again.
    pub(super) fn look_after_disk(&mut self, now: Millis) {
        if self.is_alone() || self.hook.is_none() || self.status.failure.is_some() {
            return;
        }
        if !self.cutting && self.health.full.is_some_and(|due| due <= now) {
            self.health.full = match self.writer.probe() {
                Ok(()) => None,
                Err(error) => {
                    tracing::debug!(%error, "the disk still takes no appends");
                    Some(now.after(RETRY_MILLIS))
                }
            };
        }
        self.convict();
        let rotten = self.log.has_rot();
        let hangs = self.hang_due().is_some_and(|due| due <= now);
        let healthy = !hangs && self.health.full.is_none() && !rotten;
        if rotten {
            self.fetch_rotten(now);
        }
        if healthy != self.status.healthy {
            self.status.healthy = healthy;
            self.feed(now, Input::Disk { healthy });
        }
    }

    fn hang_due(&self) -> Option<Millis> {
        self.flushes.begun.map(|begun| after(begun, self.health.patience))
    }

    /// When the disk is to be looked at again.
    pub(super) fn disk_due(&self) -> Option<Millis> {
        if self.is_alone() || self.hook.is_none() {
            return None;
        }
        let full = self.health.full.filter(|_| !self.cutting);
        let hang = self.hang_due().filter(|_| self.status.healthy);
        let rot = self.mends.due().filter(|_| self.log.has_rot());
        [hang, full, rot].into_iter().flatten().min()
    }
}
