//! The tables that follow from the journal.

use std::{collections::BTreeMap, sync::Arc};

use protocol::body::{
    DataVersion, OrderInfo, SetMessageRequestModeRequestBody, SubscriptionGroupConfig, TopicConfig,
};
use serde::{Deserialize, Serialize};

use super::Change;

/// All tables at one log position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tables {
    /// Topics by name.
    pub topics: BTreeMap<String, Arc<TopicConfig>>,
    /// Groups by name.
    pub groups: BTreeMap<String, Arc<SubscriptionGroupConfig>>,
    /// Rights taken away, by group and topic: a bit mask.
    pub forbidden: BTreeMap<String, BTreeMap<String, i32>>,
    /// Next offset of each queue, by `topic@group`.
    pub offsets: BTreeMap<String, BTreeMap<i32, i64>>,
    /// Next offset of each delay level.
    pub delays: BTreeMap<u32, u64>,
    /// How groups consume, by topic and group; what is not named consumes as configured.
    pub request_modes: BTreeMap<String, BTreeMap<String, SetMessageRequestModeRequestBody>>,
    /// What ordered pops were given of each queue, by `topic@group`.
    pub orders: BTreeMap<String, BTreeMap<i32, OrderInfo>>,
    /// Where groups go on by an administrator's word that they have not heard, by `topic@group`.
    pub resets: BTreeMap<String, BTreeMap<i32, i64>>,
    /// How often each was changed.
    pub versions: Versions,
}

/// The version of each table that has one in Java. It moves once for each record that names the table, whether that
/// changes something or not, so that it is the same on every node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// Of topics.
    pub topics: DataVersion,
    /// Of groups and their masks.
    pub groups: DataVersion,
    /// Of consumer offsets.
    pub offsets: DataVersion,
    /// Of the progress of delayed messages.
    pub delays: DataVersion,
}

/// A table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Topics.
    Topics,
    /// Groups and their masks.
    Groups,
    /// Consumer offsets.
    Offsets,
    /// Progress of delayed messages.
    Delays,
    /// How groups consume.
    RequestModes,
    /// Ordered pops.
    Orders,
    /// Resets of offsets that groups have not heard of.
    Resets,
}

/// A set of tables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Touched {
    /// Topics.
    pub topics: bool,
    /// Groups and their masks.
    pub groups: bool,
    /// Consumer offsets.
    pub offsets: bool,
    /// Progress of delayed messages.
    pub delays: bool,
    /// How groups consume.
    pub request_modes: bool,
    /// Ordered pops.
    pub orders: bool,
    /// Resets of offsets that groups have not heard of.
    pub resets: bool,
}

impl Touched {
    /// All tables.
    pub const ALL: Self = Self {
        topics: true,
        groups: true,
        offsets: true,
        delays: true,
        request_modes: true,
        orders: true,
        resets: true,
    };

    /// Adds a table.
    pub fn add(&mut self, kind: Kind) {
        match kind {
            Kind::Topics => self.topics = true,
            Kind::Groups => self.groups = true,
            Kind::Offsets => self.offsets = true,
            Kind::Delays => self.delays = true,
            Kind::RequestModes => self.request_modes = true,
            Kind::Orders => self.orders = true,
            Kind::Resets => self.resets = true,
        }
    }

    /// Whether a table is among them.
    #[must_use]
    pub fn has(self, kind: Kind) -> bool {
        match kind {
            Kind::Topics => self.topics,
            Kind::Groups => self.groups,
            Kind::Offsets => self.offsets,
            Kind::Delays => self.delays,
            Kind::RequestModes => self.request_modes,
            Kind::Orders => self.orders,
            Kind::Resets => self.resets,
        }
    }

    /// Whether there is any.
    #[must_use]
    pub fn any(self) -> bool {
        Kind::ALL.into_iter().any(|kind| self.has(kind))
    }
}

impl Change {
    /// The tables that it names.
    #[must_use]
    pub fn touches(&self) -> Touched {
        let mut touched = Touched::default();
        match self {
            Self::Topic(_) | Self::NewTopic(_) => touched.topics = true,
            Self::DeleteTopic(_) => {
                touched.topics = true;
                touched.offsets = true;
                touched.request_modes = true;
                touched.orders = true;
                touched.resets = true;
            }
            Self::Group(_) | Self::NewGroup(_) | Self::Forbidden { .. } => touched.groups = true,
            Self::DeleteGroup(_) => {
                touched.groups = true;
                touched.request_modes = true;
            }
            Self::Offsets { .. } => touched.offsets = true,
            Self::DropOffsetsOfGroup(_) => {
                touched.offsets = true;
                touched.orders = true;
                touched.resets = true;
            }
            Self::Delays(_) => touched.delays = true,
            Self::RequestMode(_) => touched.request_modes = true,
            Self::Order { .. } => touched.orders = true,
            Self::Reset { .. } => touched.resets = true,
            Self::Queues { .. } => {}
        }
        touched
    }
}

impl Tables {
    /// Does changes of one record that was stored at `stored` milliseconds, in all tables but those
    /// of `settled`; gives the tables that they name.
    pub fn apply(&mut self, changes: &[Change], stored: i64, settled: Touched) -> Touched {
        let mut touched = Touched::default();
        for change in changes {
            let named = change.touches();
            for kind in Kind::ALL {
                if named.has(kind) && !settled.has(kind) {
                    touched.add(kind);
                    self.change(kind, change);
                }
            }
        }
        self.versions.bump(touched, stored);
        touched
    }

    /// Takes the tables of `kinds` from another.
    pub fn take(&mut self, kinds: Touched, from: &Self) {
        if kinds.topics {
            self.topics.clone_from(&from.topics);
        }
        if kinds.groups {
            self.groups.clone_from(&from.groups);
            self.forbidden.clone_from(&from.forbidden);
        }
        if kinds.offsets {
            self.offsets.clone_from(&from.offsets);
        }
        if kinds.delays {
            self.delays.clone_from(&from.delays);
        }
        if kinds.request_modes {
            self.request_modes.clone_from(&from.request_modes);
        }
        if kinds.orders {
            self.orders.clone_from(&from.orders);
        }
        if kinds.resets {
            self.resets.clone_from(&from.resets);
        }
        self.versions.take(kinds, &from.versions);
    }

    /// The tables that are others than those of `from`, their versions included.
    #[must_use]
    pub fn differing(&self, from: &Self) -> Touched {
        let (ours, theirs) = (&self.versions, &from.versions);
        Touched {
            topics: self.topics != from.topics || ours.topics != theirs.topics,
            groups: self.groups != from.groups
                || self.forbidden != from.forbidden
                || ours.groups != theirs.groups,
            offsets: self.offsets != from.offsets || ours.offsets != theirs.offsets,
            delays: self.delays != from.delays || ours.delays != theirs.delays,
            request_modes: self.request_modes != from.request_modes,
            orders: self.orders != from.orders,
            resets: self.resets != from.resets,
        }
    }

    fn change(&mut self, kind: Kind, change: &Change) {
        match (kind, change) {
            (Kind::Topics, Change::Topic(topic)) => {
                self.topics.insert(topic.topic_name.clone(), Arc::new(topic.clone()));
            }
            (Kind::Topics, Change::NewTopic(topic)) => {
                let new = || Arc::new(topic.clone());
                self.topics.entry(topic.topic_name.clone()).or_insert_with(new);
            }
            (Kind::Topics, Change::DeleteTopic(topic)) => {
                self.topics.remove(topic);
            }
            (Kind::Offsets, Change::DeleteTopic(topic)) => {
                self.offsets.retain(|key, _| of_key(key).0 != topic);
            }
            (Kind::Offsets, Change::DropOffsetsOfGroup(group)) => {
                self.offsets.retain(|key, _| of_key(key).1 != group);
            }
            (Kind::Offsets, Change::Offsets { key, queues }) => {
                self.offsets.entry(key.clone()).or_default().extend(queues.iter().copied());
            }
            (Kind::Delays, Change::Delays(levels)) => self.delays.extend(levels.iter().copied()),
            (Kind::Groups, change) => self.change_groups(change),
            (Kind::RequestModes, change) => self.change_request_modes(change),
            (Kind::Orders, change) => self.change_orders(change),
            (Kind::Resets, change) => self.change_resets(change),
            _ => {}
        }
    }

    fn change_orders(&mut self, change: &Change) {
        match change {
            Change::Order { key, queue, row } => {
                let rows = self.orders.entry(key.clone()).or_default();
                // What is no row says as little as none.
                match row.as_deref().and_then(|row| OrderInfo::decode(row.as_bytes()).ok()) {
                    Some(row) => drop(rows.insert(*queue, row)),
                    None => drop(rows.remove(queue)),
                }
                if rows.is_empty() {
                    self.orders.remove(key);
                }
            }
            Change::DeleteTopic(topic) => self.orders.retain(|key, _| of_key(key).0 != topic),
            Change::DropOffsetsOfGroup(group) => {
                self.orders.retain(|key, _| of_key(key).1 != group);
            }
            _ => {}
        }
    }

    fn change_resets(&mut self, change: &Change) {
        match change {
            Change::Reset { key, queue, offset, told: false } => {
                self.resets.entry(key.clone()).or_default().insert(*queue, *offset);
            }
            Change::Reset { key, queue, offset, told: true } => {
                let Some(queues) = self.resets.get_mut(key) else { return };
                // A later reset stays, which the group has not heard of.
                if queues.get(queue) == Some(offset) {
                    queues.remove(queue);
                }
                if queues.is_empty() {
                    self.resets.remove(key);
                }
            }
            Change::DeleteTopic(topic) => self.resets.retain(|key, _| of_key(key).0 != topic),
            Change::DropOffsetsOfGroup(group) => {
                self.resets.retain(|key, _| of_key(key).1 != group);
            }
            _ => {}
        }
    }

    fn change_groups(&mut self, change: &Change) {
        match change {
            Change::Group(group) => {
                self.groups.insert(group.group_name.clone(), Arc::new(group.clone()));
            }
            Change::NewGroup(group) => {
                let new = || Arc::new(group.clone());
                self.groups.entry(group.group_name.clone()).or_insert_with(new);
            }
            Change::DeleteGroup(group) => {
                self.groups.remove(group);
                self.forbidden.remove(group);
            }
            Change::Forbidden { group, topic, mask } => {
                let topics = self.forbidden.entry(group.clone()).or_default();
                topics.insert(topic.clone(), *mask);
                topics.retain(|_, mask| *mask != 0);
                if topics.is_empty() {
                    self.forbidden.remove(group);
                }
            }
            _ => {}
        }
    }

    fn change_request_modes(&mut self, change: &Change) {
        match change {
            Change::RequestMode(mode) => {
                let groups = self.request_modes.entry(mode.topic.clone()).or_default();
                groups.insert(mode.consumer_group.clone(), mode.clone());
            }
            Change::DeleteTopic(topic) => drop(self.request_modes.remove(topic)),
            Change::DeleteGroup(group) => self.request_modes.retain(|_, groups| {
                groups.remove(group);
                !groups.is_empty()
            }),
            _ => {}
        }
    }
}

impl Versions {
    /// Takes the versions of `kinds` from another.
    pub(super) fn take(&mut self, kinds: Touched, from: &Self) {
        for (kind, version, other) in [
            (Kind::Topics, &mut self.topics, &from.topics),
            (Kind::Groups, &mut self.groups, &from.groups),
            (Kind::Offsets, &mut self.offsets, &from.offsets),
            (Kind::Delays, &mut self.delays, &from.delays),
        ] {
            if kinds.has(kind) {
                version.clone_from(other);
            }
        }
    }

    fn bump(&mut self, touched: Touched, stored: i64) {
        for (kind, version) in [
            (Kind::Topics, &mut self.topics),
            (Kind::Groups, &mut self.groups),
            (Kind::Offsets, &mut self.offsets),
            (Kind::Delays, &mut self.delays),
        ] {
            if touched.has(kind) {
                version.counter += 1;
                version.timestamp = stored;
            }
        }
    }
}

/// Topic and group of `topic@group`; the group is empty where there is no separator.
fn of_key(key: &str) -> (&str, &str) {
    key.split_once('@').unwrap_or((key, ""))
}
