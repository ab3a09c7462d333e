//! The wire: Java's JSON bodies of DLedger 0.3 and our own binary pushes.
//!
//! Every request and answer is a remoting frame. In Java's form its body is JSON ([`body`]), and
//! what a request came to stands in the body's `code`; the frame's own code is then 200. Between
//! nodes of ours pushes go in a binary form with the entries as they lie in the log ([`binary`]).
//! Nothing here knows a socket. The formats are drawn in `docs/wire.md`.

pub mod binary;
pub mod body;
pub mod capability;
mod code;
pub mod entry;
pub mod forward;
pub mod json;
pub mod message;
mod push;

pub use self::code::{ResponseCode, request};

/// Why bytes of a peer cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// No JSON, or a field has a value that its type does not allow.
    #[error("body is not the JSON that it should be: {0}")]
    Json(String),
    /// A number that its field cannot have.
    #[error("{name} cannot be {value}")]
    Field {
        /// The field.
        name: &'static str,
        /// The number.
        value: i64,
    },
    /// A text that its field cannot have.
    #[error("{name} cannot be '{value}'")]
    Text {
        /// The field.
        name: &'static str,
        /// The text, cut.
        value: String,
    },
    /// A field that must be there is not.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// Bytes that should be entries of the log are none.
    #[error("no whole entry begins at byte {at}")]
    Entries {
        /// Where.
        at: usize,
    },
    /// A binary body ends too early.
    #[error("body of {length} bytes is shorter than the {needed} of its head")]
    Short {
        /// Bytes that are there.
        length: usize,
        /// Bytes that are needed.
        needed: usize,
    },
    /// A binary body of another version.
    #[error("version {0} of binary pushes is not known: run the same version on all nodes")]
    Version(u8),
    /// The peer speaks the dialect of DLedger 0.4.
    #[error(
        "the peer speaks DLedger 0.4, which cannot share a group with 0.3: use a broker of 4.5 to 5.5"
    )]
    Dialect04,
}

#[cfg(test)]
mod tests;
