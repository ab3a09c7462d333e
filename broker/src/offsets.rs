//! How far each group has consumed each queue (`ConsumerOffsetManager.java`).
//!
//! The table follows from the journal. The leader keeps commits whose records are not applied yet
//! beside it, and answers with them: the last commit wins, also when it goes back, for the client
//! knows what it wants to see again. An offset that an administrator has set is different: it stands
//! against commits until the client has been told of it by its next query or pull, also under the next
//! master: the journal has resets that wait.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use dashmap::DashMap;
use protocol::body::{ConsumerOffsetSerializeWrapper, DataVersion};
use store::journal::{Change, Tables};

use crate::broadcast::Broadcast;

/// The largest queue number that an offset is kept for.
const MAX_QUEUE: i32 = 65_535;

/// What became of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Commit {
    /// The offset is the group's in the journal already.
    Known,
    /// The offset holds here, and its record is still to be written.
    Pending,
    /// The offset is not kept: an administrator's reset waits for the client.
    ResetPending,
    /// The offset is not kept: it or the queue number says nothing.
    Meaningless,
}

/// Offsets of one group on one topic, by queue.
#[derive(Debug, Clone, Default)]
struct Progress {
    /// What the journal says: the next message to consume.
    committed: BTreeMap<i32, i64>,
    /// What was committed here and is not applied yet.
    pending: BTreeMap<i32, Waiting>,
    /// Where the latest pull ended. In memory only.
    pulled: BTreeMap<i32, i64>,
    /// Resets that the client has not heard of, those included whose record is not applied.
    resets: BTreeMap<i32, i64>,
    /// Whether the key is in the list of those with something to send.
    listed: bool,
}

/// A commit that is not applied yet.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    offset: i64,
    /// Number of the commit, which no other has.
    commit: u64,
    /// Whether its record was handed to the log.
    sent: bool,
}

/// The table of all offsets.
#[derive(Debug, Default)]
pub(crate) struct Offsets {
    /// By `topic@group`, the key that Java uses in its file and on the wire.
    table: DashMap<String, Progress>,
    version: Mutex<DataVersion>,
    commits: AtomicU64,
    /// Keys with commits that no record holds.
    unsent: Mutex<Vec<String>>,
    /// See [`Offsets::in_order`].
    order: Mutex<()>,
    /// Where single members of broadcasting groups are.
    pub(crate) broadcast: Broadcast,
}

/// Commits of some groups on their way into the log.
#[derive(Debug, Default)]
pub(crate) struct Sent(Vec<SentOf>);

/// The commits of one key: queue, offset and number of each.
type SentOf = (String, Vec<(i32, i64, u64)>);

impl Sent {
    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The changes to be written.
    pub(crate) fn changes(&self) -> Vec<Change> {
        let change = |(key, commits): &SentOf| Change::Offsets {
            key: key.clone(),
            queues: commits.iter().map(|(queue, offset, _)| (*queue, *offset)).collect(),
        };
        self.0.iter().map(change).collect()
    }
}

impl Offsets {
    /// The table as the journal has it.
    pub(crate) fn new(tables: &Tables) -> Self {
        let offsets = Self::default();
        offsets.load(tables);
        offsets
    }

    /// Takes the whole table. Commits that are not applied are forgotten: another node leads, and
    /// their clients commit again. So are resets that the journal does not have: told by a node that
    /// leads again later, they would set a group back that has gone on elsewhere.
    pub(crate) fn load(&self, tables: &Tables) {
        self.unsent().clear();
        let (offsets, resets) = (&tables.offsets, &tables.resets);
        self.table.retain(|key, _| offsets.contains_key(key) || resets.contains_key(key));
        let none = BTreeMap::new();
        let only_reset = resets.keys().filter(|key| !offsets.contains_key(*key));
        for key in offsets.keys().chain(only_reset) {
            let mut progress = self.table.entry(key.clone()).or_default();
            progress.committed.clone_from(offsets.get(key).unwrap_or(&none));
            progress.resets.clone_from(resets.get(key).unwrap_or(&none));
            progress.pending.clear();
            progress.listed = false;
        }
        self.set_version(tables);
    }

    /// Takes what the journal has for some queues now.
    pub(crate) fn take(&self, key: &str, queues: &[(i32, i64)], tables: &Tables) {
        if let Some(offsets) = tables.offsets.get(key) {
            let mut progress = self.table.entry(key.to_owned()).or_default();
            for (queue, _) in queues {
                if let Some(offset) = offsets.get(queue) {
                    progress.committed.insert(*queue, *offset);
                    let known = |waiting: &Waiting| waiting.offset == *offset;
                    if progress.pending.get(queue).is_some_and(known) {
                        progress.pending.remove(queue);
                    }
                }
            }
        }
        self.set_version(tables);
    }

    /// Keeps `offset` as the next message that the group wants of a queue.
    pub(crate) fn commit(&self, group: &str, topic: &str, queue: i32, offset: i64) -> Commit {
        if offset < 0 || !(0..=MAX_QUEUE).contains(&queue) {
            return Commit::Meaningless;
        }
        self.with(group, topic, |key, progress| {
            if progress.resets.contains_key(&queue) {
                return Commit::ResetPending;
            }
            // Clients repeat their offsets every few seconds; an idle group writes nothing.
            if progress.effective(queue) != Some(offset) {
                self.wait(key, progress, (queue, offset));
            }
            if progress.pending.contains_key(&queue) { Commit::Pending } else { Commit::Known }
        })
    }

    /// Held by whoever settles which offsets a record says until the log has it, so that records stand
    /// in the log in the order in which offsets were settled.
    pub(crate) fn in_order(&self) -> MutexGuard<'_, ()> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The commits that no record holds, to be written now, [`Offsets::in_order`].
    pub(crate) fn take_unsent(&self) -> Sent {
        let keys = std::mem::take(&mut *self.unsent());
        let mut sent = Sent::default();
        for key in keys {
            let Some(mut progress) = self.table.get_mut(&key) else { continue };
            progress.listed = false;
            let mut commits = Vec::new();
            for (queue, waiting) in &mut progress.pending {
                if !waiting.sent {
                    waiting.sent = true;
                    commits.push((*queue, waiting.offset, waiting.commit));
                }
            }
            drop(progress);
            if !commits.is_empty() {
                sent.0.push((key, commits));
            }
        }
        sent
    }

    /// The commits are applied, or it is not known whether they are: those are sent again.
    pub(crate) fn settle(&self, sent: Sent, applied: bool) {
        for (key, commits) in sent.0 {
            let Some(mut progress) = self.table.get_mut(&key) else { continue };
            let mut again = false;
            for (queue, _, commit) in commits {
                let Some(waiting) = progress.pending.get_mut(&queue) else { continue };
                if waiting.commit != commit {
                    continue;
                }
                if applied {
                    progress.pending.remove(&queue);
                } else {
                    waiting.sent = false;
                    again = true;
                }
            }
            if again && !progress.listed {
                progress.listed = true;
                self.unsent().push(key);
            }
        }
    }

    /// Keeps an offset whose record the caller hands to the log, [`Offsets::in_order`]: it holds here
    /// until that is applied, or until [`Offsets::not_written`] says that it will not be.
    pub(crate) fn written(&self, group: &str, topic: &str, queue: i32, offset: i64) {
        self.with(group, topic, |_, progress| {
            if !progress.resets.contains_key(&queue) {
                let commit = self.commits.fetch_add(1, Ordering::Relaxed);
                progress.pending.insert(queue, Waiting { offset, commit, sent: true });
            }
        });
    }

    /// The record of an offset that was [`Offsets::written`] is not in the log: the group goes on
    /// at `from`, as far as it has not been set elsewhere since.
    pub(crate) fn not_written(&self, group: &str, topic: &str, queue: i32, (from, to): (i64, i64)) {
        self.with(group, topic, |key, progress| {
            let later = progress.pending.get(&queue).is_some_and(|waiting| waiting.offset >= to);
            if later && !progress.resets.contains_key(&queue) {
                self.wait(key, progress, (queue, from));
            }
        });
    }

    /// Where the group goes on in a queue: a reset that waits for it, else what it committed.
    pub(crate) fn query(&self, group: &str, topic: &str, queue: i32) -> Option<i64> {
        let progress = self.table.get(&key(group, topic))?;
        progress.resets.get(&queue).copied().or_else(|| progress.effective(queue))
    }

    /// Keeps where a pull ended: messages up to here are with the client.
    pub(crate) fn pulled(&self, group: &str, topic: &str, queue: i32, next: i64) {
        if next >= 0 && (0..=MAX_QUEUE).contains(&queue) {
            self.with(group, topic, |_, progress| progress.pulled.insert(queue, next));
        }
    }

    /// Where the latest pull of the group ended.
    pub(crate) fn last_pulled(&self, group: &str, topic: &str, queue: i32) -> Option<i64> {
        self.table.get(&key(group, topic))?.pulled.get(&queue).copied()
    }

    /// Sets where the group goes on, against commits that are on their way, until it has heard of
    /// it. The change that says so goes into the journal with the offset.
    #[must_use]
    pub(crate) fn reset(&self, group: &str, topic: &str, queue: i32, offset: i64) -> Change {
        self.with(group, topic, |key, progress| {
            progress.resets.insert(queue, offset);
            self.wait(key, progress, (queue, offset));
            Change::Reset { key: key.to_owned(), queue, offset, told: false }
        })
    }

    /// Takes the reset that waits for the group's next pull of a queue; the journal is still to hear of
    /// it, see [`told`].
    pub(crate) fn take_reset(&self, group: &str, topic: &str, queue: i32) -> Option<i64> {
        let key = key(group, topic);
        // Almost every pull ends here, without the lock that a change needs.
        if self.table.get(&key)?.resets.is_empty() {
            return None;
        }
        self.table.get_mut(&key)?.resets.remove(&queue)
    }

    /// Whether a reset waits for the group's next pull or pop of a queue.
    pub(crate) fn has_reset(&self, group: &str, topic: &str, queue: i32) -> bool {
        self.table.get(&key(group, topic)).is_some_and(|it| it.resets.contains_key(&queue))
    }

    /// Whether the group has offsets for any topic.
    pub(crate) fn has_group(&self, group: &str) -> bool {
        self.table.iter().any(|row| {
            let used = !row.committed.is_empty() || !row.pending.is_empty();
            used && split(row.key()).is_some_and(|(_, of_group)| of_group == group)
        })
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
            .map_or_else(BTreeMap::new, |progress| progress.all_effective())
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
                self.with(to, &topic, |key, progress| {
                    for offset in offsets {
                        self.wait(key, progress, offset);
                    }
                });
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

    /// The version that Java's slaves compare.
    pub(crate) fn version(&self) -> DataVersion {
        self.version.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The committed offsets, as Java's slaves ask for them. Where pulls ended is left out: none of them
    /// reads it, and those of 5.5.0 take no offset at all where it is there, as they cannot pass over a
    /// table whose keys are numbers.
    pub(crate) fn wrapper_for_slaves(&self) -> ConsumerOffsetSerializeWrapper {
        let offset_table = self.collect(Progress::all_effective);
        let mut group_topic_map: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (topic, group) in offset_table.keys().filter_map(|key| split(key)) {
            group_topic_map.entry(group.to_owned()).or_default().push(topic.to_owned());
        }
        ConsumerOffsetSerializeWrapper {
            offset_table,
            group_topic_map: Some(group_topic_map),
            data_version: self.version(),
            lmq_offset_table: Some(BTreeMap::new()),
            pull_offset_table: None,
        }
    }

    fn collect(
        &self,
        part: impl Fn(&Progress) -> BTreeMap<i32, i64>,
    ) -> BTreeMap<String, BTreeMap<i32, i64>> {
        self.table
            .iter()
            .map(|row| (row.key().clone(), part(row.value())))
            .filter(|(_, offsets)| !offsets.is_empty())
            .collect()
    }

    /// Lets a commit wait for its record.
    fn wait(&self, key: &str, progress: &mut Progress, (queue, offset): (i32, i64)) {
        let commit = self.commits.fetch_add(1, Ordering::Relaxed);
        progress.pending.insert(queue, Waiting { offset, commit, sent: false });
        if !progress.listed {
            progress.listed = true;
            self.unsent().push(key.to_owned());
        }
    }

    fn unsent(&self) -> MutexGuard<'_, Vec<String>> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_version(&self, tables: &Tables) {
        let mut version = self.version.lock().unwrap_or_else(PoisonError::into_inner);
        version.clone_from(&tables.versions.offsets);
    }

    fn forget(&self, gone: impl Fn(&str, &str) -> bool) {
        self.table.retain(|key, _| split(key).is_none_or(|(topic, group)| !gone(topic, group)));
    }

    fn select(&self, pick: impl Fn(&str, &str) -> Option<String>) -> BTreeSet<String> {
        self.table
            .iter()
            .filter(|entry| !entry.committed.is_empty() || !entry.pending.is_empty())
            .filter_map(|entry| {
                // The least offsets of a broadcasting group are of no group that anybody consumes by.
                let (topic, group) =
                    split(entry.key()).filter(|(_, group)| !group.contains('@'))?;
                pick(topic, group)
            })
            .collect()
    }

    fn with<R>(
        &self,
        group: &str,
        topic: &str,
        change: impl FnOnce(&str, &mut Progress) -> R,
    ) -> R {
        let key = key(group, topic);
        if let Some(mut progress) = self.table.get_mut(&key) {
            return change(&key, &mut progress);
        }
        change(&key, &mut self.table.entry(key.clone()).or_default())
    }
}

/// The change that says that a group has heard of a reset.
pub(crate) fn told(group: &str, topic: &str, queue: i32, offset: i64) -> Change {
    Change::Reset { key: key(group, topic), queue, offset, told: true }
}

impl Progress {
    fn effective(&self, queue: i32) -> Option<i64> {
        let waiting = self.pending.get(&queue).map(|waiting| waiting.offset);
        waiting.or_else(|| self.committed.get(&queue).copied())
    }

    fn all_effective(&self) -> BTreeMap<i32, i64> {
        let mut all = self.committed.clone();
        all.extend(self.pending.iter().map(|(queue, waiting)| (*queue, waiting.offset)));
        all
    }
}

/// The key of a topic and a group in Java's tables. Neither name can have an `@`.
pub(crate) fn key(group: &str, topic: &str) -> String {
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
