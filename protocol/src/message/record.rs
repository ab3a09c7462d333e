//! The stored message record, which is also the wire form of a pulled message
//! (`MessageExtEncoder.java`, `MessageDecoder.java`, `MessageVersion.java`).
//!
//! ```text
//! | totalSize 4 | magic 4 | bodyCRC 4 | queueId 4 | flag 4 | queueOffset 8 | physicalOffset 8 |
//! | sysFlag 4 | bornTimestamp 8 | bornHost 8 or 20 | storeTimestamp 8 | storeHost 8 or 20 |
//! | reconsumeTimes 4 | preparedTransactionOffset 8 | length 4, body |
//! | length 1 (V1) or 2 (V2), topic | length 2, properties |
//! ```

mod view;

use std::net::{IpAddr, SocketAddr};

use bytes::{BufMut, Bytes, BytesMut};

pub use self::view::{RecordView, records};
use super::{properties::MAX_LENGTH, sys_flag};

/// Positions of fields within a record.
pub mod at {
    use crate::message::sys_flag;

    /// Length of the whole record.
    pub const TOTAL_SIZE: usize = 0;
    /// Version mark.
    pub const MAGIC: usize = 4;
    /// Checksum of the body.
    pub const BODY_CRC: usize = 8;
    /// Queue.
    pub const QUEUE_ID: usize = 12;
    /// Application flag.
    pub const FLAG: usize = 16;
    /// Offset in the queue.
    pub const QUEUE_OFFSET: usize = 20;
    /// Offset in the commit log.
    pub const PHYSICAL_OFFSET: usize = 28;
    /// Flags of [`crate::message::sys_flag`].
    pub const SYS_FLAG: usize = 36;
    /// When the producer made it.
    pub const BORN_TIMESTAMP: usize = 40;
    /// Who made it.
    pub const BORN_HOST: usize = 48;
    /// When it was stored, with an IPv4 born host.
    pub const STORE_TIMESTAMP: usize = 56;
    /// When it was stored, with an IPv6 born host.
    pub const STORE_TIMESTAMP_V6: usize = 68;

    /// Where the store timestamp is in a record with this flag.
    pub fn store_timestamp(sys_flag: i32) -> usize {
        if sys_flag & sys_flag::BORN_HOST_V6 == 0 { STORE_TIMESTAMP } else { STORE_TIMESTAMP_V6 }
    }
}

/// Mark of a record with one byte of topic length (0xDAA320A7).
pub const MAGIC_V1: i32 = -626_843_481;
/// Mark of a record with two bytes of topic length (0xDAA320AB).
pub const MAGIC_V2: i32 = -626_843_477;
/// Mark of the blank at the end of a commit-log file (0xCBD43194). Never sent to clients.
pub const MAGIC_BLANK: i32 = -875_286_124;

/// The longest topic, in bytes, that a V1 record can hold: Java reads its length as signed.
const MAX_V1_TOPIC: usize = 127;

/// Bytes of a V1 record with IPv4 hosts beside body, topic and properties.
const FIXED: usize = 91;

/// A message as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRecord {
    /// Queue.
    pub queue_id: i32,
    /// Application flag.
    pub flag: i32,
    /// Offset in the queue.
    pub queue_offset: i64,
    /// Offset in the commit log.
    pub physical_offset: i64,
    /// Flags; the two of the hosts' families are set by [`encode`].
    pub sys_flag: i32,
    /// When the producer made it, in milliseconds.
    pub born_timestamp: i64,
    /// Who made it.
    pub born_host: SocketAddr,
    /// When it was stored, in milliseconds.
    pub store_timestamp: i64,
    /// Which broker stored it; clients connect to this address.
    pub store_host: SocketAddr,
    /// How often it was given back.
    pub reconsume_times: i32,
    /// Commit-log offset of the half message that a commit belongs to, else 0.
    pub prepared_transaction_offset: i64,
    /// Body as it was received, still compressed.
    pub body: Bytes,
    /// Topic.
    pub topic: String,
    /// Properties in their text form.
    pub properties: String,
}

/// Why a record cannot be read or written.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum RecordError {
    /// Fewer bytes than the record or its field needs.
    #[error("record field `{0}` exceeds the bytes at hand")]
    Truncated(&'static str),
    /// The size field is negative or smaller than any record.
    #[error("record size {0} is smaller than any record")]
    Size(i32),
    /// Neither version's mark.
    #[error("record mark {0:#010x} is not a message")]
    Magic(i32),
    /// The fields do not add up to the size.
    #[error("record of {total} bytes has fields of {fields} bytes")]
    Mismatch {
        /// The size field.
        total: usize,
        /// What the fields add up to.
        fields: usize,
    },
    /// A text is not UTF-8.
    #[error("record field `{0}` is not UTF-8")]
    Text(&'static str),
    /// A field is too long to be written.
    #[error("{length} bytes of `{field}` exceed the {limit} that a record can hold")]
    TooLong {
        /// Which field.
        field: &'static str,
        /// Its length in bytes.
        length: usize,
        /// The bound in bytes.
        limit: usize,
    },
}

/// Checksum of a body as records hold it: CRC-32 without its highest bit; 0 for an empty body.
pub fn body_crc(body: &[u8]) -> i32 {
    i32::try_from(crc32fast::hash(body) & 0x7FFF_FFFF).unwrap_or(0)
}

impl MessageRecord {
    /// Flags with the bits of the hosts' families as they are.
    fn wire_flag(&self) -> i32 {
        let v6 = sys_flag::BORN_HOST_V6 | sys_flag::STORE_HOST_V6;
        let born = if self.born_host.is_ipv6() { sys_flag::BORN_HOST_V6 } else { 0 };
        let store = if self.store_host.is_ipv6() { sys_flag::STORE_HOST_V6 } else { 0 };
        (self.sys_flag & !v6) | born | store
    }

    /// Length in bytes of the encoded record.
    pub fn encoded_len(&self) -> usize {
        let v6 = |host: SocketAddr| if host.is_ipv6() { 12 } else { 0 };
        let v2 = usize::from(self.topic.len() > MAX_V1_TOPIC);
        FIXED
            + v2
            + v6(self.born_host)
            + v6(self.store_host)
            + self.body.len()
            + self.topic.len()
            + self.properties.len()
    }

    fn check(&self) -> Result<i32, RecordError> {
        let too_long = |field, length, limit| Err(RecordError::TooLong { field, length, limit });
        let max_topic = usize::from(i16::MAX.unsigned_abs());
        if self.topic.len() > max_topic {
            return too_long("topic", self.topic.len(), max_topic);
        }
        if self.properties.len() > MAX_LENGTH {
            return too_long("properties", self.properties.len(), MAX_LENGTH);
        }
        match i32::try_from(self.encoded_len()) {
            Ok(total) => Ok(total),
            Err(_too_long) => too_long("body", self.body.len(), 0x7FFF_0000),
        }
    }
}

/// Appends a record and gives its length in bytes. V2 is chosen for topics beyond 127 bytes only,
/// because old clients read nothing else than V1.
///
/// # Errors
/// A field is too long; nothing was appended.
pub fn encode(record: &MessageRecord, out: &mut BytesMut) -> Result<usize, RecordError> {
    let total = record.check()?;
    let length = record.encoded_len();
    out.reserve(length);
    out.put_i32(total);
    let v2 = record.topic.len() > MAX_V1_TOPIC;
    out.put_i32(if v2 { MAGIC_V2 } else { MAGIC_V1 });
    out.put_i32(body_crc(&record.body));
    out.put_i32(record.queue_id);
    out.put_i32(record.flag);
    out.put_i64(record.queue_offset);
    out.put_i64(record.physical_offset);
    out.put_i32(record.wire_flag());
    out.put_i64(record.born_timestamp);
    put_host(record.born_host, out);
    out.put_i64(record.store_timestamp);
    put_host(record.store_host, out);
    out.put_i32(record.reconsume_times);
    out.put_i64(record.prepared_transaction_offset);
    out.put_u32(u32::try_from(record.body.len()).unwrap_or_default());
    out.put_slice(&record.body);
    if v2 {
        out.put_u16(u16::try_from(record.topic.len()).unwrap_or_default());
    } else {
        out.put_u8(u8::try_from(record.topic.len()).unwrap_or_default());
    }
    out.put_slice(record.topic.as_bytes());
    out.put_u16(u16::try_from(record.properties.len()).unwrap_or_default());
    out.put_slice(record.properties.as_bytes());
    Ok(length)
}

fn put_host(host: SocketAddr, out: &mut BytesMut) {
    match host.ip() {
        IpAddr::V4(ip) => out.put_slice(&ip.octets()),
        IpAddr::V6(ip) => out.put_slice(&ip.octets()),
    }
    out.put_i32(host.port().into());
}

/// Reads the record at the front of `bytes`; what follows it is not looked at.
///
/// # Errors
/// The bytes do not begin with a whole, consistent record.
pub fn decode(bytes: &[u8]) -> Result<MessageRecord, RecordError> {
    Ok(RecordView::parse(bytes)?.to_record())
}

/// Writes the three fields that are known only when a record's place in the log is.
///
/// `record` is a record of [`encode`], whole; bytes that are none stay as they are.
pub fn stamp(record: &mut [u8], queue_offset: i64, physical_offset: i64, store_timestamp: i64) {
    let Some(flag) = view::i32_at(record, at::SYS_FLAG) else {
        debug_assert!(false, "{} bytes are no record", record.len());
        return;
    };
    put_at(record, at::QUEUE_OFFSET, queue_offset);
    put_at(record, at::PHYSICAL_OFFSET, physical_offset);
    put_at(record, at::store_timestamp(flag), store_timestamp);
}

fn put_at(record: &mut [u8], at: usize, value: i64) {
    if let Some(field) = record.get_mut(at..at + 8) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
