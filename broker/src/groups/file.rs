//! The table as subscriptionGroup.json, in Java's form.

use std::{
    io,
    sync::{Arc, PoisonError},
};

use protocol::body::{SubscriptionGroupConfig, SubscriptionGroupWrapper};
use store::config_file::{ConfigFile, JavaText, LoadConfigError, java_text};

use super::Groups;

impl Groups {
    /// Reads the table and adds the built-in groups that are missing.
    ///
    /// # Errors
    /// The file cannot be read, or neither it nor its backup is a table of groups.
    pub(crate) fn open(file: ConfigFile) -> Result<Self, LoadConfigError> {
        let read = file.load(SubscriptionGroupWrapper::decode)?;
        let groups = Self::empty(file);
        if let Some(read) = read {
            for (name, mut group) in read.subscription_group_table {
                group.group_name.clone_from(&name);
                groups.table.insert(name, Arc::new(group));
            }
            for (group, topics) in read.forbidden_table {
                groups.forbidden.insert(group, topics);
            }
            *groups.version.lock().unwrap_or_else(PoisonError::into_inner) = read.data_version;
        }
        groups.add_built_in();
        Ok(groups)
    }

    /// Writes the table where it changed since it was last written.
    ///
    /// # Errors
    /// The file cannot be written; the next call tries again.
    pub(crate) fn flush(&self) -> io::Result<()> {
        // Held from the look at the table to the end of its writing, so that the file never goes
        // back.
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.take_changed() {
            return Ok(());
        }
        let written = text(&self.wrapper()).and_then(|text| file.store(text.as_bytes()));
        written.inspect_err(|_| self.mark_changed())
    }

    /// The whole table.
    pub(crate) fn wrapper(&self) -> SubscriptionGroupWrapper {
        SubscriptionGroupWrapper {
            subscription_group_table: self
                .all()
                .into_iter()
                .map(|(name, group)| (name, SubscriptionGroupConfig::clone(&group)))
                .collect(),
            forbidden_table: self.all_forbidden(),
            data_version: self.version(),
        }
    }
}

fn text(wrapper: &SubscriptionGroupWrapper) -> io::Result<String> {
    let value = serde_json::from_slice(&wrapper.encode())?;
    Ok(java_text(&value, JavaText { integer_keys: &|_| false }))
}
