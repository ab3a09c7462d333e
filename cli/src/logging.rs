//! Logs: text or JSON lines on standard error, with a level that can be changed while running.

use std::{
    fmt,
    io::{self, IsTerminal},
    sync::Arc,
};

use tracing_subscriber::{
    EnvFilter, Registry, layer::SubscriberExt, reload, util::SubscriberInitExt,
};

use crate::args::{LogArgs, LogFormat};

/// The level of the running process.
#[derive(Clone)]
pub(crate) struct LogLevel {
    replace: Arc<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>,
    current: Arc<dyn Fn() -> Option<String> + Send + Sync>,
}

impl fmt::Debug for LogLevel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("LogLevel").field(&self.current()).finish()
    }
}

/// Why a level was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LevelError {
    /// The text is not a level.
    #[error(
        "{text:?} is not a log level: {reason}; give error, warn, info, debug or trace, or rules \
         such as info,store=debug"
    )]
    Malformed {
        /// What was given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The logging of the process is gone.
    #[error("log level could not be replaced: {0}")]
    Gone(String),
    /// Logging was set up before.
    #[error("logs could not be set up: {0}")]
    SetUp(String),
}

impl LogLevel {
    /// Sets up logging of the process; `default` is the level where neither the flag nor RUST_LOG
    /// says one.
    pub(crate) fn install(args: &LogArgs, default: &str) -> Result<Self, LevelError> {
        let environment = std::env::var("RUST_LOG").ok().filter(|text| !text.trim().is_empty());
        let text = args.log_level.clone().or(environment).unwrap_or_else(|| default.to_owned());
        let (filter, handle) = reload::Layer::<EnvFilter, Registry>::new(parse(&text)?);
        let registry = tracing_subscriber::registry().with(filter);
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(io::stderr)
            .with_ansi(io::stderr().is_terminal());
        match args.log_format {
            LogFormat::Text => registry.with(lines).try_init(),
            LogFormat::Json => registry.with(lines.json()).try_init(),
        }
        .map_err(|error| LevelError::SetUp(error.to_string()))?;
        Ok(Self::of(handle))
    }

    pub(crate) fn of(handle: reload::Handle<EnvFilter, Registry>) -> Self {
        let reader = handle.clone();
        Self {
            replace: Arc::new(move |filter| {
                handle.reload(filter).map_err(|error| error.to_string())
            }),
            current: Arc::new(move || reader.with_current(ToString::to_string).ok()),
        }
    }

    /// Takes a level or rules by module from now on.
    pub(crate) fn set(&self, text: &str) -> Result<(), LevelError> {
        (self.replace)(parse(text)?).map_err(LevelError::Gone)
    }

    /// The rules that hold now.
    pub(crate) fn current(&self) -> Option<String> {
        (self.current)()
    }
}

fn parse(text: &str) -> Result<EnvFilter, LevelError> {
    let malformed = |reason: String| LevelError::Malformed { text: text.to_owned(), reason };
    let text = text.trim();
    if text.is_empty() {
        return Err(malformed("it is empty".to_owned()));
    }
    // EnvFilter takes any bare word for a module's name, so that a misspelt level would mean
    // "everything of the module infoo".
    for rule in text.split(',').map(str::trim) {
        if !rule.contains(['=', '[', ':'])
            && rule.parse::<tracing::level_filters::LevelFilter>().is_err()
        {
            return Err(malformed(format!("{rule:?} is no level")));
        }
    }
    EnvFilter::try_new(text).map_err(|error| malformed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(text: &str) -> LogLevel {
        let (layer, handle) = reload::Layer::<EnvFilter, Registry>::new(parse(text).unwrap());
        // The handle works as long as the layer lives.
        std::mem::forget(layer);
        LogLevel::of(handle)
    }

    #[test]
    fn a_level_is_replaced_and_read_back() {
        let level = level("info");
        assert_eq!(level.current().as_deref(), Some("info"));
        level.set("debug").unwrap();
        assert_eq!(level.current().as_deref(), Some("debug"));
        level.set("info,store=debug").unwrap();
        assert_eq!(level.current().as_deref(), Some("store=debug,info"));
    }

    #[test]
    fn a_misspelt_level_is_refused_and_changes_nothing() {
        let level = level("info");
        for wrong in ["infoo", "", "warn,debugg", "store=loud"] {
            let error = level.set(wrong).unwrap_err();
            assert!(error.to_string().contains("give error, warn, info"), "{error}");
        }
        assert_eq!(level.current().as_deref(), Some("info"));
    }
}
