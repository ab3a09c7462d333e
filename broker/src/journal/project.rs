//! The tables as Java's JSON files, with the mark that says what they hold.

use std::{collections::BTreeMap, io, sync::PoisonError};

use store::journal::{Kind, Mark, Tables, Touched};

use super::Journal;

impl Journal {
    /// Writes the files of tables that changed. `dispatched` is a log position up to which all
    /// records are applied.
    ///
    /// # Errors
    /// The disk refuses; the next call tries again.
    pub(crate) fn project(&self, dispatched: u64) -> io::Result<()> {
        let mut mark = self.mark.lock().unwrap_or_else(PoisonError::into_inner);
        let (tables, dirty, mut next, is_old) = {
            let mut state = self.state();
            let dirty = std::mem::take(&mut state.dirty);
            let is_old = std::mem::take(&mut state.mark_is_old);
            if !dirty.any() && !is_old {
                return Ok(());
            }
            state.replay.reached(dispatched);
            let mut tables = Tables::default();
            tables.take(dirty, state.replay.tables());
            let next = Mark {
                position: state.replay.position(),
                term: state.replay.term(),
                last: state.replay.last(),
                whole: state.replay.is_whole(),
                snapshot: state.replay.newest(),
                versions: state.replay.tables().versions.clone(),
                files: mark.files.clone(),
                upcoming: BTreeMap::new(),
                ..Mark::default()
            };
            (tables, dirty, next, is_old)
        };
        let written = self.files.write((&tables, dirty), &mut next, (&mark, is_old));
        match written {
            Ok(()) => *mark = next,
            Err(_) => self.again(dirty, is_old),
        }
        written
    }

    fn again(&self, dirty: Touched, is_old: bool) {
        let mut state = self.state();
        state.mark_is_old |= is_old;
        for kind in Kind::ALL.into_iter().filter(|kind| dirty.has(*kind)) {
            state.dirty.add(kind);
        }
    }
}
