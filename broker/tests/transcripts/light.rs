//! Light queues: one message in several queues.

use protocol::{
    code::response,
    message::{properties, record::MessageRecord},
};

use crate::{
    fixture::{Fixture, records},
    transaction::{COMMIT, HALF, end_of, refused, request},
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
    assert_eq!(fixture.ask(request(&end_of(&half, COMMIT))).await.code, 0);
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
