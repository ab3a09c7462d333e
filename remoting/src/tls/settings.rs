//! Settings of TLS by Java's names (`TlsSystemConfig.java`, `TlsHelper.java`).

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use protocol::properties_text;
use zeroize::Zeroizing;

/// What a server does with TLS and with plain connections (`tls.server.mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsMode {
    /// TLS is refused.
    Disabled,
    /// Both are taken. Without a certificate it is as `Disabled`.
    #[default]
    Permissive,
    /// Plain connections are refused.
    Enforcing,
}

/// Whether clients show a certificate (`tls.server.need.client.auth`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientAuth {
    /// They are not asked for one.
    #[default]
    None,
    /// They are asked, and one that they show must be good.
    Optional,
    /// They must show a good one.
    Require,
}

/// A text that is never printed, and that leaves memory with its owner.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

/// Settings of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsServerSettings {
    /// `tls.server.mode`.
    pub mode: TlsMode,
    /// `tls.server.certPath`: the chain, PEM.
    pub certificate: PathBuf,
    /// `tls.server.keyPath`: PEM; PKCS #8, PKCS #1 or SEC 1.
    pub key: PathBuf,
    /// `tls.server.keyPassword`.
    pub key_password: Secret,
    /// `tls.server.need.client.auth`.
    pub client_auth: ClientAuth,
    /// `tls.server.authClient=false`, which Java takes for "any certificate will do".
    pub trusts_any_client: bool,
    /// `tls.server.trustCertPath`: who signs the certificates of clients, PEM.
    pub trust: PathBuf,
    /// `tls.test.mode.enable`: a certificate is made at start, and nothing is verified.
    pub test_mode: bool,
    /// Time from the connection to the end of the handshake; also for the first byte of a plain
    /// one. Zero is [`TlsServerSettings::HANDSHAKE`].
    pub handshake: Duration,
    /// Time between two looks whether files have changed. Zero is [`TlsServerSettings::LOOK`].
    pub look: Duration,
}

impl TlsServerSettings {
    /// Time for a handshake where none is set.
    pub const HANDSHAKE: Duration = Duration::from_secs(10);
    /// Time between two looks at the files where none is set.
    pub const LOOK: Duration = Duration::from_secs(2);
}

/// Settings of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsClientSettings {
    /// `tls.enable`.
    pub enabled: bool,
    /// `tls.client.trustCertPath`: who signs the certificates of servers, PEM. Empty: those that
    /// the system trusts.
    pub trust: PathBuf,
    /// `tls.client.certPath`: what the client shows, PEM; empty: nothing.
    pub certificate: PathBuf,
    /// `tls.client.keyPath`.
    pub key: PathBuf,
    /// `tls.client.keyPassword`.
    pub key_password: Secret,
    /// `tls.client.authServer=false` or `tls.test.mode.enable=true`: any server is taken.
    pub trusts_any_server: bool,
    /// `tls.client.serverName` (LedgerMQ only): the name that certificates of servers must have;
    /// empty: the host that was connected to.
    pub server_name: String,
}

/// Settings of both sides, as files and command lines have them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// Of the server.
    pub server: TlsServerSettings,
    /// Of the client.
    pub client: TlsClientSettings,
}

/// Why a setting is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsKeyError {
    /// The key cannot have this value.
    #[error("{key}={value}: allowed is {allowed}")]
    Value {
        /// The key.
        key: String,
        /// The value as written.
        value: String,
        /// What may be written.
        allowed: &'static str,
    },
    /// The file of settings cannot be used.
    #[error("tls.config.file={path}: {cause}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        cause: String,
    },
}

/// A name and what it sets; `false` where the value is not one of the key's.
type Setting = (&'static str, fn(&mut TlsSettings, &str) -> Result<(), &'static str>);

/// Every key but `tls.config.file`.
const SETTINGS: &[Setting] = &[
    ("tls.server.mode", |to, value| value.parse().map(|mode| to.server.mode = mode)),
    ("tls.server.certPath", |to, value| path(&mut to.server.certificate, value)),
    ("tls.server.keyPath", |to, value| path(&mut to.server.key, value)),
    ("tls.server.keyPassword", |to, value| secret(&mut to.server.key_password, value)),
    ("tls.server.need.client.auth", |to, value| {
        value.parse().map(|auth| to.server.client_auth = auth)
    }),
    ("tls.server.authClient", |to, value| {
        boolean(value).map(|checks| to.server.trusts_any_client = !checks)
    }),
    ("tls.server.trustCertPath", |to, value| path(&mut to.server.trust, value)),
    ("tls.test.mode.enable", |to, value| boolean(value).map(|test| to.server.test_mode = test)),
    ("tls.enable", |to, value| boolean(value).map(|enabled| to.client.enabled = enabled)),
    ("tls.client.certPath", |to, value| path(&mut to.client.certificate, value)),
    ("tls.client.keyPath", |to, value| path(&mut to.client.key, value)),
    ("tls.client.keyPassword", |to, value| secret(&mut to.client.key_password, value)),
    ("tls.client.authServer", |to, value| {
        boolean(value).map(|checks| to.client.trusts_any_server = !checks)
    }),
    ("tls.client.trustCertPath", |to, value| path(&mut to.client.trust, value)),
    ("tls.client.serverName", |to, value| {
        value.clone_into(&mut to.client.server_name);
        Ok(())
    }),
];

impl TlsSettings {
    /// The file that is read where it exists (`TlsSystemConfig.tlsConfigFile`).
    pub const FILE: &str = "/etc/rocketmq/tls.properties";

    /// Whether a key is one of these.
    pub fn is_key(name: &str) -> bool {
        SETTINGS.iter().any(|(known, _)| *known == name)
    }

    /// Sets one key; `false` where it is none of TLS.
    ///
    /// # Errors
    /// [`TlsKeyError::Value`].
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, TlsKeyError> {
        let Some((_, set)) = SETTINGS.iter().find(|(known, _)| *known == name) else {
            return Ok(false);
        };
        set(self, value.trim()).map_err(|allowed| TlsKeyError::Value {
            key: name.to_owned(),
            // A password that is refused is not repeated: but passwords are never refused.
            value: value.trim().to_owned(),
            allowed,
        })?;
        Ok(true)
    }

    /// Reads a file of settings over these (`TlsHelper.extractTlsConfigFromFile`), and gives the
    /// names in it that are unknown. A file that does not exist changes nothing.
    ///
    /// # Errors
    /// It cannot be read, is no properties file, or a key cannot have its value.
    pub fn read_file(&mut self, path: &Path) -> Result<Vec<String>, TlsKeyError> {
        let failed = |cause: String| TlsKeyError::File { path: path.display().to_string(), cause };
        let bytes = match std::fs::read(path) {
            Ok(bytes) => Zeroizing::new(bytes),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error.to_string())),
        };
        let text = std::str::from_utf8(&bytes).map_err(|error| failed(error.to_string()))?;
        let pairs = properties_text::parse(text).map_err(|error| failed(error.to_string()))?;
        let mut unknown = Vec::new();
        for (name, value) in pairs {
            if !self.set(&name, &value)? {
                unknown.push(name);
            }
        }
        Ok(unknown)
    }

    /// Every key with its value; of passwords only stars.
    pub fn print(&self) -> Vec<(&'static str, String)> {
        let (server, client) = (&self.server, &self.client);
        let path = |path: &PathBuf| path.display().to_string();
        let stars = |secret: &Secret| {
            if secret.is_empty() { String::new() } else { Secret::STARS.to_owned() }
        };
        vec![
            ("tls.server.mode", server.mode.to_string()),
            ("tls.server.certPath", path(&server.certificate)),
            ("tls.server.keyPath", path(&server.key)),
            ("tls.server.keyPassword", stars(&server.key_password)),
            ("tls.server.need.client.auth", server.client_auth.to_string()),
            ("tls.server.authClient", (!server.trusts_any_client).to_string()),
            ("tls.server.trustCertPath", path(&server.trust)),
            ("tls.test.mode.enable", server.test_mode.to_string()),
            ("tls.enable", client.enabled.to_string()),
            ("tls.client.certPath", path(&client.certificate)),
            ("tls.client.keyPath", path(&client.key)),
            ("tls.client.keyPassword", stars(&client.key_password)),
            ("tls.client.authServer", (!client.trusts_any_server).to_string()),
            ("tls.client.trustCertPath", path(&client.trust)),
            ("tls.client.serverName", client.server_name.clone()),
        ]
    }

    /// The settings of the server, with what both sides share.
    pub fn of_server(&self) -> TlsServerSettings {
        self.server.clone()
    }

    /// The settings of the client, with what both sides share: test mode trusts every server.
    pub fn of_client(&self) -> TlsClientSettings {
        let mut client = self.client.clone();
        client.trusts_any_server |= self.server.test_mode;
        client
    }
}

impl Secret {
    /// What is printed in its place.
    pub const STARS: &str = "******";

    /// The text.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(Zeroizing::new(text.to_owned()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.is_empty() { "none" } else { Self::STARS })
    }
}

impl FromStr for TlsMode {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "disabled" => Ok(Self::Disabled),
            "permissive" => Ok(Self::Permissive),
            "enforcing" => Ok(Self::Enforcing),
            _ => Err(Self::ALLOWED),
        }
    }
}

impl TlsMode {
    /// What may be written.
    pub const ALLOWED: &str = "disabled, permissive or enforcing";
}

impl fmt::Display for TlsMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Disabled => "disabled",
            Self::Permissive => "permissive",
            Self::Enforcing => "enforcing",
        })
    }
}

impl FromStr for ClientAuth {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self::None),
            "optional" => Ok(Self::Optional),
            "require" => Ok(Self::Require),
            _ => Err(Self::ALLOWED),
        }
    }
}

impl ClientAuth {
    /// What may be written.
    pub const ALLOWED: &str = "none, optional or require";
}

impl fmt::Display for ClientAuth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::None => "none",
            Self::Optional => "optional",
            Self::Require => "require",
        })
    }
}

fn path(to: &mut PathBuf, value: &str) -> Result<(), &'static str> {
    *to = PathBuf::from(value);
    Ok(())
}

fn secret(to: &mut Secret, value: &str) -> Result<(), &'static str> {
    *to = Secret::from(value);
    Ok(())
}

fn boolean(value: &str) -> Result<bool, &'static str> {
    match value {
        _ if value.eq_ignore_ascii_case("true") => Ok(true),
        _ if value.eq_ignore_ascii_case("false") => Ok(false),
        _ => Err("true or false"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_javas_sets_both_sides_and_tells_what_it_does_not_know() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("tls.properties");
        let text = concat!(
            "tls.test.mode.enable=false\ntls.server.need.client.auth=require\n",
            "tls.server.keyPath=/etc/rocketmq/server.key\ntls.server.keyPassword=planted\n",
            "tls.server.certPath=/etc/rocketmq/server.pem\ntls.client.authServer=true\n",
            "tls.client.trustCertPath=/etc/rocketmq/ca.pem\ntls.clinet.keyPath=x\n",
        );
        std::fs::File::create(&file)
            .and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()))
            .expect("written");
        let mut settings = TlsSettings::default();
        let unknown = settings.read_file(&file).expect("a sound file");
        assert_eq!(unknown, ["tls.clinet.keyPath"]);
        assert_eq!(settings.server.client_auth, ClientAuth::Require);
        assert_eq!(settings.server.key, Path::new("/etc/rocketmq/server.key"));
        assert_eq!(settings.client.trust, Path::new("/etc/rocketmq/ca.pem"));
        assert_eq!(settings.server.key_password.expose(), "planted");
        assert!(!format!("{settings:?}").contains("planted"));
    }

    #[test]
    fn a_file_that_is_absent_changes_nothing_and_wrong_values_are_refused() {
        let mut settings = TlsSettings::default();
        assert_eq!(settings.read_file(Path::new("/no/such/file")), Ok(Vec::new()));
        let error = settings.set("tls.server.mode", "on").expect_err("refused").to_string();
        assert_eq!(error, "tls.server.mode=on: allowed is disabled, permissive or enforcing");
        assert_eq!(settings.set("tls.enable", " TRUE "), Ok(true));
        assert_eq!(settings.set("listenPort", "1"), Ok(false));
        assert!(settings.client.enabled);
    }
}
