//! Offsets of groups and queues: codes 14, 15, 29, 30, 31, 32, 43, 308, 314
//! (`ConsumerManageProcessor.java`, `AdminBrokerProcessor.java`).

use std::{collections::BTreeMap, sync::Arc};

use protocol::{
    code::response,
    header::{
        BoundaryType, CloneGroupOffsetRequest, GetEarliestMsgStoretimeRequest,
        GetEarliestMsgStoretimeResponse, GetMaxOffsetRequest, GetMaxOffsetResponse,
        GetMinOffsetRequest, GetMinOffsetResponse, QueryConsumerOffsetRequest,
        QueryConsumerOffsetResponse, QueryCorrectionOffsetRequest, SearchOffsetRequest,
        SearchOffsetResponse, UpdateConsumerOffsetRequest, UpdateConsumerOffsetResponse,
    },
    name,
};
use store::Boundary;

use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    offsets::Commit,
    topics,
};

/// Code 14. A group that has no offset in a young queue starts at its first message, whatever it
/// says of where to begin: else it would miss what was sent before its first query.
pub(crate) fn query(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: QueryConsumerOffsetRequest = call.header()?;
    let QueryConsumerOffsetRequest { consumer_group, topic, queue_id, set_zero_if_not_found } =
        &header;
    let found = broker.offsets.query(consumer_group, topic, *queue_id);
    if let Some(offset) = found {
        return Reply::header(call, &QueryConsumerOffsetResponse { offset });
    }
    if *set_zero_if_not_found == Some(false) {
        let remark = "Not found, do not set to zero, maybe this group boot first";
        return Err(Rejection::new(response::QUERY_NOT_FOUND, remark));
    }
    let queue = queue_number(*queue_id)?;
    if broker.store.min_offset(topic, queue) == 0 && broker.store.is_recent(topic, queue, 0) {
        return Reply::header(call, &QueryConsumerOffsetResponse { offset: 0 });
    }
    let remark = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first";
    Err(Rejection::new(response::QUERY_NOT_FOUND, remark))
}

/// Code 15. Answered once the offset is committed in the log; where nobody waits for an answer, it is
/// written within a second. A group is not created here: a client that commits has sent a heartbeat before.
pub(crate) fn commit(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: UpdateConsumerOffsetRequest = call.header()?;
    let UpdateConsumerOffsetRequest { consumer_group: group, topic, queue_id, commit_offset } =
        &header;
    if !broker.has_group(group) {
        let remark = format!("Group {group} not exist!");
        return Err(Rejection::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
    }
    let config = broker.topics.get(topic).ok_or_else(|| {
        Rejection::new(response::TOPIC_NOT_EXIST, format!("Topic {topic} not exist!"))
    })?;
    let missing = |what: &str| {
        Rejection::new(response::INVALID_PARAMETER, format!("{what} is null, topic is {topic}"))
    };
    let queue = queue_id.ok_or_else(|| missing("QueueId"))?;
    let offset = commit_offset.ok_or_else(|| missing("Offset"))?;
    let queues = config.read_queue_nums.max(config.write_queue_nums);
    if !(0..queues).contains(&queue) {
        // An offset of a queue that nobody can consume would be kept and written for ever.
        let remark = format!("queueId is {queue}: topic {topic} has {queues} queues, from 0 on");
        return Err(Rejection::new(response::INVALID_PARAMETER, remark));
    }
    let mut answer = call.success().with_header(&UpdateConsumerOffsetResponse {});
    match broker.offsets.commit(group, topic, queue, offset) {
        Commit::ResetPending => answer = answer.with_remark("Offset has been previously reset"),
        Commit::Pending if !call.command.is_oneway() => {
            let broker = Arc::clone(broker);
            return call.answer_with(async move {
                broker.flush_offsets().await?;
                Ok(answer)
            });
        }
        Commit::Pending | Commit::Known | Commit::Meaningless => {}
    }
    Ok(Reply::Now(answer))
}

/// Code 29.
pub(crate) fn search(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: SearchOffsetRequest = call.header()?;
    let boundary = match header.boundary_type {
        BoundaryType::Lower => Boundary::Lower,
        BoundaryType::Upper => Boundary::Upper,
    };
    let queue = queue_number(header.queue_id)?;
    let timestamp = u64::try_from(header.timestamp).unwrap_or(0);
    let topic = readable(&header.topic);
    let offset = broker.store.offset_by_time(topic, queue, timestamp, boundary);
    Reply::header(call, &SearchOffsetResponse { offset: offset.cast_signed() })
}

/// Code 30. The next offset to be written; 0 for a queue that does not exist.
pub(crate) fn max(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: GetMaxOffsetRequest = call.header()?;
    let offset = broker.store.max_offset(readable(&header.topic), queue_number(header.queue_id)?);
    Reply::header(call, &GetMaxOffsetResponse { offset: offset.cast_signed() })
}

/// Code 31. 0 for a queue that does not exist.
pub(crate) fn min(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: GetMinOffsetRequest = call.header()?;
    let offset = broker.store.min_offset(readable(&header.topic), queue_number(header.queue_id)?);
    Reply::header(call, &GetMinOffsetResponse { offset: offset.cast_signed() })
}

/// Code 32. -1 where nothing is in the queue.
pub(crate) fn earliest(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: GetEarliestMsgStoretimeRequest = call.header()?;
    let queue = queue_number(header.queue_id)?;
    let topic = readable(&header.topic);
    let first = broker.store.min_offset(topic, queue);
    let timestamp = broker.store.store_time(topic, queue, first).map_or(-1, u64::cast_signed);
    Reply::header(call, &GetEarliestMsgStoretimeResponse { timestamp })
}

/// Code 43. All offsets, as Java's slaves read them (`SlaveSynchronize.syncConsumerOffset`).
pub(crate) fn all(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    broker.note_java_offsets(call);
    Reply::body(call, broker.offsets.wrapper_for_slaves().encode())
}

/// Code 308. For each queue the least offset that any group but the filtered ones has; a queue
/// where the compared group is behind that says so by the largest number.
pub(crate) fn correction(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: QueryCorrectionOffsetRequest = call.header()?;
    let filtered = header.filter_groups.as_deref().unwrap_or_default();
    let filtered: Vec<&str> = filtered.split(',').map(str::trim).collect();
    let mut least: BTreeMap<i32, i64> = BTreeMap::new();
    for group in broker.offsets.groups_of(&header.topic) {
        if filtered.contains(&group.as_str()) {
            continue;
        }
        for (queue, offset) in broker.offsets.committed(&group, &header.topic) {
            let first = broker.store.min_offset(&header.topic, queue.cast_unsigned());
            if offset >= first.cast_signed() {
                let slot = least.entry(queue).or_insert(offset);
                *slot = offset.min(*slot);
            }
        }
    }
    for (queue, offset) in broker.offsets.committed(&header.compare_group, &header.topic) {
        if let Some(slot) = least.get_mut(&queue)
            && *slot > offset
        {
            *slot = i64::MAX;
        }
    }
    Reply::body(
        call,
        protocol::body::QueryCorrectionOffsetBody { correction_offsets: least }.encode(),
    )
}

/// Code 314. Gives one group the offsets of another, on one topic or on all. The group that gets
/// them is made where use makes groups: offsets of names that are no groups would never go away.
pub(crate) fn clone(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: CloneGroupOffsetRequest = call.header()?;
    if broker.consumer_group(&header.dest_group).is_none() {
        let group: String = header.dest_group.chars().take(name::MAX_GROUP).collect();
        let remark = format!("Group {group} not exist! Create it with updateSubGroup");
        return Err(Rejection::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
    }
    let topics = match header.topic.as_deref().map(str::trim) {
        Some(topic) if !topic.is_empty() => [topic.to_owned()].into(),
        _ => broker.offsets.topics_of(&header.src_group),
    };
    for topic in topics {
        let online = broker.consumers.profile(&header.src_group).is_some();
        let subscribed = broker.consumers.subscription(&header.src_group, &topic).is_some();
        let consumed = header.offline || !online || subscribed;
        if broker.topics.get(&topic).is_some() && consumed {
            broker.offsets.copy(&header.src_group, &header.dest_group, Some(&topic));
        }
    }
    broker.runtime.block_on(broker.flush_offsets())?;
    Reply::done(call)
}

/// The topic that a client asks about: for the journal, which no client sees, one without queues.
fn readable(topic: &str) -> &str {
    if topics::is_journal(topic) { "" } else { topic }
}

/// The number of a queue as the store counts it.
pub(crate) fn queue_number(queue: i32) -> Result<u32, Rejection> {
    u32::try_from(queue).map_err(|_negative| {
        let remark = format!("header field `queueId` is {queue}: queues are numbered from 0");
        Rejection::new(response::INVALID_PARAMETER, remark)
    })
}
