//! The configuration of a running broker: fixed but for the hot keys.

use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicI64, Ordering},
};

use super::{BrokerConfig, ConfigError};

/// Shared by all that reads configuration.
#[derive(Debug)]
pub(crate) struct Settings {
    current: RwLock<Arc<BrokerConfig>>,
    changes: AtomicI64,
}

impl Settings {
    /// The settings that a start gives.
    pub(crate) fn new(config: BrokerConfig) -> Self {
        Self { current: RwLock::new(Arc::new(config)), changes: AtomicI64::new(0) }
    }

    /// What holds now.
    pub(crate) fn current(&self) -> Arc<BrokerConfig> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// How often something was changed since the start.
    pub(crate) fn changes(&self) -> i64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Changes hot keys, all that the properties text names or none; gives what held before and
    /// what holds now.
    ///
    /// # Errors
    /// A key that is not hot, or a value that its key cannot have.
    pub(crate) fn change(
        &self,
        text: &str,
    ) -> Result<(Arc<BrokerConfig>, Arc<BrokerConfig>), ConfigError> {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let loaded = current.changed(text)?;
        for warning in loaded.warnings {
            tracing::warn!("{warning}");
        }
        let before = std::mem::replace(&mut *current, Arc::new(loaded.config));
        self.changes.fetch_add(1, Ordering::Relaxed);
        Ok((before, Arc::clone(&current)))
    }
}
