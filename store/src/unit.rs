//! One unit of a consume queue: 20 bytes (Java `ConsumeQueue`).

/// Bytes of a unit on disk.
pub const UNIT_BYTES: u64 = 20;

/// Where one message of a queue lies in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    /// Offset of the message in its queue.
    pub offset: u64,
    /// Physical offset of its record.
    pub physical: u64,
    /// Bytes of its record.
    pub size: u32,
    /// Hash of its tag; in the schedule topic and that of timers the time in milliseconds at which it
    /// is due.
    pub tags_code: i64,
}

/// Size that marks a unit without a message (Java `ConsumeQueue.fillPreBlank`).
const BLANK_SIZE: u32 = 0x7fff_ffff;

impl Unit {
    /// A unit without a message: it fills the space before the first message of a queue.
    pub(crate) const fn blank(offset: u64) -> Self {
        Self { offset, physical: 0, size: BLANK_SIZE, tags_code: 0 }
    }

    /// True where there is no message to read.
    pub fn is_blank(&self) -> bool {
        self.size == BLANK_SIZE
    }

    /// Physical offset behind the record.
    pub fn end(&self) -> u64 {
        self.physical.saturating_add(u64::from(self.size))
    }

    /// The unit as it lies on disk.
    pub(crate) fn encode(&self) -> [u8; UNIT_BYTES as usize] {
        let mut bytes = [0; UNIT_BYTES as usize];
        bytes[..8].copy_from_slice(&self.physical.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.size.to_be_bytes());
        bytes[12..].copy_from_slice(&self.tags_code.to_be_bytes());
        bytes
    }

    /// Reads the unit of `offset`; zeros and negative sizes are none.
    pub(crate) fn decode(offset: u64, bytes: &[u8]) -> Option<Self> {
        let physical = u64::from_be_bytes(bytes.get(..8)?.try_into().ok()?);
        let size = u32::from_be_bytes(bytes.get(8..12)?.try_into().ok()?);
        let tags_code = i64::from_be_bytes(bytes.get(12..20)?.try_into().ok()?);
        let sound = physical <= i64::MAX as u64 && size > 0 && size <= BLANK_SIZE;
        sound.then_some(Self { offset, physical, size, tags_code })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_java() {
        let unit = Unit { offset: 0, physical: 48, size: 279, tags_code: 2_598_919 };
        let bytes = unit.encode();
        assert_eq!(
            bytes,
            [0, 0, 0, 0, 0, 0, 0, 0x30, 0, 0, 1, 0x17, 0, 0, 0, 0, 0, 0x27, 0xa8, 0x07]
        );
        assert_eq!(Unit::decode(0, &bytes), Some(unit));
        assert_eq!(Unit::decode(0, &[0; 20]), None);
        assert!(Unit::decode(3, &Unit::blank(3).encode()).unwrap().is_blank());
    }
}
