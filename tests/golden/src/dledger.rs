//! Frames and state files of DLedger.

use bytes::{BufMut, BytesMut};
use protocol::{frame, json, properties_text};
use serde_json::Value;

use crate::data::file;

#[test]
fn rpc_frames_are_remoting_frames_with_json_bodies() {
    let text = String::from_utf8(file("dledger-rpc-frames.jsonl")).unwrap();
    let mut frames = 0;
    for line in text.lines() {
        let captured: Value = serde_json::from_str(line).unwrap();
        let header = captured["header_text"].as_str().unwrap();
        let body = captured["body_text"].as_str().unwrap();
        let mut buffer = BytesMut::new();
        buffer.put_u32(u32::try_from(4 + header.len() + body.len()).unwrap());
        buffer.put_u32(u32::try_from(header.len()).unwrap());
        buffer.put_slice(header.as_bytes());
        buffer.put_slice(body.as_bytes());
        let whole = buffer.clone();
        let command = frame::decode(&mut buffer, frame::DEFAULT_LIMIT).unwrap().unwrap();
        assert_eq!(i64::from(command.code), captured["header"]["code"], "{line}");
        assert_eq!(i64::from(command.opaque), captured["header"]["opaque"], "{line}");
        assert_eq!(command.is_response(), captured["dir"] == "response", "{line}");
        let mut again = BytesMut::new();
        frame::encode(&command, &mut again);
        assert_eq!(again, whole, "{line}");
        // Long bodies were cut by the recorder.
        if captured["frame_len_field"].as_u64() == u64::try_from(whole.len() - 4).ok() {
            let value = json::parse(&command.body).unwrap();
            // Answers of a node that is not ready name no group; all have a code and a term.
            for name in ["code", "term"] {
                assert!(value.get(name).is_some_and(|v| v.to_i64().is_some()), "{name}: {line}");
            }
        }
        frames += 1;
    }
    assert_eq!(frames, 18);
}

#[test]
fn state_files_are_properties() {
    let read = |name: &str| {
        let text = String::from_utf8(file(name)).unwrap();
        properties_text::parse(&text).unwrap()
    };
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(read("dledger-currterm.txt"), [pair("voteLeader", "n2"), pair("currTerm", "5")]);
    let expected = [pair("committedIndex", "466"), pair("endIndex", "466")];
    assert_eq!(read("dledger-checkpoint.txt"), expected);
}
