//! A listening socket and its connections.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tracing::{debug, error, warn};

use crate::admission::Admission;
use crate::connection::Connection;
use crate::driver::drive;
use crate::error::CloseReason;
use crate::handler::Handler;
use crate::limits::Limits;
use crate::quiet::Quiet;
use crate::tls::{Accepted, Stream, TlsServer};

/// Bounds of a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Bounds of each connection.
    pub limits: Limits,
    /// Connections at one time. One more is closed at once, with a line in the log.
    pub max_connections: usize,
    /// Connections of one address (of one /64 network with IPv6) at one time.
    pub max_connections_of_address: usize,
    /// Connections above both bounds for the addresses in `reserved_for`, so that a flood locks
    /// out neither members of the group nor the operator.
    pub reserved_connections: usize,
    /// Whom they are for.
    pub reserved_for: Vec<IpAddr>,
    /// Connections that are accepted in one second; more wait in the kernel's queue.
    pub accepts_per_second: u32,
    /// Connections that the kernel holds until they are accepted. Java: `serverSocketBacklog`.
    pub backlog: u32,
    /// Time that [`Server::shutdown`] waits for queued answers to be written.
    pub drain: Duration,
    /// TLS on the same port; without it a TLS hello closes its connection.
    pub tls: Option<Arc<TlsServer>>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            max_connections: 10_000,
            max_connections_of_address: 10_000,
            reserved_connections: 0,
            reserved_for: Vec::new(),
            accepts_per_second: 5_000,
            backlog: 1024,
            drain: Duration::from_secs(3),
            tls: None,
        }
    }
}

/// A server that listens until it is shut down or dropped.
pub struct Server {
    shared: Arc<Shared>,
    local: SocketAddr,
    tasks: TaskTracker,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
}

struct Shared {
    options: ServerOptions,
    handler: Arc<dyn Handler>,
    admission: Arc<Admission>,
    refusals: Quiet,
    closes: Quiet,
}

impl Server {
    /// Listens on `addr` and serves its connections with `handler`. Must be called within a tokio
    /// runtime.
    ///
    /// # Errors
    /// Those of the operating system: the address is taken, or not ours, or the port is reserved.
    pub fn bind(
        addr: SocketAddr,
        options: ServerOptions,
        handler: Arc<dyn Handler>,
    ) -> io::Result<Self> {
        let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        let listener = socket.listen(options.backlog)?;
        let local = listener.local_addr()?;
        let admission = Arc::new(Admission::new(&options));
        if let Some(budget) = &options.limits.budget {
            budget.serves(&admission);
        }
        let (refusals, closes) = (Quiet::default(), Quiet::default());
        let shared = Arc::new(Shared { options, handler, admission, refusals, closes });
        let tasks = TaskTracker::new();
        let stop = CancellationToken::new();
        if let Some(tls) = &shared.options.tls {
            tasks.spawn(Arc::clone(tls).watch(stop.clone()));
        }
        tasks.spawn(accept(listener, Arc::clone(&shared), tasks.clone(), stop.clone()));
        let _stop_on_drop = stop.clone().drop_guard();
        Ok(Self { shared, local, tasks, stop, _stop_on_drop })
    }

    /// The address that it listens on, with the port that the system chose where 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The open connections.
    pub fn connections(&self) -> Vec<Arc<Connection>> {
        self.shared.admission.connections()
    }

    /// Stops listening, writes the answers that are queued, closes all connections, and returns
    /// when their tasks have ended.
    pub async fn shutdown(&self) {
        self.stop.cancel();
        self.tasks.close();
        for connection in self.connections() {
            connection.drain();
        }
        if tokio::time::timeout(self.shared.options.drain, self.tasks.wait()).await.is_ok() {
            return;
        }
        for connection in self.connections() {
            warn!(peer = %connection.remote_addr(), "closed with answers unwritten");
            connection.close();
        }
        self.tasks.wait().await;
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Server").field("local", &self.local).finish_non_exhaustive()
    }
}

async fn accept(
    listener: TcpListener,
    shared: Arc<Shared>,
    tasks: TaskTracker,
    stop: CancellationToken,
) {
    let mut pace = Pace::new(shared.options.accepts_per_second);
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, remote)) => {
                admit(stream, remote, &shared, (&tasks, &stop));
                pace.keep().await;
            }
            Err(error) if is_of_one_connection(&error) => debug!(%error, "accept"),
            Err(error) => {
                // Most likely no file descriptor is free: another try at once would spin.
                if let Some(before) = shared.refusals.line() {
                    error!(%error, before, "cannot accept connections; trying again in {ACCEPT_PAUSE:?}");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    // A server that is dropped without a shutdown closes what it had accepted.
    for connection in shared.admission.connections() {
        connection.drain();
    }
}

/// Counts accepted connections of the running second.
struct Pace {
    most: u32,
    begun: Instant,
    count: u32,
}

impl Pace {
    fn new(most: u32) -> Self {
        Self { most, begun: Instant::now(), count: 0 }
    }

    /// Waits for the next second where this one has had its connections.
    async fn keep(&mut self) {
        self.count += 1;
        if self.begun.elapsed() >= Duration::from_secs(1) {
            (self.begun, self.count) = (Instant::now(), 1);
        } else if self.count >= self.most {
            tokio::time::sleep_until(self.begun + Duration::from_secs(1)).await;
            (self.begun, self.count) = (Instant::now(), 0);
        }
    }
}

fn admit(
    stream: TcpStream,
    remote: SocketAddr,
    shared: &Arc<Shared>,
    (tasks, stop): (&TaskTracker, &CancellationToken),
) {
    let prepared = stream.set_nodelay(true).and_then(|()| stream.local_addr());
    let local = match prepared {
        Ok(local) => local,
        Err(error) => {
            debug!(peer = %remote, %error, "connection lost before it was served");
            return;
        }
    };
    let connection = Connection::new(remote, local, shared.options.limits.clone());
    if let Err(refused) = shared.admission.admit(&connection) {
        if let Some(before) = shared.refusals.line() {
            warn!(peer = %remote, before, "connection refused: {refused}");
        }
        return;
    }
    let shared = Arc::clone(shared);
    match &shared.options.tls {
        // Apart, so that a plain connection's task is not as large as one with a handshake.
        Some(tls) => {
            let (tls, stop) = (Arc::clone(tls), stop.clone());
            tasks.spawn(async move { serve_sniffed(stream, connection, shared, tls, stop).await });
        }
        None => {
            tasks.spawn(async move { serve(stream, connection, &shared).await });
        }
    }
}

async fn serve(stream: TcpStream, connection: Arc<Connection>, shared: &Shared) {
    let limits = shared.options.limits.clone();
    let reason = drive(stream, &connection, limits, &shared.handler).await;
    shared.ended(&connection, &reason);
}

/// Serves a connection of which the first byte tells whether it is TLS.
async fn serve_sniffed(
    stream: TcpStream,
    connection: Arc<Connection>,
    shared: Arc<Shared>,
    tls: Arc<TlsServer>,
    stop: CancellationToken,
) {
    let accepted = tokio::select! {
        () = stop.cancelled() => Err(CloseReason::Requested),
        accepted = tls.accept(stream) => accepted,
    };
    match accepted {
        Ok(Accepted::Plain(stream)) => Box::pin(serve(stream, connection, &shared)).await,
        Ok(Accepted::Tls(stream)) => Box::pin(serve_tls(stream, &connection, &shared)).await,
        Err(reason) => {
            connection.ended();
            shared.ended(&connection, &reason);
        }
    }
}

async fn serve_tls(mut stream: Box<Stream>, connection: &Arc<Connection>, shared: &Shared) {
    let limits = shared.options.limits.clone();
    let reason = drive(&mut *stream, connection, limits, &shared.handler).await;
    shared.ended(connection, &reason);
    // A peer that does not read is not waited for: the word of farewell is only a courtesy.
    if let Ok(Err(error)) = tokio::time::timeout(FAREWELL, stream.shutdown()).await {
        debug!(peer = %connection.remote_addr(), %error, "TLS farewell");
    }
}

impl Shared {
    /// A connection has ended: its place is free, and the log says why.
    fn ended(&self, connection: &Connection, reason: &CloseReason) {
        let (peer, id) = (connection.remote_addr(), connection.id());
        if reason.is_ordinary() {
            debug!(%peer, id, %reason, "connection closed");
        } else if let Some(before) = self.closes.line() {
            warn!(%peer, id, before, %reason, "connection closed");
        }
        self.admission.forget(id);
    }
}

/// Errors of accept that concern the connection that was to be accepted, not the listener.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time for the close notification of TLS.
const FAREWELL: Duration = Duration::from_millis(200);
