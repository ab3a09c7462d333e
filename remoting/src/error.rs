//! Why a call failed, and why a connection ended.

use std::io;
use std::time::Duration;

use protocol::frame::FrameError;

/// A call to a peer that brought no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// No connection could be made; nothing was sent.
    #[error("cannot connect to {address}: {cause}; check that it runs and that the port is open")]
    Connect {
        /// Address as the caller named it.
        address: String,
        /// What the operating system or the resolver said.
        cause: String,
    },
    /// The answer did not come in time. The peer may have acted on the request.
    #[error("no answer from {peer} to request code {code} within {} ms", timeout.as_millis())]
    Timeout {
        /// Address of the peer.
        peer: String,
        /// Request code.
        code: i32,
        /// Time that was allowed.
        timeout: Duration,
    },
    /// The connection was closed before the answer came. The peer may have acted on the request.
    #[error("connection to {peer} closed before request code {code} was answered")]
    Closed {
        /// Address of the peer.
        peer: String,
        /// Request code.
        code: i32,
    },
    /// The connection was already closed, or this client was; nothing was sent.
    #[error("connection to {peer} is closed; request code {code} was not sent")]
    NotOpen {
        /// Address of the peer.
        peer: String,
        /// Request code.
        code: i32,
    },
    /// Too many calls wait for this peer; nothing was sent.
    #[error("{pending} calls already wait for {peer}; request code {code} was not sent, try later")]
    Overloaded {
        /// Address of the peer.
        peer: String,
        /// Request code.
        code: i32,
        /// Calls that wait, which is the bound.
        pending: usize,
    },
}

impl CallError {
    /// Whether bytes of the request may have left, so that sending it again could do its work
    /// twice.
    pub fn may_have_been_sent(&self) -> bool {
        matches!(self, Self::Timeout { .. } | Self::Closed { .. })
    }
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum CloseReason {
    /// The peer closed it.
    #[error("closed by the peer")]
    PeerClosed,
    /// This side asked for it.
    #[error("closed by this side")]
    Requested,
    /// No byte moved for the idle time.
    #[error("idle for {} s", .0.as_secs())]
    Idle(Duration),
    /// A frame was begun and not finished in time.
    #[error("a frame was not complete {} ms after its first byte", .0.as_millis())]
    SlowFrame(Duration),
    /// The peer did not read what was sent to it.
    #[error("the peer read nothing for {} ms while bytes waited for it", .0.as_millis())]
    WriteStall(Duration),
    /// More bytes were queued to the peer than the bound.
    #[error("more than {0} bytes wait for a peer that does not read fast enough")]
    OutboxFull(usize),
    /// Bytes that are no frame, or a frame above the bound.
    #[error("undecodable frame: {0}")]
    BadFrame(FrameError),
    /// The first byte was that of a TLS hello.
    #[error(
        "the peer began with a TLS hello, and TLS is not offered here: set tls.server.certPath and tls.server.keyPath, or tls.enable=false at the peer"
    )]
    TlsHello,
    /// The first byte was not that of a TLS hello, and plain connections are refused.
    #[error(
        "the peer does not use TLS, and tls.server.mode is enforcing: set tls.enable=true at it"
    )]
    PlainRefused,
    /// The TLS handshake failed.
    #[error("TLS handshake: {0}")]
    Handshake(String),
    /// The first byte, or the end of the handshake, did not come in time.
    #[error("no first byte or no end of the TLS handshake within {} ms", .0.as_millis())]
    SlowHandshake(Duration),
    /// All connections together held too much, and this one the most.
    #[error("connections held more than their budget, and this one {0} bytes of it")]
    Greedy(usize),
    /// The socket failed.
    #[error("socket: {0}")]
    Io(#[from] io::Error),
}

impl CloseReason {
    /// Whether it is part of ordinary life, so that it needs no warning.
    pub fn is_ordinary(&self) -> bool {
        match self {
            Self::PeerClosed | Self::Requested | Self::Idle(_) => true,
            Self::Io(error) => matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::ConnectionAborted
                    // A TLS peer that closes without the word of farewell, as most do.
                    | io::ErrorKind::UnexpectedEof
            ),
            _ => false,
        }
    }
}
