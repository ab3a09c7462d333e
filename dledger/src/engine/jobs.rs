//! Doing jobs, on whichever thread.

use std::{io, sync::Arc};

use dledger_core::{Term, Vote};

use super::vocabulary::{Done, Job, LogEnd, ReadJob};
use crate::{
    DiskLog, Doubt,
    disk_log::{is_full, rot::NotMended},
    planted::planted,
    state_files::{DoubtFile, HardState, LoadedState},
};

/// What jobs work on.
#[derive(Debug, Clone)]
pub(crate) struct Workshop {
    pub(crate) log: Arc<DiskLog>,
    pub(crate) hard_state: Arc<HardState>,
    pub(crate) doubt: Arc<DoubtFile>,
}

impl Workshop {
    /// Does a job on the calling thread.
    pub(crate) fn run(&self, job: Job) -> Done {
        match job {
            Job::Flush { upto, end } => match self.log.flush(end) {
                Ok(()) => Done::Flushed { upto, end },
                Err(_) if planted!(self.log.planted, P12) => Done::Flushed { upto, end },
                Err(_) if planted!(self.log.planted, P13) && self.log.flush(end).is_ok() => {
                    Done::Flushed { upto, end }
                }
                Err(error) => self.flush_failed(&error),
            },
            Job::StoreVote { term, vote } => match self.hard_state.store(term, &vote) {
                Ok(()) => Done::VoteStored { term },
                Err(error) => Done::Failed(format!("term and vote could not be stored: {error}")),
            },
            Job::Truncate { index } => match self.log.truncate(index.0) {
                Ok(cursor) => Done::Truncated { from: index, end: cursor.map(LogEnd) },
                Err(error) => Done::Failed(format!("log could not be truncated: {error}")),
            },
            Job::Restart { at, position } => {
                // While it is refilled the log lacks what this node has acknowledged.
                let restarted = self
                    .doubt
                    .store(Some(Doubt::RolledBack))
                    .and_then(|()| self.log.restart(at.index.0, position));
                match restarted {
                    Ok(cursor) => Done::Restarted { end: LogEnd(cursor) },
                    Err(error) => Done::Failed(format!("log could not be begun anew: {error}")),
                }
            }
            Job::Read(job) => {
                let ReadJob { from, upto, max_bytes, .. } = job;
                let result = self.log.range_on_disk(from.0, upto.0, max_bytes);
                Done::Read { job, result }
            }
            Job::Mend(mending) => {
                let first = mending.fetched.first_index();
                match self.log.mend(&mending.fetched) {
                    Err(NotMended::Unsynced(error)) => self.flush_failed(&error),
                    result => {
                        Done::Mended { first, result: result.map_err(|error| error.to_string()) }
                    }
                }
            }
            Job::GiveUp { before } => {
                let trimmed = self.log.trim(before);
                Done::GaveUp { result: trimmed.map(|_| ()).map_err(|error| error.to_string()) }
            }
            Job::StoreDoubt(doubt) => match self.doubt.store(doubt) {
                Ok(()) => Done::DoubtStored,
                Err(error) if doubt.is_none() && is_full(&error) => {
                    tracing::warn!(%error, "a doubt that is settled is taken up at the next start");
                    Done::DoubtStored
                }
                Err(error) => Done::Failed(format!("file provisional: {error}")),
            },
        }
    }

    /// After a failed flush the kernel may say of lost bytes that they are on the disk: the next start
    /// must not trust them. The disk that failed may not take this note either.
    fn flush_failed(&self, error: &io::Error) -> Done {
        if let Err(second) = self.doubt.store(Some(Doubt::FailedFlush)) {
            tracing::error!(error = %second, "that a flush failed could not be noted on the disk");
        }
        Done::Failed(format!("log could not be synced: {error}"))
    }
}

/// Term and vote as they were stored last, and whether they can be trusted.
pub(super) fn load_vote(hard_state: &HardState) -> io::Result<(Term, Vote, bool)> {
    Ok(match hard_state.load()? {
        LoadedState::Missing => (Term(0), Vote::None, false),
        LoadedState::Found { term, vote } => (term, vote, true),
        LoadedState::Damaged(reason) => {
            tracing::warn!(reason, "term and vote are lost: the term of the last entry is taken");
            (Term(0), Vote::Unknown, false)
        }
    })
}
