//! Measures appends to a log of one node: how many a second, and how long each waits.
//!
//! `cargo run --release -p dledger --example throughput -- FOLDER [sync|async] [writers] [body bytes] [seconds]`

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use dledger::{
    AnyBodies, Completed, Dledger, Durability, ENTRY_HEADER, Entries, Options, RefusalCause, Sink,
};

#[derive(Default)]
struct Waits(Mutex<(Vec<Duration>, u64)>);

impl Sink<Instant> for Waits {
    fn completed(&self, group: Vec<Completed<Instant>>) {
        let now = Instant::now();
        let mut waits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waits.1 += 1;
        waits.0.extend(group.iter().filter(|one| one.result.is_ok()).map(|one| now - one.token));
    }
}

#[expect(clippy::print_stdout, reason = "a measuring program prints what it measured")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let durability = match arguments.next().as_deref() {
        Some("async") => Durability::Async,
        _ => Durability::Sync,
    };
    let mut number =
        |default: u64| arguments.next().map_or(Ok(default), |text| text.parse::<u64>());
    let (writers, length, seconds) = (number(4)?, number(300)?, number(5)?);
    let options = Options {
        durability,
        pending_bytes: 1024 * 1024,
        ..Options::one_node(folder.join("dledger-n0"))
    };
    let waits = Arc::new(Waits::default());
    let log = Dledger::open(&options, Arc::<Waits>::clone(&waits))?;
    log.start(AnyBodies)?;
    while !log.status().borrow().opened {
        thread::sleep(Duration::from_millis(1));
    }
    let end = Instant::now() + Duration::from_secs(seconds);
    thread::scope(|scope| {
        for _ in 0..writers {
            scope.spawn(|| append_until(&log, end, length));
        }
    });
    log.shutdown()?;
    let mut waits = waits.0.lock().unwrap_or_else(PoisonError::into_inner);
    waits.0.sort_unstable();
    let at = |part: usize| waits.0.get(waits.0.len() * part / 1000).map_or(0, Duration::as_micros);
    println!(
        "{durability}, {writers} writers, {length} bytes: {} appends/s in groups of {}; wait median {} us, p99 {} us, p99.9 {} us",
        waits.0.len() as u64 / seconds.max(1),
        waits.0.len() as u64 / waits.1.max(1),
        at(500),
        at(990),
        at(999),
    );
    Ok(())
}

fn append_until(log: &Dledger<Instant>, end: Instant, length: u64) {
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    let whole = BytesMut::zeroed(ENTRY_HEADER + length as usize);
    while Instant::now() < end {
        let entries =
            Entries { buffer: whole.clone(), lengths: vec![length], token: Instant::now() };
        match log.submit(entries).map_err(|refused| refused.cause) {
            Ok(()) => {}
            Err(RefusalCause::Full { .. }) => thread::sleep(Duration::from_micros(100)),
            Err(_) => return,
        }
    }
}
