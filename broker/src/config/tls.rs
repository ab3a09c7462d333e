//! TLS as configured.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use remoting::{TlsClientSettings, TlsKeyError, TlsServerSettings, TlsSettings};

use super::BrokerConfig;

impl BrokerConfig {
    /// TLS of this broker: the keys of broker.conf, and over them those of `tls.config.file`, as in
    /// Java (`TlsHelper.extractTlsConfigFromFile`).
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn tls(&self) -> Result<TlsSettings, TlsKeyError> {
        let mut settings = TlsSettings {
            server: TlsServerSettings {
                mode: self.tls_server_mode,
                certificate: PathBuf::from(&self.tls_server_cert_path),
                key: PathBuf::from(&self.tls_server_key_path),
                key_password: self.tls_server_key_password.clone(),
                client_auth: self.tls_server_need_client_auth,
                trusts_any_client: !self.tls_server_auth_client,
                trust: PathBuf::from(&self.tls_server_trust_cert_path),
                test_mode: self.tls_test_mode_enable,
                handshake: Duration::from_millis(self.tls_handshake_timeout_millis),
                ..TlsServerSettings::default()
            },
            client: TlsClientSettings {
                enabled: self.tls_enable,
                trust: PathBuf::from(&self.tls_client_trust_cert_path),
                certificate: PathBuf::from(&self.tls_client_cert_path),
                key: PathBuf::from(&self.tls_client_key_path),
                key_password: self.tls_client_key_password.clone(),
                trusts_any_server: !self.tls_client_auth_server,
                server_name: self.tls_client_server_name.clone(),
            },
        };
        for name in settings.read_file(Path::new(&self.tls_config_file))? {
            tracing::warn!(file = self.tls_config_file, "unknown key {name} is ignored");
        }
        Ok(settings)
    }
}
