//! The entry header and its checksums (Java: `DLedgerEntry`, `DLedgerEntryCoder`).

use crc32fast::Hasher;

use crate::{ENTRY_HEADER, index_log::UNIT};

/// Magic of an entry.
const ENTRY_MAGIC: i32 = 1;
/// Magic of the padding that fills a file up (Java: `MmapFileList.BLANK_MAGIC_CODE`).
const PADDING_MAGIC: i32 = -1;
/// Bytes that must stay free behind every entry, for the padding's magic and length
/// (Java: `MmapFileList.MIN_BLANK_LEN`).
pub(crate) const PADDING_MIN: u64 = 8;
/// The largest index whose unit has a place in the index files, which Java numbers by a signed long.
const INDEX_MAX: u64 = i64::MAX as u64 / UNIT as u64 - 1;
/// Java's terms are signed.
const TERM_MAX: u64 = i64::MAX as u64;
/// Header bytes that the chain covers: all in front of `chainCrc`.
const CHAINED: usize = 36;

/// The header of an entry, without the fields that follow from others: magic is 1, channel is 0,
/// bodySize is size - 48.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// Bytes of header and body.
    pub(crate) size: u32,
    pub(crate) index: u64,
    pub(crate) term: u64,
    /// Position of the header in the log.
    pub(crate) position: u64,
    /// 0 where the writer was Java.
    pub(crate) chain_crc: u32,
    /// 0 where the writer was Java.
    pub(crate) body_crc: u32,
}

/// What 48 bytes at an entry boundary turn out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// An entry whose fixed fields agree with each other; its body has not been looked at.
    Entry(Header),
    /// The rest of the file is padding.
    Padding,
    /// Nothing was written here.
    Nothing,
    /// None of these.
    Bad(&'static str),
}

/// What the chain of an entry is tied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Previous {
    /// The log begins with this entry.
    Start,
    /// The entry before carries this chain.
    Chain(u32),
    /// The entry before carries none (Java wrote it).
    Entry {
        /// Its index.
        index: u64,
        /// Its term.
        term: u64,
        /// Its position.
        position: u64,
    },
}

impl Previous {
    /// What the entry behind `header` is tied to.
    pub(crate) fn of(header: &Header) -> Self {
        match header.chain_crc {
            0 => Self::Entry { index: header.index, term: header.term, position: header.position },
            chain => Self::Chain(chain),
        }
    }
}

impl Header {
    /// Bytes of the body.
    pub(crate) fn body_length(&self) -> u32 {
        self.size.saturating_sub(ENTRY_HEADER as u32)
    }

    /// Position behind the entry.
    pub(crate) fn end(&self) -> u64 {
        self.position + u64::from(self.size)
    }

    pub(crate) fn encode(&self) -> [u8; ENTRY_HEADER] {
        let mut bytes = [0; ENTRY_HEADER];
        bytes[0..4].copy_from_slice(&ENTRY_MAGIC.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.size.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.index.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.term.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.position.to_be_bytes());
        bytes[36..40].copy_from_slice(&self.chain_crc.to_be_bytes());
        bytes[40..44].copy_from_slice(&self.body_crc.to_be_bytes());
        bytes[44..48].copy_from_slice(&self.body_length().to_be_bytes());
        bytes
    }

    /// The chain that this header must carry behind `previous`.
    pub(crate) fn chain_behind(&self, previous: Previous) -> u32 {
        let mut hasher = Hasher::new();
        hasher.update(&self.encode()[..CHAINED]);
        hasher.update(&self.body_crc.to_be_bytes());
        match previous {
            Previous::Start => hasher.update(&[0xff; 24]),
            Previous::Chain(chain) => hasher.update(&chain.to_be_bytes()),
            Previous::Entry { index, term, position } => {
                hasher.update(&index.to_be_bytes());
                hasher.update(&term.to_be_bytes());
                hasher.update(&position.to_be_bytes());
            }
        }
        never_zero(hasher.finalize())
    }
}

/// The checksum that the header of an entry with this body carries.
pub(crate) fn body_crc(body: &[u8]) -> u32 {
    never_zero(crc32fast::hash(body))
}

/// 0 means that there is no checksum.
fn never_zero(crc: u32) -> u32 {
    crc.max(1)
}

/// Tells what lies at `position`. `bytes` may be shorter than a header at the end of a file.
pub(crate) fn look(bytes: &[u8], position: u64) -> Found {
    let (Some(magic), Some(size)) = (be_u32(bytes, 0), be_u32(bytes, 4)) else {
        return Found::Bad("the file ends here");
    };
    match magic.cast_signed() {
        ENTRY_MAGIC => {}
        PADDING_MAGIC => return Found::Padding,
        0 if size == 0 => return Found::Nothing,
        _ => return Found::Bad("its magic is none"),
    }
    let field = |at| be_u64(bytes, at);
    let (Some(index), Some(term), Some(at)) = (field(8), field(16), field(24)) else {
        return Found::Bad("its header is cut");
    };
    if index > INDEX_MAX || term > TERM_MAX {
        return Found::Bad("its index or term is none that a log can have");
    }
    let (Some(channel), Some(chain_crc)) = (be_u32(bytes, 32), be_u32(bytes, 36)) else {
        return Found::Bad("its header is cut");
    };
    let (Some(body_crc), Some(body_size)) = (be_u32(bytes, 40), be_u32(bytes, 44)) else {
        return Found::Bad("its header is cut");
    };
    let header = Header { size, index, term, position: at, chain_crc, body_crc };
    if size <= ENTRY_HEADER as u32 || body_size != header.body_length() {
        Found::Bad("its two sizes do not agree")
    } else if at != position {
        Found::Bad("its position is another")
    } else if channel != 0 {
        Found::Bad("its channel is not 0")
    } else {
        Found::Entry(header)
    }
}

/// Fills `room` with the padding of the rest of a file; it is as long as that rest.
pub(crate) fn pad(room: &mut [u8]) {
    let length = room.len() as u32;
    room.fill(0);
    if let Some(head) = room.get_mut(..8) {
        head[..4].copy_from_slice(&PADDING_MAGIC.to_be_bytes());
        head[4..].copy_from_slice(&length.to_be_bytes());
    }
}

/// The four bytes at `at`, big-endian.
pub(crate) fn be_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The eight bytes at `at`, big-endian.
pub(crate) fn be_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE_0: &[u8] = include_bytes!("../tests/data/dledger-data-file0-head.bin");
    const FILE_0_TAIL: &[u8] = include_bytes!("../tests/data/dledger-data-file0-tail-blank.bin");
    const FILE_1: &[u8] = include_bytes!("../tests/data/dledger-data-file1-head.bin");

    #[test]
    fn headers_that_java_wrote_are_read_and_written_alike() {
        let mut at = 0;
        let mut index = 0;
        while let Some(bytes) = FILE_0.get(at..at + ENTRY_HEADER) {
            let Found::Entry(header) = look(bytes, at as u64) else { panic!("no entry at {at}") };
            assert_eq!((header.index, header.chain_crc, header.body_crc), (index, 0, 0));
            assert_eq!(header.encode(), bytes);
            at += header.size as usize;
            index += 1;
        }
        assert!(index > 20, "only {index} entries");
    }

    #[test]
    fn the_second_file_goes_on_with_position_and_index() {
        let Found::Entry(header) = look(FILE_1, 1_048_576) else { panic!("no entry") };
        assert_eq!((header.index, header.term, header.size), (346, 4, 4004));
        assert_eq!(look(FILE_1, 0), Found::Bad("its position is another"));
    }

    #[test]
    fn padding_is_as_java_writes_it() {
        let at = FILE_0_TAIL.len() - 1885;
        assert_eq!(look(&FILE_0_TAIL[at..], 1_046_691), Found::Padding);
        let mut room = vec![9; 1885];
        pad(&mut room);
        assert_eq!(room, &FILE_0_TAIL[at..]);
    }

    #[test]
    fn every_bit_of_a_header_is_covered() {
        let mut header = Header {
            size: 60,
            index: 7,
            term: 3,
            position: 480,
            chain_crc: 0,
            body_crc: body_crc(b"twelve bytes"),
        };
        let previous = Previous::Entry { index: 6, term: 3, position: 400 };
        header.chain_crc = header.chain_behind(previous);
        let bytes = header.encode();
        for bit in 0..ENTRY_HEADER * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            let sound = match look(&damaged, 480) {
                Found::Entry(read) => {
                    read.chain_crc == read.chain_behind(previous)
                        && read.body_crc == body_crc(b"twelve bytes")
                }
                Found::Padding | Found::Nothing | Found::Bad(_) => false,
            };
            assert!(!sound, "bit {bit} is not covered");
        }
        assert_ne!(header.chain_behind(Previous::Start), header.chain_crc);
        assert_ne!(header.chain_behind(Previous::Chain(5)), header.chain_crc);
    }
}
