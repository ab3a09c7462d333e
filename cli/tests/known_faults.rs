//! Faults that users of other brokers met (docs/known-faults.md), on three brokers.
#![expect(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "this is a test, which starts processes; clippy knows only functions marked as tests"
)]

mod process;

use std::{
    collections::BTreeMap,
    path::Path,
    process::Stdio,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use process::{
    LONG, can_mount,
    raw::{Raw, of_group, send},
    world::{Extra, MEMBERS, World},
};
use protocol::{
    Command,
    code::{request, response},
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

/// Ends what runs beside a test, also where that fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Cases 22 and 62: a message that only the leader has is not acknowledged, no reader is shown it,
/// and once another leads its offset belongs to the next message, on every node.
#[test]
fn what_no_majority_has_is_never_shown_and_its_offset_is_used_again() {
    let mut world = World::new(1);
    let first = world.settled(&[0, 1, 2]);
    world.wait_whole();
    let raw = Raw::new();
    let address = world.address(first);
    assert_eq!(raw.sent(&address, "T", "kept", ""), 0);
    wait("the first message is readable", || raw.bodies(&address, "T", 0) == ["kept"]);
    others(first).into_iter().for_each(|node| world.kill(node));
    let (over, reader) = (AtomicBool::new(false), Raw::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                assert_eq!(reader.bodies(&address, "T", 1), Vec::<String>::new());
                let end = reader.call(&address, of_group(request::GET_MAX_OFFSET, "G", "T"));
                let told = end.ok().and_then(|end| end.field("offset").map(str::to_owned));
                assert!(told.is_none_or(|end| end == "1"), "an end behind what is committed");
            }
        });
        let _over = Over(&over);
        // The code of a time-out, a refusal, or a connection that is closed: never a success.
        let answer = raw.call(&address, send("T", "ghost", "UNIQ_KEY\u{1}ghost\u{2}"));
        if let Ok(answer) = answer {
            assert_ne!(answer.code, response::SUCCESS, "a majority is away");
        }
    });
    world.kill(first);
    others(first).into_iter().for_each(|node| world.spawn(node));
    let second = world.settled(&others(first));
    assert_eq!(raw.sent(&world.address(second), "T", "next", ""), 1);
    world.spawn(first);
    world.settled(&[0, 1, 2]);
    for node in [second, first] {
        world.hand_to(node);
        let address = world.address(node);
        wait("both messages and no other", || raw.all_bodies(&address, "T") == ["kept", "next"]);
    }
}

/// How many messages with a delay are sent.
const DELAYED: usize = 30;

/// Cases 52, 53, 80 and 86: the master is killed, and later the lead goes back to it. Progress of a
/// group stays, each delayed message comes once, no look at a follower's topics finds fewer than
/// there are, the ends of all logs are told alike, and so is how much was produced, which is the same
/// from one master to the next.
#[test]
fn progress_delays_and_tables_go_over_to_the_next_master() {
    let mut world = World::new(1);
    let first = world.settled(&[0, 1, 2]);
    world.wait_whole();
    let raw = Raw::new();
    let address = world.address(first);
    raw.sent(&address, "T", "m", "");
    let watched = world.address(others(first)[0]);
    let topics = |raw: &Raw| {
        let table = raw.call(&watched, Command::request(request::GET_ALL_TOPIC_CONFIG));
        table.map(|table| String::from_utf8_lossy(&table.body).into_owned())
    };
    wait("the follower has the topic", || topics(&raw).is_ok_and(|it| it.contains(r#""T""#)));
    let (over, looks, watcher) = (AtomicBool::new(false), AtomicUsize::new(0), Raw::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let table = topics(&watcher).expect("it answers");
                assert!(table.contains(r#""T""#) && table.contains("TBW102"), "{table}");
                looks.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let _over = Over(&over);
        let group = Command::request(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP);
        let made = raw.call(&address, group.with_body(r#"{"groupName":"G"}"#)).expect("one");
        assert_eq!(made.code, response::SUCCESS, "{:?}", made.remark);
        let commit = of_group(request::UPDATE_CONSUMER_OFFSET, "G", "T");
        let answer = raw.call(&address, commit.with_field("commitOffset", "1")).expect("one");
        assert_eq!(answer.code, response::SUCCESS, "{:?}", answer.remark);
        for number in 0..DELAYED {
            raw.sent(&address, "D", &format!("d{number}"), "DELAY\u{1}1\u{2}");
            world.names[0].run(&["admin", "topic", "create", &format!("X{}", number % 3)]);
        }
        wait("followers count", || {
            (0..MEMBERS).all(|node| figures(&raw, &world, node).produced > 0)
        });
        let before = figures(&raw, &world, first).produced;
        world.kill(first);
        let second = world.settled(&others(first));
        let after = figures(&raw, &world, second).produced;
        assert!((before..=1 + DELAYED as u64).contains(&after), "{before}, then {after}");
        assert_eq!(raw.progress(&world.address(second), "G", "T"), Some(1));
    });
    assert!(looks.load(Ordering::Relaxed) > 10, "the table was looked at");
    world.spawn(first);
    world.settled(&[0, 1, 2]);
    world.wait_whole();
    world.hand_to(first);
    for node in 0..MEMBERS {
        // A follower passes the question on.
        assert_eq!(raw.progress(&world.address(node), "G", "T"), Some(1), "{node}");
    }
    wait("all delayed messages", || raw.all_bodies(&address, "D").len() >= DELAYED);
    // Those that would come once more come within their delay.
    std::thread::sleep(Duration::from_secs(2));
    let mut copies: BTreeMap<String, usize> = BTreeMap::new();
    raw.all_bodies(&address, "D")
        .into_iter()
        .for_each(|body| *copies.entry(body).or_default() += 1);
    assert_eq!(copies.len(), DELAYED, "{copies:?}");
    assert!(copies.values().all(|count| *count == 1), "{copies:?}");
    wait("equal ends", || {
        let figures: Vec<_> = (0..MEMBERS).map(|node| figures(&raw, &world, node)).collect();
        figures.iter().all(|it| it == &figures[0] && it.behind == "0")
    });
    let told = figures(&raw, &world, first);
    assert_eq!(told.produced, 1 + DELAYED as u64, "{told:?}");
}

/// What dashboards read of a member.
#[derive(Debug, PartialEq)]
struct Figures {
    /// End of the log.
    end: String,
    /// What is not in the queues yet.
    behind: String,
    /// Messages in topics of users: now, and at the last two midnights.
    produced: u64,
    mornings: [String; 2],
}

fn figures(raw: &Raw, world: &World, node: usize) -> Figures {
    let request = Command::request(request::GET_BROKER_RUNTIME_INFO);
    let answer = raw.call(&world.address(node), request).expect("an answer");
    let told: Value = serde_json::from_slice(&answer.body).expect("JSON");
    let text = |name: &str| told["table"][name].as_str().expect(name).to_owned();
    Figures {
        end: text("commitLogMaxOffset"),
        behind: text("dispatchBehindBytes"),
        produced: text("msgPutTotalTodayNow").parse().expect("a number"),
        mornings: ["msgPutTotalTodayMorning", "msgPutTotalYesterdayMorning"].map(text),
    }
}

/// 16 senders that ask for routes each second.
fn bench(world: &World, duration: &str) -> std::process::Child {
    let words = "bench failover --rate 500 --window 16 --topic DefaultCluster --body 100 \
                 --route-age 1s --timeout 10s --json --duration";
    let words: Vec<&str> = words.split_whitespace().chain([duration]).collect();
    world.names[0].command(&words).stdout(Stdio::piped()).spawn().expect("a bench")
}

fn told(bench: std::process::Child) -> Value {
    let output = bench.wait_with_output().expect("an output");
    serde_json::from_slice(&output.stdout).expect("an object")
}

/// Case 7, the sound half: a preferred member gets the lead back once it has caught up, as in a
/// planned switch: no send fails.
#[test]
fn a_preferred_member_gets_the_lead_back_and_no_send_fails() {
    let mut world = World::with(1, |_, _| Extra {
        sets: vec!["preferredLeaderId=n2".to_owned()],
        ..Extra::default()
    });
    wait("n2 leads", || world.settled(&[0, 1, 2]) == 2);
    world.wait_whole();
    world.kill(2);
    world.settled(&[0, 1]);
    let bench = bench(&world, "12s");
    std::thread::sleep(Duration::from_secs(1));
    world.spawn(2);
    wait("n2 leads again", || world.settled(&[0, 1, 2]) == 2);
    let told = told(bench);
    assert_eq!((&told["failed"], &told["lost"]), (&0.into(), &0.into()), "{told}");
}

/// MiB of the file systems.
const SMALL_DISK: usize = 64;

/// Its data on a small file system that only it sees.
fn on_small_disk(home: &Path) -> Extra {
    let store = home.join("store");
    let script =
        format!("mount -t tmpfs -o size={SMALL_DISK}m none {} && exec \"$@\"", store.display());
    let by = ["unshare", "-m", "sh", "-c", &script, "sh"].map(str::to_owned).to_vec();
    let sets = ["mappedFileSizeCommitLog=4194304", "diskSpaceWarningLevelRatio=80"];
    Extra { by, sets: sets.map(str::to_owned).to_vec() }
}

/// Case 7: a master whose disk fills hands the lead to a member that has room, and no send fails;
/// where none has room it stays, refuses sends in words, and takes them again with room.
#[test]
fn a_master_whose_disk_fills_hands_the_lead_to_one_that_has_room() {
    if !can_mount() {
        return;
    }
    let world = World::with(1, |_, home| on_small_disk(home));
    let first = world.settled(&[0, 1, 2]);
    world.wait_whole();
    let bench = bench(&world, "8s");
    std::thread::sleep(Duration::from_secs(1));
    let filler = |node: usize| {
        let pid = world.nodes[node].as_ref().expect("it runs").pid();
        let store = world.home(node).join("store/filler");
        format!("/proc/{pid}/root{}", store.display())
    };
    let fill = |node: usize| {
        std::fs::write(filler(node), vec![1; (SMALL_DISK * 84 / 100) << 20]).expect("room");
    };
    fill(first);
    wait("another one leads", || world.settled(&[0, 1, 2]) != first);
    let told = told(bench);
    assert_eq!((&told["failed"], &told["lost"]), (&0.into(), &0.into()), "{told}");
    others(first).into_iter().for_each(fill);
    let raw = Raw::new();
    let master = world.settled(&[0, 1, 2]);
    let answer = |raw: &Raw| raw.call(&world.address(master), send("T", "m", "")).expect("one");
    wait("sends are refused", || {
        let answer = answer(&raw);
        answer.remark.is_some_and(|remark| remark.contains("diskSpaceWarningLevelRatio"))
    });
    std::fs::remove_file(filler(master)).expect("removed");
    wait("sends are taken", || answer(&raw).code == response::SUCCESS);
}
