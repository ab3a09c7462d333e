//! The fields of a message record that the store works with, read in place.

/// Position of the queue offset in a record.
pub(crate) const QUEUE_OFFSET: usize = 20;
/// Position of the physical offset in a record.
pub(crate) const PHYSICAL_OFFSET: usize = 28;
const SYS_FLAG: usize = 36;
const MAGIC_V1: u32 = 0xDAA3_20A7;
const MAGIC_V2: u32 = 0xDAA3_20AB;
const BORN_V6: i32 = 0x10;
const STORE_V6: i32 = 0x20;
/// Mask of the transaction type in the system flag.
const TRANSACTION: i32 = 0xC;
const PREPARED: i32 = 0x4;
const ROLLBACK: i32 = 0xC;

/// What the store needs to know of one record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) total_size: u32,
    pub(crate) queue_id: u32,
    pub(crate) queue_offset: u64,
    pub(crate) physical: u64,
    pub(crate) sys_flag: i32,
    pub(crate) store_timestamp: u64,
    pub(crate) topic: &'a str,
    properties: &'a [u8],
}

/// Why bytes are not a message record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RecordError {
    #[error("record is cut after {length} bytes")]
    Cut { length: usize },
    #[error("record has magic {magic:#010x}")]
    Magic { magic: u32 },
    #[error("record of {length} bytes says it has {declared}")]
    Size { length: usize, declared: u32 },
    #[error("record has queue id {0}")]
    QueueId(i32),
    #[error("record has topic {0:?}, which cannot name a directory")]
    Topic(String),
}

impl<'a> Record<'a> {
    /// Reads `bytes`, which hold exactly one record.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, RecordError> {
        let cut = || RecordError::Cut { length: bytes.len() };
        let total_size = u32_at(bytes, 0).ok_or_else(cut)?;
        if total_size as usize != bytes.len() {
            return Err(RecordError::Size { length: bytes.len(), declared: total_size });
        }
        let magic = u32_at(bytes, 4).ok_or_else(cut)?;
        if magic != MAGIC_V1 && magic != MAGIC_V2 {
            return Err(RecordError::Magic { magic });
        }
        let sys_flag = u32_at(bytes, SYS_FLAG).ok_or_else(cut)?.cast_signed();
        let raw_queue_id = u32_at(bytes, 12).ok_or_else(cut)?.cast_signed();
        let queue_id =
            u32::try_from(raw_queue_id).map_err(|_out| RecordError::QueueId(raw_queue_id))?;
        let (topic, properties) = tail(bytes, sys_flag, magic == MAGIC_V2).ok_or_else(cut)?;
        Ok(Self {
            total_size,
            queue_id,
            queue_offset: u64_at(bytes, QUEUE_OFFSET).ok_or_else(cut)?,
            physical: u64_at(bytes, PHYSICAL_OFFSET).ok_or_else(cut)?,
            sys_flag,
            store_timestamp: u64_at(bytes, store_timestamp_at(sys_flag)).ok_or_else(cut)?,
            topic: topic_name(topic)?,
            properties,
        })
    }

    /// Prepared and rollback messages have no place in a consume queue.
    pub(crate) fn is_queued(&self) -> bool {
        let kind = self.sys_flag & TRANSACTION;
        kind != PREPARED && kind != ROLLBACK
    }

    /// Rollback messages are in no index.
    pub(crate) fn is_indexed(&self) -> bool {
        self.sys_flag & TRANSACTION != ROLLBACK
    }

    /// Value of the property `name`, the first where it is repeated.
    pub(crate) fn property(&self, name: &str) -> Option<&'a str> {
        self.properties.split(|byte| *byte == 2).find_map(|pair| {
            let value = pair.strip_prefix(name.as_bytes())?.strip_prefix(&[1])?;
            std::str::from_utf8(value).ok().filter(|value| !value.is_empty())
        })
    }
}

/// Where the store timestamp stands in a record with this system flag.
pub(crate) fn store_timestamp_at(sys_flag: i32) -> usize {
    if sys_flag & BORN_V6 == 0 { 56 } else { 68 }
}

/// System flag of a record that may still be unstamped.
pub(crate) fn sys_flag(bytes: &[u8]) -> Option<i32> {
    u32_at(bytes, SYS_FLAG).map(u32::cast_signed)
}

/// Java's `String.hashCode` over UTF-16 units.
pub(crate) fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(field.try_into().ok()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_be_bytes(field.try_into().ok()?))
}

fn tail(bytes: &[u8], sys_flag: i32, v2: bool) -> Option<(&[u8], &[u8])> {
    let host = |flag: i32| if sys_flag & flag == 0 { 8 } else { 20 };
    let body_at = 48 + host(BORN_V6) + 8 + host(STORE_V6) + 4 + 8;
    let body = u32_at(bytes, body_at)? as usize;
    let mut at = body_at.checked_add(4)?.checked_add(body)?;
    let topic_length = if v2 {
        let high = *bytes.get(at)?;
        at += 1;
        usize::from(u16::from_be_bytes([high, *bytes.get(at)?]))
    } else {
        usize::from(*bytes.get(at)?)
    };
    at += 1;
    let topic = bytes.get(at..at + topic_length)?;
    at += topic_length;
    let length = u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]);
    let properties = bytes.get(at + 2..at + 2 + usize::from(length))?;
    Some((topic, properties))
}

/// A topic becomes the name of a directory, so a foreign log must not be able to leave it.
fn topic_name(topic: &[u8]) -> Result<&str, RecordError> {
    let refused = || RecordError::Topic(String::from_utf8_lossy(topic).into_owned());
    let name = std::str::from_utf8(topic).map_err(|_not_text| refused())?;
    let usable = !name.is_empty()
        && name.len() <= 255
        && name != "."
        && name != ".."
        && !name.contains(['/', '\\', '\0']);
    if usable { Ok(name) } else { Err(refused()) }
}
