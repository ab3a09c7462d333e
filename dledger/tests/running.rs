//! Goal: a log with its threads keeps the promises of its handle.
//!
//! Method: real files in a temporary folder, or the simulated disk where a call must fail.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, Condvar, Mutex},
    time::{Duration, Instant},
};

use bytes::{BufMut, BytesMut};
use dledger::{
    AppendFailure, Appended, Body, Completed, Dledger, Durability, ENTRY_HEADER, Entries, Hook,
    HookError, Options, ReadError, RefusalCause, Role, Sink, Tail,
};
use segment::{Call, SimVfs, Vfs};

const PATIENCE: Duration = Duration::from_secs(60);
const JAVA_HEAD: &[u8] = include_bytes!("data/dledger-data-file0-head.bin");
const JAVA_INDEX: &[u8] = include_bytes!("data/dledger-index-head.bin");

#[derive(Default)]
struct Ledger {
    completed: Mutex<Vec<(u64, Result<Appended, AppendFailure>)>>,
    changed: Condvar,
}

impl Sink<u64> for Ledger {
    fn completed(&self, group: Vec<Completed<u64>>) {
        let mut completed = self.completed.lock().unwrap();
        completed.extend(group.into_iter().map(|one| (one.token, one.result)));
        self.changed.notify_all();
    }
}

impl Ledger {
    fn wait(&self, count: usize) -> Vec<(u64, Result<Appended, AppendFailure>)> {
        let completed = self.completed.lock().unwrap();
        let (completed, waited) = self
            .changed
            .wait_timeout_while(completed, PATIENCE, |completed| completed.len() < count)
            .unwrap();
        assert!(!waited.timed_out(), "{} of {count} completed", completed.len());
        completed.clone()
    }
}

/// Writes its count into each body.
#[derive(Default)]
struct Counter(u32);

impl Hook for Counter {
    fn elected(&mut self, _term: u64, _tail: &mut dyn Tail) -> Result<(), HookError> {
        Ok(())
    }

    fn opening(&mut self, _term: u64) -> Vec<u8> {
        b"....opening".to_vec()
    }

    fn stamp(&mut self, group: &mut [Body<'_>]) -> Result<(), HookError> {
        for body in group {
            let Some(place) = body.bytes.get_mut(..4) else {
                return Err(HookError("body is too short to be stamped".to_owned()));
            };
            place.copy_from_slice(&self.0.to_be_bytes());
            self.0 += 1;
        }
        Ok(())
    }

    fn undo(&mut self) {}
}

fn options(folder: &Path) -> Options {
    Options {
        file_size: 64 * 1024,
        append_timeout: PATIENCE,
        ..Options::one_node(folder.join("dledger-n0"))
    }
}

fn entries(token: u64, bodies: &[&[u8]]) -> Entries<u64> {
    let mut buffer = BytesMut::new();
    for body in bodies {
        buffer.put_bytes(0, ENTRY_HEADER);
        buffer.put_slice(body);
    }
    let lengths = bodies.iter().map(|body| u32::try_from(body.len()).unwrap()).collect();
    Entries { buffer, lengths, token }
}

fn started(options: &Options) -> (Dledger<u64>, Arc<Ledger>) {
    let ledger = Arc::new(Ledger::default());
    let log = Dledger::open(options, Arc::<Ledger>::clone(&ledger)).unwrap();
    log.start(Counter::default()).unwrap();
    wait_opened(&log);
    (log, ledger)
}

fn wait_opened(log: &Dledger<u64>) {
    let deadline = Instant::now() + PATIENCE;
    while !log.status().borrow().opened {
        assert!(Instant::now() < deadline, "{:?}", log.status().borrow());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn many_writers_get_every_token_once_in_log_order() {
    for durability in [Durability::Sync, Durability::Async] {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { durability, ..options(folder.path()) };
        let (log, ledger) = started(&options);
        std::thread::scope(|scope| {
            for writer in 0..4_u64 {
                let log = &log;
                scope.spawn(move || {
                    for nth in 0..200 {
                        let body = vec![b'x'; 100 + usize::try_from(nth).unwrap()];
                        log.submit(entries(writer * 1000 + nth, &[&body, &body[..50]])).unwrap();
                    }
                });
            }
        });
        let completed = ledger.wait(800);
        let mut last = [None; 4];
        let mut stamp = 1;
        let mut behind = 0;
        for (token, result) in &completed {
            let writer = &mut last[usize::try_from(token / 1000).unwrap()];
            assert!(*writer < Some(*token));
            *writer = Some(*token);
            for (position, body) in result.as_ref().unwrap().entries() {
                assert!(position >= behind);
                behind = position + ENTRY_HEADER as u64 + body.len() as u64;
                assert_eq!(body[..4], u32::to_be_bytes(stamp));
                stamp += 1;
                let length = u32::try_from(body.len()).unwrap();
                assert_eq!(log.read(position, length).unwrap(), body);
                assert_eq!(log.read_unsized(position).unwrap(), body);
            }
        }
        assert_eq!(completed.len(), 800);
        assert_eq!(log.bounds().committed, behind);
        log.shutdown().unwrap();
        drop(log);
        let log = Dledger::<u64>::open(&options, Arc::new(Ledger::default())).unwrap();
        let mut from = 0;
        let mut count = 0;
        while from < log.bounds().committed {
            let run = log.read_forward(from, 10_000).unwrap();
            (from, count) = (run.next, count + run.entries.len());
        }
        assert_eq!((from, count), (behind, 1601));
    }
}

#[test]
fn a_second_start_is_refused_with_the_pid() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = started(&options(folder.path()));
    let sink = Arc::new(Ledger::default());
    let refused = Dledger::open(&options(folder.path()), sink).unwrap_err().to_string();
    assert!(refused.contains(&format!("by process {}", std::process::id())), "{refused}");
    log.shutdown().unwrap();
    // Also while somebody still holds the one that has stopped.
    started(&options(folder.path()));
    drop(log);
    started(&options(folder.path()));
}

#[test]
fn what_cannot_be_taken_comes_back_whole() {
    let folder = tempfile::tempdir().unwrap();
    let small = Options { pending_bytes: 1000, ..options(folder.path()) };
    let sink = Arc::new(Ledger::default());
    let log = Dledger::open(&small, Arc::<Ledger>::clone(&sink)).unwrap();
    let refused = log.submit(entries(1, &[b"body"])).unwrap_err();
    assert!(matches!(refused.cause, RefusalCause::NotLeader { .. }));
    assert_eq!((refused.entries.token, &refused.entries.buffer[48..]), (1, &b"body"[..]));
    log.start(Counter::default()).unwrap();
    assert!(log.start(Counter::default()).is_err());
    wait_opened(&log);

    let cause = |refused: dledger::Refused<u64>| refused.cause;
    let long = vec![0; 64 * 1024];
    let refused = log.submit(entries(2, &[&long])).map_err(cause).unwrap_err();
    assert!(matches!(refused, RefusalCause::TooLarge { length: 65536, .. }), "{refused}");
    let mut wrong = entries(3, &[b"body"]);
    wrong.lengths = vec![5];
    let refused = log.submit(wrong).map_err(cause).unwrap_err();
    assert!(matches!(refused, RefusalCause::Malformed { .. }), "{refused}");
    let mut full = 0;
    for token in 0..200 {
        match log.submit(entries(token, &[&[b'x'; 600]])).map_err(cause) {
            Ok(()) => {}
            Err(RefusalCause::Full { limit_bytes: 1000, .. }) => full += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(full > 0, "nothing was refused");
    sink.wait(200 - full);
    // A stamp that objects fails its group, and the log goes on.
    log.submit(entries(500, &[b"abc"])).map_err(cause).unwrap();
    let completed = sink.wait(201 - full);
    let failure = completed.last().unwrap().1.as_ref().unwrap_err();
    assert!(failure.to_string().contains("too short to be stamped"), "{failure}");
    log.submit(entries(501, &[b"long enough"])).map_err(cause).unwrap();
    sink.wait(202 - full).pop().unwrap().1.unwrap();
    log.shutdown().unwrap();
    let refused = log.submit(entries(502, &[b"late"])).map_err(cause).unwrap_err();
    assert!(matches!(refused, RefusalCause::Stopped(_)), "{refused}");
}

#[test]
fn a_failed_sync_stops_the_log_and_says_so() {
    let disk = SimVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let ledger = Arc::new(Ledger::default());
    let options = options(Path::new("store"));
    let log = Dledger::open_on(&vfs, &options, Arc::<Ledger>::clone(&ledger)).unwrap();
    log.start(Counter::default()).unwrap();
    wait_opened(&log);
    disk.fail(Call::Sync, 0, u64::MAX, 5);
    if let Err(refused) = log.submit(entries(1, &[b"body"])) {
        assert!(matches!(refused.cause, RefusalCause::Stopped(_)), "{}", refused.cause);
        ledger.completed(vec![Completed {
            token: 1,
            result: Err(AppendFailure::NotWritten(refused.cause.to_string())),
        }]);
    }
    // The flusher may have met the failure before, when it wrote the index behind.
    let (_, result) = ledger.wait(1).pop().unwrap();
    let failure = result.unwrap_err();
    let stopped = matches!(failure, AppendFailure::Unconfirmed(_) | AppendFailure::NotWritten(_));
    assert!(stopped, "{failure}");
    let deadline = Instant::now() + PATIENCE;
    while log.status().borrow().failure.is_none() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(1));
    }
    let refused = log.submit(entries(2, &[b"body"])).map_err(|refused| refused.cause).unwrap_err();
    assert!(matches!(&refused, RefusalCause::Stopped(why) if why.contains("could not be")));
    let stopped = log.shutdown().unwrap_err();
    assert!(stopped.contains("could not be"), "{stopped}");
    assert_eq!(ledger.wait(1).len(), 1);
}

#[test]
fn waiting_for_a_commit_ends_with_it_or_with_the_time() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = started(&options(folder.path()));
    let committed = log.bounds().committed;
    assert_eq!(log.wait_committed(committed, Duration::from_millis(10)), committed);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| log.wait_committed(committed, PATIENCE));
        log.submit(entries(1, &[b"body"])).map_err(|refused| refused.cause).unwrap();
        assert!(waiting.join().unwrap() > committed);
    });
}

#[test]
fn a_directory_of_a_java_node_is_opened_and_its_torn_end_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("dledger-n0");
    for name in ["data", "index"] {
        std::fs::create_dir_all(directory.join(name)).unwrap();
    }
    let data = File::create(directory.join("data/00000000000000000000")).unwrap();
    data.set_len(1024 * 1024).unwrap();
    data.write_all_at(JAVA_HEAD, 0).unwrap();
    let options = Options { file_size: 1024 * 1024, ..options(folder.path()) };
    let (log, _) = started(&options);
    // The last entry of the sample is cut.
    let run = log.read_forward(0, 1_000_000).unwrap();
    let java = run.entries.len() - 1;
    assert!(java > 20);
    for (nth, (position, body)) in run.entries[..java].iter().enumerate() {
        let unit = &JAVA_INDEX[nth * 32..nth * 32 + 32];
        assert_eq!(unit[4..12], position.to_be_bytes());
        let size = u32::try_from(body.len() + ENTRY_HEADER).unwrap();
        assert_eq!(unit[12..16], size.to_be_bytes());
    }
    // The new term goes on above that of the log, and the index is Java's.
    assert_eq!(log.status().borrow().role, Role::Leader);
    assert!(log.status().borrow().term > 1);
    log.shutdown().unwrap();
    let index = File::open(directory.join("index/00000000000000000000")).unwrap();
    let mut bytes = vec![0; java * 32];
    index.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, JAVA_INDEX[..java * 32]);
    assert_eq!(index.metadata().unwrap().len(), 167_772_160);
}

#[test]
fn reads_outside_or_off_a_boundary_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let cold = Options { hot_ring_bytes: 0, ..options(folder.path()) };
    for options in [cold, options(folder.path())] {
        let (log, ledger) = started(&options);
        log.submit(entries(1, &[b"a body of some length"])).map_err(|r| r.cause).unwrap();
        let (_, result) = ledger.wait(1).pop().unwrap();
        let (position, _) = result.unwrap().entries().map(|(p, b)| (p, b.len())).next().unwrap();
        let committed = log.bounds().committed;
        log.read(position, 21).unwrap();
        for (position, length) in [(position, 20), (position, 22), (position + 1, 20)] {
            assert!(log.read(position, length).is_err());
            assert_eq!(log.read_if_cached(position, length), None);
        }
        assert!(matches!(log.read(committed, 1), Err(ReadError::OutOfRange { .. })));
        assert!(matches!(log.read(u64::MAX, u32::MAX), Err(ReadError::OutOfRange { .. })));
        assert!(matches!(log.read_unsized(position + 5), Err(ReadError::Damaged { .. })));
        assert!(log.read_forward(position + 5, 100).is_err());
        assert!(log.read_forward(committed + 1, 100).is_err());
        assert!(log.read_forward(committed, 100).unwrap().entries.is_empty());
        log.shutdown().unwrap();
    }
}
