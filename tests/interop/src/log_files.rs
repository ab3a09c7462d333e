//! DLedger's data files, read by a parser of our own that shares nothing with the product.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result, bail, ensure};

/// Length of an entry's header.
const HEADER: usize = 48;

/// An entry as it lies in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The term that wrote it.
    pub term: u64,
    /// Its position.
    pub position: u64,
    /// Its body.
    pub body: Vec<u8>,
}

/// All entries in the data files of `folder`, by index.
///
/// # Errors
/// Where a file is none of DLedger's.
pub fn entries(folder: &Path) -> Result<BTreeMap<u64, Entry>> {
    let mut files = Vec::new();
    for file in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = file.context("an entry of the folder")?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Ok(base) = name.parse::<u64>() {
            files.push((base, path));
        }
    }
    files.sort();
    let mut entries = BTreeMap::new();
    for (base, path) in files {
        let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
        read(base, &bytes, &mut entries).with_context(|| path.display().to_string())?;
    }
    Ok(entries)
}

fn read(base: u64, bytes: &[u8], entries: &mut BTreeMap<u64, Entry>) -> Result<()> {
    let mut at = 0;
    while let Some(header) = bytes.get(at..at + HEADER) {
        let int = |from: usize| Some(u32::from_be_bytes(*header.get(from..)?.first_chunk()?));
        let long = |from: usize| Some(u64::from_be_bytes(*header.get(from..)?.first_chunk()?));
        let (magic, size) = (int(0).context("magic")?, int(4).context("size")? as usize);
        match magic {
            1 => {}
            // Padding, or nothing was written here.
            0 | 0xffff_ffff => return Ok(()),
            other => bail!("magic {other} at {at}"),
        }
        let (index, term) = (long(8).context("index")?, long(16).context("term")?);
        let position = long(24).context("position")?;
        ensure!(position == base + at as u64, "position {position} at {at} of the file {base}");
        let body = bytes.get(at + HEADER..at + size).context("a body that is cut off")?;
        entries.insert(index, Entry { term, position, body: body.to_vec() });
        at += size;
    }
    Ok(())
}

/// Checks that logs hold the same entries wherever they hold the same index, and returns how many
/// entries all of them hold.
///
/// # Errors
/// With the first difference.
pub fn compare(logs: &[(&str, BTreeMap<u64, Entry>)]) -> Result<usize> {
    let Some(((first_name, first), others)) = logs.split_first() else { return Ok(0) };
    let mut common = first.len();
    for (name, log) in others {
        let mut same = 0;
        for (index, entry) in log {
            let Some(known) = first.get(index) else { continue };
            ensure!(
                known == entry,
                "entry {index}: {first_name} has term {} at {} ({} bytes), {name} has term {} at {} ({} bytes){}",
                known.term,
                known.position,
                known.body.len(),
                entry.term,
                entry.position,
                entry.body.len(),
                if known.body == entry.body { "" } else { ", other bodies" },
            );
            same += 1;
        }
        common = common.min(same);
    }
    Ok(common)
}
