//! Small administrative requests: codes 45, 60, 61, 306, 316, 329 (`AdminBrokerProcessor.java`).

use std::sync::Arc;

use protocol::{body::DelayOffsetSerializeWrapper, code::response};

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

/// Code 60. Only slaves ask it, for how far timers are delivered. None are here, which Java says so:
/// its slaves keep what they have (`AdminBrokerProcessor.getTimerCheckPoint`).
pub(crate) fn timer_check_point(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    broker.java_slaves.note(call);
    Err(Rejection::new(response::SYSTEM_ERROR, "The checkpoint is null"))
}

/// Code 61. Numbers of timers by topic; none are here (`AdminBrokerProcessor.getTimerMetrics`).
pub(crate) fn timer_metrics(_broker: &Arc<Broker>, _call: &mut Call) -> Result<Reply, Rejection> {
    Err(Rejection::new(response::SYSTEM_ERROR, "The timerMetrics is null"))
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
    let unused =
        |topic: &String| broker.topics.get(topic).is_none() && !broker.topics.is_system(topic);
    let queues = broker.store.queues();
    let gone: Vec<_> = queues.into_iter().map(|(topic, _)| topic).filter(unused).collect();
    if !gone.is_empty() {
        tracing::info!(topics = ?gone, "queues of topics that do not exist are removed");
    }
    broker.delete_topics_blocking(gone)?;
    Reply::done(call)
}
