//! Who pulls for a group, as far as that shows members that have not sent a heartbeat yet.
//!
//! Heartbeats come every 30 s. A client that was connected before this broker was started pulls again
//! at once, and says much later that it is a member of its group.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The most connections of all groups that are remembered: what comes beyond is not missed.
const MOST: usize = 100_000;

/// Connections by group.
#[derive(Debug, Default)]
pub(crate) struct Unannounced {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    groups: HashMap<String, HashSet<u64>>,
    /// How many are remembered.
    count: usize,
}

impl Unannounced {
    /// Somebody pulls for a group.
    pub(crate) fn pulled(&self, group: &str, connection: u64) {
        let mut state = self.state();
        let known = state.groups.get(group).is_some_and(|known| known.contains(&connection));
        if !known && state.count < MOST {
            state.groups.entry(group.to_owned()).or_default().insert(connection);
            state.count += 1;
        }
    }

    /// A connection has ended.
    pub(crate) fn closed(&self, connection: u64) {
        let mut state = self.state();
        let mut gone = 0;
        state.groups.retain(|_, known| {
            gone += usize::from(known.remove(&connection));
            !known.is_empty()
        });
        state.count -= gone;
    }

    /// Whether any of those who pull for a group is of this kind.
    pub(crate) fn any(&self, group: &str, kind: impl Fn(u64) -> bool) -> bool {
        self.state().groups.get(group).is_some_and(|known| known.iter().any(|one| kind(*one)))
    }

    /// All members are known.
    pub(crate) fn forget(&self) {
        *self.state() = State::default();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_pulls_is_remembered_until_its_connection_ends() {
        let pulls = Unannounced::default();
        pulls.pulled("G", 1);
        pulls.pulled("G", 2);
        assert!(pulls.any("G", |one| one == 2) && !pulls.any("H", |_| true));
        pulls.closed(2);
        assert!(pulls.any("G", |_| true) && !pulls.any("G", |one| one != 1));
        pulls.forget();
        assert!(!pulls.any("G", |_| true));
    }
}
