//! Requests that wait, by their connections and by when their time is over: what held pulls
//! (`hold.rs`) and held pops (`pop/polls.rs`) share. What they wait for is in an index of their own.
//!
//! Who takes a request out answers it, so that it is answered once.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Debug,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio::sync::Notify;

/// Names one request, for as long as it is held.
pub(crate) type HeldId = u64;

/// Finds requests by what they wait for.
pub(crate) trait Index: Debug + Default {
    /// What a request waits for.
    type Place: Debug;

    /// A request waits until `deadline`.
    fn enter(&mut self, place: &Self::Place, deadline: Instant, id: HeldId);

    /// It waits no more.
    fn leave(&mut self, place: &Self::Place, deadline: Instant, id: HeldId);
}

/// The requests.
#[derive(Debug)]
pub(crate) struct HeldRequests<R, I: Index> {
    table: Mutex<Table<R, I>>,
    /// Tells the clock that the earliest deadline may have changed.
    earlier: Notify,
}

/// What is held.
#[derive(Debug)]
pub(crate) struct Table<R, I: Index> {
    next_id: HeldId,
    held: HashMap<HeldId, Held<R, I::Place>>,
    index: I,
    by_connection: HashMap<u64, BTreeSet<HeldId>>,
    deadlines: BTreeSet<(Instant, HeldId)>,
}

#[derive(Debug)]
struct Held<R, P> {
    request: R,
    place: P,
    connection: u64,
    deadline: Instant,
}

impl<R, I: Index> HeldRequests<R, I> {
    /// Nothing held.
    pub(crate) fn new() -> Self {
        let table = Table {
            next_id: 0,
            held: HashMap::new(),
            index: I::default(),
            by_connection: HashMap::new(),
            deadlines: BTreeSet::new(),
        };
        Self { table: Mutex::new(table), earlier: Notify::new() }
    }

    /// Holds a request of `connection` until `deadline`. It comes back where `has_room` says that
    /// there is none for it.
    pub(crate) fn hold(
        &self,
        request: R,
        place: I::Place,
        (connection, deadline): (u64, Instant),
        has_room: impl FnOnce(&Table<R, I>, &I::Place) -> bool,
    ) -> Result<HeldId, R> {
        let mut table = self.table();
        if !has_room(&table, &place) {
            return Err(request);
        }
        table.next_id += 1;
        let id = table.next_id;
        let first = table.deadlines.first().is_none_or(|(earliest, _)| deadline < *earliest);
        table.index.enter(&place, deadline, id);
        table.by_connection.entry(connection).or_default().insert(id);
        table.deadlines.insert((deadline, id));
        table.held.insert(id, Held { request, place, connection, deadline });
        drop(table);
        if first {
            self.earlier.notify_one();
        }
        Ok(id)
    }

    /// Takes out one request, where it is still held.
    pub(crate) fn take(&self, id: HeldId) -> Option<R> {
        self.table().take(id)
    }

    /// Takes out the requests that `find` names.
    pub(crate) fn take_found<Ids: IntoIterator<Item = HeldId>>(
        &self,
        find: impl FnOnce(&Table<R, I>) -> Ids,
    ) -> Vec<R> {
        let mut table = self.table();
        let ids = find(&table);
        ids.into_iter().filter_map(|id| table.take(id)).collect()
    }

    /// Takes out the requests whose time is over.
    pub(crate) fn expired(&self, now: Instant) -> Vec<R> {
        let mut table = self.table();
        let mut over = Vec::new();
        while let Some((deadline, id)) = table.deadlines.first().copied() {
            if deadline > now {
                break;
            }
            over.extend(table.take(id));
        }
        over
    }

    /// Takes out all requests of a connection that has closed.
    pub(crate) fn closed(&self, connection: u64) -> Vec<R> {
        self.take_found(|table| table.by_connection.get(&connection).cloned().unwrap_or_default())
    }

    /// Takes out all requests that wait for such a place.
    pub(crate) fn drain(&self, wanted: impl Fn(&I::Place) -> bool) -> Vec<R> {
        self.take_found(|table| {
            let wanted = table.held.iter().filter(|(_, held)| wanted(&held.place));
            wanted.map(|(id, _)| *id).collect::<Vec<_>>()
        })
    }

    /// Looks at what is held.
    pub(crate) fn look<T>(&self, at: impl FnOnce(&Table<R, I>) -> T) -> T {
        at(&self.table())
    }

    /// Waits until the time of some request is over; returns then.
    pub(crate) async fn wait_for_expiry(&self) {
        loop {
            let earliest =
                self.look(|table| table.deadlines.first().map(|(deadline, _)| *deadline));
            let Some(deadline) = earliest else {
                self.earlier.notified().await;
                continue;
            };
            tokio::select! {
                () = tokio::time::sleep_until(deadline.into()) => return,
                () = self.earlier.notified() => {}
            }
        }
    }

    /// A panic of another holder of the lock leaves the table usable: each change is whole.
    fn table(&self) -> MutexGuard<'_, Table<R, I>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R, I: Index> Table<R, I> {
    /// Number of requests.
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// A request.
    pub(crate) fn get(&self, id: HeldId) -> Option<&R> {
        self.held.get(&id).map(|held| &held.request)
    }

    /// What they wait for.
    pub(crate) fn index(&self) -> &I {
        &self.index
    }

    fn take(&mut self, id: HeldId) -> Option<R> {
        let Held { request, place, connection, deadline } = self.held.remove(&id)?;
        self.deadlines.remove(&(deadline, id));
        self.index.leave(&place, deadline, id);
        forget(&mut self.by_connection, &connection, &id);
        Some(request)
    }
}

/// Takes a member out of its set, and the set out where it is empty then.
pub(crate) fn forget<K: Eq + Hash, T: Ord>(
    sets: &mut HashMap<K, BTreeSet<T>>,
    key: &K,
    member: &T,
) {
    if let Some(members) = sets.get_mut(key) {
        members.remove(member);
        if members.is_empty() {
            sets.remove(key);
        }
    }
}
