//! The native client against the standalone server.
#![expect(
    clippy::expect_used,
    reason = "this is a test; clippy knows only functions marked as tests"
)]

mod process;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use client::{
    Beginning, Client, ClientOptions, Delivery, GroupConsumer, GroupOptions, Message, MessageQueue,
    Producer, ProducerOptions, PullConsumer, PullRequest, Pulled,
};
use process::Server;

const LONG: Duration = Duration::from_secs(60);

struct World {
    server: Server,
    _folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { server: Server::standalone(folder.path()), _folder: folder }
    }

    fn client(&self) -> Arc<Client> {
        Client::new(ClientOptions::new(self.server.address("namesrv"))).expect("an address")
    }

    async fn send(&self, topic: &str, bodies: &[&str]) {
        let client = self.client();
        let producer = Producer::start(Arc::clone(&client), ProducerOptions::new("p"));
        for body in bodies {
            let message = Message::new(topic, (*body).to_owned());
            producer.send(message).await.expect("it is stored");
        }
        producer.stop().await;
    }

    async fn join(&self, topic: &str) -> GroupConsumer {
        let options = GroupOptions::new("g", topic, "*");
        GroupConsumer::start(self.client(), options).await.expect("it joins")
    }
}

async fn next(consumer: &mut GroupConsumer) -> Delivery {
    tokio::time::timeout(LONG, consumer.next()).await.expect("in time").expect("a message")
}

/// Pulls until something is there.
async fn pull(puller: &PullConsumer, queue: &MessageQueue, wanted: PullRequest) -> Pulled {
    let wanted = PullRequest { wait: Some(Duration::from_secs(5)), ..wanted };
    let found = async {
        loop {
            let pulled = puller.pull(queue, &wanted).await.expect("an answer");
            if !pulled.messages.is_empty() {
                break pulled;
            }
        }
    };
    tokio::time::timeout(LONG, found).await.expect("in time")
}

fn queue(topic: &str, queue_id: i32) -> MessageQueue {
    MessageQueue { topic: topic.to_owned(), broker_name: "broker-a".to_owned(), queue_id }
}

#[tokio::test]
async fn a_message_that_is_given_back_comes_again() {
    let world = World::new();
    world.send("T", &["x"]).await;
    let mut consumer = world.join("T").await;
    let first = next(&mut consumer).await;
    assert_eq!((&first.message.body[..], first.message.reconsume_times), (&b"x"[..], 0));
    let id = first.message.id().to_owned();
    // Level 1 is one second.
    first.later(1).await.expect("the broker takes it back");
    let second = next(&mut consumer).await;
    assert_eq!(second.message.id(), id);
    assert_eq!((second.message.topic.as_str(), second.message.reconsume_times), ("T", 1));
    second.done();
    consumer.stop().await.expect("offsets are committed");
}

#[tokio::test]
async fn a_message_that_is_given_up_is_in_the_dead_letter_topic() {
    let world = World::new();
    world.send("T", &["x"]).await;
    let mut consumer = world.join("T").await;
    next(&mut consumer).await.later(-1).await.expect("the broker takes it back");
    let puller = PullConsumer::new(world.client(), "g");
    let pulled = pull(&puller, &queue("%DLQ%g", 0), PullRequest::at(0)).await;
    assert_eq!(&pulled.messages[0].body[..], b"x");
    consumer.stop().await.expect("offsets are committed");
}

#[tokio::test]
async fn a_batch_lies_side_by_side() {
    let world = World::new();
    let client = world.client();
    let producer = Producer::start(Arc::clone(&client), ProducerOptions::new("p"));
    let batch = (0..3).map(|n| Message::new("T", format!("m{n}")).tag("A")).collect();
    let sent = producer.send_batch(batch).await.expect("it is stored");
    assert_eq!(sent.offset_message_id.split(',').count(), 3);
    let puller = PullConsumer::new(client, "g");
    let pulled = pull(&puller, &sent.queue, PullRequest::at(0)).await;
    let seen: Vec<_> =
        pulled.messages.iter().map(|m| (m.queue_offset, m.body.clone(), m.tag())).collect();
    let expected = [(0, "m0"), (1, "m1"), (2, "m2")];
    assert_eq!(seen, expected.map(|(at, body)| (at, body.into(), Some("A"))));
}

#[tokio::test]
async fn tags_are_chosen_by_the_broker() {
    let world = World::new();
    let client = world.client();
    let producer = Producer::start(Arc::clone(&client), ProducerOptions::new("p"));
    for tag in ["A", "B", "C", "A"] {
        producer.send_to(Message::new("T", tag).tag(tag), 0).await.expect("it is stored");
    }
    let puller = PullConsumer::new(client, "g");
    // The last one is an A, so that once it is there all are.
    let wanted = PullRequest { tags: "A || C".to_owned(), ..PullRequest::at(0) };
    let seen = async {
        loop {
            let pulled = pull(&puller, &queue("T", 0), wanted.clone()).await;
            if pulled.messages.len() == 3 {
                break pulled;
            }
        }
    };
    let pulled = tokio::time::timeout(LONG, seen).await.expect("in time");
    let offsets: Vec<i64> = pulled.messages.iter().map(|m| m.queue_offset).collect();
    assert_eq!((offsets, pulled.next), (vec![0, 2, 3], 4));
}

#[tokio::test]
async fn a_waiting_pull_is_answered_when_a_message_comes() {
    let world = World::new();
    world.send("T", &["first"]).await;
    let puller = PullConsumer::new(world.client(), "g");
    let of = puller.queues("T").await.expect("a route").remove(0);
    let end = puller.max_offset(&of).await.expect("an offset");
    // Longer than the test may take: only an arrival can answer it.
    let wanted = PullRequest { wait: Some(LONG * 2), ..PullRequest::at(end) };
    let waiting = puller.pull(&of, &wanted);
    let sending = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let client = world.client();
        let producer = Producer::start(client, ProducerOptions::new("p"));
        producer.send_to(Message::new("T", "second"), of.queue_id).await.expect("it is stored");
    };
    let both = async { tokio::join!(waiting, sending) };
    let (pulled, ()) = tokio::time::timeout(LONG, both).await.expect("in time");
    assert_eq!(&pulled.expect("an answer").messages[0].body[..], b"second");
}

#[tokio::test]
async fn members_share_the_queues_and_inherit_them() {
    let world = World::new();
    world.send("T", &["x"]).await;
    let (first, second) = (world.join("T").await, world.join("T").await);
    let queues = |member: &GroupConsumer| -> BTreeSet<i32> {
        member.queues().iter().filter(|q| q.topic == "T").map(|q| q.queue_id).collect()
    };
    let shared = async {
        while queues(&first).len() != 2 || queues(&second).len() != 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, shared).await.expect("both have two of four queues");
    assert!(queues(&first).is_disjoint(&queues(&second)));
    first.stop().await.expect("offsets are committed");
    let inherited = async {
        while queues(&second).len() != 4 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, inherited).await.expect("the other has all four");
    second.stop().await.expect("offsets are committed");
}

#[tokio::test]
async fn a_queue_is_searched_by_time() {
    let world = World::new();
    world.send("T", &["a", "b", "c", "d"]).await;
    let puller = PullConsumer::new(world.client(), "g");
    let pulled = pull(&puller, &queue("T", 0), PullRequest::at(0)).await;
    let stored = pulled.messages[0].store_timestamp;
    let at = |beginning| {
        let puller = puller.clone();
        async move { puller.offset_of(&queue("T", 0), beginning).await.expect("an offset") }
    };
    assert_eq!(at(Beginning::Time(stored)).await, 0);
    assert_eq!(at(Beginning::Time(stored + 3_600_000)).await, 1);
    assert_eq!(at(Beginning::First).await, 0);
    assert_eq!(at(Beginning::Last).await, 1);
}
