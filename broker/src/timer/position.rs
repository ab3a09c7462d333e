//! How far timers are delivered, as the journal has it.

use std::collections::BTreeMap;

/// Numbers from here on in the table of delay levels are no levels: progress of timers stands beside
/// that of the levels, so that it goes wherever that goes. Java keeps such numbers and does nothing
/// about them.
pub(crate) const FIRST_RESERVED: u32 = 1_000_000;

/// Java's file of config/ that says how far its timers are delivered.
pub(crate) const JAVAS_PROGRESS: &str = "timercheck";

const NEXT: u32 = FIRST_RESERVED;
const LAST_DUE: u32 = FIRST_RESERVED + 1;
const LAST_OFFSET: u32 = FIRST_RESERVED + 2;
const FLOOR: u32 = FIRST_RESERVED + 3;

/// [`store::timer::PRECISION_MILLIS`], unsigned.
pub(super) const PRECISION: u64 = store::timer::PRECISION_MILLIS.unsigned_abs();
/// No message of a queue has a larger offset.
const LAST_OF_ALL: u64 = i64::MAX.unsigned_abs();

/// A message of the timer topic, in the order of delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Key {
    /// When it is due, in milliseconds since 1970.
    pub(crate) due: u64,
    /// Its offset in the queue.
    pub(crate) offset: u64,
}

impl Key {
    /// The second that it belongs to: a message that takes another back is in that one's, and a
    /// millisecond before it.
    pub(crate) fn second(self) -> u64 {
        self.due.saturating_add(1) / 1_000
    }
}

/// Three marks say what is delivered. The messages that wait are those from `floor` on and before
/// `next` that come behind `last` in the order of delivery, and all from `next` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Position {
    /// The first offset that was not looked at.
    pub(crate) next: u64,
    /// The message that was delivered last in its turn.
    pub(crate) last: Key,
    /// Every message before it is delivered, or lies in the queue again further behind.
    pub(crate) floor: u64,
}

impl Position {
    /// Nothing is delivered of a queue that begins at `min`.
    pub(crate) fn start(min: u64) -> Self {
        Self { next: min, last: Key::default(), floor: min }
    }

    /// As the table of delay levels has it; `None` where no timer was ever delivered.
    pub(crate) fn of(table: &BTreeMap<u32, u64>) -> Option<Self> {
        let at = |number| table.get(&number).copied();
        Some(Self {
            next: at(NEXT)?,
            last: Key { due: at(LAST_DUE)?, offset: at(LAST_OFFSET)? },
            floor: at(FLOOR)?,
        })
    }

    /// As the file of a Java broker or its answer to code 60 has it, which delivered what was due
    /// before a time (`TimerCheckpoint.java`); `None` where it delivered nothing or is no such file.
    pub(crate) fn of_java(told: &[u8]) -> Option<Self> {
        let word = |number: usize| {
            let bytes = told.get(8 * number..8 * number + 8)?.try_into().ok()?;
            u64::try_from(i64::from_be_bytes(bytes)).ok()
        };
        let (read, next) = (word(0)?, word(2)?);
        // What is out from then on is due a second later.
        let last = Key { due: read.checked_sub(1)?.checked_add(PRECISION)?, offset: LAST_OF_ALL };
        Some(Self { next, last, floor: 0 })
    }

    /// Of what two brokers know of one queue, which delivered in turn, what the later one knows: taken
    /// row by row, what the one has not come to yet might count as delivered by the other.
    pub(crate) fn later(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let floor = one.map_or(0, |known| known.floor).max(other.map_or(0, |known| known.floor));
        let later = one.into_iter().chain(other).max_by_key(|known| known.last)?;
        Some(Self { floor, ..later })
    }

    /// Puts this in the place of what a table says.
    pub(crate) fn put(position: Option<Self>, table: &mut BTreeMap<u32, u64>) {
        drop(table.split_off(&FIRST_RESERVED));
        table.extend(position.map(Self::rows).unwrap_or_default());
    }

    /// What it adds to that table.
    pub(crate) fn rows(self) -> BTreeMap<u32, u64> {
        BTreeMap::from([
            (NEXT, self.next),
            (LAST_DUE, self.last.due),
            (LAST_OFFSET, self.last.offset),
            (FLOOR, self.floor),
        ])
    }

    /// The same within a queue that holds `[min, max)`, which another broker's files may not know.
    pub(crate) fn within(self, min: u64, max: u64) -> Self {
        let next = self.next.clamp(min, max.max(min));
        Self { next, floor: self.floor.clamp(min, next), ..self }
    }

    /// Whether a message that was looked at still waits.
    pub(crate) fn waits(&self, key: Key) -> bool {
        key > self.last && key.offset >= self.floor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_into_the_table_and_out_of_it() {
        let position = Position { next: 9, last: Key { due: 5_000, offset: 7 }, floor: 2 };
        let mut table = position.rows();
        table.insert(3, 4);
        assert_eq!(Position::of(&table), Some(position));
        table.remove(&LAST_OFFSET);
        assert_eq!(Position::of(&table), None);
    }

    /// A `timercheck` of a plain Java broker 5.3.3.
    #[test]
    fn it_goes_on_where_java_ended() {
        let mut file = Vec::new();
        for word in [0x01a2_27c9_db30_i64, 104, 2, 2, 0, 0x01a2_27c9_dcc1, 714] {
            file.extend_from_slice(&word.to_be_bytes());
        }
        let read = 0x01a2_27c9_db30;
        let position = Position::of_java(&file).expect("a position");
        assert_eq!((position.next, position.floor), (2, 0));
        let out = |out: u64, offset| Key { due: out + 1_000, offset };
        assert!(position.waits(out(read, 1)), "Java had not come to it");
        assert!(!position.waits(out(read - 1, 1)));
        assert_eq!(Position::of_java(&[0; 56]), None);
        assert_eq!(Position::of_java(&file[..20]), None);
    }

    #[test]
    fn of_two_that_delivered_in_turn_the_later_one_counts() {
        let ours = Position { next: 9, last: Key { due: 10_000, offset: 5 }, floor: 4 };
        let javas = |due| Position { next: 7, last: Key { due, offset: LAST_OF_ALL }, floor: 0 };
        let later = |other| Position::later(Some(ours), Some(other)).expect("one of them");
        assert_eq!(
            later(javas(9_999)),
            ours,
            "what waits of its second is not Java's to pass over"
        );
        assert!(later(javas(9_999)).waits(Key { due: 10_000, offset: 6 }));
        assert_eq!(later(javas(12_999)), Position { floor: 4, ..javas(12_999) });
        assert_eq!(Position::later(None, Some(ours)), Some(ours));
        assert_eq!(Position::later(None, None), None);
        let mut table = BTreeMap::from([(3, 4), (NEXT, 1), (FIRST_RESERVED + 9, 1)]);
        Position::put(Some(ours), &mut table);
        assert_eq!((Position::of(&table), table.len()), (Some(ours), 5));
        Position::put(None, &mut table);
        assert_eq!(table, BTreeMap::from([(3, 4)]));
    }

    #[test]
    fn it_keeps_within_the_queue() {
        let position = Position { next: 90, last: Key { due: 5, offset: 7 }, floor: 2 };
        assert_eq!(position.within(10, 50), Position { next: 50, floor: 10, ..position });
        assert_eq!(position.within(95, 99), Position { next: 95, floor: 95, ..position });
    }

    #[test]
    fn one_that_takes_back_is_of_the_second_of_the_other() {
        let key = |due| Key { due, offset: 0 };
        assert_eq!(key(7_999).second(), key(8_000).second());
        assert_ne!(key(8_000).second(), key(8_999).second());
    }
}
