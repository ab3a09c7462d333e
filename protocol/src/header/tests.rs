use super::*;
use crate::{Command, code::request};

fn fields(pairs: &[(&'static str, &'static str)]) -> ExtFields {
    pairs.iter().copied().collect()
}

#[test]
fn required_optional_and_defaulted_fields() {
    let error = GetMaxOffsetRequest::decode(&fields(&[("topic", "t")]));
    assert_eq!(error, Err(HeaderError::Missing("queueId")));
    let read = GetMaxOffsetRequest::decode(&fields(&[("topic", "t"), ("queueId", "3")])).unwrap();
    let expected = GetMaxOffsetRequest { topic: "t".into(), queue_id: 3, committed: true };
    assert_eq!(read, expected);
    let mut out = ExtFields::new();
    read.encode(&mut out);
    assert_eq!(out, fields(&[("topic", "t"), ("queueId", "3"), ("committed", "true")]));
}

#[test]
fn a_value_of_the_wrong_type_is_named() {
    let error = GetMinOffsetRequest::decode(&fields(&[("topic", "t"), ("queueId", "notanumber")]))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "header field `queueId` is \"notanumber\", which is not a 32-bit decimal number"
    );
}

#[test]
fn empty_numbers_are_absent_and_empty_texts_are_not() {
    let read = GetConsumeStatsRequest::decode(&fields(&[("consumerGroup", "g"), ("topic", "")]));
    assert_eq!(read.unwrap().topic.as_deref(), Some(""));
    let read = GetAllTopicConfigRequest::decode(&fields(&[("topicSeq", "")]));
    assert_eq!(read.unwrap().topic_seq, None);
}

#[test]
fn booleans_are_javas() {
    for (text, value) in [("true", true), ("TRUE", true), ("1", false), ("yes", false)] {
        let read = GetTopicConfigRequest::decode(&fields(&[("topic", "t"), ("lo", text)]));
        assert_eq!(read.unwrap().lo, Some(value), "{text}");
    }
}

#[test]
fn a_command_without_fields_reads_as_all_absent() {
    let command = Command::request(request::GET_ALL_TOPIC_CONFIG);
    assert_eq!(command.header(), Ok(GetAllTopicConfigRequest::default()));
    let error = command.header::<GetMinOffsetRequest>();
    assert_eq!(error, Err(HeaderError::Missing("topic")));
}

#[test]
fn an_empty_header_leaves_an_empty_map() {
    let command = Command::request(15).response(0).with_header(&UpdateConsumerOffsetResponse {});
    assert_eq!(command.ext_fields, Some(ExtFields::new()));
}

#[test]
fn the_send_header_has_two_spellings() {
    let header = SendMessageRequest {
        producer_group: "g".into(),
        topic: "t".into(),
        default_topic: "TBW102".into(),
        default_topic_queue_nums: 4,
        queue_id: -1,
        batch: Some(true),
        ..SendMessageRequest::default()
    };
    for code in [request::SEND_MESSAGE, request::SEND_MESSAGE_V2, request::SEND_BATCH_MESSAGE] {
        let mut out = ExtFields::new();
        header.encode_for(code, &mut out);
        let (topic, other) = match code {
            request::SEND_MESSAGE => ("topic", "b"),
            _ => ("b", "topic"),
        };
        assert_eq!((out.get(topic), out.get(other)), (Some("t"), None));
        assert_eq!(SendMessageRequest::decode_for(code, &out).unwrap(), header);
    }
}
