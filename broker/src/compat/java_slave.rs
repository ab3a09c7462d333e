//! Java slaves of this master, which take its tables every ten seconds (`SlaveSynchronize.java`).
//!
//! They ask 60 every three seconds and 21 and 61 by one connection to the main port, and 43, 45, 201
//! and 402 by another to the fast port.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use dledger::{PeerKind, transport::Known};
use protocol::{Language, code::request, version};
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

use crate::{broker::Broker, call::Call};

/// Versions whose slaves take each attribute of a topic or group for a change of it, and drop the
/// table where a name does not begin with `+` (issue 9403 of Apache's).
const TAKES_CHANGES: RangeInclusive<i32> = version::V5_3_1 + 1..=version::V5_3_3;

/// Connections that are kept in mind, at most: a group has few slaves.
const MOST: usize = 256;

/// How long a hand-over to a Java member waits until those that know this master have taken the tables:
/// each does so every ten seconds, or up to thirteen.
const TAKES_TABLES: Duration = Duration::from_secs(14);
/// How long it waits for one that has not asked this master yet: name servers tell it every thirty
/// seconds who that is.
const KNOWS_MASTER: Duration = Duration::from_secs(45);
/// How long it waits after that until each has taken the progress of timers, which it does every three
/// seconds.
const TAKES_TIMERS: Duration = Duration::from_secs(5);

/// What is known of the Java slaves.
#[derive(Debug)]
pub(crate) struct JavaSlaves {
    seen: Mutex<Seen>,
    /// How often something was taken.
    taken: watch::Sender<u64>,
}

/// What slaves have asked, by connection: one has one to each port.
#[derive(Debug, Default)]
struct Seen {
    /// Connections by which one has asked what only slaves ask.
    slaves: BTreeSet<u64>,
    /// Copies of the tables.
    copies: BTreeMap<u64, Copied>,
    /// When the progress of timers was taken.
    timers: BTreeMap<u64, Instant>,
    delivery: Delivery,
}

/// Whether timers are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Delivery {
    #[default]
    GoesOn,
    /// It is to stop.
    Stops,
    /// It has: what slaves take of its progress from now on stays true.
    Stopped,
}

/// One slave's last copy of the tables, which it takes one by one.
#[derive(Debug, Clone, Copy)]
struct Copied {
    /// When it asked for the offsets.
    begun: Instant,
    /// When it had asked for the offsets of the last copy that it has whole.
    whole: Option<Instant>,
}

impl Seen {
    fn offsets(&mut self, connection: u64, now: Instant) {
        if self.copies.len() < MOST || self.copies.contains_key(&connection) {
            self.copies.entry(connection).or_insert(Copied { begun: now, whole: None }).begun = now;
        }
    }

    fn last_table(&mut self, connection: u64) {
        if let Some(copy) = self.copies.get_mut(&connection) {
            copy.whole = Some(copy.begun);
        }
    }

    fn timers(&mut self, connection: u64, now: Instant) {
        if self.timers.len() < MOST || self.timers.contains_key(&connection) {
            self.timers.insert(connection, now);
        }
    }

    /// How many slaves have a copy of the tables that was begun at `since` or later.
    fn with_tables(&self, since: Instant) -> usize {
        self.copies.values().filter(|copy| copy.whole >= Some(since)).count()
    }

    /// Until when `members` slaves are waited for, from `begun` on.
    fn deadline(&self, members: usize, begun: Instant) -> Instant {
        let all_know = self.copies.len() >= members;
        begun + if all_know { TAKES_TABLES } else { KNOWS_MASTER }
    }

    /// How many have taken the progress of timers at `since` or later.
    fn with_timers(&self, since: Instant) -> usize {
        self.timers.values().filter(|at| **at >= since).count()
    }
}

impl JavaSlaves {
    /// None is known.
    pub(crate) fn new() -> Self {
        Self { seen: Mutex::default(), taken: watch::Sender::new(0) }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection asks what only slaves ask.
    pub(crate) fn note(&self, call: &Call) {
        let mut seen = self.seen();
        if call.command.language == Language::Java && seen.slaves.len() < MOST {
            seen.slaves.insert(call.connection.id());
        }
    }

    /// One takes the progress of timers.
    pub(crate) fn note_timers(&self, call: &Call) {
        self.seen().timers(call.connection.id(), Instant::now());
        self.tell();
    }

    /// A connection has ended.
    pub(crate) fn closed(&self, connection: u64) {
        let mut seen = self.seen();
        seen.slaves.remove(&connection);
        seen.copies.remove(&connection);
        seen.timers.remove(&connection);
    }

    /// Whether timers wait, as the lead goes to a Java member.
    pub(crate) fn timers_wait(&self) -> bool {
        self.seen().delivery != Delivery::GoesOn
    }

    /// Nothing of them is under way any more, and slaves are told how far they are.
    pub(crate) fn timers_stopped(&self) {
        let mut seen = self.seen();
        if seen.delivery == Delivery::Stops {
            seen.delivery = Delivery::Stopped;
            drop(seen);
            self.tell();
        }
    }

    fn knows(&self, connection: u64) -> bool {
        self.seen().slaves.contains(&connection)
    }

    fn tell(&self) {
        self.taken.send_modify(|times| *times = times.wrapping_add(1));
    }

    /// Waits until `done`, which is asked again whenever a slave has taken something, or until
    /// `deadline`, which may move meanwhile; gives whether it is done.
    async fn wait(
        &self,
        done: impl Fn(&Seen) -> bool,
        deadline: impl Fn(&Seen) -> Instant,
    ) -> bool {
        let mut taken = self.taken.subscribe();
        loop {
            taken.borrow_and_update();
            let (is_done, deadline) = {
                let seen = self.seen();
                (done(&seen), deadline(&seen))
            };
            if is_done {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            // Whether it changed or the time is over is looked at above.
            drop(timeout_at(deadline, taken.changed()).await);
        }
    }

    /// Waits, for a bounded time, until `members` slaves have the tables as they are now; gives how
    /// many have.
    async fn wait_for_tables(&self, members: usize) -> usize {
        let begun = Instant::now();
        let (done, deadline) = (
            |seen: &Seen| seen.with_tables(begun) >= members,
            |seen: &Seen| seen.deadline(members, begun),
        );
        self.wait(done, deadline).await;
        self.seen().with_tables(begun)
    }

    /// Waits, for a bounded time, until delivery has stopped and each slave that takes the progress of
    /// timers has it as it is then.
    async fn wait_for_timers(&self, members: usize) -> bool {
        let most = Instant::now() + TAKES_TIMERS;
        let stopped = |seen: &Seen| seen.delivery == Delivery::Stopped || seen.timers.is_empty();
        if !self.wait(stopped, |_| most).await {
            return false;
        }
        let begun = Instant::now();
        let done = |seen: &Seen| seen.with_timers(begun) >= members.min(seen.timers.len());
        self.wait(done, |_| most).await
    }
}

/// Lets timers go on when it is dropped.
#[derive(Debug)]
pub(crate) struct TimersWait<'a>(&'a Broker);

impl Drop for TimersWait<'_> {
    fn drop(&mut self) {
        self.0.java_slaves.seen().delivery = Delivery::GoesOn;
        self.0.timer_wake.wake();
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

    /// Notes that a slave takes the offsets, where it is one.
    pub(crate) fn note_java_offsets(&self, call: &Call) {
        if self.came_by_fast_port(call) {
            self.java_slaves.seen().offsets(call.connection.id(), Instant::now());
        }
    }

    /// Notes that a slave has taken the last of the tables that fail over, where it is one.
    pub(crate) fn note_java_slave(&self, call: &Call) {
        if self.came_by_fast_port(call) {
            self.java_slaves.seen().last_table(call.connection.id());
            self.java_slaves.tell();
        }
    }

    fn came_by_fast_port(&self, call: &Call) -> bool {
        call.connection.local_addr().port() != self.store_host().port()
    }

    /// How many Java members are connected.
    fn java_members(&self) -> usize {
        let known = self.group.as_ref().map(|group| group.known()).unwrap_or_default();
        known.iter().filter(|member: &&Known| member.kind == PeerKind::Java).count()
    }

    /// Waits, for a bounded time, until every Java slave has taken the tables as they are: any of them
    /// may be elected, and what clients commit after that is in the log alone, which a Java member
    /// passes over. Then no timer is delivered until what is given is dropped, and each takes how far
    /// they are.
    pub(crate) async fn let_java_take_tables(&self) -> TimersWait<'_> {
        let members = self.java_members();
        let took = self.java_slaves.wait_for_tables(members).await;
        if took < members {
            tracing::warn!(
                took,
                members,
                "not every Java member has taken the tables: where one that has not leads, what was committed since its last copy goes back"
            );
        }
        self.java_slaves.seen().delivery = Delivery::Stops;
        let held = TimersWait(self);
        self.timer_wake.wake();
        if !self.java_slaves.wait_for_timers(members).await {
            tracing::info!(
                "not every Java member has taken the progress of timers: some come twice"
            );
        }
        held
    }
}

/// Attributes as changes that add them.
pub(crate) fn as_changes(attributes: &mut BTreeMap<String, String>) {
    *attributes = std::mem::take(attributes)
        .into_iter()
        .map(|(name, value)| (format!("+{name}"), value))
        .collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slave takes all tables by one connection.
    fn copy(slaves: &JavaSlaves, connection: u64) {
        slaves.seen().offsets(connection, Instant::now());
        slaves.seen().last_table(connection);
        slaves.tell();
    }

    #[tokio::test]
    async fn every_slave_takes_the_tables_before_the_wait_is_over() {
        let slaves = JavaSlaves::new();
        for connection in [1, 2] {
            copy(&slaves, connection);
        }
        let taking = async {
            // The same one twice does not stand for the other.
            for connection in [1, 1, 2] {
                tokio::task::yield_now().await;
                copy(&slaves, connection);
            }
        };
        assert_eq!(tokio::join!(slaves.wait_for_tables(2), taking).0, 2);
        assert_eq!(slaves.wait_for_tables(0).await, 0, "no Java member is connected");
    }

    #[test]
    fn a_copy_counts_from_when_it_was_begun() {
        let (mut seen, zero) = (Seen::default(), Instant::now());
        let at = |seconds| zero + Duration::from_secs(seconds);
        seen.offsets(1, at(1));
        assert_eq!(seen.with_tables(at(1)), 0, "it is not whole");
        seen.last_table(1);
        assert_eq!((seen.with_tables(at(1)), seen.with_tables(at(2))), (1, 0));
        seen.offsets(1, at(3));
        assert_eq!(seen.with_tables(at(1)), 1, "the one before is still there");
        seen.last_table(1);
        seen.last_table(2);
        assert_eq!(seen.with_tables(at(2)), 1, "the other one asked for groups alone");
    }

    #[test]
    fn a_member_that_has_not_heard_of_the_master_is_given_the_time_to() {
        let (mut seen, begun) = (Seen::default(), Instant::now());
        seen.offsets(1, begun);
        assert_eq!(seen.deadline(1, begun), begun + TAKES_TABLES);
        assert_eq!(seen.deadline(2, begun), begun + KNOWS_MASTER);
        let slaves = JavaSlaves::new();
        copy(&slaves, 1);
        slaves.closed(1);
        assert_eq!(slaves.seen().deadline(1, begun), begun + KNOWS_MASTER, "it asks anew");
    }

    #[tokio::test]
    async fn timers_stop_and_then_each_slave_takes_how_far_they_are() {
        let slaves = JavaSlaves::new();
        assert!(slaves.wait_for_timers(2).await, "none has timers");
        let take = |connection| {
            slaves.seen().timers(connection, Instant::now());
            slaves.tell();
        };
        for connection in [1, 2] {
            take(connection);
        }
        slaves.seen().delivery = Delivery::Stops;
        let stopping = async {
            // What they take before delivery has stopped does not count.
            for connection in [1, 2] {
                take(connection);
            }
            tokio::task::yield_now().await;
            assert!(slaves.timers_wait());
            slaves.timers_stopped();
            for connection in [1, 1, 2] {
                tokio::task::yield_now().await;
                take(connection);
            }
            Instant::now()
        };
        let waiting = async { (slaves.wait_for_timers(2).await, Instant::now()) };
        let ((all, over), last) = tokio::join!(waiting, stopping);
        assert!(all && over >= last, "it was over before the last slave had taken them");
    }

    #[test]
    fn connections_are_kept_in_mind_up_to_a_bound() {
        let (mut seen, now) = (Seen::default(), Instant::now());
        for connection in 0..2 * MOST as u64 {
            seen.offsets(connection, now);
            seen.timers(connection, now);
        }
        seen.last_table(0);
        assert_eq!((seen.copies.len(), seen.timers.len()), (MOST, MOST));
        assert_eq!(seen.with_tables(now), 1);
    }
}
