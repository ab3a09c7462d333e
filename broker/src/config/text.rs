//! Reading and printing of configuration: broker.conf, `--set`, and the bodies of
//! GET_BROKER_CONFIG and UPDATE_BROKER_CONFIG.

use super::{BrokerConfig, Change, Host, KEYS, KNOWN, Key, REFUSALS, host, nearest};

/// A configuration and what is to be said about it.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The configuration.
    pub config: BrokerConfig,
    /// Sentences for the operator: unknown keys, keys without effect.
    pub warnings: Vec<String>,
}

/// Why a configuration is not taken. Nothing of it is applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The text is no properties file.
    #[error("configuration cannot be read: {0}")]
    Syntax(String),
    /// The value is not one that the key can have.
    #[error("{key}={value}: allowed is {allowed}")]
    Value {
        /// The key.
        key: String,
        /// The value as written.
        value: String,
        /// What may be written.
        allowed: String,
    },
    /// The value asks for a mode that does not exist here.
    #[error("{key}={value} is not supported: {instead}")]
    Refused {
        /// The key.
        key: String,
        /// The value as written.
        value: String,
        /// How to do it here.
        instead: String,
    },
    /// The key can only be changed by a restart.
    #[error("{0} is fixed while the broker runs: set it in the configuration file and restart")]
    Fixed(String),
    /// The key is not known. Only a list of keys can be changed from afar.
    #[error("{0} is no key of the broker")]
    Unknown(String),
    /// More keys than there are.
    #[error("{0} keys at once are more than there are")]
    Many(usize),
}

/// Which keys are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Printed {
    /// All (`-p`).
    All,
    /// Those that every broker sets (`-m`).
    Important,
}

impl BrokerConfig {
    /// Reads a broker.conf over the defaults. Keys that stand in the text are taken in its order,
    /// so that the last of several counts, as in `java.util.Properties`.
    ///
    /// # Errors
    /// A value that its key cannot have, or one that asks for a mode that does not exist here.
    pub fn read(text: &str) -> Result<Loaded, ConfigError> {
        let mut loaded = Loaded { config: Self::default(), warnings: Vec::new() };
        for (name, value) in pairs(text)? {
            loaded.warnings.extend(loaded.config.set(&name, &value)?);
        }
        Ok(loaded)
    }

    /// Sets one key. Gives a sentence for the operator where the key is unknown or has no effect.
    ///
    /// # Errors
    /// A value that the key cannot have, or one that asks for a mode that does not exist here.
    pub fn set(&mut self, name: &str, value: &str) -> Result<Option<String>, ConfigError> {
        let value = value.trim();
        if let Some(refusal) = REFUSALS.iter().find(|refusal| refusal.name == name) {
            return refuse(refusal, value);
        }
        if let Some(key) = find(name) {
            // It would be read as two lines where the configuration is printed.
            if value.contains(['\r', '\n']) {
                return Err(ConfigError::Value {
                    key: name.to_owned(),
                    value: value.escape_default().to_string(),
                    allowed: "what stands in one line; write a backslash as \\\\".to_owned(),
                });
            }
            return key.set(self, value).map(|()| None);
        }
        if let Some(known) = KNOWN.iter().find(|known| known.name == name) {
            let told = value != known.default;
            return Ok(told.then(|| format!("{name}={value} has no effect: {}", known.reason)));
        }
        Ok(Some(match nearest::known_key(name) {
            Some(near) => format!("unknown key {name} is ignored: did you mean {near}?"),
            None => format!("unknown key {name} is ignored"),
        }))
    }

    /// Fills what an unset key takes from others and from the host.
    pub fn complete(&mut self) {
        if self.broker_name.is_empty() {
            self.broker_name = host::name();
        }
        if self.broker_ip1.0.is_empty() {
            self.broker_ip1 = Host(host::address());
        }
        if self.broker_ip2.0.is_empty() {
            self.broker_ip2 = self.broker_ip1.clone();
        }
        if self.dleger_group.is_empty() {
            self.dleger_group.clone_from(&self.broker_name);
        }
        if self.store_path_root_dir.is_empty() {
            self.store_path_root_dir = host::store_root();
        }
    }

    /// The address that name servers and brokers hear of for replication of Java's kind.
    pub(crate) fn ha_server_address(&self) -> String {
        format!("{}:{}", self.broker_ip2.0, self.ha_listen_port)
    }

    /// `key=value` lines, in the order of the table.
    #[must_use]
    pub fn print(&self, printed: Printed) -> String {
        let mut text = String::new();
        for key in KEYS.iter().filter(|key| key.important || printed == Printed::All) {
            text.push_str(key.name);
            text.push('=');
            text.push_str(&(key.write)(self));
            text.push('\n');
        }
        text
    }

    /// This configuration with the hot keys of a properties text changed: all of them or none.
    /// The table is the list of what may be changed; Java has a list of what may not
    /// (CVE-2023-33246, CVE-2023-37582).
    ///
    /// # Errors
    /// A key that is unknown, fixed, has no effect or is refused, or a value that its key cannot
    /// have.
    pub fn changed(&self, text: &str) -> Result<Loaded, ConfigError> {
        let mut loaded = Loaded { config: self.clone(), warnings: Vec::new() };
        let pairs = pairs(text)?;
        if pairs.len() > MOST_CHANGES {
            return Err(ConfigError::Many(pairs.len()));
        }
        for (name, value) in pairs {
            match find(&name) {
                Some(key) if key.change == Change::Hot => key.set(&mut loaded.config, &value)?,
                // Tools write back what they have read; that changes nothing.
                Some(key) if value == (key.write)(self) => {}
                Some(key) => {
                    let mut same = self.clone();
                    key.set(&mut same, &value)?;
                    if same != *self {
                        return Err(ConfigError::Fixed(name));
                    }
                }
                None if nearest::names().any(|known| known == name) => {
                    return Err(ConfigError::Fixed(name));
                }
                None => return Err(ConfigError::Unknown(shortened(&name))),
            }
        }
        Ok(loaded)
    }
}

impl Key {
    /// Sets this key.
    fn set(&self, config: &mut BrokerConfig, value: &str) -> Result<(), ConfigError> {
        let mut changed = config.clone();
        let within = (self.read)(&mut changed, value.trim())
            && match (self.range, (self.number)(&changed)) {
                (Some((low, high)), Some(number)) => (low..=high).contains(&number),
                _ => true,
            };
        if !within {
            return Err(ConfigError::Value {
                key: self.name.to_owned(),
                value: value.to_owned(),
                allowed: self.allowed_text(),
            });
        }
        *config = changed;
        Ok(())
    }

    /// What may be written, with range and unit.
    #[must_use]
    pub fn allowed_text(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" ({})", self.unit) };
        match self.range {
            Some((low, high)) => format!("{} from {low} to {high}{unit}", self.allowed),
            None => format!("{}{unit}", self.allowed),
        }
    }
}

/// Keys of one change: twice as many as Java's brokers have.
const MOST_CHANGES: usize = 2_000;

/// A name of a stranger's, for an answer: bounded, without control characters.
fn shortened(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(64).collect()
}

fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

fn refuse(refusal: &super::Refusal, value: &str) -> Result<Option<String>, ConfigError> {
    if (refusal.refuses)(value) {
        return Err(ConfigError::Refused {
            key: refusal.name.to_owned(),
            value: value.to_owned(),
            instead: refusal.instead.to_owned(),
        });
    }
    Ok(None)
}

/// Names and trimmed values of a properties text, in order. A byte order mark is passed over.
fn pairs(text: &str) -> Result<Vec<(String, String)>, ConfigError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    protocol::properties_text::parse(text)
        .map(|pairs| {
            pairs.into_iter().map(|(name, value)| (name, value.trim().to_owned())).collect()
        })
        .map_err(|error| ConfigError::Syntax(error.to_string()))
}
