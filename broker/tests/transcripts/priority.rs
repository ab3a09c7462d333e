//! Messages with a priority: which queue they go into, and in which order pops give them.

use std::collections::BTreeMap;

use protocol::{
    Command,
    body::SubscriptionGroupConfig,
    code::{request, response},
    header::{CreateTopicRequest, PopMessageRequest},
    message::properties,
};

use crate::{
    fixture::{Fixture, field},
    pop::{ack, header, pop, pop_some, popped},
};

const QUEUES: i32 = 4;

async fn topic(fixture: &Fixture) {
    let header = CreateTopicRequest {
        topic: "T".into(),
        default_topic: Some("TBW102".into()),
        read_queue_nums: QUEUES,
        write_queue_nums: QUEUES,
        perm: 6,
        topic_filter_type: Some("SINGLE_TAG".into()),
        attributes: Some("+message.type=PRIORITY".into()),
        ..CreateTopicRequest::default()
    };
    let made = Command::request_with(request::UPDATE_AND_CREATE_TOPIC, &header);
    let answer = fixture.ask(made).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
}

async fn factor(fixture: &Fixture, value: &str) -> Command {
    let group = SubscriptionGroupConfig {
        group_name: "G".into(),
        attributes: BTreeMap::from([("+priority.factor".to_owned(), value.to_owned())]),
        ..SubscriptionGroupConfig::default()
    };
    let update = Command::request(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP);
    fixture.ask(update.with_body(group.encode())).await
}

fn urgent(priority: i32) -> String {
    format!("_SYS_MSG_PRIORITY_\u{1}{priority}\u{2}")
}

/// Queues of the messages that pops of one message each give.
async fn queues(fixture: &Fixture, count: usize) -> Vec<i32> {
    let one = PopMessageRequest { max_msg_nums: 1, invisible_time: 60_000, ..header() };
    let mut queues = Vec::new();
    for _ in 0..count {
        let taken = popped(&pop(fixture, &one).await);
        assert_eq!(taken.len(), 1);
        queues.push(taken[0].message.queue_id);
    }
    queues
}

#[tokio::test(flavor = "multi_thread")]
async fn the_most_urgent_messages_are_popped_first() {
    let fixture = Fixture::new().await;
    topic(&fixture).await;
    for (priority, queue) in [(0, "0"), (2, "2"), (3, "3"), (9, "3"), (1, "1")] {
        let answer = fixture.sent("T", "m", &urgent(priority)).await;
        assert_eq!(field(&answer, "queueId"), queue, "priority {priority}");
    }
    // Another kind of message wins, and a priority that is none is no wish.
    for properties in [format!("{}__SHARDINGKEY\u{1}s\u{2}", urgent(2)), urgent(-1)] {
        let answer = fixture.sent("T", "other", &properties).await;
        assert_eq!(field(&answer, "queueId"), "0", "the queue that the producer names");
    }
    let stored = fixture.messages("T", QUEUES, 7).await;
    let wish = |body: &[u8]| {
        let of = stored.iter().filter(|message| &*message.body == body);
        let kept = of.map(|message| properties::decode(&message.properties));
        kept.filter(|kept| kept.contains("_SYS_MSG_PRIORITY_")).count()
    };
    assert_eq!((wish(b"m"), wish(b"other")), (5, 1), "one of the others has forgotten it");
    assert_eq!(queues(&fixture, 7).await, [3, 3, 2, 1, 0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_says_how_many_of_its_pops_go_by_priority_and_the_broker_in_which_order() {
    let fixture = Fixture::with("priorityOrderAsc=false\n").await;
    topic(&fixture).await;
    for priority in (0..QUEUES).cycle().take(40) {
        fixture.sent("T", "m", &urgent(priority)).await;
    }
    fixture.messages("T", QUEUES, 40).await;
    assert_eq!(queues(&fixture, 4).await, [0; 4], "queue 0 is the most urgent one");
    let answer = factor(&fixture, "101").await;
    assert_eq!(answer.code, response::INVALID_PARAMETER);
    let remark = answer.remark.unwrap_or_default();
    assert!(remark.contains("priority.factor") && remark.contains("(0, 100)"), "{remark}");
    assert_eq!(factor(&fixture, "0").await.code, 0);
    let found = queues(&fixture, 8).await;
    assert!((0..QUEUES).all(|queue| found.contains(&queue)), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_again_keeps_its_priority() {
    let keys = "useSeparateRetryQueue=true\npopFromRetryProbabilityForPriority=100\n";
    let fixture = Fixture::with(keys).await;
    topic(&fixture).await;
    fixture.sent("T", "again", &urgent(2)).await;
    fixture.messages("T", QUEUES, 1).await;
    let short = PopMessageRequest { invisible_time: 100, ..header() };
    assert_eq!(pop_some(&fixture, &short).await[0].message.queue_id, 2);
    for priority in [1, 3] {
        fixture.sent("T", "fresh", &urgent(priority)).await;
    }
    fixture.messages("%RETRY%G_T", QUEUES, 1).await;
    fixture.messages("T", QUEUES, 3).await;
    let again = popped(&pop(&fixture, &header()).await);
    let given: Vec<_> =
        again.iter().map(|one| (&*one.message.body, one.message.queue_id)).collect();
    let fresh = &b"fresh"[..];
    assert_eq!(given, [(&b"again"[..], 2), (fresh, 3), (fresh, 1)]);
    for one in &again {
        assert_eq!(ack(&fixture, one).await.code, 0);
    }
}
