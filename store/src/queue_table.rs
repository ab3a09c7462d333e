//! All consume queues of a store.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use dashmap::DashMap;
use protocol::name::LMQ_PREFIX;

use crate::{
    consume_queue::ConsumeQueue, handles::Handles, options::StoreOptions, unit::UNIT_BYTES,
    unit_files::UnitFiles,
};

/// Files of queues that are open at once.
const OPEN_FILES: usize = 256;

/// Finds a queue by topic and id without copying either.
#[derive(Debug)]
pub(crate) struct QueueTable {
    topics: DashMap<Arc<str>, Topic>,
    serial: AtomicUsize,
    light: AtomicUsize,
    directory: PathBuf,
    per_file: u64,
    handles: Arc<Handles>,
}

type Topic = Arc<RwLock<BTreeMap<u32, Arc<ConsumeQueue>>>>;

impl QueueTable {
    pub(crate) fn new(options: &StoreOptions) -> Self {
        Self {
            topics: DashMap::new(),
            serial: AtomicUsize::new(0),
            light: AtomicUsize::new(0),
            directory: options.root.join("consumequeue"),
            per_file: options.consume_queue_file_size.div_ceil(UNIT_BYTES).max(1),
            handles: Arc::new(Handles::new(Arc::clone(&options.vfs), OPEN_FILES)),
        }
    }

    /// The folder of all queues.
    pub(crate) fn directory(&self) -> &PathBuf {
        &self.directory
    }

    pub(crate) fn find(&self, topic: &str, id: u32) -> Option<Arc<ConsumeQueue>> {
        let queues = self.topics.get(topic)?;
        let queues = queues.read().unwrap_or_else(PoisonError::into_inner);
        queues.get(&id).cloned()
    }

    /// The queue, an empty one if there was none.
    pub(crate) fn find_or_make(&self, topic: &str, id: u32) -> Arc<ConsumeQueue> {
        if let Some(queue) = self.find(topic, id) {
            return queue;
        }
        let known = self.topics.get(topic).map(|topic| Arc::clone(topic.key()));
        let name = known.unwrap_or_else(|| Arc::from(topic));
        let queues = Arc::clone(&self.topics.entry(Arc::clone(&name)).or_default());
        let mut queues = queues.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(queues.entry(id).or_insert_with(|| Arc::new(self.make(name, id))))
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

    /// The queues of one topic.
    pub(crate) fn of(&self, topic: &str) -> Vec<Arc<ConsumeQueue>> {
        let Some(queues) = self.topics.get(topic) else { return Vec::new() };
        let queues = queues.read().unwrap_or_else(PoisonError::into_inner);
        queues.values().cloned().collect()
    }

    /// Light queues that were ever there since the start.
    pub(crate) fn light(&self) -> usize {
        self.light.load(Ordering::Relaxed)
    }

    /// Each topic with the ids of its queues, but for topics that were deleted.
    pub(crate) fn names(&self) -> Vec<(String, Vec<u32>)> {
        let mut names = Vec::new();
        for topic in &self.topics {
            let queues = topic.read().unwrap_or_else(PoisonError::into_inner);
            let kept = queues.values().filter(|queue| !queue.state().is_deleted());
            let ids: Vec<_> = kept.map(|queue| queue.id()).collect();
            if !ids.is_empty() {
                names.push((topic.key().to_string(), ids));
            }
        }
        names
    }

    fn make(&self, topic: Arc<str>, id: u32) -> ConsumeQueue {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        if topic.starts_with(LMQ_PREFIX) {
            self.light.fetch_add(1, Ordering::Relaxed);
        }
        let directory = self.directory.join(topic.as_ref()).join(id.to_string());
        let handles = Arc::clone(&self.handles);
        let files = UnitFiles::fresh(directory, serial, self.per_file, handles);
        ConsumeQueue::new(topic, id, serial, files)
    }
}
