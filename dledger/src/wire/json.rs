//! Reading and writing the JSON bodies.

use protocol::json::{self, Style};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, de::DeserializeOwned};

use super::WireError;

/// Bodies beyond this are read as strict JSON only. Java writes nothing else; the lenient reader
/// keeps every value of the text in memory.
const LENIENT_BYTES: usize = 1 << 20;

/// Reads a body: strict JSON first, then, for short ones, all that fastjson would read. Unknown
/// fields are passed over, absent ones get Java's default.
///
/// # Errors
/// Neither can read it.
pub fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, WireError> {
    let strict = match serde_json::from_slice(body) {
        Ok(value) => return Ok(value),
        Err(error) => WireError::Json(error.to_string()),
    };
    if body.len() > LENIENT_BYTES {
        return Err(strict);
    }
    json::from_slice(body).map_err(|_no_better| strict)
}

/// Writes a body as fastjson does: no blanks, absent fields left out.
#[must_use]
pub fn write<T: Serialize>(value: &T) -> Vec<u8> {
    json::to_vec(value, Style::Bare)
}

/// Java's default of a `long` that says "none".
pub(super) fn none() -> i64 {
    -1
}

/// Java's default of `RequestOrResponse.code`.
pub(super) fn success() -> i32 {
    200
}

/// `byte[]` as fastjson writes it: standard base64 with padding.
pub(super) mod base64_bytes {
    use super::{Deserializer, Serializer, de};
    use base64::{Engine, engine::general_purpose::STANDARD};
    use bytes::Bytes;

    pub(in super::super) fn serialize<S: Serializer>(
        bytes: &Bytes,
        writer: S,
    ) -> Result<S::Ok, S::Error> {
        writer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        reader: D,
    ) -> Result<Bytes, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = Bytes;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("base64")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
                STANDARD.decode(text).map(Bytes::from).map_err(E::custom)
            }
        }
        reader.deserialize_str(Text)
    }
}

/// A `byte[]` in a list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Base64(#[serde(with = "base64_bytes")] pub bytes::Bytes);
