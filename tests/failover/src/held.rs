//! All that a stopped broker holds of its queues, read from its files by a parser that shares
//! nothing with the product.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};

use crate::queues::{Holding, Queue, Sight};

/// Length of a unit of a consume queue.
const UNIT: usize = 20;
/// Size of the units that fill the front of a first file.
const BLANK: u32 = 0x7fff_ffff;

/// The hash by which a message is known.
#[must_use]
pub fn hash(body: &[u8], tag: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    tag.hash(&mut hasher);
    hasher.finish()
}

/// All queues of topics whose name begins with `prefix`, as the node `number` holds them in the
/// folder `store`. Where `strict` does not hold, a queue that points behind the log ends there, as
/// those of Apache's brokers may do after a kill.
///
/// # Errors
/// Where files are not what they should be.
pub fn read(number: usize, store: &Path, prefix: &str, strict: bool) -> Result<Vec<Holding>> {
    let node = format!("n{number}");
    let mut log = Log::open(&store.join(format!("dledger-{node}")).join("data"))?;
    log.strict = strict;
    let mut holdings = Vec::new();
    let queues = store.join("consumequeue");
    for topic in children(&queues)? {
        let name = name(&topic);
        if !name.starts_with(prefix) {
            continue;
        }
        for folder in children(&topic)? {
            let id = self::name(&folder).parse().with_context(|| folder.display().to_string())?;
            let queue = Queue { topic: name.clone(), id };
            let holding = queue_of(&node, queue, &folder, &log);
            holdings.push(holding.with_context(|| folder.display().to_string())?);
        }
    }
    Ok(holdings)
}

fn queue_of(node: &str, queue: Queue, folder: &Path, log: &Log) -> Result<Holding> {
    let mut files: Vec<(i64, PathBuf)> = Vec::new();
    for file in children(folder)? {
        files.push((name(&file).parse().context("the name of a file")?, file));
    }
    files.sort();
    let first = files.first().map_or(0, |(base, _)| base / UNIT as i64);
    let (mut min, mut max, mut messages) = (first, first, Vec::new());
    for (base, file) in files {
        let bytes = fs::read(&file).with_context(|| file.display().to_string())?;
        for (at, unit) in (base / UNIT as i64..).zip(bytes.as_chunks::<UNIT>().0) {
            let position = u64::from_be_bytes(*unit.first_chunk().context("a unit")?);
            let size = u32::from_be_bytes(*unit[8..].first_chunk().context("a unit")?);
            if size == 0 {
                return Ok(Holding { node: node.to_owned(), queue, min, max, messages });
            }
            if size == BLANK {
                (min, max) = (at + 1, at + 1);
                continue;
            }
            let record = match log.bytes(position, size as usize) {
                Err(_) if !log.strict => {
                    return Ok(Holding { node: node.to_owned(), queue, min, max, messages });
                }
                other => other?,
            };
            let message = record_of(record).with_context(|| format!("offset {at}, {position}"))?;
            ensure!(
                (message.queue, message.offset, message.position) == (queue.id, at, position),
                "offset {at} points to {message:?}"
            );
            max = at + 1;
            let (key, body) = (message.key, message.body);
            messages.push(Sight { offset: at, key, body, position: Some(position) });
        }
    }
    Ok(Holding { node: node.to_owned(), queue, min, max, messages })
}

/// The data files of a log.
struct Log {
    /// Whether each queue must point into it.
    strict: bool,
    files: Vec<(u64, Vec<u8>)>,
}

impl Log {
    fn open(folder: &Path) -> Result<Self> {
        let mut files = Vec::new();
        for file in children(folder)? {
            if let Ok(base) = name(&file).parse() {
                files.push((base, fs::read(&file).with_context(|| file.display().to_string())?));
            }
        }
        files.sort();
        Ok(Self { strict: true, files })
    }

    fn bytes(&self, position: u64, length: usize) -> Result<&[u8]> {
        let before = self.files.partition_point(|(base, _)| *base <= position);
        let (base, bytes) = self.files.get(before.wrapping_sub(1)).context("no file has it")?;
        let at = usize::try_from(position - base).context("a position in a file")?;
        bytes.get(at..at + length).with_context(|| format!("{position} is behind the file {base}"))
    }
}

/// What is looked at of a message.
#[derive(Debug)]
struct Message {
    queue: i32,
    offset: i64,
    position: u64,
    key: String,
    body: u64,
}

/// Reads a record (`MessageDecoder.java`).
fn record_of(record: &[u8]) -> Result<Message> {
    let mut rest = Rest(record);
    let (size, magic) = (rest.int()?, rest.int()?);
    ensure!(size as usize == record.len(), "a record of {size} bytes");
    let topic_length_bytes = match magic.cast_unsigned() {
        0xdaa3_20a7 => 1,
        0xdaa3_20ab => 2,
        other => bail!("magic {other:x}"),
    };
    rest.take(4)?;
    let queue = rest.int()?;
    rest.take(4)?;
    let (offset, position) = (rest.long()?, rest.long()?.cast_unsigned());
    let sys_flag = rest.int()?;
    let host = |bit: i32| if sys_flag & bit == 0 { 8 } else { 20 };
    rest.take(8 + host(1 << 4) + 8 + host(1 << 5) + 4 + 8)?;
    let length = usize::try_from(rest.int()?).context("length of the body")?;
    let body = rest.take(length)?;
    let topic =
        rest.take(topic_length_bytes)?.iter().fold(0, |all, byte| all << 8 | usize::from(*byte));
    rest.take(topic)?;
    let length = rest.take(2)?.iter().fold(0, |all, byte| all << 8 | usize::from(*byte));
    let properties = String::from_utf8_lossy(rest.take(length)?).into_owned();
    let property = |name: &str| {
        let pairs = properties.split('\u{2}').filter_map(|pair| pair.split_once('\u{1}'));
        pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
    };
    let tag = property("TAGS").unwrap_or_default();
    let key = property("KEYS").unwrap_or_default().trim().to_owned();
    Ok(Message { queue, offset, position, key, body: hash(body, &tag) })
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).context("a record that is cut off")?;
        self.0 = rest;
        Ok(taken)
    }

    fn int(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(*self.take(4)?.first_chunk().context("a number")?))
    }

    fn long(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(*self.take(8)?.first_chunk().context("a number")?))
    }
}

fn children(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        found.push(entry.with_context(|| folder.display().to_string())?.path());
    }
    found.sort();
    Ok(found)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
