//! The client's side.

use std::io;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tracing::{debug, info, warn};

use super::reload::Reloading;
use super::unverified::AnyServer;
use super::{TlsClientSettings, TlsError, TlsServerSettings, files, provider};

/// TLS as a client uses it.
#[derive(Debug)]
pub struct TlsClient {
    server_name: Option<ServerName<'static>>,
    config: Arc<Reloading<ClientConfig>>,
}

impl TlsClient {
    /// Reads what is trusted, and what is shown. `None` where TLS is not enabled.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn new(settings: &TlsClientSettings) -> Result<Option<Arc<Self>>, TlsError> {
        if !settings.enabled {
            return Ok(None);
        }
        if settings.certificate.as_os_str().is_empty() != settings.key.as_os_str().is_empty() {
            return Err(TlsError::Contradiction(
                "tls.client.certPath and tls.client.keyPath go together: set both or none",
            ));
        }
        if settings.trusts_any_server {
            warn!("TLS without verification: any server is taken for the right one");
        }
        let server_name = if settings.server_name.is_empty() {
            None
        } else {
            Some(name(&settings.server_name).map_err(TlsError::SetUp)?)
        };
        let all = [&settings.trust, &settings.certificate, &settings.key];
        let files = all.into_iter().filter(|path| !path.as_os_str().is_empty()).cloned().collect();
        let of = settings.clone();
        let config = Arc::new(Reloading::new(files, move || config(&of))?);
        Ok(Some(Arc::new(Self { server_name, config })))
    }

    /// Finishes a handshake with a server, whose certificate must be of `host` unless another name
    /// was set.
    pub(crate) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        if self.config.is_due(TlsServerSettings::LOOK) {
            let config = Arc::clone(&self.config);
            match tokio::task::spawn_blocking(move || config.look()).await {
                Ok(Ok(true)) => info!("TLS files were read again"),
                Ok(Ok(false)) => {}
                Ok(Err(cause)) => warn!(%cause, "changed TLS files cannot be used"),
                Err(panicked) => warn!(%panicked, "TLS files could not be looked at"),
            }
        }
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => name(host).map_err(io::Error::other)?,
        };
        let connector = TlsConnector::from(self.config.current());
        connector.connect(name, stream).await.map_err(|error| {
            debug!(host, %error, "TLS handshake");
            io::Error::new(error.kind(), explained(&error, host))
        })
    }
}

/// The cause in words that say what to do.
fn explained(error: &io::Error, host: &str) -> String {
    let text = error.to_string();
    let rustls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let next = match rustls {
        Some(rustls::Error::InvalidCertificate(cause)) => match cause {
            rustls::CertificateError::UnknownIssuer | rustls::CertificateError::BadSignature => {
                "it is signed by nobody that is trusted here: set tls.client.trustCertPath (--tls-ca) to the CA's certificate"
            }
            rustls::CertificateError::NotValidForName
            | rustls::CertificateError::NotValidForNameContext { .. } => {
                "the certificate is of another name: set tls.client.serverName (--tls-server-name) to one of its names"
            }
            rustls::CertificateError::Expired | rustls::CertificateError::ExpiredContext { .. } => {
                "the server's certificate has expired: renew it"
            }
            _ => "the server's certificate is not good",
        },
        Some(rustls::Error::AlertReceived(_)) => {
            "the server refused: it may want a certificate of the client (tls.client.certPath, keyPath)"
        }
        Some(rustls::Error::InvalidMessage(_)) => "the server does not speak TLS on this port",
        _ if error.kind() == io::ErrorKind::UnexpectedEof => {
            "the server closed: TLS may be disabled there (tls.server.mode)"
        }
        _ => "handshake",
    };
    format!("TLS with {host}: {next} ({text})")
}

/// A host's name or address as certificates have them.
fn name(host: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(host.to_owned())
        .map_err(|_invalid| format!("{host:?} is no name that a certificate can have"))
}

fn config(settings: &TlsClientSettings) -> Result<ClientConfig, TlsError> {
    let set_up = |error: rustls::Error| TlsError::SetUp(error.to_string());
    let provider = provider();
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(set_up)?;
    let builder = if settings.trusts_any_server {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider)))
    } else {
        builder.with_root_certificates(roots(settings)?)
    };
    if settings.certificate.as_os_str().is_empty() {
        return Ok(builder.with_no_client_auth());
    }
    let chain = files::chain("tls.client.certPath", &settings.certificate)?;
    let key = files::private_key("tls.client.keyPath", &settings.key, &settings.key_password)?;
    builder.with_client_auth_cert(chain, key).map_err(set_up)
}

fn roots(settings: &TlsClientSettings) -> Result<Arc<RootCertStore>, TlsError> {
    if !settings.trust.as_os_str().is_empty() {
        return files::trusted("tls.client.trustCertPath", &settings.trust);
    }
    let mut store = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (added, ignored) = store.add_parsable_certificates(found.certs);
    debug!(added, ignored, "certificates that the system trusts");
    if added == 0 {
        return Err(TlsError::Missing {
            key: "tls.client.trustCertPath",
            because: "this system trusts no certificates of its own",
        });
    }
    Ok(Arc::new(store))
}
