//! The body of a batch send (`MessageDecoder.encodeMessage`).
//!
//! ```text
//! { int32 size | int32 0 | int32 0 | int32 flag | int32 length, body | int16 length, properties }*
//! ```

use std::borrow::Cow;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::properties::MAX_LENGTH;

/// One message of a batch; topic and queue are those of the request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BatchMessage {
    /// Application flag.
    pub flag: i32,
    /// Body.
    pub body: Bytes,
    /// Properties in their text form.
    pub properties: String,
}

/// Why a batch body cannot be read or written.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum BatchError {
    /// A field does not fit into the body.
    #[error("batch message {index}: field `{field}` exceeds the body")]
    Truncated {
        /// Which message, from 0.
        index: usize,
        /// Which field.
        field: &'static str,
    },
    /// A text is too long for its length field.
    #[error("batch message {index}: {length} bytes of `{field}` are more than can be sent")]
    TooLong {
        /// Which message, from 0.
        index: usize,
        /// Which field.
        field: &'static str,
        /// Its length in bytes.
        length: usize,
    },
}

/// Reads a batch body. The bodies share its memory. Java does not look at the record sizes and
/// checksums in it, nor do we.
///
/// # Errors
/// A field does not fit into the body.
pub fn decode(body: &Bytes) -> Result<Vec<BatchMessage>, BatchError> {
    let mut rest = body.clone();
    let mut messages = Vec::new();
    while !rest.is_empty() {
        let message = decode_one(&mut rest)
            .map_err(|field| BatchError::Truncated { index: messages.len(), field })?;
        messages.push(message);
    }
    Ok(messages)
}

/// Reads one message, or names the field that is cut.
fn decode_one(rest: &mut Bytes) -> Result<BatchMessage, &'static str> {
    rest.try_get_i32().map_err(|_short| "size")?;
    rest.try_get_i32().map_err(|_short| "magic")?;
    rest.try_get_i32().map_err(|_short| "bodyCRC")?;
    let flag = rest.try_get_i32().map_err(|_short| "flag")?;
    let length = rest.try_get_i32().map_err(|_short| "body")?;
    let body = take(rest, length).ok_or("body")?;
    let length = rest.try_get_i16().map_err(|_short| "properties")?;
    let properties = take(rest, length.into()).ok_or("properties")?;
    let properties = match String::from_utf8_lossy(&properties) {
        Cow::Borrowed(text) => text.to_owned(),
        Cow::Owned(text) => text,
    };
    Ok(BatchMessage { flag, body, properties })
}

fn take(rest: &mut Bytes, length: i32) -> Option<Bytes> {
    let length = usize::try_from(length).ok()?;
    (length <= rest.len()).then(|| rest.split_to(length))
}

/// Appends a batch body.
///
/// # Errors
/// Properties or a body are longer than their length fields can say; nothing was appended for that
/// message and those behind it.
pub fn encode(messages: &[BatchMessage], out: &mut BytesMut) -> Result<(), BatchError> {
    for (index, message) in messages.iter().enumerate() {
        let too_long = |field, length| BatchError::TooLong { index, field, length };
        let properties = message.properties.len();
        let properties_length = u16::try_from(properties)
            .ok()
            .filter(|_| properties <= MAX_LENGTH)
            .ok_or_else(|| too_long("properties", properties))?;
        let body = message.body.len();
        let size = i32::try_from(22 + body + properties).ok();
        let (Some(size), Ok(body_length)) = (size, i32::try_from(body)) else {
            return Err(too_long("body", body));
        };
        out.put_i32(size);
        out.put_i32(0);
        out.put_i32(0);
        out.put_i32(message.flag);
        out.put_i32(body_length);
        out.put_slice(&message.body);
        out.put_u16(properties_length);
        out.put_slice(message.properties.as_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(body: &'static str, properties: &str) -> BatchMessage {
        BatchMessage { flag: 7, body: body.into(), properties: properties.into() }
    }

    #[test]
    fn a_batch_round_trips() {
        let messages = [message("one", "KEYS\u{1}k\u{2}"), message("", "")];
        let mut out = BytesMut::new();
        encode(&messages, &mut out).unwrap();
        assert_eq!(out.len(), 22 + 3 + 7 + 22);
        assert_eq!(&out[..4], [0, 0, 0, 32]);
        assert_eq!(decode(&out.freeze()).unwrap(), messages);
        assert_eq!(decode(&Bytes::new()).unwrap(), []);
    }

    #[test]
    fn every_cut_is_noticed() {
        let mut out = BytesMut::new();
        encode(&[message("one", "p")], &mut out).unwrap();
        let whole = out.freeze();
        for length in 1..whole.len() {
            let error = decode(&whole.slice(..length)).unwrap_err();
            assert!(matches!(error, BatchError::Truncated { index: 0, .. }), "{length}: {error}");
        }
    }

    #[test]
    fn long_properties_are_refused() {
        let messages = [message("", &"p".repeat(MAX_LENGTH + 1))];
        let error = encode(&messages, &mut BytesMut::new());
        let expected =
            BatchError::TooLong { index: 0, field: "properties", length: MAX_LENGTH + 1 };
        assert_eq!(error, Err(expected));
    }
}
