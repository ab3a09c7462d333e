//! Taking messages of several queues for one pop: what is read, and what is written so that it is
//! taken (`PopMessageProcessor.popMsgFromQueue`).

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use protocol::{
    body::OrderInfo,
    code::response,
    message::{
        properties::{self, key},
        record::{self, MessageRecord},
    },
    name,
};
use store::{
    GetRequest, GetResult, GetStatus,
    journal::{Change, Record},
};
use tokio::sync::oneshot;

use super::Take;
use crate::{
    broker::Broker,
    call::Rejection,
    clock::now_millis,
    drafts,
    handlers::pull::signed,
    journal, offsets,
    pending::{self, Outcome},
    pop::{
        handle::{Handle, Infos},
        names::{self, Form, retry_topic, revive_topic},
        order::{self, Queue},
        point::{Key, MAX_MESSAGES, Writer},
    },
    priority,
};

/// A value of `initMode` (`ConsumeInitMode.java`): a group that is new to a queue begins with its
/// first message, else with its newest.
const FROM_FIRST: i32 = 0;

/// Whether the disk may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reads {
    Memory,
    Disk,
}

/// What a pop found.
#[derive(Debug)]
pub(super) struct Harvest {
    pub(super) bodies: Vec<Bytes>,
    pub(super) bytes: usize,
    pub(super) infos: Infos,
    pub(super) pop_time: i64,
    pub(super) revive_queue: i32,
    /// Messages that are left in the queues that were looked at.
    pub(super) rest: u64,
    /// Something was passed over that the filter does not let through.
    pub(super) passed_over: bool,
    /// The disk has to be read for more.
    pub(super) needs_disk: bool,
    records: Vec<MessageRecord>,
    moves: Vec<Move>,
    /// Rows of ordered pops, and what they were before.
    given: Vec<Given>,
}

/// What an ordered pop was given of a queue.
#[derive(Debug)]
struct Given {
    of: Queue,
    row: OrderInfo,
    before: Option<OrderInfo>,
}

/// Where a group goes on in a queue.
#[derive(Debug)]
struct Move {
    topic: String,
    queue: i32,
    from: i64,
    to: i64,
}

/// One queue to be looked at.
#[derive(Debug, Clone, Copy)]
struct Source<'a> {
    topic: &'a str,
    queue: u32,
}

/// Takes messages for one pop. The caller holds the lock of group and topic.
pub(super) fn collect(broker: &Broker, take: &Take, reads: Reads) -> Harvest {
    let config = broker.config();
    let dice = broker.pop.dice();
    let order = priority::Order::of(
        broker.topics.get(&take.request.topic).as_deref(),
        broker.groups.find(&take.request.consumer_group).as_deref(),
        &config,
        (dice, take.is_ordered()),
    );
    let topic = revive_topic(&config.broker_cluster_name);
    let revives = broker.topics.get(&topic).map_or(0, |topic| topic.read_queue_nums);
    let harvest = Harvest {
        bodies: Vec::new(),
        bytes: 0,
        infos: Infos::default(),
        pop_time: now_millis(),
        revive_queue: if take.is_ordered() {
            names::ORDERED
        } else {
            broker.pop.revive_queue(revives)
        },
        rest: 0,
        passed_over: false,
        needs_disk: false,
        records: Vec::new(),
        moves: Vec::new(),
        given: Vec::new(),
    };
    let mut collecting = Collecting { broker, take, reads, order, harvest };
    if order.retries_first {
        collecting.retries(dice);
    }
    match u32::try_from(take.request.queue_id) {
        Ok(queue) => collecting.queue(Source { topic: &take.request.topic, queue }),
        Err(_) => collecting.topic(&take.request.topic),
    }
    if !order.retries_first {
        collecting.retries(dice);
    }
    collecting.harvest
}

struct Collecting<'a> {
    broker: &'a Broker,
    take: &'a Take,
    reads: Reads,
    order: priority::Order,
    harvest: Harvest,
}

impl Collecting<'_> {
    /// The retry topic in one of its forms: an answer can name only one of them.
    fn retries(&mut self, dice: u32) {
        if self.take.is_ordered() {
            return;
        }
        let config = self.broker.config();
        let old = config.retrieve_message_from_pop_retry_topic_v1 && dice.is_multiple_of(2);
        let form = match config.retry_form() {
            Form::V2 if old => Form::V1,
            form => form,
        };
        let (topic, group) = (&self.take.request.topic, &self.take.request.consumer_group);
        self.topic(&retry_topic(topic, group, form));
    }

    /// All queues of a topic.
    fn topic(&mut self, topic: &str) {
        let found = self.broker.topics.get(topic);
        let queues = found.map_or(0, |topic| u32::try_from(topic.read_queue_nums).unwrap_or(0));
        for queue in self.order.queues(queues) {
            self.queue(Source { topic, queue });
        }
    }

    fn queue(&mut self, source: Source<'_>) {
        let offset = self.position(source);
        if self.take.is_ordered() && self.is_blocked(source) {
            return;
        }
        let max = self.broker.store.max_offset(source.topic, source.queue);
        let left = max.saturating_sub(u64::try_from(offset).unwrap_or(0));
        if left == 0 || self.is_full() || self.harvest.needs_disk {
            self.harvest.rest += left;
            return;
        }
        match self.read(source, offset) {
            Some((result, from)) => self.add(source, from, result),
            None => {
                self.harvest.needs_disk = true;
                self.harvest.rest += left;
            }
        }
    }

    fn is_blocked(&self, source: Source<'_>) -> bool {
        let attempt = self.take.request.attempt_id.as_deref();
        let orders = &self.broker.pop.orders;
        orders.is_blocked(&self.of(source), attempt, self.harvest.pop_time)
    }

    fn of(&self, source: Source<'_>) -> Queue {
        Queue {
            topic: source.topic.to_owned(),
            group: self.take.request.consumer_group.clone(),
            queue: signed_queue(source.queue),
        }
    }

    fn is_full(&self) -> bool {
        self.harvest.bodies.len() >= self.wanted()
            || (!self.harvest.bodies.is_empty() && self.room() == 0)
    }

    fn wanted(&self) -> usize {
        usize::try_from(self.take.request.max_msg_nums).unwrap_or(1).clamp(1, MAX_MESSAGES)
    }

    fn room(&self) -> usize {
        let most = self.broker.config().max_transfer_bytes_on_message_in_memory as usize;
        most.saturating_sub(self.harvest.bytes)
    }

    /// Where the group goes on.
    fn position(&self, source: Source<'_>) -> i64 {
        let Source { topic, queue } = source;
        let offsets = &self.broker.offsets;
        let (group, number) = (&self.take.request.consumer_group, signed_queue(queue));
        // From here on the group goes on where an administrator set it.
        if let Some(offset) = self.broker.take_reset(group, topic, number) {
            tracing::info!(group, topic, queue, offset, "a reset of offsets is taken by a pop");
            self.forget_row(&self.of(source));
        }
        offsets.query(group, topic, number).unwrap_or_else(|| {
            let begin = signed(self.begin(source));
            offsets.commit(group, topic, number, begin);
            begin
        })
    }

    /// What was given of a queue counts no more. That stands in the log before this pop's own row.
    fn forget_row(&self, of: &Queue) {
        if !self.broker.pop.orders.clear(of) {
            return;
        }
        let record = record_of(self.broker, vec![row_change(of, None)]);
        if let Err(rejection) = record.and_then(|record| self.broker.submit_records(&[record])) {
            let reason = rejection.remark;
            tracing::warn!(reason, queue = of.key(), "the log still says that messages are given");
        }
    }

    /// Where a group begins that is new to a queue.
    fn begin(&self, Source { topic, queue }: Source<'_>) -> u64 {
        let store = &self.broker.store;
        let min = store.min_offset(topic, queue);
        if self.take.request.init_mode == FROM_FIRST || topic.starts_with(name::RETRY_PREFIX) {
            return min;
        }
        let young = self.broker.config().init_pop_offset_by_check_msg_in_mem && min == 0;
        if young && store.is_recent(topic, queue, 0) {
            return 0;
        }
        store.max_offset(topic, queue).saturating_sub(1)
    }

    /// Reads a queue from an offset on, or from where it begins by now; `None` where the disk had to
    /// be read and may not.
    fn read(&self, source: Source<'_>, offset: i64) -> Option<(GetResult, i64)> {
        let result = self.read_at(source, offset)?;
        let misplaced = matches!(
            result.status,
            GetStatus::OffsetTooSmall | GetStatus::OffsetOverflowBadly | GetStatus::OffsetFoundNull
        );
        let next = signed(result.next_begin_offset);
        if !misplaced || next == offset {
            return Some((result, offset));
        }
        let (group, topic) = (&self.take.request.consumer_group, source.topic);
        tracing::warn!(group, topic, queue = source.queue, offset, next, "a pop begins elsewhere");
        self.broker.offsets.commit(group, topic, signed_queue(source.queue), next);
        Some((self.read_at(source, next)?, next))
    }

    fn read_at(&self, Source { topic, queue }: Source<'_>, offset: i64) -> Option<GetResult> {
        let left = self.wanted().saturating_sub(self.harvest.bodies.len());
        let request = GetRequest {
            topic,
            queue_id: queue,
            offset,
            max_messages: u32::try_from(left).unwrap_or(1),
            max_bytes: self.room(),
            filter: self.take.filter.tags().as_dyn(),
            content: self.take.filter.content(),
        };
        match self.reads {
            Reads::Memory => self.broker.store.get_if_cached(&request),
            Reads::Disk => Some(self.broker.store.get(&request)),
        }
    }

    fn add(&mut self, source: Source<'_>, from: i64, result: GetResult) {
        self.harvest.rest += result.max_offset.saturating_sub(result.next_begin_offset);
        let to = signed(result.next_begin_offset);
        if result.messages.is_empty() {
            let over = matches!(
                result.status,
                GetStatus::NoMatchedMessage | GetStatus::MessageWasRemoving
            );
            if over && to > from {
                self.harvest.passed_over = true;
                let (group, queue) = (&self.take.request.consumer_group, source.queue);
                self.broker.offsets.commit(group, source.topic, signed_queue(queue), to);
            }
            return;
        }
        let offset_of = |record: &Bytes| pending::offsets(record).0.cast_unsigned();
        let offsets: Vec<u64> = result.messages.iter().map(offset_of).collect();
        let start = u64::try_from(from).unwrap_or(0);
        self.harvest.infos.add(source.topic, source.queue, start, &offsets);
        if self.take.is_ordered() {
            self.give_in_order(source, from, &offsets);
        } else {
            self.take_off(source, (from, to), &offsets);
        }
        for message in result.messages {
            let body = self.body(source, from, message);
            self.harvest.bytes += body.len();
            self.harvest.bodies.push(body);
        }
    }

    /// The queue is the client's: the group goes on where it is until something is done.
    fn give_in_order(&mut self, source: Source<'_>, from: i64, offsets: &[u64]) {
        let of = self.of(source);
        let given = order::Given {
            attempt: self.take.request.attempt_id.as_deref(),
            pop_time: self.harvest.pop_time,
            invisible_time: self.take.request.invisible_time,
        };
        let orders = &self.broker.pop.orders;
        let (row, before) = orders.give(&of, given, offsets, &mut self.harvest.infos);
        let (topic, queue) = (of.topic.clone(), of.queue);
        self.harvest.moves.push(Move { topic, queue, from, to: from });
        self.harvest.given.push(Given { of, row, before });
    }

    /// The check point of messages, and where the group goes on.
    fn take_off(&mut self, source: Source<'_>, (from, to): (i64, i64), offsets: &[u64]) {
        let config = self.broker.config();
        let key = Key {
            topic: source.topic.to_owned(),
            group: self.take.request.consumer_group.clone(),
            queue: signed_queue(source.queue),
            start: from,
            pop_time: self.harvest.pop_time,
            broker: config.broker_name.clone(),
        };
        let writer = Writer::of(self.broker, self.harvest.pop_time);
        let point = key.point(self.take.request.invisible_time, offsets);
        self.harvest.records.push(writer.point(self.harvest.revive_queue, &key, &point));
        self.broker.stats.checked(&key.group, &key.topic);
        let (topic, queue) = (key.topic, key.queue);
        self.harvest.moves.push(Move { topic, queue, from, to });
    }

    /// A message as its client gets it: one of a retry topic in the name of its own topic, with the
    /// handle, which the client could not make then.
    fn body(&self, source: Source<'_>, from: i64, message: Bytes) -> Bytes {
        let plain = !source.topic.starts_with(name::RETRY_PREFIX)
            || self.take.request.topic == source.topic;
        let config = self.broker.config();
        if plain || config.pop_response_return_actual_retry_topic {
            return message;
        }
        let handle = Handle {
            start: from,
            pop_time: self.harvest.pop_time,
            invisible_time: self.take.request.invisible_time,
            revive_queue: self.harvest.revive_queue,
            flag: names::flag(source.topic).to_owned(),
            broker: config.broker_name.clone(),
            queue: signed_queue(source.queue),
            offset: Some(pending::offsets(&message).0),
        };
        match renamed(&message, &self.take.request.topic, &handle) {
            Ok(renamed) => renamed.unwrap_or(message),
            Err(error) => {
                tracing::error!(%error, topic = source.topic, "a retried message keeps its topic");
                message
            }
        }
    }
}

/// A message of a retry topic in the name of another, with its handle; `None` where it has no room for
/// that, so that it keeps its topic, of which clients make the handle.
fn renamed(
    message: &[u8],
    topic: &str,
    handle: &Handle,
) -> Result<Option<Bytes>, record::RecordError> {
    let mut record = record::decode(message)?;
    let mut own = properties::decode(&record.properties);
    own.insert(key::POP_CK, handle.to_string());
    if !drafts::fit(&mut own, 0) {
        return Ok(None);
    }
    record.properties = properties::encode(&own);
    topic.clone_into(&mut record.topic);
    let mut bytes = BytesMut::with_capacity(record.encoded_len());
    record::encode(&record, &mut bytes)?;
    Ok(Some(bytes.freeze()))
}

impl Harvest {
    /// Gives check points and offsets to the log, in one batch; the group goes on behind them from
    /// now on. The caller still holds the lock.
    pub(super) fn submit(
        &mut self,
        broker: &Broker,
        group: &str,
    ) -> Result<oneshot::Receiver<Outcome>, Rejection> {
        let mut records = std::mem::take(&mut self.records);
        let _ordered = broker.offsets.in_order();
        for Move { topic, queue, to, .. } in &self.moves {
            broker.offsets.written(group, topic, *queue, *to);
        }
        // Whatever the room on the disk is: consumers that go on let a full disk become empty.
        let submitted = self.progress(broker, group).and_then(|progress| {
            records.push(progress);
            broker.submit_records(&records)
        });
        submitted.inspect_err(|_| self.take_back(broker, group))
    }

    /// Nothing is kept of the batch: the group goes on where it was.
    pub(super) fn take_back(&mut self, broker: &Broker, group: &str) {
        for Move { topic, queue, from, to } in std::mem::take(&mut self.moves) {
            broker.offsets.not_written(group, &topic, queue, (from, to));
        }
        for Given { of, before, .. } in std::mem::take(&mut self.given) {
            broker.pop.orders.restore(&of, before);
        }
    }

    fn progress(&self, broker: &Broker, group: &str) -> Result<MessageRecord, Rejection> {
        let mut topics: BTreeMap<&str, Vec<(i32, i64)>> = BTreeMap::new();
        for moved in &self.moves {
            topics.entry(&moved.topic).or_default().push((moved.queue, moved.to));
        }
        let change = |(topic, queues): (&str, Vec<(i32, i64)>)| Change::Offsets {
            key: offsets::key(group, topic),
            queues,
        };
        let mut changes: Vec<Change> = topics.into_iter().map(change).collect();
        changes.extend(self.given.iter().map(|given| row_change(&given.of, Some(&given.row))));
        record_of(broker, changes)
    }
}

/// Changes as a record of the journal.
pub(super) fn record_of(broker: &Broker, changes: Vec<Change>) -> Result<MessageRecord, Rejection> {
    let record = Record::Changes { changes };
    journal::message(&record, broker.store_host(), now_millis()).map_err(|error| {
        let remark = format!("offsets have no text: {error}");
        Rejection::new(response::SYSTEM_ERROR, remark)
    })
}

/// The row of an ordered queue for the journal.
pub(super) fn row_change(of: &Queue, row: Option<&OrderInfo>) -> Change {
    let text = |row: &OrderInfo| String::from_utf8_lossy(&row.encode()).into_owned();
    Change::Order { key: of.key(), queue: of.queue, row: row.map(text) }
}

fn signed_queue(queue: u32) -> i32 {
    i32::try_from(queue).unwrap_or(i32::MAX)
}
