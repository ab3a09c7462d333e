//! What goes to members and comes from them.

use bytes::Bytes;
use dledger_core::{
    CallId, EntryId, Input, LogIndex, Message, Millis, NodeId, PeerKind, Push, PushKind, Range,
};

use super::{Engine, Job, LogEnd, ReadJob, kept::Accept};
use crate::{
    Doubt, EntriesRead, ReadError, planted::planted, range::CheckedRange, scan::Before,
    transport::Outgoing, writer::AppendError,
};

impl<T> Engine<T> {
    pub(super) fn peer(&mut self, now: Millis, id: NodeId, kind: PeerKind) {
        if kind == PeerKind::Gone {
            self.reads.remove(&id);
            self.mends.forget(&id);
        } else {
            self.peers.insert(id.clone(), kind);
        }
        self.feed(now, Input::Peer { id, kind });
    }

    pub(super) fn is_java(&self, id: &NodeId) -> bool {
        matches!(self.peers.get(id), Some(PeerKind::Java))
    }

    pub(super) fn received(
        &mut self,
        now: Millis,
        from: NodeId,
        call: CallId,
        (message, entries): (Message, Option<Bytes>),
    ) {
        let message = match message {
            Message::Fetch(fetch) => return self.serve(from, call, fetch),
            Message::FetchReply(reply) => return self.fetched(&from, reply, entries),
            Message::Push(mut push) => {
                if let Err(reason) = self.take_entries(&from, call, &mut push, entries) {
                    tracing::warn!(%from, reason, "a push is passed over");
                    return;
                }
                Message::Push(push)
            }
            other @ (Message::Vote(_)
            | Message::VoteReply(_)
            | Message::Heartbeat(_)
            | Message::HeartbeatReply(_)
            | Message::PushReply(_)
            | Message::Transfer(_)
            | Message::TransferReply(_)) => other,
        };
        self.feed(now, Input::Received { from, call, message });
    }

    /// Checks the entries that came with a push and keeps them; the push then says what they say.
    fn take_entries(
        &mut self,
        from: &NodeId,
        call: CallId,
        push: &mut Push,
        entries: Option<Bytes>,
    ) -> Result<(), String> {
        match (&mut push.kind, entries) {
            (PushKind::Append(range), Some(bytes)) => {
                let checked = self.check(bytes)?;
                describe(range, &checked)?;
                self.kept.keep(from.clone(), call, checked);
                Ok(())
            }
            (PushKind::Append(_), None) => Err("it came without its entries".to_owned()),
            (PushKind::Compare { same, .. }, Some(bytes)) => {
                *same = Some(self.log.holds(&bytes).map_err(|error| error.to_string())?);
                Ok(())
            }
            (PushKind::Truncate { id, position, same, .. }, Some(bytes)) => {
                let checked = self.check(bytes)?;
                let first = checked.first().filter(|first| EntryId::from(*first) == *id);
                let first = first.ok_or("another entry came with it")?;
                *position = first.position;
                *same = Some(self.log.holds(checked.bytes()).map_err(|error| error.to_string())?);
                self.kept.keep_cut(from.clone(), call, checked);
                Ok(())
            }
            (PushKind::Compare { .. } | PushKind::Truncate { .. } | PushKind::Commit, _) => Ok(()),
        }
    }

    pub(super) fn check(&self, bytes: Bytes) -> Result<CheckedRange, String> {
        let before = Before::start(None).trusts(planted!(self.log.planted, P15));
        CheckedRange::check_behind(before, bytes, self.log.data.file_size())
            .map_err(|fault| fault.to_string())
    }

    /// The node takes kept entries: they are written as soon as not too much is ahead of a flush.
    pub(super) fn accept(
        &mut self,
        now: Millis,
        (from, call): (NodeId, CallId),
        first: LogIndex,
        count: u64,
    ) {
        let range = self.kept.take(from, call).and_then(|range| range.part(first.0, count));
        let Some(range) = range else {
            tracing::warn!(%first, count, "entries that were taken are not kept");
            return self.feed(now, Input::NotWritten { from: first });
        };
        self.accepts.0.push_back(Accept { range, first });
        self.write_accepted(now);
    }

    pub(super) fn write_accepted(&mut self, now: Millis) {
        while self.status.failure.is_none()
            && !self.cutting
            && let Some(next) = self.accepts.0.front()
            && self.may_write(next.range.bytes().len() as u64)
            && let Some(Accept { range, first }) = self.accepts.0.pop_front()
        {
            match self.writer.append_range(&range, self.flushes.durable) {
                Ok(()) => {
                    self.written = self.log.last_id();
                    self.note_written(now);
                }
                Err(AppendError::Fatal(reason)) => self.fail(reason),
                Err(error) => self.not_accepted(now, first, error),
            }
        }
    }

    /// One range is let in even where it alone is longer than what may be ahead of a flush.
    fn may_write(&self, bytes: u64) -> bool {
        self.writer.end() <= self.flushes.durable
            || self.writer.has_window(self.flushes.durable, bytes)
    }

    /// What follows a range that was not written cannot be written either.
    fn not_accepted(&mut self, now: Millis, first: LogIndex, error: AppendError) {
        let reason = match error {
            AppendError::Full(reason) => {
                self.health.is_full(now);
                reason
            }
            AppendError::Clean(reason)
            | AppendError::Unfit(reason)
            | AppendError::Fatal(reason) => reason,
        };
        tracing::warn!(%first, reason, "entries of the leader were not written");
        let behind: Vec<LogIndex> = self.accepts.0.drain(..).map(|accept| accept.first).collect();
        for from in std::iter::once(first).chain(behind) {
            self.feed(now, Input::NotWritten { from });
        }
    }

    /// Reads entries for a follower: at once where they are in memory.
    pub(super) fn read_range(&mut self, now: Millis, job: ReadJob) {
        match self.log.range_in_memory(job.from.0, job.upto.0, job.max_bytes) {
            Some(read) => self.range_read(now, job.peer, read),
            None => self.jobs.push_back(Job::Read(job)),
        }
    }

    pub(super) fn read(
        &mut self,
        now: Millis,
        job: ReadJob,
        result: Result<EntriesRead, ReadError>,
    ) {
        if let Err(ReadError::Damaged { .. }) = &result {
            self.find_culprits(job.from);
        }
        match (job.call, result) {
            (Some(call), result) => {
                self.served();
                self.answer_fetch((job.peer, call), job.from, result.ok());
            }
            (None, Ok(read)) => self.range_read(now, job.peer, read),
            (None, Err(error)) => {
                tracing::warn!(%error, peer = %job.peer, "entries could not be read for a member");
                self.feed(now, Input::RangeLost { peer: job.peer, from: job.from });
            }
        }
    }

    fn range_read(&mut self, now: Millis, peer: NodeId, read: EntriesRead) {
        let EntriesRead { first, count, length, .. } = read;
        self.reads.insert(peer.clone(), read);
        self.feed(now, Input::RangeRead { peer, first, count, bytes: length });
    }

    /// Puts a message on its way, with the entries that belong to it.
    pub(super) fn send(&mut self, to: NodeId, call: Option<CallId>, mut message: Message) {
        match self.entries_for(&to, &mut message) {
            Ok(entries) => self.sends.push_back(Outgoing { to: to.0, call, message, entries }),
            // As if lost on its way: the node sends it again.
            Err(reason) => tracing::debug!(%to, reason, "a message has lost its entries"),
        }
    }

    fn entries_for(&mut self, to: &NodeId, message: &mut Message) -> Result<Vec<Bytes>, String> {
        let Message::Push(push) = message else { return Ok(Vec::new()) };
        match &mut push.kind {
            PushKind::Append(range) => {
                let read = self.reads.remove(to).ok_or("nothing was read for it")?;
                if (read.first, read.count) != (range.first, range.count) {
                    return Err(format!("entries from {} on were read for it", read.first));
                }
                Ok(read.bytes)
            }
            PushKind::Truncate { id, position, .. } => {
                let unit = self.log.unit(id.index.0).map_err(|error| error.to_string())?;
                *position = unit.position;
                self.own_entry(id.index).map(|entry| vec![entry])
            }
            PushKind::Compare { id, .. } if self.is_java(to) => {
                let index = id.index;
                self.own_entry(index).map(|entry| vec![entry])
            }
            PushKind::Compare { .. } | PushKind::Commit => Ok(Vec::new()),
        }
    }

    fn own_entry(&mut self, index: LogIndex) -> Result<Bytes, String> {
        let entry = self.log.entry(index.0);
        if let Err(ReadError::Damaged { .. }) = &entry {
            self.find_culprits(index);
        }
        entry.map_err(|error| error.to_string())
    }

    /// The end of the log was removed: the leader of this term has something else there.
    pub(super) fn truncated(&mut self, now: Millis, from: LogIndex, end: Option<LogEnd>) {
        self.cutting = false;
        if let Some(LogEnd(cursor)) = end {
            self.writer.rewind(cursor);
        }
        self.written = self.log.last_id();
        self.flushes.durable = self.flushes.durable.min(self.writer.end());
        self.cut_pending(from);
        self.feed(now, Input::Truncated { last: self.written });
    }

    pub(super) fn restarted(&mut self, now: Millis, LogEnd(cursor): LogEnd) {
        self.cutting = false;
        self.writer.rewind(cursor);
        self.written = None;
        self.flushes.durable = cursor.position;
        self.status.doubt = Some(Doubt::RolledBack);
        self.fail_pending("the log was begun anew at the leader's first entry");
        self.feed(now, Input::Truncated { last: None });
    }
}

/// The push says of its entries what they say themselves.
fn describe(range: &mut Range, checked: &CheckedRange) -> Result<(), String> {
    let (Some(first), Some(last)) = (checked.first(), checked.last()) else {
        return Err("it came without its entries".to_owned());
    };
    let count = last.index + 1 - first.index;
    if (range.first.0, range.count) != (first.index, count) {
        return Err(format!(
            "{count} entries from {} on came with a push of {} from {} on",
            first.index, range.count, range.first
        ));
    }
    range.terms = checked.runs();
    range.bytes = checked.bytes().len() as u64;
    Ok(())
}
