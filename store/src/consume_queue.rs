//! One consume queue: the offsets of a queue and where each of its messages lies.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use crate::{placement::QueueEnd, unit::Unit};

/// The units of one queue. The dispatcher alone adds to it.
#[derive(Debug)]
pub(crate) struct ConsumeQueue {
    topic: Arc<str>,
    id: u32,
    serial: usize,
    state: RwLock<State>,
    files: Mutex<BTreeMap<u64, Unit>>,
}

#[derive(Debug, Default)]
struct State {
    min: u64,
    end: QueueEnd,
    /// Units just before `end.next`, without a gap.
    recent: VecDeque<Packed>,
}

#[derive(Debug, Clone, Copy)]
struct Packed {
    physical: u64,
    tags_code: i64,
    size: u32,
}

impl ConsumeQueue {
    pub(crate) fn new(topic: Arc<str>, id: u32, serial: usize) -> Self {
        Self { topic, id, serial, state: RwLock::default(), files: Mutex::default() }
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

    pub(crate) fn min(&self) -> u64 {
        self.read().min
    }

    pub(crate) fn next(&self) -> u64 {
        self.read().end.next
    }

    pub(crate) fn end(&self) -> QueueEnd {
        self.read().end
    }

    /// First and next offset at one moment.
    pub(crate) fn range(&self) -> (u64, u64) {
        let state = self.read();
        (state.min, state.end.next)
    }

    /// Writes units without showing them yet.
    pub(crate) fn write(&self, units: &[Unit]) -> io::Result<()> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.extend(units.iter().map(|unit| (unit.offset, *unit)));
        Ok(())
    }

    /// Shows units that were written.
    pub(crate) fn publish(&self, units: &[Unit], end: QueueEnd) {
        let mut state = self.write_state();
        if let Some(first) = units.first() {
            if first.offset != state.end.next {
                state.recent.clear();
            }
            if state.min == state.end.next {
                state.min = first.offset;
            }
        }
        state.recent.extend(units.iter().map(Packed::from));
        state.end = end;
    }

    /// Up to `max` units from `from` on, where they are in memory.
    pub(crate) fn recent(&self, from: u64, max: usize) -> Option<Vec<Unit>> {
        let state = self.read();
        let first = state.end.next - state.recent.len() as u64;
        let skip = usize::try_from(from.checked_sub(first)?).ok()?;
        let units = state.recent.iter().skip(skip).take(max);
        Some(units.zip(from..).map(|(packed, offset)| packed.unit(offset)).collect())
    }

    /// Up to `max` units from `from` on; fewer where the range in memory begins.
    pub(crate) fn units(&self, from: u64, max: usize) -> io::Result<Vec<Unit>> {
        if let Some(units) = self.recent(from, max) {
            return Ok(units);
        }
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(files.range(from..self.next()).take(max).map(|(_, unit)| *unit).collect())
    }

    /// Drops from memory the units of messages before `physical`.
    pub(crate) fn forget_before(&self, physical: u64) {
        let mut state = self.write_state();
        let old = state.recent.partition_point(|packed| packed.physical < physical);
        state.recent.drain(..old);
        if state.recent.capacity() > 64 && state.recent.len() < state.recent.capacity() / 4 {
            state.recent.shrink_to_fit();
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_state(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
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
