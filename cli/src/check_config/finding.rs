//! One thing that is to be said about a configuration.

use serde_json::{Value, json};

/// How much it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    /// The server does not start with it, or does what nobody can have meant.
    Error,
    /// The server starts, and somebody may be surprised.
    Warning,
    /// Good to know.
    Note,
}

impl Severity {
    /// Its word in the report.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// A finding.
#[derive(Debug, Clone)]
pub(super) struct Finding {
    /// How much it matters.
    pub(super) severity: Severity,
    /// Short name of what it is, for programs.
    pub(super) kind: &'static str,
    /// The key that it is about; empty where it is about the file.
    pub(super) key: String,
    /// Where that key stands, if it does.
    pub(super) line: Option<usize>,
    /// What is to be said, with the next step.
    pub(super) text: String,
}

impl Finding {
    /// An error.
    pub(super) fn error(kind: &'static str, key: &str, text: impl Into<String>) -> Self {
        Self { severity: Severity::Error, kind, key: key.to_owned(), line: None, text: text.into() }
    }

    /// A warning.
    pub(super) fn warning(kind: &'static str, key: &str, text: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(kind, key, text) }
    }

    /// A note.
    pub(super) fn note(kind: &'static str, key: &str, text: impl Into<String>) -> Self {
        Self { severity: Severity::Note, ..Self::error(kind, key, text) }
    }

    /// The same, at a line.
    pub(super) fn at(self, line: usize) -> Self {
        Self { line: Some(line), ..self }
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        json!({
            "severity": self.severity.name(),
            "kind": self.kind,
            "key": self.key,
            "line": self.line,
            "text": self.text,
        })
    }
}
