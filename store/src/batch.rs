//! Building a batch of records with room for the log's headers.

use bytes::{BufMut, BytesMut};
use protocol::message::record::{MessageRecord, RecordError, encode};

use crate::append_log::{Batch, HEADROOM};

/// Collects the finished records of one request.
#[derive(Debug, Default)]
pub struct BatchBuilder {
    buffer: BytesMut,
    lengths: Vec<u32>,
}

impl BatchBuilder {
    /// A builder without room reserved.
    pub fn new() -> Self {
        Self::default()
    }

    /// A builder with room for `records` records of `bytes` bytes in all.
    pub fn with_capacity(records: usize, bytes: usize) -> Self {
        Self {
            buffer: BytesMut::with_capacity(bytes + records * HEADROOM),
            lengths: Vec::with_capacity(records),
        }
    }

    /// Adds one record: `write` appends its bytes, and nothing else, to the buffer.
    pub fn push(&mut self, write: impl FnOnce(&mut BytesMut)) -> &mut Self {
        self.buffer.put_bytes(0, HEADROOM);
        let start = self.buffer.len();
        write(&mut self.buffer);
        let length = self.buffer.len().saturating_sub(start);
        self.lengths.push(u32::try_from(length).unwrap_or(u32::MAX));
        self
    }

    /// Adds one record by encoding it. A record that is refused leaves the builder as it was.
    pub fn push_record(&mut self, record: &MessageRecord) -> Result<(), RecordError> {
        let before = self.buffer.len();
        self.buffer.put_bytes(0, HEADROOM);
        match encode(record, &mut self.buffer) {
            Ok(length) => {
                self.lengths.push(u32::try_from(length).unwrap_or(u32::MAX));
                Ok(())
            }
            Err(error) => {
                self.buffer.truncate(before);
                Err(error)
            }
        }
    }

    /// Adds one finished record by copying it.
    pub fn push_bytes(&mut self, record: &[u8]) -> &mut Self {
        self.push(|buffer| buffer.put_slice(record))
    }

    /// Number of records so far.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// True before the first record. An empty batch must not be submitted.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// The batch, with what its completion gives back.
    pub fn finish<T>(self, token: T) -> Batch<T> {
        Batch { buffer: self.buffer, lengths: self.lengths, token }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headroom_and_record_alternate() {
        let mut builder = BatchBuilder::new();
        builder.push(|buffer| buffer.put_slice(b"one")).push_bytes(b"three");
        let batch = builder.finish(7);
        assert_eq!(batch.lengths, [3, 5]);
        assert_eq!(batch.buffer.len(), 2 * HEADROOM + 8);
        assert_eq!(&batch.buffer[HEADROOM..HEADROOM + 3], b"one");
        assert_eq!(&batch.buffer[2 * HEADROOM + 3..], b"three");
        assert_eq!(batch.token, 7);
    }
}
