//! Three brokers of one group, started with the samples of conf/: one is the master, and when it is
//! ended by SIGKILL another takes over with all that was acknowledged.

mod process;

use std::time::Duration;

use process::world::{MEMBERS, World};
use serde_json::Value;

#[test]
fn another_member_takes_over_with_all_that_was_acknowledged() {
    let mut world = World::new(1);
    let master = world.settled(&[0, 1, 2]);
    let mut sent = world.send("T", 200);
    world.kill(master);
    let others: Vec<usize> = (0..MEMBERS).filter(|node| *node != master).collect();
    let next = world.settled(&others);
    sent.extend(world.send("T", 200));
    world.wait_readable("T", &sent);
    // The one that comes back follows: it takes nothing from the master.
    world.spawn(master);
    assert_eq!(world.settled(&[0, 1, 2]), next);
    sent.extend(world.send("T", 50));
    world.wait_readable("T", &sent);
}

#[test]
fn a_producer_goes_on_while_masters_are_killed() {
    let mut world = World::new(1);
    let mut master = world.settled(&[0, 1, 2]);
    let run = ["bench", "failover", "--duration", "20s", "--rate", "200", "--body", "100"];
    let flags = ["--route-age", "500ms", "--timeout", "3s", "--verify", "60s", "--json"];
    let bench = world.names[0]
        .command(&[&run[..], &flags[..]].concat())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("a bench");
    for _ in 0..2 {
        std::thread::sleep(Duration::from_secs(4));
        world.kill(master);
        world.spawn(master);
        master = world.settled(&[0, 1, 2]);
    }
    let output = bench.wait_with_output().expect("an output");
    let told: Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert_eq!((&told["readBack"], &told["lost"]), (&true.into(), &0.into()), "{told}");
    // Of 4,000 that were due; before the first kill it can be 800.
    assert!(told["acknowledgedInAll"].as_u64() > Some(1000), "{told}");
}

#[test]
fn a_name_server_that_is_away_holds_up_no_other_and_learns_when_it_is_back() {
    let mut world = World::new(2);
    let master = world.settled(&[0, 1, 2]);
    assert_eq!(world.settled_at(&world.names[1], &[0, 1, 2]), master);
    world.names[1].halt();
    world.kill(master);
    let others: Vec<usize> = (0..MEMBERS).filter(|node| *node != master).collect();
    let next = world.settled(&others);
    world.spawn(master);
    assert_eq!(world.settled(&[0, 1, 2]), next);
    world.names[1].go_on();
    assert_eq!(world.settled_at(&world.names[1], &[0, 1, 2]), next);
}
