//! Records and tables of a Java store.

use bytes::BytesMut;
use protocol::{
    body::{
        ConsumerOffsetSerializeWrapper, DelayOffsetSerializeWrapper,
        MessageRequestModeSerializeWrapper, SubscriptionGroupWrapper, TopicConfigSerializeWrapper,
    },
    message::{
        properties::key,
        record::{self, MAGIC_V1, MAGIC_V2, RecordError, RecordView},
        tags::tags_code,
    },
};

use crate::data::file;

/// The records at the front of a file, up to the first thing that is none.
fn leading<'a>(bytes: &'a [u8]) -> Vec<RecordView<'a>> {
    record::records(bytes).map_while(Result::ok).collect()
}

fn assert_encodes_back(view: &RecordView<'_>) {
    let mut out = BytesMut::new();
    let length = record::encode(&view.to_record(), &mut out).unwrap();
    assert_eq!(length, view.total_size());
    assert_eq!(out, view.bytes());
    assert!(view.crc_matches());
}

#[test]
fn both_record_versions_and_host_families_are_read() {
    let bytes = file("vec-commitlog-v1-v2-ipv6-crc32.bin");
    let views = leading(&bytes);
    let sizes: Vec<_> = views.iter().map(RecordView::total_size).collect();
    assert_eq!(sizes, [149, 161, 282, 173]);
    assert_eq!(sizes.iter().sum::<usize>(), bytes.len());
    let magics: Vec<_> = views.iter().map(RecordView::magic).collect();
    assert_eq!(magics, [MAGIC_V1, MAGIC_V1, MAGIC_V2, MAGIC_V1]);
    let families: Vec<_> =
        views.iter().map(|v| (v.born_host().is_ipv6(), v.store_host().is_ipv6())).collect();
    assert_eq!(families, [(false, false), (true, false), (false, false), (true, true)]);
    assert_eq!(views[2].topic().len(), 140);
    for view in &views {
        assert_encodes_back(view);
    }
}

#[test]
fn the_checksum_property_covers_the_record() {
    for view in leading(&file("vec-commitlog-v1-v2-ipv6-crc32.bin")) {
        let covered = &view.bytes()[..view.total_size() - 20];
        let digits = format!("{:010}", record::body_crc(covered));
        let reversed: String = digits.chars().rev().collect();
        assert_eq!(view.property(key::CRC32).as_deref(), Some(reversed.as_str()));
    }
}

#[test]
fn a_classic_commit_log_is_read_record_by_record() {
    let bytes = file("plain-commitlog-head.bin");
    let views = leading(&bytes);
    assert!(views.len() > 10, "{}", views.len());
    let mut position = 0;
    for view in &views {
        assert_eq!(view.physical_offset(), position);
        position += i64::try_from(view.total_size()).unwrap();
        assert_encodes_back(view);
    }
    let first = views.iter().find(|view| view.topic() == "PlNormal").unwrap();
    assert!(first.body().starts_with(b"hello "));
    // The sample ends within a record.
    let last = record::records(&bytes).last().unwrap();
    assert_eq!(last.unwrap_err(), RecordError::Truncated("totalSize"));
}

#[test]
fn the_blank_at_the_end_of_a_file_is_no_record() {
    let bytes = file("plain-commitlog-tail-eof.bin");
    let error = RecordView::parse(&bytes[5380..]).unwrap_err();
    assert_eq!(error, RecordError::Magic(record::MAGIC_BLANK));
    assert_eq!(&bytes[5380..5384], [0, 0, 0x0a, 0xfc]);
}

/// The entries of a DLedger data file: position in the sample, log position, body.
fn entries(bytes: &[u8]) -> Vec<(usize, u64, &[u8])> {
    let mut entries = Vec::new();
    let mut at = 0;
    while let Some(header) = bytes.get(at..at + 48) {
        let size = u32::from_be_bytes(header[4..8].try_into().unwrap());
        let position = u64::from_be_bytes(header[24..32].try_into().unwrap());
        let Some(body) = bytes.get(at + 48..at + usize::try_from(size).unwrap()) else {
            break;
        };
        entries.push((at, position, body));
        at += 48 + body.len();
    }
    entries
}

#[test]
fn dledger_entries_hold_one_record_each() {
    let files =
        [("dledger-data-file0-head.bin", 0, 15), ("dledger-data-file1-head.bin", 1_048_576, 2)];
    for (name, start, least) in files {
        let bytes = file(name);
        let entries = entries(&bytes);
        assert!(entries.len() >= least, "{name}: {}", entries.len());
        for (at, position, body) in entries {
            assert_eq!(position, start + u64::try_from(at).unwrap(), "{name}");
            let view = RecordView::parse(body).unwrap();
            assert_eq!(view.total_size(), body.len(), "{name} at {at}");
            let physical = u64::try_from(view.physical_offset()).unwrap();
            assert_eq!(physical, position + 48, "{name} at {at}");
            assert_encodes_back(&view);
        }
    }
}

#[test]
fn the_first_dledger_record_has_known_values() {
    let bytes = file("dledger-data-file0-head.bin");
    let view = RecordView::parse(&bytes[48..]).unwrap();
    assert_eq!((view.total_size(), view.physical_offset()), (279, 48));
    assert_eq!(tags_code(&view.property(key::TAGS).unwrap()), 2_598_919);
    let id = protocol::message::id::offset_message_id(view.store_host(), view.physical_offset());
    assert_eq!(id, "7F000001000078BF0000000000000030");
}

#[test]
fn a_stamp_makes_the_record_that_java_wrote() {
    let bytes = file("dledger-data-file0-head.bin");
    for (_, _, body) in entries(&bytes) {
        let view = RecordView::parse(body).unwrap();
        let mut record = view.to_record();
        (record.queue_offset, record.physical_offset, record.store_timestamp) = (0, 0, 0);
        let mut out = BytesMut::new();
        record::encode(&record, &mut out).unwrap();
        let (queue, physical) = (view.queue_offset(), view.physical_offset());
        record::stamp(&mut out, queue, physical, view.store_timestamp());
        assert_eq!(out, body);
    }
}

#[test]
fn configuration_tables_are_read() {
    let topics = TopicConfigSerializeWrapper::decode(&file("topics.json")).unwrap();
    assert_eq!(topics.data_version.counter, 9);
    let topic = &topics.topic_config_table["PlBcq"];
    assert_eq!(topic.attributes["queue.type"], "BatchCQ");
    assert_eq!(topics.topic_config_table["SCHEDULE_TOPIC_XXXX"].read_queue_nums, 18);
    let again = TopicConfigSerializeWrapper::decode(&topics.encode()).unwrap();
    assert_eq!(again, topics);

    let groups = SubscriptionGroupWrapper::decode(&file("subscriptionGroup.json")).unwrap();
    assert_eq!(groups.subscription_group_table["PlGroup"].retry_max_times, 16);
    assert_eq!(SubscriptionGroupWrapper::decode(&groups.encode()).unwrap(), groups);

    let offsets = ConsumerOffsetSerializeWrapper::decode(&file("consumerOffset.json")).unwrap();
    assert_eq!(offsets.offset_table["PlNormal@PlGroup"][&0], 20);
    assert_eq!(offsets.offset_table["PlNormal@PlGroup"][&1], 19);
    assert_eq!(ConsumerOffsetSerializeWrapper::decode(&offsets.encode()).unwrap(), offsets);

    let delays = DelayOffsetSerializeWrapper::decode(&file("delayOffset.json")).unwrap();
    assert_eq!(delays.offset_table.into_iter().collect::<Vec<_>>(), [(2, 1), (3, 8), (18, 0)]);

    let modes = MessageRequestModeSerializeWrapper::decode(&file("messageRequestMode.json"));
    assert!(modes.unwrap().message_request_mode_map.is_empty());
}

#[test]
fn every_other_table_is_json_as_fastjson_reads_it() {
    let names = [
        "consumerFilter.json",
        "consumerOrderInfo.json",
        "topicQueueMapping.json",
        "timermetrics",
        "transactionMetrics",
    ];
    for name in names {
        let value = protocol::json::parse(&file(name)).unwrap();
        assert!(value.entries().is_some_and(|entries| !entries.is_empty()), "{name}");
    }
}
