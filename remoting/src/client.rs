//! Connections that this side makes, one per address.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::{Command, code};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::connection::Connection;
use crate::driver::drive;
use crate::error::CallError;
use crate::handler::Handler;
use crate::limits::Limits;
use crate::responder::Responder;
use crate::tls::TlsClient;

/// Bounds of a client, and who serves the requests that servers send to it.
#[derive(Clone)]
pub struct ClientOptions {
    /// Bounds of each connection.
    pub limits: Limits,
    /// Time for one attempt to connect; the time of the call bounds it too. Java:
    /// `connectTimeoutMillis`.
    pub connect_timeout: Duration,
    /// Serves requests that come from servers; without it they are answered as unsupported.
    pub handler: Option<Arc<dyn Handler>>,
    /// TLS on every connection; without it all are plain. Java: `tls.enable`.
    pub tls: Option<Arc<TlsClient>>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            connect_timeout: Duration::from_secs(3),
            handler: None,
            tls: None,
        }
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ClientOptions")
            .field("limits", &self.limits)
            .field("connect_timeout", &self.connect_timeout)
            .finish_non_exhaustive()
    }
}

/// Calls servers by their address `host:port`. There is one connection per address, made at the
/// first call and made anew when it has closed; a host name is resolved each time.
pub struct Client {
    options: ClientOptions,
    handler: Arc<dyn Handler>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    closed: bool,
    slots: HashMap<String, Arc<Slot>>,
}

/// The place of one address. The lock is held while connecting, so that callers share the attempt.
#[derive(Default)]
struct Slot {
    attempt: tokio::sync::Mutex<Attempt>,
    /// The connection in use, for callers that need not wait.
    current: Mutex<Option<Arc<Connection>>>,
}

#[derive(Default)]
struct Attempt {
    /// When the last attempt failed, and why: it counts for all who waited for it.
    failed: Option<(Instant, String)>,
}

impl Client {
    /// A client without connections.
    pub fn new(options: ClientOptions) -> Self {
        let handler = options.handler.clone().unwrap_or_else(|| Arc::new(NoRequests));
        Self { options, handler, state: Mutex::default() }
    }

    /// Sends a request and waits for its answer; `timeout` includes the time to connect.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call(
        &self,
        address: &str,
        request: Command,
        timeout: Duration,
    ) -> Result<Command, CallError> {
        let begun = Instant::now();
        let connection = self.connect(address, timeout, request.code).await?;
        connection.call(request, timeout.saturating_sub(begun.elapsed())).await
    }

    /// Sends a request that wants no answer, connecting first where needed. While much waits to be
    /// written to the peer, it holds the caller back, since no answer does; a peer that reads
    /// nothing ends that wait with its connection.
    ///
    /// # Errors
    /// [`CallError::Connect`] and [`CallError::NotOpen`]; a request that is lost later is lost
    /// without a word.
    pub async fn oneway(&self, address: &str, request: Command) -> Result<(), CallError> {
        let timeout = self.options.connect_timeout;
        let connection = self.connect(address, timeout, request.code).await?;
        while connection.queued_bytes() > ONEWAY_QUEUED_BYTES && connection.is_open() {
            tokio::time::sleep(ONEWAY_PAUSE).await;
        }
        connection.oneway(request);
        Ok(())
    }

    /// The connection to an address, made now if there is none.
    ///
    /// # Errors
    /// [`CallError::Connect`], and [`CallError::NotOpen`] after [`Client::close`].
    pub async fn connection(&self, address: &str) -> Result<Arc<Connection>, CallError> {
        self.connect(address, self.options.connect_timeout, 0).await
    }

    /// Closes all connections; calls that wait fail at once, later ones are refused.
    pub fn close(&self) {
        let slots = {
            let mut state = self.lock();
            state.closed = true;
            std::mem::take(&mut state.slots)
        };
        for slot in slots.values() {
            if let Some(connection) = slot.open() {
                connection.close();
            }
        }
    }

    /// Closes the connection to one address, if there is one. The next call makes a new one.
    pub fn disconnect(&self, address: &str) {
        let slot = self.lock().slots.get(address).cloned();
        if let Some(connection) = slot.and_then(|slot| slot.open()) {
            connection.close();
        }
    }

    async fn connect(
        &self,
        address: &str,
        timeout: Duration,
        code: i32,
    ) -> Result<Arc<Connection>, CallError> {
        let Some(slot) = self.slot(address) else {
            return Err(CallError::NotOpen { peer: address.to_owned(), code });
        };
        if let Some(connection) = slot.open() {
            return Ok(connection);
        }
        let limit = timeout.min(self.options.connect_timeout);
        let failed = |cause| CallError::Connect { address: address.to_owned(), cause };
        match tokio::time::timeout(limit, self.connect_slot(&slot, address)).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(cause)) => Err(failed(cause)),
            Err(_elapsed) => Err(failed(format!("no answer within {} ms", limit.as_millis()))),
        }
    }

    async fn connect_slot(&self, slot: &Slot, address: &str) -> Result<Arc<Connection>, String> {
        let begun = Instant::now();
        let mut attempt = slot.attempt.lock().await;
        if let Some(connection) = slot.open() {
            return Ok(connection);
        }
        if let Some((at, cause)) = &attempt.failed
            && *at >= begun
        {
            return Err(cause.clone());
        }
        match self.open(address).await {
            Ok(connection) => {
                attempt.failed = None;
                *slot.lock() = Some(Arc::clone(&connection));
                // A close that came meanwhile has not seen this connection.
                if self.lock().closed {
                    connection.close();
                }
                Ok(connection)
            }
            Err(error) => {
                let cause = error.to_string();
                attempt.failed = Some((Instant::now(), cause.clone()));
                Err(cause)
            }
        }
    }

    async fn open(&self, address: &str) -> io::Result<Arc<Connection>> {
        let (host, port) = split_address(address)?;
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for target in lookup_host((host, port)).await? {
            match TcpStream::connect(target).await {
                Ok(stream) => return self.adopt(stream, host).await,
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn adopt(&self, stream: TcpStream, host: &str) -> io::Result<Arc<Connection>> {
        stream.set_nodelay(true)?;
        let limits = self.options.limits.clone();
        let connection = Connection::new(stream.peer_addr()?, stream.local_addr()?, limits);
        match &self.options.tls {
            Some(tls) => self.run(Box::new(tls.connect(host, stream).await?), &connection),
            None => self.run(stream, &connection),
        }
        Ok(connection)
    }

    /// Drives a connection in a task of its own.
    fn run<S>(&self, stream: S, connection: &Arc<Connection>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (limits, handler) = (self.options.limits.clone(), Arc::clone(&self.handler));
        let connection = Arc::clone(connection);
        tokio::spawn(async move {
            let reason = drive(stream, &connection, limits, &handler).await;
            let (peer, id) = (connection.remote_addr(), connection.id());
            if reason.is_ordinary() {
                debug!(%peer, id, %reason, "connection closed");
            } else {
                warn!(%peer, id, %reason, "connection closed");
            }
        });
    }

    fn slot(&self, address: &str) -> Option<Arc<Slot>> {
        let mut state = self.lock();
        if state.closed {
            return None;
        }
        if let Some(slot) = state.slots.get(address) {
            return Some(Arc::clone(slot));
        }
        if state.slots.len() >= SLOTS_KEPT {
            // Addresses of a changing world are forgotten once nothing is connected to them.
            state.slots.retain(|_, slot| slot.open().is_some() || Arc::strong_count(slot) > 1);
        }
        let slot = Arc::new(Slot::default());
        state.slots.insert(address.to_owned(), Arc::clone(&slot));
        Some(slot)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Slot {
    fn open(&self) -> Option<Arc<Connection>> {
        self.lock().as_ref().filter(|connection| connection.is_open()).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Connection>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers requests of a server to a client that expects none.
struct NoRequests;

impl Handler for NoRequests {
    fn handle(&self, _connection: &Arc<Connection>, request: Command, responder: Responder) {
        let remark = format!(" request type {} not supported", request.code);
        responder
            .send(request.response(code::response::REQUEST_CODE_NOT_SUPPORTED).with_remark(remark));
    }
}

/// Splits `host:port` at the last colon, as Java does; brackets around an IPv6 host are optional.
fn split_address(address: &str) -> io::Result<(&str, u16)> {
    let invalid = || {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("address {address:?} is not host:port, as in 127.0.0.1:9876"),
        )
    };
    let (host, port) = address.trim().rsplit_once(':').ok_or_else(invalid)?;
    let port = port.parse().map_err(|_not_a_port| invalid())?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if host.is_empty() { Err(invalid()) } else { Ok((host, port)) }
}

/// Bytes that may wait for one peer before requests without an answer wait, too. It lies far below
/// [`Limits::outbox_limit_bytes`], at which the connection is closed.
const ONEWAY_QUEUED_BYTES: usize = 4 << 20;
/// Time between looks at them.
const ONEWAY_PAUSE: Duration = Duration::from_millis(1);
/// Addresses that are remembered without a look at which are still in use.
const SLOTS_KEPT: usize = 1024;

#[cfg(test)]
mod tests {
    use super::split_address;

    #[test]
    fn addresses_are_split_at_the_last_colon() {
        assert_eq!(split_address("broker-a:10911").expect("valid"), ("broker-a", 10911));
        assert_eq!(split_address("::1:10911").expect("valid"), ("::1", 10911));
        assert_eq!(split_address(" [::1]:10911 ").expect("valid"), ("::1", 10911));
        for wrong in ["", "host", ":9876", "host:", "host:99999", "host:-1"] {
            let error = split_address(wrong).expect_err(wrong).to_string();
            assert!(error.contains("host:port"), "{error}");
        }
    }
}
