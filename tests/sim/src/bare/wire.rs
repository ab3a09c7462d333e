//! Entries without bodies on their way, and what they say of a log.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use dledger_core::{EntryId, LogIndex, State, Term};

use super::ENTRY_BYTES;
use crate::ghost::Entry;

/// Bytes of an entry in a message.
pub(super) const WIRE: usize = 33;

pub(super) fn encode(entries: &[Entry]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(entries.len() * WIRE);
    for entry in entries {
        bytes.put_u64(entry.index);
        bytes.put_u64(entry.term);
        bytes.put_u64(entry.hash);
        bytes.put_u64(entry.token);
        bytes.put_u8(u8::from(entry.opening));
    }
    bytes.freeze()
}

pub(super) fn decode(mut bytes: Bytes) -> Vec<Entry> {
    let mut entries = Vec::new();
    while bytes.remaining() >= WIRE {
        let index = bytes.get_u64();
        let term = bytes.get_u64();
        let hash = bytes.get_u64();
        let token = bytes.get_u64();
        let opening = bytes.get_u8() == 1;
        let position = index * u64::from(ENTRY_BYTES);
        let (size, chain, place) = (ENTRY_BYTES, 0, None);
        entries.push(Entry { index, term, position, size, chain, hash, token, opening, place });
    }
    entries
}

/// The state of a node on this disk, without its policy.
pub(super) fn state_of(entries: &[Entry]) -> State {
    let mut terms: Vec<(Term, LogIndex)> = Vec::new();
    for entry in entries {
        if terms.last().is_none_or(|(term, _)| term.0 != entry.term) {
            terms.push((Term(entry.term), LogIndex(entry.index)));
        }
    }
    let last = entries.last();
    State {
        first: LogIndex(entries.first().map_or(0, |entry| entry.index)),
        last: last.map(|last| EntryId { term: Term(last.term), index: LogIndex(last.index) }),
        terms,
        ..State::default()
    }
}
