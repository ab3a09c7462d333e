//! What clients did to registers, when, and what they were told.
//!
//! As text, one operation a line, `FROM..TO KEY ACTION`; `?` for an end that is not known:
//!
//! ```text
//! 10..20 x write a
//! 15..?  x cas a b
//! 22..25 x read b
//! 26..28 x cas a c found b
//! ```

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::Instant,
};

/// A value of a register; `None` where the key is not there.
pub type Value = Option<String>;

/// What a client asked for, with what it was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// The value was this.
    Read(Value),
    /// The value was set; `None` deletes the key.
    Write(Value),
    /// The value was `expect` and was set to `value`. Where the end is not known, only if it was.
    CompareAndSet {
        /// What it had to be.
        expect: Value,
        /// What it was to become.
        value: Value,
    },
    /// A compare-and-set found another value than it expected, and changed nothing.
    Mismatch {
        /// What it had to be.
        expect: Value,
        /// What it was to become.
        value: Value,
        /// What it was.
        found: Value,
    },
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Which register.
    pub key: String,
    /// When it was asked for, on a clock that all clients share.
    pub from: u64,
    /// When the answer was there. Without one, the operation may have been done, may yet be done at
    /// any later time, or never.
    pub to: Option<u64>,
    /// What it was.
    pub action: Action,
}

/// Why a line is no operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAnOperation(pub String);

impl fmt::Display for NotAnOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not FROM..TO KEY ACTION", self.0)
    }
}

impl std::error::Error for NotAnOperation {}

/// Reads a history.
///
/// # Errors
/// The first line that is no operation.
pub fn parse(text: &str) -> Result<Vec<Operation>, NotAnOperation> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| operation(line).ok_or_else(|| NotAnOperation(line.to_owned()))).collect()
}

fn operation(line: &str) -> Option<Operation> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [span, key, action @ ..] = words.as_slice() else { return None };
    let (from, to) = span.split_once("..")?;
    let value = |word: &str| (word != "-").then(|| word.to_owned());
    let action = match action {
        ["read", found] => Action::Read(value(found)),
        ["write", new] => Action::Write(value(new)),
        ["delete"] => Action::Write(None),
        ["cas", expect, new] => Action::CompareAndSet { expect: value(expect), value: value(new) },
        ["cas", expect, new, "found", found] => {
            Action::Mismatch { expect: value(expect), value: value(new), found: value(found) }
        }
        _ => return None,
    };
    let to = if to == "?" { None } else { Some(to.parse().ok()?) };
    Some(Operation { key: (*key).to_owned(), from: from.parse().ok()?, to, action })
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..", self.from)?;
        match self.to {
            Some(to) => write!(f, "{to}")?,
            None => write!(f, "?")?,
        }
        write!(f, " {} ", self.key)?;
        let text = |value: &Value| value.clone().unwrap_or_else(|| "-".to_owned());
        match &self.action {
            Action::Read(found) => write!(f, "read {}", text(found)),
            Action::Write(value) => write!(f, "write {}", text(value)),
            Action::CompareAndSet { expect, value } => {
                write!(f, "cas {} {}", text(expect), text(value))
            }
            Action::Mismatch { expect, value, found } => {
                write!(f, "cas {} {} found {}", text(expect), text(value), text(found))
            }
        }
    }
}

/// Takes operations from clients on many threads.
#[derive(Debug)]
pub struct Recorder {
    started: Instant,
    operations: Mutex<Vec<Operation>>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self { started: Instant::now(), operations: Mutex::default() }
    }
}

impl Recorder {
    /// Nanoseconds since the recorder was made.
    pub fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Keeps an operation.
    pub fn add(&self, operation: Operation) {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner).push(operation);
    }

    /// A copy of all that was kept.
    pub fn history(&self) -> Vec<Operation> {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_printed_as_they_are_read() {
        let text = "10..20 x write a\n15..? x cas a b\n22..25 x read -\n26..28 x cas a c found b\n";
        let history = parse(text).unwrap();
        let printed: String = history.iter().map(|operation| format!("{operation}\n")).collect();
        assert_eq!(printed, text);
        assert_eq!(parse("1..2 x delete").unwrap(), parse("1..2 x write -").unwrap());
        for wrong in ["1..2 x", "1-2 x read a", "1..2 x cas a", "a..2 x read 1"] {
            assert_eq!(parse(wrong), Err(NotAnOperation(wrong.to_owned())));
        }
    }
}
