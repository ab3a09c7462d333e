//! What clients sent to queues, what they and the nodes read there, and whether the two agree.
//!
//! A [`History`] holds every attempt to send with its outcome, everything that was read meanwhile,
//! and all that each node holds at the end. [`check()`] knows the rules B-1 to B-8 and the bound on
//! duplicates, B-17: see [`Rule`]. It takes time in proportion to the history.

mod check;
mod text;

use std::fmt;

pub use check::{Findings, Rule, Violation, check};
pub use text::{NotAnEvent, parse};

/// A queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Queue {
    /// Its topic.
    pub topic: String,
    /// Its number in the topic.
    pub id: i32,
}

/// From when until when something was asked, on a clock that all clients share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// When it was asked for.
    pub from: u64,
    /// When the answer was there, or was no longer waited for.
    pub to: u64,
}

/// What a sender was told of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is stored at this offset of the queue.
    At(i64),
    /// It is not stored and never will be.
    Refused,
    /// Nothing: it may be stored, may be stored yet, or never.
    Unknown,
    /// It is kept, and will be in the queue later, at an offset that nobody knows yet: a delayed
    /// message.
    Later,
}

/// One attempt to send a message. A repeat is an attempt of its own, with the same key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Who sent it.
    pub sender: String,
    /// The message: no two messages have the same key.
    pub key: String,
    /// Hash of its body and properties.
    pub body: u64,
    /// Where to.
    pub queue: Queue,
    /// When.
    pub span: Span,
    /// What came of it.
    pub outcome: Outcome,
}

/// A message at its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sight {
    /// Its offset in the queue.
    pub offset: i64,
    /// Its key.
    pub key: String,
    /// Hash of its body and properties.
    pub body: u64,
    /// Its place in the commit log, where that is known.
    pub position: Option<u64>,
}

/// A message that was read while the load went on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Who read it.
    pub by: String,
    /// Where.
    pub queue: Queue,
    /// When.
    pub span: Span,
    /// What.
    pub sight: Sight,
}

/// What a reader was told of the ends of a queue. A reader asks one thing at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// Who asked.
    pub by: String,
    /// Of which queue.
    pub queue: Queue,
    /// When.
    pub span: Span,
    /// Offset of the oldest message.
    pub min: i64,
    /// Offset behind the newest message.
    pub max: i64,
}

/// All that a node holds of a queue at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// Which node.
    pub node: String,
    /// Which queue.
    pub queue: Queue,
    /// Offset of the oldest message.
    pub min: i64,
    /// Offset behind the newest message.
    pub max: i64,
    /// All messages in the order of their offsets.
    pub messages: Vec<Sight>,
}

/// A change of a group's offset in a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Which group.
    pub group: String,
    /// In which queue.
    pub queue: Queue,
    /// When.
    pub span: Span,
    /// The new offset.
    pub value: i64,
    /// An operator moved it, perhaps back; else a consumer did, which is never back.
    pub reset: bool,
    /// Whether it was acknowledged; else nothing is known of it.
    pub acknowledged: bool,
}

/// What somebody was told to be a group's offset in a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Who was told, or which node holds it.
    pub by: String,
    /// Which group.
    pub group: String,
    /// In which queue.
    pub queue: Queue,
    /// When.
    pub span: Span,
    /// The offset; `None`: the group has none.
    pub value: Option<i64>,
}

/// All that was done and seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// What was sent.
    pub attempts: Vec<Attempt>,
    /// What was read meanwhile.
    pub seen: Vec<Seen>,
    /// What was told of the ends of queues.
    pub extents: Vec<Extent>,
    /// What nodes hold at the end.
    pub holdings: Vec<Holding>,
    /// Changes of offsets of groups.
    pub commits: Vec<Commit>,
    /// What was told of offsets of groups.
    pub progress: Vec<Progress>,
}

impl History {
    /// Number of attempts that were acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> usize {
        let said = |one: &&Attempt| matches!(one.outcome, Outcome::At(_) | Outcome::Later);
        self.attempts.iter().filter(said).count()
    }

    /// Number of attempts of which nothing is known.
    #[must_use]
    pub fn unknown(&self) -> usize {
        self.attempts.iter().filter(|one| one.outcome == Outcome::Unknown).count()
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.id)
    }
}
