//! The name server's own configuration: codes 318, 319.

use protocol::code::response;
use protocol::properties_text;

use super::{Answer, Rejection, success};
use crate::config::ConfigError;
use crate::core::{Call, Core};

impl From<ConfigError> for Rejection {
    fn from(error: ConfigError) -> Self {
        let code = match &error {
            ConfigError::Syntax(_)
            | ConfigError::Value { .. }
            | ConfigError::Refused { .. }
            | ConfigError::Tls(_) => response::SYSTEM_ERROR,
            ConfigError::Unknown(_) | ConfigError::Fixed(_) => response::NO_PERMISSION,
        };
        Self::new(code, error.to_string())
    }
}

/// Only keys that are known and hot can be set: a path that could be set from afar would let
/// anyone write any file (CVE-2023-37582).
pub(super) fn update(core: &Core, call: &Call<'_>) -> Answer {
    let text = String::from_utf8_lossy(&call.request.body);
    let pairs = properties_text::parse(&text).map_err(ConfigError::from)?;
    let pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    core.options(|options| options.change(pairs))?;
    Ok(success(call))
}

pub(super) fn get(core: &Core, call: &Call<'_>) -> Answer {
    Ok(success(call).with_body(core.options(|options| options.print())))
}
