//! When which part of the log was stored: samples that retention decides by.

/// Store times at some log positions, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Timeline {
    samples: Vec<(u64, u64)>,
}

impl Timeline {
    pub(crate) fn from_samples(samples: Vec<(u64, u64)>) -> Self {
        Self { samples }
    }

    pub(crate) fn samples(&self) -> &[(u64, u64)] {
        &self.samples
    }

    /// Notes that the entry at `position` was stored at `timestamp`, once per `step` bytes.
    pub(crate) fn note(&mut self, position: u64, timestamp: u64, step: u64) {
        let due = self.samples.last().is_none_or(|(last, _)| position >= last.saturating_add(step));
        if due {
            self.samples.push((position, timestamp));
        }
    }

    /// Forgets what is not in the log any more.
    pub(crate) fn cut_before(&mut self, min: u64) {
        let gone = self.samples.partition_point(|(position, _)| *position < min);
        self.samples.drain(..gone);
    }

    /// Forgets what will be noted again.
    pub(crate) fn cut_behind(&mut self, end: u64) {
        self.samples.retain(|(position, _)| *position < end);
    }

    /// The last sampled position before which everything was stored before `timestamp`: the entry
    /// there is itself the first that may be younger.
    pub(crate) fn older_than(&self, timestamp: u64) -> Option<u64> {
        let young = self.samples.partition_point(|(_, stored)| *stored < timestamp);
        Some(self.samples.get(young.checked_sub(1)?)?.0)
    }

    /// The first sampled position at or behind `position`.
    pub(crate) fn at_or_behind(&self, position: u64) -> Option<u64> {
        let next = self.samples.partition_point(|(at, _)| *at < position);
        Some(self.samples.get(next)?.0)
    }
}
