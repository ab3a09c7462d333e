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

/// Code 60. Only slaves ask it, for how far timers are delivered. A node that delivers none says so as
/// Java does: its slaves keep what they have (`AdminBrokerProcessor.getTimerCheckPoint`).
pub(crate) fn timer_check_point(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    broker.java_slaves.note(call);
    let told = broker.is_master().then(|| broker.timers_shown.checkpoint()).flatten();
    let told =
        told.ok_or_else(|| Rejection::new(response::SYSTEM_ERROR, "The checkpoint is null"))?;
    broker.java_slaves.note_timers(call);
    Reply::body(call, told)
}

/// Code 61. Numbers of timers that wait, by topic (`AdminBrokerProcessor.getTimerMetrics`); while they
/// are not counted slaves keep what they have.
pub(crate) fn timer_metrics(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let told = broker.is_master().then(|| broker.timers_shown.metrics()).flatten();
    let told = told
        .ok_or_else(|| Rejection::new(response::SYSTEM_ERROR, "The timer message store is null"))?;
    Reply::body(call, told.encode())
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
