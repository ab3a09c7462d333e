//! Why TLS cannot be offered or used.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// TLS material that cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TlsError {
    /// A key that the mode needs has no value.
    #[error("{key} is not set, and {because}")]
    Missing {
        /// The configuration key.
        key: &'static str,
        /// What needs it.
        because: &'static str,
    },
    /// Two keys exclude each other.
    #[error("{0}")]
    Contradiction(&'static str),
    /// A file cannot be read.
    #[error("{key}={}: {cause}", path.display())]
    Unreadable {
        /// The configuration key.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: Arc<io::Error>,
    },
    /// A file does not hold what it should.
    #[error("{key}={}: {cause}", path.display())]
    Content {
        /// The configuration key.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        cause: String,
    },
    /// Certificate, key and trusted certificates do not make a configuration.
    #[error("TLS cannot be set up: {0}")]
    SetUp(String),
}

impl TlsError {
    pub(super) fn content(
        key: &'static str,
        path: &std::path::Path,
        cause: impl Into<String>,
    ) -> Self {
        Self::Content { key, path: path.to_owned(), cause: cause.into() }
    }
}
