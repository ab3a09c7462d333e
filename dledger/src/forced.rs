//! The log of a node that is stopped, and the word of an operator that what its group has lost does
//! not come back.
//!
//! A group waits for a majority, and for members that may hold what those in doubt have lost. Where
//! they are gone for good it would wait for ever: only a person can know that, and what it costs.

use std::{fmt, io, sync::Arc};

use dledger_core::{Term, Vote};
use segment::{LockGuard, Vfs};

use crate::{
    Doubt, Engine, OpenError, Options, Peers,
    handle::engine_config,
    state_files::{DoubtFile, HardState},
};

/// By so much the term is raised: beyond what members that come back after all, and elect among
/// themselves, will reach, so that routes and logs of later terms are this node's.
pub const FORCED_TERMS: u64 = 1000;

/// What the log of a stopped node holds, as a start finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The node's term.
    pub term: u64,
    /// Index and term of the last entry.
    pub last: Option<(u64, u64)>,
    /// Index of an entry that is known to be committed; what lies behind it may be, too.
    pub committed: Option<u64>,
    /// Why it may lack entries that it has acknowledged.
    pub doubt: Option<Doubt>,
    /// Ranges of entries that cannot be read.
    pub rotten: usize,
}

/// Why nothing was forced.
#[derive(Debug, thiserror::Error)]
pub enum ForceError {
    /// There is nothing to go on with.
    #[error(
        "the log is empty: nothing is kept by going on with it; use the member whose log goes furthest"
    )]
    Empty,
    /// What cannot be read cannot be led with.
    #[error(
        "{ranges} ranges of the log cannot be read: bring the folder back from a copy, or give up what lies behind by `ledgermq store repair --accept-loss`, then come again"
    )]
    Rotten {
        /// How many.
        ranges: usize,
    },
    /// The disk refused.
    #[error("term and doubt could not be written: {0}")]
    Io(#[from] io::Error),
}

/// The log of a stopped node. No other process works on it meanwhile.
pub struct StoppedLog {
    engine: Engine<()>,
    hard_state: HardState,
    doubt: DoubtFile,
    _lock: Box<dyn LockGuard>,
}

impl StoppedLog {
    /// Opens the log as a start does, which repairs what a crash left, and takes part in nothing.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(vfs: &Arc<dyn Vfs>, options: &Options) -> Result<Self, OpenError> {
        let peers = Peers::parse(&options.peers)?;
        let lock = vfs.lock(&options.directory.join("lock"))?;
        let engine = Engine::open(vfs, engine_config(options, &peers))?;
        Ok(Self {
            engine,
            hard_state: HardState::new(Arc::clone(vfs), &options.directory),
            doubt: DoubtFile::new(Arc::clone(vfs), &options.directory),
            _lock: lock,
        })
    }

    /// What it holds.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let status = self.engine.status();
        Standing {
            term: status.term,
            last: self.engine.last().map(|last| (last.index.0, last.term.0)),
            committed: self.engine.committed().map(|index| index.0),
            doubt: status.doubt,
            rotten: self.engine.log().rotten().len(),
        }
    }

    /// Closes it and changes nothing.
    ///
    /// # Errors
    /// What the disk answers.
    pub fn leave(mut self) -> io::Result<()> {
        self.engine.close()
    }

    /// The operator's word: this log holds all that is to be kept. The node is in doubt no more, and
    /// its term is raised by [`FORCED_TERMS`], without a vote: one that it may have forgotten is not
    /// given twice. Gives the term.
    ///
    /// # Errors
    /// See [`ForceError`].
    pub fn force(mut self) -> Result<u64, ForceError> {
        let Standing { term, last, rotten, .. } = self.standing();
        if last.is_none() {
            return Err(ForceError::Empty);
        }
        if rotten > 0 {
            return Err(ForceError::Rotten { ranges: rotten });
        }
        self.engine.close()?;
        let term = term.saturating_add(FORCED_TERMS);
        self.hard_state.store(Term(term), &Vote::None)?;
        self.doubt.store(None)?;
        Ok(term)
    }
}

impl fmt::Debug for StoppedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoppedLog").field("standing", &self.standing()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
