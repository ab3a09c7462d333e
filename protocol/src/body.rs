//! Bodies of requests and responses, named as Java's classes, with Java's field names.
//!
//! `decode` reads what fastjson would read (see [`crate::json`]): unknown fields are ignored,
//! missing ones have Java's defaults. `encode` writes what Java writes: fields in alphabetical
//! order, absent ones omitted, maps keyed by numbers and by queues in Java's own form.

mod client;
mod connection;
mod consumer;
mod data;
mod group;
mod ha;
mod offset;
mod pop;
mod query;
mod register;
mod route;
mod stats;
mod topic;

pub use self::{
    client::*, connection::*, consumer::*, data::*, group::*, ha::*, offset::*, pop::*, query::*,
    register::*, route::*, stats::*, topic::*,
};
use crate::json::JsonError;

/// Why a body cannot be read.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
#[error("body is no {class}: {cause}")]
pub struct BodyError {
    /// Java's class.
    pub class: &'static str,
    /// What is wrong with it.
    #[source]
    pub cause: JsonError,
}

/// Gives bodies their `decode` and `encode`.
macro_rules! bodies {
    ($($class:ident)*) => { $(
        impl $class {
            /// Reads the body.
            ///
            /// # Errors
            /// The text cannot be read, or a field has a value of another type.
            pub fn decode(body: &[u8]) -> Result<Self, $crate::body::BodyError> {
                $crate::json::from_slice(body)
                    .map_err(|cause| $crate::body::BodyError { class: stringify!($class), cause })
            }

            /// Writes the body as Java does.
            pub fn encode(&self) -> bytes::Bytes {
                $crate::json::to_vec(self, $crate::json::Style::Bare).into()
            }
        }
    )* };
}
use bodies;

/// Defines bodies: `field: Type [as "other name"] => default`, fields in Java's spelling by camel
/// case. All fields are optional on input.
macro_rules! plain_bodies {
    ($(
        $(#[$meta:meta])*
        $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* }
    )*) => {
        $(
            $(#[$meta])*
            #[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
            #[serde(rename_all = "camelCase", default)]
            pub struct $name {
                $($(#[$field_meta])* pub $field: $type,)*
            }
        )*
        $crate::body::bodies! { $($name)* }
    };
}
use plain_bodies;

#[cfg(test)]
mod tests;
