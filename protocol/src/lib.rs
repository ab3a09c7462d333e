//! The RocketMQ remoting protocol as values: frames, codes, typed headers, bodies and message
//! records, each with its decoder and encoder.
//!
//! This crate knows no socket, clock or thread. Decoders take any bytes: they answer with an error
//! that names the field, never panic, and take memory only for bytes that have arrived.
//! The formats are drawn in `docs/wire.md`.
#![warn(missing_docs)]
#![warn(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap
)]

pub mod body;
pub mod code;
mod command;
mod ext_fields;
pub mod frame;
pub mod header;
pub mod json;
mod language;
pub mod message;
pub mod name;
pub mod properties_text;
pub mod version;

pub use command::{Command, HeaderEncoding, flag};
pub use ext_fields::ExtFields;
pub use language::Language;

#[cfg(test)]
mod proptests;
