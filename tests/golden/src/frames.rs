//! Every recorded frame decodes to what the recorder saw, and encodes back.

use bytes::BytesMut;
use protocol::{Command, ExtFields, HeaderEncoding, frame};
use serde_json::Value;

use crate::data::recorded;

fn encode(command: &Command) -> BytesMut {
    let mut out = BytesMut::new();
    frame::encode(command, &mut out);
    out
}

#[test]
fn all_pairs_decode_to_what_was_recorded() {
    let frames = recorded();
    assert_eq!(frames.iter().filter(|frame| !frame.is_response).count(), 172);
    for recorded in frames {
        let command = recorded.command();
        let code =
            if recorded.is_response { recorded.response_code.unwrap() } else { recorded.code };
        assert_eq!(command.code, code, "{recorded}");
        assert_eq!(command.is_response(), recorded.is_response, "{recorded}");
        assert_eq!(command.remark.as_deref(), recorded.header["remark"].as_str(), "{recorded}");
        match recorded.header.get("extFields").and_then(Value::as_object) {
            None => assert!(command.ext_fields.is_none_or(|f| f.is_empty()), "{recorded}"),
            Some(fields) => {
                // An empty value of the binary form is an absent field, to Java as well.
                let binary = command.encoding == HeaderEncoding::RocketMq;
                let mut present = 0;
                for (name, value) in fields {
                    let value = value.as_str().filter(|value| !binary || !value.is_empty());
                    assert_eq!(command.field(name), value, "{recorded}: {name}");
                    present += usize::from(value.is_some());
                }
                let read = command.ext_fields.as_ref().map_or(0, ExtFields::len);
                assert_eq!(read, present, "{recorded}");
            }
        }
    }
}

#[test]
fn all_frames_encode_back_to_the_same_command() {
    for recorded in recorded() {
        let command = recorded.command();
        let mut bytes = encode(&command);
        let back = frame::decode(&mut bytes, frame::DEFAULT_LIMIT).unwrap().unwrap();
        assert_eq!(back, command, "{recorded}");
    }
}

#[test]
fn frames_of_java_encode_back_to_the_same_bytes() {
    let mut same = 0;
    for recorded in recorded() {
        let command = recorded.command();
        if recorded.client == "go" && !recorded.is_response {
            continue;
        }
        let binary = command.encoding == HeaderEncoding::RocketMq;
        let empty = recorded.header["extFields"]
            .as_object()
            .is_some_and(|fields| fields.values().any(|value| value == ""));
        // An empty value of the binary form was not read, so it is not written.
        if !(binary && empty) {
            assert_eq!(encode(&command), recorded.bytes, "{recorded}");
            same += 1;
        }
    }
    assert!(same > 280, "{same}");
}

#[test]
fn frames_of_go_differ_in_the_order_of_keys_only() {
    for recorded in recorded() {
        if recorded.client != "go" || recorded.is_response {
            continue;
        }
        let header = |bytes: &[u8]| -> Value {
            let end = 8 + usize::from(u16::from_be_bytes([bytes[6], bytes[7]]));
            serde_json::from_slice(&bytes[8..end]).unwrap()
        };
        let bytes = encode(&recorded.command());
        let mut ours = header(&bytes);
        ours.as_object_mut().unwrap().remove("serializeTypeCurrentRPC");
        assert_eq!(ours, header(&recorded.bytes), "{recorded}");
    }
}

#[test]
fn both_header_encodings_occur() {
    let binary = recorded()
        .iter()
        .filter(|recorded| recorded.command().encoding == HeaderEncoding::RocketMq)
        .count();
    assert!(binary >= 5, "{binary}");
}
