//! Measured figures, one line of JSON each: docs/performance.jsonl. The page is made of them, so
//! that parts can be measured at different times.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// What one load on one broker gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Part of the comparison.
    pub part: String,
    /// The load, for people.
    pub load: String,
    /// `flushDiskType` of the broker; empty where it is not about a broker.
    pub durability: String,
    /// `apache` or `ledgermq`; empty where it is not about a broker.
    pub product: String,
    /// Round, from 1 on.
    pub round: u32,
    /// What other programs used of one processor meanwhile, 0.05 for 5 %.
    pub foreign: f64,
    /// Figures by name.
    pub figures: BTreeMap<String, f64>,
}

impl Record {
    /// A figure; `None` where it was not measured.
    #[must_use]
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.figures.get(name).copied()
    }
}

/// The records of a file.
#[derive(Debug)]
pub struct Records {
    path: PathBuf,
    all: Vec<Record>,
}

impl Records {
    /// Reads a file; none is an empty one.
    ///
    /// # Errors
    /// With the line that is no record.
    pub fn open(path: &Path) -> Result<Self> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let lines = text.lines().enumerate();
        let all: Result<Vec<Record>> = lines
            .map(|(index, line)| {
                serde_json::from_str(line)
                    .with_context(|| format!("{}, line {}", path.display(), index + 1))
            })
            .collect();
        Ok(Self { path: path.to_owned(), all: all? })
    }

    /// All records.
    #[must_use]
    pub fn all(&self) -> &[Record] {
        &self.all
    }

    /// Records of a part.
    pub fn of<'a>(&'a self, part: &'a str) -> impl Iterator<Item = &'a Record> + Clone {
        self.all.iter().filter(move |record| record.part == part)
    }

    /// Whether this was measured in this round.
    #[must_use]
    pub fn has(&self, part: &str, durability: &str, product: &str, round: u32) -> bool {
        self.of(part).any(|record| {
            record.durability == durability && record.product == product && record.round == round
        })
    }

    /// Adds records and writes the file, so that what was measured is kept whatever comes next.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn add(&mut self, records: Vec<Record>) -> Result<()> {
        self.all.extend(records);
        self.write()
    }

    /// Forgets a part, which is measured anew.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn forget(&mut self, part: &str) -> Result<()> {
        self.all.retain(|record| record.part != part);
        self.write()
    }

    fn write(&self) -> Result<()> {
        let mut text = Vec::new();
        for record in &self.all {
            serde_json::to_writer(&mut text, record).context("a record is JSON")?;
            text.push(b'\n');
        }
        let about = || self.path.display().to_string();
        let mut file = fs::File::create(&self.path).with_context(about)?;
        file.write_all(&text).with_context(about)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(part: &str, round: u32) -> Record {
        Record {
            part: part.to_owned(),
            load: "x".to_owned(),
            durability: "SYNC_FLUSH".to_owned(),
            product: "apache".to_owned(),
            round,
            foreign: 0.01,
            figures: BTreeMap::from([("rate".to_owned(), 100.5)]),
        }
    }

    #[test]
    fn what_was_measured_is_there_after_the_process() {
        let folder = crate::folder::target().unwrap().join("tmp-records");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("records.jsonl");
        drop(fs::remove_file(&path));
        let mut records = Records::open(&path).unwrap();
        records.add(vec![record("a", 1), record("b", 1)]).unwrap();
        records.add(vec![record("a", 2)]).unwrap();
        let again = Records::open(&path).unwrap();
        assert_eq!(again.all(), [record("a", 1), record("b", 1), record("a", 2)]);
        assert!(again.has("a", "SYNC_FLUSH", "apache", 2));
        assert!(!again.has("a", "SYNC_FLUSH", "ledgermq", 2));
        records.forget("a").unwrap();
        assert_eq!(Records::open(&path).unwrap().all(), [record("b", 1)]);
        fs::File::create(&path).unwrap().write_all(b"{}\n").unwrap();
        let error = format!("{:#}", Records::open(&path).unwrap_err());
        assert!(error.contains("line 1"), "{error}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
