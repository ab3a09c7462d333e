//! F7: requests and answers of the members of a group. What is read of the binary form is written
//! so that it is read back; entries that came with it are whole and numbered without a gap. What can
//! be read is then said to a live member, line by line, which must keep its promises.

use bytes::{Bytes, BytesMut};
use dledger::wire::{binary, body, entry, json, message, request as codes};
use protocol::{Command, frame};

use crate::live::Live;

/// The bytes are a frame of a member, the body of each request and answer, and entries.
pub(crate) fn run(data: &[u8]) {
    if let Ok(Some(command)) = frame::decode(&mut BytesMut::from(data), frame::DEFAULT_LIMIT) {
        request(&command);
    }
    let rest = Bytes::copy_from_slice(data);
    for code in CODES {
        request(&Command::request(code).with_body(rest.clone()));
    }
    forms(&rest);
    if let Ok(push) = json::read::<body::PushBody>(&rest) {
        let written = json::write(&push);
        assert_eq!(json::read::<body::PushBody>(&written).unwrap(), push);
    }
    if let Ok(entries) = entry::split(&rest) {
        let mut written = BytesMut::new();
        for one in &entries {
            one.to_log(&mut written).unwrap();
        }
        assert_eq!(written.len(), rest.len());
    }
    entries_of(entry::describe(&rest).ok().map(|range| range.count), Some(&rest));
    for begin in Live::beginnings() {
        tell(begin, &rest);
    }
}

/// Says each line to a live member as every request and answer that it can be read as.
fn tell(mut live: Live, data: &Bytes) {
    for line in data.split(|byte| *byte == b'\n').take(LINES) {
        let line = data.slice_ref(line);
        for code in CODES {
            let Ok(read) = message::decode_request(&Command::request(code).with_body(line.clone()))
            else {
                continue;
            };
            let answer = message::decode_reply(&read.message, read.form, &line);
            live.hears(&read.ids.from, read.message, read.entries.as_ref());
            if let Ok(answer) = answer {
                live.hears(&read.ids.from, answer.message, answer.entries.as_ref());
            }
        }
    }
    live.goes_on();
}

fn request(command: &Command) {
    let Ok(read) = message::decode_request(command) else { return };
    if let Some(entries) = &read.entries {
        entries_of(None, Some(entries));
    }
    // Whatever the request, no answer to it makes its reader panic.
    if let Ok(answer) = message::decode_reply(&read.message, read.form, &command.body) {
        drop(answer);
    }
}

fn forms(body: &Bytes) {
    if let Ok((push, entries)) = binary::decode_request(body.clone()) {
        let carried: Vec<Bytes> = entries.into_iter().collect();
        let written = binary::encode_request(&push, &carried);
        let (again, _) = binary::decode_request(written).unwrap();
        assert_eq!(again, push);
    }
    if let Ok(reply) = binary::decode_reply(body.clone()) {
        assert_eq!(binary::decode_reply(binary::encode_reply(&reply)).unwrap(), reply);
    }
    if let Ok(fetch) = binary::decode_fetch(body) {
        assert_eq!(binary::decode_fetch(&binary::encode_fetch(fetch)).unwrap(), fetch);
    }
    if let Ok((reply, entries)) = binary::decode_fetched(body) {
        entries_of(Some(reply.count).filter(|_| entries.is_some()), entries.as_ref());
    }
}

/// Entries are as many as was said, one behind another without a gap.
fn entries_of(count: Option<u64>, entries: Option<&Bytes>) {
    let Some(entries) = entries else { return };
    let (Some(count), Ok(split)) = (count, entry::split(entries)) else { return };
    assert_eq!(split.len() as u64, count);
    assert!(split.windows(2).all(|pair| pair[0].index + 1 == pair[1].index));
}

/// More would only take time.
const LINES: usize = 64;

const CODES: [i32; 7] = [
    codes::VOTE,
    codes::PRE_VOTE,
    codes::HEART_BEAT,
    codes::PUSH,
    codes::BINARY_PUSH,
    codes::FETCH,
    codes::LEADERSHIP_TRANSFER,
];
