//! Transactions: half messages, codes 37 and 323, and what the broker asks by 39.

use std::time::Duration;

use protocol::{
    Command,
    code::{request, response},
    header::{
        CheckTransactionStateRequest, EndTransactionRequest, QueryConsumerOffsetRequest,
        ResumeCheckHalfMessageRequest,
    },
    message::{
        id::{offset_message_id, parse_offset_message_id},
        properties,
        record::MessageRecord,
        record::decode,
    },
};
use tokio::time::Instant;

use crate::{
    fixture::{Fixture, LIMIT, field},
    peer::Peer,
};

pub(crate) const HALF: &str =
    "TRAN_MSG\u{1}true\u{2}PGROUP\u{1}P\u{2}UNIQ_KEY\u{1}U1\u{2}TAGS\u{1}a\u{2}";
const HALF_TOPIC: &str = "RMQ_SYS_TRANS_HALF_TOPIC";
const OP_TOPIC: &str = "RMQ_SYS_TRANS_OP_HALF_TOPIC";
const GIVEN_UP: &str = "TRANS_CHECK_MAX_TIME_TOPIC";
pub(crate) const COMMIT: i32 = 8;
const ROLLBACK: i32 = 12;

/// Half messages are not too old, though their born time is long ago.
const CALM: &str = "fileReservedTime=1000000\n";

/// Checks come at once, and for ever.
pub(crate) const EAGER: &str =
    "fileReservedTime=1000000\ntransactionCheckInterval=50\ntransactionCheckMax=1000000\n";

/// What a producer says at the end, of the half message that an answer names.
pub(crate) fn end_of(answer: &Command, end: i32) -> EndTransactionRequest {
    let (_, physical) = parse_offset_message_id(field(answer, "msgId")).expect("an id");
    EndTransactionRequest {
        topic: Some("T".into()),
        producer_group: "P".into(),
        tran_state_table_offset: field(answer, "queueOffset").parse().expect("a number"),
        commit_log_offset: physical,
        commit_or_rollback: end,
        from_transaction_check: false,
        msg_id: "U1".into(),
        transaction_id: Some("U1".into()),
    }
}

pub(crate) fn request(end: &EndTransactionRequest) -> Command {
    Command::request_with(request::END_TRANSACTION, end)
}

/// What a producer answers to a question.
pub(crate) fn answer_to(question: &Command, end: i32) -> EndTransactionRequest {
    let asked: CheckTransactionStateRequest = question.header().expect("its header");
    EndTransactionRequest {
        topic: Some("T".into()),
        producer_group: "P".into(),
        tran_state_table_offset: asked.tran_state_table_offset,
        commit_log_offset: asked.commit_log_offset,
        commit_or_rollback: end,
        from_transaction_check: true,
        msg_id: asked.msg_id.unwrap_or_default(),
        transaction_id: asked.transaction_id,
    }
}

async fn ended(fixture: &Fixture, end: &EndTransactionRequest) -> Command {
    fixture.ask(request(end)).await
}

pub(crate) fn refused(answer: &Command, code: i32, text: &str) {
    assert_eq!(answer.code, code, "{:?}", answer.remark);
    let remark = answer.remark.as_deref().unwrap_or_default();
    assert!(remark.contains(text), "{remark:?} does not say {text:?}");
}

/// Bodies in a topic's first queue, whatever comes within a moment.
async fn bodies(fixture: &Fixture, topic: &str) -> Vec<String> {
    let answer = fixture.pull(topic, 0, 0).await;
    let body = |record: MessageRecord| String::from_utf8_lossy(&record.body).into_owned();
    if answer.code == 0 {
        crate::fixture::records(&answer).into_iter().map(body).collect()
    } else {
        vec![]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_message_becomes_visible_once_by_its_commit() {
    let fixture = Fixture::with(CALM).await;
    let sent = fixture.sent("T", "m", HALF).await;
    assert_eq!((field(&sent, "queueOffset"), field(&sent, "transactionId")), ("0", "U1"));
    let half = fixture.messages(HALF_TOPIC, 1, 1).await.remove(0);
    assert_eq!(half.sys_flag, 0);
    let kept = properties::decode(&half.properties);
    assert_eq!((kept.get("REAL_TOPIC"), kept.get("REAL_QID")), (Some("T"), Some("0")));
    assert_eq!(kept.get("__transactionId__"), Some("U1"));
    assert_eq!(bodies(&fixture, "T").await, [""; 0], "before its end");

    let end = end_of(&sent, COMMIT);
    let answer = ended(&fixture, &end).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    let message = fixture.messages("T", 1, 1).await.remove(0);
    assert_eq!((message.sys_flag, message.queue_offset), (COMMIT, 0));
    assert_eq!(message.prepared_transaction_offset, end.commit_log_offset);
    assert_eq!(message.born_timestamp, half.born_timestamp);
    let kept = properties::decode(&message.properties);
    assert_eq!((kept.get("UNIQ_KEY"), kept.get("TAGS")), (Some("U1"), Some("a")));
    assert_eq!((kept.get("REAL_TOPIC"), kept.get("TRAN_MSG")), (None, Some("true")));
    let op = fixture.messages(OP_TOPIC, 1, 1).await.remove(0);
    assert_eq!((&op.body[..], op.properties.as_str()), (&b"0"[..], "TAGS\u{1}d\u{2}"));
    assert_eq!(
        op.physical_offset,
        message.physical_offset + i64::try_from(message.encoded_len()).unwrap() + 48
    );

    for again in [COMMIT, ROLLBACK] {
        let answer =
            ended(&fixture, &EndTransactionRequest { commit_or_rollback: again, ..end.clone() })
                .await;
        refused(&answer, response::SYSTEM_ERROR, "its outcome stays");
    }
    fixture.sent("T", "next", "").await;
    assert_eq!(fixture.messages("T", 1, 2).await.len(), 2, "it is there once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_rolled_back_never_becomes_visible() {
    let fixture = Fixture::with(CALM).await;
    let sent = fixture.sent("T", "m", HALF).await;
    assert_eq!(ended(&fixture, &end_of(&sent, ROLLBACK)).await.code, 0);
    assert_eq!(fixture.messages(OP_TOPIC, 1, 1).await[0].body, "0");
    let answer = ended(&fixture, &end_of(&sent, COMMIT)).await;
    refused(&answer, response::SYSTEM_ERROR, "its outcome stays");
    fixture.sent("T", "next", "").await;
    let found = fixture.messages("T", 1, 1).await;
    assert_eq!((found.len(), &found[0].body[..]), (1, &b"next"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_is_checked_as_java_does() {
    let fixture = Fixture::with(CALM).await;
    let sent = fixture.sent("T", "m", HALF).await;
    let end = end_of(&sent, COMMIT);
    let group = EndTransactionRequest { producer_group: "Q".into(), ..end.clone() };
    refused(&ended(&fixture, &group).await, response::SYSTEM_ERROR, "The producer group wrong");
    let offset = EndTransactionRequest { tran_state_table_offset: 7, ..end.clone() };
    let text = "The transaction state table offset wrong";
    refused(&ended(&fixture, &offset).await, response::SYSTEM_ERROR, text);
    let plain = fixture.sent("T", "plain", "").await;
    for wrong in [-1, end.commit_log_offset + 1, end_of(&plain, COMMIT).commit_log_offset, i64::MAX]
    {
        let other = EndTransactionRequest { commit_log_offset: wrong, ..end.clone() };
        let text = "Find prepared transaction message failed";
        refused(&ended(&fixture, &other).await, response::SYSTEM_ERROR, text);
    }
    // It was born long ago, and its producer said how long it would take.
    let immune = format!("{HALF}CHECK_IMMUNITY_TIME_IN_SECONDS\u{1}10\u{2}");
    let late = end_of(&fixture.sent("T", "late", &immune).await, COMMIT);
    refused(&ended(&fixture, &late).await, response::ILLEGAL_OPERATION, "the broker will ask");
    let checked = EndTransactionRequest { from_transaction_check: true, ..late };
    assert_eq!(ended(&fixture, &checked).await.code, 0);

    let unknown = request(&EndTransactionRequest { commit_or_rollback: 0, ..end.clone() });
    let address = fixture.broker.address().to_string();
    let patience = Duration::from_millis(300);
    fixture.client.call(&address, unknown, patience).await.expect_err("Java gives no answer");
    assert_eq!(ended(&fixture, &end).await.code, 0, "none of these ended it");
}

#[tokio::test(flavor = "multi_thread")]
async fn half_messages_that_cannot_be_kept_are_refused() {
    let fixture = Fixture::with("rejectTransactionMessage=true\n").await;
    refused(&fixture.send("T", "m", HALF).await, response::NO_PERMISSION, "transaction message");
    let fixture = Fixture::with(CALM).await;
    let nobody = "TRAN_MSG\u{1}true\u{2}";
    refused(&fixture.send("T", "m", nobody).await, response::MESSAGE_ILLEGAL, "PGROUP");
    let long = format!("{HALF}k\u{1}{}", "v".repeat(32_500));
    refused(&fixture.send("T", "m", &long).await, response::MESSAGE_ILLEGAL, "half message");
}

#[tokio::test(flavor = "multi_thread")]
async fn producers_are_asked_in_turn_and_end_the_transaction_once() {
    let fixture = Fixture::with(EAGER).await;
    let address = fixture.broker.address().to_string();
    let (one, two) = (Peer::producer(&address, "1").await, Peer::producer(&address, "2").await);
    let sent = fixture.sent("T", "m", HALF).await;
    let question = one.heard(request::CHECK_TRANSACTION_STATE, 0).await;
    two.heard(request::CHECK_TRANSACTION_STATE, 0).await;
    assert!(question.is_oneway());
    let asked: CheckTransactionStateRequest = question.header().expect("its header");
    assert_eq!(asked.topic.as_deref(), Some(HALF_TOPIC));
    assert_eq!(asked.transaction_id.as_deref(), Some("U1"));
    assert_eq!(question.field("bname"), Some("b"));
    let record = decode(&question.body).expect("a record");
    assert_eq!((record.topic.as_str(), record.queue_id, &record.body[..]), ("T", 0, &b"m"[..]));
    assert_eq!(record.queue_offset, asked.tran_state_table_offset);
    let kept = properties::decode(&record.properties);
    assert!(kept.get("TRANSACTION_CHECK_TIMES").is_some());
    assert_eq!(kept.get("TRAN_PREPARED_QUEUE_OFFSET"), Some("0"));

    let ends = [answer_to(&question, COMMIT), end_of(&sent, COMMIT)];
    let (first, second) = tokio::join!(one.ask(request(&ends[0])), two.ask(request(&ends[1])));
    let mut codes = [first.code, second.code];
    codes.sort_unstable();
    assert_eq!(codes, [0, 1], "whichever came first ended it");
    assert_eq!(fixture.messages("T", 1, 1).await.len(), 1);
    settled(&fixture).await;
    assert_eq!(fixture.messages("T", 1, 1).await.len(), 1);
}

/// Waits until all half messages are done with.
async fn settled(fixture: &Fixture) {
    let deadline = Instant::now() + LIMIT;
    loop {
        let done = progress(fixture, HALF_TOPIC).await;
        let all = fixture.pull(HALF_TOPIC, 0, 0).await;
        if field(&all, "maxOffset") == done {
            return;
        }
        assert!(Instant::now() < deadline, "half messages are done with up to {done}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn progress(fixture: &Fixture, topic: &str) -> String {
    let header = QueryConsumerOffsetRequest {
        consumer_group: "CID_RMQ_SYS_TRANS".into(),
        topic: topic.into(),
        queue_id: 0,
        ..QueryConsumerOffsetRequest::default()
    };
    let asked = Command::request_with(request::QUERY_CONSUMER_OFFSET, &header);
    fixture.ask(asked).await.field("offset").unwrap_or("0").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_nobody_ends_is_given_up_and_can_be_taken_up_again() {
    let fixture =
        Fixture::with(&format!("{CALM}transactionCheckInterval=50\ntransactionCheckMax=2\n")).await;
    let sent = fixture.sent("T", "m", HALF).await;
    let deadline = Instant::now() + LIMIT;
    let given_up = loop {
        let answer = fixture.pull(GIVEN_UP, 0, 0).await;
        if answer.code == 0 {
            break crate::fixture::records(&answer).remove(0);
        }
        assert!(Instant::now() < deadline, "it is asked about for ever");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(properties::decode(&given_up.properties).get("TRANSACTION_CHECK_TIMES"), Some("2"));
    settled(&fixture).await;
    refused(&ended(&fixture, &end_of(&sent, COMMIT)).await, response::SYSTEM_ERROR, "outcome");

    let producer = Peer::producer(&fixture.broker.address().to_string(), "1").await;
    let id = offset_message_id(given_up.store_host, given_up.physical_offset);
    let resume = |id: String| {
        let header = ResumeCheckHalfMessageRequest { topic: Some("T".into()), msg_id: Some(id) };
        fixture.ask(Command::request_with(request::RESUME_CHECK_HALF_MESSAGE, &header))
    };
    let text = "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed.";
    refused(&resume("no id".into()).await, response::SYSTEM_ERROR, text);
    refused(&resume(field(&sent, "msgId").to_owned()).await, response::SYSTEM_ERROR, text);
    assert_eq!(resume(id).await.code, 0);
    let question = producer.heard(request::CHECK_TRANSACTION_STATE, 0).await;
    assert_eq!(producer.ask(request(&answer_to(&question, COMMIT))).await.code, 0);
    assert_eq!(fixture.messages("T", 1, 1).await[0].body, "m");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_that_asks_for_patience_is_not_asked() {
    let fixture = Fixture::with(EAGER).await;
    let producer = Peer::producer(&fixture.broker.address().to_string(), "1").await;
    let immune = format!("{HALF}CHECK_IMMUNITY_TIME_IN_SECONDS\u{1}1000000000\u{2}");
    let sent = fixture.sent("T", "patient", &immune).await;
    let other = fixture.sent("T", "asked about", HALF).await;
    let question = producer.heard(request::CHECK_TRANSACTION_STATE, 0).await;
    assert_eq!(decode(&question.body).expect("a record").body, "asked about");
    assert_eq!(ended(&fixture, &end_of(&other, ROLLBACK)).await.code, 0);
    // It was put again, so as not to hold back the others; it is still the same transaction.
    assert!(fixture.messages(HALF_TOPIC, 1, 3).await.len() >= 3);
    assert_eq!(ended(&fixture, &end_of(&sent, COMMIT)).await.code, 0);
    settled(&fixture).await;
    assert_eq!(fixture.messages("T", 1, 1).await.len(), 1);
    for question in producer.seen(request::CHECK_TRANSACTION_STATE) {
        assert_eq!(decode(&question.body).expect("a record").body, "asked about");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn outcomes_and_open_transactions_survive_a_restart() {
    let fixture = Fixture::with(CALM).await;
    let done = fixture.sent("T", "done", HALF).await;
    let open = fixture.sent("T", "open", &HALF.replace("U1", "U2")).await;
    assert_eq!(ended(&fixture, &end_of(&done, COMMIT)).await.code, 0);
    let fixture = fixture.restarted(CALM).await;
    let answer = ended(&fixture, &end_of(&done, COMMIT)).await;
    refused(&answer, response::SYSTEM_ERROR, "its outcome stays");

    let fixture = fixture.restarted(EAGER).await;
    let producer = Peer::producer(&fixture.broker.address().to_string(), "1").await;
    let question = producer.heard(request::CHECK_TRANSACTION_STATE, 0).await;
    assert_eq!(decode(&question.body).expect("a record").body, "open");
    assert_eq!(producer.ask(request(&answer_to(&question, COMMIT))).await.code, 0);
    settled(&fixture).await;
    assert_ne!(progress(&fixture, OP_TOPIC).await, "0");

    let fixture = fixture.restarted(CALM).await;
    let answer = ended(&fixture, &end_of(&open, ROLLBACK)).await;
    refused(&answer, response::SYSTEM_ERROR, "its outcome stays");
    let found: Vec<_> = fixture.messages("T", 1, 2).await.into_iter().map(|m| m.body).collect();
    assert_eq!(found, ["done", "open"], "each once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_may_ask_for_a_delay() {
    let fixture = Fixture::with(&format!("{CALM}messageDelayLevel=1s\n")).await;
    let sent = fixture.sent("T", "late", &format!("{HALF}DELAY\u{1}1\u{2}")).await;
    assert_eq!(ended(&fixture, &end_of(&sent, COMMIT)).await.code, 0);
    let waiting = fixture.messages("SCHEDULE_TOPIC_XXXX", 1, 1).await;
    assert_eq!(waiting[0].sys_flag, COMMIT);
    let message = fixture.messages("T", 1, 1).await.remove(0);
    assert_eq!((&message.body[..], message.sys_flag), (&b"late"[..], COMMIT));
}
