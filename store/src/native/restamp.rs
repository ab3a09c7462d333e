//! Giving a record another place.

use protocol::message::record::at;

/// Bytes of the property that holds a checksum over the record (Java `enabledAppendPropCRC`):
/// name, separator, ten digits, separator.
const CHECKSUM_BYTES: usize = 20;
/// How it begins.
const CHECKSUM_NAME: &[u8] = b"__CRC32#\x01";

/// Writes a physical offset and, where one is given, a queue offset into a record, and makes its
/// checksum over all fields good again where it carries one. All else stays as it is.
///
/// The checksum is the CRC-32 of all bytes before it, without the sign bit, as decimal digits with
/// the least significant first (Java `MessageExtEncoder`, `UtilAll`). A record that is too short is
/// left alone.
pub fn restamp(record: &mut [u8], queue_offset: Option<u64>, physical: u64) {
    if let Some(field) = record.get_mut(at::PHYSICAL_OFFSET..at::PHYSICAL_OFFSET + 8) {
        field.copy_from_slice(&physical.to_be_bytes());
    }
    if let Some(offset) = queue_offset
        && let Some(field) = record.get_mut(at::QUEUE_OFFSET..at::QUEUE_OFFSET + 8)
    {
        field.copy_from_slice(&offset.to_be_bytes());
    }
    let Some(from) = record.len().checked_sub(CHECKSUM_BYTES) else { return };
    let (covered, property) = record.split_at_mut(from);
    if property.starts_with(CHECKSUM_NAME) && property.last() == Some(&2) {
        let mut crc = crc32fast::hash(covered) & 0x7fff_ffff;
        for digit in property.iter_mut().skip(CHECKSUM_NAME.len()).take(10) {
            *digit = b'0' + u8::try_from(crc % 10).unwrap_or(0);
            crc /= 10;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_over_the_record_is_made_good() {
        // Digits of 1070940950, the least significant first (spec: store-dledger.md 2.5).
        let mut record = vec![0; 100];
        record.extend_from_slice(b"__CRC32#\x010000000000\x02");
        restamp(&mut record, Some(7), 4096);
        let crc = crc32fast::hash(&record[..100]) & 0x7fff_ffff;
        let digits: String = crc.to_string().chars().rev().collect();
        assert_eq!(&record[109..119], format!("{digits:0<10}").as_bytes());
        assert_eq!(record[at::QUEUE_OFFSET + 7], 7);
        let mut plain = vec![9; 120];
        restamp(&mut plain, None, 1);
        assert_eq!(&plain[100..], [9; 20], "no checksum is made up");
        assert_eq!(plain[at::QUEUE_OFFSET], 9);
    }
}
