//! One request or response (`RemotingCommand.java`).

use std::fmt;

use bytes::Bytes;

use crate::{
    ExtFields, Language,
    header::{Header, HeaderError},
    version,
};

/// Bits of the header field `flag`.
pub mod flag {
    /// The frame is a response.
    pub const RESPONSE: i32 = 1;
    /// The request wants no response. Decide by this bit, never by the code: Go's "oneway" calls do
    /// not set it.
    pub const ONEWAY: i32 = 2;
}

/// Most bytes of a refusal's text, but for a word on what was left out.
const LONGEST_REFUSAL: usize = 4096;

/// How the header of a frame is written (`SerializeType.java`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum HeaderEncoding {
    /// A JSON object, type byte 0.
    #[default]
    Json,
    /// The compact binary form, type byte 1.
    RocketMq,
}

/// A decoded frame.
#[derive(Clone, PartialEq, Eq)]
pub struct Command {
    /// Request code, or response code in a response.
    pub code: i32,
    /// Language of the sender.
    pub language: Language,
    /// Version ordinal of the sender, see [`crate::version`].
    pub version: i32,
    /// Correlates a response with its request; chosen by the requester.
    pub opaque: i32,
    /// Bits of [`flag`].
    pub flag: i32,
    /// Text for people, usually the cause of an error.
    pub remark: Option<String>,
    /// Fields of the typed header. An empty map and none differ on the wire.
    pub ext_fields: Option<ExtFields>,
    /// How the header was or will be written.
    pub encoding: HeaderEncoding,
    /// The body; empty when there is none.
    pub body: Bytes,
}

impl Command {
    /// A request without header fields; the sender sets `opaque`.
    pub fn request(code: i32) -> Self {
        Self {
            code,
            language: Language::Java,
            version: version::CURRENT,
            opaque: 0,
            flag: 0,
            remark: None,
            ext_fields: None,
            encoding: HeaderEncoding::Json,
            body: Bytes::new(),
        }
    }

    /// A request with the fields of a typed header.
    pub fn request_with(code: i32, header: &impl Header) -> Self {
        Self::request(code).with_header(header)
    }

    /// A response to this request: same opaque, same header encoding.
    pub fn response(&self, code: i32) -> Self {
        Self {
            opaque: self.opaque,
            flag: flag::RESPONSE,
            encoding: self.encoding,
            ..Self::request(code)
        }
    }

    /// Adds the fields of a typed header. An empty header still gives an empty map, as in Java.
    #[must_use]
    pub fn with_header(mut self, header: &impl Header) -> Self {
        header.encode(self.ext_fields.get_or_insert_default());
        self
    }

    /// Adds one extension field.
    #[must_use]
    pub fn with_field(mut self, name: &'static str, value: impl AsRef<str>) -> Self {
        self.ext_fields.get_or_insert_default().insert(name, value);
        self
    }

    /// Sets the remark.
    #[must_use]
    pub fn with_remark(mut self, remark: impl Into<String>) -> Self {
        self.remark = Some(remark.into());
        self
    }

    /// Sets the remark of a refusal, cut at 4 KiB: it names the value that it refuses,
    /// which may be as long as a header.
    #[must_use]
    pub fn with_refusal(self, remark: &str) -> Self {
        if remark.len() <= LONGEST_REFUSAL {
            return self.with_remark(remark);
        }
        let begin = remark.get(..remark.floor_char_boundary(LONGEST_REFUSAL)).unwrap_or_default();
        self.with_remark(format!("{begin}... ({} bytes in all)", remark.len()))
    }

    /// Sets the body.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Whether this is a response.
    pub fn is_response(&self) -> bool {
        self.flag & flag::RESPONSE != 0
    }

    /// Whether the request wants no response.
    pub fn is_oneway(&self) -> bool {
        self.flag & flag::ONEWAY != 0
    }

    /// Marks the request as one that wants no response.
    pub fn mark_oneway(&mut self) {
        self.flag |= flag::ONEWAY;
    }

    /// One extension field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.ext_fields.as_ref().and_then(|fields| fields.get(name))
    }

    /// Reads the typed header. Without extension fields every field is absent.
    ///
    /// # Errors
    /// A required field is missing or a value does not have the field's type.
    pub fn header<H: Header>(&self) -> Result<H, HeaderError> {
        match &self.ext_fields {
            Some(fields) => H::decode(fields),
            None => H::decode(&ExtFields::new()),
        }
    }
}

/// Shows the length of the body: bodies are large and not text.
impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("code", &self.code)
            .field("language", &self.language)
            .field("version", &self.version)
            .field("opaque", &self.opaque)
            .field("flag", &self.flag)
            .field("remark", &self.remark)
            .field("ext_fields", &self.ext_fields)
            .field("encoding", &self.encoding)
            .field("body_len", &self.body.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_cut_within_no_character_and_says_how_long_it_was() {
        let refusal = |text: &str| Command::request(1).with_refusal(text).remark.unwrap();
        let fits = "x".repeat(LONGEST_REFUSAL);
        assert_eq!(refusal(&fits), fits);
        let long = format!("x{}", "\u{6d88}".repeat(LONGEST_REFUSAL));
        let cut = refusal(&long);
        assert!(cut.starts_with("x\u{6d88}") && cut.len() < LONGEST_REFUSAL + 40, "{cut}");
        assert!(cut.ends_with(&format!("... ({} bytes in all)", long.len())), "{cut}");
    }
}
