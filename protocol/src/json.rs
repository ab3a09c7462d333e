//! JSON as fastjson reads and writes it (`RemotingSerializable.java`).
//!
//! Java's bodies are not always JSON: maps keyed by numbers have bare keys (`{0:"a"}`), maps keyed
//! by objects have objects as keys (`{{"topic":"T"}:1}`). fastjson also reads single quotes, bare
//! names, stray commas and numbers as texts, and clients count on it.

mod de;
mod parse;
mod reference;
mod ser;

use serde::{Serialize, de::DeserializeOwned};

pub use self::parse::parse;

/// A parsed value. Keys of objects are values themselves, because Java has maps keyed by objects.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number without fraction that fits into Java's long.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// A text.
    Text(String),
    /// An array.
    Array(Vec<Self>),
    /// An object: keys and values in the order in which they were read.
    Object(Vec<(Self, Self)>),
}

/// Why a text cannot be read.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum JsonError {
    /// Not even fastjson reads it.
    #[error("at byte {at}: expected {expected}")]
    Syntax {
        /// Where, in bytes from the start.
        at: usize,
        /// What would have been right.
        expected: &'static str,
    },
    /// Nested too deeply.
    #[error("nested deeper than {0} levels")]
    Depth(usize),
    /// Too many values.
    #[error("more than {0} values")]
    Size(usize),
    /// A value does not have the type that its field needs.
    #[error("{0}")]
    Type(String),
}

/// How maps with numbers as keys are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// As fastjson does by default: `{0:"a"}`.
    #[default]
    Bare,
    /// As the name server does for clients that ask for standard JSON: `{"0":"a"}`, and nothing
    /// beyond ASCII.
    Standard,
}

/// Reads a value of a type, with fastjson's coercions: texts as numbers and back, `"true"` as true,
/// null as absent, unknown fields ignored, references resolved.
///
/// # Errors
/// The text cannot be read, or a value cannot be coerced.
pub fn from_slice<T: DeserializeOwned>(text: &[u8]) -> Result<T, JsonError> {
    let mut value = parse(text)?;
    reference::resolve(&mut value);
    T::deserialize(&value)
}

/// Writes a value; absent fields are omitted.
pub fn to_vec<T: Serialize + ?Sized>(value: &T, style: Style) -> Vec<u8> {
    ser::to_vec(value, style)
}

impl Value {
    /// The value of a key of an object; the last one, if it is repeated.
    pub fn get(&self, name: &str) -> Option<&Self> {
        let Self::Object(entries) = self else {
            return None;
        };
        entries
            .iter()
            .rfind(|(key, _)| matches!(key, Self::Text(text) if text == name))
            .map(|entry| &entry.1)
    }

    /// As text: also of a number or a boolean.
    pub fn to_text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Bool(value) => Some(value.to_string()),
            Self::Int(number) => Some(number.to_string()),
            Self::Float(number) => Some(format!("{number:?}")),
            Self::Null | Self::Array(_) | Self::Object(_) => None,
        }
    }

    /// As a long: also of a text with digits, or of a whole number with a point.
    pub fn to_i64(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Bool(value) => Some((*value).into()),
            Self::Text(text) => text.trim().parse().ok(),
            Self::Float(number) => whole(*number),
            Self::Null | Self::Array(_) | Self::Object(_) => None,
        }
    }

    /// As a double: also of a text.
    pub fn to_f64(&self) -> Option<f64> {
        match self {
            Self::Float(number) => Some(*number),
            Self::Text(text) => text.trim().parse().ok(),
            #[expect(clippy::cast_precision_loss, reason = "as Java widens a long")]
            other => other.to_i64().map(|number| number as f64),
        }
    }

    /// As a boolean: also of 0, 1 and a text.
    pub fn to_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            Self::Int(number) => Some(*number == 1),
            Self::Text(text) => match text.trim() {
                "1" => Some(true),
                "0" | "" => Some(false),
                text if text.eq_ignore_ascii_case("true") => Some(true),
                text if text.eq_ignore_ascii_case("false") => Some(false),
                _ => None,
            },
            Self::Null | Self::Float(_) | Self::Array(_) | Self::Object(_) => None,
        }
    }

    /// The elements of an array.
    pub fn elements(&self) -> Option<&[Self]> {
        match self {
            Self::Array(elements) => Some(elements),
            _ => None,
        }
    }

    /// The entries of an object.
    pub fn entries(&self) -> Option<&[(Self, Self)]> {
        match self {
            Self::Object(entries) => Some(entries),
            _ => None,
        }
    }
}

/// A double without fraction as a long, within the range where doubles count every whole number.
fn whole(number: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "the range was checked")]
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}

#[cfg(test)]
mod tests;
