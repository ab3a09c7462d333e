//! Bodies that another client compressed.

use std::io::Read;

use flate2::read::ZlibDecoder;
use lz4_flex::frame::FrameDecoder;
use protocol::message::sys_flag::{self, Compression};
use ruzstd::decoding::StreamingDecoder;

/// Why a body could not be unpacked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnpackError {
    /// The bytes are not what the system flag says.
    #[error("body is marked as compressed and is not: {0}")]
    Malformed(String),
    /// It would be larger than the bound.
    #[error("body is larger than {limit} bytes when unpacked")]
    TooLarge {
        /// The bound in bytes.
        limit: usize,
    },
    /// The bits of the flag name no algorithm.
    #[error("body is compressed in an unknown way: bits {0:#x} of its system flag")]
    Unknown(i32),
}

/// Unpacks `body` if `sys_flag` says that it is compressed (`MessageSysFlag.java`,
/// `CompressionType.java`): `None` if it is not.
pub(crate) fn unpack(
    body: &[u8],
    flags: i32,
    limit: usize,
) -> Result<Option<Vec<u8>>, UnpackError> {
    if flags & sys_flag::COMPRESSED == 0 {
        return Ok(None);
    }
    match sys_flag::compression(flags) {
        Some(Compression::Zlib) => read(ZlibDecoder::new(body), limit),
        Some(Compression::Lz4) => read(FrameDecoder::new(body), limit),
        Some(Compression::Zstd) => match StreamingDecoder::new(body) {
            Ok(decoder) => read(decoder, limit),
            Err(error) => Err(UnpackError::Malformed(error.to_string())),
        },
        None => Err(UnpackError::Unknown(flags & sys_flag::COMPRESSION)),
    }
    .map(Some)
}

fn read(decoder: impl Read, limit: usize) -> Result<Vec<u8>, UnpackError> {
    let mut unpacked = Vec::new();
    // One byte more than the bound tells a body at the bound from one above it.
    decoder
        .take(limit as u64 + 1)
        .read_to_end(&mut unpacked)
        .map_err(|error| UnpackError::Malformed(error.to_string()))?;
    if unpacked.len() > limit {
        return Err(UnpackError::TooLarge { limit });
    }
    Ok(unpacked)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::ZlibEncoder};

    use super::*;

    fn zlib(plain: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(5));
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn zlib_is_unpacked_under_both_of_its_flags() {
        let plain = vec![7u8; 5000];
        let packed = zlib(&plain);
        for flags in [sys_flag::COMPRESSED, sys_flag::COMPRESSED | 0x300] {
            assert_eq!(unpack(&packed, flags, 5000).unwrap().unwrap(), plain);
        }
        assert_eq!(unpack(&packed, 0, 5000).unwrap(), None);
    }

    #[test]
    fn lz4_and_zstd_frames_are_unpacked() {
        let plain = vec![9u8; 5000];
        let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
        encoder.write_all(&plain).unwrap();
        let lz4 = encoder.finish().unwrap();
        let zstd = ruzstd::encoding::compress_to_vec(
            &plain[..],
            ruzstd::encoding::CompressionLevel::Fastest,
        );
        for (packed, bits) in [(lz4, 0x100), (zstd, 0x200)] {
            let flags = sys_flag::COMPRESSED | bits;
            assert_eq!(unpack(&packed, flags, 5000).unwrap().unwrap(), plain);
        }
    }

    #[test]
    fn a_bomb_and_a_lie_are_refused() {
        let bomb = zlib(&vec![0u8; 1 << 20]);
        assert_eq!(
            unpack(&bomb, sys_flag::COMPRESSED, 1000),
            Err(UnpackError::TooLarge { limit: 1000 })
        );
        let lie = unpack(b"plain text", sys_flag::COMPRESSED, 1000);
        assert!(matches!(lie, Err(UnpackError::Malformed(_))), "{lie:?}");
    }
}
