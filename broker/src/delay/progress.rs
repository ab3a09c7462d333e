//! How far each level has been delivered, as the journal says.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use store::journal::Tables;

use crate::timer::FIRST_RESERVED;

/// Next offset of each level, from level 1 on.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    table: Mutex<BTreeMap<u32, u64>>,
}

impl Progress {
    /// As the journal has it.
    pub(crate) fn new(tables: &Tables) -> Self {
        Self { table: Mutex::new(levels_of(tables)) }
    }

    /// Takes the whole table.
    pub(crate) fn load(&self, tables: &Tables) {
        *self.table() = levels_of(tables);
    }

    /// Takes what a record says. The leader may be further already: its own rounds count as soon as
    /// they are committed.
    pub(crate) fn take(&self, levels: &[(u32, u64)]) {
        let mut table = self.table();
        for (level, offset) in levels.iter().filter(|(level, _)| *level < FIRST_RESERVED) {
            let known = table.entry(*level).or_default();
            *known = (*known).max(*offset);
        }
    }

    /// Where to go on in a level whose queue holds `[min, max)`. An offset outside of it, which
    /// another broker's file may have, is corrected.
    pub(super) fn within(&self, level: u32, (min, max): (u64, u64)) -> u64 {
        let mut table = self.table();
        let known = table.get(&level).copied().unwrap_or(0);
        let within = known.clamp(min, max.max(min));
        if within != known {
            tracing::warn!(level, known, within, "progress of a delay level was corrected");
            table.insert(level, within);
        }
        within
    }

    /// The next offset of each level.
    pub(crate) fn offsets(&self) -> BTreeMap<u32, u64> {
        self.table().clone()
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<u32, u64>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The table without what is no level.
fn levels_of(tables: &Tables) -> BTreeMap<u32, u64> {
    tables.delays.range(..FIRST_RESERVED).map(|(level, offset)| (*level, *offset)).collect()
}

#[cfg(test)]
mod tests {
    use store::journal::{Change, Touched};

    use super::*;

    #[test]
    fn progress_follows_the_journal_and_is_corrected() {
        let mut tables = Tables::default();
        let levels = BTreeMap::from([(3, 77), (18, 2)]);
        let change = Change::Delays(levels.clone().into_iter().collect());
        tables.apply(&[change], 5, Touched::default());
        let progress = Progress::new(&tables);
        assert_eq!(progress.within(18, (0, 9)), 2);
        assert_eq!(progress.within(3, (10, 74)), 74, "beyond the queue");
        assert_eq!(progress.within(1, (5, 9)), 5, "before the queue");
        progress.take(&[(18, 1), (3, 75)]);
        assert_eq!(progress.offsets(), BTreeMap::from([(1, 5), (3, 75), (18, 2)]));
        progress.load(&tables);
        assert_eq!(progress.offsets(), levels);
    }
}
