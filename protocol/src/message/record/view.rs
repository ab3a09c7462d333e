//! Reading records in place.

use std::{
    borrow::Cow,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    ops::Range,
};

use bytes::Bytes;

use super::{MAGIC_V1, MAGIC_V2, MessageRecord, RecordError, at, body_crc};
use crate::message::{properties, sys_flag};

/// A checked record whose fields are read where they lie.
#[derive(Debug, Clone)]
pub struct RecordView<'a> {
    /// The record, exactly.
    bytes: &'a [u8],
    topic: &'a str,
    body: Range<usize>,
    properties: Range<usize>,
    store_timestamp: usize,
    reconsume_times: usize,
}

/// The records of a body that holds them back to back. After an error nothing follows.
pub fn records(bytes: &[u8]) -> impl Iterator<Item = Result<RecordView<'_>, RecordError>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let view = RecordView::parse(rest);
        rest = view.as_ref().ok().and_then(|view| rest.get(view.bytes.len()..)).unwrap_or_default();
        Some(view)
    })
}

impl<'a> RecordView<'a> {
    /// Checks the record at the front of `bytes`; what follows it is not looked at.
    ///
    /// # Errors
    /// The bytes do not begin with a whole, consistent record. The checksum of the body is not
    /// computed, see [`RecordView::crc_matches`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, RecordError> {
        let size = i32_at(bytes, at::TOTAL_SIZE).ok_or(RecordError::Truncated("totalSize"))?;
        let magic = i32_at(bytes, at::MAGIC).ok_or(RecordError::Truncated("magic"))?;
        if magic != MAGIC_V1 && magic != MAGIC_V2 {
            return Err(RecordError::Magic(magic));
        }
        let total = usize::try_from(size).map_err(|_negative| RecordError::Size(size))?;
        if total < super::FIXED {
            return Err(RecordError::Size(size));
        }
        let bytes = bytes.get(..total).ok_or(RecordError::Truncated("totalSize"))?;
        let flag = i32_at(bytes, at::SYS_FLAG).ok_or(RecordError::Truncated("sysFlag"))?;
        let store_timestamp = at::store_timestamp(flag);
        let store_host = if flag & sys_flag::STORE_HOST_V6 == 0 { 8 } else { 20 };
        let reconsume_times = store_timestamp + 8 + store_host;
        let body = field(bytes, reconsume_times + 12, 4, "body")?;
        let topic_width = if magic == MAGIC_V1 { 1 } else { 2 };
        let topic = field(bytes, body.end, topic_width, "topic")?;
        let properties = field(bytes, topic.end, 2, "properties")?;
        if properties.end != total {
            return Err(RecordError::Mismatch { total, fields: properties.end });
        }
        let topic = std::str::from_utf8(bytes.get(topic).unwrap_or_default())
            .map_err(|_not_utf8| RecordError::Text("topic"))?;
        Ok(Self { bytes, topic, body, properties, store_timestamp, reconsume_times })
    }

    /// The record's bytes, exactly.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Length of the record in bytes.
    pub fn total_size(&self) -> usize {
        self.bytes.len()
    }

    /// Mark of the version.
    pub fn magic(&self) -> i32 {
        self.i32(at::MAGIC)
    }

    /// Checksum of the body as stored.
    pub fn body_crc(&self) -> i32 {
        self.i32(at::BODY_CRC)
    }

    /// Queue.
    pub fn queue_id(&self) -> i32 {
        self.i32(at::QUEUE_ID)
    }

    /// Application flag.
    pub fn flag(&self) -> i32 {
        self.i32(at::FLAG)
    }

    /// Offset in the queue.
    pub fn queue_offset(&self) -> i64 {
        self.i64(at::QUEUE_OFFSET)
    }

    /// Offset in the commit log.
    pub fn physical_offset(&self) -> i64 {
        self.i64(at::PHYSICAL_OFFSET)
    }

    /// Flags of [`sys_flag`].
    pub fn sys_flag(&self) -> i32 {
        self.i32(at::SYS_FLAG)
    }

    /// When the producer made it, in milliseconds.
    pub fn born_timestamp(&self) -> i64 {
        self.i64(at::BORN_TIMESTAMP)
    }

    /// Who made it. A port beyond 65535, which no sender has, reads as 0.
    pub fn born_host(&self) -> SocketAddr {
        self.host(at::BORN_HOST, self.store_timestamp)
    }

    /// When it was stored, in milliseconds.
    pub fn store_timestamp(&self) -> i64 {
        self.i64(self.store_timestamp)
    }

    /// Which broker stored it. A port beyond 65535, which no broker has, reads as 0.
    pub fn store_host(&self) -> SocketAddr {
        self.host(self.store_timestamp + 8, self.reconsume_times)
    }

    /// How often it was given back.
    pub fn reconsume_times(&self) -> i32 {
        self.i32(self.reconsume_times)
    }

    /// Commit-log offset of the half message that a commit belongs to, else 0.
    pub fn prepared_transaction_offset(&self) -> i64 {
        self.i64(self.reconsume_times + 4)
    }

    /// Body as stored.
    pub fn body(&self) -> &'a [u8] {
        self.bytes.get(self.body.clone()).unwrap_or_default()
    }

    /// Topic.
    pub fn topic(&self) -> &'a str {
        self.topic
    }

    /// Properties in their text form, as stored.
    pub fn properties_bytes(&self) -> &'a [u8] {
        self.bytes.get(self.properties.clone()).unwrap_or_default()
    }

    /// Properties in their text form. A batch may have brought bytes that are not UTF-8; they are
    /// replaced, as in Java.
    pub fn properties(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.properties_bytes())
    }

    /// The value of one property.
    pub fn property(&self, name: &str) -> Option<Cow<'a, str>> {
        match self.properties() {
            Cow::Borrowed(text) => properties::find(text, name).map(Cow::Borrowed),
            Cow::Owned(text) => {
                properties::find(&text, name).map(|value| Cow::Owned(value.to_owned()))
            }
        }
    }

    /// Whether the body has the checksum that was stored with it.
    pub fn crc_matches(&self) -> bool {
        body_crc(self.body()) == self.body_crc()
    }

    /// A copy that owns its fields.
    pub fn to_record(&self) -> MessageRecord {
        MessageRecord {
            queue_id: self.queue_id(),
            flag: self.flag(),
            queue_offset: self.queue_offset(),
            physical_offset: self.physical_offset(),
            sys_flag: self.sys_flag(),
            born_timestamp: self.born_timestamp(),
            born_host: self.born_host(),
            store_timestamp: self.store_timestamp(),
            store_host: self.store_host(),
            reconsume_times: self.reconsume_times(),
            prepared_transaction_offset: self.prepared_transaction_offset(),
            body: Bytes::copy_from_slice(self.body()),
            topic: self.topic.to_owned(),
            properties: self.properties().into_owned(),
        }
    }

    /// [`RecordView::parse`] made sure that the fixed fields are there.
    fn i32(&self, at: usize) -> i32 {
        i32_at(self.bytes, at).unwrap_or_default()
    }

    fn i64(&self, at: usize) -> i64 {
        array_at(self.bytes, at).map_or(0, i64::from_be_bytes)
    }

    fn host(&self, start: usize, end: usize) -> SocketAddr {
        let port = u16::try_from(self.i32(end - 4)).unwrap_or(0);
        let ip = if end - start == 8 {
            IpAddr::V4(Ipv4Addr::from(array_at(self.bytes, start).unwrap_or([0; 4])))
        } else {
            IpAddr::V6(Ipv6Addr::from(array_at(self.bytes, start).unwrap_or([0; 16])))
        };
        SocketAddr::new(ip, port)
    }
}

/// The range of a field with a length of `width` bytes at `at`. Java reads these lengths as signed
/// numbers, so that one with its highest bit set is none.
fn field(
    bytes: &[u8],
    at: usize,
    width: usize,
    name: &'static str,
) -> Result<Range<usize>, RecordError> {
    let start = at + width;
    let digits = bytes.get(at..start).ok_or(RecordError::Truncated(name))?;
    if digits.first().is_some_and(|first| first & 0x80 != 0) {
        return Err(RecordError::Truncated(name));
    }
    let length = digits.iter().fold(0usize, |length, &byte| length << 8 | usize::from(byte));
    let end = start + length;
    if end > bytes.len() {
        return Err(RecordError::Truncated(name));
    }
    Ok(start..end)
}

pub(super) fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    array_at(bytes, at).map(i32::from_be_bytes)
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}
