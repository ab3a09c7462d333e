//! The next offset of every queue: the only assigner of queue offsets.
//!
//! A value without a lock. The log's writer owns it and stamps each group of records in log order,
//! so offsets follow log order by construction.

use std::{collections::HashMap, sync::Arc};

use protocol::message::record::stamp;

use crate::{
    placement::QueueEnd,
    record::{self, Record, RecordError},
};

/// Next offsets at one log position, and the newest store timestamp.
#[derive(Debug, Default, Clone)]
pub struct Tails {
    topics: HashMap<Arc<str>, HashMap<u32, Entry>>,
    position: u64,
    store_timestamp: u64,
    group: u64,
    undo: Vec<(Arc<str>, u32, QueueEnd)>,
    undo_timestamp: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Entry {
    end: QueueEnd,
    group: u64,
}

/// A record could not be taken into account.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record at physical offset {physical} cannot be counted: {reason}")]
pub struct TailsError {
    /// Where the record is.
    pub physical: u64,
    /// What is wrong with it.
    pub reason: String,
}

impl Tails {
    /// No queue has a message yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Log position from which [`Tails::fold`] must be fed: everything before it is accounted for.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Newest store timestamp so far, in milliseconds.
    pub fn store_timestamp(&self) -> u64 {
        self.store_timestamp
    }

    /// Next offset of a queue.
    pub fn next(&self, topic: &str, queue_id: u32) -> u64 {
        self.entry(topic, queue_id).map_or(0, |entry| entry.end.next)
    }

    /// Starts a group, which [`Tails::undo`] can take back whole.
    pub fn begin_group(&mut self) {
        self.group += 1;
        self.undo.clear();
        self.undo_timestamp = self.store_timestamp;
    }

    /// Assigns the next offset of the record's queue and writes queue offset, `physical` and store
    /// timestamp, which never runs backwards, into the record. Returns the offset.
    ///
    /// Prepared and rollback messages have offset 0 and are not counted (Java
    /// `CommitLog.DefaultAppendMessageCallback`).
    pub fn stamp(
        &mut self,
        record: &mut [u8],
        physical: u64,
        now_ms: u64,
    ) -> Result<u64, TailsError> {
        let fields = Record::read(record).map_err(|reason| TailsError::new(physical, &reason))?;
        let size = fields.total_size;
        let offset = if fields.is_queued() {
            let (topic, queue_id) = (fields.topic, fields.queue_id);
            let next = self.next(topic, queue_id);
            let seen = physical.saturating_add(u64::from(size));
            self.advance(topic, queue_id, QueueEnd { next: next + 1, seen, anchored: true });
            next
        } else {
            0
        };
        self.store_timestamp = self.store_timestamp.max(now_ms);
        stamp(record, signed(offset), signed(physical), signed(self.store_timestamp));
        Ok(offset)
    }

    /// Takes back the effect of the current group: its records were not written.
    pub fn undo(&mut self) {
        for (topic, queue_id, end) in std::mem::take(&mut self.undo).into_iter().rev() {
            if let Some(entry) =
                self.topics.get_mut(&topic).and_then(|queues| queues.get_mut(&queue_id))
            {
                entry.end = end;
            }
        }
        self.store_timestamp = self.undo_timestamp;
    }

    /// Takes a record of the log into account that was stamped before, perhaps by another node.
    /// Records come in log order; one that is already accounted for changes nothing.
    pub fn fold(&mut self, record: &[u8]) -> Result<(), TailsError> {
        let fields = Record::read(record).map_err(|reason| {
            TailsError::new(record::physical_offset(record).unwrap_or(0), &reason)
        })?;
        self.store_timestamp = self.store_timestamp.max(fields.store_timestamp);
        if fields.is_queued() {
            let mut end = self
                .entry(fields.topic, fields.queue_id)
                .map_or(QueueEnd::default(), |entry| entry.end);
            if end.fold(fields.queue_offset, fields.physical, fields.total_size).is_some() {
                self.advance(fields.topic, fields.queue_id, end);
            }
        }
        Ok(())
    }

    /// Sets what is known before the first fold.
    pub(crate) fn start_at(&mut self, position: u64, store_timestamp: u64) {
        self.position = position;
        self.store_timestamp = store_timestamp;
    }

    /// Sets the end of one queue.
    pub(crate) fn set(&mut self, topic: &Arc<str>, queue_id: u32, end: QueueEnd) {
        let queues = self.topics.entry(Arc::clone(topic)).or_default();
        queues.insert(queue_id, Entry { end, group: 0 });
    }

    fn entry(&self, topic: &str, queue_id: u32) -> Option<&Entry> {
        self.topics.get(topic)?.get(&queue_id)
    }

    fn advance(&mut self, topic: &str, queue_id: u32, end: QueueEnd) {
        if !self.topics.contains_key(topic) {
            self.topics.insert(Arc::from(topic), HashMap::new());
        }
        let Some((name, _)) = self.topics.get_key_value(topic) else { return };
        let name = Arc::clone(name);
        let Some(queues) = self.topics.get_mut(topic) else { return };
        let entry = queues.entry(queue_id).or_default();
        if entry.group != self.group {
            entry.group = self.group;
            self.undo.push((name, queue_id, entry.end));
        }
        entry.end = end;
    }
}

impl TailsError {
    fn new(physical: u64, reason: &RecordError) -> Self {
        Self { physical, reason: reason.to_string() }
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
