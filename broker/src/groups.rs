//! Subscription groups: how each consumer group may consume (`SubscriptionGroupManager.java`).

mod file;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use dashmap::{DashMap, mapref::entry::Entry};
use protocol::body::{DataVersion, SubscriptionGroupConfig};
use store::config_file::ConfigFile;

/// Groups that exist on every broker.
const BUILT_IN: [&str; 8] = [
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
];

/// Groups with this prefix belong to the system and may always be created.
const SYSTEM_PREFIX: &str = "CID_RMQ_SYS_";

/// The bit of a forbidden mask that takes the right to read (`PermName.INDEX_PERM_READ`).
const READ_BIT: i32 = 1 << 2;

/// Why a group was not taken from an administrator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UpdateError {
    /// The name is no group name.
    #[error("{0}")]
    Name(String),
    /// An attribute is not written as `+key` or `-key`.
    #[error("attribute `{0}` of the group has no sign: write +{0} to set it, or -{0} to remove it")]
    Attribute(String),
}

/// The table of subscription groups.
#[derive(Debug)]
pub(crate) struct Groups {
    table: DashMap<String, Arc<SubscriptionGroupConfig>>,
    /// Rights taken away, by group and topic: a bit mask.
    forbidden: DashMap<String, BTreeMap<String, i32>>,
    version: Mutex<DataVersion>,
    dirty: AtomicBool,
    file: Mutex<ConfigFile>,
}

impl Groups {
    /// The group, where it exists.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<SubscriptionGroupConfig>> {
        self.table.get(name).map(|group| Arc::clone(&group))
    }

    /// The group; made with defaults where it does not exist and may be made: `auto_create` is
    /// `autoCreateSubscriptionGroup`, and a bad name never is. With `bound` groups in the table
    /// only an administrator makes more.
    pub(crate) fn find_or_create(
        &self,
        name: &str,
        auto_create: bool,
        bound: usize,
    ) -> Option<Arc<SubscriptionGroupConfig>> {
        if let Some(found) = self.find(name) {
            return Some(found);
        }
        let wanted = auto_create || name.starts_with(SYSTEM_PREFIX);
        if !wanted || protocol::name::validate_group(name).is_err() || self.table.len() >= bound {
            return None;
        }
        let group = match self.table.entry(name.to_owned()) {
            Entry::Occupied(found) => return Some(Arc::clone(found.get())),
            Entry::Vacant(free) => Arc::clone(&free.insert(Arc::new(defaults(name)))),
        };
        self.changed();
        tracing::info!(group = name, "subscription group was created by its first use");
        Some(group)
    }

    /// Creates or replaces a group as an administrator wants it.
    ///
    /// # Errors
    /// See [`UpdateError`]; nothing is changed then.
    pub(crate) fn update(&self, mut wanted: SubscriptionGroupConfig) -> Result<(), UpdateError> {
        Self::check(&wanted)?;
        let present = self.find(&wanted.group_name);
        let mut attributes =
            present.as_ref().map_or_else(BTreeMap::new, |group| group.attributes.clone());
        for (key, value) in &wanted.attributes {
            if let Some(name) = key.strip_prefix('+') {
                attributes.insert(name.to_owned(), value.clone());
            } else if let Some(name) = key.strip_prefix('-') {
                attributes.remove(name);
            }
        }
        wanted.attributes = attributes;
        if present.is_none_or(|group| *group != wanted) {
            self.table.insert(wanted.group_name.clone(), Arc::new(wanted));
            self.changed();
        }
        Ok(())
    }

    /// Whether [`Groups::update`] would take a group.
    ///
    /// # Errors
    /// See [`UpdateError`].
    pub(crate) fn check(wanted: &SubscriptionGroupConfig) -> Result<(), UpdateError> {
        protocol::name::validate_group(&wanted.group_name)
            .map_err(|error| UpdateError::Name(error.to_string()))?;
        match wanted.attributes.keys().find(|key| !key.starts_with(['+', '-'])) {
            Some(key) => Err(UpdateError::Attribute(key.clone())),
            None => Ok(()),
        }
    }

    /// Removes a group; whether it was there.
    pub(crate) fn remove(&self, name: &str) -> bool {
        let removed = self.table.remove(name).is_some() | self.forbidden.remove(name).is_some();
        if removed {
            self.changed();
        }
        removed
    }

    /// All groups, by name.
    pub(crate) fn all(&self) -> BTreeMap<String, Arc<SubscriptionGroupConfig>> {
        self.table.iter().map(|row| (row.key().clone(), Arc::clone(&row))).collect()
    }

    /// All masks of rights taken away, by group and topic.
    pub(crate) fn all_forbidden(&self) -> BTreeMap<String, BTreeMap<String, i32>> {
        self.forbidden.iter().map(|row| (row.key().clone(), row.clone())).collect()
    }

    /// Whether the group may read the topic.
    pub(crate) fn may_read(&self, group: &str, topic: &str) -> bool {
        self.forbidden
            .get(group)
            .and_then(|topics| topics.get(topic).copied())
            .is_none_or(|mask| mask & READ_BIT == 0)
    }

    /// Gives or takes the right of a group to read a topic.
    pub(crate) fn set_may_read(&self, group: &str, topic: &str, readable: bool) {
        if self.may_read(group, topic) == readable {
            return;
        }
        let mut topics = self.forbidden.entry(group.to_owned()).or_default();
        let mask = topics.entry(topic.to_owned()).or_default();
        if readable {
            *mask &= !READ_BIT;
        } else {
            *mask |= READ_BIT;
        }
        topics.retain(|_, mask| *mask != 0);
        drop(topics);
        self.forbidden.remove_if(group, |_, topics| topics.is_empty());
        self.changed();
    }

    /// The version that slaves and tools compare; it moves with every change.
    pub(crate) fn version(&self) -> DataVersion {
        self.version.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn empty(file: ConfigFile) -> Self {
        Self {
            table: DashMap::new(),
            forbidden: DashMap::new(),
            version: Mutex::default(),
            dirty: AtomicBool::new(false),
            file: Mutex::new(file),
        }
    }

    /// Whether something changed since the last call.
    fn take_changed(&self) -> bool {
        self.dirty.swap(false, Ordering::AcqRel)
    }

    /// Says that what the last [`Groups::take_changed`] reported could not be written.
    fn mark_changed(&self) {
        self.dirty.store(true, Ordering::Release);
    }

    fn add_built_in(&self) {
        for name in BUILT_IN {
            self.table.entry(name.to_owned()).or_insert_with(|| Arc::new(defaults(name)));
        }
    }

    fn changed(&self) {
        let mut version = self.version.lock().unwrap_or_else(PoisonError::into_inner);
        version.counter += 1;
        version.timestamp = crate::clock::now_millis();
        drop(version);
        self.dirty.store(true, Ordering::Release);
    }
}

/// A group as it is when nobody said how it should be.
fn defaults(name: &str) -> SubscriptionGroupConfig {
    SubscriptionGroupConfig { group_name: name.to_owned(), ..SubscriptionGroupConfig::default() }
}
