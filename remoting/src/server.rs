//! A listening socket and its connections.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tracing::{debug, error, warn};

use crate::connection::Connection;
use crate::driver::drive;
use crate::handler::Handler;
use crate::limits::Limits;

/// Bounds of a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Bounds of each connection.
    pub limits: Limits,
    /// Connections at one time. One more is closed at once, with a line in the log.
    pub max_connections: usize,
    /// Connections that the kernel holds until they are accepted. Java: `serverSocketBacklog`.
    pub backlog: u32,
    /// Time that [`Server::shutdown`] waits for queued answers to be written.
    pub drain: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            max_connections: 10_000,
            backlog: 1024,
            drain: Duration::from_secs(3),
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
    connections: Mutex<HashMap<u64, Arc<Connection>>>,
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
        let shared = Arc::new(Shared { options, handler, connections: Mutex::default() });
        let tasks = TaskTracker::new();
        let stop = CancellationToken::new();
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
        self.shared.lock().values().cloned().collect()
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

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Connection>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn accept(
    listener: TcpListener,
    shared: Arc<Shared>,
    tasks: TaskTracker,
    stop: CancellationToken,
) {
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, remote)) => admit(stream, remote, &shared, &tasks),
            Err(error) if is_of_one_connection(&error) => debug!(%error, "accept"),
            Err(error) => {
                // Most likely no file descriptor is free: another try at once would spin.
                error!(%error, "cannot accept connections; trying again in {ACCEPT_PAUSE:?}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    // A server that is dropped without a shutdown closes what it had accepted.
    for connection in shared.lock().values() {
        connection.drain();
    }
}

fn admit(stream: TcpStream, remote: SocketAddr, shared: &Arc<Shared>, tasks: &TaskTracker) {
    let limits = shared.options.limits.clone();
    let prepared = stream.set_nodelay(true).and_then(|()| stream.local_addr());
    let local = match prepared {
        Ok(local) => local,
        Err(error) => {
            debug!(peer = %remote, %error, "connection lost before it was served");
            return;
        }
    };
    let connection = Connection::new(remote, local, limits.clone());
    {
        let mut connections = shared.lock();
        if connections.len() >= shared.options.max_connections {
            warn!(peer = %remote, limit = shared.options.max_connections, "connection refused: the limit is reached");
            return;
        }
        connections.insert(connection.id(), Arc::clone(&connection));
    }
    let shared = Arc::clone(shared);
    tasks.spawn(async move {
        let id = connection.id();
        drive(stream, connection, limits, Arc::clone(&shared.handler)).await;
        shared.lock().remove(&id);
    });
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
