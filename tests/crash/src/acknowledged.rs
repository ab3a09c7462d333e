//! What an appending process was told, and whether its log still holds it.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread::{self, JoinHandle},
};

use anyhow::{Context, Result, bail, ensure};
use dledger::{Completed, Dledger, Options, Sink};

/// Bytes of a data file of the appending process.
pub const FILE_SIZE: u64 = 256 * 1024;

/// How the appending process opens its log.
#[must_use]
pub fn options(folder: &Path) -> Options {
    Options { file_size: FILE_SIZE, ..Options::one_node(folder.join("dledger-n0")) }
}

/// The body with this number: each has another length and other bytes.
#[must_use]
pub fn body(number: u64) -> Vec<u8> {
    let length = match number % 10 {
        0 => 20_000,
        1..=3 => 3_000 + number % 1_000,
        _ => 30 + number % 400,
    };
    let text = format!("body {number} ");
    let length = usize::try_from(length).unwrap_or(64);
    text.bytes().cycle().take(length).collect()
}

/// Entries that were acknowledged: number of the body by log position.
pub type Acknowledged = BTreeMap<u64, u64>;

/// A process that appends and tells what was acknowledged.
#[derive(Debug)]
pub struct Appender {
    /// The process.
    pub child: Child,
    reader: JoinHandle<Acknowledged>,
}

impl Appender {
    /// Starts `program`, which may be a tracer in front of the appender. Its standard error goes to
    /// `errors`.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start(mut program: Command, errors: Stdio) -> Result<Self> {
        let mut child = program
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .with_context(|| format!("starting {program:?}"))?;
        let output = child.stdout.take().context("its output")?;
        let reader = thread::spawn(move || read(output));
        Ok(Self { child, reader })
    }

    /// What it was told until its end.
    ///
    /// # Errors
    /// Where the thread that reads has panicked.
    pub fn acknowledged(mut self) -> Result<Acknowledged> {
        self.child.wait().context("waiting for the appender")?;
        self.reader.join().map_err(|_panic| anyhow::anyhow!("the reader panicked"))
    }
}

/// Lines `position number`; the last one may be cut off where the process was killed.
fn read(output: impl Read) -> Acknowledged {
    let mut all = Acknowledged::new();
    let mut reader = BufReader::new(output);
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|read| read > 0) && line.ends_with('\n') {
        let mut words = line.split_whitespace().map(str::parse::<u64>);
        if let (Some(Ok(position)), Some(Ok(number))) = (words.next(), words.next()) {
            all.insert(position, number);
        }
        line.clear();
    }
    all
}

struct Nobody;

impl Sink<()> for Nobody {
    fn completed(&self, _group: Vec<Completed<()>>) {}
}

/// What a look found.
#[derive(Debug, Clone, Copy, Default)]
pub struct Found {
    /// Entries in the log.
    pub entries: u64,
    /// Acknowledged ones that it must still have.
    pub acknowledged: u64,
}

/// Opens the log in `folder`, which recovers it, and checks that what was acknowledged is there and
/// equal, that entries follow each other without a hole, and that term and vote can be read.
///
/// # Errors
/// What is wrong.
pub fn check(folder: &Path, acknowledged: &Acknowledged) -> Result<Found> {
    let log = Dledger::<()>::open(&options(folder), Arc::new(Nobody))?;
    let bounds = log.bounds();
    let mut found = Found::default();
    let mut position = bounds.min;
    let mut seen = BTreeMap::new();
    while position < bounds.committed {
        let run = log.read_forward(position, 1 << 20)?;
        ensure!(run.next > position, "no entry at {position}, before {}", bounds.committed);
        position = run.next;
        for (at, body) in run.entries {
            found.entries += 1;
            seen.insert(at, body);
        }
    }
    for (position, number) in acknowledged.range(bounds.min..) {
        found.acknowledged += 1;
        match seen.get(position) {
            Some(held) if **held == *body(*number) => {}
            Some(_) => bail!("acknowledged entry at {position} has another body"),
            None => bail!(
                "acknowledged entry {number} at {position} is lost; the log ends at {}",
                bounds.committed
            ),
        }
    }
    log.shutdown().map_err(anyhow::Error::msg)?;
    check_vote(folder)?;
    Ok(found)
}

fn check_vote(folder: &Path) -> Result<()> {
    let path = folder.join("dledger-n0/currterm");
    let text = match std::fs::read_to_string(&path) {
        // No term was begun yet.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        text => text.context("term and vote")?,
    };
    let term = text.lines().find_map(|line| line.strip_prefix("currTerm=")?.parse::<u64>().ok());
    ensure!(term.is_some(), "term and vote are damaged: {text:?}");
    Ok(())
}
