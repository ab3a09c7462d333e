//! The state of a name server, without its sockets.

use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use protocol::Command;

use crate::config::{NamesrvOptions, Settings};
use crate::kv::KvConfig;
use crate::requests;
use crate::route_table::{Now, RouteTable, Rules};

/// Serves requests; time and the number of the connection come with each.
#[derive(Debug)]
pub(crate) struct Core {
    table: RwLock<RouteTable>,
    kv: RwLock<KvConfig>,
    options: Mutex<NamesrvOptions>,
}

/// A request and what came with it.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) request: &'a Command,
    pub(crate) connection: u64,
    pub(crate) now: Now,
}

impl Core {
    pub(crate) fn new(options: NamesrvOptions, kv: KvConfig) -> Self {
        Self { table: RwLock::default(), kv: RwLock::new(kv), options: Mutex::new(options) }
    }

    /// Serves one request.
    pub(crate) fn answer(&self, call: &Call<'_>) -> Command {
        match requests::route(call.request.code) {
            Some(serve) => serve(self, call).unwrap_or_else(|rejection| {
                call.request.response(rejection.code).with_refusal(&rejection.remark)
            }),
            None => requests::unsupported(call.request),
        }
    }

    pub(crate) fn table(&self) -> RwLockReadGuard<'_, RouteTable> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn table_mut(&self) -> RwLockWriteGuard<'_, RouteTable> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn kv(&self) -> RwLockReadGuard<'_, KvConfig> {
        self.kv.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn kv_mut(&self) -> RwLockWriteGuard<'_, KvConfig> {
        self.kv.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn settings(&self) -> Settings {
        self.options(|options| options.settings)
    }

    pub(crate) fn options<T>(&self, look: impl FnOnce(&mut NamesrvOptions) -> T) -> T {
        look(&mut self.options.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn rules(&self) -> Rules {
        let settings = self.settings();
        Rules {
            delete_absent_topics: settings.delete_absent_topics,
            support_acting_master: settings.support_acting_master,
        }
    }
}
