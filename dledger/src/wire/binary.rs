//! Pushes, and requests for entries that rotted, between nodes of ours: a fixed head, then the entries as they lie in the log.
//!
//! ```text
//! request   0 version 1 | 1 kind 1 | 2 flags 2 | 4 count 4 | 8 term 8 | 16 commit 8 | 24 whole 8
//!          32 entry term 8 | 40 entry index 8 | 48 first or position 8 | 56 next term 8 | 64 entries
//! answer    0 version 1 | 1 kind 1 | 2 flags 2 | 4 code 4 | 8 term 8 | 16 request term 8 | 24 first 8
//!          32 count 8 | 40 begin 8 | 48 end 8 | 56 written 8 | 64 flushed 8 | 72 life 8
//! fetch     0 version 1 | 1 zero 7 | 8 first 8 | 16 last 8
//! answer    0 version 1 | 1 zero 7 | 8 first 8 | 16 count 8 | 24 entries; where the count is 0
//!          perhaps the first entry of a log that begins behind them 8, all ones for rotten copies
//! ```
//!
//! A bit of the flags says whether a number is there; kinds are 0 compare, 1 truncate, 2 append,
//! 3 commit. Who sends and who is meant stands in the fields of the frame's header.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use dledger_core::{
    EntryId, Fetch, FetchReply, Life, LogIndex, Lost, Push, PushCode, PushKind, PushName,
    PushReply, Range, Term,
};

use super::{WireError, entry::describe};

/// The version that this module writes and reads.
pub const VERSION: u8 = 1;
/// Bytes of a request before its entries.
pub const REQUEST_HEAD: usize = 64;
/// Bytes of an answer.
pub const REPLY_BYTES: usize = 80;

/// Bytes of a request for entries, and of its answer before the entries.
const FETCH_HEAD: usize = 24;
/// In the place of a first entry: the copies of the member that answers have rotted.
const ROTTEN: u64 = u64::MAX;

/// Whether a number is there, by the order of the numbers.
#[derive(Debug, Clone, Copy, Default)]
struct Flags(u16);

impl Flags {
    fn put(&mut self, bit: u16, value: Option<u64>) -> u64 {
        self.0 |= u16::from(value.is_some()) << bit;
        value.unwrap_or(0)
    }

    fn get(self, bit: u16, value: u64) -> Option<u64> {
        (self.0 & (1 << bit) != 0).then_some(value)
    }
}

/// A push with its entries; those of `entries` are sent only with an append, from where they are.
#[must_use]
pub fn encode_request(push: &Push, entries: &[Bytes]) -> Bytes {
    let mut flags = Flags::default();
    let commit = flags.put(0, push.commit.map(|index| index.0));
    let whole = flags.put(1, push.whole.map(|life| life.0));
    let (id, place, next, count) = match &push.kind {
        PushKind::Compare { id, .. } => (Some(*id), 0, None, 0),
        PushKind::Truncate { id, position, next_term, .. } => (Some(*id), *position, *next_term, 0),
        PushKind::Append(range) => (range.before, range.first.0, None, range.count),
        PushKind::Commit => (None, 0, None, 0),
    };
    let term = flags.put(2, id.map(|id| id.term.0));
    let index = id.map_or(0, |id| id.index.0);
    let next = flags.put(3, next.map(|term| term.0));
    let carried = if matches!(push.kind, PushKind::Append(_)) { entries } else { &[] };
    let length = carried.iter().map(Bytes::len).sum::<usize>();
    let mut out = BytesMut::with_capacity(REQUEST_HEAD + length);
    out.put_u8(VERSION);
    out.put_u8(number(push.kind.name()));
    out.put_u16(flags.0);
    out.put_u32(u32::try_from(count).unwrap_or(u32::MAX));
    for number in [push.term.0, commit, whole, term, index, place, next] {
        out.put_u64(number);
    }
    for part in carried {
        out.extend_from_slice(part);
    }
    out.freeze()
}

/// Reads a push and its entries.
///
/// # Errors
/// It is too short, of another version or kind, or its entries are not those that its head names.
pub fn decode_request(mut body: Bytes) -> Result<(Push, Option<Bytes>), WireError> {
    let short = WireError::Short { length: body.len(), needed: REQUEST_HEAD };
    if body.len() < REQUEST_HEAD {
        return Err(short);
    }
    let (kind, flags) = head(&mut body)?;
    let count = u64::from(body.get_u32());
    let mut numbers = [0; 7];
    for number in &mut numbers {
        *number = body.get_u64();
    }
    let [term, commit, whole, entry_term, entry_index, place, next] = numbers;
    let id = flags
        .get(2, entry_term)
        .map(|term| EntryId { term: Term(term), index: LogIndex(entry_index) });
    let mut entries = None;
    let kind = match kind {
        PushName::Compare => {
            PushKind::Compare { id: id.ok_or(WireError::Missing("entry"))?, same: None }
        }
        PushName::Truncate => PushKind::Truncate {
            id: id.ok_or(WireError::Missing("entry"))?,
            position: place,
            same: None,
            next_term: flags.get(3, next).map(Term),
        },
        PushName::Append => {
            let range = Range { before: id, ..describe(&body)? };
            if range.count != count || range.first.0 != place {
                let value = i64::try_from(count).unwrap_or(i64::MAX);
                return Err(WireError::Field { name: "count", value });
            }
            entries = Some(body);
            PushKind::Append(range)
        }
        PushName::Commit => PushKind::Commit,
    };
    let push = Push {
        term: Term(term),
        commit: flags.get(0, commit).map(LogIndex),
        whole: flags.get(1, whole).map(Life),
        known: None,
        kind,
    };
    Ok((push, entries))
}

/// The answer to a push.
#[must_use]
pub fn encode_reply(reply: &PushReply) -> Bytes {
    let mut flags = Flags::default();
    let index = |index: Option<LogIndex>| index.map(|index| index.0);
    let first = flags.put(0, index(reply.first));
    let begin = flags.put(1, index(reply.begin));
    let end = flags.put(2, index(reply.end));
    let written = flags.put(3, index(reply.written));
    let flushed = flags.put(4, index(reply.flushed));
    flags.put(5, reply.provisional.then_some(1));
    let mut out = BytesMut::with_capacity(REPLY_BYTES);
    out.put_u8(VERSION);
    out.put_u8(number(reply.kind));
    out.put_u16(flags.0);
    out.put_i32(reply.code.code());
    let (term, asked, life) = (reply.term.0, reply.request_term.0, reply.life.0);
    for number in [term, asked, first, reply.count, begin, end, written, flushed, life] {
        out.put_u64(number);
    }
    out.freeze()
}

/// Reads the answer to a push.
///
/// # Errors
/// It is too short, or of another version or kind.
pub fn decode_reply(mut body: Bytes) -> Result<PushReply, WireError> {
    if body.len() < REPLY_BYTES {
        return Err(WireError::Short { length: body.len(), needed: REPLY_BYTES });
    }
    let (kind, flags) = head(&mut body)?;
    let code = PushCode::of_code(body.get_i32());
    let mut numbers = [0; 9];
    for number in &mut numbers {
        *number = body.get_u64();
    }
    let [term, request_term, first, count, begin, end, written, flushed, life] = numbers;
    Ok(PushReply {
        term: Term(term),
        code,
        kind,
        request_term: Term(request_term),
        first: flags.get(0, first).map(LogIndex),
        count,
        known: None,
        begin: flags.get(1, begin).map(LogIndex),
        end: flags.get(2, end).map(LogIndex),
        written: flags.get(3, written).map(LogIndex),
        flushed: flags.get(4, flushed).map(LogIndex),
        life: Life(life),
        provisional: flags.get(5, 1).is_some(),
    })
}

/// A request for entries.
#[must_use]
pub fn encode_fetch(fetch: Fetch) -> Bytes {
    fetch_body(fetch.first.0, fetch.last.0, &[])
}

/// Reads a request for entries.
///
/// # Errors
/// It is too short, of another version, or asks for nothing.
pub fn decode_fetch(body: &Bytes) -> Result<Fetch, WireError> {
    let (first, last, _) = fetch_parts(body)?;
    if last < first {
        return Err(WireError::Field { name: "last", value: i64::try_from(last).unwrap_or(-1) });
    }
    Ok(Fetch { first: LogIndex(first), last: LogIndex(last) })
}

/// Entries that were asked for.
#[must_use]
pub fn encode_fetched(reply: FetchReply, entries: &[Bytes]) -> Bytes {
    match reply.lost.filter(|_| reply.count == 0) {
        None => fetch_body(reply.first.0, reply.count, entries),
        Some(lost) => {
            let begin = match lost {
                Lost::Trimmed(begin) => begin.0,
                Lost::Rotten => ROTTEN,
            };
            fetch_body(reply.first.0, 0, &[Bytes::copy_from_slice(&begin.to_be_bytes())])
        }
    }
}

/// Reads entries that were asked for.
///
/// # Errors
/// It is too short, of another version, or its entries are not those that its head names.
pub fn decode_fetched(body: &Bytes) -> Result<(FetchReply, Option<Bytes>), WireError> {
    let (first, count, mut entries) = fetch_parts(body)?;
    let mut reply = FetchReply { first: LogIndex(first), count, lost: None };
    if count == 0 {
        if entries.len() >= 8 {
            reply.lost = Some(match entries.get_u64() {
                ROTTEN => Lost::Rotten,
                begin => Lost::Trimmed(LogIndex(begin)),
            });
        }
        return Ok((reply, None));
    }
    let range = describe(&entries)?;
    if range.count != count || range.first != reply.first {
        return Err(WireError::Field { name: "count", value: i64::try_from(count).unwrap_or(-1) });
    }
    Ok((reply, Some(entries)))
}

fn fetch_body(first: u64, second: u64, entries: &[Bytes]) -> Bytes {
    let length = entries.iter().map(Bytes::len).sum::<usize>();
    let mut out = BytesMut::with_capacity(FETCH_HEAD + length);
    out.put_u8(VERSION);
    out.put_bytes(0, 7);
    out.put_u64(first);
    out.put_u64(second);
    for part in entries {
        out.extend_from_slice(part);
    }
    out.freeze()
}

fn fetch_parts(body: &Bytes) -> Result<(u64, u64, Bytes), WireError> {
    let mut rest = body.clone();
    if rest.len() < FETCH_HEAD {
        return Err(WireError::Short { length: rest.len(), needed: FETCH_HEAD });
    }
    let version = rest.get_u8();
    if version != VERSION {
        return Err(WireError::Version(version));
    }
    rest.advance(7);
    let (first, second) = (rest.get_u64(), rest.get_u64());
    Ok((first, second, rest))
}

/// Version, kind and flags; the caller has checked the length.
fn head(body: &mut Bytes) -> Result<(PushName, Flags), WireError> {
    let version = body.get_u8();
    if version != VERSION {
        return Err(WireError::Version(version));
    }
    let kind = match body.get_u8() {
        0 => PushName::Compare,
        1 => PushName::Truncate,
        2 => PushName::Append,
        3 => PushName::Commit,
        other => return Err(WireError::Field { name: "kind", value: other.into() }),
    };
    Ok((kind, Flags(body.get_u16())))
}

fn number(kind: PushName) -> u8 {
    match kind {
        PushName::Compare => 0,
        PushName::Truncate => 1,
        PushName::Append => 2,
        PushName::Commit => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Header, body_crc};

    fn entry(index: u64, term: u64, position: u64, body: &[u8]) -> Vec<u8> {
        let header = Header {
            size: 48 + u32::try_from(body.len()).unwrap(),
            index,
            term,
            position,
            chain_crc: 0,
            body_crc: body_crc(body),
        };
        [header.encode().as_slice(), body].concat()
    }

    fn id(term: u64, index: u64) -> EntryId {
        EntryId { term: Term(term), index: LogIndex(index) }
    }

    fn push(kind: PushKind) -> Push {
        Push { term: Term(7), commit: Some(LogIndex(3)), whole: None, known: None, kind }
    }

    #[test]
    fn every_kind_of_push_comes_back() {
        let entries = [entry(5, 6, 500, b"five"), entry(6, 7, 552, b"six")].map(Bytes::from);
        let range = Range {
            before: Some(id(6, 4)),
            first: LogIndex(5),
            count: 2,
            terms: vec![(Term(6), LogIndex(5)), (Term(7), LogIndex(6))],
            bytes: 103,
        };
        let truncate = PushKind::Truncate {
            id: id(6, 4),
            position: 400,
            same: None,
            next_term: Some(Term(7)),
        };
        for push in [
            push(PushKind::Compare { id: id(6, 4), same: None }),
            push(truncate),
            push(PushKind::Append(range)),
            Push { commit: None, whole: Some(Life(9)), ..push(PushKind::Commit) },
        ] {
            let body = encode_request(&push, &entries);
            let (read, carried) = decode_request(body).unwrap();
            assert_eq!(read, push);
            let expected = matches!(push.kind, PushKind::Append(_)).then(|| entries.concat());
            assert_eq!(carried.map(Vec::from), expected);
        }
    }

    #[test]
    fn the_head_has_its_fixed_places() {
        let push = push(PushKind::Compare { id: id(6, 4), same: None });
        let body = encode_request(&push, &[]);
        assert_eq!(body.len(), REQUEST_HEAD);
        assert_eq!(body[..8], [1, 0, 0, 0b101, 0, 0, 0, 0]);
        assert_eq!(body[15], 7, "term");
        assert_eq!(body[23], 3, "commit");
        assert_eq!((body[39], body[47]), (6, 4), "entry");
    }

    #[test]
    fn an_answer_comes_back_with_its_marks() {
        let reply = PushReply {
            term: Term(7),
            code: PushCode::InconsistentState,
            kind: PushName::Append,
            request_term: Term(6),
            first: Some(LogIndex(0)),
            count: 3,
            known: None,
            begin: None,
            end: Some(LogIndex(8)),
            written: Some(LogIndex(2)),
            flushed: None,
            life: Life(77),
            provisional: true,
        };
        let body = encode_reply(&reply);
        assert_eq!(body.len(), REPLY_BYTES);
        assert_eq!(decode_reply(body).unwrap(), reply);
    }

    #[test]
    fn entries_that_rotted_are_asked_for_and_come() {
        let fetch = Fetch { first: LogIndex(5), last: LogIndex(6) };
        assert_eq!(decode_fetch(&encode_fetch(fetch)), Ok(fetch));
        let nothing = Fetch { first: LogIndex(5), last: LogIndex(4) };
        assert!(decode_fetch(&encode_fetch(nothing)).is_err());
        let entries = [entry(5, 6, 500, b"five"), entry(6, 7, 552, b"six")].map(Bytes::from);
        let reply = FetchReply { first: LogIndex(5), count: 2, lost: None };
        let body = encode_fetched(reply, &entries);
        let (read, carried) = decode_fetched(&body).unwrap();
        assert_eq!((read, carried.unwrap()), (reply, Bytes::from(entries.concat())));
        assert!(decode_fetched(&body.slice(..body.len() - 1)).is_err());
        for lost in [None, Some(Lost::Trimmed(LogIndex(9))), Some(Lost::Rotten)] {
            let none = FetchReply { first: LogIndex(5), count: 0, lost };
            assert_eq!(decode_fetched(&encode_fetched(none, &[])), Ok((none, None)));
        }
    }

    #[test]
    fn what_is_cut_or_of_another_version_is_refused() {
        let append = Range {
            before: None,
            first: LogIndex(5),
            count: 1,
            terms: vec![(Term(6), LogIndex(5))],
            bytes: 52,
        };
        let entries = [Bytes::from(entry(5, 6, 500, b"five"))];
        let body = encode_request(&push(PushKind::Append(append.clone())), &entries);
        for cut in 0..body.len() {
            assert!(decode_request(body.slice(..cut)).is_err(), "cut at {cut}");
        }
        let other = encode_request(&push(PushKind::Append(Range { count: 2, ..append })), &entries);
        assert_eq!(decode_request(other), Err(WireError::Field { name: "count", value: 2 }));
        let mut version = body.to_vec();
        version[0] = 2;
        assert_eq!(decode_request(version.into()), Err(WireError::Version(2)));
        let mut kind = body.to_vec();
        kind[1] = 4;
        assert!(decode_request(kind.into()).is_err());
        assert!(decode_reply(Bytes::from_static(&[1; 79])).is_err());
    }
}
