//! One connection as the rest of the program sees it.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use protocol::Command;

use crate::error::CallError;
use crate::limits::Limits;
use crate::outbox::{Outbox, Phase};
use crate::pending::{PendingCalls, Refused};

/// A connection to a peer, made by either side. Requests go both ways over it.
pub struct Connection {
    id: u64,
    remote: SocketAddr,
    local: SocketAddr,
    outbox: Outbox,
    pending: Arc<PendingCalls>,
    /// Bytes that the budget counts for it.
    held: AtomicUsize,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Connection {
    pub(crate) fn new(remote: SocketAddr, local: SocketAddr, limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            remote,
            local,
            pending: PendingCalls::new(limits.max_pending_calls),
            outbox: Outbox::new(limits),
            held: AtomicUsize::new(0),
        })
    }

    /// A number that no other connection of this process has or had.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Address of the peer.
    pub fn remote_addr(&self) -> SocketAddr {
        self.remote
    }

    /// Our address of this connection.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Sends a request to the peer and waits for its answer. The request is queued when this is
    /// called, in the order of the calls; the returned future only waits. Opaque and flag of the
    /// request are set here.
    ///
    /// # Errors
    /// See [`CallError`]; when the connection ends, all its calls fail at once.
    pub fn call(
        &self,
        request: Command,
        timeout: Duration,
    ) -> impl Future<Output = Result<Command, CallError>> + Send + use<> {
        let code = request.code;
        let peer = self.remote;
        let queued = self.queue_call(request);
        async move {
            let waiter = queued?;
            match tokio::time::timeout(timeout, waiter.answer()).await {
                Ok(Some(answer)) => Ok(answer),
                Ok(None) => Err(CallError::Closed { peer: peer.to_string(), code }),
                Err(_elapsed) => Err(CallError::Timeout { peer: peer.to_string(), code, timeout }),
            }
        }
    }

    /// Sends a request that wants no answer. A closed connection drops it, as a lost oneway
    /// request would be.
    pub fn oneway(&self, mut request: Command) {
        request.flag = 0;
        request.mark_oneway();
        if !self.outbox.push(request) {
            tracing::debug!(peer = %self.remote, "a oneway request was dropped: connection closed");
        }
    }

    /// Closes the connection at once; what is queued is lost.
    pub fn close(&self) {
        self.outbox.advance(Phase::Closing);
    }

    /// Whether it takes requests.
    pub fn is_open(&self) -> bool {
        self.outbox.is_open()
    }

    /// Bytes that wait to be written to the peer, estimated. A handler that makes large answers
    /// can hold back by it.
    pub fn queued_bytes(&self) -> usize {
        self.outbox.queued_bytes()
    }

    pub(crate) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    pub(crate) fn held(&self) -> &AtomicUsize {
        &self.held
    }

    /// Closes the connection because all connections together hold too much.
    pub(crate) fn close_for_memory(&self, bytes: usize) {
        tracing::debug!(peer = %self.remote, bytes, "closed for the memory that it holds");
        self.outbox.advance(Phase::Greedy);
    }

    /// Writes what is queued, then closes.
    pub(crate) fn drain(&self) {
        self.outbox.advance(Phase::Draining);
    }

    pub(crate) fn complete(&self, answer: Command) {
        let (code, opaque) = (answer.code, answer.opaque);
        if !self.pending.complete(answer) {
            tracing::debug!(peer = %self.remote, code, opaque, "an answer that nobody waits for");
        }
    }

    /// The driver has ended: nothing goes out or comes in any more.
    pub(crate) fn ended(&self) {
        self.outbox.advance(Phase::Closed);
        self.pending.close();
    }

    fn queue_call(&self, mut request: Command) -> Result<crate::pending::Waiter, CallError> {
        let code = request.code;
        let peer = || self.remote.to_string();
        let waiter = self.pending.register().map_err(|refused| match refused {
            Refused::Closed => CallError::NotOpen { peer: peer(), code },
            Refused::Full(pending) => CallError::Overloaded { peer: peer(), code, pending },
        })?;
        request.opaque = waiter.opaque();
        request.flag = 0;
        if self.outbox.push(request) {
            Ok(waiter)
        } else {
            Err(CallError::NotOpen { peer: peer(), code })
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Connection")
            .field("id", &self.id)
            .field("remote", &self.remote)
            .field("local", &self.local)
            .finish_non_exhaustive()
    }
}
