//! The bounds of one connection.

use std::sync::Arc;
use std::time::Duration;

use crate::budget::Budget;

/// Bounds and deadlines of one connection, on either side.
///
/// The defaults suit a broker that faces the official clients.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Largest frame that is accepted, in bytes with its length field. Checked before any memory
    /// is taken for it. Java: `com.rocketmq.remoting.frameMaxLength`.
    pub max_frame_bytes: usize,
    /// Time from the first byte of a frame to its last one. A peer that trickles is closed.
    pub frame_deadline: Duration,
    /// Time without a byte in either direction before the connection is closed. Java:
    /// `serverChannelMaxIdleTimeSeconds`.
    pub idle: Duration,
    /// Time that queued bytes may wait without one byte leaving, before the peer is closed as one
    /// that does not read.
    pub write_stall: Duration,
    /// Requests read from the peer and not yet answered. At the bound, reading stops until some
    /// are answered, and so do the answers that lie behind the next request. Waiting pulls count,
    /// so it bounds the queues that one client may hold open.
    pub max_in_flight: usize,
    /// Bytes of those requests, body and header fields. At the bound, reading stops as well.
    pub max_in_flight_bytes: usize,
    /// Queued bytes of answers to the peer above which its requests are no longer read (Java: the
    /// high-water mark of a channel that is not writable).
    pub outbox_pause_bytes: usize,
    /// Queued bytes to the peer above which the connection is closed.
    pub outbox_limit_bytes: usize,
    /// Calls to the peer that wait for their answer. One more is refused. Java:
    /// `clientAsyncSemaphoreValue`.
    pub max_pending_calls: usize,
    /// Bytes that all connections with this budget may hold together.
    pub budget: Option<Arc<Budget>>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_frame_bytes: 16 * MIB,
            frame_deadline: Duration::from_secs(10),
            idle: Duration::from_secs(120),
            write_stall: Duration::from_secs(30),
            max_in_flight: 8192,
            max_in_flight_bytes: 64 * MIB,
            outbox_pause_bytes: 4 * MIB,
            outbox_limit_bytes: 256 * MIB,
            max_pending_calls: 65_535,
            budget: None,
        }
    }
}

const MIB: usize = 1 << 20;
