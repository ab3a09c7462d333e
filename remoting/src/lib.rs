//! Connections that speak the RocketMQ remoting protocol: a server, a client, and the calls that
//! either side makes over one socket.
//!
//! A connection is symmetric: both sides send requests and answer them, each in its own space of
//! `opaque` numbers, told apart by bit 0 of the flag. One task drives one connection: it decodes
//! every frame that one read brought, hands each request to the [`Handler`], and writes all queued
//! frames with one vectored write. Every queue has a bound, and every wait a deadline; see
//! [`Limits`].
//!
//! TLS goes over the same port; see [`TlsServer`]. What all connections of a process hold together
//! has a bound of its own; see [`Budget`].
//!
//! Deliberately absent: an error answer to an undecodable frame (the connection is closed, as Java
//! does).

mod admission;
mod budget;
mod client;
mod codec;
mod connection;
mod driver;
mod error;
mod handler;
mod limits;
mod outbox;
mod pending;
mod quiet;
mod reader;
mod responder;
mod server;
mod tls;
mod writer;

pub use budget::Budget;
pub use client::{Client, ClientOptions};
pub use codec::{CodecError, FrameCodec};
pub use connection::Connection;
pub use error::{CallError, CloseReason};
pub use handler::Handler;
pub use limits::Limits;
pub use quiet::Quiet;
pub use responder::{Flush, Responder};
pub use server::{Server, ServerOptions};
pub use tls::{
    ClientAuth, Secret, TlsClient, TlsClientSettings, TlsError, TlsKeyError, TlsMode, TlsServer,
    TlsServerSettings, TlsSettings,
};

#[cfg(test)]
mod tests;
