//! Pop consumption: what clients take for a time, and what comes again.

use std::time::Duration;

use protocol::{
    Command,
    code::{request, response},
    header::{AckMessageRequest, PopMessageRequest},
    message::{properties, record::MessageRecord},
};
use tokio::time::Instant;

use crate::fixture::{Fixture, LIMIT, field, records};
use crate::timer::now;

/// A pop of group `G` that takes all it can get of topic `T` for a second and does not wait.
pub(crate) fn header() -> PopMessageRequest {
    PopMessageRequest {
        consumer_group: "G".into(),
        topic: "T".into(),
        queue_id: -1,
        max_msg_nums: 32,
        invisible_time: 1_000,
        ..PopMessageRequest::default()
    }
}

/// A popped message, and the handle that a client makes of the answer.
pub(crate) struct Popped {
    pub(crate) message: MessageRecord,
    pub(crate) handle: String,
}

/// What a client makes of the answer to a pop.
pub(crate) fn popped(answer: &Command) -> Vec<Popped> {
    if answer.code != response::SUCCESS {
        return Vec::new();
    }
    let list = |name: &str| -> Vec<Vec<String>> {
        let words = |entry: &str| entry.split(' ').map(str::to_owned).collect();
        field(answer, name).split(';').map(words).collect()
    };
    let starts = list("startOffsetInfo");
    let time = field(answer, "popTime");
    let (invisible, revive) = (field(answer, "invisibleTime"), field(answer, "reviveQid"));
    let handle = |message: &MessageRecord| {
        let known = properties::decode(&message.properties);
        if let Some(handle) = known.get("POP_CK") {
            return handle.to_owned();
        }
        let queue = message.queue_id.to_string();
        let flag = match message.topic.strip_prefix("%RETRY%") {
            None => "0",
            Some(rest) if rest.contains('+') => "2",
            Some(_) => "1",
        };
        let start = starts.iter().find(|words| words[0] == flag && words[1] == queue);
        let start = &start.expect("the queue is named")[2];
        format!("{start} {time} {invisible} {revive} {flag} b {queue} {}", message.queue_offset)
    };
    records(answer)
        .into_iter()
        .map(|message| Popped { handle: handle(&message), message })
        .collect()
}

/// The topic that an acknowledgement of a message names.
pub(crate) fn topic_of(handle: &str) -> &'static str {
    match handle.split(' ').nth(4).expect("a word") {
        "0" => "T",
        "1" => "%RETRY%G_T",
        _ => "%RETRY%G+T",
    }
}

pub(crate) async fn pop(fixture: &Fixture, header: &PopMessageRequest) -> Command {
    fixture.ask(Command::request_with(request::POP_MESSAGE, header)).await
}

/// Pops until there is something.
pub(crate) async fn pop_some(fixture: &Fixture, header: &PopMessageRequest) -> Vec<Popped> {
    let deadline = Instant::now() + LIMIT;
    loop {
        let answer = pop(fixture, header).await;
        if answer.code == 0 {
            return popped(&answer);
        }
        assert_eq!(answer.code, response::POLLING_TIMEOUT, "{:?}", answer.remark);
        assert!(Instant::now() < deadline, "nothing to pop");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until sent messages are in their queues.
pub(crate) async fn wait_sent(fixture: &Fixture, count: usize) {
    fixture.messages("T", 4, count).await;
}

pub(crate) async fn ack(fixture: &Fixture, one: &Popped) -> Command {
    let header = AckMessageRequest {
        consumer_group: "G".into(),
        topic: topic_of(&one.handle).into(),
        queue_id: one.handle.split(' ').nth(6).expect("a word").parse().expect("a number"),
        extra_info: one.handle.clone(),
        offset: one.message.queue_offset,
        lite_topic: None,
    };
    fixture.ask(Command::request_with(request::ACK_MESSAGE, &header)).await
}

fn bodies(popped: &[Popped]) -> Vec<&[u8]> {
    popped.iter().map(|one| &*one.message.body).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_acknowledged_in_time_comes_again_and_nothing_else() {
    let fixture = Fixture::new().await;
    for body in ["a", "b", "c"] {
        fixture.sent("T", body, "KEYS\u{1}k\u{2}TAGS\u{1}x").await;
    }
    wait_sent(&fixture, 3).await;
    let before = now();
    // Long enough for the next look, also on a busy machine.
    let answer = pop(&fixture, &PopMessageRequest { invisible_time: 3_000, ..header() }).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (0, Some("FOUND")));
    assert_eq!(field(&answer, "startOffsetInfo"), "0 0 0");
    assert_eq!(field(&answer, "msgOffsetInfo"), "0 0 0,1,2");
    assert_eq!((field(&answer, "invisibleTime"), field(&answer, "restNum")), ("3000", "0"));
    assert_eq!(answer.field("orderCountInfo"), None);
    let time: i64 = field(&answer, "popTime").parse().expect("a number");
    assert!((before..=now()).contains(&time));
    let first = popped(&answer);
    assert_eq!(bodies(&first), [b"a", b"b", b"c"]);

    let nothing = pop(&fixture, &header()).await;
    let remark = nothing.remark.as_deref();
    assert_eq!((nothing.code, remark), (210, Some("NO_MESSAGE_IN_QUEUE")), "they are taken");
    assert_eq!(ack(&fixture, &first[1]).await.code, 0);

    let again = pop_some(&fixture, &header()).await;
    assert!(now() >= time + 3_000, "not before its time is over");
    assert_eq!(bodies(&again), [b"a", b"c"]);
    let message = &again[0].message;
    assert_eq!((message.topic.as_str(), message.reconsume_times), ("T", 1));
    let kept = properties::decode(&message.properties);
    assert_eq!((kept.get("KEYS"), kept.get("TAGS")), (Some("k"), Some("x")));
    assert_eq!(
        (kept.get("ORIGIN_GROUP"), kept.get("1ST_POP_TIME")),
        (Some("G"), Some(&*time.to_string()))
    );
    assert_eq!(topic_of(&again[0].handle), "%RETRY%G_T");
    for one in &again {
        assert_eq!(ack(&fixture, one).await.code, 0);
    }
    tokio::time::sleep(Duration::from_millis(3_000)).await;
    assert_eq!(pop(&fixture, &header()).await.code, 210, "what is acknowledged comes no more");
    assert_eq!(fixture.messages("%RETRY%G_T", 1, 2).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_time_a_message_comes_again_is_counted_and_the_other_form_of_topics_is_asked_for() {
    let fixture =
        Fixture::with("enableRetryTopicV2=true\npopResponseReturnActualRetryTopic=true\n").await;
    fixture.sent("T", "m", "").await;
    wait_sent(&fixture, 1).await;
    let mut seen = Vec::new();
    let short = PopMessageRequest { invisible_time: 100, ..header() };
    while seen.len() < 3 {
        for one in pop_some(&fixture, &short).await {
            seen.push((one.message.topic.clone(), one.message.reconsume_times));
        }
    }
    let retry = "%RETRY%G+T".to_owned();
    assert_eq!(seen, [("T".to_owned(), 0), (retry.clone(), 1), (retry, 2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_outlive_a_restart() {
    let fixture = Fixture::new().await;
    for body in ["acknowledged", "open"] {
        fixture.sent("T", body, "").await;
    }
    wait_sent(&fixture, 2).await;
    let first = pop_some(&fixture, &header()).await;
    assert_eq!(ack(&fixture, &first[0]).await.code, 0);
    let fixture = fixture.restarted("").await;
    let again = pop_some(&fixture, &header()).await;
    assert_eq!(bodies(&again), [b"open"], "neither popped nor acknowledged before, nor twice");
    assert_eq!(ack(&fixture, &again[0]).await.code, 0);
    let fixture = fixture.restarted("").await;
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(pop(&fixture, &header()).await.code, 210);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pop_waits_for_a_message_or_until_its_time_is_over() {
    let fixture = Fixture::new().await;
    fixture.sent("T", "first", "").await;
    wait_sent(&fixture, 1).await;
    let waits = |millis: i64| PopMessageRequest {
        poll_time: millis,
        born_time: now(),
        invisible_time: 60_000,
        ..header()
    };
    assert_eq!(pop_some(&fixture, &waits(0)).await.len(), 1);
    let begun = Instant::now();
    assert_eq!(pop(&fixture, &waits(400)).await.code, 210);
    assert!(begun.elapsed() >= Duration::from_millis(300), "it waited");
    let long = waits(20_000);
    let (answer, sent) = tokio::join!(pop(&fixture, &long), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        fixture.send("T", "second", "").await
    });
    assert_eq!((answer.code, sent.code), (0, 0));
    assert_eq!(bodies(&popped(&answer)), [b"second"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn those_that_wait_have_a_bound() {
    let fixture = Fixture::with("popPollingSize=1\n").await;
    fixture.sent("T", "m", "").await;
    wait_sent(&fixture, 1).await;
    let asleep = PopMessageRequest { invisible_time: 60_000, ..header() };
    assert_eq!(pop_some(&fixture, &asleep).await.len(), 1);
    let waits = PopMessageRequest { poll_time: 20_000, born_time: now(), ..header() };
    let (first, second) = tokio::join!(pop(&fixture, &waits), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let full = pop(&fixture, &waits).await;
        fixture.sent("T", "next", "").await;
        full
    });
    assert_eq!((first.code, second.code), (0, response::POLLING_FULL));
    assert_eq!(field(&second, "startOffsetInfo"), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_pass_over_what_is_not_wanted() {
    let fixture = Fixture::new().await;
    for (body, of) in [
        ("1", "TAGS\u{1}a\u{2}n\u{1}1"),
        ("2", "TAGS\u{1}b\u{2}n\u{1}2"),
        ("3", "TAGS\u{1}a\u{2}n\u{1}3"),
    ] {
        fixture.sent("T", body, of).await;
    }
    wait_sent(&fixture, 3).await;
    // Nothing shall come again while this looks.
    let long = || PopMessageRequest { invisible_time: 60_000, ..header() };
    let tags = PopMessageRequest { exp: Some("a".into()), exp_type: Some("TAG".into()), ..long() };
    let answer = pop(&fixture, &tags).await;
    assert_eq!(bodies(&popped(&answer)), [b"1", b"3"]);
    assert_eq!(field(&answer, "msgOffsetInfo"), "0 0 0,2");
    let sql = |text: &str, group: &str| PopMessageRequest {
        exp: Some(text.into()),
        exp_type: Some("SQL92".into()),
        consumer_group: group.into(),
        ..long()
    };
    let answer = pop(&fixture, &sql("n > 1 AND TAGS = 'a'", "H")).await;
    assert_eq!(bodies(&popped(&answer)), [b"3"]);
    assert_eq!(pop(&fixture, &sql("n > 1 AND TAGS = 'a'", "H")).await.code, 210);
    assert_eq!(pop(&fixture, &sql("n >", "H")).await.code, response::SUBSCRIPTION_PARSE_FAILED);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_group_begins_where_it_wants_to() {
    let fixture = Fixture::with("initPopOffsetByCheckMsgInMem=false\n").await;
    for body in ["a", "b", "c"] {
        fixture.sent("T", body, "").await;
    }
    wait_sent(&fixture, 3).await;
    let newest = PopMessageRequest { init_mode: 1, queue_id: 0, ..header() };
    assert_eq!(bodies(&popped(&pop(&fixture, &newest).await)), [b"c"]);
    let first = PopMessageRequest { consumer_group: "H".into(), max_msg_nums: 2, ..header() };
    let answer = pop(&fixture, &first).await;
    assert_eq!(bodies(&popped(&answer)), [b"a", b"b"]);
    assert_eq!(field(&answer, "restNum"), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_is_refused_with_javas_codes() {
    let fixture = Fixture::with("autoCreateSubscriptionGroup=false\n").await;
    fixture.sent("T", "m", "").await;
    wait_sent(&fixture, 1).await;
    let group = || PopMessageRequest { consumer_group: "TOOLS_CONSUMER".into(), ..header() };
    for (request, code, text) in [
        (PopMessageRequest { topic: "X".into(), ..group() }, 17, "topic[X] not exist"),
        (header(), 26, "subscription group [G] does not exist"),
        (
            PopMessageRequest { max_msg_nums: 33, ..group() },
            29,
            "the broker[127.0.0.1] pop message's num is greater than 32",
        ),
        (PopMessageRequest { queue_id: 99, ..group() }, 29, "queueId[99] is illegal, topic:[T]"),
        (
            PopMessageRequest { born_time: 1, ..group() },
            210,
            "the broker[127.0.0.1] pop message is timeout too much",
        ),
    ] {
        let answer = pop(&fixture, &request).await;
        let remark = answer.remark.unwrap_or_default();
        assert_eq!(answer.code, code, "{remark}");
        assert!(remark.starts_with(text), "{remark}");
    }
    let ack = |topic: &str, queue_id: i32, offset: i64, handle: &str| {
        let header = AckMessageRequest {
            consumer_group: "G".into(),
            topic: topic.into(),
            queue_id,
            extra_info: handle.into(),
            offset,
            lite_topic: None,
        };
        fixture.ask(Command::request_with(request::ACK_MESSAGE, &header))
    };
    let handle = "0 1 1000 0 0 b 0 0";
    assert_eq!(ack("X", 0, 0, handle).await.code, 17);
    assert_eq!(ack("T", 99, 0, handle).await.code, 13);
    let beyond = ack("T", 0, 99, handle).await;
    let text = "offset is illegal, key:T@0, commit:99, store:0~1";
    assert_eq!((beyond.code, beyond.remark.as_deref()), (208, Some(text)));
    assert_eq!(ack("T", 0, 0, "bad").await.code, 1);
    assert_eq!(ack("T", 0, 0, "0 1 1000 77 0 b 0 0").await.code, 13, "no such revive queue");
    assert_eq!(ack("T", 0, 0, handle).await.code, 0, "it cannot be told from one that was");
    let sent = fixture.send("rmq_sys_REVIVE_LOG_DefaultCluster", "m", "").await;
    assert_eq!(sent.code, response::NO_PERMISSION, "it could name any topic");
}

/// The journal writes offsets that clients commit, and where a new group begins, beside the batches of
/// pops: what was decided first must stand first.
#[tokio::test(flavor = "multi_thread")]
async fn no_pop_is_set_back_by_what_the_journal_writes_meanwhile() {
    const GROUPS: i32 = 100;
    let fixture = Fixture::new().await;
    for body in ["a", "b", "c"] {
        fixture.sent("T", body, "").await;
    }
    wait_sent(&fixture, 3).await;
    fixture.heartbeat("OTHER", "T", "*").await;
    let writes = async {
        for offset in 1_i64.. {
            let request = Command::request(request::UPDATE_CONSUMER_OFFSET)
                .with_field("consumerGroup", "OTHER")
                .with_field("topic", "T")
                .with_field("queueId", "0")
                .with_field("commitOffset", offset.to_string());
            assert_eq!(fixture.ask(request).await.code, response::SUCCESS);
        }
    };
    let pops = async {
        for group in 0..GROUPS {
            let consumer_group = format!("G{group}");
            let one =
                PopMessageRequest { consumer_group, max_msg_nums: 1, queue_id: 0, ..header() };
            for body in [b"a", b"b", b"c"] {
                assert_eq!(bodies(&pop_some(&fixture, &one).await), [body], "G{group}");
            }
        }
    };
    tokio::select! {
        () = writes => {}
        () = pops => {}
    }
}
