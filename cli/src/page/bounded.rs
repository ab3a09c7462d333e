//! Connections of the page: so many at a time, and each with a deadline.
//!
//! The page is for probes and scrapes of this machine. Whoever else reaches it may hold neither a
//! connection for ever nor all of them.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::serve::Listener;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, Sleep, sleep, sleep_until},
};

/// Connections at a time; one more is closed at once.
const CONNECTIONS: usize = 32;
/// Time from the begin of a connection, or from the last answer on it, to the next answer.
const DEADLINE: Duration = Duration::from_secs(10);
/// Pause after an accept that failed, most likely for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// A listener with these bounds.
#[derive(Debug)]
pub(super) struct BoundedListener {
    listener: TcpListener,
    places: Arc<Semaphore>,
    deadline: Duration,
    /// Whether the last accept failed: the log tells the first of a row.
    failing: bool,
}

impl BoundedListener {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self::with(listener, CONNECTIONS, DEADLINE)
    }

    pub(super) fn with(listener: TcpListener, connections: usize, deadline: Duration) -> Self {
        let places = Arc::new(Semaphore::new(connections));
        Self { listener, places, deadline, failing: false }
    }
}

impl Listener for BoundedListener {
    type Io = BoundedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (BoundedStream, SocketAddr) {
        loop {
            let (stream, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    if !std::mem::replace(&mut self.failing, true) {
                        tracing::warn!(%error, "the HTTP page cannot accept connections");
                    }
                    sleep(PAUSE).await;
                    continue;
                }
            };
            self.failing = false;
            match Arc::clone(&self.places).try_acquire_owned() {
                Ok(place) => {
                    let timer = Box::pin(sleep(self.deadline));
                    let deadline = self.deadline;
                    return (BoundedStream { stream, timer, deadline, _place: place }, peer);
                }
                Err(_full) => tracing::debug!(%peer, "the HTTP page has no place left"),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection with a deadline that each written answer moves.
#[derive(Debug)]
pub(super) struct BoundedStream {
    stream: TcpStream,
    timer: Pin<Box<Sleep>>,
    deadline: Duration,
    _place: OwnedSemaphorePermit,
}

impl BoundedStream {
    /// Fails once the time is over, and wakes the task then.
    fn in_time(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.timer.as_mut().poll(context) {
            Poll::Pending => Ok(()),
            Poll::Ready(()) => {
                // A timer that has fired must not be asked again.
                self.timer = Box::pin(sleep_until(Instant::now() + self.deadline));
                Err(io::ErrorKind::TimedOut.into())
            }
        }
    }
}

impl AsyncRead for BoundedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.in_time(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for BoundedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.in_time(context)?;
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if let Poll::Ready(Ok(_)) = written {
            let next = Instant::now() + self.deadline;
            self.timer.as_mut().reset(next);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
