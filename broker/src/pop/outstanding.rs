//! Messages that are with clients, as one queue of the revive topic tells: check points in log order,
//! and what was acknowledged of them. Pure: records and times go in.
//!
//! A reader begins behind the last record before which nothing is open any more, and finds what is
//! open by reading on. So that this way stays short, check points that are open for long are put
//! again at the end of the queue, with the bits of what was acknowledged so far; acknowledgements
//! that lie between both then come before their check point, and are kept until it comes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use protocol::body::PopCheckPoint;

use super::point::{Entry, Key, MAX_MESSAGES};

/// How long behind its time a check point is looked at: acknowledgements that were in time are in
/// the queue by then.
pub(super) const GRACE: i64 = 1_000;
/// How much later one of Java's is, whose acknowledgements come by timers of whole seconds.
pub(super) const BY_TIMER: i64 = 2_000;
/// Acknowledgements without a check point that are kept while a reader has not come to the end.
const MAX_EARLY: usize = 1 << 20;
/// Records of a queue that a new reader shall have to read, at most, for one that is open.
const SPAN: u64 = 100_000;
/// As many records for each open check point are left alone: putting again has to gain something.
const SPAN_OF_EACH: u64 = 4;

/// The open check points of one queue of the revive topic.
#[derive(Debug)]
pub(super) struct Outstanding {
    points: BTreeMap<u64, Point>,
    places: HashMap<Key, u64>,
    due: BTreeSet<(i64, u64)>,
    /// Where a reader must begin for each of them.
    froms: BTreeSet<(u64, u64)>,
    /// Acknowledgements whose check point has not come; none once the end was reached.
    early: Option<HashMap<Key, Early>>,
    next: u64,
}

/// Acknowledgements that lie before their check point, and where the first of them lies.
#[derive(Debug)]
struct Early {
    from: u64,
    offsets: Vec<i64>,
}

/// Messages of one pop of one queue that are not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) key: Key,
    pub(super) record: PopCheckPoint,
    offsets: Vec<i64>,
    /// Bit n is set where the n-th message is done.
    done: u32,
    /// When its record was stored.
    stored: i64,
    due: i64,
    /// Where a reader must begin to know all that is acknowledged: at its record, or before that
    /// where acknowledgements came while it was put again.
    from: u64,
}

impl Point {
    /// The messages that are not done.
    pub(super) fn open(&self) -> Vec<i64> {
        let open = |(nth, offset): (usize, &i64)| (self.done & bit(nth) == 0).then_some(*offset);
        self.offsets.iter().enumerate().filter_map(open).collect()
    }

    /// The same check point, to be put at the end of its queue.
    pub(super) fn again(&self) -> PopCheckPoint {
        PopCheckPoint {
            bit_map: self.done.cast_signed(),
            put_again: Some(self.record.put_again.clone().unwrap_or_else(|| "0".to_owned())),
            ..self.record.clone()
        }
    }

    fn new(key: Key, record: PopCheckPoint, from: u64, (stored, by_timer): (i64, bool)) -> Self {
        let number = usize::try_from(record.number).unwrap_or(0).min(MAX_MESSAGES);
        let offset = |nth: usize| match record.diffs.as_deref() {
            None | Some([]) => record.start_offset.checked_add(i64::try_from(nth).ok()?),
            Some(diffs) => record.start_offset.checked_add((*diffs.get(nth)?).into()),
        };
        let offsets: Vec<i64> = (0..number).map_while(offset).collect();
        let over = record.pop_time.saturating_add(record.invisible_time);
        let grace = if by_timer { GRACE + BY_TIMER } else { GRACE };
        let done = record.bit_map.cast_unsigned();
        Self { key, record, offsets, done, stored, due: over.saturating_add(grace), from }
    }

    fn is_done(&self) -> bool {
        (0..self.offsets.len()).all(|nth| self.done & bit(nth) != 0)
    }

    fn acknowledge(&mut self, offsets: &[i64]) {
        for offset in offsets {
            if let Some(nth) = self.offsets.iter().position(|known| known == offset) {
                self.done |= bit(nth);
            }
        }
    }
}

fn bit(nth: usize) -> u32 {
    u32::try_from(nth).ok().and_then(|nth| 1_u32.checked_shl(nth)).unwrap_or(0)
}

impl Outstanding {
    /// Nothing is known of a queue that is read from `next` on.
    pub(super) fn from(next: u64) -> Self {
        Self {
            points: BTreeMap::new(),
            places: HashMap::new(),
            due: BTreeSet::new(),
            froms: BTreeSet::new(),
            early: Some(HashMap::new()),
            next,
        }
    }

    /// Takes the record at an offset, which was stored then, and whether it came by a timer.
    pub(super) fn read(&mut self, at: u64, entry: Entry, how: (i64, bool)) {
        self.next = self.next.max(at + 1);
        match entry {
            Entry::Point(key, record) => self.take(at, Point::new(key, record, at, how)),
            Entry::Acks(key, offsets) => self.acknowledge(at, key, offsets),
            Entry::Other => {}
        }
    }

    /// Records before this offset are read, also those that could not be.
    pub(super) fn passed(&mut self, next: u64) {
        self.next = self.next.max(next);
    }

    /// The end of the queue as it was at the start was reached: whatever is acknowledged from now on
    /// has its check point before it.
    pub(super) fn is_complete(&mut self) {
        self.early = None;
    }

    /// Next offset to read.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Number of open check points.
    pub(super) fn len(&self) -> usize {
        self.points.len()
    }

    /// The last offset that a new reader need not see, nor any before it; `None` where there is none
    /// or it is not known yet.
    pub(super) fn progress(&self) -> Option<i64> {
        let first = self.froms.first().map_or(self.next, |(from, _)| *from);
        let known = self.early.is_none().then_some(first)?;
        known.checked_sub(1).and_then(|last| i64::try_from(last).ok())
    }

    /// Up to `most` of those that are due at `now`, in the order of their times.
    pub(super) fn due(&self, now: i64, most: usize) -> Vec<Point> {
        let due = self.due.iter().take_while(|(due, _)| *due <= now).take(most);
        due.filter_map(|(_, at)| self.points.get(at).cloned()).collect()
    }

    /// Up to `most` of the first, where they are open for so long that they are to be put again: a new
    /// reader would have far to read, or their record was stored at `oldest` or before.
    pub(super) fn to_put_again(&self, oldest: i64, most: usize) -> Vec<Point> {
        let span = SPAN.max(SPAN_OF_EACH.saturating_mul(self.points.len() as u64));
        let far = |from: u64| self.next.saturating_sub(from) > span;
        let first = self.froms.iter().take(most).filter_map(|(_, at)| self.points.get(at));
        first.take_while(|point| far(point.from) || point.stored <= oldest).cloned().collect()
    }

    /// Forgets a check point, which is done.
    pub(super) fn done(&mut self, key: &Key) {
        if let Some(at) = self.places.remove(key) {
            self.remove(at);
        }
    }

    fn take(&mut self, at: u64, mut point: Point) {
        let written = point.done;
        if let Some(before) = self.places.remove(&point.key)
            && let Some(known) = self.remove(before)
        {
            point.done |= known.done;
            if point.done != written {
                (point.from, point.stored) = (known.from, known.stored);
            }
        }
        if let Some(early) = self.early.as_mut().and_then(|early| early.remove(&point.key)) {
            point.acknowledge(&early.offsets);
            if point.done != written {
                point.from = point.from.min(early.from);
            }
        }
        if !point.is_done() {
            self.places.insert(point.key.clone(), at);
            self.due.insert((point.due, at));
            self.froms.insert((point.from, at));
            self.points.insert(at, point);
        }
    }

    fn acknowledge(&mut self, from: u64, key: Key, offsets: Vec<i64>) {
        let Some(at) = self.places.get(&key).copied() else {
            if let Some(early) = &mut self.early
                && early.len() < MAX_EARLY
            {
                let early = early.entry(key).or_insert_with(|| Early { from, offsets: Vec::new() });
                early.offsets.extend(offsets);
            }
            return;
        };
        let Some(point) = self.points.get_mut(&at) else { return };
        point.acknowledge(&offsets);
        if point.is_done() {
            self.done(&key);
        }
    }

    fn remove(&mut self, at: u64) -> Option<Point> {
        let point = self.points.remove(&at)?;
        self.due.remove(&(point.due, at));
        self.froms.remove(&(point.from, at));
        Some(point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(start: i64) -> Key {
        Key {
            topic: "T".into(),
            group: "g".into(),
            queue: 0,
            start,
            pop_time: 1_000,
            broker: "b".into(),
        }
    }

    fn point(start: i64, offsets: &[u64]) -> Entry {
        Entry::Point(key(start), key(start).point(500, offsets))
    }

    fn open(outstanding: &Outstanding, now: i64) -> Vec<Vec<i64>> {
        outstanding.due(now, 100).iter().map(Point::open).collect()
    }

    #[test]
    fn what_is_not_acknowledged_is_due_when_its_time_is_over() {
        let mut known = Outstanding::from(7);
        known.is_complete();
        known.read(7, point(5, &[5, 7]), (1_000, false));
        known.read(8, point(9, &[9]), (1_000, true));
        assert_eq!(known.progress(), Some(6));
        known.read(9, Entry::Acks(key(5), vec![7]), (1_100, false));
        assert_eq!(open(&known, 1_500 + GRACE - 1), [[0; 0]; 0]);
        assert_eq!(open(&known, 1_500 + GRACE), [[5]]);
        assert_eq!(open(&known, 1_500 + GRACE + BY_TIMER), [vec![5], vec![9]]);
        known.read(10, Entry::Acks(key(5), vec![5, 6]), (1_100, false));
        assert_eq!((known.len(), known.progress(), known.next()), (1, Some(7), 11));
        known.done(&key(9));
        assert_eq!((known.len(), known.progress()), (0, Some(10)));
    }

    #[test]
    fn a_check_point_of_old_has_no_distances() {
        let mut known = Outstanding::from(0);
        let mut record = key(5).point(500, &[5, 6, 7]);
        (record.diffs, record.bit_map) = (None, 0b010);
        known.read(0, Entry::Point(key(5), record), (0, false));
        assert_eq!(open(&known, i64::MAX), [[5, 7]]);
        assert_eq!(known.progress(), None, "the end was not reached");
        known.is_complete();
        assert_eq!(known.progress(), None, "nothing is done with");
    }

    #[test]
    fn one_that_is_put_again_keeps_what_was_acknowledged() {
        let mut known = Outstanding::from(0);
        known.is_complete();
        known.read(0, point(5, &[5, 6, 7]), (1_000, false));
        known.read(1, Entry::Acks(key(5), vec![6]), (1_000, false));
        assert_eq!(known.to_put_again(999, 10), []);
        let again = known.to_put_again(1_000, 10).remove(0).again();
        assert_eq!((again.bit_map, again.put_again.as_deref()), (0b010, Some("0")));
        // It was acknowledged while the record was on its way.
        known.read(2, Entry::Acks(key(5), vec![5]), (1_000, false));
        known.read(3, Entry::Point(key(5), again), (2_000, false));
        assert_eq!((open(&known, i64::MAX), known.progress()), (vec![vec![7]], None));
        let again = known.to_put_again(1_000, 10).remove(0).again();
        known.read(4, Entry::Point(key(5), again), (3_000, false));
        assert_eq!((open(&known, i64::MAX), known.progress()), (vec![vec![7]], Some(3)));
    }

    #[test]
    fn a_new_reader_may_find_acknowledgements_before_their_check_point() {
        let mut known = Outstanding::from(2);
        known.read(2, Entry::Acks(key(5), vec![5]), (1_000, false));
        known.read(3, point(5, &[5, 6, 7]), (2_000, false));
        assert_eq!(known.progress(), None, "not before it has come to the end");
        known.is_complete();
        assert_eq!((open(&known, i64::MAX), known.progress()), (vec![vec![6, 7]], Some(1)));
        known.read(4, Entry::Acks(key(1), vec![1]), (3_000, false));
        assert_eq!(known.len(), 1, "one that nobody waits for is passed over");
    }

    #[test]
    fn a_reader_shall_not_have_far_to_read() {
        let mut known = Outstanding::from(0);
        known.read(0, point(5, &[5]), (1_000, false));
        known.passed(SPAN);
        assert_eq!(known.to_put_again(0, 10), []);
        known.passed(SPAN + 1);
        assert_eq!(known.to_put_again(0, 10).len(), 1);
    }
}
