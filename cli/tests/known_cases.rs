//! Faults that users of other brokers met (docs/known-faults.md) and that show only while several clients
//! do something at a time.
#![expect(
    clippy::expect_used,
    reason = "this is a test, which starts processes; clippy knows only functions marked as tests"
)]

mod process;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    net::TcpStream,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use process::{
    LONG, Server, can_mount,
    raw::{Raw, of_group, pull, pull_by, send},
    world::{MEMBERS, World},
};
use protocol::{
    Command,
    body::{ConsumerData, HeartbeatData, LockBatchResponseBody, SubscriptionData},
    code::{request, response},
    frame,
    header::EndTransactionRequest,
    message::{id::parse_offset_message_id, properties, record},
};
use serde_json::Value;

fn others(node: usize) -> Vec<usize> {
    (0..MEMBERS).filter(|other| *other != node).collect()
}

fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// MiB of the file system, and how many are written to it.
const DISK: usize = 64;
const WRITTEN: usize = 3 * DISK;

/// A broker on a file system of its own, whose oldest files go when half of it is used.
fn on_small_disk(folder: &Path) -> Server {
    let data = folder.join("ledgermq-data");
    std::fs::create_dir(&data).expect("a folder");
    let script = format!("mount -t tmpfs -o size={DISK}m none {} && exec \"$@\"", data.display());
    let mut arguments = Server::standalone_arguments(folder);
    for set in [
        "mappedFileSizeCommitLog=4194304",
        "cleanFileForciblyEnable=true",
        "diskSpaceCleanForciblyRatio=50",
        "cleanResourceInterval=100",
    ] {
        arguments.extend(["--set".to_owned(), set.to_owned()]);
    }
    Server::start_by(&["unshare", "-m", "sh", "-c", &script, "sh"], folder, &arguments)
}

/// Asks for the oldest messages and reads no answer.
fn deaf_reader(address: &str) -> TcpStream {
    let mut reader = TcpStream::connect(address).expect("a connection");
    let mut asked = BytesMut::new();
    (0..64).for_each(|_| frame::encode(&pull("T", 0), &mut asked));
    reader.write_all(&asked).expect("sent");
    reader
}

/// Case 26: a reader of the oldest file keeps neither the file nor the first offset where they are. The
/// first offset moves when the file goes, what lies there can be read, a pull before it is told where to
/// go on, and the room is free again.
#[test]
fn case_26_a_reader_of_the_oldest_file_keeps_no_first_offset_behind() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let server = on_small_disk(folder.path());
    let (address, raw) = (server.address("broker"), Raw::new());
    let body = Bytes::from(vec![b'x'; 1 << 20]);
    raw.done(&address, &send("T", body.clone(), ""));
    let reader = deaf_reader(&address);
    let first = || -> u64 {
        let answer = raw.done(&address, &of_group(request::GET_MIN_OFFSET, "G", "T"));
        answer.field("offset").expect("an offset").parse().expect("a number")
    };
    let mut moves = BTreeSet::new();
    for _ in 1..WRITTEN {
        raw.done(&address, &send("T", body.clone(), ""));
        let told = first();
        moves.insert(told);
        let found = raw.call(&address, pull("T", told)).expect("an answer");
        let moved = first() > told;
        assert!(found.code == response::SUCCESS || moved, "{told}: {:?}", found.remark);
    }
    assert!(moves.len() > 5, "the first offset moves with the files: {moves:?}");
    let before = raw.call(&address, pull("T", 0)).expect("an answer");
    assert_eq!(before.code, response::PULL_OFFSET_MOVED, "{:?}", before.remark);
    let next: u64 = before.field("nextBeginOffset").expect("one").parse().expect("a number");
    assert!(next > 0 && next <= first(), "{next}");
    drop(reader);
    // Files may still go while it is read.
    let deadline = Instant::now() + Duration::from_secs(20);
    while raw.all_bodies_from(&address, "T", first()) <= 5 {
        assert!(Instant::now() < deadline, "what is left is read to its end");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Changes of the lead.
const CHANGES: usize = 9;

/// Case 56: after each of many changes of the role all services of a master work: messages are taken, and
/// those with a delay, of a timer and of a transaction come once. Nothing of an earlier role is left
/// running.
#[test]
fn case_56_all_services_live_through_many_changes_of_the_role() {
    let world = World::new(1);
    let mut master = world.settled(&[0, 1, 2]);
    world.wait_whole();
    let raw = Raw::new();
    let mut threads = [const { BTreeMap::new() }; MEMBERS];
    for round in 0..CHANGES {
        master = (master + 1) % MEMBERS;
        world.hand_to(master);
        let address = world.address(master);
        raw.sent(&address, "N", &format!("n{round}"), "");
        raw.sent(&address, "D", &format!("d{round}"), "DELAY\u{1}1\u{2}");
        raw.sent(&address, "W", &format!("w{round}"), "TIMER_DELAY_MS\u{1}500\u{2}");
        commit(&raw, &address, round);
        if round == MEMBERS {
            threads = std::array::from_fn(|node| threads_of(&world, node));
        }
    }
    let address = world.address(master);
    for (topic, letter) in [("N", 'n'), ("D", 'd'), ("W", 'w'), ("X", 'x')] {
        wait(&format!("all of {topic}"), || raw.all_bodies(&address, topic).len() >= CHANGES);
        let mut found = raw.all_bodies(&address, topic);
        found.sort();
        let mut expected: Vec<_> = (0..CHANGES).map(|round| format!("{letter}{round}")).collect();
        expected.sort();
        assert_eq!(found, expected, "{topic}");
    }
    for (node, before) in threads.into_iter().enumerate() {
        assert_eq!(threads_of(&world, node), before, "no thread of an earlier role is left");
    }
}

/// A transaction that is committed at once.
fn commit(raw: &Raw, address: &str, round: usize) {
    let key = format!("U{round}");
    let half = format!("TRAN_MSG\u{1}true\u{2}PGROUP\u{1}P\u{2}UNIQ_KEY\u{1}{key}\u{2}");
    let answer = raw.done(address, &send("X", format!("x{round}"), &half));
    let id = answer.field("msgId").expect("an id");
    let (_, commit_log_offset) = parse_offset_message_id(id).expect("an id");
    let offset = answer.field("queueOffset").expect("one").parse().expect("a number");
    let end = EndTransactionRequest {
        topic: Some("X".into()),
        producer_group: "P".into(),
        tran_state_table_offset: offset,
        commit_log_offset,
        commit_or_rollback: 8,
        from_transaction_check: false,
        msg_id: key.clone(),
        transaction_id: Some(key),
    };
    raw.done(address, &Command::request_with(request::END_TRANSACTION, &end));
}

/// Threads of a member by name, without those that the runtime starts for blocking work as it needs them.
fn threads_of(world: &World, node: usize) -> BTreeMap<String, usize> {
    let pid = world.nodes[node].as_ref().expect("it runs").pid();
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
    let mut threads = BTreeMap::new();
    for task in tasks {
        // One may end meanwhile.
        let name = std::fs::read_to_string(task.expect("one").path().join("comm"));
        let name = name.unwrap_or_default().trim().to_owned();
        if !name.is_empty() && !name.starts_with("tokio") {
            *threads.entry(name).or_default() += 1;
        }
    }
    threads
}

/// What senders get, one message after the other each, in two seconds.
fn bench(world: &World, senders: &str) -> Value {
    let words = "bench failover --rate 0 --topic DefaultCluster --body 1024 --timeout 10s --duration 2s \
                 --json --window";
    let words: Vec<&str> = words.split_whitespace().chain([senders]).collect();
    let run = world.names[0].command(&words).stdout(Stdio::piped()).spawn().expect("a bench");
    let output = run.wait_with_output().expect("an output");
    serde_json::from_slice(&output.stdout).expect("an object")
}

/// Case 79: with many senders a group is not slower, as they share writes, flushes and pushes, and no
/// send is refused for being many. How it compares with others is measured: docs/performance.md.
#[test]
fn case_79_many_senders_share_what_one_waits_for() {
    let world = World::new(1);
    world.settled(&[0, 1, 2]);
    world.wait_whole();
    let rate = |told: &Value| {
        assert_eq!((&told["failed"], &told["lost"]), (&0.into(), &0.into()), "{told}");
        told["acknowledgedInAll"].as_u64().expect("a number")
    };
    let (one, many) = (rate(&bench(&world, "1")), rate(&bench(&world, "64")));
    assert!(many > 3 * one, "{many} of 64 senders and {one} of one");
}

fn lock(raw: &Raw, address: &str, client: &str) -> usize {
    let body = format!(
        r#"{{"consumerGroup":"G","clientId":"{client}","mqSet":[{{"topic":"T","brokerName":"RaftNode00","queueId":0}}]}}"#
    );
    let answer = raw.done(address, &Command::request(request::LOCK_BATCH_MQ).with_body(body));
    LockBatchResponseBody::decode(&answer.body).expect("JSON").lock_ok_mq_set.len()
}

/// A consumer of group G shows that it is online, as it does at a master that is new to it.
fn heartbeat(raw: &Raw, address: &str, client: &str) {
    let subscription = SubscriptionData {
        topic: "T".into(),
        sub_string: "*".into(),
        sub_version: 1,
        ..SubscriptionData::default()
    };
    let data = HeartbeatData {
        client_id: client.into(),
        consumer_data_set: vec![ConsumerData {
            group_name: "G".into(),
            consume_type: "CONSUME_PASSIVELY".into(),
            message_model: "CLUSTERING".into(),
            consume_from_where: "CONSUME_FROM_FIRST_OFFSET".into(),
            subscription_data_set: vec![subscription],
            ..ConsumerData::default()
        }],
        ..HeartbeatData::default()
    };
    raw.done(address, &Command::request(request::HEART_BEAT).with_body(data.encode()));
}

/// Case 91: after the master was killed its successor gives a queue that is consumed in order to the one
/// that holds it, at once, and to nobody else.
#[test]
fn case_91_a_queue_in_order_stays_with_its_holder_over_a_kill() {
    let mut world = World::new(1);
    let first = world.settled(&[0, 1, 2]);
    world.wait_whole();
    let (holder, other) = (Raw::new(), Raw::new());
    let address = world.address(first);
    holder.sent(&address, "T", "m", "");
    wait("the queue is there", || holder.bodies(&address, "T", 0).len() == 1);
    let online = |address: &str| {
        heartbeat(&holder, address, "c1");
        heartbeat(&other, address, "c2");
    };
    online(&address);
    assert_eq!(lock(&holder, &address, "c1"), 1);
    assert_eq!(lock(&other, &address, "c2"), 0);
    let commit = of_group(request::UPDATE_CONSUMER_OFFSET, "G", "T");
    holder.done(&address, &commit.with_field("commitOffset", "1"));
    for _ in 0..2 {
        let master = world.settled(&[0, 1, 2]);
        world.kill(master);
        let next = world.settled(&others(master));
        let address = world.address(next);
        // It may know of the other one only, for a while.
        heartbeat(&other, &address, "c2");
        assert_eq!(lock(&other, &address, "c2"), 0, "there may be others");
        online(&address);
        // The other one asks first: nobody has shown yet that the queue is its own.
        assert_eq!(lock(&other, &address, "c2"), 0, "a lease of the master before may still hold");
        let pulled = holder.call(&address, pull_by("G", "T", 0)).expect("an answer");
        assert_eq!(pulled.code, response::SUCCESS, "{:?}", pulled.remark);
        assert_eq!(lock(&holder, &address, "c1"), 1, "it goes on at once");
        assert_eq!(lock(&other, &address, "c2"), 0, "it is held");
        world.spawn(master);
        world.settled(&[0, 1, 2]);
        world.wait_whole();
    }
    let address = world.address(world.settled(&[0, 1, 2]));
    let body = r#"{"consumerGroup":"G","clientId":"c1","mqSet":[{"topic":"T","brokerName":"RaftNode00","queueId":0}]}"#;
    holder.done(&address, &Command::request(request::UNLOCK_BATCH_MQ).with_body(body));
    assert_eq!(lock(&other, &address, "c2"), 1, "it was given back");
}

/// Attempts of a client for one message: the first, and two repeats.
const ATTEMPTS: usize = 3;

/// Case 92: while both followers stand still a send is answered, or its connection closed, before the
/// client gives up, and never as stored. In the end the message is there once for each attempt at most,
/// always under its own key, however long they stood still.
#[test]
fn case_92_what_times_out_is_stored_no_more_often_than_it_was_tried() {
    let world = World::new(1);
    world.settled(&[0, 1, 2]);
    world.wait_whole();
    let raw = Raw::new();
    for (round, pause) in [Some(2_500), Some(4_000), None].into_iter().enumerate() {
        let address = world.address(world.settled(&[0, 1, 2]));
        let master = world.settled(&[0, 1, 2]);
        let key = format!("UNIQ_KEY\u{1}K{round}\u{2}");
        let (followers, topic) = (others(master), format!("T{round}"));
        raw.sent(&address, &topic, "before", "");
        let each = |what: fn(&Server)| {
            followers.iter().for_each(|node| what(world.nodes[*node].as_ref().expect("it runs")));
        };
        each(Server::halt);
        let attempt = || {
            let begun = Instant::now();
            let answer = raw.call(&address, send(&topic, "m", &key));
            assert!(begun.elapsed() < LONG, "an attempt has no end");
            answer.is_ok_and(|answer| answer.code == response::SUCCESS)
        };
        let stored = std::thread::scope(|scope| {
            let attempts = scope.spawn(|| (0..ATTEMPTS).any(|_| attempt()));
            if let Some(pause) = pause {
                std::thread::sleep(Duration::from_millis(pause));
                each(Server::go_on);
            }
            attempts.join().expect("attempts end")
        });
        if pause.is_none() {
            assert!(!stored, "no majority has it");
            each(Server::go_on);
        }
        let address = world.address(world.settled(&[0, 1, 2]));
        raw.done(&address, &send(&topic, "after", ""));
        wait("what was sent last", || {
            raw.all_bodies(&address, &topic).last().is_some_and(|body| body == "after")
        });
        let copies = keys_of(&raw, &address, &topic, "m");
        assert!(copies.len() <= ATTEMPTS && copies.len() >= usize::from(stored), "{copies:?}");
        assert!(copies.iter().all(|found| *found == format!("K{round}")), "{copies:?}");
        world.wait_whole();
    }
}

/// The unique keys of the messages with this body.
fn keys_of(raw: &Raw, address: &str, topic: &str, body: &str) -> Vec<String> {
    let answer = raw.done(address, &pull(topic, 0));
    let views = record::records(&answer.body).map(|view| view.expect("a record").to_record());
    let of_body = views.filter(|record| record.body == body.as_bytes());
    let key = |properties: &str| properties::find(properties, "UNIQ_KEY").map(str::to_owned);
    of_body.map(|record| key(&record.properties).expect("a key")).collect()
}
