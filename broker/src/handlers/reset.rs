//! Setting a group's offsets: code 222, and 220 to its consumers
//! (`AdminBrokerProcessor.resetOffset`, `Broker2Client.resetOffset`).

use std::{collections::BTreeMap, sync::Arc};

use protocol::{
    Command, Language,
    body::{MessageQueue, MessageQueueForC, ResetOffsetBody, ResetOffsetBodyForC},
    code::{request, response},
    header::ResetOffsetRequest,
    version,
};
use store::Boundary;

use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    handlers::{offsets::queue_number, pull},
};

/// Code 222.
pub(crate) fn reset(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: ResetOffsetRequest = call.header()?;
    let offsets = if broker.config().use_server_side_reset_offset {
        by_broker(broker, &header)?
    } else {
        by_consumers(broker, &header, call.command.language == Language::Cpp)?
    };
    tracing::info!(
        group = header.group,
        topic = header.topic,
        ?offsets,
        peer = %call.client,
        "offsets were reset"
    );
    Reply::body(call, body(broker, &header.topic, &offsets).encode())
}

/// The group hears of the new offsets by its next pull or query of each queue.
fn by_broker(
    broker: &Arc<Broker>,
    header: &ResetOffsetRequest,
) -> Result<BTreeMap<i32, i64>, Rejection> {
    let (topic, group) = (&header.topic, &header.group);
    let config = broker.topics.get(topic).ok_or_else(|| {
        Rejection::new(response::TOPIC_NOT_EXIST, format!("Topic {topic} does not exist"))
    })?;
    if !broker.has_group(group) {
        let remark = format!("Group {group} does not exist");
        return Err(Rejection::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
    }
    let queues = config.read_queue_nums.max(config.write_queue_nums);
    if header.queue_id >= queues {
        let queue = header.queue_id;
        let remark = format!("queueId is {queue}: topic {topic} has {queues} queues, from 0 on");
        return Err(Rejection::new(response::INVALID_PARAMETER, remark));
    }
    let offsets: BTreeMap<i32, i64> = match header.offset {
        Some(offset) if header.queue_id >= 0 && offset != -1 => {
            check_range(broker, header, offset)?;
            [(header.queue_id, offset)].into()
        }
        _ if header.queue_id >= 0 => {
            [(header.queue_id, by_time(broker, header, header.queue_id)?)].into()
        }
        _ => (0..config.write_queue_nums)
            .map(|queue| Ok((queue, by_time(broker, header, queue)?)))
            .collect::<Result<_, Rejection>>()?,
    };
    for (queue, offset) in &offsets {
        broker.journal.soon(broker.offsets.reset(group, topic, *queue, *offset));
    }
    broker.runtime.block_on(broker.flush_offsets())?;
    // Pulls that wait are looked at again, so that consumers of a quiet topic hear of it now.
    pull::resume(broker, broker.hold.drain(Some(topic)));
    Ok(offsets)
}

fn check_range(
    broker: &Arc<Broker>,
    header: &ResetOffsetRequest,
    offset: i64,
) -> Result<(), Rejection> {
    let queue = queue_number(header.queue_id)?;
    let min = broker.store.min_offset(&header.topic, queue).cast_signed();
    let max = broker.store.max_offset(&header.topic, queue).cast_signed();
    if (min..=max).contains(&offset) {
        return Ok(());
    }
    let remark = format!("Target offset {offset} not in consume queue range [{min}-{max}]");
    Err(Rejection::new(response::SYSTEM_ERROR, remark))
}

/// The offset that the request's time means in a queue; a time before 1970 means the end.
fn by_time(
    broker: &Arc<Broker>,
    header: &ResetOffsetRequest,
    queue: i32,
) -> Result<i64, Rejection> {
    let queue = queue_number(queue)?;
    let offset = match u64::try_from(header.timestamp) {
        Ok(time) => broker.store.offset_by_time(&header.topic, queue, time, Boundary::Lower),
        Err(_negative) => broker.store.max_offset(&header.topic, queue),
    };
    Ok(offset.cast_signed())
}

/// The older way: every consumer is told to go on from the new offsets, and commits them itself.
fn by_consumers(
    broker: &Arc<Broker>,
    header: &ResetOffsetRequest,
    as_list: bool,
) -> Result<BTreeMap<i32, i64>, Rejection> {
    let (topic, group) = (&header.topic, &header.group);
    let failed = |remark: String| Rejection::new(response::SYSTEM_ERROR, remark);
    let config = broker.topics.get(topic).ok_or_else(|| {
        failed(format!("reset offset failed, no topic in this broker. topic={topic}"))
    })?;
    let mut offsets = BTreeMap::new();
    for queue in 0..config.write_queue_nums {
        let present = broker
            .offsets
            .query(group, topic, queue)
            .ok_or_else(|| failed(format!("THe consumer group <{group}> not exist")))?;
        let wanted = by_time(broker, header, queue)?;
        let goes = header.is_force || wanted < present;
        offsets.insert(queue, if goes { wanted } else { present });
    }
    let members = broker.consumers.members(group);
    if members.is_empty() {
        let remark = format!(
            "Consumer not online, so can not reset offset, Group: {group} Topic: {topic} Timestamp: {}",
            header.timestamp
        );
        return Err(Rejection::new(response::CONSUMER_NOT_ONLINE, remark));
    }
    if let Some(old) = members.iter().find(|member| member.version < version::V3_0_7_SNAPSHOT) {
        let remark = format!("the client does not support this feature. version={}", old.version);
        return Err(failed(remark));
    }
    let table = body(broker, topic, &offsets);
    let body = if as_list { list(table).encode() } else { table.encode() };
    let order =
        ResetOffsetRequest { is_force: false, offset: None, queue_id: -1, ..header.clone() };
    let order =
        Command::request_with(request::RESET_CONSUMER_CLIENT_OFFSET, &order).with_body(body);
    for member in members {
        member.handle.oneway(order.clone());
    }
    Ok(offsets)
}

fn body(broker: &Arc<Broker>, topic: &str, offsets: &BTreeMap<i32, i64>) -> ResetOffsetBody {
    let broker_name = broker.config().broker_name.clone();
    let row = |(id, offset): (&i32, &i64)| (MessageQueue::new(topic, &broker_name, *id), *offset);
    ResetOffsetBody { offset_table: offsets.iter().map(row).collect() }
}

/// The form that C++ clients read.
fn list(table: ResetOffsetBody) -> ResetOffsetBodyForC {
    let row = |(queue, offset): (MessageQueue, i64)| MessageQueueForC {
        topic: queue.topic,
        broker_name: queue.broker_name,
        queue_id: queue.queue_id,
        offset,
    };
    ResetOffsetBodyForC { offset_table: table.offset_table.into_iter().map(row).collect() }
}
