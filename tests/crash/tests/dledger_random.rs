//! Goal: no mixture of appends, full disks, stops, kills and power cuts loses an acknowledged entry,
//! brings back one that was reported as not written, or changes the order.
//!
//! Method: a seed chooses everything; a failure names it. `LEDGERMQ_CRASH_SEEDS=N` tries N seeds.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use crash::world::{FILE_SIZE, Setup, World};
use dledger::{AppendFailure, Policy};
use segment::{Fate, SimVfs, Vfs};

/// A small generator (xorshift): the same numbers for the same seed.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

/// What must be true of the log.
#[derive(Default)]
struct Model {
    /// Acknowledged, by position.
    acked: Vec<(u64, Bytes)>,
    /// Never to be seen.
    not_written: BTreeSet<Bytes>,
    /// Every body in the order in which it was submitted.
    submitted: Vec<Bytes>,
}

impl Model {
    /// Takes over what a world has seen; in ASYNC a power cut may take acknowledged entries.
    fn learn(&mut self, world: &World) {
        self.acked.extend(world.acked.iter().map(|acked| (acked.position, acked.body.clone())));
        for (token, failure) in &world.failed {
            if let AppendFailure::NotWritten(_) | AppendFailure::DiskFull(_) = failure {
                self.not_written.insert(world.submitted[usize::try_from(*token).unwrap()].clone());
            }
        }
        self.submitted.extend(world.submitted.iter().cloned());
    }

    fn check(&self, world: &World) {
        let entries = world.entries().unwrap();
        let min = world.engine.log().bounds().min;
        for (position, body) in self.acked.iter().filter(|(position, _)| *position >= min) {
            assert!(entries.contains(&(*position, body.clone())), "lost at {position}: {body:?}");
        }
        let bodies: Vec<&Bytes> = entries
            .iter()
            .map(|(_, body)| body)
            .filter(|body| body.starts_with(b"#body"))
            .collect();
        let mut order = self.submitted.iter();
        for body in bodies {
            assert!(!self.not_written.contains(body), "came back: {body:?}");
            assert!(order.any(|submitted| submitted == body), "out of order: {body:?}");
        }
    }
}

fn step(world: &mut World, disk: &SimVfs, random: &mut Random) {
    match random.below(12) {
        0..5 => {
            let count = 1 + random.below(3);
            let lengths: Vec<usize> =
                (0..count).map(|_| usize::try_from(20 + random.below(1200)).unwrap()).collect();
            // One body a submission, so that a token names its body.
            for length in lengths {
                world.append(&[length]);
            }
        }
        5..8 => {
            world.run_jobs();
        }
        8 => world.append_to_file_end(),
        // Either may fail where power or room has gone.
        9 => drop(world.checkpoint()),
        10 => {
            let committed = world.engine.log().bounds().committed;
            drop(world.engine.log().trim(committed.saturating_sub(2 * FILE_SIZE)));
        }
        _ => disk.set_room(if random.one_in(2) { Some(random.below(6000)) } else { None }),
    }
}

fn run(seed: u64) -> usize {
    let mut random = Random::new(seed);
    let setup = Setup {
        policy: if random.one_in(4) { Policy::Written } else { Policy::Flushed },
        zero_ahead: [0, 0, 1024, 8192][usize::try_from(random.below(4)).unwrap()],
        zero_limit: if random.one_in(2) { 512 } else { u64::MAX },
        ..Setup::default()
    };
    let mut disk = SimVfs::new();
    let mut model = Model::default();
    for _ in 0..1 + random.below(6) {
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let mut world = World::open(&vfs, setup).unwrap();
        world.first_number = model.submitted.len() as u64;
        world.settle();
        assert!(world.engine.status().opened, "{:?}", world.engine.status());
        model.check(&world);
        if random.one_in(2) {
            disk.cut_power_after(random.below(40));
        }
        for _ in 0..random.below(25) {
            step(&mut world, &disk, &mut random);
        }
        let running = world.engine.status().failure.is_none();
        let closed = random.one_in(3) && running && world.engine.close().is_ok();
        model.learn(&world);
        let kill = random.one_in(2);
        disk = if kill {
            disk.after_kill()
        } else {
            if setup.policy == Policy::Written && !closed {
                // Only what was flushed has to be there: the model is told after the fact.
                model.acked.clear();
            }
            disk.crash(&mut |_| {
                [Fate::Keep, Fate::Drop, Fate::Torn][usize::try_from(random.below(3)).unwrap()]
            })
        };
    }
    let world = World::lead(&disk).unwrap();
    model.check(&world);
    model.submitted.len()
}

#[test]
fn nothing_is_lost_comes_back_or_changes_its_order() {
    let seeds = std::env::var("LEDGERMQ_CRASH_SEEDS").ok().and_then(|count| count.parse().ok());
    let seeds = seeds.unwrap_or(5000);
    let mut submitted = 0;
    for seed in 0..seeds {
        let ran = std::panic::catch_unwind(|| run(seed));
        submitted += ran.unwrap_or_else(|panic| {
            eprintln!("seed {seed} failed");
            std::panic::resume_unwind(panic)
        });
    }
    let expected = usize::try_from(seeds).unwrap() * 10;
    assert!(submitted > expected, "only {submitted} bodies");
}
