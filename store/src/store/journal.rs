//! What the journal and the queues have to do with each other.

use std::{collections::BTreeMap, io};

use super::Store;
use crate::{
    append_log::{HEADROOM, ReadError},
    dispatch::JournalRecord,
    journal::{QueueRange, TOPIC},
};

impl<T: Send + 'static> Store<T> {
    /// First and next offset of each queue that ever had a message, by topic.
    pub fn queue_ranges(&self) -> Vec<(String, Vec<QueueRange>)> {
        let mut topics: BTreeMap<String, Vec<QueueRange>> = BTreeMap::new();
        for queue in self.derived.queues.all() {
            let (min, next) = queue.range();
            if next > 0 {
                let range = QueueRange { id: queue.id(), min, next };
                topics.entry(queue.topic().to_string()).or_default().push(range);
            }
        }
        topics.into_iter().collect()
    }

    /// Before dispatch is started: lets it begin at log position `position` at the latest, for a
    /// record of the journal there could not be read. What is derived already changes nothing.
    pub fn dispatch_again_from(&self, position: u64) {
        self.derived.set_dispatched(self.derived.dispatched().min(position));
    }

    /// Reads the records of the journal between log position `from` and the position up to which
    /// everything is derived, in order, until `each` gives false. Gives the position of one that
    /// cannot be read now, and no later one then: its entry has rotted, and another member has it.
    ///
    /// # Errors
    /// The disk refuses. A record that is no record is passed over with a line in the log.
    pub fn read_journal(
        &self,
        from: u64,
        each: &mut dyn FnMut(&JournalRecord<'_>) -> bool,
    ) -> io::Result<Option<u64>> {
        const UNITS: usize = 256;
        let Some(queue) = self.queue(TOPIC, 0) else { return Ok(None) };
        let mut at = queue.first_from(from)?;
        let dispatched = self.derived.dispatched();
        loop {
            let units = queue.units(at, UNITS)?;
            let Some(last) = units.last() else { return Ok(None) };
            at = last.offset + 1;
            for unit in units.iter().filter(|unit| !unit.is_blank()) {
                if unit.physical >= dispatched {
                    return Ok(None);
                }
                let bytes = match self.log.read(unit.physical, unit.size) {
                    Ok(bytes) => bytes,
                    Err(error @ ReadError::Io { .. }) => {
                        return Err(io::Error::other(error.to_string()));
                    }
                    Err(error) => {
                        tracing::error!(%error, "a record of the journal cannot be read yet");
                        return Ok(Some(unit.physical.saturating_sub(HEADROOM as u64)));
                    }
                };
                match JournalRecord::read(unit.physical, &bytes) {
                    Some(record) if !each(&record) => return Ok(None),
                    Some(_) => {}
                    None => tracing::error!(physical = unit.physical, "no record of the journal"),
                }
            }
        }
    }
}
