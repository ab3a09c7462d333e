//! Requests that no sound client sends: each is answered, and the broker goes on.

use bytes::Bytes;
use protocol::{Command, ExtFields, code::request};

use crate::fixture::{Fixture, field};

/// Names of header fields that some request reads.
const NAMES: &[&str] = &[
    "topic",
    "queueId",
    "consumerGroup",
    "group",
    "groupName",
    "producerGroup",
    "offset",
    "queueOffset",
    "maxMsgNums",
    "sysFlag",
    "commitOffset",
    "suspendTimeoutMillis",
    "subVersion",
    "timestamp",
    "key",
    "maxNum",
    "beginTimestamp",
    "endTimestamp",
    "delayLevel",
    "clientID",
    "clientId",
    "readQueueNums",
    "writeQueueNums",
    "perm",
    "topicSeq",
    "groupSeq",
    "statsName",
    "statsKey",
    "isOrder",
    "index",
    "count",
    "msgId",
    "srcGroup",
    "destGroup",
    "compareGroup",
    "defaultTopic",
    "defaultTopicQueueNums",
    "bornTimestamp",
    "flag",
    "a",
    "b",
    "c",
    "d",
    "e",
    "f",
    "g",
    "h",
    "i",
    "j",
    "m",
    "batch",
];

fn fields(value: &str) -> ExtFields {
    NAMES.iter().map(|name| (*name, value.to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_code_answers_whatever_it_gets() {
    let fixture = Fixture::new().await;
    let long = "x".repeat(100_000);
    let values = ["abc", "2147483648", "-1", "", "0", "%RETRY%", "\u{1}\u{2}", &long];
    let bodies: [&[u8]; 4] = [b"", b"{", b"[1,{\"a\":[]}]", b"\xff\x00\x00\x00\x7f"];
    for (code, name) in request::ALL {
        for body in bodies {
            for value in values {
                let mut command = Command::request(*code).with_body(Bytes::from_static(body));
                command.ext_fields = Some(fields(value));
                let answer = fixture.ask(command).await;
                assert!(answer.is_response(), "{name}: {answer:?}");
            }
            fixture.ask(Command::request(*code).with_body(Bytes::from_static(body))).await;
        }
    }
    let answer = fixture.sent("T", "alive", "").await;
    assert_eq!(field(&answer, "queueOffset"), "0");
}
