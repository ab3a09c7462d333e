//! Frames: length, header, body (`NettyDecoder.java`, `RemotingCommand.java`).
//!
//! ```text
//! | int32 length of all that follows | int8 header type, int24 header length | header | body |
//! ```

mod binary;
mod json;

pub(crate) use self::json::put_text;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::{Command, HeaderEncoding, code, command::flag};

/// Java's default limit on a whole frame, its length field included.
pub const DEFAULT_LIMIT: usize = 16 * 1024 * 1024;

/// Longest header that is read, in bytes. Java's longest are those of sends, whose properties have
/// at most 32 KiB; escaped as JSON they have six times as much.
pub const HEADER_LIMIT: usize = 1 << 20;

/// Most extension fields that are read. Java's largest headers have some thirty.
pub const FIELD_LIMIT: usize = 512;

/// Why a frame cannot be read. The connection is beyond repair: it has to be closed.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum FrameError {
    /// The declared length is negative, or too short for the header length field.
    #[error("frame length {0} is not a frame: the peer does not speak the remoting protocol")]
    Length(i32),
    /// The frame is larger than the limit.
    #[error("frame of {length} bytes exceeds the limit of {limit}: raise the limit or send less")]
    TooLarge {
        /// Length of the whole frame in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The header type is not known.
    #[error("header type {0} is unknown: 0 (JSON) and 1 (ROCKETMQ) are")]
    HeaderType(u8),
    /// The header is longer than its frame.
    #[error("header of {header} bytes exceeds its frame of {frame} bytes")]
    HeaderLength {
        /// Declared header length in bytes.
        header: usize,
        /// Bytes of the frame after the header length field.
        frame: usize,
    },
    /// The header is longer than any sound one.
    #[error(
        "header of {0} bytes exceeds the limit of {HEADER_LIMIT}: put large values into the body"
    )]
    HeaderTooLarge(usize),
    /// The header has more fields than any sound one.
    #[error("header has more than {FIELD_LIMIT} fields")]
    TooManyFields,
    /// The JSON header cannot be read.
    #[error("JSON header: {0}")]
    Json(String),
    /// A field of the binary header does not fit into it.
    #[error("binary header: field `{0}` exceeds the header")]
    Binary(&'static str),
}

/// Takes one frame from the front of `buffer`, or `None` until it is complete.
///
/// `limit` bounds the whole frame. Nothing is reserved for a declared length: the buffer grows with
/// what arrives. The body shares the memory of `buffer`.
///
/// # Errors
/// The bytes are no frame, or one beyond the limit; close the connection.
pub fn decode(buffer: &mut BytesMut, limit: usize) -> Result<Option<Command>, FrameError> {
    let Some((length, encoding, header_length)) = peek(buffer, limit)? else {
        return Ok(None);
    };
    if buffer.len() < 4 + length {
        return Ok(None);
    }
    let mut frame = buffer.split_to(4 + length).freeze();
    frame.advance(8);
    let header = frame.split_to(header_length);
    decode_header(encoding, &header, frame).map(Some)
}

/// Reads a header that was taken out of its frame, and joins it with the body.
fn decode_header(
    encoding: HeaderEncoding,
    header: &[u8],
    body: Bytes,
) -> Result<Command, FrameError> {
    let mut command = match encoding {
        HeaderEncoding::Json => json::decode(header)?,
        HeaderEncoding::RocketMq => binary::decode(header)?,
    };
    command.body = body;
    Ok(command)
}

/// Length of the frame after its length field, header type and header length; checked.
fn peek(
    buffer: &BytesMut,
    limit: usize,
) -> Result<Option<(usize, HeaderEncoding, usize)>, FrameError> {
    let mut start = buffer.as_ref();
    let Ok(declared) = start.try_get_i32() else {
        return Ok(None);
    };
    let length = usize::try_from(declared).map_err(|_negative| FrameError::Length(declared))?;
    if length < 4 {
        return Err(FrameError::Length(declared));
    }
    if length + 4 > limit {
        return Err(FrameError::TooLarge { length: length + 4, limit });
    }
    let Ok(word) = start.try_get_u32() else {
        return Ok(None);
    };
    let [kind, a, b, c] = word.to_be_bytes();
    let encoding = match kind {
        0 => HeaderEncoding::Json,
        1 => HeaderEncoding::RocketMq,
        other => return Err(FrameError::HeaderType(other)),
    };
    let header = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
    if header > length - 4 {
        return Err(FrameError::HeaderLength { header, frame: length - 4 });
    }
    if header > HEADER_LIMIT {
        return Err(FrameError::HeaderTooLarge(header));
    }
    Ok(Some((length, encoding, header)))
}

/// Appends the whole frame, body included.
pub fn encode(command: &Command, out: &mut BytesMut) {
    encode_head(command, out);
    out.extend_from_slice(&command.body);
}

/// Appends everything of the frame but the body, which the caller sends behind it.
///
/// A command that the binary form cannot carry (code or version beyond int16, a field name beyond
/// 32767 bytes) goes out as JSON, which every receiver tells by the type byte.
pub fn encode_head(command: &Command, out: &mut BytesMut) {
    let start = out.len();
    out.reserve(256);
    out.put_u64(0);
    let encoding = encode_header(command, out);
    if out.len() - start - 8 > HEADER_LIMIT {
        // Not every receiver could read it; say so instead of sending a broken stream.
        out.truncate(start);
        return encode_head(&too_large(command), out);
    }
    let header_length = out.len() - start - 8;
    let total = u32::try_from(4 + header_length + command.body.len()).unwrap_or(u32::MAX);
    let kind = match encoding {
        HeaderEncoding::Json => 0,
        HeaderEncoding::RocketMq => 1 << 24,
    };
    let word = kind | u32::try_from(header_length).unwrap_or(0);
    if let Some(mut head) = out.get_mut(start..start + 8) {
        head.put_u32(total);
        head.put_u32(word);
    }
}

/// Writes the header and tells in which form.
fn encode_header(command: &Command, out: &mut BytesMut) -> HeaderEncoding {
    if command.encoding == HeaderEncoding::RocketMq && binary::fits(command) {
        binary::encode(command, out);
        HeaderEncoding::RocketMq
    } else {
        json::encode(command, out);
        HeaderEncoding::Json
    }
}

/// What is sent in place of a header beyond 24 bits of length.
fn too_large(command: &Command) -> Command {
    let code = match command.flag & flag::RESPONSE {
        0 => command.code,
        _ => code::response::SYSTEM_ERROR,
    };
    Command {
        code,
        remark: Some(format!("header exceeds {HEADER_LIMIT} bytes")),
        ext_fields: None,
        ..command.clone()
    }
}

#[cfg(test)]
mod tests;
