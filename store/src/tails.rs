//! The next offset of every queue: the only assigner of queue offsets.
//!
//! A value without a lock. The log's writer owns it and stamps each group of records in log order,
//! so offsets follow log order by construction.

use std::{collections::HashMap, ops::Range, sync::Arc};

use protocol::message::record::stamp;

use crate::{
    journal, light,
    placement::QueueEnd,
    record::{self, Record, RecordError},
};

/// Next offsets at one log position, and the newest store timestamp.
#[derive(Debug, Default, Clone)]
pub struct Tails {
    /// Where each topic is in `queues`.
    topics: HashMap<Arc<str>, usize>,
    /// The queues of each topic, by id.
    queues: Vec<HashMap<u32, Entry>>,
    position: u64,
    store_timestamp: u64,
    group: u64,
    /// What the current group changed first: topic, queue, and its end before.
    undo: Vec<(usize, u32, QueueEnd)>,
    undo_timestamp: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Entry {
    end: QueueEnd,
    group: u64,
}

/// A record could not be stamped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record for physical offset {physical} cannot be stamped: {reason}")]
pub struct TailsError {
    /// Where the record was to go.
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
        let size = u64::from(fields.total_size);
        let lights = Lights::of(record, &fields);
        let offset = if fields.is_queued() {
            let topic = self.topic(fields.topic);
            let end = self.change(topic, fields.queue_id);
            let next = end.next;
            let seen = physical.saturating_add(size);
            *end = QueueEnd { next: next + 1, seen, anchored: true };
            next
        } else {
            0
        };
        self.store_timestamp = self.store_timestamp.max(now_ms);
        stamp(record, signed(offset), signed(physical), signed(self.store_timestamp));
        if let Some(lights) = lights {
            self.stamp_lights(record, &lights, (physical, size));
        }
        Ok(offset)
    }

    /// Assigns the next offset of each light queue of the record, and writes it into its room.
    fn stamp_lights(&mut self, record: &mut [u8], lights: &Lights, (physical, size): (u64, u64)) {
        let Some(room) = record.get_mut(lights.room.clone()) else { return };
        let Some(digits) = light::digits(room.len(), lights.queues.len()) else { return };
        for ((queue, id), digits) in lights.queues.iter().zip(digits) {
            let topic = self.topic(queue);
            let end = self.change(topic, *id);
            // A queue that the record names twice, or that is its own, has it once.
            let again = end.anchored && end.seen > physical;
            let offset = if again { end.next.saturating_sub(1) } else { end.next };
            *end =
                QueueEnd { next: offset + 1, seen: physical.saturating_add(size), anchored: true };
            if let Some(place) = room.get_mut(digits) {
                place.copy_from_slice(light::text(offset).as_bytes());
            }
        }
    }

    /// Takes back the effect of the current group: its records were not written.
    pub fn undo(&mut self) {
        while let Some((topic, queue_id, end)) = self.undo.pop() {
            if let Some(entry) = self.queues.get_mut(topic).and_then(|it| it.get_mut(&queue_id)) {
                entry.end = end;
            }
        }
        self.store_timestamp = self.undo_timestamp;
    }

    /// Takes a record of the log into account that was stamped before, perhaps by another node.
    /// Records come in log order; one that is already accounted for changes nothing, and neither
    /// does one that is no message, as the dispatcher passes it over too.
    pub fn fold(&mut self, record: &[u8]) {
        let fields = match Record::read(record) {
            Ok(fields) => fields,
            Err(error) => {
                let physical = record::physical_offset(record);
                tracing::error!(physical, %error, "record of the log is not counted");
                return;
            }
        };
        self.store_timestamp = self.store_timestamp.max(fields.store_timestamp);
        if fields.is_queued() {
            let topic = self.topic(fields.topic);
            let end = self.change(topic, fields.queue_id);
            end.fold(fields.queue_offset, fields.physical, fields.total_size);
            for (queue, id, offset) in light::places(&fields, &fields.properties()) {
                let topic = self.topic(queue);
                self.change(topic, id).fold(offset, fields.physical, fields.total_size);
            }
        }
        if fields.topic == journal::TOPIC {
            self.fold_snapshot(&fields);
        }
    }

    /// A snapshot names the next offset of queues whose messages the log may not hold any more.
    fn fold_snapshot(&mut self, fields: &Record<'_>) {
        let Ok(journal::Record::Part { rows, .. }) = journal::decode(fields.body()) else { return };
        for row in rows {
            let journal::Change::Queues { topic, queues } = row else { continue };
            let topic = self.topic(&topic);
            for queue in queues {
                self.change(topic, queue.id).know(queue.next, fields.physical);
            }
        }
    }

    /// Sets what is known before the first fold.
    pub(crate) fn start_at(&mut self, position: u64, store_timestamp: u64) {
        self.position = position;
        self.store_timestamp = store_timestamp;
    }

    /// Sets the end of one queue.
    pub(crate) fn set(&mut self, topic: &str, queue_id: u32, end: QueueEnd) {
        let topic = self.topic(topic);
        *self.change(topic, queue_id) = end;
    }

    fn entry(&self, topic: &str, queue_id: u32) -> Option<&Entry> {
        self.queues.get(*self.topics.get(topic)?)?.get(&queue_id)
    }

    /// Where a topic is in `queues`.
    fn topic(&mut self, topic: &str) -> usize {
        if let Some(known) = self.topics.get(topic) {
            return *known;
        }
        let new = self.queues.len();
        self.queues.push(HashMap::new());
        self.topics.insert(Arc::from(topic), new);
        new
    }

    /// The end of a queue, to be changed: what it was is noted once for each group.
    fn change(&mut self, topic: usize, queue_id: u32) -> &mut QueueEnd {
        let Self { queues, undo, group, .. } = self;
        let entry = queues[topic].entry(queue_id).or_default();
        if entry.group != *group {
            entry.group = *group;
            undo.push((topic, queue_id, entry.end));
        }
        &mut entry.end
    }
}

/// The light queues that a record names, and where the room for their offsets is.
struct Lights {
    queues: Vec<(String, u32)>,
    room: Range<usize>,
}

impl Lights {
    fn of(record: &[u8], fields: &Record<'_>) -> Option<Self> {
        let room = light::room_in(record, fields.properties_len())?;
        if !fields.is_queued() || !light::is_dispatched(fields.topic) {
            return None;
        }
        let properties = fields.properties();
        let names = light::names(&properties).into_iter();
        let queue = |name: &str| (name.to_owned(), light::queue_id(name, fields.queue_id));
        Some(Self { queues: names.map(queue).collect(), room })
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use protocol::message::{record::at, sys_flag};

    use super::*;
    use crate::memory_log::test_record;

    fn stamp(tails: &mut Tails, topic: &str, queue_id: u32, physical: u64, now: u64) -> Bytes {
        let mut record = test_record(topic, queue_id, b"body", "").to_vec();
        tails.stamp(&mut record, physical, now).unwrap();
        record.into()
    }

    #[test]
    fn stamps_are_consecutive_and_store_time_never_runs_backwards() {
        let mut tails = Tails::new();
        let places = [("A", 0), ("A", 1), ("A", 0), ("B", 0), ("A", 0)];
        let now = [10, 20, 5, 30, 29];
        let stamped: Vec<_> = places
            .iter()
            .zip(now)
            .zip(0..)
            .map(|(((topic, queue), now), nth)| stamp(&mut tails, topic, *queue, nth * 200, now))
            .collect();
        let read: Vec<_> = stamped
            .iter()
            .map(|record| Record::read(record).unwrap())
            .map(|record| (record.queue_offset, record.physical, record.store_timestamp))
            .collect();
        let expected = [(0, 0, 10), (0, 200, 20), (1, 400, 20), (0, 600, 30), (2, 800, 30)];
        assert_eq!(read, expected);
    }

    #[test]
    fn an_undone_group_leaves_no_trace() {
        let mut tails = Tails::new();
        tails.begin_group();
        stamp(&mut tails, "A", 0, 48, 10);
        tails.begin_group();
        stamp(&mut tails, "A", 0, 300, 20);
        stamp(&mut tails, "A", 0, 500, 20);
        stamp(&mut tails, "New", 3, 700, 20);
        tails.undo();
        assert_eq!((tails.next("A", 0), tails.next("New", 3)), (1, 0));
        assert_eq!(tails.store_timestamp(), 10);
        let again = stamp(&mut tails, "A", 0, 300, 15);
        assert_eq!(Record::read(&again).unwrap().queue_offset, 1);
    }

    #[test]
    fn transactions_that_are_prepared_or_rolled_back_are_not_counted() {
        let mut tails = Tails::new();
        for kind in [sys_flag::TRANSACTION_PREPARED, sys_flag::TRANSACTION_ROLLBACK] {
            stamp(&mut tails, "A", 0, 48, 10);
            let mut record = test_record("A", 0, b"half", "").to_vec();
            record[at::SYS_FLAG..at::SYS_FLAG + 4].copy_from_slice(&kind.to_be_bytes());
            assert_eq!(tails.stamp(&mut record, 500, 10), Ok(0));
            tails.fold(&record);
        }
        assert_eq!(tails.next("A", 0), 2);
    }

    fn light_record(queues: &str) -> Vec<u8> {
        let room = light::room(queues.split(',').count());
        let text = format!("INNER_MULTI_DISPATCH\u{1}{queues}\u{2}{room}");
        test_record("T", 3, b"body", &text).to_vec()
    }

    fn offsets(record: &[u8]) -> Vec<u64> {
        let fields = Record::read(record).unwrap();
        let properties = fields.properties().into_owned();
        light::places(&fields, &properties).iter().map(|place| place.2).collect()
    }

    #[test]
    fn further_queues_have_offsets_of_their_own() {
        let mut leader = Tails::new();
        let mut log = Vec::new();
        for (nth, queues) in (0_u64..).zip(["%LMQ%a,%LMQ%b", "%LMQ%b", "T,%LMQ%b,%LMQ%b"]) {
            let mut record = light_record(queues);
            leader.stamp(&mut record, 48 + nth * 1_000, 10).unwrap();
            log.push(record);
        }
        let stamped: Vec<_> = log.iter().map(|record| offsets(record)).collect();
        assert_eq!(stamped, [vec![0, 0], vec![1], vec![2, 2, 2]], "T/3 is its own queue");
        let next = |tails: &Tails| {
            [("%LMQ%a", 0), ("%LMQ%b", 0), ("T", 3)].map(|(topic, id)| tails.next(topic, id))
        };
        assert_eq!(next(&leader), [1, 3, 3]);
        let mut follower = Tails::new();
        log.iter().for_each(|record| follower.fold(record));
        assert_eq!(next(&follower), next(&leader));
        leader.begin_group();
        leader.stamp(&mut light_record("%LMQ%a,%LMQ%new"), 9_000, 10).unwrap();
        leader.undo();
        assert_eq!(next(&leader), [1, 3, 3]);
        assert_eq!(leader.next("%LMQ%new", 0), 0);
    }

    /// What a new leader does: it folds in all records behind the dispatcher, some of which it has
    /// already.
    #[test]
    fn folding_a_log_gives_the_tails_that_stamped_it() {
        let mut leader = Tails::new();
        let places = [("A", 0), ("A", 1), ("A", 0), ("B", 0), ("A", 0), ("B", 7)];
        let log: Vec<_> = (0..)
            .zip(places)
            .map(|(nth, (topic, queue))| stamp(&mut leader, topic, queue, 48 + nth * 200, 10))
            .collect();
        let mut follower = Tails::new();
        log.iter().take(4).for_each(|record| follower.fold(record));
        log.iter().for_each(|record| follower.fold(record));
        follower.fold(b"no message");
        for (topic, queue) in places {
            assert_eq!(follower.next(topic, queue), leader.next(topic, queue), "{topic}/{queue}");
        }
        assert_eq!(follower.store_timestamp(), 10);
    }
}
