//! The flight recorder: the last turns of a node's life, with their reasons.

use std::{collections::VecDeque, sync::Mutex};

use dledger_core::Record;

use crate::disk_log::lock;

/// How many turns are kept.
const KEPT: usize = 512;

/// The last elections, refused votes, cuts, transfers and the like, oldest first.
#[derive(Debug, Default)]
pub struct FlightRecorder(Mutex<VecDeque<Record>>);

impl FlightRecorder {
    pub(crate) fn push(&self, record: Record) {
        let mut kept = lock(&self.0);
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(record);
    }

    /// What is kept, oldest first.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        lock(&self.0).iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use dledger_core::{Event, Millis, Term};

    use super::*;

    #[test]
    fn the_oldest_turn_goes_first() {
        let recorder = FlightRecorder::default();
        for term in 0..KEPT as u64 + 3 {
            let event = Event::Disk { healthy: true };
            recorder.push(Record { at: Millis(term), term: Term(term), event });
        }
        let records = recorder.records();
        assert_eq!((records.len(), records[0].term), (KEPT, Term(3)));
    }
}
