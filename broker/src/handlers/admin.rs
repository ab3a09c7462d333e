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
        offset_table: broker.delay_offsets(),
        data_version: broker.delay_version(),
    };
    Reply::body(call, body.encode())
}

/// Code 402. No group is set to pop consumption.
pub(crate) fn request_modes(_broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    Reply::body(call, MessageRequestModeSerializeWrapper::default().encode())
}
