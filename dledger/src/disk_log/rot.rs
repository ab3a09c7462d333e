//! Entries that were durable and are bad now: never served, never cut off, written anew with what a
//! member still has.

use std::{
    io,
    io::IoSlice,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{DiskLog, links::Link, lock};
use crate::{
    ReadError,
    entry::{Header, Previous},
    index_log::Unit,
    range::CheckedRange,
};

/// Consecutive entries that cannot be read any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RottenRange {
    /// Index of the first.
    pub first: u64,
    /// Index of the last.
    pub last: u64,
    /// Log position of the first.
    pub position: u64,
    /// Log position behind the last.
    pub end: u64,
    /// What is wrong with the first.
    pub reason: String,
}

/// Most positions that are remembered for a closer look.
const SUSPECTS: usize = 64;

/// All ranges that wait to be written anew, in log order.
#[derive(Debug, Default)]
pub(crate) struct Rot {
    any: AtomicBool,
    ranges: Mutex<Vec<RottenRange>>,
    /// Whether there are suspects.
    suspected: AtomicBool,
    /// Where readers have met something bad: rot, or they asked for a place where no entry begins.
    suspects: Mutex<Vec<u64>>,
}

impl Rot {
    pub(crate) fn set(&self, ranges: Vec<RottenRange>) {
        let mut known = lock(&self.ranges);
        self.any.store(!ranges.is_empty(), Ordering::Release);
        *known = ranges;
    }

    pub(crate) fn clear(&self) {
        self.set(Vec::new());
    }

    /// Entries from `begin` on, an index and its position, and before `end` are left.
    pub(crate) fn keep(&self, begin: (u64, u64), end: &Unit) {
        let mut known = lock(&self.ranges);
        known.retain(|range| range.last >= begin.0 && range.first < end.index);
        for range in known.iter_mut().filter(|range| range.first < begin.0) {
            (range.first, range.position) = begin;
        }
        for range in known.iter_mut().filter(|range| range.last >= end.index) {
            (range.last, range.end) = (end.index.saturating_sub(1), end.position);
        }
        self.any.store(!known.is_empty(), Ordering::Release);
    }

    fn add(&self, range: RottenRange) {
        let mut known = lock(&self.ranges);
        if known.iter().any(|other| other.first <= range.last && range.first <= other.last) {
            return;
        }
        known.push(range);
        known.sort_by_key(|range| range.first);
        self.any.store(true, Ordering::Release);
    }

    fn widen(&self, first: u64, last: u64, end: u64) {
        let mut known = lock(&self.ranges);
        known.retain(|range| range.first <= first || range.last > last);
        for range in known.iter_mut().filter(|range| range.first == first) {
            (range.last, range.end) = (range.last.max(last), range.end.max(end));
        }
    }

    /// The range that began with entry `first` begins with that of `unit` now.
    fn begin_at(&self, first: u64, unit: &Unit) {
        for range in lock(&self.ranges).iter_mut().filter(|range| range.first == first) {
            (range.first, range.position) = (unit.index, unit.position);
        }
    }

    fn remove(&self, first: u64) {
        let mut known = lock(&self.ranges);
        known.retain(|range| range.first != first);
        self.any.store(!known.is_empty(), Ordering::Release);
    }
}

/// Why a rotten range stays as it is.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotMended {
    /// What was sent does not belong there, or could not be written.
    #[error("{0}")]
    Unfit(String),
    /// It could not be synced: what the disk holds of this file is not known any more.
    #[error("it could not be synced: {0}")]
    Unsynced(io::Error),
}

impl From<String> for NotMended {
    fn from(reason: String) -> Self {
        Self::Unfit(reason)
    }
}

impl From<&str> for NotMended {
    fn from(reason: &str) -> Self {
        Self::Unfit(reason.to_owned())
    }
}

impl DiskLog {
    /// Whether any entry waits to be written anew.
    pub(crate) fn has_rot(&self) -> bool {
        self.rot.any.load(Ordering::Acquire)
    }

    /// The ranges that wait to be written anew.
    #[must_use]
    pub fn rotten(&self) -> Vec<RottenRange> {
        if !self.rot.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        lock(&self.rot.ranges).clone()
    }

    /// Refuses bytes of `[from, end)` where one of them is rotten.
    pub(crate) fn refuse_rotten(&self, from: u64, end: u64) -> Result<(), ReadError> {
        if !self.rot.any.load(Ordering::Acquire) {
            return Ok(());
        }
        let ranges = lock(&self.rot.ranges);
        match ranges.iter().find(|range| range.position < end && from < range.end) {
            Some(range) => Err(ReadError::Damaged {
                position: range.position,
                reason: format!(
                    "entries {} to {} are rotten and wait to be fetched from a member",
                    range.first, range.last
                ),
            }),
            None => Ok(()),
        }
    }

    /// The first rotten byte behind `position`.
    pub(crate) fn sound_end(&self, position: u64) -> u64 {
        if !self.rot.any.load(Ordering::Acquire) {
            return u64::MAX;
        }
        let ranges = lock(&self.rot.ranges);
        let behind = ranges.iter().map(|range| range.position).filter(|rotten| *rotten > position);
        behind.min().unwrap_or(u64::MAX)
    }

    /// A reader met something bad.
    pub(crate) fn suspect(&self, error: &ReadError) {
        let ReadError::Damaged { position, .. } = error else { return };
        let mut suspects = lock(&self.rot.suspects);
        if suspects.len() < SUSPECTS && !suspects.contains(position) {
            suspects.push(*position);
            self.rot.suspected.store(true, Ordering::Release);
        }
    }

    /// Entries that readers have met and that are rotten indeed, with the reason.
    pub(crate) fn convicted(&self) -> Vec<(u64, String)> {
        if !self.rot.suspected.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        let suspects = std::mem::take(&mut *lock(&self.rot.suspects));
        let indexes = suspects.into_iter().filter_map(|position| self.index_at(position));
        indexes.flat_map(|index| self.culprits(index)).collect()
    }

    /// Notes that entry `index` could not be read. `None` where it is no entry of this log.
    pub(crate) fn note_rot(&self, index: u64, reason: &str) -> Option<RottenRange> {
        let unit = self.index.get(index).ok().flatten()?;
        let range = RottenRange {
            first: index,
            last: index,
            position: unit.position,
            end: unit.end(),
            reason: reason.to_owned(),
        };
        self.rot.add(range.clone());
        Some(range)
    }

    /// Writes what a member still has over a rotten range, durably, if it is what was there: the
    /// chain of checksums goes through it from the entry before to the entry behind.
    ///
    /// # Errors
    /// What does not fit, or what the disk answers; the range then stays rotten.
    pub(crate) fn mend(&self, fetched: &CheckedRange) -> Result<(), NotMended> {
        let first = fetched.first().ok_or("nothing was sent")?;
        let range = self.rotten().into_iter().find(|range| range.first == first.index);
        let range = range.ok_or_else(|| format!("entry {} is not rotten", first.index))?;
        self.fits(&range, fetched)?;
        let unwritten = |error| format!("it could not be written: {error}");
        self.put_back(fetched).map_err(unwritten)?;
        self.sync_put_back(fetched)?;
        self.put_units_back(fetched).map_err(unwritten)?;
        let next = fetched.last().map_or(range.first, |last| last.index + 1);
        match self.index.get(next).map_err(|error| error.to_string())? {
            Some(unit) if next <= range.last => self.rot.begin_at(range.first, &unit),
            _ => self.rot.remove(range.first),
        }
        Ok(())
    }

    fn fits(&self, range: &RottenRange, fetched: &CheckedRange) -> Result<(), String> {
        let (Some(first), Some(last)) = (fetched.first(), fetched.last()) else {
            return Err("nothing was sent".to_owned());
        };
        let beyond = last.index > range.last || last.end() > range.end;
        if first.position != range.position || beyond {
            return Err(format!(
                "entries {} to {} at [{}, {}) were sent for those at [{}, {}) up to {}",
                first.index,
                last.index,
                first.position,
                last.end(),
                range.position,
                range.end,
                range.last
            ));
        }
        for header in fetched.headers() {
            let unit = self.index.get(header.index).map_err(|error| error.to_string())?;
            if unit.is_some_and(|unit| (unit.term, unit.size) != (header.term, header.size)) {
                return Err(format!("entry {} was another one", header.index));
            }
        }
        let before = range.first.checked_sub(1).and_then(|index| self.index.get(index).ok()?);
        let before = before.and_then(|unit| self.header_at(unit.position).ok());
        if let Some(before) = before
            && first.chain_crc != 0
            && first.chain_crc != first.chain_behind(Previous::of(&before))
        {
            return Err(self.does_not_follow(range, &before));
        }
        if last.index < range.last { Ok(()) } else { self.is_followed(range, last) }
    }

    /// The entry before the range may have rotted itself, where nothing vouches for it.
    fn does_not_follow(&self, range: &RottenRange, before: &Header) -> String {
        if self.link(before.index) == Link::Holds {
            return format!("entry {} does not follow the one before", range.first);
        }
        self.rot.begin_at(range.first, &Unit::from(before));
        format!("entry {} does not follow the one before: that is fetched, too", range.first)
    }

    /// Whether the entry behind the range is tied to its end. One that is not may have rotted itself
    /// in the one field that nothing else covers: the range then takes it in.
    fn is_followed(&self, range: &RottenRange, last: &Header) -> Result<(), String> {
        let unit = self.index.get(range.last + 1).map_err(|error| error.to_string())?;
        let Some(unit) = unit else { return Ok(()) };
        let Ok(behind) = self.header_at(unit.position) else { return Ok(()) };
        if behind.chain_crc == 0 || behind.chain_crc == behind.chain_behind(Previous::of(last)) {
            return Ok(());
        }
        self.rot.widen(range.first, unit.index, unit.end());
        Err(format!(
            "entry {} does not follow entry {}: it is fetched, too",
            unit.index, last.index
        ))
    }

    fn put_back(&self, fetched: &CheckedRange) -> io::Result<()> {
        let mut at = 0;
        for header in fetched.headers() {
            let size = header.size as usize;
            let bytes = fetched.bytes().get(at..at + size).unwrap_or(&[]);
            self.data
                .write_at(header.position, &mut [IoSlice::new(bytes)])
                .map_err(|error| error.source)?;
            at += size;
        }
        self.put_padding_back(fetched)
    }

    /// After a failed sync the page cache may show what the disk lacks, to the next start as well, which
    /// takes what lies before the durable mark for durable. What was put back is erased again there, so
    /// that it is found rotten.
    fn sync_put_back(&self, fetched: &CheckedRange) -> Result<(), NotMended> {
        let (Some(first), Some(last)) = (fetched.first(), fetched.last()) else { return Ok(()) };
        let Err(error) = self.data.flush(first.position..last.end()) else { return Ok(()) };
        for header in fetched.headers() {
            if let Err(second) = self.data.write_zeros(header.position, header.size as usize) {
                tracing::error!(error = %second, index = header.index, "what was put back stays unsynced");
            }
        }
        Err(NotMended::Unsynced(error))
    }

    fn put_units_back(&self, fetched: &CheckedRange) -> io::Result<()> {
        let Some(first) = fetched.first() else { return Ok(()) };
        let units: Vec<u8> =
            fetched.headers().iter().flat_map(|header| Unit::from(header).encode()).collect();
        self.index.mend(first.index, &units)
    }

    /// A rotten range may reach over the end of a file.
    fn put_padding_back(&self, fetched: &CheckedRange) -> io::Result<()> {
        let headers = fetched.headers();
        for (header, next) in headers.iter().zip(headers.iter().skip(1)) {
            if next.position > header.end() {
                let length = usize::try_from(next.position - header.end());
                let mut padding = vec![0; length.map_err(io::Error::other)?];
                crate::entry::pad(&mut padding);
                self.data
                    .write_at(header.end(), &mut [IoSlice::new(&padding)])
                    .map_err(|error| error.source)?;
            }
        }
        Ok(())
    }
}
