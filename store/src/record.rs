//! The fields of a message record that the store works with, read in place.

use std::borrow::Cow;

use protocol::message::{
    record::{self, RecordView, at},
    sys_flag,
};

/// One record that may enter the queues.
#[derive(Debug, Clone)]
pub(crate) struct Record<'a> {
    pub(crate) total_size: u32,
    pub(crate) queue_id: u32,
    pub(crate) queue_offset: u64,
    pub(crate) physical: u64,
    pub(crate) store_timestamp: u64,
    pub(crate) topic: &'a str,
    view: RecordView<'a>,
}

/// Why bytes cannot enter the queues.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RecordError {
    #[error(transparent)]
    Malformed(#[from] record::RecordError),
    #[error("record of {declared} bytes lies in an entry of {length}")]
    Size { length: usize, declared: usize },
    #[error("record has queue id {0}")]
    QueueId(i32),
    #[error("record has topic {0:?}, which cannot name a directory")]
    Topic(String),
}

impl<'a> Record<'a> {
    /// Reads `bytes`, which hold exactly one record.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, RecordError> {
        let view = RecordView::parse(bytes)?;
        if view.total_size() != bytes.len() {
            return Err(RecordError::Size { length: bytes.len(), declared: view.total_size() });
        }
        let queue_id = u32::try_from(view.queue_id())
            .map_err(|_negative| RecordError::QueueId(view.queue_id()))?;
        let topic = view.topic();
        if !names_directory(topic) {
            return Err(RecordError::Topic(topic.to_owned()));
        }
        Ok(Self {
            total_size: u32::try_from(view.total_size()).unwrap_or(u32::MAX),
            queue_id,
            queue_offset: view.queue_offset().cast_unsigned(),
            physical: view.physical_offset().cast_unsigned(),
            store_timestamp: u64::try_from(view.store_timestamp()).unwrap_or(0),
            topic,
            view,
        })
    }

    /// Prepared and rollback messages have no place in a consume queue.
    pub(crate) fn is_queued(&self) -> bool {
        let kind = sys_flag::transaction_type(self.view.sys_flag());
        kind != sys_flag::TRANSACTION_PREPARED && kind != sys_flag::TRANSACTION_ROLLBACK
    }

    /// Rollback messages are in no index.
    pub(crate) fn is_indexed(&self) -> bool {
        let kind = sys_flag::transaction_type(self.view.sys_flag());
        kind != sys_flag::TRANSACTION_ROLLBACK
    }

    /// Its content.
    pub(crate) fn body(&self) -> &'a [u8] {
        self.view.body()
    }

    /// Length in bytes of its properties, which end the record.
    pub(crate) fn properties_len(&self) -> usize {
        self.view.properties_bytes().len()
    }

    /// Properties in their text form.
    pub(crate) fn properties(&self) -> Cow<'a, str> {
        self.view.properties()
    }
}

/// Store timestamp of a record of the log, in milliseconds.
pub(crate) fn store_timestamp(record: &[u8]) -> Option<u64> {
    let flag = record.get(at::SYS_FLAG..at::SYS_FLAG + 4)?.try_into().ok()?;
    u64_at(record, at::store_timestamp(i32::from_be_bytes(flag)))
}

/// Queue offset that a record of the log says it has.
pub(crate) fn queue_offset(record: &[u8]) -> Option<u64> {
    u64_at(record, at::QUEUE_OFFSET)
}

/// Physical offset that a record of the log says it has.
pub(crate) fn physical_offset(record: &[u8]) -> Option<u64> {
    u64_at(record, at::PHYSICAL_OFFSET)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// A topic becomes the name of a directory, so a foreign log must not be able to leave it.
pub(crate) fn names_directory(topic: &str) -> bool {
    !topic.is_empty()
        && topic.len() <= 255
        && topic != "."
        && topic != ".."
        && !topic.contains(['/', '\\', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_log::test_record;

    #[test]
    fn a_record_that_could_leave_the_store_is_refused() {
        for topic in ["..", "a/b", "."] {
            let record = test_record(topic, 0, b"x", "");
            assert!(matches!(Record::read(&record), Err(RecordError::Topic(_))), "{topic}");
        }
        let record = test_record("T", u32::MAX, b"x", "");
        assert_eq!(Record::read(&record).unwrap_err(), RecordError::QueueId(-1));
        let mut long = test_record("T", 0, b"x", "").to_vec();
        long.push(0);
        assert!(matches!(Record::read(&long), Err(RecordError::Size { .. })));
    }
}
