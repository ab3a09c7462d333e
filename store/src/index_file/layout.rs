//! Bytes of an index file.

use bytes::BufMut;

/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = 40;
/// Bytes of a slot.
pub(crate) const SLOT_BYTES: u64 = 4;
/// Bytes of an entry.
pub(crate) const ENTRY_BYTES: usize = 20;

/// The header.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct IndexHeader {
    pub(crate) begin_timestamp: u64,
    pub(crate) end_timestamp: u64,
    pub(crate) begin_physical: u64,
    pub(crate) end_physical: u64,
    pub(crate) slots_used: u32,
    /// Number of the next entry.
    pub(crate) count: u32,
}

/// Slots and entries of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) slots: u32,
    pub(crate) entries: u32,
}

/// One key of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) hash: u32,
    pub(crate) physical: u64,
    pub(crate) store_timestamp: u64,
}

/// An entry as it lies in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) hash: u32,
    pub(crate) physical: u64,
    pub(crate) seconds: u32,
    pub(crate) previous: u32,
}

impl IndexHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut out = bytes.as_mut_slice();
        out.put_u64(self.begin_timestamp);
        out.put_u64(self.end_timestamp);
        out.put_u64(self.begin_physical);
        out.put_u64(self.end_physical);
        out.put_u32(self.slots_used);
        out.put_u32(self.count);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let long = |at| Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        Some(Self {
            begin_timestamp: long(0)?,
            end_timestamp: long(8)?,
            begin_physical: long(16)?,
            end_physical: long(24)?,
            slots_used: number(bytes, 32)?,
            count: number(bytes, 36)?,
        })
    }
}

impl Shape {
    /// Bytes of a whole file.
    pub(crate) fn file_bytes(self) -> u64 {
        self.entry_at(self.entries)
    }

    pub(crate) fn slot_of(self, hash: u32) -> u32 {
        hash % self.slots.max(1)
    }

    pub(crate) fn slot_at(slot: u32) -> u64 {
        HEADER_BYTES as u64 + u64::from(slot) * SLOT_BYTES
    }

    pub(crate) fn entry_at(self, number: u32) -> u64 {
        Self::slot_at(self.slots) + u64::from(number) * ENTRY_BYTES as u64
    }
}

impl Entry {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.hash);
        out.put_u64(self.physical);
        out.put_u32(self.seconds);
        out.put_u32(self.previous);
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            hash: number(bytes, 0)?,
            physical: u64::from_be_bytes(bytes.get(4..12)?.try_into().ok()?),
            seconds: number(bytes, 12)?,
            previous: number(bytes, 16)?,
        })
    }
}

pub(super) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
