//! Counts the timers that wait, by topic, once somebody asks for it: each message is read once for it.

use protocol::name::TIMER_TOPIC;

use super::{QUEUE, Service, UNITS, book::Book, held::Held, shown::Moved};
use crate::{clock::now_millis, waiting::Unreadable};

/// Messages that are counted before what is due is delivered again.
const ROUND_COUNTED: u64 = 2_048;

impl Held {
    /// What it adds to the number of its topic while it waits.
    pub(super) fn weight(&self) -> Moved {
        let by = if self.takes_back().is_some() { -1 } else { 1 };
        (self.names().0.to_owned(), by)
    }
}

impl Service {
    /// Counts a part of what was looked at; gives whether more is left.
    pub(super) fn count(&self, book: &Book) -> Result<bool, Unreadable> {
        let Some(counted) = self.broker.timers_shown.counted() else { return Ok(false) };
        let position = book.position;
        let begin = counted.max(position.floor);
        let end = position.next.min(begin + ROUND_COUNTED);
        let mut found = Vec::new();
        let mut at = begin;
        while at < end {
            let units = self.broker.store.units(TIMER_TOPIC, QUEUE, at, UNITS);
            let Some(behind) = units.last().map(|unit| unit.offset + 1) else { break };
            for unit in units.iter().filter(|unit| unit.offset < end) {
                if self.key(unit)?.is_some_and(|key| position.waits(key)) {
                    found.extend(self.read(unit)?.map(|held| held.weight()));
                }
            }
            at = behind;
        }
        let whole = end >= position.next;
        self.broker.timers_shown.count(found, end.max(counted), whole, now_millis());
        Ok(!whole)
    }
}
