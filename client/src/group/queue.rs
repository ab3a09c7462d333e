//! One queue that is this member's.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicI64, Ordering},
};

use protocol::body::MessageQueue;
use tokio::sync::Notify;

use crate::progress::Progress;

/// A queue, and how far it is.
#[derive(Debug)]
pub(crate) struct Assigned {
    pub(crate) queue: MessageQueue,
    progress: Mutex<Progress>,
    /// Offset that the broker has; -1 before the first commit.
    committed: AtomicI64,
    /// It went to another member.
    dropped: AtomicBool,
    /// The last pull found nothing more.
    at_end: AtomicBool,
    /// Woken when a message is finished.
    room: Notify,
}

impl Assigned {
    /// A queue that goes on at `next`.
    pub(crate) fn new(queue: MessageQueue, next: i64) -> Arc<Self> {
        Arc::new(Self {
            queue,
            progress: Mutex::new(Progress::new(next)),
            committed: AtomicI64::new(-1),
            dropped: AtomicBool::new(false),
            at_end: AtomicBool::new(false),
            room: Notify::new(),
        })
    }

    /// Messages were pulled and will be handed out; the next pull is at `next`.
    pub(crate) fn pulled(&self, offsets: impl Iterator<Item = i64>, next: i64) {
        let mut progress = self.progress();
        for offset in offsets {
            progress.started(offset);
        }
        progress.pulled_to(next);
    }

    /// The broker says that its queue goes on elsewhere.
    pub(crate) fn moved(&self, next: i64) {
        *self.progress() = Progress::new(next);
    }

    /// A message is done with.
    pub(crate) fn finished(&self, offset: i64) {
        self.progress().finished(offset);
        self.room.notify_one();
    }

    /// Waits until fewer than `bound` messages are unfinished.
    pub(crate) async fn room(&self, bound: usize) {
        while self.progress().open() >= bound {
            self.room.notified().await;
        }
    }

    /// The offset to commit, if the broker does not have it yet.
    pub(crate) fn to_commit(&self) -> Option<i64> {
        let offset = self.progress().committable();
        (offset != self.committed.load(Ordering::Acquire)).then_some(offset)
    }

    /// The broker has this offset.
    pub(crate) fn committed(&self, offset: i64) {
        self.committed.store(offset, Ordering::Release);
    }

    /// It goes to another member.
    pub(crate) fn drop_it(&self) {
        self.dropped.store(true, Ordering::Release);
    }

    /// Whether it went to another member.
    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// Says whether the last pull found nothing more.
    pub(crate) fn set_at_end(&self, at_end: bool) {
        self.at_end.store(at_end, Ordering::Release);
    }

    /// Whether the last pull found nothing more.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at_end.load(Ordering::Acquire)
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
