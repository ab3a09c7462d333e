use super::*;

fn record(topic: &str) -> MessageRecord {
    MessageRecord {
        queue_id: 3,
        flag: 9,
        queue_offset: 12,
        physical_offset: 4096,
        sys_flag: sys_flag::TRANSACTION_COMMIT,
        born_timestamp: 1_700_000_000_001,
        born_host: "10.0.0.7:50123".parse().unwrap(),
        store_timestamp: 1_700_000_000_002,
        store_host: "192.168.1.10:10911".parse().unwrap(),
        reconsume_times: 2,
        prepared_transaction_offset: 77,
        body: "hello".into(),
        topic: topic.into(),
        properties: "TAGS\u{1}TagA\u{2}".into(),
    }
}

fn encoded(record: &MessageRecord) -> BytesMut {
    let mut out = BytesMut::new();
    assert_eq!(encode(record, &mut out), Ok(record.encoded_len()));
    assert_eq!(out.len(), record.encoded_len());
    out
}

#[test]
fn both_versions_and_all_host_families_round_trip() {
    let v4: SocketAddr = "10.0.0.7:50123".parse().unwrap();
    let v6: SocketAddr = "[2001:db8::7]:50123".parse().unwrap();
    for topic in ["T", &"t".repeat(127), &"t".repeat(128)] {
        for (born, store) in [(v4, v4), (v4, v6), (v6, v4), (v6, v6)] {
            let mut record = record(topic);
            record.born_host = born;
            record.store_host = store;
            record.sys_flag = record.wire_flag();
            let bytes = encoded(&record);
            assert_eq!(decode(&bytes), Ok(record));
            let view = RecordView::parse(&bytes).unwrap();
            assert_eq!(view.magic(), if topic.len() > 127 { MAGIC_V2 } else { MAGIC_V1 });
            assert_eq!(view.topic(), topic);
            assert_eq!((view.born_host(), view.store_host()), (born, store));
            assert_eq!(view.property("TAGS").as_deref(), Some("TagA"));
            assert!(view.crc_matches());
        }
    }
}

#[test]
fn the_family_bits_are_set_from_the_hosts() {
    let mut record = record("T");
    record.sys_flag = sys_flag::BORN_HOST_V6 | sys_flag::COMPRESSED;
    record.store_host = "[::1]:1".parse().unwrap();
    let bytes = encoded(&record);
    let view = RecordView::parse(&bytes).unwrap();
    assert_eq!(view.sys_flag(), sys_flag::STORE_HOST_V6 | sys_flag::COMPRESSED);
}

#[test]
fn a_stamp_changes_three_fields_and_nothing_else() {
    for born in ["10.0.0.7:1", "[::7]:1"] {
        let mut record = record("T");
        record.born_host = born.parse().unwrap();
        record.sys_flag = record.wire_flag();
        let mut bytes = encoded(&record);
        stamp(&mut bytes, 5, 6, 7);
        let expected =
            MessageRecord { queue_offset: 5, physical_offset: 6, store_timestamp: 7, ..record };
        assert_eq!(decode(&bytes), Ok(expected));
    }
}

#[test]
fn every_cut_and_every_wrong_length_is_noticed() {
    let bytes = encoded(&record("Topic"));
    for length in 0..bytes.len() {
        assert!(RecordView::parse(&bytes[..length]).is_err(), "{length}");
    }
    let at_body = 84;
    for (at, value) in [(at_body, 0xFF), (at_body + 3, 6), (at_body + 9, 0xFF), (at_body + 9, 4)] {
        let mut wrong = bytes.clone();
        wrong[at] = value;
        assert!(RecordView::parse(&wrong).is_err(), "{at} {value}");
    }
}

#[test]
fn marks_and_sizes_are_checked() {
    let mut bytes = encoded(&record("Topic"));
    bytes[at::MAGIC..at::MAGIC + 4].copy_from_slice(&MAGIC_BLANK.to_be_bytes());
    assert_eq!(decode(&bytes), Err(RecordError::Magic(MAGIC_BLANK)));
    assert_eq!(decode(&[0; 64]), Err(RecordError::Magic(0)));
    let mut bytes = encoded(&record("Topic"));
    bytes[..4].copy_from_slice(&(-5i32).to_be_bytes());
    assert_eq!(decode(&bytes), Err(RecordError::Size(-5)));
}

#[test]
fn records_follow_each_other_until_the_first_fault() {
    let mut bytes = encoded(&record("A"));
    encode(&record("B"), &mut bytes).unwrap();
    let topics: Vec<_> = records(&bytes).map(|view| view.unwrap().topic()).collect();
    assert_eq!(topics, ["A", "B"]);
    bytes.put_i32(3);
    let last = records(&bytes).last().unwrap().unwrap_err();
    assert_eq!(last, RecordError::Truncated("magic"));
    assert_eq!(records(&bytes).count(), 3);
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_written() {
    let mut out = BytesMut::new();
    let mut long = record(&"t".repeat(40_000));
    assert!(matches!(encode(&long, &mut out), Err(RecordError::TooLong { field: "topic", .. })));
    long = record("T");
    long.properties = "p".repeat(MAX_LENGTH + 1);
    let error = encode(&long, &mut out);
    assert!(matches!(error, Err(RecordError::TooLong { field: "properties", .. })));
    assert!(out.is_empty());
}

#[test]
fn properties_that_are_not_utf8_are_replaced() {
    let mut bytes = encoded(&record("T"));
    let last = bytes.len() - 2;
    bytes[last] = 0xFF;
    let view = RecordView::parse(&bytes).unwrap();
    assert_eq!(view.property("TAGS").as_deref(), Some("Tag\u{FFFD}"));
}
