//! The options of a name server, with Java's spelling of their keys (`NamesrvConfig.java`,
//! `NettyServerConfig.java`).

mod keys;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use protocol::properties_text::{self, PropertiesError};
use remoting::{TlsKeyError, TlsSettings};

use self::keys::{KEYS, Key, NEVER_CHANGED, NO_EFFECT};

/// How a name server runs.
#[derive(Debug, Clone)]
pub struct NamesrvOptions {
    /// Address to listen on; port 0 lets the system choose.
    pub listen: SocketAddr,
    /// File of the values that administrators keep here; without one they do not outlive the
    /// process.
    pub kv_path: Option<PathBuf>,
    /// Time without a byte after which a connection is closed.
    pub idle: Duration,
    /// Connections at one time.
    pub max_connections: usize,
    /// Connections of one address at one time.
    pub max_connections_of_address: usize,
    /// Whether code 318 is taken from other hosts; else only over loopback.
    pub update_from_anywhere: bool,
    /// TLS as `tls.*` keys have it, and over them `tls_file`.
    pub tls: TlsSettings,
    /// Java's file of TLS keys, which is read where it exists.
    pub tls_file: PathBuf,
    /// What may change while it runs.
    pub settings: Settings,
}

/// Settings that code 318 may change while the name server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Routes carry the queue order of the topic.
    pub order_message_enable: bool,
    /// A registration is answered with the queue orders of all topics.
    pub return_order_topic_config: bool,
    /// The list of all topics is given out.
    pub enable_all_topic_list: bool,
    /// A slave may stand in for a missing master in routes.
    pub support_acting_master: bool,
    /// A full registration removes the broker's topics that it does not name.
    pub delete_absent_topics: bool,
    /// Routes are given out only after `wait_for_service`.
    pub need_wait_for_service: bool,
    /// Time for brokers to register before routes are given out.
    pub wait_for_service: Duration,
    /// Time between two looks for brokers without a sign of life.
    pub scan_interval: Duration,
}

/// Why a configuration is not taken; nothing of it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The text is no properties text.
    #[error("the configuration cannot be read: {0}")]
    Syntax(#[from] PropertiesError),
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
    /// The value asks for what is not built.
    #[error("{key}={value} is not supported: {instead}")]
    Refused {
        /// The key.
        key: String,
        /// The value as written.
        value: String,
        /// What to do instead.
        instead: &'static str,
    },
    /// The key is not known; while running, such keys are not passed over.
    #[error("{0} is no key of the name server")]
    Unknown(String),
    /// A TLS key cannot have its value, or the file of them cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsKeyError),
    /// The key is read at start only.
    #[error("{0} is fixed while the name server runs: set it in its file and restart")]
    Fixed(String),
}

/// What a key is to the name server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// It has an effect.
    Effective,
    /// Java knows it; it has no effect here.
    Idle,
    /// It is not known.
    Unknown {
        /// The known key that is spelt most like it, where one is near.
        nearest: Option<&'static str>,
    },
}

impl Default for NamesrvOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 9876),
            kv_path: std::env::home_dir().map(|home| home.join("namesrv").join("kvConfig.json")),
            idle: Duration::from_secs(120),
            max_connections: 10_000,
            max_connections_of_address: 10_000,
            update_from_anywhere: false,
            tls: TlsSettings::default(),
            tls_file: PathBuf::from(TlsSettings::FILE),
            settings: Settings::default(),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            order_message_enable: false,
            return_order_topic_config: true,
            enable_all_topic_list: true,
            support_acting_master: false,
            delete_absent_topics: false,
            need_wait_for_service: false,
            wait_for_service: Duration::from_secs(45),
            scan_interval: Duration::from_secs(5),
        }
    }
}

impl NamesrvOptions {
    /// Reads a configuration file; see [`Self::from_pairs`].
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn parse(text: &str) -> Result<(Self, Vec<String>), ConfigError> {
        let pairs = properties_text::parse(text)?;
        Self::from_pairs(pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())))
    }

    /// Reads pairs of a configuration file over the defaults, and tells what is passed over:
    /// unknown keys, with the nearest known one, and keys without effect here.
    ///
    /// # Errors
    /// [`ConfigError::Value`] and [`ConfigError::Refused`].
    pub fn from_pairs<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<(Self, Vec<String>), ConfigError> {
        let (mut options, mut warnings) = (Self::default(), Vec::new());
        for (name, value) in pairs {
            match key(name) {
                Some(key) => set(&mut options, key, value)?,
                None if options.tls.set(name, value)? => {}
                None if NO_EFFECT.contains(&name) => {
                    warnings.push(format!("{name} has no effect on this name server"));
                }
                None => warnings.push(unknown(name)),
            }
        }
        Ok((options, warnings))
    }

    /// Changes keys while the name server runs: all of the pairs, or none. Keys that only size
    /// Java's thread pools are taken without effect, as tools set them.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn change<'a>(
        &mut self,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<(), ConfigError> {
        let mut changed = self.clone();
        for (name, value) in pairs {
            match key(name) {
                Some(key) if key.hot => set(&mut changed, key, value)?,
                Some(_) => return Err(ConfigError::Fixed(name.to_owned())),
                None if name.starts_with("tls.") || NEVER_CHANGED.contains(&name) => {
                    return Err(ConfigError::Fixed(name.chars().take(64).collect()));
                }
                None if NO_EFFECT.contains(&name) => {
                    tracing::info!(key = name, value, "a key without effect here was set");
                }
                None => return Err(ConfigError::Unknown(unknown(name))),
            }
        }
        *self = changed;
        Ok(())
    }

    /// What a key is to this name server. Java's names are case sensitive.
    #[must_use]
    pub fn key_kind(name: &str) -> KeyKind {
        if TlsSettings::is_key(name) {
            return KeyKind::Effective;
        }
        match (key(name), NO_EFFECT.contains(&name)) {
            (Some(_), _) => KeyKind::Effective,
            (None, true) => KeyKind::Idle,
            (None, false) => KeyKind::Unknown { nearest: nearest(name) },
        }
    }

    /// All keys with their values, a line each. Of passwords there are only stars.
    pub fn print(&self) -> String {
        KEYS.iter()
            .map(|key| (key.name, (key.get)(self)))
            .chain(self.tls.print())
            .map(|(name, value)| format!("{name}={value}\n"))
            .collect()
    }

    /// TLS as it is to be used: the keys of the configuration, and over them those of the file.
    ///
    /// # Errors
    /// [`ConfigError::Tls`].
    pub fn effective_tls(&self) -> Result<TlsSettings, ConfigError> {
        let mut settings = self.tls.clone();
        for name in settings.read_file(&self.tls_file)? {
            tracing::warn!(file = %self.tls_file.display(), "unknown key {name} is ignored");
        }
        Ok(settings)
    }
}

fn key(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

fn set(options: &mut NamesrvOptions, key: &Key, value: &str) -> Result<(), ConfigError> {
    let value = value.trim();
    (key.set)(options, value).map_err(|cause| match cause {
        keys::Cause::Allowed(allowed) => {
            ConfigError::Value { key: key.name.to_owned(), value: value.to_owned(), allowed }
        }
        keys::Cause::Instead(instead) => {
            ConfigError::Refused { key: key.name.to_owned(), value: value.to_owned(), instead }
        }
    })
}

/// Names further away than this are no typing error.
const FURTHEST: usize = 4;

fn unknown(name: &str) -> String {
    match nearest(name) {
        Some(known) => format!("{name} is no key of the name server; did you mean {known}?"),
        None => format!("{name} is no key of the name server"),
    }
}

/// The known key that is spelt most like an unknown one, where one is near.
fn nearest(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let names = KEYS.iter().map(|key| key.name).chain(NO_EFFECT.iter().copied());
    names
        .map(|known| (strsim::levenshtein(&lower, &known.to_ascii_lowercase()), known))
        .filter(|(distance, _)| *distance <= FURTHEST.min(name.len() / 2))
        .min()
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_back() {
        let printed = NamesrvOptions::default().print();
        let pairs = printed.lines().filter_map(|line| line.split_once('='));
        let (options, warnings) = NamesrvOptions::from_pairs(pairs).expect("our own output");
        assert_eq!((options.print(), warnings.len()), (printed, 0));
    }

    #[test]
    fn blanks_are_no_part_of_a_value_and_unknown_keys_are_named() {
        let pairs =
            [("listenPort", " 9877 "), ("orderMessageEnable", "true "), ("listenport", "1")];
        let (options, warnings) = NamesrvOptions::from_pairs(pairs).expect("good values");
        assert_eq!((options.listen.port(), options.settings.order_message_enable), (9877, true));
        assert_eq!(warnings, ["listenport is no key of the name server; did you mean listenPort?"]);
    }

    #[test]
    fn wrong_values_and_absent_modes_are_refused() {
        let error = |pair| NamesrvOptions::from_pairs([pair]).expect_err("refused").to_string();
        assert_eq!(error(("listenPort", "x")), "listenPort=x: allowed is a port, 0 to 65535");
        assert_eq!(
            error(("orderMessageEnable", "yes")),
            "orderMessageEnable=yes: allowed is true or false"
        );
        let refused = error(("enableControllerInNamesrv", "true"));
        assert!(refused.contains("elect their leader by themselves"), "{refused}");
    }

    #[test]
    fn a_running_name_server_takes_hot_keys_all_or_none() {
        let mut options = NamesrvOptions::default();
        options.change([("orderMessageEnable", "true")]).expect("a hot key");
        options.change([("clientRequestThreadPoolNums", "8")]).expect("a key without effect");
        assert!(options.settings.order_message_enable);
        let pairs = [("orderMessageEnable", "false"), ("kvConfigPath", "/etc/passwd")];
        assert_eq!(options.change(pairs), Err(ConfigError::Fixed("kvConfigPath".to_owned())));
        assert!(options.settings.order_message_enable, "nothing of it was taken");
        let unknown = options.change([("rocketmqHome2", "/")]).expect_err("unknown").to_string();
        assert!(unknown.contains("rocketmqHome2"), "{unknown}");
    }
}
