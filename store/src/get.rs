//! Reading a queue (Java `DefaultMessageStore.getMessage`).

use bytes::{Bytes, BytesMut};
use protocol::message::record::at;

use crate::{
    append_log::ReadError,
    options::PullLimits,
    record,
    unit::{UNIT_BYTES, Unit},
};

/// Tells of a record whether its message is wanted.
pub type ContentFilter<'a> = dyn Fn(&[u8]) -> bool + 'a;

/// What to read of a queue.
#[derive(Clone, Copy)]
pub struct GetRequest<'a> {
    /// Topic of the queue.
    pub topic: &'a str,
    /// Id of the queue.
    pub queue_id: u32,
    /// Offset of the first message, as the client sent it.
    pub offset: i64,
    /// Messages at most; 0 counts as 1.
    pub max_messages: u32,
    /// Bytes at most; the first message is returned whatever its size.
    pub max_bytes: usize,
    /// Whether a message with this tag hash is wanted.
    pub filter: &'a dyn Fn(i64) -> bool,
    /// Whether a message is wanted whose tag hash is, by its record; `None` where the hash decides.
    pub content: Option<&'a ContentFilter<'a>>,
}

impl std::fmt::Debug for GetRequest<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("GetRequest")
            .field("topic", &self.topic)
            .field("queue_id", &self.queue_id)
            .field("offset", &self.offset)
            .field("max_messages", &self.max_messages)
            .finish_non_exhaustive()
    }
}

/// What came of reading a queue (Java `GetMessageStatus`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GetStatus {
    /// At least one message.
    Found,
    /// Messages were scanned and the filter wanted none of them.
    NoMatchedMessage,
    /// The messages there are being removed.
    MessageWasRemoving,
    /// The units there cannot be read.
    OffsetFoundNull,
    /// Beyond the next offset.
    OffsetOverflowBadly,
    /// At the next offset: nothing is there yet.
    OffsetOverflowOne,
    /// Before the first offset.
    OffsetTooSmall,
    /// There is no such queue.
    NoMatchedLogicQueue,
    /// The queue never had a message.
    NoMessageInQueue,
}

impl GetStatus {
    /// Java's name, which is the remark of a pull response.
    pub const fn java_name(self) -> &'static str {
        match self {
            Self::Found => "FOUND",
            Self::NoMatchedMessage => "NO_MATCHED_MESSAGE",
            Self::MessageWasRemoving => "MESSAGE_WAS_REMOVING",
            Self::OffsetFoundNull => "OFFSET_FOUND_NULL",
            Self::OffsetOverflowBadly => "OFFSET_OVERFLOW_BADLY",
            Self::OffsetOverflowOne => "OFFSET_OVERFLOW_ONE",
            Self::OffsetTooSmall => "OFFSET_TOO_SMALL",
            Self::NoMatchedLogicQueue => "NO_MATCHED_LOGIC_QUEUE",
            Self::NoMessageInQueue => "NO_MESSAGE_IN_QUEUE",
        }
    }
}

/// Messages of a queue, or why there are none.
#[derive(Debug, Clone)]
pub struct GetResult {
    /// What came of it.
    pub status: GetStatus,
    /// The records, in order of their offsets.
    pub messages: Vec<Bytes>,
    /// Bytes of all records.
    pub total_bytes: usize,
    /// Where to read on.
    pub next_begin_offset: u64,
    /// First offset of the queue.
    pub min_offset: u64,
    /// Next offset of the queue.
    pub max_offset: u64,
    /// How far the last message that was looked at lies behind the log's end, in bytes.
    pub behind_bytes: u64,
}

/// Where units and records come from: memory alone, or the disk too.
pub(crate) trait Source {
    /// Consecutive units from `from` on. `None` ends the read: it would have to wait.
    fn units(&self, from: u64, max: usize) -> Option<Vec<Unit>>;
    /// The record of a unit. `None` ends the read: it would have to wait.
    fn record(&self, unit: &Unit) -> Option<Result<Bytes, ReadError>>;
}

/// State of a queue at the moment of reading.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) min: u64,
    pub(crate) max: u64,
    /// End of the committed log.
    pub(crate) log_end: u64,
    /// Distance from the log's end within which a message counts as in memory.
    pub(crate) in_memory_bytes: u64,
}

impl Window {
    /// The answer where the offset alone decides.
    pub(crate) fn without_reading(&self, offset: i64) -> Option<GetResult> {
        let at = u64::try_from(offset).ok();
        let (status, next) = match at {
            _ if self.max == 0 => (GetStatus::NoMessageInQueue, 0),
            Some(at) if at > self.max => (GetStatus::OffsetOverflowBadly, self.max),
            Some(at) if at == self.max => (GetStatus::OffsetOverflowOne, at),
            Some(at) if at >= self.min => return None,
            _ => (GetStatus::OffsetTooSmall, self.min),
        };
        Some(self.result(status, next))
    }

    /// The answer where there is no such queue.
    pub(crate) fn nothing(&self) -> GetResult {
        self.result(GetStatus::NoMessageInQueue, 0)
    }

    fn result(&self, status: GetStatus, next_begin_offset: u64) -> GetResult {
        GetResult {
            status,
            messages: Vec::new(),
            total_bytes: 0,
            next_begin_offset,
            min_offset: self.min,
            max_offset: self.max,
            behind_bytes: 0,
        }
    }

    /// Reads from `source`; `None` where not even the first wanted message can be had at once.
    pub(crate) fn read(
        &self,
        request: &GetRequest<'_>,
        limits: &PullLimits,
        source: &impl Source,
    ) -> Option<GetResult> {
        if let Some(answer) = self.without_reading(request.offset) {
            return Some(answer);
        }
        let begin = u64::try_from(request.offset).unwrap_or(0);
        let scan = limits.scan_bytes.max(u64::from(request.max_messages) * UNIT_BYTES) / UNIT_BYTES;
        let stop = begin.saturating_add(scan).min(self.max);
        let reading = Reading {
            window: self,
            limits,
            result: self.result(GetStatus::OffsetFoundNull, begin),
        };
        reading.scan(request, stop, source)
    }
}

/// One read under way.
struct Reading<'a> {
    window: &'a Window,
    limits: &'a PullLimits,
    result: GetResult,
}

/// Units fetched at once: enough for an unfiltered read.
const UNIT_CHUNK: usize = 64;

impl Reading<'_> {
    fn scan(
        mut self,
        request: &GetRequest<'_>,
        stop: u64,
        source: &impl Source,
    ) -> Option<GetResult> {
        let mut next = self.result.next_begin_offset;
        while next < stop {
            let room = usize::try_from(stop - next).unwrap_or(UNIT_CHUNK).min(UNIT_CHUNK);
            let Some(units) = source.units(next, room) else { return self.finish_early() };
            let Some(last) = units.last() else {
                // Passing over it would hide messages that the next start derives again.
                tracing::error!(
                    topic = request.topic,
                    queue = request.queue_id,
                    offset = next,
                    "unit of a consume queue is missing; it is derived again at the next start"
                );
                break;
            };
            let behind = last.offset + 1;
            for unit in &units {
                if self.is_full(unit, request) {
                    return Some(self.result);
                }
                if self.wants(unit, request) {
                    match source.record(unit) {
                        None => return self.finish_early(),
                        Some(record) => self.take(unit, record, request),
                    }
                }
                self.result.next_begin_offset = unit.offset + 1;
                self.result.behind_bytes = self.window.log_end.saturating_sub(unit.physical);
            }
            next = behind;
        }
        Some(self.result)
    }

    /// What was found so far, or nothing.
    fn finish_early(self) -> Option<GetResult> {
        (self.result.status == GetStatus::Found).then_some(self.result)
    }

    fn wants(&mut self, unit: &Unit, request: &GetRequest<'_>) -> bool {
        if !unit.is_blank() && (request.filter)(unit.tags_code) {
            return true;
        }
        self.pass_over();
        false
    }

    fn pass_over(&mut self) {
        if self.result.messages.is_empty() {
            self.result.status = GetStatus::NoMatchedMessage;
        }
    }

    fn take(&mut self, unit: &Unit, record: Result<Bytes, ReadError>, request: &GetRequest<'_>) {
        match record {
            Ok(record) if request.content.is_some_and(|wants| !wants(&record)) => self.pass_over(),
            Ok(record) => {
                self.result.total_bytes += record.len();
                self.result.messages.push(at_its_offset(record, unit.offset));
                self.result.status = GetStatus::Found;
            }
            Err(error) => {
                // Retention trims the log before it cuts the queues.
                if !matches!(error, ReadError::OutOfRange { min, .. } if unit.physical < min) {
                    tracing::warn!(offset = unit.offset, %error, "message of a queue cannot be read");
                }
                if self.result.messages.is_empty() {
                    self.result.status = GetStatus::MessageWasRemoving;
                }
            }
        }
    }

    /// Java `DefaultMessageStore.isTheBatchFull`.
    fn is_full(&self, unit: &Unit, request: &GetRequest<'_>) -> bool {
        let (count, bytes) = (self.result.messages.len(), self.result.total_bytes);
        if count == 0 {
            return false;
        }
        let window = self.window;
        let in_memory = window.log_end.saturating_sub(unit.physical) <= window.in_memory_bytes;
        let limits = self.limits;
        let (most, most_bytes) = if in_memory {
            (limits.memory_messages, limits.memory_bytes)
        } else {
            (limits.disk_messages, limits.disk_bytes)
        };
        let with = bytes + unit.size as usize;
        count >= request.max_messages as usize
            || count >= most
            || with > most_bytes
            || with > request.max_bytes
    }
}

/// The record as its queue has it. Only a log with the faults of a killed Java broker holds records
/// whose own offset differs from their unit's; clients key what they process by that offset.
pub(crate) fn at_its_offset(record: Bytes, offset: u64) -> Bytes {
    if record::queue_offset(&record) == Some(offset) {
        return record;
    }
    let mut patched = BytesMut::from(&record[..]);
    if let Some(field) = patched.get_mut(at::QUEUE_OFFSET..at::QUEUE_OFFSET + 8) {
        field.copy_from_slice(&offset.to_be_bytes());
    }
    patched.freeze()
}
