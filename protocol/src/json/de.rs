//! Reading typed values out of parsed ones, with fastjson's coercions (`TypeUtils.java`).

use std::fmt;

use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
    value::{MapDeserializer, SeqDeserializer},
};

use super::{JsonError, Value, parse};

impl de::Error for JsonError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Type(message.to_string())
    }
}

impl Value {
    fn mismatch(&self, expected: &str) -> JsonError {
        let text = match self {
            Self::Array(_) => "an array".to_owned(),
            Self::Object(_) => "an object".to_owned(),
            Self::Null => "null".to_owned(),
            other => format!("{:?}", other.to_text().unwrap_or_default()),
        };
        let text: String = text.chars().take(80).collect();
        JsonError::Type(format!("{text} is not {expected}"))
    }

    /// The entries of an object without those that are null, which stand for absent ones.
    fn present(&self) -> impl Iterator<Item = (&Self, &Self)> {
        self.entries()
            .unwrap_or_default()
            .iter()
            .filter(|entry| entry.1 != Self::Null)
            .map(|(key, value)| (key, value))
    }
}

/// Numbers of any width come by way of the long.
macro_rules! integers {
    ($($method:ident)*) => {
        $(
            fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
                let number = self.to_i64().ok_or_else(|| self.mismatch("a whole number"))?;
                visitor.visit_i64(number)
            }
        )*
    };
}

impl<'de> Deserializer<'de> for &'de Value {
    type Error = JsonError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Int(number) => visitor.visit_i64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::Array(_) => self.deserialize_seq(visitor),
            Value::Object(_) => self.deserialize_map(visitor),
        }
    }

    integers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_bool(self.to_bool().ok_or_else(|| self.mismatch("true or false"))?)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_f64(self.to_f64().ok_or_else(|| self.mismatch("a number"))?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self {
            Value::Text(text) => visitor.visit_borrowed_str(text),
            other => visitor.visit_string(other.to_text().ok_or_else(|| self.mismatch("a text"))?),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    /// Elements that are null are left out; null itself is an empty list.
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        let elements = match self {
            Value::Null => &[],
            other => other.elements().ok_or_else(|| self.mismatch("an array"))?,
        };
        let elements = elements.iter().filter(|&element| *element != Value::Null);
        visitor.visit_seq(SeqDeserializer::new(elements))
    }

    /// An object; null is an empty one. A text may hold an object: so a key in strict JSON.
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self {
            Value::Object(_) | Value::Null => {
                visitor.visit_map(MapDeserializer::new(self.present()))
            }
            Value::Text(text) if text.starts_with('{') => {
                let inner = parse(text.as_bytes())?;
                visitor.visit_map(Owned { entries: inner.into_entries(), value: None })
            }
            _ => Err(self.mismatch("an object")),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        self.deserialize_map(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        // An unknown key of whatever kind has to end up among the ignored ones.
        match self {
            Value::Text(text) => visitor.visit_borrowed_str(text),
            _ => visitor.visit_borrowed_str(""),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        i128 u128 char bytes byte_buf unit unit_struct tuple tuple_struct enum
    }
}

impl<'de> IntoDeserializer<'de, JsonError> for &'de Value {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl Value {
    fn into_entries(self) -> std::vec::IntoIter<(Self, Self)> {
        match self {
            Self::Object(entries) => entries.into_iter(),
            _ => Vec::new().into_iter(),
        }
    }
}

/// Entries of an object that was read out of a text, and so cannot be borrowed from.
struct Owned {
    entries: std::vec::IntoIter<(Value, Value)>,
    value: Option<Value>,
}

/// What borrows from nothing is read as an owned value; both seeds of an entry do.
fn owned<'de, S: DeserializeSeed<'de>>(seed: S, value: Value) -> Result<S::Value, JsonError> {
    match value {
        Value::Text(text) => seed.deserialize(text.into_deserializer()),
        Value::Int(number) => seed.deserialize(number.into_deserializer()),
        Value::Bool(flag) => seed.deserialize(flag.into_deserializer()),
        other => Err(other.mismatch("a plain value")),
    }
}

impl<'de> MapAccess<'de> for Owned {
    type Error = JsonError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, JsonError> {
        let Some((key, value)) = self.entries.next() else {
            return Ok(None);
        };
        self.value = Some(value);
        owned(seed, key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, JsonError> {
        owned(seed, self.value.take().unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_any(ValueVisitor)
    }
}

/// Takes any value as it is.
struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Int(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = seq.next_element()? {
            elements.push(element);
        }
        Ok(Value::Array(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Value::Object(entries))
    }
}
