//! How the client commands use TLS.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use client::{Secret, TlsClient, TlsClientSettings, TlsSettings};

/// TLS to name servers and brokers.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct TlsArgs {
    /// Speak TLS; every other flag of TLS says so as well
    #[arg(long, global = true)]
    pub(crate) tls: bool,

    /// Certificates that sign those of the servers, PEM [default: those that the system trusts]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,

    /// Certificate to show to servers that ask for one, PEM
    #[arg(long, global = true, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Private key of --tls-cert, PEM; its password is taken from LEDGERMQ_TLS_KEY_PASSWORD
    #[arg(long, global = true, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Name that the certificates of the servers must have [default: the host connected to]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) tls_server_name: Option<String>,

    /// Java's file of `tls.client.*` keys, which the flags come before
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) tls_config: Option<PathBuf>,

    /// Take any server for the right one: for tests only
    #[arg(long, global = true)]
    pub(crate) tls_insecure: bool,
}

impl TlsArgs {
    /// The client's side, or `None` where connections are plain.
    pub(crate) fn client(&self) -> anyhow::Result<Option<std::sync::Arc<TlsClient>>> {
        Ok(TlsClient::new(&self.settings()?)?)
    }

    fn settings(&self) -> anyhow::Result<TlsClientSettings> {
        let mut settings = TlsSettings::default();
        if let Some(file) = &self.tls_config {
            anyhow::ensure!(file.exists(), "--tls-config {} does not exist", file.display());
            let unknown = settings.read_file(file).context("--tls-config")?;
            for name in unknown {
                tracing::warn!(file = %file.display(), "unknown key {name} is ignored");
            }
        }
        let mut settings = settings.of_client();
        let path = |to: &mut PathBuf, flag: &Option<PathBuf>| {
            if let Some(flag) = flag {
                flag.clone_into(to);
            }
        };
        path(&mut settings.trust, &self.tls_ca);
        path(&mut settings.certificate, &self.tls_cert);
        path(&mut settings.key, &self.tls_key);
        if let Ok(password) = std::env::var("LEDGERMQ_TLS_KEY_PASSWORD") {
            settings.key_password = Secret::from(password.as_str());
        }
        if let Some(name) = &self.tls_server_name {
            settings.server_name.clone_from(name);
        }
        settings.trusts_any_server |= self.tls_insecure;
        settings.enabled |= self.is_meant();
        Ok(settings)
    }

    fn is_meant(&self) -> bool {
        let files = [&self.tls_ca, &self.tls_cert, &self.tls_config];
        self.tls
            || self.tls_insecure
            || self.tls_server_name.is_some()
            || files.into_iter().any(Option::is_some)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn flags_come_before_the_file_and_mean_tls() {
        let plain = TlsArgs::default().settings().unwrap();
        assert!(!plain.enabled);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let text = "tls.client.trustCertPath=/of/file\ntls.client.authServer=true\n";
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
        let args = TlsArgs { tls_config: Some(file.path().to_owned()), ..TlsArgs::default() };
        let settings = args.settings().unwrap();
        assert!(settings.enabled && !settings.trusts_any_server);
        assert_eq!(settings.trust, Path::new("/of/file"));
        let args = TlsArgs { tls_ca: Some("/of/flag".into()), ..args };
        assert_eq!(args.settings().unwrap().trust, Path::new("/of/flag"));
        let args = TlsArgs { tls_config: Some("/no/such".into()), ..TlsArgs::default() };
        assert!(args.settings().is_err());
    }
}
