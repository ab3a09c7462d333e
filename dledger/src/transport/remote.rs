//! The transport over remoting: a server on the peer port and one connection to each other member.

use std::{
    collections::HashMap,
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use dledger_core::CallId;
use protocol::code;
use remoting::{Server, ServerOptions};
use segment::Vfs;
use tokio::runtime::Handle;

use super::{
    Inbox, Incoming, Outgoing, Transport,
    claims::Claims,
    clients::{ClientService, refuse, success},
    forwarded::ForwardService,
    held::HeldCalls,
    kinds::Kinds,
    link::Link,
    requests::PeerPort,
};
use crate::{
    Peers,
    wire::{
        capability::{Introduction, Mismatch, Own},
        message,
    },
};

/// Time between two looks at requests that nobody answers.
const SWEEP: Duration = Duration::from_millis(500);
/// Time before the same complaint about the same peer is logged again.
const COMPLAINTS_APART: Duration = Duration::from_secs(30);
/// Complaints that are remembered for that.
const COMPLAINTS: usize = 256;

/// How the transport of a member is set up.
#[derive(Debug, Clone)]
pub struct TransportOptions {
    /// Name of the group.
    pub group: String,
    /// This member's id.
    pub self_id: String,
    /// All members.
    pub peers: Peers,
    /// Local address to listen on, at the port that `peers` names for this member; all where `None`.
    pub bind: Option<IpAddr>,
    /// What this member says of itself.
    pub introduction: Introduction,
    /// The file that remembers what members run, and the file system that it is on.
    pub memory: Option<(Arc<dyn Vfs>, PathBuf)>,
    /// Where its tasks run.
    pub runtime: Handle,
}

/// Why the transport could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// It would be no member of its own group.
    #[error("self id {self_id} is not among dLegerPeers: add it there")]
    NotAMember {
        /// The id.
        self_id: String,
    },
    /// The peer port cannot be had.
    #[error("the peer port {address} cannot be listened on: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

/// The transport over remoting. It listens from the moment it is made, and carries messages once it
/// was started.
pub struct RemotingTransport {
    shared: Arc<Shared>,
    links: OnceLock<HashMap<String, Link>>,
    server: Mutex<Option<Server>>,
    address: SocketAddr,
}

/// What the server, the links and the driver share.
pub(super) struct Shared {
    options: TransportOptions,
    own: Own,
    kinds: Mutex<Kinds>,
    claims: Mutex<Claims>,
    held: Mutex<HeldCalls>,
    complaints: Mutex<HashMap<(String, String), Instant>>,
    inbox: OnceLock<Arc<dyn Inbox>>,
    clients: Mutex<Option<Arc<dyn ClientService>>>,
    forwards: Mutex<Option<Arc<dyn ForwardService>>>,
    stopped: AtomicBool,
}

impl RemotingTransport {
    /// Listens on the peer port.
    ///
    /// # Errors
    /// See [`TransportError`].
    pub fn new(options: TransportOptions) -> Result<Self, TransportError> {
        let not_a_member = || TransportError::NotAMember { self_id: options.self_id.clone() };
        let peer = options.peers.get(&options.self_id).ok_or_else(not_a_member)?;
        let (port, by_v6) = (peer.port(), peer.address.starts_with('['));
        let own = options.introduction.to_own();
        let runtime = options.runtime.clone();
        let all = match by_v6 {
            true => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            false => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        };
        let bind = options.bind.unwrap_or(all);
        let shared = Arc::new(Shared {
            kinds: Mutex::new(Kinds::load(options.memory.clone())),
            options,
            own,
            claims: Mutex::default(),
            held: Mutex::default(),
            complaints: Mutex::default(),
            inbox: OnceLock::new(),
            clients: Mutex::default(),
            forwards: Mutex::default(),
            stopped: AtomicBool::new(false),
        });
        let address = SocketAddr::new(bind, port);
        let _within = runtime.enter();
        let handler = Arc::new(PeerPort(Arc::clone(&shared)));
        let server = Server::bind(address, ServerOptions::default(), handler)
            .map_err(|source| TransportError::Listen { address, source })?;
        let address = server.local_addr();
        Ok(Self { shared, links: OnceLock::new(), server: Mutex::new(Some(server)), address })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What is known of the other members.
    #[must_use]
    pub fn known(&self) -> Vec<super::Known> {
        let kinds = lock(&self.shared.kinds);
        self.shared.others().map(|(id, _)| kinds.known(&id)).collect()
    }

    #[cfg(test)]
    pub(super) fn shared_is_java(&self, id: &str) -> bool {
        self.shared.is_java(id)
    }

    /// Lets clients of the log be served on the peer port, too, until the transport stops.
    pub fn serve_clients(&self, service: Arc<dyn ClientService>) {
        *lock(&self.shared.clients) = Some(service);
    }

    /// Lets members pass on requests of their clients to this node, until the transport stops.
    pub fn serve_forwards(&self, service: Arc<dyn ForwardService>) {
        *lock(&self.shared.forwards) = Some(service);
    }
}

impl Transport for RemotingTransport {
    fn start(&self, inbox: Arc<dyn Inbox>) {
        let shared = &self.shared;
        let members: Vec<_> = shared.others().collect();
        for (id, _) in &members {
            let kind = lock(&shared.kinds).remembered(id);
            inbox.deliver(Incoming::Peer { id: id.clone(), kind });
        }
        let _within = shared.options.runtime.enter();
        let links = members
            .into_iter()
            .map(|(id, address)| (id.clone(), Link::start(Arc::clone(shared), id, address)));
        if self.links.set(links.collect()).is_err() || shared.inbox.set(inbox).is_err() {
            tracing::error!("the transport was started before");
            return;
        }
        tokio::spawn(sweep(Arc::clone(shared)));
    }

    fn send(&self, outgoing: Outgoing) {
        match outgoing.call {
            Some(call) => self.shared.answer(call, &outgoing),
            None => match self.links.get().and_then(|links| links.get(&outgoing.to)) {
                Some(link) => link.send(outgoing),
                None => tracing::debug!(to = outgoing.to, "a message to nobody is dropped"),
            },
        }
    }

    fn stop(&self) {
        self.shared.stopped.store(true, Ordering::Release);
        // The service holds the log, which holds this.
        drop(lock(&self.shared.clients).take());
        drop(lock(&self.shared.forwards).take());
        for held in lock(&self.shared.held).drain() {
            held.responder.leave_unanswered();
        }
        drop(lock(&self.server).take());
    }
}

impl Shared {
    pub(super) fn group(&self) -> &str {
        &self.options.group
    }

    pub(super) fn self_id(&self) -> &str {
        &self.options.self_id
    }

    pub(super) fn peers(&self) -> &Peers {
        &self.options.peers
    }

    pub(super) fn own(&self) -> &Own {
        &self.own
    }

    pub(super) fn claims(&self) -> MutexGuard<'_, Claims> {
        lock(&self.claims)
    }

    pub(super) fn held(&self) -> MutexGuard<'_, HeldCalls> {
        lock(&self.held)
    }

    pub(super) fn inbox(&self) -> Option<&Arc<dyn Inbox>> {
        self.inbox.get().filter(|_| !self.stopped.load(Ordering::Acquire))
    }

    pub(super) fn clients(&self) -> Option<Arc<dyn ClientService>> {
        lock(&self.clients).clone()
    }

    pub(super) fn forwards(&self) -> Option<Arc<dyn ForwardService>> {
        lock(&self.forwards).clone()
    }

    pub(super) fn deliver(&self, incoming: Incoming) {
        if let Some(inbox) = self.inbox() {
            // A log that has stopped takes nothing, and nobody waits for it.
            inbox.deliver(incoming);
        }
    }

    pub(super) fn is_java(&self, id: &str) -> bool {
        lock(&self.kinds).is_java(id)
    }

    /// Notes what a vote, a heartbeat or an answer to one tells of a member.
    pub(super) fn learn(&self, id: &str, own: Option<&Own>) -> Result<(), Mismatch> {
        let news = lock(&self.kinds).learn(id, own, &self.options.introduction)?;
        if let Some(kind) = news {
            self.deliver(Incoming::Peer { id: id.to_owned(), kind });
        }
        Ok(())
    }

    /// Notes that a member does not know our request codes.
    pub(super) fn learn_java(&self, id: &str) {
        let news = lock(&self.kinds).learn_java(id);
        if let Some(kind) = news {
            self.deliver(Incoming::Peer { id: id.to_owned(), kind });
        }
    }

    /// Notes that the connection to a member was closed.
    pub(super) fn gone(&self, id: &str) {
        let news = lock(&self.kinds).gone(id);
        if let Some(kind) = news {
            tracing::debug!(peer = id, "the connection to a member was closed");
            self.deliver(Incoming::Peer { id: id.to_owned(), kind });
        }
    }

    /// Logs what is wrong with a peer, but not the same again and again.
    pub(super) fn complain(&self, peer: &str, text: &str) {
        let now = Instant::now();
        let mut complaints = lock(&self.complaints);
        complaints.retain(|_, at| now.saturating_duration_since(*at) < COMPLAINTS_APART);
        let key = (peer.to_owned(), text.to_owned());
        if complaints.len() < COMPLAINTS && !complaints.contains_key(&key) {
            tracing::warn!(peer, "{text}");
            complaints.insert(key, now);
        }
    }

    /// Puts the engine's answer on the request that it belongs to.
    fn answer(&self, call: CallId, outgoing: &Outgoing) {
        let Some(held) = self.held().take(call) else {
            tracing::debug!(call = call.0, "an answer that nobody waits for");
            return;
        };
        let Outgoing { message, entries, .. } = outgoing;
        match message::encode_reply(&held.ids, held.form, message, entries, &self.own) {
            Ok(body) => held.responder.send(success().with_body(body)),
            Err(error) => {
                refuse(held.responder, code::response::SYSTEM_ERROR, error.to_string());
            }
        }
    }

    /// Id and address of the other members.
    fn others(&self) -> impl Iterator<Item = (String, String)> {
        let members = self.options.peers.iter().filter(|peer| peer.id != self.options.self_id);
        members.map(|peer| (peer.id.clone(), peer.address.clone()))
    }
}

/// Drops requests that the engine never answers, and stores what members are.
async fn sweep(shared: Arc<Shared>) {
    while !shared.stopped.load(Ordering::Acquire) {
        tokio::time::sleep(SWEEP).await;
        for held in shared.held().expired(Instant::now()) {
            held.responder.leave_unanswered();
        }
        let unsaved = lock(&shared.kinds).unsaved();
        let Some((file, text)) = unsaved else { continue };
        let stored = tokio::task::spawn_blocking(move || file.store(text.as_bytes())).await;
        if let Ok(Err(error)) = stored {
            tracing::warn!(%error, "what members are could not be stored");
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for RemotingTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemotingTransport")
            .field("self_id", &self.shared.options.self_id)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}
