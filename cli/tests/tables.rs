//! Three brokers of one group whose master is killed at once after it has answered: topics, groups,
//! offsets and the progress of delayed messages are with the next master, and with the one after it,
//! also where that was away while the log went on and its oldest files were deleted.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "this is a test; clippy knows only functions marked as tests"
)]

mod process;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use bytes::Bytes;
use process::{
    LONG,
    raw::{Raw, of_group, send},
    world::{Extra, MEMBERS, World},
};
use protocol::{
    Command,
    body::{DelayOffsetSerializeWrapper, SubscriptionGroupConfig},
    code::request,
};
use serde_json::Value;

/// Retention takes the oldest files whatever their age, where the disk is used so far.
const FORCED: &[&str] = &[
    "mappedFileSizeCommitLog=1048576",
    "cleanFileForciblyEnable=true",
    "diskSpaceCleanForciblyRatio=20",
    "cleanResourceInterval=500",
];

fn text(raw: &Raw, address: &str, code: i32) -> String {
    let answer = raw.done(address, &Command::request(code));
    String::from_utf8_lossy(&answer.body).into_owned()
}

fn runtime_info(raw: &Raw, address: &str) -> Value {
    let told: Value =
        serde_json::from_str(&text(raw, address, request::GET_BROKER_RUNTIME_INFO)).expect("JSON");
    told["table"].clone()
}

fn topic(name: &str, queues: u32) -> Command {
    Command::request(request::UPDATE_AND_CREATE_TOPIC)
        .with_field("topic", name)
        .with_field("defaultTopic", "TBW102")
        .with_field("readQueueNums", queues.to_string())
        .with_field("writeQueueNums", queues.to_string())
        .with_field("perm", "6")
        .with_field("topicFilterType", "SINGLE_TAG")
        .with_field("topicSysFlag", "0")
        .with_field("order", "false")
}

fn delete_topic(name: &str) -> Command {
    Command::request(request::DELETE_TOPIC_IN_BROKER).with_field("topic", name)
}

fn group(name: &str, retries: i32) -> Command {
    let config = SubscriptionGroupConfig {
        group_name: name.to_owned(),
        retry_max_times: retries,
        ..SubscriptionGroupConfig::default()
    };
    Command::request(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
        .with_body(serde_json::to_vec(&config).expect("a text"))
}

fn commit(topic: &str, offset: i64) -> Command {
    of_group(request::UPDATE_CONSUMER_OFFSET, "G", topic)
        .with_field("commitOffset", offset.to_string())
}

fn next_of(raw: &Raw, address: &str, topic: &str) -> i64 {
    let max = Command::request(request::GET_MAX_OFFSET)
        .with_field("topic", topic)
        .with_field("queueId", "0");
    let answer = raw.done(address, &max);
    answer.field("offset").expect("an offset").parse().expect("a number")
}

fn delay_progress(raw: &Raw, address: &str) -> i64 {
    let answer = raw.done(address, &Command::request(request::GET_ALL_DELAY_OFFSET));
    let told = DelayOffsetSerializeWrapper::decode(&answer.body).expect("JSON");
    told.offset_table.get(&1).copied().unwrap_or(0)
}

/// What every master has to know.
#[derive(Debug, Clone, Copy)]
struct Known {
    retries: i32,
    offset: i64,
    delayed: i64,
}

impl Known {
    fn hold(self, raw: &Raw, address: &str) {
        let topics = text(raw, address, request::GET_ALL_TOPIC_CONFIG);
        assert!(topics.contains("\"Kept\""), "{topics}");
        assert!(!topics.contains("\"Gone\""), "{topics}");
        let groups = text(raw, address, request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG);
        let groups: Value = serde_json::from_str(&groups).expect("JSON");
        let found = &groups["subscriptionGroupTable"]["G"]["retryMaxTimes"];
        assert_eq!(*found, self.retries, "{groups}");
        let answer = raw.done(address, &of_group(request::QUERY_CONSUMER_OFFSET, "G", "Kept"));
        assert_eq!(answer.field("offset"), Some(self.offset.to_string().as_str()));
        assert_eq!(delay_progress(raw, address), self.delayed);
        assert_eq!(next_of(raw, address, "Late"), self.delayed, "delivered once each");
    }
}

/// Changes that the master acknowledges, the last of them just before it is killed.
fn change(raw: &Raw, address: &str, known: &mut Known) {
    raw.done(address, &topic("Kept", 1));
    raw.done(address, &topic("Late", 1));
    raw.done(address, &topic("Gone", 1));
    let delayed = send("Late", "late", "DELAY\u{1}1\u{2}");
    raw.done(address, &delayed);
    known.delayed += 1;
    let begun = Instant::now();
    while delay_progress(raw, address) < known.delayed {
        assert!(begun.elapsed() < LONG, "not delivered");
        std::thread::sleep(Duration::from_millis(50));
    }
    known.retries += 1;
    known.offset += 5;
    raw.done(address, &delete_topic("Gone"));
    raw.done(address, &group("G", known.retries));
    raw.done(address, &commit("Kept", known.offset));
}

fn others(node: usize) -> Vec<usize> {
    (0..MEMBERS).filter(|other| *other != node).collect()
}

#[test]
fn what_the_master_acknowledged_before_it_was_killed_is_with_the_next_and_the_one_after() {
    let sets: Vec<String> = FORCED.iter().map(|set| (*set).to_owned()).collect();
    let mut world = World::with(1, move |_, _| Extra { sets: sets.clone(), ..Extra::default() });
    let raw = Raw::new();
    let mut known = Known { retries: 3, offset: 0, delayed: 0 };
    let mut master = world.settled(&[0, 1, 2]);
    world.wait_whole();
    for _ in 0..2 {
        change(&raw, &world.address(master), &mut known);
        world.kill(master);
        let next = world.settled(&others(master));
        known.hold(&raw, &world.address(next));
        world.spawn(master);
        assert_eq!(world.settled(&[0, 1, 2]), next);
        world.wait_whole();
        master = next;
    }
    // One is away, and what it lacks begins in files that are deleted meanwhile.
    let away = others(master)[0];
    world.kill(away);
    let address = world.address(master);
    change(&raw, &address, &mut known);
    let body = Bytes::from(vec![b'x'; 100 << 10]);
    for _ in 0..60 {
        raw.done(&address, &send("Kept", body.clone(), ""));
    }
    wait_trimmed(&raw, &address);
    known.offset += 1;
    raw.done(&address, &commit("Kept", known.offset));
    world.spawn(away);
    assert_eq!(world.settled(&[0, 1, 2]), master);
    world.wait_whole();
    world.hand_to(away);
    known.hold(&raw, &world.address(away));
    assert_eq!(next_of(&raw, &world.address(away), "Kept"), 60);
}

/// Waits until the oldest files are gone, where the disk is so full that retention takes them.
fn wait_trimmed(raw: &Raw, address: &str) {
    let begun = Instant::now();
    loop {
        let told = runtime_info(raw, address);
        let number = |name: &str| {
            let text = told[name].as_str().unwrap_or_else(|| panic!("{name} in {told}"));
            text.parse::<f64>().expect("a number")
        };
        if number("commitLogDiskRatio") < 0.21 || number("commitLogMinOffset") > 1e6 {
            return;
        }
        assert!(begun.elapsed() < LONG, "{told}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Changes of a group that a member misses, by an administrator's tool.
fn changed_by_tools(world: &World) {
    for words in [
        &["admin", "topic", "create", "New", "--queues", "3"][..],
        &["admin", "topic", "create", "Old", "--queues", "8"],
        &["admin", "topic", "delete", "Gone"],
    ] {
        world.names[0].run(words);
    }
}

/// Something that a person writes into a table of a member that does not run.
#[expect(clippy::disallowed_methods, reason = "the member does not run")]
fn changed_by_hand(config: &Path) {
    let path = config.join("topics.json");
    let text = std::fs::read_to_string(&path).expect("a table");
    let mut table: Value = serde_json::from_str(&text).expect("JSON");
    let topics = &mut table["topicConfigTable"];
    topics["Old"]["readQueueNums"] = 77.into();
    let mut made = topics["Old"].clone();
    made["topicName"] = "ByHand".into();
    topics["ByHand"] = made;
    std::fs::write(&path, table.to_string()).expect("written");
}

/// Topics and groups as a member tells them, without the versions of the tables.
fn tables_of(raw: &Raw, address: &str) -> (Value, Value) {
    let table = |code: i32, name: &str| {
        let told: Value = serde_json::from_str(&text(raw, address, code)).expect("JSON");
        told[name].clone()
    };
    (
        table(request::GET_ALL_TOPIC_CONFIG, "topicConfigTable"),
        table(request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "subscriptionGroupTable"),
    )
}

/// A follower is away while topics and groups are changed: by a tool, and in its own files by a person.
/// It has what the group has when it is back, in Java's files too, and when it leads; what was written
/// at this member alone counts no more.
#[test]
fn a_member_that_was_away_has_what_was_changed_meanwhile_also_in_javas_files() {
    let mut world = World::new(1);
    let raw = Raw::new();
    let master = world.settled(&[0, 1, 2]);
    world.wait_whole();
    let address = world.address(master);
    raw.done(&address, &topic("Old", 1));
    raw.done(&address, &topic("Gone", 1));
    raw.done(&address, &group("G", 3));
    raw.done(&address, &group("H", 3));
    let away = others(master)[0];
    let config = world.home(away).join("store").join("config");
    let in_files = |name: &str, part: &str| {
        let begun = Instant::now();
        while !std::fs::read_to_string(config.join(name)).is_ok_and(|it| it.contains(part)) {
            assert!(begun.elapsed() < LONG, "{part} is not in {name}");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    in_files("topics.json", "\"Gone\"");
    in_files("subscriptionGroup.json", "\"H\"");
    world.nodes[away].as_mut().expect("it runs").stop();
    changed_by_tools(&world);
    raw.done(&address, &group("G", 9));
    let delete = Command::request(request::DELETE_SUBSCRIPTIONGROUP).with_field("groupName", "H");
    raw.done(&address, &delete);
    changed_by_hand(&config);
    world.spawn(away);
    assert_eq!(world.settled(&[0, 1, 2]), master);
    world.wait_whole();
    let begun = Instant::now();
    while tables_of(&raw, &world.address(away)) != tables_of(&raw, &address) {
        assert!(begun.elapsed() < LONG, "{:?}", tables_of(&raw, &world.address(away)));
        std::thread::sleep(Duration::from_millis(100));
    }
    let (topics, groups) = tables_of(&raw, &address);
    assert_eq!(
        (&topics["Old"]["readQueueNums"], &topics["New"]["readQueueNums"]),
        (&8.into(), &3.into())
    );
    assert_eq!(groups["G"]["retryMaxTimes"], 9);
    assert!(topics["Gone"].is_null() && topics["ByHand"].is_null() && groups["H"].is_null());
    in_files("topics.json", "\"New\"");
    in_files("subscriptionGroup.json", "\"retryMaxTimes\":9");
    let written = std::fs::read_to_string(config.join("topics.json")).expect("a table");
    assert!(!written.contains("ByHand") && !written.contains("\"Gone\""), "{written}");
    world.hand_to(away);
    for node in 0..MEMBERS {
        assert_eq!(
            tables_of(&raw, &world.address(node)),
            (topics.clone(), groups.clone()),
            "{node}"
        );
    }
}
