//! Producer, pull consumer and group consumer against a fake broker that is also the name server.

use std::{sync::Arc, time::Duration};

use protocol::code::response;

use crate::{
    Beginning, Client, ClientOptions, GroupConsumer, GroupOptions, Message, MessageQueue, Producer,
    ProducerOptions, PullConsumer, PullRequest, RouteError, SendError, SendStatus,
};

mod fake;

use fake::Fake;

const LONG: Duration = Duration::from_secs(60);

fn client(fake: &Fake) -> Arc<Client> {
    Client::new(ClientOptions::new(fake.address())).unwrap()
}

fn producer(client: &Arc<Client>) -> Producer {
    Producer::start(Arc::clone(client), ProducerOptions::new("p"))
}

fn queue(queue_id: i32) -> MessageQueue {
    MessageQueue { topic: "T".to_owned(), broker_name: "b".to_owned(), queue_id }
}

#[tokio::test]
async fn queues_take_turns_and_offsets_come_back() {
    let fake = Fake::start(&["T"], 2);
    let client = client(&fake);
    let producer = producer(&client);
    let mut places = Vec::new();
    for n in 0..4 {
        let sent = producer.send(Message::new("T", format!("m{n}"))).await.unwrap();
        assert_eq!(sent.status, SendStatus::Stored);
        places.push((sent.queue.queue_id, sent.queue_offset));
    }
    // Producers begin anywhere, so that many that send one message do not all take queue 0.
    let first = places[0].0;
    assert_eq!(places, [(first, 0), (1 - first, 0), (first, 1), (1 - first, 1)]);
    let sent = producer.send_to(Message::new("T", "x"), 1).await.unwrap();
    assert_eq!((sent.queue.queue_id, sent.queue_offset), (1, 2));
    producer.stop().await;
    assert_eq!(fake.unregistered(), ["p"]);
}

#[tokio::test]
async fn a_route_without_a_master_is_asked_for_again_at_the_next_send() {
    let fake = Fake::start(&["T"], 1);
    let client = client(&fake);
    let producer = producer(&client);
    fake.leads(false);
    let error = producer.send(Message::new("T", "x")).await.unwrap_err();
    assert_eq!(error.kind(), "NO_QUEUE");
    fake.leads(true);
    // The route is young enough to be used, but a master was missing in it.
    producer.send(Message::new("T", "x")).await.unwrap();
}

#[tokio::test]
async fn senders_go_on_by_the_last_route_while_no_name_server_answers() {
    let fake = Fake::start(&["T"], 1);
    let options = ClientOptions { route_age: Duration::ZERO, ..ClientOptions::new(fake.address()) };
    let client = Client::new(options).unwrap();
    let producer = producer(&client);
    producer.send(Message::new("T", "first")).await.unwrap();
    fake.knows_no_routes();
    let begun = std::time::Instant::now();
    for n in 0..20 {
        producer.send(Message::new("T", format!("m{n}"))).await.unwrap();
    }
    // One question takes 3 s until it is given up; who sends does not wait for each.
    assert!(begun.elapsed() < Duration::from_secs(20 * 3), "{:?}", begun.elapsed());
    assert_eq!(fake.send_attempts().len(), 21);
}

#[tokio::test]
async fn a_refusal_is_repeated_on_another_queue_with_the_same_id() {
    let fake = Fake::start(&["T"], 2);
    fake.refuse_sends(&[response::SYSTEM_BUSY, response::SERVICE_NOT_AVAILABLE]);
    let client = client(&fake);
    let sent = producer(&client).send(Message::new("T", "x")).await.unwrap();
    let attempts = fake.send_attempts();
    assert_eq!(attempts.len(), 3);
    assert_ne!(attempts[0].0, attempts[1].0);
    assert!(attempts.iter().all(|(_, id)| *id == sent.ids[0]), "{attempts:?}");
}

#[tokio::test]
async fn a_final_refusal_names_code_remark_and_address() {
    let fake = Fake::start(&["T"], 1);
    fake.refuse_sends(&[response::MESSAGE_ILLEGAL]);
    let client = client(&fake);
    let error = producer(&client).send(Message::new("T", "x")).await.unwrap_err();
    assert!(matches!(&error, SendError::Failed { attempts: 1, .. }), "{error:?}");
    let text = error.to_string();
    for part in ["code 13 MESSAGE_ILLEGAL", "refused on purpose", &fake.address()] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
}

#[tokio::test]
async fn a_new_topic_is_sent_to_by_the_template() {
    let fake = Fake::start(&["TBW102"], 8);
    let client = client(&fake);
    let producer = producer(&client);
    let sent = producer.send(Message::new("New", "x")).await.unwrap();
    assert_eq!(sent.queue.topic, "New");
    assert!(sent.queue.queue_id < 4, "Java's 4 queues of a new topic: {sent:?}");
    let fake = Fake::start(&[], 1);
    let client = Client::new(ClientOptions::new(fake.address())).unwrap();
    let error = self::producer(&client).send(Message::new("New", "x")).await.unwrap_err();
    assert!(matches!(error, SendError::Route(RouteError::Unknown { .. })), "{error:?}");
}

#[tokio::test]
async fn a_batch_is_stored_as_single_messages() {
    let fake = Fake::start(&["T"], 1);
    let client = client(&fake);
    let batch = (0..3).map(|n| Message::new("T", format!("m{n}")).tag("A")).collect();
    let sent = producer(&client).send_batch(batch).await.unwrap();
    assert_eq!(sent.ids.len(), 3);
    let puller = PullConsumer::new(Arc::clone(&client), "g");
    let pulled = puller.pull(&queue(0), &PullRequest::at(0)).await.unwrap();
    let bodies: Vec<_> = pulled.messages.iter().map(|m| m.body.clone()).collect();
    assert_eq!(bodies, ["m0", "m1", "m2"]);
    assert_eq!((pulled.next, pulled.max), (3, 3));
    assert_eq!(pulled.messages[1].id(), sent.ids[1]);
}

#[tokio::test]
async fn the_next_name_server_is_asked_when_one_is_away() {
    let fake = Fake::start(&["T"], 1);
    let options = ClientOptions::new(format!("127.0.0.1:1;{}", fake.address()));
    let client = Client::new(options).unwrap();
    assert_eq!(client.route("T").await.unwrap().writable(), [queue(0)]);
}

#[tokio::test]
async fn offsets_are_read_and_committed() {
    let fake = Fake::start(&["T"], 1);
    let client = client(&fake);
    let producer = producer(&client);
    for _ in 0..3 {
        producer.send(Message::new("T", "x")).await.unwrap();
    }
    let puller = PullConsumer::new(client, "g");
    assert_eq!(puller.committed(&queue(0)).await.unwrap(), None);
    puller.commit(&queue(0), 2).await.unwrap();
    assert_eq!(puller.committed(&queue(0)).await.unwrap(), Some(2));
    assert_eq!(puller.offset_of(&queue(0), Beginning::First).await.unwrap(), 0);
    assert_eq!(puller.offset_of(&queue(0), Beginning::Last).await.unwrap(), 3);
}

#[tokio::test]
async fn tags_with_the_same_hash_are_told_apart() {
    let fake = Fake::start(&["T"], 1);
    let client = client(&fake);
    let producer = producer(&client);
    // "Aa" and "BB" have one hash in Java; the fake gives every message, as a broker gives these.
    for tag in ["Aa", "BB", "Aa"] {
        producer.send(Message::new("T", tag).tag(tag)).await.unwrap();
    }
    let puller = PullConsumer::new(client, "g");
    let wanted = PullRequest { tags: "Aa".to_owned(), ..PullRequest::at(0) };
    let pulled = puller.pull(&queue(0), &wanted).await.unwrap();
    assert_eq!(pulled.messages.iter().map(|m| m.queue_offset).collect::<Vec<_>>(), [0, 2]);
    assert_eq!(pulled.next, 3);
}

#[tokio::test]
async fn a_group_shares_queues_and_remembers_its_progress() {
    let fake = Fake::start(&["T"], 2);
    let client_a = client(&fake);
    let producer = producer(&client_a);
    for n in 0..6 {
        producer.send(Message::new("T", format!("m{n}"))).await.unwrap();
    }
    let start = |client: &Arc<Client>| {
        GroupConsumer::start(Arc::clone(client), GroupOptions::new("g", "T", "*"))
    };
    let mut first = start(&client_a).await.unwrap();
    for _ in 0..4 {
        let delivery = tokio::time::timeout(LONG, first.next()).await.unwrap().unwrap();
        delivery.done();
    }
    first.stop().await.unwrap();
    let committed: i64 = fake.committed("g").values().sum();
    assert_eq!(committed, 4);

    let mut second = start(&client(&fake)).await.unwrap();
    for _ in 0..2 {
        let delivery = tokio::time::timeout(LONG, second.next()).await.unwrap().unwrap();
        delivery.done();
    }
    let at_end = async {
        while !second.is_at_end() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, at_end).await.unwrap();
    second.stop().await.unwrap();
    assert_eq!(fake.committed("g").values().sum::<i64>(), 6);
}

#[tokio::test]
async fn a_second_member_takes_its_share() {
    let fake = Fake::start(&["T"], 4);
    let clients = [client(&fake), client(&fake)];
    let mut members = Vec::new();
    for client in &clients {
        let options = GroupOptions {
            // The notice of a change is what is tested, not the period.
            rebalance: Duration::from_secs(3600),
            ..GroupOptions::new("g", "T", "*")
        };
        members.push(GroupConsumer::start(Arc::clone(client), options).await.unwrap());
    }
    let shared = async {
        while members.iter().any(|member| member.queues().len() != 2) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, shared).await.unwrap();
    let taken = GroupConsumer::start(Arc::clone(&clients[0]), GroupOptions::new("g", "T", "*"));
    assert!(taken.await.unwrap_err().to_string().contains("group g already has a consumer"));
    members.remove(0).stop().await.unwrap();
    let all = async {
        while members[0].queues().len() != 4 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, all).await.unwrap();
}

#[tokio::test]
async fn a_consumer_that_is_dropped_has_left() {
    let fake = Fake::start(&["T"], 1);
    let client = client(&fake);
    let start = || GroupConsumer::start(Arc::clone(&client), GroupOptions::new("g", "T", "*"));
    drop(start().await.unwrap());
    assert!(client.members.heartbeat("me").is_none());
    start().await.unwrap().stop().await.unwrap();
}

#[tokio::test]
async fn a_message_that_is_not_finished_is_delivered_again() {
    let fake = Fake::start(&["T"], 1);
    let client = client(&fake);
    let producer = producer(&client);
    for n in 0..3 {
        producer.send(Message::new("T", format!("m{n}"))).await.unwrap();
    }
    let options = || GroupOptions::new("g", "T", "*");
    let mut consumer = GroupConsumer::start(Arc::clone(&client), options()).await.unwrap();
    let mut deliveries = Vec::new();
    for _ in 0..3 {
        deliveries.push(tokio::time::timeout(LONG, consumer.next()).await.unwrap().unwrap());
    }
    deliveries.remove(2).done();
    deliveries.remove(0).done();
    consumer.stop().await.unwrap();
    assert_eq!(fake.committed("g")[&("T".to_owned(), 0)], 1, "m1 is not finished");
}
