//! The limits that hold with a configuration.

use broker::config::{BrokerConfig, KEYS, Key};
use namesrv::NamesrvOptions;
use protocol::properties_text::Entry;
use serde_json::{Value, json};

/// A limit.
#[derive(Debug, Clone)]
pub(super) struct Threshold {
    /// The key that sets it.
    pub(super) key: &'static str,
    /// Its value.
    pub(super) value: String,
    /// The line of the file that sets it; `None`: the default.
    pub(super) line: Option<usize>,
    /// What happens there.
    pub(super) meaning: String,
}

impl Threshold {
    /// Where the value comes from, for people.
    pub(super) fn from(&self) -> String {
        self.line.map_or_else(|| "default".to_owned(), |line| format!("line {line}"))
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        json!({ "key": self.key, "value": self.value, "line": self.line, "meaning": self.meaning })
    }
}

/// The limits of a broker: all keys that are numbers and bound or time something.
pub(super) fn of_broker(config: &BrokerConfig, entries: &[Entry]) -> Vec<Threshold> {
    let wanted = |key: &&Key| {
        key.range.is_some() && !key.name.ends_with("Port") || TEXTS.contains(&key.name)
    };
    KEYS.iter().filter(wanted).map(|key| of_key(key, config, entries)).collect()
}

fn of_key(key: &Key, config: &BrokerConfig, entries: &[Entry]) -> Threshold {
    let value = (key.write)(config);
    let doc = key.doc.trim_start_matches("LedgerMQ only. ");
    let meaning = doc.split_once(". ").map_or(doc, |(first, _)| first).trim_end_matches('.');
    Threshold {
        key: key.name,
        value: if key.unit.is_empty() { value } else { format!("{value} {}", key.unit) },
        line: line_of(entries, key.name),
        meaning: meaning.to_owned(),
    }
}

/// The limits of a name server.
pub(super) fn of_name_server(options: &NamesrvOptions, entries: &[Entry]) -> Vec<Threshold> {
    let settings = &options.settings;
    let rows = [
        (
            "serverChannelMaxIdleTimeSeconds",
            format!("{} s", options.idle.as_secs()),
            "A connection without traffic for this long is closed",
        ),
        (
            "scanNotActiveBrokerInterval",
            format!("{} ms", settings.scan_interval.as_millis()),
            "Time between two looks for brokers without a sign of life",
        ),
        (
            "waitSecondsForService",
            format!("{} s", settings.wait_for_service.as_secs()),
            "Time before routes are given out, with needWaitForService",
        ),
    ];
    let row = |(key, value, meaning): (&'static str, String, &str)| Threshold {
        key,
        value,
        line: line_of(entries, key),
        meaning: meaning.to_owned(),
    };
    rows.map(row).into()
}

/// Where a key stands; of several the last one counts.
pub(super) fn line_of(entries: &[Entry], key: &str) -> Option<usize> {
    entries.iter().rfind(|entry| entry.name == key).map(|entry| entry.line)
}

/// Keys that are no numbers and set a limit all the same.
const TEXTS: &[&str] = &["deleteWhen", "messageDelayLevel", "cleanFileForciblyEnable"];
