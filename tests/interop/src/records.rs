//! Message records as a broker drafts them, for bodies of a log that Java brokers read, too.

use std::net::{Ipv4Addr, SocketAddr};

use bytes::BytesMut;
use protocol::message::record::{self, MessageRecord};

/// The topic of all of them; it has one queue.
pub const TOPIC: &str = "ledgermq_peer_test";

/// A record with this text as its body, with room for offsets and time.
#[must_use]
pub fn draft(text: &str) -> Vec<u8> {
    let host = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let record = MessageRecord {
        queue_id: 0,
        flag: 0,
        queue_offset: 0,
        physical_offset: 0,
        sys_flag: 0,
        born_timestamp: 1,
        born_host: host,
        store_timestamp: 1,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: text.as_bytes().to_vec().into(),
        topic: TOPIC.to_owned(),
        properties: String::new(),
    };
    let mut bytes = BytesMut::new();
    match record::encode(&record, &mut bytes) {
        Ok(_) => bytes.to_vec(),
        // A short text and topic always fit.
        Err(error) => error.to_string().into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use protocol::message::record::RecordView;

    use super::*;

    #[test]
    fn a_draft_is_a_record() {
        let bytes = draft("a text");
        let record = RecordView::parse(&bytes).unwrap();
        assert_eq!((record.topic(), record.body()), (TOPIC, &b"a text"[..]));
        assert!(record.crc_matches());
    }
}
