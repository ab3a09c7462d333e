//! Records of the op topic: which half messages are done with.
//!
//! Tag `d`, and as body offsets in the half topic, separated by commas: 4.x writes one, 5.x several
//! of them with a comma behind each (`TransactionalMessageServiceImpl.java`). A body of one offset is
//! written without a comma, so that both read it.

use std::net::SocketAddr;

use bytes::Bytes;
use protocol::{
    message::{
        properties::{Properties, encode, key},
        record::{MessageRecord, RecordView},
    },
    name,
};

use crate::drafts;

/// The tag of a record that takes half messages off (`TransactionalMessageUtil.REMOVE_TAG`).
const REMOVE: &str = "d";

const SEPARATOR: char = ',';

/// The most offsets that are taken from one record.
const MAX_OFFSETS: usize = 65_536;

/// The record that takes half messages off.
pub(super) fn record(offsets: &[u64], host: SocketAddr, now: i64) -> MessageRecord {
    let text: Vec<_> = offsets.iter().map(u64::to_string).collect();
    let mut properties = Properties::new();
    properties.insert(key::TAGS, REMOVE);
    let body = Bytes::from(text.join(","));
    let properties = encode(&properties);
    MessageRecord { properties, ..drafts::of_broker(name::TRANS_OP_HALF_TOPIC, body, host, now) }
}

/// The offsets that a record takes off; none where it is another kind of record.
pub(super) fn offsets(bytes: &[u8]) -> Vec<u64> {
    let Ok(view) = RecordView::parse(bytes) else { return Vec::new() };
    let removes = view.property(key::TAGS).is_some_and(|tag| tag == REMOVE);
    match std::str::from_utf8(view.body()) {
        Ok(text) if removes => text
            .split(SEPARATOR)
            .take(MAX_OFFSETS)
            .filter_map(|offset| offset.trim().parse().ok())
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use protocol::message::record::encode as encode_record;

    use super::*;

    fn bytes(record: &MessageRecord) -> BytesMut {
        let mut bytes = BytesMut::new();
        encode_record(record, &mut bytes).expect("short");
        bytes
    }

    fn host() -> SocketAddr {
        "127.0.0.1:1".parse().expect("an address")
    }

    #[test]
    fn offsets_go_there_and_back() {
        for listed in [&[7][..], &[7, 9, 1_000_000]] {
            assert_eq!(offsets(&bytes(&record(listed, host(), 5))), listed);
        }
        assert_eq!(record(&[7], host(), 5).body, "7", "a 4.x broker reads one offset");
    }

    #[test]
    fn records_of_java_are_read() {
        for (body, expected) in [("12", vec![12]), ("12,13,", vec![12, 13]), ("x,4,-1", vec![4])] {
            let record = MessageRecord { body: body.into(), ..record(&[], host(), 5) };
            assert_eq!(offsets(&bytes(&record)), expected, "{body}");
        }
        let other =
            MessageRecord { properties: "TAGS\u{1}x\u{2}".into(), ..record(&[1], host(), 5) };
        assert_eq!(offsets(&bytes(&other)), [0; 0]);
        assert_eq!(offsets(b"no record"), [0; 0]);
    }
}
