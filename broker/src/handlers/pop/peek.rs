//! 200052: messages that a pop would give, without taking them (`PeekMessageProcessor.java`).

use std::sync::Arc;

use protocol::{
    code::response,
    header::{PeekMessageRequest, PopMessageResponse},
};
use store::GetRequest;

use super::{check, retries};
use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    clock::now_millis,
    handlers::pull::{concatenated, signed},
    pop::point::MAX_MESSAGES,
    reply,
};

/// What is found.
#[derive(Default)]
struct Found {
    messages: Vec<bytes::Bytes>,
    bytes: usize,
    rest: u64,
}

/// Gives messages as they are; runs where the disk may be read.
pub(crate) fn peek(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let request: PeekMessageRequest = call.header()?;
    check::check_broker(broker, "peek")?;
    let PeekMessageRequest { topic, queue_id, consumer_group: group, max_msg_nums } = &request;
    let known = check::check(broker, call, check::Asked { group, topic, queue: *queue_id })?;
    let most = usize::try_from(*max_msg_nums).unwrap_or(1).clamp(1, MAX_MESSAGES);
    let mut found = Found::default();
    match u32::try_from(*queue_id) {
        Ok(queue) => look(broker, (group, topic, queue), most, &mut found),
        Err(_) => {
            for queue in 0..u32::try_from(known.read_queue_nums).unwrap_or(0) {
                look(broker, (group, topic, queue), most, &mut found);
            }
        }
    }
    for retry in retries(topic, group) {
        let queues = broker.topics.get(&retry).map_or(0, |topic| topic.read_queue_nums);
        for queue in 0..u32::try_from(queues).unwrap_or(0) {
            look(broker, (group, &retry, queue), most, &mut found);
        }
    }
    let header = PopMessageResponse {
        pop_time: now_millis(),
        rest_num: signed(found.rest),
        ..PopMessageResponse::default()
    };
    let (code, remark) = match found.messages.is_empty() {
        true => (response::PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE"),
        false => (response::SUCCESS, "FOUND"),
    };
    let answer = reply::answer(code).with_header(&header).with_remark(remark);
    Ok(Reply::Now(answer.with_body(concatenated(found.messages, found.bytes))))
}

fn look(broker: &Broker, (group, topic, queue): (&str, &str, u32), most: usize, found: &mut Found) {
    let number = i32::try_from(queue).unwrap_or(i32::MAX);
    let known = broker.offsets.query(group, topic, number);
    let offset = known.unwrap_or_else(|| signed(broker.store.min_offset(topic, queue)));
    let left = most.saturating_sub(found.messages.len());
    let room = broker.config().max_transfer_bytes_on_message_in_memory as usize;
    let room = room.saturating_sub(found.bytes);
    if left == 0 || (room == 0 && !found.messages.is_empty()) {
        let behind = signed(broker.store.max_offset(topic, queue)).saturating_sub(offset);
        found.rest += u64::try_from(behind).unwrap_or(0);
        return;
    }
    let result = broker.store.get(&GetRequest {
        topic,
        queue_id: queue,
        offset,
        max_messages: u32::try_from(left).unwrap_or(1),
        max_bytes: room,
        filter: &|_| true,
        content: None,
    });
    found.rest += result.max_offset.saturating_sub(result.next_begin_offset);
    found.bytes += result.total_bytes;
    found.messages.extend(result.messages);
}
