//! Messages that are done: codes 200051 and 200151 (`AckMessageProcessor.java`).

use std::sync::Arc;

use base64::{Engine, prelude::BASE64_STANDARD};
use protocol::{
    body::{BatchAck, BatchAckMessageRequestBody},
    code::response,
    header::AckMessageRequest,
    message::record::MessageRecord,
};

use super::{
    check,
    ordered::{self, Message},
};
use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    clock::now_millis,
    pending::settled,
    pop::{
        handle::{Handle, HandleError},
        names::{ORDERED, by_flag, revive_topic},
        order::Queue,
        point::{Key, MAX_MESSAGES, Writer},
    },
    reply,
};

/// Check points of one request, at most.
const MAX_ACKS: usize = 4_096;

/// 200051: a message is done.
pub(crate) fn ack(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let request: AckMessageRequest = call.header()?;
    let queue = check::check_queue(broker, call, (&request.topic, request.queue_id))?;
    check_offset(broker, (&request.topic, queue), request.offset)?;
    let handle = Handle::parse(&request.extra_info)?;
    if handle.is_ordered() {
        let message = message_of((&request.topic, &request.consumer_group), request.queue_id);
        let message = Message { offset: request.offset, pop_time: handle.pop_time, ..message };
        return ordered::acknowledge(broker, call, vec![message]);
    }
    let revive = check_revive_queue(broker, handle.revive_queue)?;
    let key = key_of(&request.topic, &request.consumer_group, request.queue_id, &handle);
    let record = Writer::of(broker, now_millis()).acks(revive, &key, &[request.offset]);
    let reply = commit(broker, call, &[record])?;
    broker.stats.acknowledged(&request.consumer_group, &request.topic, 1);
    Ok(reply)
}

/// 200151: messages of several pops are done.
pub(crate) fn acks(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let body = BatchAckMessageRequestBody::decode(&call.command.body)?;
    let list = body.acks.unwrap_or_default();
    if list.is_empty() {
        return Err(Rejection::new(response::NO_MESSAGE, "the body has no acks"));
    }
    if list.len() > MAX_ACKS {
        let remark = format!("acks has {} entries, at most {MAX_ACKS}; divide it", list.len());
        return Err(Rejection::new(response::MESSAGE_ILLEGAL, remark));
    }
    let name = body.broker_name.unwrap_or_else(|| broker.config().broker_name.clone());
    let (mut records, mut messages) = (Vec::with_capacity(list.len()), Vec::new());
    let mut done = Vec::with_capacity(list.len());
    for ack in &list {
        let Some((key, offsets)) = named(broker, ack, &name)? else { continue };
        if ack.revive_queue_id == ORDERED {
            let of = message_of((&key.topic, &key.group), key.queue);
            let pop_time = key.pop_time;
            messages.extend(offsets.into_iter().map(|offset| Message {
                offset,
                pop_time,
                ..of.clone()
            }));
        } else {
            let revive = check_revive_queue(broker, ack.revive_queue_id)?;
            records.push(Writer::of(broker, now_millis()).acks(revive, &key, &offsets));
            done.push((key, offsets.len() as u64));
        }
    }
    match (records.is_empty(), messages.is_empty()) {
        (true, true) => Reply::done(call),
        (_, true) => {
            let reply = commit(broker, call, &records)?;
            for (key, number) in done {
                broker.stats.acknowledged(&key.group, &key.topic, number);
            }
            Ok(reply)
        }
        (true, false) => ordered::acknowledge(broker, call, messages),
        (false, false) => {
            let remark = "acks names messages that were popped in order and others; divide it";
            Err(Rejection::new(response::MESSAGE_ILLEGAL, remark))
        }
    }
}

/// What is done of one pop; `None` where it names nothing that is there.
fn named(
    broker: &Broker,
    ack: &BatchAck,
    name: &str,
) -> Result<Option<(Key, Vec<i64>)>, Rejection> {
    let illegal = |remark: String| Rejection::new(response::MESSAGE_ILLEGAL, remark);
    let topic = by_flag(&ack.retry, &ack.topic, &ack.consumer_group)
        .ok_or_else(|| illegal(format!("retry is {:?}, and may be 0, 1 or 2", ack.retry)))?;
    let text = ack.bit_set.as_deref().unwrap_or_default();
    let bits = BASE64_STANDARD
        .decode(text)
        .map_err(|error| illegal(format!("bitSet is no base64: {error}")))?;
    let Ok(queue) = u32::try_from(ack.queue_id) else { return Ok(None) };
    let (min, max) =
        (broker.store.min_offset(&topic, queue), broker.store.max_offset(&topic, queue));
    let known = |offset: &i64| u64::try_from(*offset).is_ok_and(|at| (min..max).contains(&at));
    let offsets: Vec<i64> =
        offsets(&bits, ack.start_offset).filter(known).take(MAX_MESSAGES + 1).collect();
    if offsets.is_empty() {
        return Ok(None);
    }
    if offsets.len() > MAX_MESSAGES {
        return Err(illegal(format!(
            "bitSet names more than the {MAX_MESSAGES} messages of a pop"
        )));
    }
    let key = Key {
        topic,
        group: ack.consumer_group.clone(),
        queue: ack.queue_id,
        start: ack.start_offset,
        pop_time: ack.pop_time,
        broker: name.to_owned(),
    };
    Ok(Some((key, offsets)))
}

/// The offsets that the bytes of a `BitSet` name: the first bit means `start`.
fn offsets(bits: &[u8], start: i64) -> impl Iterator<Item = i64> {
    let of_byte = move |(nth, byte): (usize, &u8)| {
        let byte = *byte;
        let first = i64::try_from(nth).ok().and_then(|nth| nth.checked_mul(8));
        let set = (0..8_i64).filter(move |bit| byte & (1 << *bit) != 0);
        set.filter_map(move |bit| start.checked_add(first?.checked_add(bit)?))
    };
    bits.iter().enumerate().flat_map(of_byte)
}

/// Whether a queue may hold a message of this offset; Java lets the next one pass as well.
fn check_offset(
    broker: &Broker,
    (topic, queue): (&str, u32),
    offset: i64,
) -> Result<(), Rejection> {
    let (min, max) = (broker.store.min_offset(topic, queue), broker.store.max_offset(topic, queue));
    if u64::try_from(offset).is_ok_and(|at| (min..=max).contains(&at)) {
        return Ok(());
    }
    let remark =
        format!("offset is illegal, key:{topic}@{queue}, commit:{offset}, store:{min}~{max}");
    Err(Rejection::new(response::NO_MESSAGE, remark))
}

/// Whether the revive topic has the queue that a handle names.
pub(super) fn check_revive_queue(broker: &Broker, queue: i32) -> Result<i32, Rejection> {
    let topic = revive_topic(&broker.config().broker_cluster_name);
    let queues = broker.topics.get(&topic).map_or(0, |topic| topic.read_queue_nums);
    if (0..queues).contains(&queue) {
        return Ok(queue);
    }
    let remark = format!("the handle names queue {queue} of {topic}, which has {queues}");
    Err(Rejection::new(response::MESSAGE_ILLEGAL, remark))
}

/// A message of a queue that was popped in order.
pub(super) fn message_of((topic, group): (&str, &str), queue: i32) -> Message {
    let of = Queue { topic: topic.to_owned(), group: group.to_owned(), queue };
    Message { of, offset: 0, pop_time: 0 }
}

pub(super) fn key_of(topic: &str, group: &str, queue: i32, handle: &Handle) -> Key {
    Key {
        topic: topic.to_owned(),
        group: group.to_owned(),
        queue,
        start: handle.start,
        pop_time: handle.pop_time,
        broker: handle.broker.clone(),
    }
}

/// Writes records and answers once they are committed.
fn commit(broker: &Broker, call: &mut Call, records: &[MessageRecord]) -> Result<Reply, Rejection> {
    let committed = broker.submit_records(records)?;
    call.answer_with(async move {
        settled(
            committed.await,
            "the log has stopped; acknowledge again at the broker that takes over",
        )?;
        Ok(reply::answer(response::SUCCESS))
    })
}

impl From<HandleError> for Rejection {
    fn from(error: HandleError) -> Self {
        Self::new(response::SYSTEM_ERROR, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_offsets() {
        assert_eq!(offsets(&[0b101, 0b1000_0000], 10).collect::<Vec<_>>(), [10, 12, 25]);
        assert_eq!(offsets(&[1], i64::MAX).collect::<Vec<_>>(), [i64::MAX]);
        assert_eq!(offsets(&[2], i64::MAX).count(), 0);
    }
}
