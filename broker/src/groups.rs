//! Subscription groups: how each consumer group may consume (`SubscriptionGroupManager.java`).

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use dashmap::{DashMap, mapref::entry::Entry};
use protocol::body::{DataVersion, SubscriptionGroupConfig};
use store::journal::{Change, Tables};

use crate::priority;

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
    /// An attribute has a value that it cannot have.
    #[error("attribute `{name}` of the group is {value:?}: {reason}")]
    Value {
        /// Its name.
        name: String,
        /// The value.
        value: String,
        /// What is wrong with it, in Java's words.
        reason: String,
    },
}

/// The table of subscription groups, as the journal says; beside it only groups that their use has
/// just made.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    table: DashMap<String, Arc<SubscriptionGroupConfig>>,
    /// Rights taken away, by group and topic: a bit mask.
    forbidden: DashMap<String, BTreeMap<String, i32>>,
    version: Mutex<DataVersion>,
}

impl Groups {
    /// The table as the journal has it.
    pub(crate) fn new(tables: &Tables) -> Self {
        let groups = Self::default();
        groups.load(tables);
        groups
    }

    /// Adds the built-in groups that are missing, as every node does by itself.
    pub(crate) fn complete(tables: &mut Tables) {
        for name in BUILT_IN {
            let group = || Arc::new(defaults(name));
            tables.groups.entry(name.to_owned()).or_insert_with(group);
        }
    }

    /// Takes the whole table.
    pub(crate) fn load(&self, tables: &Tables) {
        self.table.retain(|name, _| tables.groups.contains_key(name));
        self.forbidden.retain(|name, _| tables.forbidden.contains_key(name));
        let names = tables.groups.keys().chain(tables.forbidden.keys());
        names.for_each(|name| self.take(name, tables));
    }

    /// Takes what the journal has for one group now.
    pub(crate) fn take(&self, name: &str, tables: &Tables) {
        match tables.groups.get(name) {
            Some(group) => drop(self.table.insert(name.to_owned(), Arc::clone(group))),
            None => drop(self.table.remove(name)),
        }
        match tables.forbidden.get(name) {
            Some(masks) => drop(self.forbidden.insert(name.to_owned(), masks.clone())),
            None => drop(self.forbidden.remove(name)),
        }
        let mut version = self.version.lock().unwrap_or_else(PoisonError::into_inner);
        version.clone_from(&tables.versions.groups);
    }

    /// The group, where it exists.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<SubscriptionGroupConfig>> {
        self.table.get(name).map(|group| Arc::clone(&group))
    }

    /// The group, and whether this call made it: with defaults, where it does not exist and may be
    /// made. `auto_create` is `autoCreateSubscriptionGroup`, and a bad name never is. With `bound`
    /// groups in the table only an administrator makes more.
    pub(crate) fn find_or_create(
        &self,
        name: &str,
        auto_create: bool,
        bound: usize,
    ) -> Option<(Arc<SubscriptionGroupConfig>, bool)> {
        if let Some(found) = self.find(name) {
            return Some((found, false));
        }
        let wanted = auto_create || name.starts_with(SYSTEM_PREFIX);
        if !wanted || protocol::name::validate_group(name).is_err() || self.table.len() >= bound {
            return None;
        }
        let group = match self.table.entry(name.to_owned()) {
            Entry::Occupied(found) => return Some((Arc::clone(found.get()), false)),
            Entry::Vacant(free) => Arc::clone(&free.insert(Arc::new(defaults(name)))),
        };
        tracing::info!(group = name, "subscription group was created by its first use");
        Some((group, true))
    }

    /// The group as [`Groups::find_or_create`] would make it.
    pub(crate) fn unmade(name: &str, auto_create: bool) -> Option<Arc<SubscriptionGroupConfig>> {
        let wanted = auto_create || name.starts_with(SYSTEM_PREFIX);
        (wanted && protocol::name::validate_group(name).is_ok()).then(|| Arc::new(defaults(name)))
    }

    /// What creates or replaces a group as an administrator wants it; `None` where it is so.
    ///
    /// # Errors
    /// See [`UpdateError`].
    pub(crate) fn update(
        &self,
        mut wanted: SubscriptionGroupConfig,
    ) -> Result<Option<Change>, UpdateError> {
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
        Ok(present.is_none_or(|group| *group != wanted).then_some(Change::Group(wanted)))
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
            None => wanted.attributes.iter().try_for_each(|(key, value)| check_value(key, value)),
        }
    }

    /// What removes a group; `None` where there is nothing of it.
    pub(crate) fn remove(&self, name: &str) -> Option<Change> {
        let there = self.table.contains_key(name) || self.forbidden.contains_key(name);
        there.then(|| Change::DeleteGroup(name.to_owned()))
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

    /// What gives or takes the right of a group to read a topic; `None` where it is so.
    pub(crate) fn set_may_read(&self, group: &str, topic: &str, readable: bool) -> Option<Change> {
        if self.may_read(group, topic) == readable {
            return None;
        }
        let present = self.forbidden.get(group).and_then(|topics| topics.get(topic).copied());
        let present = present.unwrap_or_default();
        let mask = if readable { present & !READ_BIT } else { present | READ_BIT };
        let (group, topic) = (group.to_owned(), topic.to_owned());
        Some(Change::Forbidden { group, topic, mask })
    }

    /// The version that slaves and tools compare; it moves with every change.
    pub(crate) fn version(&self) -> DataVersion {
        self.version.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Whether an attribute may have a value. One that is removed has none.
fn check_value(key: &str, value: &str) -> Result<(), UpdateError> {
    let Some(name) = key.strip_prefix('+').filter(|name| *name == priority::FACTOR) else {
        return Ok(());
    };
    priority::check_factor(value).map_err(|reason| UpdateError::Value {
        name: name.to_owned(),
        value: value.to_owned(),
        reason,
    })
}

/// A group as it is when nobody said how it should be.
fn defaults(name: &str) -> SubscriptionGroupConfig {
    SubscriptionGroupConfig { group_name: name.to_owned(), ..SubscriptionGroupConfig::default() }
}
