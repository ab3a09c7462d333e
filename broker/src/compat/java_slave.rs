//! Java slaves of this master, which take its tables every ten seconds (`SlaveSynchronize.java`).
//!
//! They ask 60 every three seconds and 21 and 61 by one connection to the main port, and 43, 45, 201
//! and 402 by another to the fast port.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use protocol::{Language, code::request, version};
use tokio::sync::watch;

use crate::{broker::Broker, call::Call};

/// Versions whose slaves take each attribute of a topic or group for a change of it, and drop the
/// table where a name does not begin with `+` (issue 9403 of Apache's).
const TAKES_CHANGES: RangeInclusive<i32> = version::V5_3_1 + 1..=version::V5_3_3;

/// Connections that are kept in mind, at most: a group has few slaves.
const MOST: usize = 256;

/// How long a hand-over to a Java member waits until that has taken the tables: it does so every ten
/// seconds, or up to thirteen.
const TAKES_TABLES: Duration = Duration::from_secs(14);
/// How long it waits after that until the member has taken the progress of timers.
const TAKES_TIMERS: Duration = Duration::from_secs(1);

/// What is known of the Java slaves.
#[derive(Debug)]
pub(crate) struct JavaSlaves {
    /// Connections by which one has asked what only slaves ask.
    known: Mutex<BTreeSet<u64>>,
    /// How often one has taken all tables.
    taken: watch::Sender<u64>,
    /// How often one has taken the progress of timers.
    timers: watch::Sender<u64>,
}

impl JavaSlaves {
    /// None is known.
    pub(crate) fn new() -> Self {
        Self {
            known: Mutex::default(),
            taken: watch::Sender::new(0),
            timers: watch::Sender::new(0),
        }
    }

    /// A connection asks what only slaves ask.
    pub(crate) fn note(&self, call: &Call) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if call.command.language == Language::Java && known.len() < MOST {
            known.insert(call.connection.id());
        }
    }

    /// One takes the progress of timers.
    pub(crate) fn note_timers(&self) {
        self.timers.send_modify(|times| *times += 1);
    }

    /// A connection has ended.
    pub(crate) fn closed(&self, connection: u64) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&connection);
    }

    fn knows(&self, connection: u64) -> bool {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).contains(&connection)
    }
}

impl Broker {
    /// Whether the answer to `call` goes to a slave that takes attributes for changes.
    pub(crate) fn is_for_changes(&self, call: &Call) -> bool {
        if call.command.language != Language::Java || !TAKES_CHANGES.contains(&call.command.version)
        {
            return false;
        }
        match call.command.code {
            request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG => self.came_by_fast_port(call),
            _ => self.java_slaves.knows(call.connection.id()),
        }
    }

    /// Notes that a slave has taken the last of the tables that fail over, where it is one.
    pub(crate) fn note_java_slave(&self, call: &Call) {
        if self.came_by_fast_port(call) {
            self.java_slaves.taken.send_modify(|times| *times += 1);
        }
    }

    fn came_by_fast_port(&self, call: &Call) -> bool {
        call.connection.local_addr().port() != self.store_host().port()
    }

    /// Waits, for a bounded time, until a Java slave has taken the tables as they are: what clients
    /// commit after that is in the log alone, which a Java member passes over.
    pub(crate) async fn let_java_take_tables(&self) {
        let mut taken = self.java_slaves.taken.subscribe();
        taken.mark_unchanged();
        if tokio::time::timeout(TAKES_TABLES, taken.changed()).await.is_err() {
            tracing::warn!(
                "no Java slave has taken the tables for {} s: what was committed since its last copy goes back when it leads",
                TAKES_TABLES.as_secs()
            );
            return;
        }
        // It asks for that right behind them, where it has timers.
        let mut timers = self.java_slaves.timers.subscribe();
        timers.mark_unchanged();
        drop(tokio::time::timeout(TAKES_TIMERS, timers.changed()).await);
    }
}

/// Attributes as changes that add them.
pub(crate) fn as_changes(attributes: &mut BTreeMap<String, String>) {
    *attributes = std::mem::take(attributes)
        .into_iter()
        .map(|(name, value)| (format!("+{name}"), value))
        .collect();
}
