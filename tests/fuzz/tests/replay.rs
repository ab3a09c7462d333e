//! Every target takes its corpus, changed copies of it, and values of proptest.
//!
//! The changes follow from fixed seeds, so that a run of the tests is the same on each machine; a
//! failure prints the input, which then belongs into the corpus under a name that says what it
//! broke. `LEDGERMQ_FUZZ_TIMES=50` tries fifty times as many.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by a panic")]

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use fuzz_targets::{TARGETS, Target, target};
use proptest::{
    collection::vec,
    prelude::any,
    test_runner::{Config, TestRunner},
};

fn corpus(target: &Target) -> Vec<(String, Vec<u8>)> {
    let folder = folder(target.name);
    let mut inputs: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read(&path).unwrap())
        })
        .collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "{} has no corpus", target.name);
    inputs
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name)
}

/// Runs one input; a failure tells how to make it again.
fn check(target: &Target, from: &str, input: &[u8]) {
    let run = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    if run.is_err() {
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        panic!("{} breaks on {from}: {hex}", target.name);
    }
}

fn try_all(name: &str) {
    let target = target(name).unwrap();
    let corpus = corpus(target);
    for (name, input) in &corpus {
        check(target, name, input);
    }
    let mut random = Random(0x5eed);
    let times = std::env::var("LEDGERMQ_FUZZ_TIMES").map_or(1, |times| times.parse().unwrap());
    let cases = target.cases * times;
    for case in 0..cases {
        let (name, base) = &corpus[random.below(corpus.len())];
        let (_, other) = &corpus[random.below(corpus.len())];
        let mut input = base.clone();
        for _ in 0..=random.below(4) {
            change(&mut input, other, &mut random);
        }
        input.truncate(target.longest);
        check(target, &format!("case {case}, made of {name}"), &input);
    }
    let config = Config { cases: target.cases / 2, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let found = runner.run(&vec(any::<u8>(), 0..target.longest), |input| {
        check(target, "a value of proptest", &input);
        Ok(())
    });
    found.unwrap();
}

/// xorshift64 (Marsaglia): the same numbers on each machine.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap() % bound.max(1)
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap()
    }
}

fn change(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let end = (at + 1 + random.below(16)).min(input.len());
    match random.below(8) {
        0 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = random.byte();
            }
        }
        2 => drop(input.drain(at.min(end)..end)),
        3 => {
            let piece: Vec<u8> = (0..=random.below(8)).map(|_| random.byte()).collect();
            drop(input.splice(at..at, piece));
        }
        4 => {
            let piece = input[at.min(end)..end].to_vec();
            drop(input.splice(at..at, piece));
        }
        5 => {
            let numbers = [0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];
            let number: u32 = numbers[random.below(numbers.len())];
            for (byte, value) in input.iter_mut().skip(at).zip(number.to_be_bytes()) {
                *byte = value;
            }
        }
        6 => {
            let from = random.below(other.len());
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        _ => input.truncate(at),
    }
}

#[test]
fn frame() {
    try_all("frame");
}

#[test]
fn header() {
    try_all("header");
}

#[test]
fn record() {
    try_all("record");
}

#[test]
fn properties() {
    try_all("properties");
}

/// Requirement S-28: the files of a log from anywhere.
#[test]
fn s_28_log() {
    try_all("log");
}

#[test]
fn member() {
    try_all("member");
}

#[test]
fn config() {
    try_all("config");
}

#[test]
fn requests() {
    try_all("requests");
}

#[test]
fn every_target_has_its_test_and_every_folder_its_target() {
    let source = include_str!("replay.rs");
    for target in TARGETS {
        assert!(source.contains(&format!("try_all(\"{}\")", target.name)), "{}", target.name);
    }
    for entry in fs::read_dir(folder("")).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        assert!(target(&name).is_some(), "corpus/{name} is of no target");
    }
}

#[test]
#[should_panic(expected = "breaks on a planted fault: 2a")]
fn a_fault_is_told_with_its_input() {
    let planted = Target {
        name: "planted",
        run: |input| assert!(!input.contains(&42), "42 is wrong"),
        cases: 1,
        longest: 10,
    };
    check(&planted, "a harmless input", &[41]);
    check(&planted, "a planted fault", &[42]);
}

#[test]
fn a_planted_fault_is_found_by_the_changes() {
    let mut random = Random(7);
    let mut lengths = std::collections::BTreeSet::new();
    let found = (0..2_000).any(|_| {
        let mut input = b"topic=T1".to_vec();
        change(&mut input, b"group=g1", &mut random);
        lengths.insert(input.len());
        input.contains(&0xff)
    });
    assert!(found && lengths.len() > 5, "{lengths:?}");
}
