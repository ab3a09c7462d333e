//! How messages travel between members: the seam, and the implementation over remoting.
//!
//! The driver hands over what its engine wants to send and gets what came in through an [`Inbox`].
//! Nothing here ever blocks it: what cannot be carried is dropped, as by any network, and the
//! consensus core sends again.

use std::sync::Arc;

use bytes::Bytes;
use dledger_core::{CallId, Message, PeerKind};

mod claims;
mod clients;
mod forwarded;
mod held;
mod kinds;
mod link;
mod remote;
mod requests;

pub use clients::{AppendAnswer, ClientService, StatusAnswer, TransferAnswer};
pub use forwarded::ForwardService;
pub use kinds::Known;
pub use remote::{RemotingTransport, TransportError, TransportOptions};

/// A message on its way to a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The member's id.
    pub to: String,
    /// The request that this answers; `None` for a request.
    pub call: Option<CallId>,
    /// What is said.
    pub message: Message,
    /// The entries that go with it, as they lie in the log.
    pub entries: Vec<Bytes>,
}

/// What came in.
#[derive(Debug, Clone)]
pub enum Incoming {
    /// A member said something.
    Message {
        /// The member's id, which is that of a configured member and not our own.
        from: String,
        /// Of a request: what the answer is to name.
        call: CallId,
        /// What it said.
        message: Message,
        /// The entries that came with it, unchecked.
        entries: Option<Bytes>,
    },
    /// What a member is has become known, or the connection to it was closed.
    Peer {
        /// The member's id.
        id: String,
        /// What it is.
        kind: PeerKind,
    },
}

/// Takes what came in. It must not block.
pub trait Inbox: Send + Sync + 'static {
    /// Hands something over; `false` where the log has stopped.
    fn deliver(&self, incoming: Incoming) -> bool;
}

/// Carries messages between the members of a group.
pub trait Transport: Send + Sync + 'static {
    /// Called once, before the first [`Transport::send`]. What comes in goes to `inbox` from now on,
    /// and first of all what is known of the members from the last run.
    fn start(&self, inbox: Arc<dyn Inbox>);

    /// Takes a message. Never blocks, and tells nothing of what becomes of it.
    fn send(&self, outgoing: Outgoing);

    /// Carries nothing more. A second call does nothing.
    fn stop(&self);
}

/// The transport of a group of one: there is nobody to speak to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl Transport for Alone {
    fn start(&self, _inbox: Arc<dyn Inbox>) {}

    fn send(&self, outgoing: Outgoing) {
        tracing::debug!(to = outgoing.to, "a group of one has nobody to speak to");
    }

    fn stop(&self) {}
}

#[cfg(test)]
mod tests;
