use bytes::{BufMut, Bytes, BytesMut};
use protocol::{Command, frame};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use dledger_core::{EntryId, LogIndex, Message, PushKind, Term, VoteAnswer};

use super::{
    body::{
        AppendBody, Base, GetBody, GetReplyBody, PushBody, PushReplyBody, TransferBody, VoteBody,
        VoteReplyBody,
    },
    capability::Own,
    json,
    message::{Form, decode_reply, decode_request, encode_request},
    request,
};

/// Frames between Java members of DLedger 0.3.1.2.
const FRAMES: &str = include_str!("../../tests/data/dledger-rpc-frames.jsonl");

fn captured() -> Vec<(Value, Command)> {
    let mut commands = Vec::new();
    for line in FRAMES.lines() {
        let captured: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| captured[name].as_str().unwrap();
        let (header, body) = (text("header_text"), text("body_text"));
        let mut buffer = BytesMut::new();
        buffer.put_u32(u32::try_from(4 + header.len() + body.len()).unwrap());
        buffer.put_u32(u32::try_from(header.len()).unwrap());
        buffer.put_slice(header.as_bytes());
        buffer.put_slice(body.as_bytes());
        let whole = captured["frame_len_field"].as_u64();
        assert_eq!(whole, u64::try_from(buffer.len() - 4).ok(), "cut by the recorder: {line}");
        let command = frame::decode(&mut buffer, frame::DEFAULT_LIMIT).unwrap().unwrap();
        commands.push((captured, command));
    }
    commands
}

fn again<T: DeserializeOwned + Serialize>(body: &[u8]) -> String {
    let read: T = json::read(body).unwrap();
    String::from_utf8(json::write(&read)).unwrap()
}

#[test]
fn bodies_of_java_come_back_byte_for_byte() {
    let mut seen = std::collections::BTreeMap::new();
    for (captured, command) in captured() {
        let text = captured["body_text"].as_str().unwrap();
        let kind = match (command.is_response(), command.code) {
            (false, request::VOTE) => "vote",
            (false, request::HEART_BEAT) => "heartbeat",
            (false, request::PUSH) => "push",
            (false, request::LEADERSHIP_TRANSFER) => "transfer",
            _ if text.contains("voteResult") => "vote reply",
            _ if text.contains("endIndex") => "push reply",
            _ => "heartbeat reply",
        };
        let body = &command.body;
        let written = match kind {
            "vote" => again::<VoteBody>(body),
            "vote reply" => again::<VoteReplyBody>(body),
            "push" => again::<PushBody>(body),
            "push reply" => again::<PushReplyBody>(body),
            "transfer" => again::<TransferBody>(body),
            _ => again::<Base>(body),
        };
        assert_eq!(written, text);
        *seen.entry(kind).or_insert(0) += 1;
    }
    let expected = [
        ("heartbeat", 1),
        ("heartbeat reply", 2),
        ("push", 5),
        ("push reply", 3),
        ("transfer", 1),
        ("vote", 1),
        ("vote reply", 5),
    ];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn what_is_absent_has_javas_default() {
    let vote: VoteBody = json::read(b"{}").unwrap();
    let VoteBody { code, ledger_end_index, ledger_end_term, term, .. } = vote;
    assert_eq!((code, ledger_end_index, ledger_end_term, term), (200, -1, -1, -1));
    let reply: PushReplyBody = json::read(b"{\"code\":405}").unwrap();
    assert_eq!((reply.begin_index, reply.end_index, reply.index), (-1, -1, None));
    let get: GetReplyBody = json::read(b"{\"entries\":null}").unwrap();
    assert!(get.entries.is_empty());
}

#[test]
fn loosely_written_bodies_are_read_as_fastjson_reads_them() {
    let text = br#"{ 'group':"g", term : "7", ledgerEndIndex:null, "new":{"x":[1]}, "code":200, }"#;
    let vote: VoteBody = json::read(text).unwrap();
    assert_eq!((vote.group.as_deref(), vote.term, vote.ledger_end_index), (Some("g"), 7, -1));
}

#[test]
fn what_no_json_is_and_what_is_too_deep_is_refused() {
    let deep = format!("{{\"group\":{}", "[".repeat(100_000));
    let long = format!("{{'group':'{}'}}", "x".repeat(2 << 20));
    for text in ["", "{", "[1]", "{\"term\":\"x\"}", deep.as_str(), long.as_str()] {
        let error = json::read::<VoteBody>(text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("body is not the JSON"), "{error}");
    }
    let error = json::read::<PushBody>(b"{\"entry\":{\"body\":\"no base64!\"}}").unwrap_err();
    assert!(error.to_string().contains("not the JSON"), "{error}");
}

#[test]
fn an_append_of_a_java_client_is_read() {
    let text = br#"{"body":"SGVsbG8=","code":200,"group":"g","remoteId":"n0","term":-1}"#;
    let append: AppendBody = json::read(text).unwrap();
    assert_eq!(append.body.as_ref().unwrap().0, Bytes::from_static(b"Hello"));
    assert_eq!(json::write(&append), text);
    let text = br#"{"batchMsgs":["YQ==","YmM="],"code":200,"group":"g","remoteId":"n0","term":-1}"#;
    let batch: AppendBody = json::read(text).unwrap();
    assert_eq!(batch.batch_msgs.as_ref().unwrap().len(), 2);
    assert_eq!(json::write(&batch), text);
    let get: GetBody = json::read(br#"{"beginIndex":5,"maxSize":0,"group":"g"}"#).unwrap();
    assert_eq!(get.begin_index, Some(5));
}

#[test]
fn pushes_of_java_become_messages_and_the_same_bytes_again() {
    let mut kinds = Vec::new();
    for (captured, command) in captured() {
        if command.is_response() || command.code != request::PUSH {
            continue;
        }
        let asked = decode_request(&command).unwrap();
        let Message::Push(push) = &asked.message else { panic!("{asked:?}") };
        kinds.push(push.kind.name().java_name());
        let entries: Vec<Bytes> = asked.entries.clone().into_iter().collect();
        let written =
            encode_request(&asked.ids, Form::Java, &asked.message, &entries, &Own::default());
        let text = captured["body_text"].as_str().unwrap();
        // Java always writes a batch as one where it was asked to; ours has one of one entry alone.
        if text.contains("\"batch\":true") {
            continue;
        }
        assert_eq!(written.unwrap().body, text.as_bytes());
    }
    assert_eq!(kinds, ["COMPARE", "COMMIT", "APPEND", "TRUNCATE", "APPEND"]);
}

#[test]
fn votes_of_java_are_read_with_their_answers() {
    let frames = captured();
    let (_, vote) = &frames[0];
    let asked = decode_request(vote).unwrap();
    let Message::Vote(request) = &asked.message else { panic!("{asked:?}") };
    assert_eq!(request.last, Some(EntryId { term: Term(1), index: LogIndex(73) }));
    assert!(!request.pre_vote && !request.transfer && asked.own.is_none());
    assert_eq!((asked.ids.from.as_str(), asked.ids.to.as_str()), ("n2", "n0"));
    let mut answers = Vec::new();
    for (_, command) in frames.iter().filter(|(_, command)| command.is_response()) {
        if let Ok(answer) = decode_reply(&asked.message, Form::Java, &command.body)
            && let Message::VoteReply(reply) = answer.message
            && reply.answer != VoteAnswer::Unknown
        {
            assert_eq!(reply.request_term, request.term);
            answers.push((reply.term.0, reply.answer));
        }
    }
    let expected = [
        (1, VoteAnswer::RejectAlreadyVoted),
        (1, VoteAnswer::RejectTermNotReady),
        (2, VoteAnswer::Accept),
        (2, VoteAnswer::RejectExpiredVoteTerm),
        (3, VoteAnswer::RejectExpiredLedgerTerm),
    ];
    assert_eq!(answers, expected);
}

#[test]
fn a_transfer_of_java_is_read() {
    let frames = captured();
    let (_, command) = frames.iter().find(|(_, c)| c.code == request::LEADERSHIP_TRANSFER).unwrap();
    let asked = decode_request(command).unwrap();
    let Message::Transfer(transfer) = &asked.message else { panic!("{asked:?}") };
    assert_eq!((transfer.transferee.0.as_str(), transfer.index), ("n1", Some(LogIndex(80))));
}

#[test]
fn entries_that_make_no_sense_are_refused() {
    for (kind, entry) in [
        ("COMPARE", ""),
        ("TRUNCATE", ""),
        ("APPEND", ""),
        ("OTHER", ""),
        ("APPEND", r#","entry":{"body":"AAA=","index":1,"magic":1,"pos":0,"size":51,"term":1}"#),
        ("APPEND", r#","entry":{"body":"AAA=","index":-1,"magic":1,"pos":0,"size":50,"term":1}"#),
    ] {
        let body = format!(r#"{{"group":"g","localId":"n1","term":1,"type":"{kind}"{entry}}}"#);
        let command = Command::request(request::PUSH).with_body(body.into_bytes());
        assert!(decode_request(&command).is_err(), "{kind} {entry}");
    }
    let body = r#"{"group":"g","term":1,"type":"COMMIT","commitIndex":7}"#;
    let commit = decode_request(&Command::request(request::PUSH).with_body(body)).unwrap();
    let Message::Push(push) = commit.message else { panic!("{body}") };
    assert_eq!((push.kind, push.commit), (PushKind::Commit, Some(LogIndex(7))));
}
