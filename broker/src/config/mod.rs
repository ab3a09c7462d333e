//! Configuration: read once, then fixed but for the rows that the table calls hot.

mod document;
mod host;
mod keys;
mod kind;
mod known;
mod nearest;
mod settings;
mod text;
mod tls;
mod value;

pub use document::markdown;
pub use keys::{BrokerConfig, Change, KEYS, Key};
pub use kind::{KeyKind, kind_of};
pub use known::{KNOWN, Known, REFUSALS, Refusal};
pub(crate) use settings::Settings;
pub use text::{ConfigError, Loaded, Printed};
pub use value::{DelayLevels, FlushDiskType, Host, Hours, RequestMode};

#[cfg(test)]
mod tests;
