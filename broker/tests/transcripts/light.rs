//! Light queues: one message in several queues.

use protocol::{
    Command,
    code::{request, response},
    header::{AckMessageRequest, PopMessageRequest},
    message::{properties, record::MessageRecord},
};

use crate::{
    fixture::{Fixture, LIMIT, records},
    pop,
    transaction::{COMMIT, HALF, end_of, refused, request as request_of},
};

const ON: &str = "enableLmq=true\nenableMultiDispatch=true\nfileReservedTime=1000000\n";

fn named(queues: &str) -> String {
    format!("KEYS\u{1}k\u{2}INNER_MULTI_DISPATCH\u{1}{queues}\u{2}")
}

/// Body, offset in the queue, and offsets in all light queues that the message names.
fn told(record: &MessageRecord) -> (String, i64, Vec<u64>) {
    let kept = properties::decode(&record.properties);
    let offsets = kept.get("INNER_MULTI_QUEUE_OFFSET").unwrap_or_default().split(',');
    let body = String::from_utf8_lossy(&record.body).into_owned();
    (body, record.queue_offset, offsets.filter_map(|offset| offset.parse().ok()).collect())
}

async fn queue(fixture: &Fixture, name: &str, count: usize) -> Vec<(String, i64, Vec<u64>)> {
    fixture.messages(name, 1, count).await.iter().map(told).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_found_in_each_light_queue_that_it_names() {
    let fixture = Fixture::with(ON).await;
    fixture.sent("T", "plain", "").await;
    fixture.sent("T", "both", &named("%LMQ%a,%LMQ%b")).await;
    fixture.sent("T", "b alone", &named("%LMQ%b")).await;
    let both = |offset| ("both".to_owned(), offset, vec![0, 0]);
    let alone = |offset| ("b alone".to_owned(), offset, vec![1]);
    assert_eq!(queue(&fixture, "%LMQ%a", 1).await, [both(0)]);
    assert_eq!(queue(&fixture, "%LMQ%b", 2).await, [both(0), alone(1)]);
    let own = queue(&fixture, "T", 3).await;
    assert_eq!(own[1..], [both(1), alone(2)]);

    let fixture = fixture.restarted(ON).await;
    fixture.sent("T", "after", &named("%LMQ%a")).await;
    let after = ("after".to_owned(), 1, vec![1]);
    assert_eq!(queue(&fixture, "%LMQ%a", 2).await, [both(0), after]);
    assert_ne!(fixture.pull("%LMQ%none", 0, 0).await.code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn delayed_and_transactional_messages_enter_light_queues_with_their_topic() {
    let fixture = Fixture::with(&format!("{ON}messageDelayLevel=1s\n")).await;
    let half = fixture.sent("T", "half", &format!("{HALF}{}", named("%LMQ%a"))).await;
    let delayed = format!("{}DELAY\u{1}1", named("%LMQ%a"));
    fixture.sent("T", "delayed", &delayed).await;
    fixture.sent("T", "plain", &named("%LMQ%a")).await;
    let plain = ("plain".to_owned(), 0, vec![0]);
    assert_eq!(queue(&fixture, "%LMQ%a", 1).await[..1], [plain]);
    assert_eq!(fixture.ask(request_of(&end_of(&half, COMMIT))).await.code, 0);
    let mut found = queue(&fixture, "%LMQ%a", 3).await;
    found.sort();
    let bodies: Vec<_> = found.iter().map(|message| message.0.as_str()).collect();
    assert_eq!(bodies, ["delayed", "half", "plain"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_dispatched_is_refused() {
    let fixture = Fixture::new().await;
    let answer = fixture.send("T", "m", &named("%LMQ%a")).await;
    refused(&answer, response::MESSAGE_ILLEGAL, "enableMultiDispatch=true");
    assert_eq!(fixture.pull("%LMQ%a", 0, 0).await.code, response::TOPIC_NOT_EXIST);

    let fixture = Fixture::with(&format!("{ON}maxLmqConsumeQueueNum=2\n")).await;
    for (queues, text) in [("%LMQ%../a", "%LMQ%../a"), ("other", "begin with %LMQ%"), (",", "\"\"")]
    {
        refused(&fixture.send("T", "m", &named(queues)).await, response::MESSAGE_ILLEGAL, text);
    }
    fixture.sent("T", "m", &named("%LMQ%a,%LMQ%b")).await;
    queue(&fixture, "%LMQ%b", 1).await;
    let answer = fixture.send("T", "m", &named("%LMQ%a,%LMQ%c")).await;
    refused(&answer, response::SYSTEM_ERROR, "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]");
    fixture.sent("T", "m", &named("%LMQ%a,%LMQ%b")).await;

    // Offsets that a client makes up are not taken for the broker's.
    fixture.sent("T", "made up", "INNER_MULTI_QUEUE_OFFSET\u{1}7").await;
    let own = fixture.messages("T", 1, 3).await;
    let kept = properties::decode(&own[2].properties);
    assert_eq!(kept.get("INNER_MULTI_QUEUE_OFFSET"), None);
    assert_eq!(records(&fixture.pull("%LMQ%a", 0, 0).await).len(), 2);
}

/// Case 89: as many light queues as a broker may have, each with its own offsets after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn case_89_as_many_light_queues_as_there_may_be() {
    const QUEUES: usize = 1_000;
    const AT_ONCE: usize = 250;
    let on = format!("{ON}maxLmqConsumeQueueNum={QUEUES}\n");
    let fixture = Fixture::with(&on).await;
    let names: Vec<_> = (0..QUEUES).map(|number| format!("%LMQ%q{number}")).collect();
    for names in names.chunks(AT_ONCE) {
        fixture.sent("T", "m", &named(&names.join(","))).await;
    }
    let last = names[QUEUES - 1].as_str();
    let first = vec![0; AT_ONCE];
    assert_eq!(queue(&fixture, last, 1).await, [("m".to_owned(), 0, first.clone())]);
    let answer = fixture.send("T", "m", &named("%LMQ%one too many")).await;
    refused(&answer, response::MESSAGE_ILLEGAL, "one too many");
    let answer = fixture.send("T", "m", &named("%LMQ%more")).await;
    refused(&answer, response::SYSTEM_ERROR, "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]");
    let fixture = fixture.restarted(&on).await;
    fixture.sent("T", "n", &named(last)).await;
    let found = queue(&fixture, last, 2).await;
    assert_eq!(found, [("m".to_owned(), 0, first), ("n".to_owned(), 1, vec![1])]);
}

/// Bodies that a pop of group `G` takes of a light queue, with what acknowledges each.
async fn taken(fixture: &Fixture, header: &PopMessageRequest) -> Vec<(String, AckMessageRequest)> {
    let found = pop::popped(&pop::pop(fixture, header).await);
    let of = |one: &pop::Popped| AckMessageRequest {
        consumer_group: "G".into(),
        topic: header.topic.clone(),
        queue_id: 0,
        extra_info: one.handle.clone(),
        offset: one.message.queue_offset,
        lite_topic: None,
    };
    found
        .iter()
        .map(|one| (String::from_utf8_lossy(&one.message.body).into_owned(), of(one)))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_in_a_light_queue_are_kept_for_any_group() {
    let fixture = Fixture::with(ON).await;
    fixture.heartbeat("G", "%LMQ%a", "*").await;
    fixture.sent("T", "m", &named("%LMQ%a")).await;
    queue(&fixture, "%LMQ%a", 1).await;
    let of = |code: i32, group: &str| {
        Command::request(code)
            .with_field("consumerGroup", group)
            .with_field("topic", "%LMQ%a")
            .with_field("queueId", "0")
    };
    for (group, offset) in [("G", "1"), ("%LMQ%g", "2")] {
        let commit = of(request::UPDATE_CONSUMER_OFFSET, group).with_field("commitOffset", offset);
        let answer = fixture.ask(commit).await;
        assert_eq!(answer.code, 0, "{group}: {:?}", answer.remark);
    }
    let beyond = of(request::UPDATE_CONSUMER_OFFSET, "G")
        .with_field("commitOffset", "1")
        .with_field("queueId", "1");
    refused(&fixture.ask(beyond).await, response::INVALID_PARAMETER, "has 1 queues");
    let fixture = fixture.restarted(ON).await;
    for (group, offset) in [("G", "1"), ("%LMQ%g", "2")] {
        let answer = fixture.ask(of(request::QUERY_CONSUMER_OFFSET, group)).await;
        assert_eq!(answer.field("offset"), Some(offset), "{group}: {:?}", answer.remark);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_light_queue_is_popped_and_what_is_not_acknowledged_comes_again() {
    let fixture = Fixture::with(ON).await;
    fixture.sent("T", "other", "").await;
    fixture.sent("T", "first", &named("%LMQ%a")).await;
    fixture.sent("T", "second", &named("%LMQ%a,%LMQ%b")).await;
    queue(&fixture, "%LMQ%a", 2).await;
    let asked = PopMessageRequest { topic: "%LMQ%a".into(), queue_id: 0, ..pop::header() };
    let found = taken(&fixture, &asked).await;
    let bodies: Vec<_> = found.iter().map(|(body, _)| body.as_str()).collect();
    assert_eq!(bodies, ["first", "second"]);
    let ack = Command::request_with(request::ACK_MESSAGE, &found[0].1);
    let answer = fixture.ask(ack).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    assert!(taken(&fixture, &asked).await.is_empty(), "they are taken");
    let deadline = tokio::time::Instant::now() + LIMIT;
    let again = loop {
        let again = taken(&fixture, &PopMessageRequest { queue_id: -1, ..asked.clone() }).await;
        if !again.is_empty() {
            break again;
        }
        assert!(tokio::time::Instant::now() < deadline, "it comes again");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    assert_eq!((again.len(), again[0].0.as_str()), (1, "second"));
}
