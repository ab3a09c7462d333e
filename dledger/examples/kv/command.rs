//! What is appended to the log: changes as JSON, and what came of them.

use serde::{Deserialize, Serialize};

/// Longest key in bytes.
pub(crate) const LONGEST_KEY: usize = 256;

/// Longest value in bytes.
pub(crate) const LONGEST_VALUE: usize = 1024 * 1024;

/// Longest request id in bytes.
pub(crate) const LONGEST_ID: usize = 64;

/// A change to one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Command {
    /// Given by the client. A repeat of it is not applied a second time.
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) change: Change,
}

/// What is to become of the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Change {
    Put {
        value: String,
    },
    Delete,
    /// Put `value` if the key holds `expect`; `None` is a key that is not there.
    CompareAndSet {
        expect: Option<String>,
        value: String,
    },
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The change was made.
    Done,
    /// A compare-and-set found something else, and changed nothing.
    Mismatch {
        /// What the key held.
        found: Option<String>,
    },
}

/// Why a command is no command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CommandError {
    #[error(
        "key '{0}' is not one of 1 to {LONGEST_KEY} letters, digits and '.', '_', ':', '-': choose another"
    )]
    Key(String),
    #[error(
        "request id '{0}' is not one of 1 to {LONGEST_ID} letters, digits and '.', '_', ':', '-'"
    )]
    Id(String),
    #[error("value of {0} bytes is longer than {LONGEST_VALUE} bytes: split it")]
    Value(usize),
}

impl Command {
    /// Checks what a stranger wrote.
    pub(crate) fn new(id: String, key: &str, change: Change) -> Result<Self, CommandError> {
        check_key(key)?;
        if !is_name(&id, LONGEST_ID) {
            return Err(CommandError::Id(shown(&id)));
        }
        match &change {
            Change::Put { value } | Change::CompareAndSet { value, .. }
                if value.len() > LONGEST_VALUE =>
            {
                Err(CommandError::Value(value.len()))
            }
            Change::Put { .. } | Change::Delete | Change::CompareAndSet { .. } => {
                Ok(Self { id, key: key.to_owned(), change })
            }
        }
    }
}

/// Keys go into paths of URLs as they are.
pub(crate) fn check_key(key: &str) -> Result<(), CommandError> {
    if is_name(key, LONGEST_KEY) { Ok(()) } else { Err(CommandError::Key(shown(key))) }
}

fn is_name(text: &str, longest: usize) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    (1..=longest).contains(&text.len()) && text.bytes().all(fits)
}

/// No more of a wrong name than is worth showing.
fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_strangers_are_checked() {
        let put = |value: &str| Change::Put { value: value.to_owned() };
        let command = |id: &str, key: &str| Command::new(id.to_owned(), key, put("1"));
        assert!(command("c1-1", "a.b_c:d-e").is_ok());
        assert!(matches!(command("c1", ""), Err(CommandError::Key(_))));
        assert!(matches!(command("c1", "a/b"), Err(CommandError::Key(_))));
        assert!(matches!(command("c1", &"k".repeat(257)), Err(CommandError::Key(_))));
        assert!(matches!(command("", "k"), Err(CommandError::Id(_))));
        let long = Command::new("c1".to_owned(), "k", put(&"v".repeat(LONGEST_VALUE + 1)));
        assert_eq!(long, Err(CommandError::Value(LONGEST_VALUE + 1)));
    }
}
