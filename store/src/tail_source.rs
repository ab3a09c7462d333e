//! Where the log's writer takes the tails from when it is to lead.

use std::sync::Arc;

use crate::{derived::Derived, tails::Tails};

/// The ends of a store's queues, whenever they are asked for: those at the dispatch point, which
/// every member of a group keeps up to date whether it leads or follows.
#[derive(Debug, Clone)]
pub struct TailSource {
    derived: Arc<Derived>,
}

impl TailSource {
    pub(crate) fn new(derived: Arc<Derived>) -> Self {
        Self { derived }
    }

    /// Next offset of each queue at the log position up to which everything is derived, or at
    /// `min`, the first that the log still has, where that lies behind it. The log's writer folds
    /// every record from [`Tails::position`] on before it stamps its first.
    ///
    /// Takes time in proportion to the number of queues, and waits for a batch that is being
    /// dispatched.
    pub fn tails(&self, min: u64) -> Tails {
        let progress = self.derived.progress();
        let dispatched = self.derived.dispatched();
        let mut tails = Tails::new();
        tails.start_at(dispatched.max(min), progress.store_timestamp);
        for queue in self.derived.queues.all() {
            let mut end = queue.state().end;
            // The dispatcher will do the same when it finds the log trimmed: the first record that
            // is left decides where such a queue goes on.
            if dispatched < min && end.seen <= min {
                end.anchored = false;
            }
            tails.set(queue.topic(), queue.id(), end);
        }
        tails
    }
}
