//! What every append log must do, as one suite that each implementation runs.
//!
//! A test of an implementation calls [`run`] with a function that opens a fresh, empty log which
//! reports to the given sink, and which is ready to take batches (a replicated log has elected
//! itself). A violation comes back as its text.

use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;

use super::{AppendLog, Batch, CommitSink, Completed, HEADROOM, Placed, ReadError, RefusalCause};
use crate::{
    BatchBuilder,
    memory_log::test_record,
    record::{Record, physical_offset},
};

/// A log under test.
pub type Subject = Arc<dyn AppendLog<u64>>;
/// Opens a fresh, empty log.
pub type Open<'a> = &'a dyn Fn(Arc<dyn CommitSink<u64>>) -> Subject;

type Check = fn(Open<'_>) -> Result<(), String>;

/// Longer than any of these steps should take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs every check on a fresh log each; the error names the check.
pub fn run(open: Open<'_>) -> Result<(), String> {
    let checks: [(&str, Check); 7] = [
        ("a batch is placed, stamped and given back once", places_a_batch),
        ("queue offsets follow each other in each queue", counts_queues),
        ("every reading method gives the committed bytes", reads_back),
        ("reads outside the log or off a boundary are refused", refuses_bad_reads),
        ("waiting for commits ends in time", waits_for_commits),
        ("a refused batch comes back whole", gives_back_refused),
        ("many writers get every token once, in log order", takes_many_writers),
    ];
    for (name, check) in checks {
        check(open).map_err(|violation| format!("{name}: {violation}"))?;
    }
    Ok(())
}

/// Keeps what was completed, in order.
#[derive(Debug, Default)]
struct Ledger {
    completed: Mutex<Vec<(u64, Result<Placed, String>)>>,
    changed: Condvar,
}

impl CommitSink<u64> for Ledger {
    fn completed(&self, group: Vec<Completed<u64>>) {
        let mut completed = self.completed.lock().unwrap_or_else(PoisonError::into_inner);
        completed.extend(
            group
                .into_iter()
                .map(|one| (one.token, one.result.map_err(|failure| failure.to_string()))),
        );
        self.changed.notify_all();
    }
}

impl Ledger {
    /// Waits for `count` completions and gives all there are.
    fn wait(&self, count: usize) -> Result<Vec<(u64, Placed)>, String> {
        let deadline = Instant::now() + PATIENCE;
        let mut completed = self.completed.lock().unwrap_or_else(PoisonError::into_inner);
        while completed.len() < count {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!("{} of {count} batches completed", completed.len()));
            }
            let waited = self.changed.wait_timeout(completed, left);
            completed = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let kept = |(token, result): &(u64, Result<Placed, String>)| match result {
            Ok(placed) => Ok((*token, placed.clone())),
            Err(failure) => Err(format!("batch {token} failed: {failure}")),
        };
        completed.iter().map(kept).collect()
    }
}

fn batch(token: u64, records: &[(&str, u32)]) -> Batch<u64> {
    let mut builder = BatchBuilder::new();
    for (at, (topic, queue_id)) in records.iter().enumerate() {
        let body = format!("body {token}.{at}");
        builder.push_bytes(&test_record(topic, *queue_id, body.as_bytes(), "TAGS\u{1}a\u{2}"));
    }
    builder.finish(token)
}

fn submit(log: &Subject, batch: Batch<u64>) -> Result<(), String> {
    log.submit(batch).map_err(|refused| format!("refused: {}", refused.cause))
}

fn fields(record: &[u8]) -> Result<Record<'_>, String> {
    Record::read(record).map_err(|error| error.to_string())
}

fn check(holds: bool, violation: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(violation()) }
}

/// All records of the log from `from` on, read a little at a time.
fn read_all(log: &Subject, mut from: u64) -> Result<Vec<(u64, Bytes)>, String> {
    let mut all = Vec::new();
    let end = log.bounds().committed;
    while from < end {
        let run = log.read_forward(from, 300).map_err(|error| error.to_string())?;
        check(!run.records.is_empty() && run.next > from, || {
            format!("reading from {from} makes no step towards {end}")
        })?;
        from = run.next;
        all.extend(run.records);
    }
    Ok(all)
}

fn places_a_batch(open: Open<'_>) -> Result<(), String> {
    let ledger = Arc::new(Ledger::default());
    let log = open(Arc::<Ledger>::clone(&ledger));
    submit(&log, batch(1, &[("Suite", 0), ("Suite", 0), ("Suite", 1)]))?;
    submit(&log, batch(2, &[("Suite", 0)]))?;
    let completed = ledger.wait(2)?;
    let tokens: Vec<_> = completed.iter().map(|(token, _)| *token).collect();
    check(tokens == [1, 2], || format!("tokens {tokens:?}"))?;
    let mut stored = 0;
    for (token, placed) in &completed {
        for (at, record) in placed.records().enumerate() {
            let record_fields = fields(record)?;
            let physical = record_fields.physical;
            let read = log.read(physical, record_fields.total_size);
            let read = read.map_err(|error| format!("{physical}: {error}"))?;
            check(read == record, || format!("record at {physical} is not what was given back"))?;
            let body = format!("body {token}.{at}");
            check(record.windows(body.len()).any(|window| window == body.as_bytes()), || {
                format!("record {at} of batch {token} has another body")
            })?;
            check(record_fields.store_timestamp >= stored, || "store time ran back".to_owned())?;
            stored = record_fields.store_timestamp;
        }
    }
    std::thread::sleep(Duration::from_millis(50));
    let count = ledger.wait(2)?.len();
    check(count == 2, || format!("{count} completions of 2 batches"))
}

fn counts_queues(open: Open<'_>) -> Result<(), String> {
    let ledger = Arc::new(Ledger::default());
    let log = open(Arc::<Ledger>::clone(&ledger));
    for token in 0..20 {
        submit(&log, batch(token, &[("SuiteA", 0), ("SuiteB", 0), ("SuiteA", 7), ("SuiteA", 0)]))?;
    }
    let mut next: BTreeMap<(String, u32), u64> = BTreeMap::new();
    let mut behind = 0;
    for (_, placed) in ledger.wait(20)? {
        for record in placed.records() {
            let record = fields(record)?;
            check(record.physical >= behind + HEADROOM as u64, || {
                format!(
                    "record at {} overlaps the one before, which ends at {behind}",
                    record.physical
                )
            })?;
            behind = record.physical + u64::from(record.total_size);
            let expected = next.entry((record.topic.to_owned(), record.queue_id)).or_default();
            check(record.queue_offset == *expected, || {
                format!(
                    "offset {} in {}/{}, not {expected}",
                    record.queue_offset, record.topic, record.queue_id
                )
            })?;
            *expected += 1;
        }
    }
    check(next.len() == 3, || format!("{} queues", next.len()))
}

fn reads_back(open: Open<'_>) -> Result<(), String> {
    let ledger = Arc::new(Ledger::default());
    let log = open(Arc::<Ledger>::clone(&ledger));
    let first = log.bounds().committed;
    for token in 0..10 {
        submit(&log, batch(token, &[("Suite", 0), ("Suite", 1)]))?;
    }
    let completed = ledger.wait(10)?;
    let written: Vec<_> = completed
        .iter()
        .flat_map(|(_, placed)| placed.records().map(Bytes::copy_from_slice).collect::<Vec<_>>())
        .collect();
    for record in &written {
        let (physical, size) = (fields(record)?.physical, fields(record)?.total_size);
        let unsized_read = log.read_unsized(physical).map_err(|error| error.to_string())?;
        check(unsized_read == record, || format!("read_unsized({physical}) differs"))?;
        if let Some(cached) = log.read_if_cached(physical, size) {
            check(cached == record, || format!("read_if_cached({physical}) differs"))?;
        }
    }
    let run = read_all(&log, first)?;
    let run_bytes: Vec<_> = run.iter().map(|(_, record)| record.clone()).collect();
    check(run_bytes == written, || format!("read_forward from {first} gives other records"))?;
    let in_place = |(physical, record): &(u64, Bytes)| physical_offset(record) == Some(*physical);
    check(run.iter().all(in_place), || "a run names wrong physical offsets".to_owned())
}

fn refuses_bad_reads(open: Open<'_>) -> Result<(), String> {
    let ledger = Arc::new(Ledger::default());
    let log = open(Arc::<Ledger>::clone(&ledger));
    submit(&log, batch(1, &[("Suite", 0)]))?;
    let completed = ledger.wait(1)?;
    let Some((_, placed)) = completed.first() else { return Err("nothing placed".to_owned()) };
    let record = placed.records().next().map(Bytes::copy_from_slice).unwrap_or_default();
    let physical = fields(&record)?.physical;
    let size = fields(&record)?.total_size;
    let committed = log.bounds().committed;
    for beyond in [committed + HEADROOM as u64, committed + (1 << 40), u64::MAX] {
        let out = matches!(log.read_unsized(beyond), Err(ReadError::OutOfRange { .. }));
        check(out, || format!("read_unsized({beyond}) is not out of range"))?;
        let out = matches!(log.read(beyond, size), Err(ReadError::OutOfRange { .. }));
        check(out, || format!("read({beyond}, {size}) is not out of range"))?;
    }
    for (physical, size) in [(physical, size + 1), (physical, u32::MAX), (0, size)] {
        let refused = log.read(physical, size).is_err();
        check(refused, || format!("read({physical}, {size}) gives bytes"))?;
        let cached = log.read_if_cached(physical, size).is_none();
        check(cached, || format!("read_if_cached({physical}, {size}) gives bytes"))?;
    }
    check(log.read_unsized(physical + 3).is_err(), || "a record inside a record".to_owned())?;
    let behind = log.read_forward(committed, 100).map_err(|error| error.to_string())?;
    check(behind.records.is_empty() && behind.next == committed, || {
        "reading from the end gives records".to_owned()
    })?;
    let beyond = log.read_forward(committed + 1, 100).is_err();
    check(beyond, || "reading from beyond the end is not refused".to_owned())
}

fn waits_for_commits(open: Open<'_>) -> Result<(), String> {
    let ledger = Arc::new(Ledger::default());
    let log = open(Arc::<Ledger>::clone(&ledger));
    let start = log.bounds().committed;
    let began = Instant::now();
    let end = log.wait_committed(start, Duration::from_millis(30));
    check(end == start, || format!("committed {end} without a batch, was {start}"))?;
    let waited = began.elapsed();
    check(waited >= Duration::from_millis(20), || format!("waited {waited:?} of 30 ms"))?;
    submit(&log, batch(1, &[("Suite", 0)]))?;
    let end = log.wait_committed(start, PATIENCE);
    check(end > start, || "a commit did not end the wait".to_owned())?;
    check(end <= log.bounds().committed, || format!("{end} is not committed"))
}

fn gives_back_refused(open: Open<'_>) -> Result<(), String> {
    let ledger = Arc::new(Ledger::default());
    let log = open(Arc::<Ledger>::clone(&ledger));
    let mut builder = BatchBuilder::new();
    builder.push_bytes(&test_record("Suite", 0, b"small", ""));
    builder.push_bytes(&test_record("Suite", 0, &vec![7; 65 << 20], ""));
    let huge = builder.finish(9);
    let (bytes, lengths) = (huge.buffer.clone(), huge.lengths.clone());
    match log.submit(huge) {
        Ok(()) => Err("a record of 65 MiB was taken".to_owned()),
        Err(refused) => {
            check(refused.batch.token == 9 && refused.batch.lengths == lengths, || {
                "token or lengths differ".to_owned()
            })?;
            check(refused.batch.buffer == bytes, || "bytes differ".to_owned())?;
            let too_large = matches!(refused.cause, RefusalCause::TooLarge { .. });
            check(too_large, || format!("cause {:?}", refused.cause))?;
            submit(&log, batch(1, &[("Suite", 0)]))?;
            let tokens: Vec<_> = ledger.wait(1)?.iter().map(|(token, _)| *token).collect();
            check(tokens == [1], || format!("tokens {tokens:?} after a refusal"))
        }
    }
}

fn takes_many_writers(open: Open<'_>) -> Result<(), String> {
    const WRITERS: u64 = 4;
    const EACH: u64 = 100;
    let ledger = Arc::new(Ledger::default());
    let log = open(Arc::<Ledger>::clone(&ledger));
    let failed = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let log = &log;
                scope.spawn(move || {
                    (0..EACH)
                        .try_for_each(|at| submit(log, batch(writer * EACH + at, &[("Suite", 0)])))
                })
            })
            .collect();
        let joined = writers.into_iter().map(|writer| {
            writer.join().unwrap_or_else(|_panic| Err("a writer panicked".to_owned()))
        });
        joined.collect::<Result<Vec<()>, String>>().err()
    });
    check(failed.is_none(), || failed.unwrap_or_default())?;
    let completed = ledger.wait((WRITERS * EACH) as usize)?;
    let mut last = [None; WRITERS as usize];
    for (offset, (token, placed)) in completed.iter().enumerate() {
        let writer = &mut last[(token / EACH) as usize];
        check(*writer < Some(*token), || format!("token {token} came after {writer:?}"))?;
        *writer = Some(*token);
        let record = placed.records().next().ok_or("nothing placed")?;
        let found = fields(record)?.queue_offset;
        check(found == offset as u64, || format!("completion {offset} has offset {found}"))?;
    }
    check(completed.len() as u64 == WRITERS * EACH, || format!("{} completions", completed.len()))
}
