//! Faults that users of other brokers met (docs/known-faults.md) with batches, and with messages that
//! their keys no longer found.
#![expect(
    clippy::expect_used,
    reason = "this is a test, which starts processes; clippy knows only functions marked as tests"
)]

mod process;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use bytes::{Bytes, BytesMut};
use process::{
    LONG, Server,
    raw::{Raw, pull, send},
    world::{MEMBERS, World},
};
use protocol::{
    Command,
    code::{request, response},
    message::{
        batch::{self, BatchMessage},
        id::parse_offset_message_id,
        record,
    },
};

/// maxMessageSize as it is by default.
const MOST: usize = 4 << 20;
/// Messages of a batch.
const MESSAGES: usize = 4;

/// A batch whose body has so many bytes: messages with keys, the last of which fills it up.
fn filled(name: &str, length: usize) -> Bytes {
    let mut messages: Vec<_> = (0..MESSAGES)
        .map(|number| BatchMessage {
            flag: 0,
            body: vec![b'x'; length / (MESSAGES + 1)].into(),
            properties: format!("KEYS\u{1}{name}{number}\u{2}UNIQ_KEY\u{1}U{name}{number}\u{2}"),
        })
        .collect();
    let short = encoded(&messages).len();
    let last = messages.last_mut().expect("a batch has messages");
    last.body = vec![b'y'; last.body.len() + length - short].into();
    encoded(&messages)
}

fn encoded(messages: &[BatchMessage]) -> Bytes {
    let mut body = BytesMut::new();
    batch::encode(messages, &mut body).expect("a batch");
    body.freeze()
}

/// SEND_BATCH_MESSAGE to queue 0 of topic T.
fn send_batch(body: Bytes, properties: &str) -> Command {
    let mut command = send("T", body, properties);
    command.code = request::SEND_BATCH_MESSAGE;
    command.with_field("m", "true")
}

/// QUERY_MESSAGE from an hour ago to an hour ahead.
fn query(topic: &str, key: &str, unique: bool) -> Command {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
    let command = Command::request(request::QUERY_MESSAGE)
        .with_field("topic", topic)
        .with_field("key", key)
        .with_field("maxNum", "32");
    command
        .with_field("beginTimestamp", (now - 3_600_000).to_string())
        .with_field("endTimestamp", (now + 3_600_000).to_string())
        .with_field("_UNIQUE_KEY_QUERY", unique.to_string())
}

/// Positions of the messages in an answer.
fn positions(answer: &Command) -> Vec<i64> {
    let records = record::records(&answer.body).map(|view| view.expect("a record").to_record());
    records.map(|record| record.physical_offset).collect()
}

/// Positions in the ids of an answer to a send.
fn ids(answer: &Command) -> Vec<i64> {
    let ids = answer.field("msgId").expect("ids");
    ids.split(',').map(|id| parse_offset_message_id(id).expect("an id").1).collect()
}

/// Waits until this request finds this message and no other: queues and keys follow the log.
fn finds(raw: &Raw, address: &str, request: &Command, position: i64, what: &str) {
    let begun = Instant::now();
    loop {
        let found = raw.call(address, request.clone()).map(|answer| positions(&answer));
        if found.as_ref().is_ok_and(|found| *found == [position]) {
            return;
        }
        assert!(begun.elapsed() < LONG, "{what} at {address}: {found:?} in place of {position}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A batch of exactly maxMessageSize is stored as its messages, with an id for each, and each is found by
/// its keys; a byte more is refused with the limit and the size, and leaves nothing behind.
fn batches_up_to_the_limit(raw: &Raw, master: &str, asked: &str) {
    let stored = raw.done(asked, &send_batch(filled("at", MOST), ""));
    let placed = ids(&stored);
    assert_eq!(placed.iter().collect::<BTreeSet<_>>().len(), MESSAGES, "{placed:?}");
    for (number, position) in placed.iter().enumerate() {
        let key = format!("at{number}");
        finds(raw, asked, &query("T", &key, false), *position, &key);
        finds(raw, asked, &query("T", &format!("U{key}"), true), *position, &key);
    }
    let above = raw.call(asked, send_batch(filled("above", MOST + 1), "")).expect("an answer");
    assert_eq!(above.code, response::MESSAGE_ILLEGAL, "{:?}", above.remark);
    let remark = above.remark.unwrap_or_default();
    for part in ["4194304B", "4194305B"] {
        assert!(remark.contains(part), "{part} is missing: {remark}");
    }
    let late =
        BatchMessage { flag: 0, body: "late".into(), properties: "DELAY\u{1}1\u{2}".to_owned() };
    let delayed = raw.call(asked, send_batch(encoded(&[late]), "")).expect("an answer");
    assert_eq!(delayed.code, response::MESSAGE_ILLEGAL, "{:?}", delayed.remark);
    raw.done(asked, &send_batch(filled("small", 1_000), ""));
    let read = |from: u64| {
        let answer = raw.call(master, pull("T", from)).expect("an answer");
        record::records(&answer.body).count() as u64
    };
    let (mut count, begun) = (0, Instant::now());
    while count < 2 * MESSAGES as u64 {
        assert!(begun.elapsed() < LONG, "{count} messages");
        count += read(count);
    }
    assert_eq!((count, read(count)), (2 * MESSAGES as u64, 0), "refused ones left nothing");
}

/// Case 37, one broker.
#[test]
fn case_37_batches_up_to_the_limit_are_stored_and_larger_ones_told_their_size() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::standalone(folder.path());
    let address = server.address("broker");
    batches_up_to_the_limit(&Raw::new(), &address, &address);
}

/// Case 37, three brokers: by a follower, which passes the batch on to the master.
#[test]
fn case_37_a_group_takes_the_same_batches_also_by_a_follower() {
    let world = World::new(1);
    let master = world.settled(&[0, 1, 2]);
    world.wait_whole();
    let follower = world.address((master + 1) % MEMBERS);
    batches_up_to_the_limit(&Raw::new(), &world.address(master), &follower);
}

/// How all three brokers end.
#[derive(Debug, Clone, Copy)]
enum End {
    Stopped,
    Killed,
}

/// Ends all at once.
fn end(world: &mut World, how: End) {
    std::thread::scope(|scope| {
        for node in world.nodes.iter_mut().flatten() {
            scope.spawn(|| match how {
                End::Stopped => node.stop(),
                End::Killed => node.kill(),
            });
        }
    });
}

fn start_again(world: &mut World) {
    (0..MEMBERS).for_each(|node| world.spawn(node));
    world.nodes.iter_mut().flatten().for_each(Server::wait_ready);
}

/// Sends five messages; gives the number and position of each.
fn send_with_keys(raw: &Raw, address: &str, round: usize) -> Vec<(String, i64)> {
    (0..5)
        .map(|number| {
            let key = format!("k{round}-{number}");
            let properties = format!("KEYS\u{1}{key}\u{2}UNIQ_KEY\u{1}U{key}\u{2}");
            let answer = raw.done(address, &send("T", key.clone(), &properties));
            (key, ids(&answer)[0])
        })
        .collect()
}

/// Each of these is found by key, by unique key and by id, by whichever member is asked: the master looks
/// the keys up.
fn finds_all(world: &World, raw: &Raw, sent: &[(String, i64)]) {
    for address in (0..MEMBERS).map(|node| world.address(node)) {
        for (key, position) in sent {
            finds(raw, &address, &query("T", key, false), *position, key);
            finds(raw, &address, &query("T", &format!("U{key}"), true), *position, key);
            let view = Command::request(request::VIEW_MESSAGE_BY_ID);
            let view = view.with_field("offset", position.to_string());
            finds(raw, &address, &view, *position, key);
        }
    }
}

/// Case 38: all three brokers are stopped, then killed, also right after what was acknowledged last. All is
/// found by whoever leads then, and by a member that came back without its index once it leads.
#[test]
fn case_38_keys_and_ids_find_all_after_three_brokers_were_stopped_and_killed() {
    let mut world = World::new(1);
    let raw = Raw::new();
    let mut sent = Vec::new();
    for (round, how) in [End::Stopped, End::Killed].into_iter().enumerate() {
        let master = world.settled(&[0, 1, 2]);
        sent.extend(send_with_keys(&raw, &world.address(master), round));
        end(&mut world, how);
        let index = world.home(round).join("store").join("index");
        std::fs::remove_dir_all(&index).expect("a member has an index");
        start_again(&mut world);
        world.settled(&[0, 1, 2]);
        finds_all(&world, &raw, &sent);
        world.wait_whole();
        world.hand_to(round);
        finds_all(&world, &raw, &sent);
    }
}
