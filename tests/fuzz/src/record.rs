//! F3: message records and batches. What is read fits into its bytes, and is written so that it is
//! read back.

use bytes::{Bytes, BytesMut};
use protocol::message::{
    batch,
    record::{self, RecordView, records},
    tags,
};

/// The bytes are records one behind another, one record, and a batch.
pub(crate) fn run(data: &[u8]) {
    let mut seen = 0;
    for view in records(data) {
        let Ok(view) = view else { break };
        seen += view.total_size();
        assert!(seen <= data.len(), "records of {seen} bytes in {}", data.len());
        check(&view);
    }
    if let Ok(view) = RecordView::parse(data) {
        check(&view);
    }
    let body = Bytes::copy_from_slice(data);
    if let Ok(messages) = batch::decode(&body) {
        let mut written = BytesMut::new();
        batch::encode(&messages, &mut written).unwrap();
        assert_eq!(batch::decode(&written.freeze()).unwrap(), messages);
    }
    tags::tags_code(&String::from_utf8_lossy(data));
}

fn check(view: &RecordView<'_>) {
    let bytes = view.bytes();
    assert_eq!(bytes.len(), view.total_size());
    assert!(view.body().len() + view.topic().len() + view.properties_bytes().len() <= bytes.len());
    let read = view.to_record();
    assert_eq!(record::decode(bytes).unwrap(), read, "two readers read otherwise");
    let mut written = BytesMut::new();
    // A record of a longer form may be one that we do not write.
    let Ok(length) = record::encode(&read, &mut written) else { return };
    assert_eq!((length, written.len()), (read.encoded_len(), read.encoded_len()));
    assert_eq!(record::decode(&written).unwrap(), read);
    let stamped = &mut written[..];
    record::stamp(stamped, 1, 2, 3);
    let view = RecordView::parse(stamped).unwrap();
    let found = (view.queue_offset(), view.physical_offset(), view.store_timestamp());
    assert_eq!(found, (1, 2, 3));
}
