//! Messages that wait in topics of the broker's own: what delayed messages, timers and transactions
//! share when one of them goes on.

use std::{net::SocketAddr, time::Instant};

use bytes::Bytes;
use protocol::message::{
    properties::{Properties, key},
    record::MessageRecord,
};
use segment::Throttle;
use store::append_log::{Placed, ReadError};

use crate::broker::Broker;

/// A message cannot be read now; another try may succeed.
#[derive(Debug)]
pub(crate) struct Unreadable;

impl Broker {
    /// The record at a position of the log; `None` where it is lost, which must not block those
    /// behind it. `what` says in the log of the broker whose turn it is.
    pub(crate) fn waiting_message(
        &self,
        physical: u64,
        what: &str,
    ) -> Result<Option<Bytes>, Unreadable> {
        match self.store.message_at(physical) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error @ ReadError::Io { .. }) => {
                tracing::warn!(%error, what, "a message that waits cannot be read; trying again");
                Err(Unreadable)
            }
            // Another member has it: this one leads no more until it has fetched it.
            Err(error @ ReadError::Damaged { .. }) if self.group.is_some() => {
                tracing::warn!(%error, what, "a message that waits has rotted here; trying again");
                Err(Unreadable)
            }
            Err(error) => {
                tracing::error!(%error, physical, what, "a message that waits is lost, passed over");
                Ok(None)
            }
        }
    }

    /// Puts what becomes of messages into the log and blocks until that is committed; where it is
    /// not, they wait, and `warned` holds back what is told of it.
    pub(crate) fn append_waiting(
        &self,
        records: &[MessageRecord],
        warned: &Throttle,
        what: &str,
    ) -> Option<Placed> {
        let told = match self.submit_inside(records) {
            Ok(committed) => committed.blocking_recv().ok()?.map_err(|failure| failure.to_string()),
            Err(rejection) => Err(rejection.remark),
        };
        told.inspect_err(|reason| {
            if let Some(held_back) = warned.tell(Instant::now()) {
                tracing::warn!(reason, held_back, what, "messages go on waiting");
            }
        })
        .ok()
    }
}

/// Topic and queue that a message was sent to.
///
/// # Errors
/// The name of the property that is missing or wrong.
pub(crate) fn real_place(properties: &Properties) -> Result<(&str, i32), &'static str> {
    let topic = properties.get(key::REAL_TOPIC).ok_or(key::REAL_TOPIC)?;
    let queue = properties
        .get(key::REAL_QID)
        .and_then(|text| text.parse().ok())
        .filter(|queue: &i32| *queue >= 0)
        .ok_or(key::REAL_QID)?;
    Ok((topic, queue))
}

/// As [`real_place`], and its properties say it no more.
pub(crate) fn take_real_place(properties: &mut Properties) -> Result<(String, i32), &'static str> {
    let (topic, queue) = real_place(properties)?;
    let place = (topic.to_owned(), queue);
    properties.remove(key::REAL_TOPIC);
    properties.remove(key::REAL_QID);
    Ok(place)
}

/// A record for another append, by the broker with this store host.
pub(crate) fn renewed(
    record: MessageRecord,
    properties: String,
    store_host: SocketAddr,
) -> MessageRecord {
    MessageRecord { properties, store_host, queue_offset: 0, physical_offset: 0, ..record }
}
