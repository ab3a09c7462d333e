//! The log as a library: bodies in, committed entries out.

use std::{sync::Arc, time::Duration};

use bytes::{BufMut, BytesMut};
use dledger_core::{Role, TransferCode};
use segment::Vfs;
use tokio::sync::{oneshot, watch};

use crate::{
    AppendFailure, Appended, AskError, Body, Completed, Dledger, ENTRY_HEADER, Entries, Entry,
    Hook, HookError, OpenError, Options, ReadError, RefusalCause, Sink, StartError, Status, Tail,
    Transport,
};

/// In front of the term in the body of the entry by which a leader opens its term.
const OPENING: &[u8; 16] = b"\0dledger opening";

/// Who waits for one append.
type Reply = oneshot::Sender<Result<Appended, AppendFailure>>;

/// Why an append is not known to be committed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// It was not taken: nothing of it is or will be in the log.
    #[error(transparent)]
    Refused(#[from] RefusalCause),
    /// It was taken and did not become committed, as far as is known.
    #[error(transparent)]
    Failed(#[from] AppendFailure),
    /// The log stopped.
    #[error("the log stopped before the append was answered")]
    Stopped,
}

/// What is known of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// Name of the group.
    pub group: String,
    /// This member's id.
    pub self_id: String,
    /// All members, `id-host:port;...`.
    pub peers: String,
    /// This member's role.
    pub role: Role,
    /// The term it is in.
    pub term: u64,
    /// Who leads, where that is known.
    pub leader: Option<String>,
    /// Index of the first entry that is kept.
    pub first: Option<u64>,
    /// How many entries are committed.
    pub committed: u64,
}

/// A replicated log of plain bodies. Everything that [`Dledger`] offers is there as well, by
/// [`Log::inner`].
#[derive(Debug)]
pub struct Log {
    inner: Dledger<Reply>,
    options: Options,
}

impl Log {
    /// Opens the log; see [`Dledger::open`].
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(options: Options) -> Result<Self, OpenError> {
        Ok(Self { inner: Dledger::open(&options, Arc::new(Replies))?, options })
    }

    /// As [`Log::open`], on any file system.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_on(vfs: &Arc<dyn Vfs>, options: Options) -> Result<Self, OpenError> {
        Ok(Self { inner: Dledger::open_on(vfs, &options, Arc::new(Replies))?, options })
    }

    /// Starts the log of a group of one.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(&self) -> Result<(), StartError> {
        self.inner.start(AnyBodies)
    }

    /// Starts the log of a group of several, whose members `transport` reaches.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start_with(&self, transport: Arc<dyn Transport>) -> Result<(), StartError> {
        self.inner.start_with(AnyBodies, transport)
    }

    /// Appends a body and waits for its commit.
    ///
    /// # Errors
    /// See [`LogError`].
    pub async fn append(&self, body: &[u8]) -> Result<Entry, LogError> {
        let mut entries = self.append_batch(&[body]).await?;
        entries.pop().ok_or(LogError::Stopped)
    }

    /// Appends bodies one behind another, with nothing in between, and waits for the commit of all.
    ///
    /// # Errors
    /// See [`LogError`]. An [`AppendFailure::Unconfirmed`] may hold for a part of them only.
    pub async fn append_batch(&self, bodies: &[&[u8]]) -> Result<Vec<Entry>, LogError> {
        let mut buffer = BytesMut::new();
        let mut lengths = Vec::with_capacity(bodies.len());
        for body in bodies {
            buffer.put_bytes(0, ENTRY_HEADER);
            buffer.put_slice(body);
            lengths.push(u32::try_from(body.len()).unwrap_or(u32::MAX));
        }
        let (token, outcome) = oneshot::channel();
        self.inner
            .submit(Entries { buffer, lengths, token })
            .map_err(|refused| LogError::Refused(refused.cause))?;
        let appended = outcome.await.map_err(|_closed| LogError::Stopped)??;
        Ok(appended.all())
    }

    /// The committed entry `index`. May wait for the disk.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn get(&self, index: u64) -> Result<Entry, ReadError> {
        self.inner.get(index)
    }

    /// Committed entries from index `from` on, some `max_bytes` of bodies. May wait for the disk.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn entries(&self, from: u64, max_bytes: usize) -> Result<Vec<Entry>, ReadError> {
        self.inner.entries(from, max_bytes)
    }

    /// Whether `entry` is one by which a leader opened its term, not a body that was appended.
    #[must_use]
    pub fn is_opening(entry: &Entry) -> bool {
        AnyBodies::opens(&entry.body)
    }

    /// How many entries must be read to see all that is committed now; see [`Dledger::read_index`].
    ///
    /// # Errors
    /// See [`AskError`].
    pub async fn read_index(&self, patience: Duration) -> Result<u64, AskError> {
        self.inner.read_index(patience).await?;
        // The count may have grown beyond the position meanwhile: reading that far is as right.
        Ok(self.inner.log().committed_entries())
    }

    /// Role, term and failure, now and on every change.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<Status> {
        self.inner.status()
    }

    /// How many entries are committed, now and on every change.
    #[must_use]
    pub fn committed(&self) -> watch::Receiver<u64> {
        self.inner.committed()
    }

    /// What is known of the group.
    #[must_use]
    pub fn metadata(&self) -> Metadata {
        let status = self.inner.status().borrow().clone();
        Metadata {
            group: self.options.group.clone(),
            self_id: self.options.self_id.clone(),
            peers: self.options.peers.clone(),
            role: status.role,
            term: status.term,
            leader: status.leader,
            first: self.inner.log().first_index().ok().flatten(),
            committed: self.inner.log().committed_entries(),
        }
    }

    /// Hands the leadership to member `to`, or to the one that is furthest.
    ///
    /// # Errors
    /// See [`AskError`].
    pub async fn transfer(&self, to: Option<String>) -> Result<TransferCode, AskError> {
        self.inner.transfer(to).await
    }

    /// The handle underneath.
    #[must_use]
    pub fn inner(&self) -> &Dledger<Reply> {
        &self.inner
    }

    /// Stops in order; see [`Dledger::shutdown`].
    ///
    /// # Errors
    /// Why the log failed before or while it stopped.
    pub fn shutdown(&self) -> Result<(), String> {
        self.inner.shutdown()
    }
}

/// The owner of bodies that are any bytes: they are written as they come, and nothing is kept about
/// them. [`AnyBodies::opens`] tells those that it opens its terms with.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnyBodies;

impl AnyBodies {
    /// Whether this is the body of an entry that opens a term.
    #[must_use]
    pub fn opens(body: &[u8]) -> bool {
        body.len() == OPENING.len() + 8 && body.starts_with(OPENING)
    }
}

impl Hook for AnyBodies {
    fn elected(&mut self, _term: u64, _tail: &mut dyn Tail) -> Result<(), HookError> {
        Ok(())
    }

    fn opening(&mut self, term: u64) -> Vec<u8> {
        let mut body = OPENING.to_vec();
        body.extend_from_slice(&term.to_be_bytes());
        body
    }

    fn stamp(&mut self, _group: &mut [Body<'_>]) -> Result<(), HookError> {
        Ok(())
    }

    fn undo(&mut self) {}
}

/// Passes outcomes on to who waits for them.
struct Replies;

impl Sink<Reply> for Replies {
    fn completed(&self, group: Vec<Completed<Reply>>) {
        for Completed { token, result } in group {
            // Who does not wait any more does not want to know.
            token.send(result).ok();
        }
    }
}
