//! The journal of this node: its tables follow from records of the log, on every node alike.
//!
//! The leader writes records; the store's dispatcher hands every record to [`Broker::apply_journal`]
//! in log order, and nothing else changes a table. What an administrator asks for is acknowledged
//! when its record is committed and applied. Java's JSON files are a projection, with a mark that
//! says up to where (`project.rs`), and a start goes on from there (`store::journal::Loaded`).

mod project;
mod snapshot;
#[cfg(test)]
mod tests;
mod write;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64},
    },
    time::Duration,
};

use segment::Throttle;
use store::{
    JournalRecord, Store,
    journal::{
        Applied, Change, DecodeError, Folder, Kind, Loaded, Mark, OpenJournalError, Recovered,
        Replay, Tables, Touched,
    },
};
use tokio::sync::{Notify, watch};

use crate::{
    broker::Broker,
    call::Rejection,
    config::BrokerConfig,
    groups::Groups,
    handlers::{pop, pull},
    topics::Topics,
};

pub(crate) use write::{message, run};

/// The journal of one node.
#[derive(Debug)]
pub(crate) struct Journal {
    state: Mutex<State>,
    /// Log position behind the newest record that is applied.
    applied: watch::Sender<u64>,
    /// Why this node must stop, where it must.
    failure: watch::Sender<Option<String>>,
    files: Folder,
    /// The mark that was written last, locked while files are written.
    mark: Mutex<Mark>,
    /// Held from the look at a table to the end of its change, so that changes do not cross.
    changing: tokio::sync::Mutex<()>,
    /// Changes that nobody waits for.
    soon: Mutex<Vec<Change>>,
    /// Held while gathered commits are written: of two that write at once, the later commit might
    /// come first in the log.
    writing: tokio::sync::Mutex<()>,
    flush: Flush,
    snapshots: Snapshots,
}

#[derive(Debug)]
struct State {
    replay: Replay,
    /// Tables that may differ from their files.
    dirty: Touched,
    /// Whether the mark has to be written though no table differs.
    mark_is_old: bool,
}

/// Callers that wait until commits are written.
#[derive(Debug)]
struct Flush {
    wanted: AtomicU64,
    wake: Notify,
    done: watch::Sender<(u64, Result<(), Rejection>)>,
}

#[derive(Debug, Default)]
struct Snapshots {
    /// Whether one is being written.
    running: AtomicBool,
    last_id: AtomicU64,
    /// Warnings that none can be written.
    warned: Throttle,
    /// The one whose begin is awaited, and who takes the tables as they are there.
    awaited: Mutex<Option<(u64, tokio::sync::oneshot::Sender<snapshot::Captured>)>>,
}

/// How long a change waits at most to be applied once it is committed.
const APPLY_LIMIT: Duration = Duration::from_secs(30);

impl Journal {
    /// The tables at a start: those of the files, with the records behind their mark.
    ///
    /// # Errors
    /// See [`OpenJournalError`].
    pub(crate) fn recover<T: Send + 'static>(
        loaded: Loaded,
        store: &Store<T>,
        config: &BrokerConfig,
    ) -> Result<Self, OpenJournalError> {
        let recovered = loaded.recover(store, |tables| {
            Topics::complete(tables, config);
            Groups::complete(tables);
        })?;
        if let Some(unread) = recovered.unread {
            store.dispatch_again_from(unread);
        }
        Ok(Self::new(recovered))
    }

    fn new(recovered: Recovered) -> Self {
        let Recovered { replay, folder: files, mark, .. } = recovered;
        let applied = replay.position();
        Self {
            state: Mutex::new(State { replay, dirty: Touched::ALL, mark_is_old: false }),
            applied: watch::Sender::new(applied),
            failure: watch::Sender::new(None),
            files,
            mark: Mutex::new(mark),
            changing: tokio::sync::Mutex::default(),
            soon: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
            flush: Flush {
                wanted: AtomicU64::new(0),
                wake: Notify::new(),
                done: watch::Sender::new((0, Ok(()))),
            },
            snapshots: Snapshots::default(),
        }
    }

    /// Looks at the tables.
    pub(crate) fn with_tables<R>(&self, look: impl FnOnce(&Tables) -> R) -> R {
        look(self.state().replay.tables())
    }

    /// Whether tables are as somebody else wrote their files while this node did not run.
    pub(crate) fn is_decided_by_files(&self) -> bool {
        self.state().replay.is_decided_by_files()
    }

    /// Log position before which no record of the journal is needed any more: no file that holds
    /// what lies behind it may be deleted. Without a complete snapshot this node's files alone hold
    /// the tables: in a group (`others`) a member that is given the rest of the log would lack them,
    /// so that everything stays until there is one.
    pub(crate) fn needed_from(&self, others: bool) -> u64 {
        let without = if others { 0 } else { u64::MAX };
        self.state().replay.newest().map_or(without, |newest| newest.begin)
    }

    /// Waits until this node must stop; gives the reason.
    pub(crate) async fn failed(&self) -> String {
        let mut failure = self.failure.subscribe();
        let told = failure.wait_for(Option::is_some).await;
        told.ok().and_then(|told| told.clone()).unwrap_or_default()
    }

    /// Lets a change be written soon, without waiting for it.
    pub(crate) fn soon(&self, change: Change) {
        // What use makes is bounded by the tables' own bounds.
        self.soon.lock().unwrap_or_else(PoisonError::into_inner).push(change);
        self.flush.wake.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Broker {
    /// Log position before which neither this node nor another needs a record of the journal; see
    /// [`Journal::needed_from`].
    pub(crate) fn journal_needed_from(&self) -> u64 {
        self.journal.needed_from(self.group.is_some())
    }

    /// Applies one record, on the dispatcher's thread. False where it cannot be, and nothing behind
    /// it may be.
    pub(crate) fn apply_journal(self: &Arc<Self>, record: &JournalRecord<'_>) -> bool {
        let mut state = self.journal.state();
        let applied = state.replay.apply(record.position, record.stored, record.body);
        match applied {
            Ok(Applied::Nothing) => {}
            Ok(Applied::Changes(changes, touched)) => {
                for kind in Kind::ALL.into_iter().filter(|kind| touched.has(*kind)) {
                    state.dirty.add(kind);
                }
                // Under the lock, so that a load of whole tables does not cross it.
                self.show(&changes, touched, state.replay.tables());
                drop(state);
                self.forget_topics(&changes);
            }
            Ok(Applied::Begun(id)) => self.capture_snapshot(id, state.replay.tables()),
            Ok(Applied::Adopted(changed)) => {
                state.mark_is_old = true;
                if changed {
                    tracing::info!(position = record.position, "tables are those of a snapshot");
                    state.dirty = Touched::ALL;
                    self.load_tables(state.replay.tables());
                }
            }
            Err(error) if matches!(error.reason, DecodeError::Newer { .. }) => {
                let told = self.journal.failure.borrow().is_some();
                if !told {
                    tracing::error!(%error, "this node stops");
                    self.journal.failure.send_replace(Some(error.to_string()));
                }
                return false;
            }
            // Passed over: no node can read it, so that all tables stay alike.
            Err(error) => tracing::error!(%error, "a record of the journal is passed over"),
        }
        self.journal.applied.send_replace(record.position + 1);
        true
    }

    /// This node leads no more, or is about to lead: what is not applied is not its to say. A
    /// request that was on its way when the lead went may have left something since.
    pub(crate) fn forget_unapplied(&self) {
        self.journal.soon.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let state = self.journal.state();
        self.load_tables(state.replay.tables());
    }

    /// Takes tables that no record says, from a Java master: `make` gives them from those of now. They
    /// are taken only while `holds`, which is asked when no record can come in between; gives whether
    /// it held. A leader that has such tables writes a snapshot.
    pub(crate) fn journal_adopt(
        &self,
        make: impl FnOnce(&Tables) -> Tables,
        holds: impl FnOnce() -> bool,
    ) -> bool {
        let mut state = self.journal.state();
        if !holds() {
            return false;
        }
        let mut tables = make(state.replay.tables());
        let told = tables.versions.topics.timestamp;
        Topics::complete(&mut tables, &self.config());
        Groups::complete(&mut tables);
        // What every node adds by itself is no change of now.
        tables.versions.topics.timestamp = told;
        let differing = state.replay.tables().differing(&tables);
        if differing.any() {
            state.replay.adopt(tables);
            for kind in Kind::ALL.into_iter().filter(|kind| differing.has(*kind)) {
                state.dirty.add(kind);
            }
            self.load_tables(state.replay.tables());
        }
        true
    }

    fn load_tables(&self, tables: &Tables) {
        self.topics.load(tables);
        self.groups.load(tables);
        self.offsets.load(tables);
        self.delay_progress.load(tables);
        self.pop.orders.load(tables);
    }

    fn show(&self, changes: &[Change], touched: Touched, tables: &Tables) {
        for change in changes {
            match change {
                Change::Topic(topic) | Change::NewTopic(topic) if touched.topics => {
                    self.topics.take(&topic.topic_name, tables);
                }
                Change::DeleteTopic(topic) => {
                    if touched.topics {
                        self.topics.take(topic, tables);
                    }
                    if touched.offsets {
                        self.offsets.forget_topic(topic);
                    }
                    self.pop.orders.forget(|queue| queue.topic == *topic);
                }
                Change::Group(group) | Change::NewGroup(group) if touched.groups => {
                    self.groups.take(&group.group_name, tables);
                }
                Change::DeleteGroup(group) | Change::Forbidden { group, .. } if touched.groups => {
                    self.groups.take(group, tables);
                }
                Change::Offsets { key, queues } if touched.offsets => {
                    self.offsets.take(key, queues, tables);
                }
                Change::DropOffsetsOfGroup(group) if touched.offsets => {
                    self.offsets.forget_group(group);
                    self.pop.orders.forget(|queue| queue.group == *group);
                }
                Change::Delays(levels) if touched.delays => self.delay_progress.take(levels),
                _ => {}
            }
        }
    }

    /// Counters and waiting pulls of deleted topics go; the store has cleared their queues.
    fn forget_topics(self: &Arc<Self>, changes: &[Change]) {
        for change in changes {
            let Change::DeleteTopic(topic) = change else { continue };
            self.stats.forget_topic(topic);
            self.offsets.broadcast.forget_where(|of, _| of == topic);
            pull::resume(self, self.hold.drain(Some(topic)));
            pop::let_go(self, Some(topic));
        }
    }
}
