//! TLS on either side of a connection, by rustls.
//!
//! A server tells TLS from plain frames by the first byte, on the same port
//! (`NettyRemotingServer.TlsModeHandler`). Certificates are read from PEM files and read again when
//! the files change; connections that are open go on with what they began with.
//!
//! Differences from Java: peers are verified unless test mode or `tls.client.authServer=false` says
//! otherwise, and without a certificate a server offers no TLS instead of one that it made up.

mod client;
mod error;
mod files;
mod reload;
mod server;
mod settings;
mod unverified;

pub use client::TlsClient;
pub use error::TlsError;
pub use server::TlsServer;
pub use settings::{
    ClientAuth, Secret, TlsClientSettings, TlsKeyError, TlsMode, TlsServerSettings, TlsSettings,
};

pub(crate) use server::{Accepted, Stream};

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

/// First byte of a TLS hello. As the length of a frame it would claim more than 369 MB.
pub(crate) const HELLO: u8 = 0x16;

/// The algorithms, given by name: no process-wide default is set or asked for.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
