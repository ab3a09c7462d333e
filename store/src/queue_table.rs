//! All consume queues of a store.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use dashmap::DashMap;

use crate::consume_queue::ConsumeQueue;

/// Finds a queue by topic and id without copying either.
#[derive(Debug, Default)]
pub(crate) struct QueueTable {
    topics: DashMap<Arc<str>, Topic>,
    serial: AtomicUsize,
}

type Topic = Arc<RwLock<BTreeMap<u32, Arc<ConsumeQueue>>>>;

impl QueueTable {
    pub(crate) fn find(&self, topic: &str, id: u32) -> Option<Arc<ConsumeQueue>> {
        let queues = self.topics.get(topic)?;
        let queues = queues.read().unwrap_or_else(PoisonError::into_inner);
        queues.get(&id).cloned()
    }

    /// The queue, made by `open` if there is none yet.
    pub(crate) fn find_or_make(&self, topic: &str, id: u32) -> Arc<ConsumeQueue> {
        if let Some(queue) = self.find(topic, id) {
            return queue;
        }
        let name: Arc<str> = Arc::from(topic);
        let queues = Arc::clone(&self.topics.entry(Arc::clone(&name)).or_default());
        let mut queues = queues.write().unwrap_or_else(PoisonError::into_inner);
        let queue = queues.entry(id).or_insert_with(|| {
            let serial = self.serial.fetch_add(1, Ordering::Relaxed);
            Arc::new(ConsumeQueue::new(name, id, serial))
        });
        Arc::clone(queue)
    }

    /// All queues of all topics, in no order of topics.
    pub(crate) fn all(&self) -> Vec<Arc<ConsumeQueue>> {
        let mut all = Vec::new();
        for topic in &self.topics {
            let queues = topic.read().unwrap_or_else(PoisonError::into_inner);
            all.extend(queues.values().cloned());
        }
        all
    }

    /// Each topic with the ids of its queues.
    pub(crate) fn names(&self) -> Vec<(String, Vec<u32>)> {
        let ids = |topic: &Topic| {
            topic.read().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
        };
        self.topics.iter().map(|topic| (topic.key().to_string(), ids(topic.value()))).collect()
    }
}
