//! What a broker answers to a send.

use protocol::{body::MessageQueue, code::response, header::SendMessageResponse};

use crate::{error::RequestError, request::Answer};

/// How sure it is that a message is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendStatus {
    /// As the broker's durability promises.
    Stored,
    /// Stored, but not yet on the disk in time.
    FlushDiskTimeout,
    /// Stored, but not yet on a slave in time.
    FlushSlaveTimeout,
    /// Stored, but there is no slave.
    SlaveNotAvailable,
}

impl SendStatus {
    /// Java's name (`SendStatus.java`).
    pub fn name(self) -> &'static str {
        match self {
            Self::Stored => "SEND_OK",
            Self::FlushDiskTimeout => "FLUSH_DISK_TIMEOUT",
            Self::FlushSlaveTimeout => "FLUSH_SLAVE_TIMEOUT",
            Self::SlaveNotAvailable => "SLAVE_NOT_AVAILABLE",
        }
    }
}

/// A message or batch that was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// How sure that is.
    pub status: SendStatus,
    /// The client's id of each message.
    pub ids: Vec<String>,
    /// The broker's id of the message, those of a batch separated by commas.
    pub offset_message_id: String,
    /// Where it is.
    pub queue: MessageQueue,
    /// Its place in the queue; that of the first message of a batch.
    pub queue_offset: i64,
}

/// Codes of an answer that says where the message is.
pub(super) const STORED: [i32; 4] = [
    response::SUCCESS,
    response::FLUSH_DISK_TIMEOUT,
    response::FLUSH_SLAVE_TIMEOUT,
    response::SLAVE_NOT_AVAILABLE,
];

/// Reads an answer that has one of the codes [`STORED`].
pub(super) fn read(
    answer: &Answer,
    ids: &[String],
    queue: &MessageQueue,
) -> Result<Sent, RequestError> {
    let header: SendMessageResponse = answer.header()?;
    let status = match answer.command.code {
        response::FLUSH_DISK_TIMEOUT => SendStatus::FlushDiskTimeout,
        response::FLUSH_SLAVE_TIMEOUT => SendStatus::FlushSlaveTimeout,
        response::SLAVE_NOT_AVAILABLE => SendStatus::SlaveNotAvailable,
        _ => SendStatus::Stored,
    };
    Ok(Sent {
        status,
        ids: ids.to_vec(),
        offset_message_id: header.msg_id,
        queue: MessageQueue { queue_id: header.queue_id, ..queue.clone() },
        queue_offset: header.queue_offset,
    })
}
