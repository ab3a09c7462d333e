//! 200053: a message stays with its client for another time from now on
//! (`ChangeInvisibleTimeProcessor.java`).

use std::sync::Arc;

use protocol::{
    code::response,
    header::{ChangeInvisibleTimeRequest, ChangeInvisibleTimeResponse},
};

use super::{
    ack, check,
    ordered::{self, Message},
};
use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    clock::now_millis,
    pending::settled,
    pop::{
        handle::Handle,
        point::{Key, Writer},
    },
    reply,
};

/// Writes a check point of this message alone, and behind it that the one before is done: the client
/// has a new handle from the answer.
pub(crate) fn change(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let request: ChangeInvisibleTimeRequest = call.header()?;
    let queue = check::check_queue(broker, call, (&request.topic, request.queue_id))?;
    let offset = known_offset(broker, (&request.topic, queue), request.offset)?;
    let handle = Handle::parse(&request.extra_info)?;
    if handle.is_ordered() {
        let of = (&*request.topic, &*request.consumer_group);
        let message = Message {
            offset: request.offset,
            pop_time: handle.pop_time,
            ..ack::message_of(of, request.queue_id)
        };
        return ordered::change(broker, call, (message, &request));
    }
    let revive = ack::check_revive_queue(broker, handle.revive_queue)?;
    let (topic, group) = (&request.topic, &request.consumer_group);
    let before = ack::key_of(topic, group, request.queue_id, &handle);
    let writer = Writer::of(broker, now_millis());
    // Never the key of the check point before: what is written here would count as done with it.
    let pop_time = writer.now.max(before.pop_time.saturating_add(1));
    let after = Key { start: request.offset, pop_time, ..before.clone() };
    let point = after.point(request.invisible_time, &[offset]);
    let records =
        [writer.point(revive, &after, &point), writer.acks(revive, &before, &[request.offset])];
    let committed = broker.submit_records(&records)?;
    broker.stats.checked(group, topic);
    broker.stats.acknowledged(group, topic, 1);
    let header = ChangeInvisibleTimeResponse {
        pop_time,
        invisible_time: request.invisible_time,
        revive_qid: revive,
    };
    call.answer_with(async move {
        settled(committed.await, "the log has stopped; ask the broker that takes over")?;
        Ok(reply::answer(response::SUCCESS).with_header(&header))
    })
}

/// The offset, where the queue holds a message of it.
fn known_offset(
    broker: &Broker,
    (topic, queue): (&str, u32),
    offset: i64,
) -> Result<u64, Rejection> {
    let (min, max) = (broker.store.min_offset(topic, queue), broker.store.max_offset(topic, queue));
    let known = u64::try_from(offset).ok().filter(|at| (min..max).contains(at));
    known.ok_or_else(|| {
        let remark =
            format!("offset {offset} is none of {topic}@{queue}, which has {min} to {max}");
        Rejection::new(response::NO_MESSAGE, remark)
    })
}
