//! How far each group has consumed each queue (`ConsumerOffsetManager.java`).
//!
//! The last commit wins, also when it goes back: the client knows what it wants to see again. An
//! offset that an administrator has set is different: it stands against commits until the client
//! has been told of it by its next query or pull.

mod file;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use dashmap::DashMap;
use protocol::body::DataVersion;
use store::config_file::ConfigFile;

/// The largest queue number that an offset is kept for.
const MAX_QUEUE: i32 = 65_535;

/// Commits until the data version moves (`consumerOffsetUpdateVersionStep`).
const VERSION_STEP: u64 = 500;

/// What became of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Commit {
    /// The offset is kept.
    Kept,
    /// The offset is not kept: an administrator's reset waits for the client.
    ResetPending,
    /// The offset is not kept: it or the queue number says nothing.
    Meaningless,
}

/// Offsets of one group on one topic, by queue.
#[derive(Debug, Clone, Default)]
struct Progress {
    /// What was committed: the next message to consume.
    committed: BTreeMap<i32, i64>,
    /// Where the latest pull ended. In memory only.
    pulled: BTreeMap<i32, i64>,
    /// Resets that the client has not heard of. In memory only.
    resets: BTreeMap<i32, i64>,
}

/// The table of all offsets.
#[derive(Debug)]
pub(crate) struct Offsets {
    /// By `topic@group`, the key that Java uses in its file and on the wire.
    table: DashMap<String, Progress>,
    version: Mutex<DataVersion>,
    commits: AtomicU64,
    dirty: AtomicBool,
    file: Mutex<ConfigFile>,
}

impl Offsets {
    /// Keeps `offset` as the next message that the group wants of a queue.
    pub(crate) fn commit(&self, group: &str, topic: &str, queue: i32, offset: i64) -> Commit {
        if offset < 0 || !(0..=MAX_QUEUE).contains(&queue) {
            return Commit::Meaningless;
        }
        let (result, moved) = self.with(group, topic, |progress| {
            if progress.resets.contains_key(&queue) {
                return (Commit::ResetPending, false);
            }
            // Clients repeat their offsets every few seconds; an idle group writes nothing.
            let moved = progress.committed.insert(queue, offset) != Some(offset);
            (Commit::Kept, moved)
        });
        if moved {
            self.changed();
        }
        result
    }

    /// Where the group goes on in a queue: a reset that waits for it, else what it committed.
    pub(crate) fn query(&self, group: &str, topic: &str, queue: i32) -> Option<i64> {
        let progress = self.table.get(&key(group, topic))?;
        progress.resets.get(&queue).or_else(|| progress.committed.get(&queue)).copied()
    }

    /// Keeps where a pull ended: messages up to here are with the client.
    pub(crate) fn pulled(&self, group: &str, topic: &str, queue: i32, next: i64) {
        if next >= 0 && (0..=MAX_QUEUE).contains(&queue) {
            self.with(group, topic, |progress| progress.pulled.insert(queue, next));
        }
    }

    /// Where the latest pull of the group ended.
    pub(crate) fn last_pulled(&self, group: &str, topic: &str, queue: i32) -> Option<i64> {
        self.table.get(&key(group, topic))?.pulled.get(&queue).copied()
    }

    /// Sets where the group goes on, against commits that are on their way, until it has heard of
    /// it.
    pub(crate) fn reset(&self, group: &str, topic: &str, queue: i32, offset: i64) {
        self.with(group, topic, |progress| {
            progress.resets.insert(queue, offset);
            progress.committed.insert(queue, offset);
        });
        self.changed();
    }

    /// Takes the reset that waits for the group's next pull of a queue.
    pub(crate) fn take_reset(&self, group: &str, topic: &str, queue: i32) -> Option<i64> {
        let key = key(group, topic);
        // Almost every pull ends here, without the lock that a change needs.
        if self.table.get(&key)?.resets.is_empty() {
            return None;
        }
        self.table.get_mut(&key)?.resets.remove(&queue)
    }

    /// Topics that the group has offsets for, in order.
    pub(crate) fn topics_of(&self, group: &str) -> BTreeSet<String> {
        self.select(|topic, of_group| (of_group == group).then(|| topic.to_owned()))
    }

    /// Groups that have offsets for the topic, in order.
    pub(crate) fn groups_of(&self, topic: &str) -> BTreeSet<String> {
        self.select(|of_topic, group| (of_topic == topic).then(|| group.to_owned()))
    }

    /// Committed offsets of a group on a topic, by queue.
    pub(crate) fn committed(&self, group: &str, topic: &str) -> BTreeMap<i32, i64> {
        self.table
            .get(&key(group, topic))
            .map_or_else(BTreeMap::new, |progress| progress.committed.clone())
    }

    /// Gives `to` the committed offsets of `from`, on one topic or on all.
    pub(crate) fn copy(&self, from: &str, to: &str, topic: Option<&str>) {
        let topics = match topic {
            Some(topic) => BTreeSet::from([topic.to_owned()]),
            None => self.topics_of(from),
        };
        for topic in topics {
            let offsets = self.committed(from, &topic);
            if !offsets.is_empty() {
                self.with(to, &topic, |progress| progress.committed = offsets);
                self.changed();
            }
        }
    }

    /// Drops what is known of a group.
    pub(crate) fn forget_group(&self, group: &str) {
        self.forget(|_, of_group| of_group == group);
    }

    /// Drops what is known of a topic.
    pub(crate) fn forget_topic(&self, topic: &str) {
        self.forget(|of_topic, _| of_topic == topic);
    }

    fn empty(file: ConfigFile) -> Self {
        Self {
            table: DashMap::new(),
            version: Mutex::default(),
            commits: AtomicU64::new(0),
            dirty: AtomicBool::new(false),
            file: Mutex::new(file),
        }
    }

    /// Whether something changed since the last call.
    fn take_changed(&self) -> bool {
        self.dirty.swap(false, Ordering::AcqRel)
    }

    /// Says that what the last [`Offsets::take_changed`] reported could not be written.
    fn mark_changed(&self) {
        self.dirty.store(true, Ordering::Release);
    }

    /// The version that Java's slaves compare.
    pub(crate) fn version(&self) -> DataVersion {
        self.version.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn forget(&self, gone: impl Fn(&str, &str) -> bool) {
        let before = self.table.len();
        self.table.retain(|key, _| split(key).is_none_or(|(topic, group)| !gone(topic, group)));
        if self.table.len() != before {
            self.changed();
        }
    }

    fn select(&self, pick: impl Fn(&str, &str) -> Option<String>) -> BTreeSet<String> {
        self.table
            .iter()
            .filter(|entry| !entry.committed.is_empty())
            .filter_map(|entry| split(entry.key()).and_then(|(topic, group)| pick(topic, group)))
            .collect()
    }

    fn with<R>(&self, group: &str, topic: &str, change: impl FnOnce(&mut Progress) -> R) -> R {
        let key = key(group, topic);
        if let Some(mut progress) = self.table.get_mut(&key) {
            return change(&mut progress);
        }
        change(&mut self.table.entry(key).or_default())
    }

    fn changed(&self) {
        self.dirty.store(true, Ordering::Release);
        if self.commits.fetch_add(1, Ordering::Relaxed) % VERSION_STEP == VERSION_STEP - 1 {
            let mut version = self.version.lock().unwrap_or_else(PoisonError::into_inner);
            version.counter += 1;
            version.timestamp = crate::clock::now_millis();
        }
    }
}

fn key(group: &str, topic: &str) -> String {
    let mut key = String::with_capacity(topic.len() + group.len() + 1);
    key.push_str(topic);
    key.push('@');
    key.push_str(group);
    key
}

/// Topic and group of a key. Neither may contain the separator.
fn split(key: &str) -> Option<(&str, &str)> {
    key.split_once('@')
}
