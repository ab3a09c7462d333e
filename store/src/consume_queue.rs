//! One consume queue: the offsets of a queue and where each of its messages lies.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use crate::{placement::QueueEnd, unit::Unit, unit_files::UnitFiles};

/// The units of one queue. The dispatcher alone adds to it.
#[derive(Debug)]
pub(crate) struct ConsumeQueue {
    topic: Arc<str>,
    id: u32,
    serial: usize,
    files: UnitFiles,
    state: RwLock<State>,
}

/// What is known of a queue beside its units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct QueueState {
    /// Offset of the first unit.
    pub(crate) min: u64,
    /// The end.
    pub(crate) end: QueueEnd,
    /// Physical offset of the last message; `None` where there is no unit.
    pub(crate) last_physical: Option<u64>,
    /// Messages before this log position were deleted with their topic.
    pub(crate) cleared_below: u64,
}

#[derive(Debug, Default)]
struct State {
    known: QueueState,
    /// Units before this offset are in the files; those behind it are all in `recent`.
    written: u64,
    /// Units just before `known.end.next`, without a gap.
    recent: VecDeque<Packed>,
}

#[derive(Debug, Clone, Copy)]
struct Packed {
    physical: u64,
    tags_code: i64,
    size: u32,
}

impl ConsumeQueue {
    pub(crate) fn new(topic: Arc<str>, id: u32, serial: usize, files: UnitFiles) -> Self {
        Self { topic, id, serial, files, state: RwLock::default() }
    }

    pub(crate) fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Number that no other queue of this process has.
    pub(crate) fn serial(&self) -> usize {
        self.serial
    }

    pub(crate) fn files(&self) -> &UnitFiles {
        &self.files
    }

    pub(crate) fn state(&self) -> QueueState {
        self.read().known
    }

    /// Sets what recovery found.
    pub(crate) fn restore(&self, state: QueueState) {
        let mut inner = self.write_state();
        inner.known = state;
        inner.written = state.end.next;
    }

    /// First and next offset at one moment.
    pub(crate) fn range(&self) -> (u64, u64) {
        let known = self.state();
        (known.min, known.end.next)
    }

    /// Adds units and shows them. Without units, all that the end passed over is deleted.
    ///
    /// The first unit of a queue without messages may leave a step, which no other does.
    pub(crate) fn publish(&self, units: &[Unit], end: QueueEnd) {
        let mut state = self.write_state();
        let first = units.first().map_or(end.next, |unit| unit.offset);
        if first != state.known.end.next {
            state.recent.clear();
            state.written = first;
        }
        if state.known.min == state.known.end.next {
            state.known.min = first;
        }
        state.recent.extend(units.iter().map(Packed::from));
        state.known.end = end;
        if let Some(last) = units.last() {
            state.known.last_physical = Some(last.physical);
        }
    }

    /// Writes the units that are not in the files yet, if there are `many` of them: one write for
    /// many units, not one for each batch that brings a few. Called by one thread at a time.
    pub(crate) fn write_pending(&self, many: u64) -> io::Result<()> {
        let units = {
            let state = self.read();
            let pending = state.known.end.next - state.written;
            if pending < many.max(1) {
                return Ok(());
            }
            let skip = state.recent.len().saturating_sub(usize::try_from(pending).unwrap_or(0));
            let units = state.recent.iter().skip(skip).zip(state.written..);
            units.map(|(packed, offset)| packed.unit(offset)).collect::<Vec<_>>()
        };
        self.files.write(&units)?;
        let mut state = self.write_state();
        state.written = units.last().map_or(state.written, |last| last.offset + 1);
        Ok(())
    }

    /// Up to `max` units from `from` on, where they are in memory.
    pub(crate) fn recent(&self, from: u64, max: usize) -> Option<Vec<Unit>> {
        let state = self.read();
        let first = state.known.end.next.checked_sub(state.recent.len() as u64)?;
        let skip = usize::try_from(from.checked_sub(first)?).ok()?;
        let units = state.recent.iter().skip(skip).take(max);
        Some(units.zip(from..).map(|(packed, offset)| packed.unit(offset)).collect())
    }

    /// Up to `max` units from `from` on, from memory or from the files. A unit that cannot be read
    /// ends the run.
    pub(crate) fn units(&self, from: u64, max: usize) -> io::Result<Vec<Unit>> {
        if let Some(units) = self.recent(from, max) {
            return Ok(units);
        }
        let (min, written) = {
            let state = self.read();
            (state.known.min, state.written)
        };
        let from = from.max(min);
        self.files.read(from, written.saturating_sub(from).min(max as u64))
    }

    /// Drops from memory the units of messages before `physical`; true where some are left.
    pub(crate) fn forget_before(&self, physical: u64) -> bool {
        let mut state = self.write_state();
        let pending = usize::try_from(state.known.end.next - state.written).unwrap_or(usize::MAX);
        let written = state.recent.len().saturating_sub(pending);
        let old = state.recent.partition_point(|packed| packed.physical < physical).min(written);
        state.recent.drain(..old);
        if state.recent.capacity() > 64 && state.recent.len() < state.recent.capacity() / 4 {
            state.recent.shrink_to_fit();
        }
        !state.recent.is_empty()
    }

    /// Offset of the first unit whose message begins at or behind `physical`.
    pub(crate) fn first_from(&self, physical: u64) -> io::Result<u64> {
        let (mut low, mut high) = self.range();
        if low < high && self.begins_from(low, physical)? {
            return Ok(low);
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if self.begins_from(middle, physical)? {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(low)
    }

    /// Whether the first message at or behind `offset` begins at or behind `physical`.
    fn begins_from(&self, offset: u64, physical: u64) -> io::Result<bool> {
        let mut many = 1;
        let mut at = offset;
        loop {
            let units = self.units(at, many)?;
            if let Some(unit) = units.iter().find(|unit| !unit.is_blank()) {
                return Ok(unit.physical >= physical);
            }
            if units.is_empty() {
                return Ok(false);
            }
            at += units.len() as u64;
            many = 4096;
        }
    }

    /// Raises the first offset; true where it changed.
    pub(crate) fn raise_min(&self, min: u64) -> bool {
        let mut state = self.write_state();
        let raised = min.min(state.known.end.next);
        let changed = raised > state.known.min;
        if changed {
            state.known.min = raised;
            let known = state.known;
            if known.min == known.end.next {
                state.known.last_physical = None;
            }
        }
        changed
    }

    /// Deletes the messages before log position `position` and keeps the next offset. Told again,
    /// when the log is derived again, it leaves what came since.
    pub(crate) fn clear(&self, position: u64) -> io::Result<()> {
        let known = self.state();
        if known.cleared_below >= position {
            return Ok(());
        }
        if known.end.seen > position {
            self.raise_min(self.first_from(position)?);
            self.write_state().known.cleared_below = position;
            return Ok(());
        }
        let mut state = self.write_state();
        state.recent = VecDeque::new();
        state.known.min = state.known.end.next;
        state.written = state.known.end.next;
        state.known.last_physical = None;
        state.known.cleared_below = position;
        Ok(())
    }

    /// Takes the next offset that a snapshot of the journal at log position `position` names, where
    /// the queue has no message to tell it by.
    pub(crate) fn know(&self, next: u64, position: u64) {
        let mut state = self.write_state();
        if state.known.min != state.known.end.next || !state.known.end.know(next, position) {
            return;
        }
        state.recent = VecDeque::new();
        state.known.min = next;
        state.written = next;
        state.known.last_physical = None;
        state.known.cleared_below = position;
    }

    /// The log begins behind all its messages: the next record decides where the queue goes on.
    pub(crate) fn unanchor(&self) {
        let mut state = self.write_state();
        state.recent = VecDeque::new();
        state.known.min = state.known.end.next;
        state.written = state.known.end.next;
        state.known.last_physical = None;
        state.known.end.anchored = false;
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_state(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    /// True where a deleted topic left no message.
    pub(crate) fn is_deleted(&self) -> bool {
        self.cleared_below > 0 && self.min == self.end.next
    }
}

impl Packed {
    fn unit(&self, offset: u64) -> Unit {
        Unit { offset, physical: self.physical, size: self.size, tags_code: self.tags_code }
    }
}

impl From<&Unit> for Packed {
    fn from(unit: &Unit) -> Self {
        Self { physical: unit.physical, tags_code: unit.tags_code, size: unit.size }
    }
}
