//! Three brokers with 256 MiB each, all that is written counted: floods of small messages and of the
//! largest, while a follower is away and comes back. Senders are held up; no process is ended.
#![expect(
    clippy::expect_used,
    reason = "this is a test, which starts processes; clippy knows only functions marked as tests"
)]

mod process;

use std::{
    path::Path,
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use process::{
    LONG,
    memory_group::MemoryGroup,
    world::{Extra, MEMBERS, World},
};
use serde_json::Value;

/// Bytes that a member may have, page cache and all.
const LIMIT: u64 = 256 << 20;

/// Three members in control groups, where this machine has such.
fn world() -> Option<(World, Arc<Vec<MemoryGroup>>)> {
    let groups: Option<Vec<_>> = (0..MEMBERS).map(|_| MemoryGroup::new(LIMIT)).collect();
    let groups = Arc::new(groups?);
    let of_members = Arc::clone(&groups);
    let world = World::with(1, move |node, _: &Path| Extra {
        by: of_members[node].enter(),
        sets: ["maxIndexNum=1000", "maxHashSlotNum=1000"].map(str::to_owned).to_vec(),
    });
    Some((world, groups))
}

/// What one load has come to.
fn load(world: &World, words: &str, seconds: u64) -> Value {
    let duration = format!("{seconds}s");
    let flags = ["--warmup", "0", "--json", "--duration", &duration];
    let words: Vec<&str> =
        ["bench", "produce"].into_iter().chain(words.split_whitespace()).chain(flags).collect();
    let output = world.names[0].command(&words).stderr(Stdio::null()).output().expect("a bench");
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

fn flood(seconds: u64) {
    let Some((mut world, groups)) = world() else { return };
    let master = world.settled(&[0, 1, 2]);
    world.wait_whole();
    let away = (master + 1) % MEMBERS;
    world.kill(away);
    let small = load(&world, "--topic small --senders 64 --connections 8 --body 1024", seconds);
    let large = "--topic large --senders 8 --connections 4 --window 11 --body 4000000";
    let large = load(&world, large, seconds);
    // While it fills up, more comes.
    world.spawn(away);
    let again = load(&world, "--topic small --senders 64 --connections 8 --body 1024", seconds);
    let begun = Instant::now();
    let limit = LONG + Duration::from_secs(10 * seconds);
    loop {
        let members = world.status();
        let end = &members[0]["end"];
        if members.iter().all(|told| !end.is_null() && told["end"] == *end) {
            break;
        }
        assert!(begun.elapsed() < limit, "{members:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
    let killed: Vec<u64> = groups.iter().map(MemoryGroup::killed).collect();
    assert_eq!(killed, [0, 0, 0], "the kernel ended some: {small} {large} {again}");
    for node in world.nodes.iter_mut().flatten() {
        assert!(!node.errors().contains("panicked"), "{}", node.errors());
    }
    for told in [&small, &large, &again] {
        assert!(told["acknowledged"].as_u64() > Some(0), "{told}");
    }
    assert!(world.names[0].run(&["send", "small", "m"]).contains("SEND_OK"));
    keep_until_here(world, groups);
}

/// Members end before their control groups are removed.
fn keep_until_here(world: World, groups: Arc<Vec<MemoryGroup>>) {
    drop(world);
    drop(groups);
}

#[test]
fn short_floods_do_not_end_members_with_256_mib() {
    flood(4);
}

#[test]
#[ignore = "takes minutes: cargo xtask ci --long --only small-memory"]
fn long_floods_do_not_end_members_with_256_mib() {
    flood(120);
}
