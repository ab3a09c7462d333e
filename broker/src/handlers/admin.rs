//! Small administrative requests: codes 45, 306, 316, 329, 402 (`AdminBrokerProcessor.java`).

use std::sync::Arc;

use protocol::body::{DelayOffsetSerializeWrapper, MessageRequestModeSerializeWrapper};

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

/// Code 306. Consume queues are trimmed together with the log, so that nothing expired is left
/// for a tool to remove.
pub(crate) fn clean_expired_queues(
    _broker: &Arc<Broker>,
    call: &mut Call,
) -> Result<Reply, Rejection> {
    Reply::done(call)
}
