//! Putting groups of entries at the end of the log: positions, stamp, headers, one write.

mod received;

use std::{io::IoSlice, ops::Range, sync::Arc};

use bytes::{Bytes, BytesMut};
use dledger_core::{EntryId, LogIndex, Term};

use crate::{
    Body, ENTRY_HEADER, HookError,
    disk_log::{DiskLog, is_full},
    entry::{self, Header, PADDING_MIN, Previous},
    index_log::Unit,
    ring::HotRun,
};

/// Bytes that are written to learn whether a full disk has room again.
const PROBE: u64 = 64 * 1024;

/// Bodies of one submission, each with room for its header in front.
#[derive(Debug)]
pub(crate) struct Bodies {
    pub(crate) buffer: BytesMut,
    pub(crate) lengths: Vec<u32>,
}

/// One submission as it lies in the log.
#[derive(Debug)]
pub(crate) struct Laid {
    pub(crate) bytes: Bytes,
    pub(crate) lengths: Vec<u32>,
    /// The last entry.
    pub(crate) last: EntryId,
    /// Position behind it.
    pub(crate) end: u64,
}

/// Why a group was not written.
#[derive(Debug)]
pub(crate) enum AppendError {
    /// The owner refused; nothing of the group is left in the log.
    Clean(String),
    /// There is no room; nothing of the group is left in the log.
    Full(String),
    /// What a leader sent does not follow this log; nothing of it is written.
    Unfit(String),
    /// The log must not be used any more.
    Fatal(String),
}

/// Where the next entry goes and what it follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) position: u64,
    pub(crate) index: u64,
    /// What the chain of the next entry is tied to; `None` where that lies before the log's begin.
    pub(crate) previous: Option<Previous>,
}

/// The one writer of a log.
#[derive(Debug)]
pub(crate) struct Writer {
    log: Arc<DiskLog>,
    cursor: Cursor,
    /// Up to here the file of the cursor holds zeros that were written.
    zeroed: u64,
}

/// Bytes that are written with one call: they lie in one file.
#[derive(Debug)]
struct Region {
    position: u64,
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    /// The rest of the file.
    Padding(Vec<u8>),
    /// Entries of one submission.
    Entries { nth: usize, range: Range<usize> },
}

impl Writer {
    pub(crate) fn new(log: Arc<DiskLog>, cursor: Cursor) -> Self {
        Self { log, cursor, zeroed: 0 }
    }

    /// Position behind the last entry.
    pub(crate) fn end(&self) -> u64 {
        self.cursor.position
    }

    /// Index of the entry that is appended next.
    pub(crate) fn next_index(&self) -> u64 {
        self.cursor.index
    }

    /// Goes back to the end of a log that was truncated.
    pub(crate) fn rewind(&mut self, cursor: Cursor) {
        self.cursor = cursor;
        self.zeroed = 0;
    }

    /// Looks again at what the next entry is tied to, after a rotten end was mended.
    pub(crate) fn refresh(&mut self) -> Result<(), crate::ReadError> {
        if let Some(before) = self.cursor.index.checked_sub(1)
            && let Some(tie) = self.log.tie_behind(before)?
        {
            self.cursor.previous = Some(tie);
        }
        Ok(())
    }

    /// Most bytes that a body may have.
    pub(crate) fn body_limit(&self) -> u64 {
        let file = self.log.data.file_size().saturating_sub(PADDING_MIN + ENTRY_HEADER as u64);
        file.min(self.submission_limit().saturating_sub(ENTRY_HEADER as u64))
    }

    /// Most bytes that a submission may have: with its padding it never exceeds what may be written
    /// ahead of a flush.
    pub(crate) fn submission_limit(&self) -> u64 {
        self.log.options.unflushed_window / 2
    }

    /// Writes the group with one vectored write for each file that it touches (nearly always one).
    /// `stamp` is called in between, when the positions are fixed. The log is durable up to `flushed`.
    pub(crate) fn append(
        &mut self,
        (term, flushed): (Term, u64),
        mut group: Vec<Bodies>,
        stamp: impl FnOnce(&mut [Body<'_>]) -> Result<(), HookError>,
    ) -> Result<Vec<Laid>, AppendError> {
        if group.is_empty() {
            return Err(AppendError::Clean("there is nothing to append".to_owned()));
        }
        let (regions, positions) = self.plan(&group);
        stamp(&mut bodies_of(&mut group, &positions))
            .map_err(|error| AppendError::Clean(error.to_string()))?;
        let (cursor, units) = self.fill_headers(term, &mut group, &positions);
        let buffers: Vec<&[u8]> = group.iter().map(|bodies| &bodies.buffer[..]).collect();
        self.write(&regions, &buffers)?;
        self.cursor = cursor;
        self.log.index.push(&units);
        self.log.set_last(units.last());
        self.zero_ahead(flushed);
        Ok(self.lay(term, group, &regions, &units))
    }

    /// The padding rule: an entry that would leave fewer than 8 bytes in its file goes to the next
    /// one (Java: `MmapFileList.preAppend`).
    fn plan(&self, group: &[Bodies]) -> (Vec<Region>, Vec<u64>) {
        let file_size = self.log.data.file_size();
        let mut position = self.cursor.position;
        let mut regions = vec![Region { position, parts: Vec::new() }];
        let mut positions = Vec::new();
        for (nth, bodies) in group.iter().enumerate() {
            let mut at = 0;
            for length in &bodies.lengths {
                let size = ENTRY_HEADER + *length as usize;
                let room = file_size - position % file_size;
                if size as u64 + PADDING_MIN > room {
                    let mut padding = vec![0; room as usize];
                    entry::pad(&mut padding);
                    push(&mut regions, Part::Padding(padding));
                    position += room;
                    regions.push(Region { position, parts: Vec::new() });
                }
                push(&mut regions, Part::Entries { nth, range: at..at + size });
                positions.push(position);
                position += size as u64;
                at += size;
            }
        }
        (regions, positions)
    }

    fn fill_headers(
        &self,
        term: Term,
        group: &mut [Bodies],
        positions: &[u64],
    ) -> (Cursor, Vec<Unit>) {
        let mut cursor = self.cursor;
        let mut units = Vec::with_capacity(positions.len());
        let mut positions = positions.iter();
        for bodies in group {
            let mut rest = &mut bodies.buffer[..];
            for (length, position) in bodies.lengths.iter().zip(&mut positions) {
                let size = ENTRY_HEADER + *length as usize;
                let (whole, later) = rest.split_at_mut(size);
                rest = later;
                let (head, body) = whole.split_at_mut(ENTRY_HEADER);
                let mut header = Header {
                    size: size as u32,
                    index: cursor.index,
                    term: term.0,
                    position: *position,
                    chain_crc: 0,
                    body_crc: entry::body_crc(body),
                };
                let previous = cursor.previous.unwrap_or(Previous::Start);
                header.chain_crc = header.chain_behind(previous);
                head.copy_from_slice(&header.encode());
                units.push(Unit::from(&header));
                cursor = Cursor {
                    position: header.end(),
                    index: header.index + 1,
                    previous: Some(Previous::of(&header)),
                };
            }
        }
        (cursor, units)
    }

    fn write(&self, regions: &[Region], buffers: &[&[u8]]) -> Result<(), AppendError> {
        let mut begun: Vec<Range<u64>> = Vec::new();
        for region in regions.iter().filter(|region| !region.parts.is_empty()) {
            let base = self.log.data.base_of(region.position);
            if let Err(error) = self.log.data.append_file(base) {
                return Err(self.take_back(&begun, &error));
            }
            let mut parts: Vec<IoSlice<'_>> =
                region.parts.iter().map(|part| IoSlice::new(part.bytes(buffers))).collect();
            let length: usize = parts.iter().map(|part| part.len()).sum();
            let end = region.position + length as u64;
            begun.push(region.position..end);
            if let Err(error) = self.log.data.write_at(region.position, &mut parts) {
                if let Some(last) = begun.last_mut() {
                    last.end = region.position + error.written;
                }
                return Err(self.take_back(&begun, &error.source));
            }
        }
        Ok(())
    }

    /// A full disk is no reason to stop, if what was written of the group can be erased: an append
    /// that is reported as failed must not be found after a restart.
    fn take_back(&self, begun: &[Range<u64>], error: &std::io::Error) -> AppendError {
        if !is_full(error) {
            return AppendError::Fatal(format!("log could not be written: {error}"));
        }
        let erased = self.log.erase_behind(self.cursor.position, |data| {
            for range in begun {
                data.zero(range.clone())?;
                data.flush(range.clone())?;
            }
            Ok(())
        });
        match erased {
            Ok(()) => AppendError::Full(format!("disk is full: {error}")),
            Err(second) => AppendError::Fatal(format!(
                "log could not be written ({error}), nor what was written be erased: {second}"
            )),
        }
    }

    /// Writes zeros behind the end now and then: a flush of bytes that are already allocated and
    /// written needs no commit of the file system's journal. Where much waits for the next flush, its
    /// zeros would cost more than that commit. Without room it is left.
    fn zero_ahead(&mut self, flushed: u64) {
        let ahead = self.log.options.zero_ahead;
        let position = self.cursor.position;
        let file_end = self.log.data.base_of(position) + self.log.data.file_size();
        let unflushed = position.saturating_sub(flushed);
        if ahead == 0
            || unflushed > self.log.options.zero_limit
            || self.zeroed > position
            || position == file_end
        {
            return;
        }
        let end = (position + ahead).min(file_end);
        match self.log.data.write_zeros(position, (end - position) as usize) {
            Ok(()) => self.zeroed = end,
            Err(error) => tracing::debug!(%error, "no zeros were written ahead"),
        }
    }

    /// Whether the disk takes appends: zeros where the next entry will go.
    pub(crate) fn probe(&self) -> std::io::Result<()> {
        let data = &self.log.data;
        let position = self.cursor.position;
        data.append_file(data.base_of(position))?;
        let room = data.base_of(position) + data.file_size() - position;
        data.write_zeros(position, room.min(PROBE) as usize).map_err(|error| error.source)
    }

    /// Puts the buffers into the hot ring and gives them back with their places.
    fn lay(&self, term: Term, group: Vec<Bodies>, regions: &[Region], units: &[Unit]) -> Vec<Laid> {
        let mut units = units.iter();
        let mut laid = Vec::with_capacity(group.len());
        for Bodies { buffer, lengths } in group {
            let Some(last) = units.by_ref().take(lengths.len()).last() else { continue };
            let id = EntryId { term, index: LogIndex(last.index) };
            laid.push(Laid { bytes: buffer.freeze(), lengths, last: id, end: last.end() });
        }
        let mut runs = Vec::new();
        for region in regions {
            let mut position = region.position;
            for part in &region.parts {
                let Part::Entries { nth, range } = part else { continue };
                let Some(whole) = laid.get(*nth) else { continue };
                runs.push(HotRun { position, bytes: whole.bytes.slice(range.clone()) });
                position += range.len() as u64;
            }
        }
        self.log.ring.push(runs);
        laid
    }

    /// Whether `bytes` more may be written when the log is durable up to `flushed`. Each of them
    /// may cost another one of padding.
    pub(crate) fn has_window(&self, flushed: u64, bytes: u64) -> bool {
        let ahead = self.cursor.position.saturating_sub(flushed);
        ahead + 2 * bytes <= self.log.options.unflushed_window
    }
}

impl Part {
    fn bytes<'a>(&'a self, buffers: &[&'a [u8]]) -> &'a [u8] {
        match self {
            Self::Padding(bytes) => bytes,
            Self::Entries { nth, range } => {
                buffers.get(*nth).and_then(|buffer| buffer.get(range.clone())).unwrap_or(&[])
            }
        }
    }
}

/// Adds a part to the last region; entries that follow each other in one buffer become one part.
fn push(regions: &mut [Region], part: Part) {
    let Some(region) = regions.last_mut() else { return };
    if let (Some(Part::Entries { nth: last, range }), Part::Entries { nth, range: more }) =
        (region.parts.last_mut(), &part)
        && last == nth
        && range.end == more.start
    {
        range.end = more.end;
        return;
    }
    region.parts.push(part);
}

fn bodies_of<'a>(group: &'a mut [Bodies], positions: &[u64]) -> Vec<Body<'a>> {
    let mut positions = positions.iter();
    let mut bodies = Vec::new();
    for Bodies { buffer, lengths } in group {
        let mut rest = &mut buffer[..];
        for (length, position) in lengths.iter().zip(&mut positions) {
            let (whole, later) = rest.split_at_mut(ENTRY_HEADER + *length as usize);
            rest = later;
            bodies.push(Body { position: *position, bytes: &mut whole[ENTRY_HEADER..] });
        }
    }
    bodies
}
