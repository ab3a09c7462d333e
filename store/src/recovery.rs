//! Bringing the derived files in order when a store is opened.
//!
//! The mark says what they held at one log position. Each queue and index file is believed as far
//! as it bears that out; what is missing, empty, cut or foreign is cut off and derived again from
//! the log. Without a mark, as in a store that a Java broker wrote, nothing is believed: its
//! recovery after a kill loses units without a trace (spec: store-dledger.md 6.9 A).

use std::{
    collections::{BTreeMap, HashSet},
    io,
    sync::Arc,
};

use crate::{
    append_log::Bounds,
    consume_queue::{ConsumeQueue, QueueState},
    derived::Derived,
    kept::KeptQueues,
    mark::Mark,
    placement::QueueEnd,
    store::OpenError,
};

/// What was found and what it takes to put it right.
struct Survey<'a> {
    derived: &'a Derived,
    bounds: Bounds,
    /// Log position that the mark names.
    marked: u64,
    /// Log position from which something is missing.
    resume: u64,
    /// Where the queues of a plain Java broker begin, at the first start on its store.
    native: Option<KeptQueues>,
    /// Queues with the offset behind which they are cut.
    cuts: Vec<(Arc<ConsumeQueue>, u64)>,
}

/// Recovers queues and index and sets the position from which dispatch goes on.
pub(crate) fn recover(derived: &Derived, bounds: Bounds) -> io::Result<()> {
    let mark = derived.load_mark()?;
    if mark.is_none() && bounds.committed > bounds.min {
        tracing::warn!("no mark of ours: consume queues and index are derived from the whole log");
    }
    let marked = mark.as_ref().map_or(bounds.min, |mark| mark.position.min(bounds.committed));
    let native = match &mark {
        None if derived.options.native_below > bounds.min => {
            Some(KeptQueues::open(&derived.options, bounds.min, HashSet::new())?)
        }
        _ => None,
    };
    let mut survey = Survey { derived, bounds, marked, resume: marked, native, cuts: Vec::new() };
    let mark = mark.as_ref();
    let mut known = known_queues(mark);
    for queue in queues_on_disk(derived)? {
        let state = known.remove(&(Arc::clone(queue.topic()), queue.id()));
        survey.queue(&queue, state)?;
    }
    for ((topic, id), state) in known {
        survey.queue(&derived.queues.find_or_make(&topic, id), Some(state))?;
    }
    let (indexes, clean) =
        mark.map_or((None, false), |mark| (Some(mark.indexes.as_slice()), mark.clean));
    if let Some(from) = derived.index.recover(indexes, clean, bounds.committed)? {
        survey.resume = survey.resume.min(derived.options.position_of(from));
    }
    survey.finish(mark)
}

/// The consume queues of a store that was never ours may belong to a native commit log that the
/// given log does not read.
pub(crate) fn refuse_native_log(derived: &Derived) -> Result<(), OpenError> {
    if derived.options.native_below > 0 {
        return Ok(());
    }
    let path = derived.options.root.join("commitlog");
    let failed = |source| OpenError::Io { path: path.clone(), source };
    if derived.load_mark().map_err(failed)?.is_some() {
        return Ok(());
    }
    let names = match derived.options.vfs.list(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        names => names.map_err(failed)?,
    };
    let numbered = |name: &String| name.len() == 20 && name.bytes().all(|b| b.is_ascii_digit());
    if names.iter().any(numbered) { Err(OpenError::NativeLog { path }) } else { Ok(()) }
}

type Known = BTreeMap<(Arc<str>, u32), QueueState>;

fn known_queues(mark: Option<&Mark>) -> Known {
    let queues = mark.iter().flat_map(|mark| &mark.queues);
    queues.map(|queue| ((Arc::clone(&queue.topic), queue.id), queue.state)).collect()
}

/// Every `consumequeue/<topic>/<id>`, taken up. Other names are left alone.
fn queues_on_disk(derived: &Derived) -> io::Result<Vec<Arc<ConsumeQueue>>> {
    let vfs = &derived.options.vfs;
    let root = derived.queues.directory();
    let topics = match vfs.list_directories(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        topics => topics?,
    };
    let mut queues = Vec::new();
    for topic in topics {
        for name in vfs.list_directories(&root.join(&topic))? {
            match name.parse::<u32>() {
                Ok(id) if id.to_string() == name => {
                    let queue = derived.queues.find_or_make(&topic, id);
                    queue.files().take_up()?;
                    queues.push(queue);
                }
                _ => tracing::warn!(topic, name, "not a consume queue; left alone"),
            }
        }
    }
    Ok(queues)
}

impl Survey<'_> {
    /// Decides how much of a queue is believed.
    fn queue(&mut self, queue: &Arc<ConsumeQueue>, known: Option<QueueState>) -> io::Result<()> {
        let Some(state) = known else { return self.unknown(queue) };
        let Some(last) = state.last_physical else {
            queue.restore(state);
            let behind = if state.end.anchored { state.end.next } else { 0 };
            self.cuts.push((Arc::clone(queue), behind));
            return Ok(());
        };
        // Retention removes files only after a mark with the new minimum.
        let good = queue.files().verify(state.min, state.end.next, last)?;
        queue.restore(state);
        if good < state.end.next {
            tracing::warn!(
                topic = queue.topic().as_ref(),
                queue = queue.id(),
                next = state.end.next,
                good,
                "consume queue is not what it was; deriving it again from its last sound unit"
            );
            self.shorten(queue, good)?;
        }
        self.cut_to_log(queue)
    }

    /// A queue that no mark names: the first record decides where it begins. In the store of a plain
    /// Java broker its first unit does: the log has messages of topics that were deleted, and others
    /// of the same name may have come since.
    fn unknown(&mut self, queue: &Arc<ConsumeQueue>) -> io::Result<()> {
        let begin = self.native.as_ref().and_then(|native| native.begin(queue.topic(), queue.id()));
        let state = match begin {
            Some((physical, offset)) => QueueState {
                min: offset,
                end: QueueEnd { next: offset, seen: physical, anchored: true },
                last_physical: None,
                cleared_below: physical,
            },
            None => {
                let next = queue.files().found_next()?;
                let end = QueueEnd { next, seen: 0, anchored: false };
                QueueState { min: next, end, ..QueueState::default() }
            }
        };
        queue.restore(state);
        self.cuts.push((Arc::clone(queue), 0));
        Ok(())
    }

    /// Units of messages behind the committed log are of a log that lost its tail.
    fn cut_to_log(&mut self, queue: &Arc<ConsumeQueue>) -> io::Result<()> {
        let state = queue.state();
        let ahead = state.end.seen > self.bounds.committed && state.min < state.end.next;
        let good = if ahead { queue.first_from(self.bounds.committed)? } else { state.end.next };
        if good < state.end.next {
            tracing::warn!(
                topic = queue.topic().as_ref(),
                queue = queue.id(),
                next = state.end.next,
                good,
                "consume queue is ahead of the committed log; cutting it"
            );
            return self.shorten(queue, good);
        }
        self.cuts.push((Arc::clone(queue), state.end.next));
        Ok(())
    }

    /// Keeps the units before `good` and resumes behind the last of them.
    fn shorten(&mut self, queue: &Arc<ConsumeQueue>, good: u64) -> io::Result<()> {
        let mut state = queue.state();
        let mut last = None;
        let mut at = good;
        while at > state.min && last.is_none() {
            at -= 1;
            last = queue.files().read(at, 1)?.first().copied().filter(|unit| !unit.is_blank());
        }
        match last {
            Some(unit) => {
                state.end = QueueEnd { next: good, seen: unit.end(), anchored: true };
                state.last_physical = Some(unit.physical);
                self.resume = self.resume.min(unit.end());
            }
            None => {
                let end = QueueEnd { next: state.min, seen: state.cleared_below, anchored: false };
                state = QueueState { end, last_physical: None, ..state };
                self.resume = self.resume.min(self.bounds.min.max(state.cleared_below));
            }
        }
        queue.restore(state);
        self.cuts.push((Arc::clone(queue), if last.is_some() { good } else { 0 }));
        Ok(())
    }

    /// Writes the new mark before anything is cut, so that a crash on the way loses nothing.
    fn finish(self, mark: Option<&Mark>) -> io::Result<()> {
        let position =
            self.resume.clamp(self.bounds.min, self.bounds.committed.max(self.bounds.min));
        {
            let mut progress = self.derived.progress();
            progress.store_timestamp = mark.map_or(0, |mark| mark.store_timestamp);
            progress.timeline = mark.map(|mark| mark.timeline.clone()).unwrap_or_default();
            progress.timeline.cut_before(self.bounds.min);
            progress.timeline.cut_behind(position);
        }
        if mark.is_some() && self.resume < self.bounds.min {
            self.derived.skip_to(self.bounds.min);
        }
        self.derived.set_dispatched(position);
        self.derived.write_mark(false)?;
        for (queue, next) in &self.cuts {
            queue.files().cut_behind(*next)?;
        }
        if position < self.marked {
            tracing::info!(from = position, to = self.bounds.committed, "deriving again");
        }
        Ok(())
    }
}
