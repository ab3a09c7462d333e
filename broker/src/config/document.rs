//! docs/config.md, made from the tables.

use std::fmt::Write as _;

use super::{BrokerConfig, Change, KEYS, KNOWN, Key, REFUSALS};

/// The whole text of docs/config.md.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from(HEAD);
    let defaults = BrokerConfig::default();
    let mut section = "";
    for key in KEYS {
        if key.section != section {
            section = key.section;
            line(&mut text, format_args!("\n### {section}\n"));
            line(&mut text, format_args!("| key | default | allowed | change | meaning |"));
            line(&mut text, format_args!("|---|---|---|---|---|"));
        }
        row(&mut text, key, &defaults);
    }
    line(&mut text, format_args!("\n## Keys that stop the start\n"));
    line(&mut text, format_args!("| key | what to do instead |"));
    line(&mut text, format_args!("|---|---|"));
    for refusal in REFUSALS {
        line(&mut text, format_args!("| `{}` | {} |", refusal.name, refusal.instead));
    }
    line(&mut text, format_args!("\n## Keys of Java's that have no effect\n"));
    line(&mut text, format_args!("A value other than Java's default is warned about at start.\n"));
    line(&mut text, format_args!("| key | Java's default | reason |"));
    line(&mut text, format_args!("|---|---|---|"));
    for known in KNOWN {
        let (name, default, reason) = (known.name, code(known.default), known.reason);
        line(&mut text, format_args!("| `{name}` | {default} | {reason} |"));
    }
    text
}

fn row(text: &mut String, key: &Key, defaults: &BrokerConfig) {
    let default = code(&(key.write)(defaults));
    let change = match key.change {
        Change::Hot => "hot",
        Change::Fixed => "fixed",
    };
    let (name, allowed, doc) = (key.name, key.allowed_text(), key.doc);
    line(text, format_args!("| `{name}` | {default} | {allowed} | {change} | {doc} |"));
}

fn code(value: &str) -> String {
    if value.is_empty() { String::new() } else { format!("`{value}`") }
}

/// Writing to a `String` cannot fail.
fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    if writeln!(text, "{arguments}").is_err() {
        debug_assert!(false, "a String takes every text");
    }
}

const HEAD: &str = "# Configuration

Made from the table in `broker/src/config/keys.rs` by `cargo run -p broker --example config_md`; a test checks that it is in step.

A broker.conf is a Java properties file with Java's spelling of every key. Values are trimmed; CRLF and a byte
order mark are taken. An unknown key is warned about with the nearest known one; a value that its key cannot have
stops the start. `ledgermq broker -p` prints every effective key, `-m` the important ones.

Hot keys can be changed while the broker runs (`mqadmin updateBrokerConfig`); a change is kept until the next start.

## Keys
";
