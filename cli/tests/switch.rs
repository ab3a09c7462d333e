//! Three brokers of one group while the master changes: what clients get from each of them.

mod process;

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use process::{
    LONG, ledgermq,
    raw::{self, Raw},
    world::{MEMBERS, World},
};
use protocol::{
    Command,
    code::{request, response},
    header::SendMessageResponse,
    version,
};
use serde_json::Value;

/// One message, whatever the broker's role.
fn send() -> Command {
    raw::send("T", "Hello", "UNIQ_KEY\u{1}k\u{2}")
}

#[test]
fn a_follower_passes_on_what_its_clients_send() {
    let world = World::new(1);
    let master = world.settled(&[0, 1, 2]);
    let raw = Raw::new();
    for node in 0..MEMBERS {
        let answer = raw.call(&world.address(node), send()).expect("an answer");
        assert_eq!(answer.code, response::SUCCESS, "{node}: {:?}", answer.remark);
        let header: SendMessageResponse = answer.header().expect("a header");
        assert_eq!(header.queue_offset, i64::try_from(node).expect("small"), "one queue, in order");
    }
    let told = world.status();
    let roles: Vec<_> = told.iter().map(|told| told["brokerRole"].clone()).collect();
    assert_eq!(roles.iter().filter(|role| **role == "SLAVE").count(), 2, "{told:?}");
    assert_eq!(told[master]["role"], "LEADER");
    assert_eq!(told[master]["client"], world.address(master));
}

/// 32 senders that ask for routes each second: neither a command nor SIGTERM fails one of their sends.
#[test]
fn a_planned_switch_fails_no_send() {
    let mut world = World::new(1);
    let master = world.settled(&[0, 1, 2]);
    world.wait_whole();
    let run = ["bench", "failover", "--duration", "12s", "--rate", "1000", "--window", "32"];
    // A topic that every broker has by itself.
    let flags = [
        "--topic",
        "DefaultCluster",
        "--body",
        "100",
        "--route-age",
        "1s",
        "--timeout",
        "10s",
        "--json",
    ];
    let bench = world.names[0]
        .command(&[&run[..], &flags[..]].concat())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a bench");
    std::thread::sleep(Duration::from_secs(2));
    let next = (master + 1) % MEMBERS;
    let (to, peers) = (format!("n{next}"), world.peers());
    let command = ["admin", "group", "transfer", "--group", "RaftNode00", "--peers", &peers];
    let (done, out, errors) = ledgermq(&[&command[..], &["--to", &to]].concat(), "");
    assert!(done, "{errors}");
    assert_eq!(out.trim(), format!("{to} leads"));
    let begun = Instant::now();
    while world.settled(&[0, 1, 2]) != next {
        assert!(begun.elapsed() < LONG, "{to} is not the master at the name server");
    }
    world.nodes[next].as_mut().expect("it runs").stop();
    let output = bench.wait_with_output().expect("an output");
    let told: Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert_eq!((&told["failed"], &told["lost"]), (&0.into(), &0.into()), "{told}");
    assert_eq!(told["storedTwice"], 0, "{told}");
    let others: Vec<usize> = (0..MEMBERS).filter(|node| *node != next).collect();
    world.settled(&others);
}

/// A client of 5.3.2 or later is told to ask elsewhere by a member that stops; an older one, which would take
/// that for a failure, is served to the end.
#[test]
fn a_member_that_stops_sends_away_whoever_understands_it() {
    let mut world = World::new(1);
    let master = world.settled(&[0, 1, 2]);
    world.wait_whole();
    let (raw, address) = (Raw::new(), world.address(master));
    let ask = |version| {
        let mut question = Command::request(request::GET_BROKER_RUNTIME_INFO);
        question.version = version;
        raw.call(&address, question).map(|answer| answer.code)
    };
    assert_eq!(ask(version::CURRENT).expect("an answer"), response::SUCCESS);
    // It leaves the routes at the end of its stop, for which it waits now.
    world.names[0].halt();
    let mut stopping = world.nodes[master].take().expect("it runs");
    let stop = std::thread::spawn(move || stopping.stop());
    let begun = Instant::now();
    while ask(version::CURRENT).ok() != Some(response::GO_AWAY) {
        assert!(begun.elapsed() < LONG, "nobody was sent away");
    }
    if let Ok(code) = ask(version::V5_3_1) {
        assert_eq!(code, response::SUCCESS, "an old client");
    }
    world.names[0].go_on();
    stop.join().expect("an orderly stop");
    let others: Vec<usize> = (0..MEMBERS).filter(|node| *node != master).collect();
    world.settled(&others);
}

/// Rounds of the measurement, each with two switches.
const ROUNDS: usize = 5;

/// Measures: 5,000 messages of 1 KiB a second from 32 senders, SYNC_FLUSH, the lead handed over by a
/// command and by SIGTERM. No send fails; the gaps are printed.
///
///     cargo test --release -p ledgermq --test switch measure -- --ignored --nocapture
#[test]
#[ignore = "a measurement of a minute, for a quiet machine"]
fn measure_planned_switches_under_5000_messages_a_second() {
    let mut world = World::new(1);
    world.settled(&[0, 1, 2]);
    world.wait_whole();
    for round in 0..ROUNDS {
        let load = std::fs::read_to_string("/proc/loadavg").expect("a load");
        let words = "bench failover --duration 12s --rate 5000 --window 32 --topic DefaultCluster --gap 20ms \
                     --route-age 1s --timeout 3s --json";
        let words: Vec<&str> = words.split_whitespace().collect();
        let bench = world.names[0].command(&words).stdout(Stdio::piped()).spawn().expect("a bench");
        std::thread::sleep(Duration::from_secs(3));
        let next = (world.settled(&[0, 1, 2]) + 1) % MEMBERS;
        world.hand_to(next);
        std::thread::sleep(Duration::from_secs(3));
        world.nodes[next].as_mut().expect("it runs").stop();
        let output = bench.wait_with_output().expect("an output");
        let told: Value = serde_json::from_slice(&output.stdout).expect("an object");
        println!(
            "round {round}: load {}, {} acknowledged in 12 s, {} failed, gaps from 20 ms on {}",
            load.split(' ').next().unwrap_or_default(),
            told["acknowledgedInAll"],
            told["failed"],
            told["gapList"]
        );
        assert_eq!((&told["failed"], &told["lost"]), (&0.into(), &0.into()), "{told}");
        assert_eq!(told["storedTwice"], 0, "{told}");
        world.spawn(next);
        world.settled(&[0, 1, 2]);
        world.wait_whole();
    }
}

#[test]
fn a_master_that_is_cut_off_refuses_at_once_and_sends_its_clients_away() {
    let world = World::new(1);
    let master = world.settled(&[0, 1, 2]);
    let raw = Raw::new();
    let address = world.address(master);
    let stored = raw.call(&address, send()).expect("an answer");
    assert_eq!(stored.code, response::SUCCESS, "{:?}", stored.remark);
    let others: Vec<usize> = (0..MEMBERS).filter(|node| *node != master).collect();
    others.iter().for_each(|node| world.nodes[*node].as_ref().expect("it runs").halt());
    let connection = raw.connection(&address);
    let begun = Instant::now();
    let refused = loop {
        let answer = raw.call(&address, send());
        match answer {
            Ok(answer) if answer.code == response::SERVICE_NOT_AVAILABLE => break answer,
            // Nobody can say yet whether it is committed; or the connection was closed meanwhile.
            Ok(_) | Err(_) => assert!(begun.elapsed() < LONG, "it goes on"),
        }
    };
    let remark = refused.remark.unwrap_or_default();
    assert!(remark.contains("a slave that knows no master"), "{remark}");
    while connection.is_open() {
        assert!(begun.elapsed() < LONG, "the connection stays");
        std::thread::sleep(Duration::from_millis(20));
    }
    others.iter().for_each(|node| world.nodes[*node].as_ref().expect("it runs").go_on());
    world.settled(&[0, 1, 2]);
}

/// A pull that a proxy makes for a member of a broadcasting group; it asks for -1 where it knows no offset.
fn broadcast_pull(group: &str, client: &str, offset: i64) -> Command {
    raw::pull_by(group, "T", 0)
        .with_field("queueOffset", offset.to_string())
        .with_field("requestSource", "1")
        .with_field("proxyFrowardClientId", client)
}

/// The members of a broadcasting group come to the next master after the first was killed. Who knows its
/// offset goes on there; who does not begins with the member that was furthest behind, also where a
/// quicker one came first, and then nobody misses anything.
#[test]
fn a_broadcasting_group_goes_on_at_the_next_master_and_misses_nothing() {
    let mut world = World::new(1);
    let first = world.settled(&[0, 1, 2]);
    world.wait_whole();
    let raw = Raw::new();
    let address = world.address(first);
    for offset in 0..4 {
        assert_eq!(raw.sent(&address, "T", "m", ""), offset);
    }
    let served = |address: &str, group: &str, client: &str, offset: i64| {
        raw.done(address, &broadcast_pull(group, client, offset));
    };
    let least = |address: &str, group: &str, wanted: i64| {
        let begun = Instant::now();
        let group = format!("{group}@broadcast");
        while raw.progress(address, &group, "T") != Some(wanted) {
            assert!(begun.elapsed() < LONG, "{group}: {:?}", raw.progress(address, &group, "T"));
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    served(&address, "G", "slow", 1);
    served(&address, "G", "quick", 2);
    least(&address, "G", 1);
    // A commit that is answered is in the log, and so is what was to be written before it.
    let group = Command::request(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP);
    raw.done(&address, &group.with_body(r#"{"groupName":"C"}"#));
    let commit = raw::of_group(request::UPDATE_CONSUMER_OFFSET, "C", "T");
    raw.done(&address, &commit.with_field("commitOffset", "1"));
    world.kill(first);
    let others: Vec<usize> = (0..MEMBERS).filter(|node| *node != first).collect();
    let address = world.address(world.settled(&others));
    assert_eq!(raw.progress(&address, "G@broadcast", "T"), Some(1));
    served(&address, "G", "quick", 3);
    // Once a later group has its least offset, that of the first was looked at again.
    served(&address, "H", "other", 2);
    least(&address, "H", 2);
    least(&address, "G", 1);
    let sent_to = raw.call(&address, broadcast_pull("G", "slow", -1)).expect("an answer");
    assert_eq!(sent_to.code, response::PULL_OFFSET_MOVED, "{:?}", sent_to.remark);
    assert_eq!(sent_to.field("nextBeginOffset"), Some("1"));
    served(&address, "G", "slow", 1);
}

/// A table of delay levels is changed member by member. What the master takes meanwhile under the old one is
/// derived by the others under the new one, and is due when it was promised, whoever delivers it.
#[test]
fn a_delayed_message_keeps_its_time_while_the_table_of_levels_is_changed() {
    let mut world = World::new(1);
    let first = world.settled(&[0, 1, 2]);
    world.wait_whole();
    let others: Vec<usize> = (0..MEMBERS).filter(|node| *node != first).collect();
    for node in &others {
        world.nodes[*node].as_mut().expect("it runs").stop();
        world.nodes[*node] = Some(world.started(*node, &["messageDelayLevel=1s 1h"]));
        world.settled(&[0, 1, 2]);
        world.wait_whole();
    }
    let raw = Raw::new();
    let begun = Instant::now();
    raw.sent(&world.address(first), "T", "five seconds", "DELAY\u{1}2\u{2}");
    world.kill(first);
    let address = world.address(world.settled(&others));
    while raw.bodies(&address, "T", 0) != ["five seconds"] {
        assert!(begun.elapsed() < LONG, "it waits for an hour");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(begun.elapsed() >= Duration::from_secs(5), "{:?}", begun.elapsed());
}
