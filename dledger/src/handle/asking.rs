//! What readers and operators ask a running log.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, SystemTime},
};

use dledger_core::{Record, TransferCode};
use tokio::sync::watch;

use super::Dledger;
use crate::{
    Answer, Doubt, Entry, Event, FlightRecorder, Marks, ReadError, RefusalCause, RottenRange,
};

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// This node cannot tell.
    #[error(transparent)]
    Refused(#[from] RefusalCause),
    /// The log stopped before the answer came, or too many ask.
    #[error("the log stopped, or too many questions wait")]
    NoAnswer,
    /// The answer did not come in time.
    #[error("no majority confirmed the leader within {0:?}")]
    TimedOut(Duration),
}

impl<T: Send + 'static> Dledger<T> {
    /// How far a reader must read to see all that is committed now, as a log position. A majority
    /// confirms meanwhile that this node still leads: what is read up to there is linearizable.
    ///
    /// The future borrows nothing and may be moved to another task.
    pub fn read_index(
        &self,
        patience: Duration,
    ) -> impl Future<Output = Result<u64, AskError>> + Send + 'static {
        let answer = self.shared.ask(|call| Event::ReadIndex { call });
        async move {
            match tokio::time::timeout(patience, answer).await {
                Ok(Ok(Answer::ReadIndex { end, .. })) => Ok(end?),
                Ok(_) => Err(AskError::NoAnswer),
                Err(_) => Err(AskError::TimedOut(patience)),
            }
        }
    }

    /// Hands the leadership to member `to`, or to the one that is furthest where that is `None`.
    ///
    /// The future borrows nothing and may be moved to another task.
    pub fn transfer(
        &self,
        to: Option<String>,
    ) -> impl Future<Output = Result<TransferCode, AskError>> + Send + 'static {
        let answer = self.shared.ask(|call| Event::Transfer { call, to });
        async move {
            match answer.await {
                Ok(Answer::TransferDone { code, .. }) => Ok(code),
                _ => Err(AskError::NoAnswer),
            }
        }
    }

    /// How far this log is, and how far it knows the others to be.
    ///
    /// The future borrows nothing and may be moved to another task.
    pub fn marks(&self) -> impl Future<Output = Result<Marks, AskError>> + Send + 'static {
        let answer = self.shared.ask(|call| Event::Marks { call });
        async move {
            match answer.await {
                Ok(Answer::Marks { marks, .. }) => Ok(marks),
                _ => Err(AskError::NoAnswer),
            }
        }
    }

    /// The committed entry `index`; may wait for the disk.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn get(&self, index: u64) -> Result<Entry, ReadError> {
        self.shared.log.get(index)
    }

    /// Committed entries from index `from` on: at least one where there is one, and no more once
    /// their bodies reach `max_bytes`. May wait for the disk.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn entries(&self, from: u64, max_bytes: usize) -> Result<Vec<Entry>, ReadError> {
        self.shared.log.entries(from, max_bytes)
    }

    /// How many entries are committed, now and on every change: the next one has this index.
    #[must_use]
    pub fn committed(&self) -> watch::Receiver<u64> {
        self.shared.committed.subscribe()
    }

    /// The flight recorder.
    #[must_use]
    pub fn recorder(&self) -> &Arc<FlightRecorder> {
        &self.shared.recorder
    }

    /// The last turns of this node's life, oldest first, each with the time of day.
    #[must_use]
    pub fn records(&self) -> Vec<(SystemTime, Record)> {
        let opened = SystemTime::now() - self.started.elapsed();
        let records = self.shared.recorder.records().into_iter();
        records.map(|record| (opened + Duration::from_millis(record.at.0), record)).collect()
    }

    /// Why this node may lack entries that it has acknowledged, if so.
    #[must_use]
    pub fn doubt(&self) -> Option<Doubt> {
        self.shared.status.borrow().doubt
    }

    /// Entries that cannot be read and wait for copies of other members.
    #[must_use]
    pub fn rotten(&self) -> Vec<RottenRange> {
        self.shared.log.rotten()
    }
}
