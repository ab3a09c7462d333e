//! The JSON header form.

use std::{borrow::Cow, fmt};

use bytes::{BufMut, Bytes, BytesMut};
use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, MapAccess, SeqAccess, Visitor, value},
};

use super::{FIELD_LIMIT, FrameError};
use crate::{Command, ExtFields, HeaderEncoding, Language, json};

/// Reads a header. Unknown keys are skipped, of a repeated key the last value counts, and numbers,
/// booleans and nulls are taken where texts belong, as fastjson does.
///
/// What is not JSON in the strict sense is tried once more as fastjson would read it, which also
/// replaces bytes that are not UTF-8.
pub(super) fn decode(header: &[u8]) -> Result<Command, FrameError> {
    let broken = match strict(header) {
        Ok(command) => return Ok(command),
        Err(broken) => FrameError::Json(broken.to_string()),
    };
    let lenient = json::parse(header).map_err(|_no_better| broken.clone())?;
    lenient.deserialize_map(HeaderVisitor).map_err(|_no_better| broken)
}

fn strict(header: &[u8]) -> serde_json::Result<Command> {
    // Checked once as a whole: a reader of bytes would check each of some thirty texts.
    let text = std::str::from_utf8(header).map_err(de::Error::custom)?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let command = reader.deserialize_map(HeaderVisitor)?;
    reader.end()?;
    Ok(command)
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Command;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a header object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Command, A::Error> {
        let mut command = Command::request(0);
        command.version = 0;
        command.encoding = HeaderEncoding::Json;
        command.body = Bytes::new();
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match key.0.as_deref().unwrap_or_default() {
                "code" => command.code = map.next_value::<Number>()?.0,
                "flag" => command.flag = map.next_value::<Number>()?.0,
                "opaque" => command.opaque = map.next_value::<Number>()?.0,
                "version" => command.version = map.next_value::<Number>()?.0,
                "language" => {
                    let name = map.next_value::<Text<'de>>()?.0;
                    command.language = Language::from_name(name.as_deref().unwrap_or_default());
                }
                "remark" => command.remark = map.next_value::<Text<'de>>()?.0.map(Cow::into_owned),
                "extFields" => command.ext_fields = map.next_value::<Fields>()?.0,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(command)
    }
}

/// The object of extension fields, or null.
struct Fields(Option<ExtFields>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_any(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of texts")
    }

    fn visit_unit<E>(self) -> Result<Fields, E> {
        Ok(Fields(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = ExtFields::with_capacity(512);
        let mut count = 0;
        while let Some(name) = map.next_key::<Text<'de>>()? {
            count += 1;
            if count > FIELD_LIMIT {
                return Err(de::Error::custom(FrameError::TooManyFields));
            }
            if let Some(name) = &name.0 {
                map.next_value_seed(Scalar(PushedTo { fields: &mut fields, name }))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Fields(Some(fields)))
    }
}

/// What becomes of a value that is taken as text.
trait Taken<'de> {
    type As;

    /// A text that lies in the header as it is.
    fn borrowed(self, text: &'de str) -> Self::As;

    /// A text that was made from what lies there.
    fn made(self, text: &str) -> Self::As;

    /// No text.
    fn null(self) -> Self::As;
}

/// Any scalar as text; an object or array is its JSON text.
struct Scalar<T>(T);

impl<'de, T: Taken<'de>> de::DeserializeSeed<'de> for Scalar<T> {
    type Value = T::As;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<T::As, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de, T: Taken<'de>> Visitor<'de> for Scalar<T> {
    type Value = T::As;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<T::As, E> {
        Ok(self.0.borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<T::As, E> {
        Ok(self.0.made(text))
    }

    fn visit_bool<E>(self, value: bool) -> Result<T::As, E> {
        Ok(self.0.borrowed(if value { "true" } else { "false" }))
    }

    fn visit_i64<E>(self, value: i64) -> Result<T::As, E> {
        Ok(self.0.made(&value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<T::As, E> {
        Ok(self.0.made(&value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<T::As, E> {
        Ok(self.0.made(&value.to_string()))
    }

    fn visit_unit<E>(self) -> Result<T::As, E> {
        Ok(self.0.null())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<T::As, A::Error> {
        let json = serde_json::Value::deserialize(value::SeqAccessDeserializer::new(seq))?;
        Ok(self.0.made(&json.to_string()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T::As, A::Error> {
        let json = serde_json::Value::deserialize(value::MapAccessDeserializer::new(map))?;
        Ok(self.0.made(&json.to_string()))
    }
}

/// The text itself; null is `None`.
struct Text<'de>(Option<Cow<'de, str>>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_any(Scalar(Kept))
    }
}

/// Kept as a [`Text`].
struct Kept;

impl<'de> Taken<'de> for Kept {
    type As = Text<'de>;

    fn borrowed(self, text: &'de str) -> Text<'de> {
        Text(Some(Cow::Borrowed(text)))
    }

    fn made(self, text: &str) -> Text<'de> {
        Text(Some(Cow::Owned(text.to_owned())))
    }

    fn null(self) -> Text<'de> {
        Text(None)
    }
}

/// Put at the end of fields, from where it was read; null is no field.
struct PushedTo<'a> {
    fields: &'a mut ExtFields,
    name: &'a str,
}

impl<'de> Taken<'de> for PushedTo<'_> {
    type As = ();

    fn borrowed(self, text: &'de str) {
        self.made(text);
    }

    fn made(self, text: &str) {
        self.fields.push(self.name, text);
    }

    fn null(self) {}
}

/// An int32, also as decimal text; null is 0.
struct Number(i32);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a 32-bit number")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
        let number = text.parse().map(Number);
        number.map_err(|_no_number| E::invalid_value(de::Unexpected::Str(text), &self))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Number, E> {
        let number = i32::try_from(value).map(Number);
        number.map_err(|_too_large| E::invalid_value(de::Unexpected::Signed(value), &self))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Number, E> {
        let number = i32::try_from(value).map(Number);
        number.map_err(|_too_large| E::invalid_value(de::Unexpected::Unsigned(value), &self))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Number, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_unit<E>(self) -> Result<Number, E> {
        Ok(Number(0))
    }
}

/// Appends the header, keys in fastjson's (alphabetical) order.
pub(super) fn encode(command: &Command, out: &mut BytesMut) {
    out.put_slice(b"{\"code\":");
    put_number(command.code, out);
    if let Some(fields) = &command.ext_fields {
        out.put_slice(b",\"extFields\":{");
        for (index, (name, value)) in fields.iter().enumerate() {
            if index > 0 {
                out.put_u8(b',');
            }
            put_text(name, out);
            out.put_u8(b':');
            put_text(value, out);
        }
        out.put_u8(b'}');
    }
    out.put_slice(b",\"flag\":");
    put_number(command.flag, out);
    out.put_slice(b",\"language\":\"");
    out.put_slice(command.language.name().as_bytes());
    out.put_slice(b"\",\"opaque\":");
    put_number(command.opaque, out);
    if let Some(remark) = &command.remark {
        out.put_slice(b",\"remark\":");
        put_text(remark, out);
    }
    out.put_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
    put_number(command.version, out);
    out.put_u8(b'}');
}

fn put_number(number: i32, out: &mut BytesMut) {
    use fmt::Write;
    // A BytesMut grows as needed: writing into it cannot fail.
    if write!(out, "{number}").is_err() {
        out.put_u8(b'0');
    }
}

/// Appends a quoted JSON string.
pub(crate) fn put_text(text: &str, out: &mut impl BufMut) {
    out.put_u8(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|&byte| byte < 0x20 || matches!(byte, b'"' | b'\\')) {
        let (plain, tail) = rest.split_at(at);
        out.put_slice(plain);
        let Some((&byte, tail)) = tail.split_first() else {
            break;
        };
        put_escape(byte, out);
        rest = tail;
    }
    out.put_slice(rest);
    out.put_u8(b'"');
}

fn put_escape(byte: u8, out: &mut impl BufMut) {
    const HEX: [u8; 16] = *b"0123456789ABCDEF";
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x09 => b't',
        0x0A => b'n',
        0x0C => b'f',
        0x0D => b'r',
        _ => {
            out.put_slice(b"\\u00");
            for digit in [byte >> 4, byte & 0xF] {
                out.put_u8(HEX.get(usize::from(digit)).copied().unwrap_or(b'0'));
            }
            return;
        }
    };
    out.put_slice(&[b'\\', short]);
}
