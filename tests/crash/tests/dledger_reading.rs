//! Goal: readers see each committed entry once and in order, and no other, wherever they begin, however
//! little they take at a time, and wherever the commit stands.
//!
//! Method: the log is written ahead of its commit, so that the ring in memory holds entries that
//! are not committed, or begins in the middle of what is; then the log is read from every entry on with
//! every bound.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::sync::Arc;

use bytes::Bytes;
use crash::world::{Setup, World};
use segment::{SimVfs, Vfs};

/// Lengths of the bodies of each submission: within a file, over its end, one that fills a file.
const SUBMISSIONS: &[&[usize]] = &[
    &[10, 700, 30],
    &[1],
    &[2000, 900, 1200],
    &[60, 60, 60, 60, 60],
    &[4000],
    &[500, 20],
    &[3900, 8],
    &[100; 12],
];

/// Everything that is committed from `from` on, `max_bytes` at a time.
fn read_all(world: &World, from: u64, max_bytes: usize) -> Vec<(u64, Bytes)> {
    let log = world.engine.log();
    let committed = log.bounds().committed;
    let mut next = from;
    let mut all = Vec::new();
    while next < committed {
        let run = log.read_forward(next, max_bytes).unwrap();
        assert!(run.next > next, "a reader at {next} of {committed} stands still");
        assert!(run.next <= committed, "{} is not committed", run.next);
        next = run.next;
        all.extend(run.entries);
    }
    all
}

fn assert_readable(world: &World, expected: &[(u64, Bytes)]) {
    for max_bytes in [1, 50, 109, 400, 5000, 1 << 20] {
        for (nth, (position, _)) in expected.iter().enumerate() {
            let seen = read_all(world, *position, max_bytes);
            assert!(seen == expected[nth..], "from {position} with {max_bytes} bytes at a time");
        }
    }
}

/// What was acknowledged, behind the opening entry.
fn acknowledged(world: &World) -> Vec<(u64, Bytes)> {
    world.acked.iter().map(|acked| (acked.position, acked.body.clone())).collect()
}

#[test]
fn each_committed_entry_is_read_once_from_anywhere_with_any_bound() {
    for hot_ring in [0, 300, 3000, 1 << 20] {
        let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new());
        let mut world = World::open(&vfs, Setup { hot_ring, ..Setup::default() }).unwrap();
        world.settle();
        for pair in SUBMISSIONS.chunks(2) {
            // The first of the pair is written and its flush asked for before the second is written:
            // doing the job commits the first alone.
            world.append(pair[0]);
            world.append(pair[1]);
            let before = world.acked.len();
            let flush = world.engine.poll_job().unwrap();
            let done = world.engine.run_job(flush);
            world.event(dledger::Event::Done(done));
            assert_eq!(world.acked.len(), before + pair[0].len());
            assert!(world.engine.end() > world.engine.log().bounds().committed);
            assert_readable(&world, &acknowledged(&world));
            world.settle();
            assert_eq!(world.acked.len(), before + pair[0].len() + pair[1].len());
            assert_readable(&world, &acknowledged(&world));
        }
    }
}
