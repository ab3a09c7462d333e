//! The hot ring: the last entries that were written, in the buffers in which they came.

use std::{
    collections::VecDeque,
    sync::{PoisonError, RwLock, RwLockReadGuard},
};

use bytes::Bytes;

/// Consecutive entries as they lie in the log.
#[derive(Debug, Clone)]
pub(crate) struct HotRun {
    pub(crate) position: u64,
    pub(crate) bytes: Bytes,
}

impl HotRun {
    fn end(&self) -> u64 {
        self.position + self.bytes.len() as u64
    }
}

#[derive(Debug, Default)]
struct Runs {
    /// In log order; between two runs there is nothing but padding.
    runs: VecDeque<HotRun>,
    bytes: usize,
}

/// Recent entries, up to a bound in bytes.
#[derive(Debug)]
pub(crate) struct HotRing {
    limit: usize,
    runs: RwLock<Runs>,
}

impl HotRing {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, runs: RwLock::default() }
    }

    /// Adds what was just written behind everything before it.
    pub(crate) fn push(&self, added: impl IntoIterator<Item = HotRun>) {
        let mut ring = self.runs.write().unwrap_or_else(PoisonError::into_inner);
        for run in added {
            ring.bytes += run.bytes.len();
            ring.runs.push_back(run);
        }
        while ring.bytes > self.limit {
            let Some(oldest) = ring.runs.pop_front() else { break };
            ring.bytes -= oldest.bytes.len();
        }
    }

    /// Forgets what lies at or behind `position`.
    pub(crate) fn truncate(&self, position: u64) {
        let mut ring = self.runs.write().unwrap_or_else(PoisonError::into_inner);
        while let Some(last) = ring.runs.pop_back_if(|last| last.end() > position) {
            ring.bytes -= last.bytes.len();
        }
    }

    /// The `length` bytes at `position`.
    pub(crate) fn get(&self, position: u64, length: usize) -> Option<Bytes> {
        let run = self.rest_at(position)?;
        (run.len() >= length).then(|| run.slice(..length))
    }

    /// The bytes from `position` to the end of the buffer that holds them.
    pub(crate) fn rest_at(&self, position: u64) -> Option<Bytes> {
        let ring = self.read();
        let run = ring.runs.get(first_behind(&ring.runs, position).checked_sub(1)?)?;
        let from = usize::try_from(position - run.position).ok()?;
        (from < run.bytes.len()).then(|| run.bytes.slice(from..))
    }

    /// The runs from `position` on, the first of them cut to begin there, until they hold
    /// `max_bytes`. `None` where `position` is not in the ring.
    pub(crate) fn from(&self, position: u64, max_bytes: usize) -> Option<Vec<HotRun>> {
        let ring = self.read();
        let nth = first_behind(&ring.runs, position).checked_sub(1)?;
        let first = ring.runs.get(nth)?;
        let from = usize::try_from(position - first.position).ok()?;
        if from >= first.bytes.len() {
            return None;
        }
        let mut found = vec![HotRun { position, bytes: first.bytes.slice(from..) }];
        let mut length = first.bytes.len() - from;
        for run in ring.runs.range(nth + 1..) {
            if length >= max_bytes {
                break;
            }
            length += run.bytes.len();
            found.push(run.clone());
        }
        Some(found)
    }

    fn read(&self) -> RwLockReadGuard<'_, Runs> {
        self.runs.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn first_behind(runs: &VecDeque<HotRun>, position: u64) -> usize {
    runs.partition_point(|run| run.position <= position)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(position: u64, bytes: &'static [u8]) -> HotRun {
        HotRun { position, bytes: Bytes::from_static(bytes) }
    }

    #[test]
    fn what_was_written_last_is_found_and_the_oldest_goes() {
        let ring = HotRing::new(8);
        ring.push([run(100, b"abcd"), run(104, b"efgh")]);
        assert_eq!(ring.get(102, 2).unwrap(), "cd");
        assert_eq!(ring.get(102, 3), None);
        assert_eq!(ring.get(99, 1), None);
        ring.push([run(200, b"x")]);
        assert_eq!(ring.get(102, 2), None);
        assert_eq!(ring.get(104, 4).unwrap(), "efgh");
        assert_eq!(ring.get(108, 1), None);
        let runs = ring.from(106, 3).unwrap();
        let seen: Vec<_> = runs.iter().map(|run| (run.position, &run.bytes[..])).collect();
        assert_eq!(seen, [(106, &b"gh"[..]), (200, b"x")]);
        assert_eq!(ring.from(106, 2).unwrap().len(), 1);
        ring.truncate(108);
        assert_eq!(ring.get(200, 1), None);
        assert_eq!(ring.get(104, 4).unwrap(), "efgh");
    }
}
