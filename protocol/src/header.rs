//! Typed headers: each request's and response's fields, defined once for both header encodings.
//!
//! A header is named as its Java class without the trailing `Header`, its fields as Java's in
//! snake case. A field that Java marks as required, and that is needed, is a plain type; a field
//! with a default in Java (a primitive, mostly) is a plain type that reads as this default when
//! absent; everything else is an `Option`.
//!
//! Fields beyond the listed ones ride along in [`ExtFields`] and are ignored here: those of
//! access control, namespaces and zones, and those of [`RpcRequest`].

mod admin;
mod client;
mod ha;
mod namesrv;
mod offset;
mod pop;
mod pull;
mod send;
mod transaction;

use crate::ExtFields;

pub use self::{
    admin::*, client::*, ha::*, namesrv::*, offset::*, pop::*, pull::*, send::*, transaction::*,
};

/// A typed header.
pub trait Header: Sized {
    /// Reads the header's fields; others are ignored.
    ///
    /// # Errors
    /// A required field is missing, or a value does not have the field's type.
    fn decode(fields: &ExtFields) -> Result<Self, HeaderError>;

    /// Sets the header's fields; absent ones are not written.
    fn encode(&self, fields: &mut ExtFields);
}

/// Why a typed header cannot be read.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum HeaderError {
    /// A required field is missing.
    #[error("header field `{0}` is missing: the request needs it")]
    Missing(&'static str),
    /// The value does not have the field's type.
    #[error("header field `{name}` is {value:?}, which is not {expected}")]
    Invalid {
        /// Name of the field.
        name: &'static str,
        /// What was received, cut after 64 characters.
        value: String,
        /// What would have been right.
        expected: &'static str,
    },
}

/// A type of header fields (`RemotingCommand.decodeCommandCustomHeader`).
pub(crate) trait Scalar: Sized {
    /// What the type is called in errors.
    const EXPECTED: &'static str;

    /// Whether an empty text means that the field is absent, as for numbers.
    const EMPTY_IS_ABSENT: bool = true;

    fn parse(text: &str) -> Option<Self>;

    /// Appends the value as text.
    fn put(&self, out: &mut String);
}

/// Appends a number. Writing to a `String` cannot fail.
fn put_shown(value: impl std::fmt::Display, out: &mut String) {
    use std::fmt::Write;
    if write!(out, "{value}").is_err() {
        debug_assert!(false, "a String takes every text");
    }
}

impl Scalar for String {
    const EXPECTED: &'static str = "a text";
    const EMPTY_IS_ABSENT: bool = false;

    fn parse(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }

    fn put(&self, out: &mut String) {
        out.push_str(self);
    }
}

impl Scalar for i32 {
    const EXPECTED: &'static str = "a 32-bit decimal number";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn put(&self, out: &mut String) {
        put_shown(self, out);
    }
}

impl Scalar for i64 {
    const EXPECTED: &'static str = "a 64-bit decimal number";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn put(&self, out: &mut String) {
        put_shown(self, out);
    }
}

/// As Java's `Boolean.parseBoolean`: whatever is not "true" is false.
impl Scalar for bool {
    const EXPECTED: &'static str = "true or false";

    fn parse(text: &str) -> Option<Self> {
        Some(text.eq_ignore_ascii_case("true"))
    }

    fn put(&self, out: &mut String) {
        out.push_str(if *self { "true" } else { "false" });
    }
}

/// A field's place in a header: plain or optional.
pub(crate) trait Field: Sized {
    fn read(fields: &ExtFields, name: &'static str) -> Result<Self, HeaderError>;

    fn write(&self, fields: &mut ExtFields, name: &'static str);
}

impl<T: Scalar> Field for T {
    fn read(fields: &ExtFields, name: &'static str) -> Result<Self, HeaderError> {
        Option::<T>::read(fields, name)?.ok_or(HeaderError::Missing(name))
    }

    fn write(&self, fields: &mut ExtFields, name: &'static str) {
        fields.insert_with(name, |out| self.put(out));
    }
}

impl<T: Scalar> Field for Option<T> {
    fn read(fields: &ExtFields, name: &'static str) -> Result<Self, HeaderError> {
        let Some(text) = fields.get(name) else {
            return Ok(None);
        };
        if T::EMPTY_IS_ABSENT && text.is_empty() {
            return Ok(None);
        }
        let value = T::parse(text).ok_or_else(|| HeaderError::Invalid {
            name,
            value: text.chars().take(64).collect(),
            expected: T::EXPECTED,
        })?;
        Ok(Some(value))
    }

    fn write(&self, fields: &mut ExtFields, name: &'static str) {
        if let Some(value) = self {
            fields.insert_with(name, |out| value.put(out));
        }
    }
}

/// Defines headers: `field: Type [= default when absent] => "javaName"`.
macro_rules! headers {
    ($(
        $(#[$meta:meta])*
        $name:ident { $($field:ident: $type:ty $(= $default:expr)? => $java:literal,)* }
    )*) => { $(
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct $name {
            $(
                #[doc = concat!("Java's `", $java, "`.")]
                pub $field: $type,
            )*
        }

        impl $crate::header::Header for $name {
            fn decode(
                fields: &$crate::ExtFields,
            ) -> Result<Self, $crate::header::HeaderError> {
                // A header without fields uses nothing of the map.
                let _: &$crate::ExtFields = fields;
                Ok(Self {
                    $($field: headers!(@read fields, $java, $type $(, $default)?),)*
                })
            }

            fn encode(&self, fields: &mut $crate::ExtFields) {
                let _: &$crate::ExtFields = fields;
                $($crate::header::Field::write(&self.$field, fields, $java);)*
            }
        }
    )* };
    (@read $fields:ident, $java:literal, $type:ty) => {
        <$type as $crate::header::Field>::read($fields, $java)?
    };
    (@read $fields:ident, $java:literal, $type:ty, $default:expr) => {
        <Option<$type> as $crate::header::Field>::read($fields, $java)?.unwrap_or($default)
    };
}
pub(crate) use headers;

headers! {
    /// Fields that any request may carry besides its own (`RpcRequestHeader`,
    /// `TopicRequestHeader`).
    RpcRequest {
        ns: Option<String> => "ns",
        nsd: Option<bool> => "nsd",
        bname: Option<String> => "bname",
        oway: Option<bool> => "oway",
        lo: Option<bool> => "lo",
    }

    /// No fields: a response that still carries an empty map.
    Empty {}
}

#[cfg(test)]
mod tests;
