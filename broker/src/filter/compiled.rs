//! Expressions that were read, and those of the groups that are online.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use protocol::message::{properties, record::RecordView};

use super::{
    FilterError,
    evaluate::{Message, Node},
    parse,
};

/// `ExpressionType.SQL92`.
const SQL92: &str = "SQL92";
/// Bytes of all expressions that are kept at a time; beyond it all are dropped and read again when
/// they are used.
const KEPT_BYTES: usize = 4 << 20;
/// What an expression is kept with, about.
const ENTRY_BYTES: usize = 256;
/// An expression with more parts than this is asked on a thread that may take its time.
const CHEAP_PARTS: usize = 32;

/// An expression that was read.
#[derive(Debug, PartialEq)]
pub(crate) struct Compiled {
    root: Node,
    /// Names of its properties, in the order of their places.
    names: Vec<String>,
    places: HashMap<String, usize>,
    cheap: bool,
}

/// Whether a filter is one of tags (`ExpressionType.isTagType`).
pub(crate) fn is_tags(kind: Option<&str>) -> bool {
    matches!(kind, None | Some("" | "TAG"))
}

impl Compiled {
    /// Reads an expression of a type that is not that of tags.
    pub(crate) fn of(kind: &str, text: &str) -> Result<Self, FilterError> {
        if kind != SQL92 {
            return Err(FilterError::Type(kind.chars().take(40).collect()));
        }
        let (root, names) = parse::parse(text)?;
        let places = names.iter().enumerate().map(|(place, name)| (name.clone(), place)).collect();
        let cheap = text.len() <= CHEAP_PARTS * 8;
        Ok(Self { root, names, places, cheap })
    }

    /// Whether asking it takes hardly any time.
    pub(crate) fn is_cheap(&self) -> bool {
        self.cheap
    }

    /// Whether the message of a record passes. What is no record does not.
    pub(crate) fn passes_record(&self, record: &[u8]) -> bool {
        let Ok(view) = RecordView::parse(record) else { return false };
        self.passes(&view.properties())
    }

    /// Whether a message with these properties, in their text form, passes.
    pub(crate) fn passes(&self, text: &str) -> bool {
        let mut values = vec![None; self.names.len()];
        for (name, value) in properties::pairs(text) {
            if let Some(slot) = self.places.get(name).and_then(|place| values.get_mut(*place)) {
                *slot = Some(value);
            }
        }
        Message::new(&values).passes(&self.root)
    }
}

/// Expressions of consumers, by group and topic, as they were last used (`ConsumerFilterManager.java`).
///
/// They follow from the subscriptions that heartbeats bring to every broker, so that none is kept on
/// disk and a new master has them.
#[derive(Debug, Default)]
pub(crate) struct Filters {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_name: HashMap<(String, String), Entry>,
    bytes: usize,
}

#[derive(Debug, Clone)]
struct Entry {
    kind: String,
    text: String,
    version: i64,
    filter: Arc<Compiled>,
}

/// The expression of a group for a topic.
#[derive(Debug)]
pub(crate) enum Found {
    /// It can be used.
    Filter(Arc<Compiled>),
    /// It cannot be read, and an older one could.
    Outdated(FilterError),
    /// It cannot be read.
    Missing(FilterError),
}

impl Filters {
    /// The expression that a group subscribed a topic with.
    pub(crate) fn find(
        &self,
        (group, topic): (&str, &str),
        (kind, text, version): (&str, &str, i64),
    ) -> Found {
        let key = (group.to_owned(), topic.to_owned());
        let known = self.kept().by_name.get(&key).cloned();
        if let Some(known) = &known
            && (known.text == text && known.kind == kind)
        {
            return Found::Filter(Arc::clone(&known.filter));
        }
        match Compiled::of(kind, text) {
            Ok(filter) => {
                let filter = Arc::new(filter);
                let (kind, text) = (kind.to_owned(), text.to_owned());
                self.keep(key, Entry { kind, text, version, filter: Arc::clone(&filter) });
                Found::Filter(filter)
            }
            Err(error) if known.as_ref().is_some_and(|known| known.version < version) => {
                Found::Outdated(error)
            }
            Err(error) => Found::Missing(error),
        }
    }

    fn keep(&self, key: (String, String), entry: Entry) {
        let bytes = |key: &(String, String), entry: &Entry| {
            ENTRY_BYTES + key.0.len() + key.1.len() + 8 * entry.text.len()
        };
        let mut kept = self.kept();
        let added = bytes(&key, &entry);
        if kept.bytes + added > KEPT_BYTES {
            *kept = Kept::default();
        }
        kept.bytes += added;
        if let Some(former) = kept.by_name.insert(key.clone(), entry) {
            kept.bytes = kept.bytes.saturating_sub(bytes(&key, &former));
        }
    }

    /// Bytes that are kept.
    #[cfg(test)]
    pub(super) fn kept_bytes(&self) -> usize {
        self.kept().bytes
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
