//! Fuzz targets: functions that take any bytes and panic where the code under test breaks its word.
//!
//! Goal: no bytes from a stranger or a disk make a decoder panic, take memory that they did not
//! pay for, or be read differently from how they were written. Method: each target is a plain
//! function with its oracle. `cargo test -p fuzz-targets` replays the committed corpus, mutates it
//! by fixed seeds, and tries values of proptest; the folder `fuzz/` gives the same functions to
//! libFuzzer. An input that ever broke something lies in `corpus/NAME/` under a name that says what
//! it broke. See docs/testing.md.
#![expect(clippy::panic, clippy::unwrap_used, reason = "an oracle tells a fault by a panic")]

mod config;
mod frame;
mod header;
mod input;
mod live;
mod log;
mod member;
mod properties;
mod record;
mod requests;

/// A target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, also that of its folder in `corpus/`.
    pub name: &'static str,
    /// Takes any bytes; panics where its oracle fails.
    pub run: fn(&[u8]),
    /// Cases that a run of the tests mutates, by what one costs.
    pub cases: u32,
    /// The longest input that is worth trying, in bytes.
    pub longest: usize,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "frame", run: frame::run, cases: 4_000, longest: 4_096 },
    Target { name: "header", run: header::run, cases: 4_000, longest: 2_048 },
    Target { name: "record", run: record::run, cases: 4_000, longest: 4_096 },
    Target { name: "properties", run: properties::run, cases: 4_000, longest: 1_024 },
    Target { name: "log", run: log::run, cases: 6_000, longest: 256 },
    Target { name: "member", run: member::run, cases: 4_000, longest: 4_096 },
    Target { name: "config", run: config::run, cases: 2_000, longest: 2_048 },
    Target { name: "requests", run: requests::run, cases: 150, longest: 512 },
];

/// Runs the target of this name: what the programs of `fuzz/` call.
///
/// # Panics
/// Where its oracle fails, and where there is no such target.
pub fn run(name: &str, data: &[u8]) {
    match target(name) {
        Some(target) => (target.run)(data),
        None => panic!("{name} is no target"),
    }
}

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
