//! The server's side: sniffing, handshake, reload.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::reload::Reloading;
use super::{ClientAuth, HELLO, TlsError, TlsMode, TlsServerSettings, files, provider, unverified};
use crate::error::CloseReason;

/// TLS as a server offers it.
#[derive(Debug)]
pub struct TlsServer {
    mode: TlsMode,
    handshake: Duration,
    look: Duration,
    config: Reloading<ServerConfig>,
}

/// A TLS connection of a server.
pub(crate) type Stream = TlsStream<TcpStream>;

/// A connection that may be served.
#[derive(Debug)]
pub(crate) enum Accepted {
    Plain(TcpStream),
    Tls(Box<Stream>),
}

impl TlsServer {
    /// Reads certificate and key. `None` where no TLS is offered: the mode is disabled, or it is
    /// permissive and no certificate is named.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn new(settings: &TlsServerSettings) -> Result<Option<Arc<Self>>, TlsError> {
        let named = !settings.certificate.as_os_str().is_empty();
        match settings.mode {
            TlsMode::Disabled => return Ok(None),
            TlsMode::Permissive if !named && !settings.test_mode => return Ok(None),
            TlsMode::Permissive | TlsMode::Enforcing => check(settings)?,
        }
        let files = if settings.test_mode {
            warn!("tls.test.mode.enable: the certificate is made up and clients are not verified");
            Vec::new()
        } else {
            let all = [&settings.certificate, &settings.key, &settings.trust];
            all.into_iter().filter(|path| !path.as_os_str().is_empty()).cloned().collect()
        };
        let of = settings.clone();
        let config = Reloading::new(files, move || config(&of))?;
        let or = |given: Duration, usual| if given.is_zero() { usual } else { given };
        info!(mode = %settings.mode, clients = %settings.client_auth, "TLS is offered");
        Ok(Some(Arc::new(Self {
            mode: settings.mode,
            handshake: or(settings.handshake, TlsServerSettings::HANDSHAKE),
            look: or(settings.look, TlsServerSettings::LOOK),
            config,
        })))
    }

    /// Tells TLS from plain by the first byte, and finishes the handshake of TLS, within the time
    /// for it.
    pub(crate) async fn accept(&self, stream: TcpStream) -> Result<Accepted, CloseReason> {
        tokio::time::timeout(self.handshake, self.sniff(stream))
            .await
            .unwrap_or(Err(CloseReason::SlowHandshake(self.handshake)))
    }

    async fn sniff(&self, stream: TcpStream) -> Result<Accepted, CloseReason> {
        let mut first = [0];
        if stream.peek(&mut first).await? == 0 {
            return Err(CloseReason::PeerClosed);
        }
        if first[0] != HELLO {
            return match self.mode {
                TlsMode::Enforcing => Err(CloseReason::PlainRefused),
                TlsMode::Permissive | TlsMode::Disabled => Ok(Accepted::Plain(stream)),
            };
        }
        let acceptor = TlsAcceptor::from(self.config.current());
        match acceptor.accept(stream).await {
            Ok(stream) => Ok(Accepted::Tls(Box::new(stream))),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Err(error.into()),
            Err(error) => Err(CloseReason::Handshake(error.to_string())),
        }
    }

    /// Looks for changed files until it is told to stop.
    pub(crate) async fn watch(self: Arc<Self>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(self.look) => {}
            }
            if !self.config.is_due(self.look) {
                continue;
            }
            let this = Arc::clone(&self);
            let looked = tokio::task::spawn_blocking(move || this.config.look()).await;
            match looked {
                Ok(Ok(true)) => info!("TLS certificate and key were read again"),
                Ok(Ok(false)) => {}
                Ok(Err(cause)) => {
                    error!(%cause, "changed TLS files cannot be used; the former ones stay in use");
                }
                Err(panicked) => error!(%panicked, "TLS files could not be looked at"),
            }
        }
    }
}

/// What the keys must have in common.
fn check(settings: &TlsServerSettings) -> Result<(), TlsError> {
    let missing = |path: &Path| path.as_os_str().is_empty();
    if settings.test_mode {
        return Ok(());
    }
    let because = "TLS is to be offered (tls.server.mode)";
    if missing(&settings.certificate) {
        return Err(TlsError::Missing { key: "tls.server.certPath", because });
    }
    if missing(&settings.key) {
        return Err(TlsError::Missing { key: "tls.server.keyPath", because });
    }
    if settings.client_auth == ClientAuth::None {
        return Ok(());
    }
    if settings.trusts_any_client {
        return Err(TlsError::Contradiction(
            "tls.server.authClient=false with tls.server.need.client.auth: certificates of clients are always verified; leave tls.server.authClient out, or write need.client.auth=none",
        ));
    }
    if missing(&settings.trust) {
        let because = "tls.server.need.client.auth asks clients for certificates";
        return Err(TlsError::Missing { key: "tls.server.trustCertPath", because });
    }
    Ok(())
}

fn config(settings: &TlsServerSettings) -> Result<ServerConfig, TlsError> {
    let set_up = |error: rustls::Error| TlsError::SetUp(error.to_string());
    let provider = provider();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(set_up)?;
    let builder = if settings.test_mode || settings.client_auth == ClientAuth::None {
        builder.with_no_client_auth()
    } else {
        let roots = files::trusted("tls.server.trustCertPath", &settings.trust)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
        let verifier = match settings.client_auth {
            ClientAuth::Require => verifier,
            ClientAuth::Optional | ClientAuth::None => verifier.allow_unauthenticated(),
        };
        builder.with_client_cert_verifier(
            verifier.build().map_err(|error| TlsError::SetUp(error.to_string()))?,
        )
    };
    let (chain, key) = if settings.test_mode && settings.certificate.as_os_str().is_empty() {
        unverified::own_certificate()?
    } else {
        let chain = files::chain("tls.server.certPath", &settings.certificate)?;
        let password = &settings.key_password;
        (chain, files::private_key("tls.server.keyPath", &settings.key, password)?)
    };
    builder.with_single_cert(chain, key).map_err(set_up)
}
