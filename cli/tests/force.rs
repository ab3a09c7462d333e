//! Members that are lost for good, and the operator's word.
#![expect(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "this is a test, which writes files; clippy knows only functions marked as tests"
)]

mod process;

use std::time::{Duration, Instant};

use process::{
    LONG, ledgermq,
    world::{MEMBERS, World},
};

fn force(world: &World, node: usize, command: &str, flags: &[&str]) -> (bool, String, String) {
    let configuration = world.configuration(node, &[]);
    let words = ["admin", "group", command, "--timeout", "1s"];
    let words: Vec<&str> = words
        .into_iter()
        .chain(configuration.iter().map(String::as_str))
        .chain(flags.iter().copied())
        .collect();
    ledgermq(&words, "")
}

fn refused(outcome: (bool, String, String), why: &str) {
    let (done, out, errors) = outcome;
    assert!(!done && errors.contains(why), "{why}: {out}\n{errors}");
}

fn done(outcome: (bool, String, String), what: &str) {
    let (done, out, errors) = outcome;
    assert!(done && out.contains(what), "{what}: {out}\n{errors}");
}

#[test]
fn the_last_member_that_is_left_becomes_a_group_of_its_own() {
    let mut world = World::new(1);
    let node = world.settled(&[0, 1, 2]);
    world.wait_whole();
    let sent = world.send("T", 100);
    let others: Vec<usize> = (0..MEMBERS).filter(|other| *other != node).collect();
    let [one, two] = [0, 1].map(|nth| format!("n{}", others[nth]));
    let lost = ["--lost", one.as_str(), "--lost", two.as_str()];
    let accepted = [&lost[..], &["--accept-loss"]].concat();
    refused(force(&world, node, "force-new", &["--lost", &one]), "name each of them by --lost");
    refused(force(&world, node, "force-new", &accepted), "answers, and is not lost");
    world.kill(others[0]);
    world.kill(others[1]);
    refused(force(&world, node, "force-new", &accepted), "in use by");
    world.kill(node);
    refused(force(&world, node, "force-new", &lost), "nothing was changed");
    let alone = format!("dLegerPeers={}", own_part(&world, node));
    let starts = ledgermq(&world.arguments(node, &[&alone]), "");
    refused(starts, "admin group force-new");
    done(force(&world, node, "force-new", &accepted), "a group of its own");
    refused(ledgermq(&world.arguments(node, &[]), ""), "has left dLegerGroup=RaftNode00");
    world.nodes[node] = Some(world.started(node, &[&alone]));
    assert_eq!(world.settled(&[node]), node);
    world.wait_readable("T", &sent);
    world.send("T", 10);
    // A lost pair that comes back elects one of the two: it does not become the master of routes.
    others.iter().for_each(|other| world.spawn(*other));
    others.iter().for_each(|other| world.nodes[*other].as_mut().expect("it runs").wait_ready());
    let begun = Instant::now();
    while world.status().iter().filter(|told| told["leader"].is_string()).count() < 2 {
        assert!(begun.elapsed() < LONG, "they elect nobody: {:?}", world.status());
        std::thread::sleep(Duration::from_millis(100));
    }
    world.send("T", 10);
    // One of the two has registered, and so the other one has tried to.
    let mut route = World::route(&world.names[0]);
    while !route.values().any(|address| others.iter().any(|it| world.address(*it) == *address)) {
        assert!(begun.elapsed() < LONG, "none of them registers: {route:?}");
        std::thread::sleep(Duration::from_millis(100));
        route = World::route(&world.names[0]);
    }
    world.send("T", 10);
    let route = World::route(&world.names[0]);
    assert_eq!(route.get(&0), Some(&world.address(node)), "{route:?}");
}

/// Its own part of dLegerPeers.
fn own_part(world: &World, node: usize) -> String {
    let peers = world.peers();
    peers.split(';').nth(node).expect("a part").to_owned()
}

#[test]
fn members_in_doubt_lead_once_their_doubt_is_settled() {
    let mut world = World::new(1);
    world.settled(&[0, 1, 2]);
    world.wait_whole();
    let sent = world.send("T", 100);
    world.wait_whole();
    world.kill(0);
    refused(force(&world, 0, "force-start", &["--accept-loss"]), "leads, as");
    world.kill(1);
    world.kill(2);
    refused(force(&world, 0, "force-start", &["--accept-loss"]), "is not in doubt");
    for node in [0, 1] {
        let file = world.home(node).join(format!("store/dledger-n{node}/provisional"));
        std::fs::write(file, "reason=unclean-boot\n").expect("written");
        refused(force(&world, node, "force-start", &[]), "nothing was changed");
        done(force(&world, node, "force-start", &["--accept-loss"]), "in doubt no more");
    }
    world.spawn(0);
    world.spawn(1);
    world.settled(&[0, 1]);
    world.wait_readable("T", &sent);
}
