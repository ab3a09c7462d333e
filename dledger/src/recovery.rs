//! Opening a log after a stop, an orderly one or not.
//!
//! Java's rules (`DLedgerMmapFileStore.recover`) with two changes: checksums are looked at, and a
//! bad entry is cut off only where it can be a torn tail. What it means otherwise is [`Rot`]: a
//! group of one refuses to open, a member of several goes on without leading and fetches what is
//! lost from the others.

mod doubt;
mod rotten;
mod unsynced;

use std::{io, sync::Arc};

use segment::{OpenFilesError, SegmentFiles, Vfs};

pub(crate) use self::doubt::Group;
use crate::{
    disk_log::{DiskLog, DiskOptions, cut::erase_behind, rot::RottenRange},
    entry::{Found, Header, Previous, look},
    index_log::{IndexLog, UNIT, Unit},
    planted::{Planted, planted},
    scan::{Before, Scanned, Scanner},
    state_files::{Checkpoint, Doubt, DoubtFile, DurableFile, DurableMark},
    writer::Cursor,
};

/// Units that are compared with the index at once.
const UNITS_AT_ONCE: usize = 2048;

/// An entry that was durable and is bad now, or that has good ones behind it that were written only
/// after it was durable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the log in {directory} is damaged at position {position}: {reason}, though {evidence}. \
     Nothing was changed. Bring the folder back from a copy, or move it away to start with an empty \
     log"
)]
pub struct Rot {
    /// The folder `dledger-<selfId>`.
    pub directory: String,
    /// Log position of the bad entry.
    pub position: u64,
    /// What is wrong with it.
    pub reason: String,
    /// Why it is no torn tail.
    pub evidence: String,
}

/// Why a log on disk cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The data files do not fit together.
    #[error(transparent)]
    Files(#[from] OpenFilesError),
    /// It is damaged where no crash could have damaged it.
    #[error(transparent)]
    Rot(#[from] Rot),
    /// The disk refused.
    #[error("log could not be recovered: {0}")]
    Io(#[from] io::Error),
}

/// A recovered log.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) log: Arc<DiskLog>,
    /// The last entry.
    pub(crate) last: Option<Unit>,
    /// Where the next entry goes.
    pub(crate) cursor: Cursor,
    /// Index of an entry that was committed.
    pub(crate) committed: Option<u64>,
    /// Why this member may lack entries that it has acknowledged.
    pub(crate) doubt: Option<Doubt>,
}

/// The end of a log.
#[derive(Debug, Clone, Copy)]
struct Tip {
    last: Option<Unit>,
    /// Position behind it.
    end: u64,
    /// What the next entry is tied to.
    previous: Option<Previous>,
}

impl Tip {
    fn cursor(&self) -> Cursor {
        let index = self.last.map_or(0, |last| last.index + 1);
        let previous = if index == 0 { Some(Previous::Start) } else { self.previous };
        Cursor { position: self.end, index, previous }
    }
}

/// Opens and repairs the log; on return all of it is durable.
pub(crate) fn recover(
    vfs: &Arc<dyn Vfs>,
    options: DiskOptions,
    group: &Group,
) -> Result<Recovered, RecoverError> {
    let found = recover_from(vfs, options.clone(), group, Start::AtTheMark)?;
    let Err(error) = found.log.terms() else { return Ok(found) };
    tracing::warn!(%error, "the index is damaged: it is compared with the whole log");
    drop(found);
    recover_from(vfs, options, group, Start::AtTheBegin)
}

/// Where the scan of a log starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// With what may not be durable.
    AtTheMark,
    /// With the first entry.
    AtTheBegin,
}

fn recover_from(
    vfs: &Arc<dyn Vfs>,
    options: DiskOptions,
    group: &Group,
    start: Start,
) -> Result<Recovered, RecoverError> {
    let directory = options.directory.clone();
    vfs.create_directory(&directory)?;
    // A process that was killed may have left names that are only in memory.
    vfs.sync_directory(&directory)?;
    let data =
        SegmentFiles::open_extending(Arc::clone(vfs), directory.join("data"), options.file_size)?;
    if let Some((path, length)) = data.extended() {
        tracing::warn!(
            path = %path.display(), length, now = options.file_size,
            "the last data file was cut: what it lacks counts as not written"
        );
    }
    let index = IndexLog::open(vfs, directory.join("index"), options.index_file_size)?;
    for name in data.foreign_names().iter().chain(index.foreign_names()) {
        tracing::warn!(name, "foreign file in data/ or index/: a Java broker will not open them");
    }
    let checkpoint = Checkpoint::new(Arc::clone(vfs), &directory).load()?;
    let durable = DurableFile::open(&**vfs, &directory)?;
    let mut mark = durable.mark().clone();
    let doubt_file = DoubtFile::new(Arc::clone(vfs), &directory);
    // Kept before the mark of the boot that went is written over.
    let doubt = group.doubt(&doubt_file, (&mark, &vfs.boot_id()), checkpoint.by_java)?;
    if checkpoint.by_java {
        tracing::info!("a Java broker wrote to this log last: its durable mark counts for nothing");
        mark = DurableMark::default();
    }
    let mut recovery = Recovery {
        options,
        data,
        index,
        durable,
        mark,
        checkpointed: checkpoint.end_index,
        boot_id: vfs.boot_id(),
        mends: !group.is_one(),
        planted: group.planted.clone(),
        rotten: Vec::new(),
        start,
        torn: match doubt {
            Some(_) => None,
            None => {
                group.doubts_tears(DoubtFile::new(Arc::clone(vfs), &directory), checkpoint.by_java)
            }
        },
        doubt,
    };
    let tip = recovery.run()?;
    let doubt = match recovery.doubt {
        Some(doubt) => Some(doubt),
        None => group.doubt_of_end(&doubt_file, tip.last.as_ref(), checkpoint.committed_index)?,
    };
    let Recovery { options, data, index, durable, rotten, .. } = recovery;
    let log = Arc::new(DiskLog::new(vfs, options, (data, index, durable), &group.planted));
    log.rot.set(rotten);
    log.set_last(tip.last.as_ref());
    // A log that ends before what it knew to be committed is an older one: it may hold entries that
    // were cut off since, in the place of those that were committed.
    let end = tip.last.as_ref().map(|last| last.index);
    let known = checkpoint.committed_index.filter(|known| group.is_one() || Some(*known) <= end);
    let committed = publish_committed(&log, known, tip.last.as_ref())?;
    Ok(Recovered { log, last: tip.last, cursor: tip.cursor(), committed, doubt })
}

/// Java: `updateCommittedIndex` with the checkpoint's value: clamped to the end, void below the
/// begin.
fn publish_committed(
    log: &DiskLog,
    committed: Option<u64>,
    last: Option<&Unit>,
) -> io::Result<Option<u64>> {
    let begin = log.first_index()?;
    let (Some(committed), Some(last), Some(begin)) = (committed, last, begin) else {
        log.set_committed(log.data.range().map_or(0, |range| range.start), 0);
        return Ok(None);
    };
    let committed = committed.min(last.index);
    let unit = if committed < begin { None } else { log.index.get(committed)? };
    match unit {
        Some(unit) => log.set_committed(unit.end(), committed + 1),
        None => log.set_committed(log.data.range().map_or(0, |range| range.start), 0),
    }
    Ok(unit.map(|unit| unit.index))
}

struct Recovery {
    options: DiskOptions,
    data: SegmentFiles,
    index: IndexLog,
    durable: DurableFile,
    mark: DurableMark,
    /// The last entry that the last checkpoint knew.
    checkpointed: Option<u64>,
    boot_id: String,
    /// Whether other members may have what is lost here.
    mends: bool,
    planted: Planted,
    rotten: Vec<RottenRange>,
    start: Start,
    /// Where a torn end is noted before it is cut off, if it is a doubt.
    torn: Option<DoubtFile>,
    doubt: Option<Doubt>,
}

impl Recovery {
    fn run(&mut self) -> Result<Tip, RecoverError> {
        let Some(range) = self.data.range() else {
            self.index.truncate(0)?;
            self.keep_mark(0)?;
            return Ok(Tip { last: None, end: 0, previous: None });
        };
        let (start, previous) = self.scan_start(range.start, range.end)?;
        let tip = self.scan(start, previous)?;
        let entries = tip.last.map_or(0, |last| last.index + 1);
        self.index.truncate(entries)?;
        self.make_durable(&tip, (start, range.start))?;
        self.keep_mark(tip.end)?;
        Ok(tip)
    }

    fn keep_mark(&mut self, end: u64) -> io::Result<()> {
        let boot_id = self.boot_id.clone();
        self.durable.store(DurableMark { position: end, boot_id, ..DurableMark::default() })
    }

    /// The file from whose start on the log is scanned, and what its first entry is tied to.
    ///
    /// It is at most the file of the durable mark, as all before that was verified when it was last
    /// the end, and at most the first file whose entries the index does not know. Without a mark it
    /// is the third file from the end, as in Java, or what may have been written ahead of a flush.
    fn scan_start(&self, begin: u64, end: u64) -> io::Result<(u64, Option<Previous>)> {
        let size = self.data.file_size();
        let marked = !self.mark.boot_id.is_empty();
        let start = if marked {
            // One byte before the mark, so that an entry of that file is below it.
            self.mark.position.saturating_sub(1).min(end - size)
        } else {
            end.saturating_sub((3 * size).max(self.options.unflushed_window + size))
        };
        let start = match self.start {
            Start::AtTheBegin => begin,
            Start::AtTheMark if marked => start.min(self.index_reaches(begin)?),
            Start::AtTheMark => start,
        };
        let mut start = self.data.base_of(start).max(begin);
        let mut base = begin;
        while base < start {
            if self.tied_to(base)?.is_none() {
                start = base;
            }
            base += size;
        }
        // An entry that the index does not know may be a damaged one: then it is reached from before.
        while start > begin && self.tied_to(start)?.is_none() {
            start -= size;
        }
        let previous = match start {
            // Whatever its header says: it may have rotted.
            0 => Some(Previous::Start),
            _ if start == begin => None,
            _ => self.tied_to(start)?.flatten(),
        };
        Ok((start, previous))
    }

    /// Position up to where the index is whole. Within one boot that is for the first entries of
    /// files to say; a power cut may have taken any part of it that is younger than the checkpoint.
    fn index_reaches(&self, begin: u64) -> io::Result<u64> {
        if self.mark.clean || self.mark.boot_id == self.boot_id {
            return Ok(u64::MAX);
        }
        let Some(end) = self.checkpointed else { return Ok(begin) };
        Ok(self.index.get(end)?.map_or(begin, |unit| unit.position))
    }

    /// What the first entry of the file at `base` is tied to, by way of the index: the outer `None`
    /// where the index does not know that entry, the inner one where it has none before it.
    fn tied_to(&self, base: u64) -> io::Result<Option<Option<Previous>>> {
        let Some(first) = self.header_at(base)? else { return Ok(None) };
        if self.index.get(first.index)? != Some(Unit::from(&first)) {
            return Ok(None);
        }
        let Some(before) = first.index.checked_sub(1) else { return Ok(Some(None)) };
        let Some(unit) = self.index.get(before)? else { return Ok(Some(None)) };
        if !self.data.range().is_some_and(|range| range.contains(&unit.position)) {
            return Ok(Some(None));
        }
        let header = self.header_at(unit.position)?;
        Ok(Some(header.filter(|header| Unit::from(header) == unit).as_ref().map(Previous::of)))
    }

    fn header_at(&self, position: u64) -> io::Result<Option<Header>> {
        let mut bytes = [0; crate::ENTRY_HEADER];
        match self.data.read_at(position, &mut bytes) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
        Ok(match look(&bytes, position) {
            Found::Entry(header) => Some(header),
            Found::Padding | Found::Nothing | Found::Bad(_) => None,
        })
    }

    /// Scans from `start` to the end of the log and cuts off what lies behind it; the index is
    /// brought in line on the way. Rot is passed over where other members may have what it took.
    fn scan(&mut self, start: u64, previous: Option<Previous>) -> Result<Tip, RecoverError> {
        let trusts = planted!(self.planted, P15);
        let mut before = Before::start(previous).trusts(trusts);
        let mut position = start;
        loop {
            let reason = self.scan_sound(&mut position, &mut before)?;
            let begin = self.data.range().map_or(0, |range| range.start);
            if before.header.is_none() && start > begin {
                // The last entry is in a file before this one.
                let start = start - self.data.file_size();
                let previous = self.tied_to(start)?.flatten();
                return self.scan(start, previous);
            }
            let rot = match self.cut(position, reason) {
                Ok(()) => {
                    let last = before.header.as_ref().map(Unit::from);
                    let end = self.cut_padding(before.header.as_ref(), position)?;
                    return Ok(Tip { last, end, previous: before.previous });
                }
                Err(RecoverError::Rot(rot)) if self.mends => rot,
                Err(other) => return Err(other),
            };
            let Some(range) = self.rotten_range(position, before.header.as_ref(), &rot)? else {
                return Err(rot.into());
            };
            tracing::error!(%rot, first = range.first, last = range.last, "entries are rotten");
            let behind = self.index.get(range.last)?;
            position = self.behind(&range)?;
            let goes_on = self.goes_on(&range, &mut position)?;
            self.rotten.push(range);
            if !goes_on {
                self.cut(position, "nothing sound follows the rotten entries")?;
                return Ok(Tip { last: behind, end: position, previous: None });
            }
            before = Before::start(None).trusts(trusts);
        }
    }

    /// Goes over sound entries from `position` on; tells why it stopped.
    fn scan_sound(
        &self,
        position: &mut u64,
        before: &mut Before,
    ) -> Result<&'static str, RecoverError> {
        let mut scanner = Scanner::new(&self.data);
        let mut units = UnitBuffer::default();
        let is_vouched_for = before.header.is_some() || before.previous.is_some();
        if !is_vouched_for && self.first_differs(*position)?.is_some() {
            return Ok("it is not the entry that the index names");
        }
        let reason = loop {
            match scanner.at(*position, before)? {
                Scanned::Entry(header) => {
                    units.push(&self.index, &header)?;
                    before.advance(header);
                    *position = header.end();
                }
                Scanned::Padding => {
                    *position = self.data.base_of(*position) + self.data.file_size();
                }
                Scanned::Nothing => break "nothing was written there",
                Scanned::Bad(reason) => break reason,
            }
        };
        units.write(&self.index)?;
        Ok(reason)
    }

    /// Padding belongs to the entry behind it: without that the next one may fit in front of it, and
    /// then lies there with every other member.
    fn cut_padding(&mut self, last: Option<&Header>, position: u64) -> io::Result<u64> {
        let end = last.map_or(position, Header::end);
        if end < position {
            erase_behind(&self.data, &mut self.durable, (end, &self.boot_id), |data| {
                data.truncate(end)
            })?;
        }
        Ok(end)
    }

    /// Erases what lies behind `end`, if that can be what a crash left.
    fn cut(&mut self, end: u64, reason: &'static str) -> Result<(), RecoverError> {
        let range = self.data.range().unwrap_or(0..0);
        let mut scanner = Scanner::new(&self.data);
        let in_file = range.contains(&end);
        let dirty = in_file && scanner.first_nonzero(end)?.is_some();
        let later_file = range.end > self.data.base_of(end) + self.data.file_size();
        if !dirty && !later_file && end >= self.mark.position {
            return Ok(());
        }
        self.refuse_rot(end, reason)?;
        tracing::warn!(position = end, reason, "the log has a torn tail: it is cut off there");
        if let Some(file) = self.torn.take_if(|_| dirty && !self.mark.cutting) {
            file.store(Some(Doubt::TornTail))?;
            self.doubt = Some(Doubt::TornTail);
        }
        erase_behind(&self.data, &mut self.durable, (end, &self.boot_id), |data| {
            data.truncate(end)
        })?;
        Ok(())
    }

    fn refuse_rot(&self, end: u64, reason: &str) -> Result<(), RecoverError> {
        let rot = |evidence: String| Rot {
            directory: self.options.directory.display().to_string(),
            position: end,
            reason: reason.to_owned(),
            evidence,
        };
        if planted!(self.planted, P14) {
            return Ok(());
        }
        let durable = self.mark.position;
        if end < durable {
            return Err(rot(format!("all before position {durable} was durable")).into());
        }
        if self.mark.cutting {
            return Ok(());
        }
        let last_base = self.data.range().map_or(0, |range| range.end);
        let last_base = last_base.saturating_sub(self.data.file_size());
        if last_base.saturating_sub(end) > self.data.file_size().max(self.options.unflushed_window)
        {
            // Java's `processOffset is too small`.
            return Err(rot("more follows than was ever written ahead".to_owned()).into());
        }
        let same_boot = !self.boot_id.is_empty() && self.mark.boot_id == self.boot_id;
        let from = if same_boot { end } else { end.saturating_add(self.options.unflushed_window) };
        match Scanner::new(&self.data).find_checked(from)? {
            Some(found) => {
                let evidence = format!("a sound entry that was written after it is at {found}");
                Err(rot(evidence).into())
            }
            None => Ok(()),
        }
    }
}

/// Collects units, so that the index is compared and written in parts.
#[derive(Debug, Default)]
struct UnitBuffer {
    first: u64,
    bytes: Vec<u8>,
}

impl UnitBuffer {
    fn push(&mut self, index: &IndexLog, header: &Header) -> io::Result<()> {
        if self.bytes.is_empty() {
            self.first = header.index;
        }
        self.bytes.extend_from_slice(&Unit::from(header).encode());
        if self.bytes.len() >= UNITS_AT_ONCE * UNIT { self.write(index) } else { Ok(()) }
    }

    fn write(&mut self, index: &IndexLog) -> io::Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        index.ensure(self.first, &self.bytes)?;
        self.bytes.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
