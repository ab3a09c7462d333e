//! Writing typed values in fastjson's dialect.

use std::fmt;

use serde::ser::{
    self, Impossible, Serialize, SerializeMap, SerializeSeq, SerializeStruct, Serializer,
};

use super::{Style, Value};
use crate::frame::put_text;

/// A type that cannot be written: none of ours is.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unwritable(String);

impl ser::Error for Unwritable {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

pub(super) fn to_vec<T: Serialize + ?Sized>(value: &T, style: Style) -> Vec<u8> {
    let mut writer = Writer { out: Vec::with_capacity(128), style, absent: false, key: false };
    let written = value.serialize(&mut writer);
    debug_assert!(written.is_ok(), "{written:?}");
    writer.out
}

struct Writer {
    out: Vec<u8>,
    style: Style,
    /// The value written last was none: its field is taken back.
    absent: bool,
    /// A key is being written.
    key: bool,
}

impl Writer {
    fn plain(&mut self, text: impl fmt::Display) -> Result<(), Unwritable> {
        let quote = self.key && self.style == Style::Standard;
        let text = text.to_string();
        if quote {
            self.out.push(b'"');
        }
        self.out.extend_from_slice(text.as_bytes());
        if quote {
            self.out.push(b'"');
        }
        Ok(())
    }

    fn text(&mut self, text: &str) {
        if self.style == Style::Bare || text.is_ascii() {
            put_text(text, &mut self.out);
            return;
        }
        let mut quoted = Vec::with_capacity(text.len() + 2);
        put_text(text, &mut quoted);
        for unit in String::from_utf8_lossy(&quoted).encode_utf16() {
            match u8::try_from(unit) {
                Ok(byte) if byte.is_ascii() => self.out.push(byte),
                _ => self.out.extend_from_slice(format!("\\u{unit:04X}").as_bytes()),
            }
        }
    }

    fn open(&mut self, bracket: u8) {
        // Only the whole key is written as one; what is inside an object that is a key is not.
        self.key = false;
        self.out.push(bracket);
    }

    /// A comma, unless behind the opening bracket.
    fn separate(&mut self) {
        if !matches!(self.out.last(), Some(b'{' | b'[')) {
            self.out.push(b',');
        }
    }
}

/// Numbers are written as Rust does, which Java reads.
macro_rules! numbers {
    ($($method:ident: $type:ty)*) => {
        $(
            fn $method(self, value: $type) -> Result<(), Unwritable> {
                self.plain(value)
            }
        )*
    };
}

impl<'a> Serializer for &'a mut Writer {
    type Ok = ();
    type Error = Unwritable;
    type SerializeSeq = Open<'a>;
    type SerializeTuple = Impossible<(), Unwritable>;
    type SerializeTupleStruct = Impossible<(), Unwritable>;
    type SerializeTupleVariant = Impossible<(), Unwritable>;
    type SerializeMap = Open<'a>;
    type SerializeStruct = Open<'a>;
    type SerializeStructVariant = Impossible<(), Unwritable>;

    numbers! {
        serialize_bool: bool serialize_i8: i8 serialize_i16: i16 serialize_i32: i32
        serialize_i64: i64 serialize_u8: u8 serialize_u16: u16 serialize_u32: u32
        serialize_u64: u64
    }

    fn serialize_f32(self, value: f32) -> Result<(), Unwritable> {
        self.serialize_f64(value.into())
    }

    /// With a point always, as Java; what is no number is 0.0, since clients parse a double.
    fn serialize_f64(self, value: f64) -> Result<(), Unwritable> {
        let value = if value.is_finite() { value } else { 0.0 };
        self.plain(format_args!("{value:?}"))
    }

    fn serialize_char(self, value: char) -> Result<(), Unwritable> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), Unwritable> {
        self.text(value);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Unwritable> {
        self.text(&String::from_utf8_lossy(value));
        Ok(())
    }

    fn serialize_none(self) -> Result<(), Unwritable> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Unwritable> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Unwritable> {
        self.out.extend_from_slice(b"null");
        self.absent = true;
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Unwritable> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), Unwritable> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<(), Unwritable> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        _index: u32,
        _variant: &'static str,
        _value: &T,
    ) -> Result<(), Unwritable> {
        Err(ser::Error::custom(format_args!("{name}: Java has no such enum")))
    }

    fn serialize_seq(self, _length: Option<usize>) -> Result<Open<'a>, Unwritable> {
        self.open(b'[');
        Ok(Open { writer: self, close: b']', undo: 0 })
    }

    fn serialize_tuple(self, _length: usize) -> Result<Self::SerializeTuple, Unwritable> {
        Err(ser::Error::custom("Java has no tuples"))
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeTupleStruct, Unwritable> {
        Err(ser::Error::custom(format_args!("{name}: Java has no tuples")))
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        _index: u32,
        _variant: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeTupleVariant, Unwritable> {
        Err(ser::Error::custom(format_args!("{name}: Java has no tuples")))
    }

    fn serialize_map(self, _length: Option<usize>) -> Result<Open<'a>, Unwritable> {
        self.open(b'{');
        Ok(Open { writer: self, close: b'}', undo: 0 })
    }

    fn serialize_struct(self, _name: &'static str, _length: usize) -> Result<Open<'a>, Unwritable> {
        self.serialize_map(None)
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _index: u32,
        _variant: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeStructVariant, Unwritable> {
        Err(ser::Error::custom(format_args!("{name}: Java has no such enum")))
    }
}

/// An array or object that is being written.
struct Open<'a> {
    writer: &'a mut Writer,
    close: u8,
    /// Length of the text before the entry that is being written.
    undo: usize,
}

impl Open<'_> {
    fn close(self) -> Result<(), Unwritable> {
        self.writer.out.push(self.close);
        self.writer.absent = false;
        Ok(())
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unwritable> {
        value.serialize(&mut *self.writer)?;
        if std::mem::take(&mut self.writer.absent) {
            self.writer.out.truncate(self.undo);
        }
        Ok(())
    }

    fn key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Unwritable> {
        self.undo = self.writer.out.len();
        self.writer.separate();
        self.writer.key = true;
        key.serialize(&mut *self.writer)?;
        self.writer.key = false;
        self.writer.out.push(b':');
        Ok(())
    }
}

impl SerializeSeq for Open<'_> {
    type Ok = ();
    type Error = Unwritable;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unwritable> {
        self.undo = self.writer.out.len();
        self.writer.separate();
        self.value(value)
    }

    fn end(self) -> Result<(), Unwritable> {
        self.close()
    }
}

impl SerializeMap for Open<'_> {
    type Ok = ();
    type Error = Unwritable;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Unwritable> {
        self.key(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unwritable> {
        self.value(value)
    }

    fn end(self) -> Result<(), Unwritable> {
        self.close()
    }
}

impl SerializeStruct for Open<'_> {
    type Ok = ();
    type Error = Unwritable;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Unwritable> {
        self.key(name)?;
        self.value(value)
    }

    fn end(self) -> Result<(), Unwritable> {
        self.close()
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, writer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => writer.serialize_unit(),
            Self::Bool(value) => writer.serialize_bool(*value),
            Self::Int(number) => writer.serialize_i64(*number),
            Self::Float(number) => writer.serialize_f64(*number),
            Self::Text(text) => writer.serialize_str(text),
            Self::Array(elements) => writer.collect_seq(elements),
            Self::Object(entries) => writer.collect_map(entries.iter().map(|(k, v)| (k, v))),
        }
    }
}
