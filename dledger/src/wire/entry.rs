//! An entry as JSON, and as the bytes that lie in the log (`DLedgerEntry.java`).

use bytes::{BufMut, Bytes, BytesMut};
use dledger_core::{LogIndex, Range, Term};
use serde::{Deserialize, Serialize};

use super::{WireError, json};
use crate::{
    ENTRY_HEADER,
    entry::{Found, Header, look},
};

/// An entry of a push or of an answer to GET. Java's checksums are signed and usually 0; ours are
/// carried and stored verbatim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JsonEntry {
    /// What it says.
    #[serde(with = "json::base64_bytes")]
    pub body: Bytes,
    /// Checksum of the body, 0 where there is none.
    pub body_crc: i32,
    /// Checksum of the chain, 0 where there is none.
    pub chain_crc: i32,
    /// Always 0.
    pub channel: i32,
    /// Its number.
    pub index: i64,
    /// Always 1.
    pub magic: i32,
    /// Its position in the log.
    pub pos: i64,
    /// Bytes of header and body.
    pub size: i32,
    /// The term that wrote it.
    pub term: i64,
}

impl Default for JsonEntry {
    /// Java's defaults.
    fn default() -> Self {
        Self {
            body: Bytes::new(),
            body_crc: 0,
            chain_crc: 0,
            channel: 0,
            index: -1,
            magic: 0,
            pos: 0,
            size: 0,
            term: -1,
        }
    }
}

impl JsonEntry {
    /// The entry as it lies in the log.
    ///
    /// # Errors
    /// A field has no place there, or the two sizes do not agree.
    pub fn to_log(&self, out: &mut BytesMut) -> Result<(), WireError> {
        let field = |name: &'static str, value: i64| {
            u64::try_from(value).map_err(|_negative| WireError::Field { name, value })
        };
        let size = ENTRY_HEADER + self.body.len();
        if usize::try_from(self.size) != Ok(size) || self.body.is_empty() {
            return Err(WireError::Field { name: "entry.size", value: self.size.into() });
        }
        for (name, value, expected) in
            [("entry.magic", self.magic, 1), ("entry.channel", self.channel, 0)]
        {
            if value != expected {
                return Err(WireError::Field { name, value: value.into() });
            }
        }
        let header = Header {
            size: self.size.cast_unsigned(),
            index: field("entry.index", self.index)?,
            term: field("entry.term", self.term)?,
            position: field("entry.pos", self.pos)?,
            chain_crc: self.chain_crc.cast_unsigned(),
            body_crc: self.body_crc.cast_unsigned(),
        };
        out.put_slice(&header.encode());
        out.put_slice(&self.body);
        Ok(())
    }
}

/// Walks over entries that lie one behind another as they do in a data file, without padding.
///
/// # Errors
/// The bytes are not whole entries.
pub fn split(bytes: &Bytes) -> Result<Vec<JsonEntry>, WireError> {
    let mut entries = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let header = header_at(bytes, at)?;
        let size = header.size as usize;
        entries.push(JsonEntry {
            body: bytes.slice(at + ENTRY_HEADER..at + size),
            body_crc: header.body_crc.cast_signed(),
            chain_crc: header.chain_crc.cast_signed(),
            channel: 0,
            index: signed("entry.index", header.index)?,
            magic: 1,
            pos: signed("entry.pos", header.position)?,
            size: header.size.cast_signed(),
            term: signed("entry.term", header.term)?,
        });
        at += size;
    }
    Ok(entries)
}

/// What entries that lie one behind another are, by their headers.
///
/// # Errors
/// The bytes are not whole entries with consecutive indexes, or there is none.
pub fn describe(bytes: &Bytes) -> Result<Range, WireError> {
    let mut range = Range {
        before: None,
        first: LogIndex(0),
        count: 0,
        terms: Vec::new(),
        bytes: bytes.len() as u64,
    };
    let mut at = 0;
    while at < bytes.len() || range.count == 0 {
        let header = header_at(bytes, at)?;
        if range.count == 0 {
            range.first = LogIndex(header.index);
        }
        let index = range.first.plus(range.count);
        if header.index != index.0 {
            return Err(WireError::Entries { at });
        }
        if range.terms.last().is_none_or(|(term, _)| term.0 != header.term) {
            range.terms.push((Term(header.term), index));
        }
        range.count += 1;
        at += header.size as usize;
    }
    Ok(range)
}

/// The header of the whole entry at `at`.
fn header_at(bytes: &Bytes, at: usize) -> Result<Header, WireError> {
    let rest = bytes.get(at..).unwrap_or(&[]);
    let position = rest.get(24..32).and_then(|field| field.first_chunk());
    let position = position.map_or(0, |field| u64::from_be_bytes(*field));
    match look(rest, position) {
        Found::Entry(header) if header.size as usize <= rest.len() => Ok(header),
        _ => Err(WireError::Entries { at }),
    }
}

fn signed(name: &'static str, value: u64) -> Result<i64, WireError> {
    i64::try_from(value).map_err(|_beyond| WireError::Field { name, value: -1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_comes_back_from_the_log_form() {
        let entry = JsonEntry {
            body: Bytes::from_static(b"body"),
            body_crc: -5,
            chain_crc: 7,
            index: 3,
            magic: 1,
            pos: 480,
            size: 52,
            term: 2,
            ..JsonEntry::default()
        };
        let mut log = BytesMut::new();
        entry.to_log(&mut log).unwrap();
        let next = JsonEntry { index: 4, pos: 532, ..entry.clone() };
        next.to_log(&mut log).unwrap();
        let log = log.freeze();
        assert_eq!(split(&log).unwrap(), [entry, next]);
        assert!(matches!(split(&log.slice(..90)), Err(WireError::Entries { at: 52 })));
    }

    #[test]
    fn what_has_no_place_in_the_log_is_refused_by_its_name() {
        let sound = JsonEntry {
            body: Bytes::from_static(b"body"),
            index: 3,
            magic: 1,
            size: 52,
            term: 2,
            ..JsonEntry::default()
        };
        for (entry, name) in [
            (JsonEntry { size: 53, ..sound.clone() }, "entry.size"),
            (JsonEntry { size: 48, body: Bytes::new(), ..sound.clone() }, "entry.size"),
            (JsonEntry { magic: 2, ..sound.clone() }, "entry.magic"),
            (JsonEntry { index: -1, ..sound.clone() }, "entry.index"),
            (JsonEntry { pos: -8, ..sound.clone() }, "entry.pos"),
            (JsonEntry { term: -1, ..sound }, "entry.term"),
        ] {
            let error = entry.to_log(&mut BytesMut::new()).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }
}
