//! Small administrative requests: codes 45, 306, 316, 329, 402 (`AdminBrokerProcessor.java`).

use std::sync::Arc;

use protocol::{
    body::{DelayOffsetSerializeWrapper, MessageRequestModeSerializeWrapper},
    code::response,
};

use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
};

/// Code 45. How far each delay level is delivered, as Java's slaves read it.
pub(crate) fn delay_offsets(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let body = DelayOffsetSerializeWrapper {
        offset_table: broker
            .delay_progress
            .offsets()
            .into_iter()
            .map(|(level, offset)| (level.cast_signed(), offset.cast_signed()))
            .collect(),
        ..DelayOffsetSerializeWrapper::default()
    };
    Reply::body(call, body.encode())
}

/// Code 402. No group is set to pop consumption.
pub(crate) fn request_modes(_broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    Reply::body(call, MessageRequestModeSerializeWrapper::default().encode())
}

/// Code 306. Removes files of consume queues whose messages the log no longer has.
pub(crate) fn clean_expired_queues(
    broker: &Arc<Broker>,
    call: &mut Call,
) -> Result<Reply, Rejection> {
    broker.store.cut_to_log();
    Reply::done(call)
}

/// Code 329. Deletes expired files of the log whatever the hour; what has not expired stays.
pub(crate) fn delete_expired(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    broker.clean_now.notify_one();
    Reply::done(call)
}

/// Code 316. Removes consume queues of topics that are in no table any more.
pub(crate) fn clean_unused_topics(
    broker: &Arc<Broker>,
    call: &mut Call,
) -> Result<Reply, Rejection> {
    for (topic, _) in broker.store.queues() {
        if broker.topics.get(&topic).is_some() || broker.topics.is_system(&topic) {
            continue;
        }
        broker.store.delete_topic(&topic).map_err(|error| {
            let remark = format!("queues of topic {topic} could not be removed: {error}");
            Rejection::new(response::SYSTEM_ERROR, remark)
        })?;
        tracing::info!(topic, "queues of a topic that does not exist were removed");
    }
    Reply::done(call)
}
