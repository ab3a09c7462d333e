//! Goal: no power cut loses an acknowledged entry or leaves one behind a hole.
//!
//! Method: every sequence of a few operations, cut off at every call that changes the disk, with
//! every choice of what the unsynced sectors, lengths and names come to (up to [`CHOSEN`] of them;
//! of more, that many at the end and at the start). The log is then opened, checked, used and opened
//! again. The planted bugs at the end show that the check can fail.
//!
//! A group of one never cuts its log back: the sequences with that operation are run on the log of a
//! member of several, in `dledger/src/disk_log/sequences.rs`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::{
    fmt,
    io::{self, IoSlice},
    num::NonZero,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crash::world::{Acked, FILE_SIZE, Setup, World};
use segment::{Fate, LockError, LockGuard, SimVfs, Space, Vfs, VfsFile};

/// Unsynced changes of which every subset is tried.
const CHOSEN: usize = 6;

/// Length of the body that a check appends; no operation has it.
const PROBE: usize = 10;

/// Length of the body of a large entry: it touches three sectors or four.
const LARGE: usize = 1400;

#[derive(Debug, Clone, Copy)]
enum Operation {
    /// One entry in a sector or two.
    AppendSmall,
    /// One entry over several sectors, which the present file mostly has room for.
    AppendLarge,
    /// Entries that do not fit into the present file.
    AppendCrossing,
    /// The flusher comes by.
    Flush,
    /// An entry that fills the present file up.
    Roll,
    /// Index, marks and checkpoint.
    Checkpoint,
    /// Files before the end of what is committed go.
    Trim,
}

const OPERATIONS: [Operation; 7] = [
    Operation::AppendSmall,
    Operation::AppendLarge,
    Operation::AppendCrossing,
    Operation::Flush,
    Operation::Roll,
    Operation::Checkpoint,
    Operation::Trim,
];

fn perform(world: &mut World, operation: Operation) -> bool {
    match operation {
        Operation::AppendSmall => {
            world.append(&[40]);
        }
        Operation::AppendLarge => {
            world.append(&[LARGE]);
        }
        Operation::AppendCrossing => {
            world.append(&[500, 2200, 1500]);
        }
        Operation::Flush => {
            world.run_jobs();
        }
        Operation::Roll => world.append_to_file_end(),
        Operation::Checkpoint => return world.checkpoint().is_ok(),
        Operation::Trim => {
            let committed = world.engine.log().bounds().committed;
            return world.engine.log().trim(committed).is_ok();
        }
    }
    world.engine.status().failure.is_none()
}

/// A durable log of two files, as every sequence finds it.
fn start() -> SimVfs {
    let disk = SimVfs::new();
    let mut world = World::lead(&disk).unwrap();
    world.append(&[300, 3000, 900]);
    world.settle();
    world.checkpoint().unwrap();
    disk.crash(&mut |_| Fate::Keep)
}

/// What a run that was cut off leaves.
struct CutOff {
    disk: SimVfs,
    acked: Vec<Acked>,
    /// All that was ever written, in order, without opening entries.
    written: Vec<bytes::Bytes>,
    /// Whether the sequence ended before the power did.
    complete: bool,
}

type Wrap = fn(SimVfs) -> Arc<dyn Vfs>;

fn plain(disk: SimVfs) -> Arc<dyn Vfs> {
    Arc::new(disk)
}

fn run(base: &SimVfs, wrap: Wrap, operations: &[Operation], calls: u64) -> CutOff {
    let disk = base.after_kill();
    let mut world = World::open(&wrap(disk.clone()), Setup::default()).unwrap();
    let mut written: Vec<bytes::Bytes> =
        world.entries().unwrap().into_iter().map(|(_, body)| body).collect();
    world.settle();
    disk.cut_power_after(calls);
    let mut complete = true;
    for operation in operations {
        complete = complete && perform(&mut world, *operation);
    }
    written.extend(world.submitted);
    CutOff { disk, acked: world.acked, written, complete }
}

/// Opens what is left and tells what is wrong with it.
fn check(after: &SimVfs, cut: &CutOff) -> Result<(), String> {
    let first = look(after, cut)?;
    // A second crash right after must find the same.
    let second = look(&after.after_kill(), cut)?;
    if !second.starts_with(&first) {
        return Err("a second start finds another log".to_owned());
    }
    Ok(())
}

fn look(disk: &SimVfs, cut: &CutOff) -> Result<Vec<(u64, bytes::Bytes)>, String> {
    let mut world = World::lead(disk).map_err(|error| error.to_string())?;
    world.append(&[PROBE]);
    world.settle();
    if let Some(failure) = &world.engine.status().failure {
        return Err(failure.clone());
    }
    let entries = world.entries().map_err(|error| error.to_string())?;
    let min = world.engine.log().bounds().min;
    for acked in cut.acked.iter().filter(|acked| acked.position >= min) {
        if !entries.contains(&(acked.position, acked.body.clone())) {
            return Err(format!("acknowledged entry at {} is lost", acked.position));
        }
    }
    // What was written is there up to some point, in order and without a hole.
    let is_written = |body: &&bytes::Bytes| body.starts_with(b"#body") && body.len() != PROBE;
    let found: Vec<_> = entries.iter().map(|(_, body)| body).filter(is_written).collect();
    let written: Vec<_> = cut.written.iter().filter(is_written).collect();
    let in_order = (0..=written.len()).any(|from| written[from..].starts_with(&found));
    if !in_order {
        return Err("entries are missing in between".to_owned());
    }
    Ok(entries)
}

/// Tries every crash of a sequence; the number of disks that were looked at.
fn try_sequence(
    base: &SimVfs,
    wrap: Wrap,
    operations: &[Operation],
    thorough: bool,
) -> Result<usize, String> {
    let mut looked = 0;
    for calls in 0..200 {
        let cut = run(base, wrap, operations, calls);
        let count = cut.disk.unsynced().len();
        let tried = match thorough {
            true => Fate::every_choice(count, CHOSEN),
            false => Fate::each_alone(count),
        };
        for fates in tried {
            let mut next = fates.iter();
            let after = cut.disk.crash(&mut |_| *next.next().unwrap());
            check(&after, &cut).map_err(|violation| {
                let unsynced = cut.disk.unsynced();
                format!("{violation}: {operations:?} cut at {calls}, {unsynced:?} {fates:?}")
            })?;
            looked += 1;
        }
        if cut.complete {
            return Ok(looked);
        }
    }
    Err(format!("{operations:?} does not end"))
}

/// All sequences of `length` operations, on all processors: how many disks were looked at.
fn try_all(wrap: Wrap, length: u32, thorough: bool) -> Result<usize, String> {
    let base = start();
    let next = AtomicUsize::new(0);
    let work = || -> Result<usize, String> {
        let mut looked = 0;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= OPERATIONS.len().pow(length) {
                return Ok(looked);
            }
            let operations: Vec<Operation> = (0..length)
                .map(|place| OPERATIONS[number / OPERATIONS.len().pow(place) % OPERATIONS.len()])
                .collect();
            looked += try_sequence(&base, wrap, &operations, thorough)?;
        }
    };
    let workers = thread::available_parallelism().map_or(2, NonZero::get).min(8);
    thread::scope(|scope| {
        let all: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        all.into_iter().map(|worker| worker.join().unwrap()).sum()
    })
}

#[test]
fn no_crash_of_two_operations_loses_anything() {
    let looked = try_all(plain, 2, true).unwrap();
    println!("{looked} disks looked at");
    assert!(looked > 5_000, "only {looked} disks");
}

#[test]
fn no_crash_of_three_operations_loses_anything() {
    let looked = try_all(plain, 3, false).unwrap();
    println!("{looked} disks looked at");
    assert!(looked > 5_000, "only {looked} disks");
}

/// Every subset of six unsynced changes also for three operations: half a minute.
#[test]
#[ignore = "takes half a minute: cargo xtask ci runs it"]
fn no_crash_of_three_operations_with_every_subset_loses_anything() {
    let looked = try_all(plain, 3, true).unwrap();
    println!("{looked} disks looked at");
    assert!(looked > 50_000, "only {looked} disks");
}

#[test]
#[ignore = "takes minutes: cargo xtask ci --long runs it"]
fn no_crash_of_four_operations_loses_anything() {
    let looked = try_all(plain, 4, false).unwrap();
    println!("{looked} disks looked at");
    assert!(looked > 50_000, "only {looked} disks");
}

#[test]
fn no_crash_while_a_log_is_opened_loses_anything() {
    // A torn tail, so that opening has to repair.
    let base = start();
    let torn = run(&base, plain, &[Operation::AppendSmall, Operation::AppendCrossing], 50);
    let mut nth = 0;
    let torn_disk = torn.disk.crash(&mut |_| {
        nth += 1;
        if nth % 2 == 0 { Fate::Drop } else { Fate::Torn }
    });
    for calls in 0..60 {
        for fate in [Fate::Keep, Fate::Drop, Fate::Torn] {
            let disk = torn_disk.after_kill();
            disk.cut_power_after(calls);
            // Whether this comes through does not matter, what it leaves does.
            drop(World::lead(&disk));
            check(&disk.crash(&mut |_| fate), &torn).unwrap();
        }
    }
}

/// Says that it synced, and did not.
#[derive(Debug)]
struct Liar {
    disk: SimVfs,
    /// Directories are not synced; else data files are not.
    names: bool,
}

#[derive(Debug)]
struct LyingFile(Arc<dyn VfsFile>);

impl Vfs for Liar {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn VfsFile>> {
        self.wrap(path, self.disk.open(path)?)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn VfsFile>> {
        self.wrap(path, self.disk.create(path)?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.disk.list(directory)
    }

    fn list_directories(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.disk.list_directories(directory)
    }

    fn space(&self, directory: &Path) -> io::Result<Space> {
        self.disk.space(directory)
    }

    fn sync_disk(&self, directory: &Path) -> io::Result<()> {
        self.disk.sync_disk(directory)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        self.disk.create_directory(directory)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        if self.names { Ok(()) } else { self.disk.sync_directory(directory) }
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, LockError> {
        self.disk.lock(path)
    }

    fn boot_id(&self) -> String {
        self.disk.boot_id()
    }
}

impl Liar {
    fn wrap(&self, path: &Path, file: Arc<dyn VfsFile>) -> io::Result<Arc<dyn VfsFile>> {
        let data = path.parent().is_some_and(|parent| parent.ends_with("data"));
        Ok(if data && !self.names { Arc::new(LyingFile(file)) } else { file })
    }
}

impl VfsFile for LyingFile {
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        self.0.write_at(parts, offset)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn read_at_if_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        self.0.read_at_if_cached(buffer, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.0.set_length(length)
    }

    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.0.allocate(length)
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        self.0.next_data(offset)
    }
}

/// The check must object, and say where.
fn must_object(wrap: Wrap, what: &dyn fmt::Display) {
    let violation = match try_all(wrap, 2, true) {
        Err(violation) => violation,
        Ok(looked) => panic!("{what} was not found on {looked} disks"),
    };
    assert!(violation.contains("cut at"), "{violation}");
}

#[test]
fn a_log_that_does_not_sync_its_data_is_found_out() {
    must_object(|disk| Arc::new(Liar { disk, names: false }), &"a lying fdatasync");
}

#[test]
fn a_log_that_does_not_sync_its_directory_is_found_out() {
    must_object(|disk| Arc::new(Liar { disk, names: true }), &"an unsynced directory");
}

#[test]
fn the_start_has_two_files() {
    let world = World::lead(&start()).unwrap();
    assert!(world.engine.end() > FILE_SIZE);
}
