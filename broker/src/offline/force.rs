//! The operator's way out when a majority of a group is lost for good.

use std::sync::Arc;

use dledger::StoppedLog;
use segment::{RealVfs, Vfs};

use super::{Offline, OfflineError};
use crate::start::{identity, open::log_options};

impl Offline {
    /// Opens the log of a node that is stopped, to look at what it holds and to force it.
    ///
    /// # Errors
    /// See [`OfflineError`].
    pub fn stopped_log(&self) -> Result<StoppedLog, OfflineError> {
        let vfs: Arc<dyn Vfs> = Arc::new(RealVfs);
        StoppedLog::open(&vfs, &log_options(&self.config))
            .map_err(|error| OfflineError::Open(error.to_string()))
    }

    /// Writes down that the node is a group of its own from now on: it starts as one, and no more
    /// under the name of the group that it was in.
    ///
    /// # Errors
    /// See [`OfflineError`].
    pub fn leave_group(&self) -> Result<(), OfflineError> {
        let vfs: Arc<dyn Vfs> = Arc::new(RealVfs);
        identity::leave_group(&vfs, &self.config).map_err(OfflineError::Open)
    }
}
