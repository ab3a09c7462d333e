//! What clients ask of tables, and the tables that must come of it: a model that knows nothing of
//! snapshots, files or restarts.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use crate::ghost::Entry;

/// One change that a client asks for. It follows from the number of its submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// A topic is made or changed.
    Topic {
        /// Its name.
        name: String,
        /// What is told of it.
        value: i32,
    },
    /// A topic is deleted.
    DeleteTopic {
        /// Its name.
        name: String,
    },
    /// A group is made or changed.
    Group {
        /// Its name.
        name: String,
        /// What is told of it.
        value: i32,
    },
    /// A group is deleted.
    DeleteGroup {
        /// Its name.
        name: String,
    },
    /// A group goes on at an offset.
    Offset {
        /// Topic and group.
        key: String,
        /// The queue.
        queue: i32,
        /// The offset.
        value: i64,
    },
    /// A level of delayed messages is delivered so far; stands behind a message.
    Delay {
        /// The level.
        level: u32,
        /// The offset.
        value: u64,
    },
}

impl Op {
    /// What submission `token` asks for; `None` where it only sends messages.
    #[must_use]
    pub fn of(token: u64) -> Option<Self> {
        let nth = token / 12;
        let value = i32::try_from(token).unwrap_or(i32::MAX);
        let few = |letter: char, count: u64| format!("{letter}{}", nth % count);
        Some(match token % 12 {
            0..=2 => Self::Offset {
                key: format!("X{}@{}", nth % 2, few('G', 2)),
                queue: i32::try_from(token % 3).unwrap_or(0),
                value: i64::from(value),
            },
            3 | 4 => Self::Topic { name: few('X', 3), value },
            5 if nth.is_multiple_of(3) => Self::DeleteTopic { name: format!("X{}", nth / 3 % 3) },
            6 => Self::Group { name: few('G', 3), value },
            7 if nth.is_multiple_of(2) => Self::DeleteGroup { name: format!("G{}", nth / 2 % 3) },
            8 | 9 => Self::Delay { level: u32::try_from(nth % 2).unwrap_or(0) + 1, value: token },
            _ => return None,
        })
    }

    /// How many entries its submission has.
    fn entries(&self) -> u32 {
        if matches!(self, Self::Delay { .. }) { 2 } else { 1 }
    }
}

/// Tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Model {
    topics: BTreeMap<String, i32>,
    groups: BTreeMap<String, i32>,
    offsets: BTreeMap<(String, i32), i64>,
    delays: BTreeMap<u32, u64>,
    /// Entries of a submission of several so far.
    begun: BTreeMap<u64, u32>,
    /// Submissions that were done.
    done: BTreeSet<u64>,
}

impl Model {
    /// Does what a committed entry of a client's submission asks for.
    pub fn entry(&mut self, entry: &Entry) {
        let Some(op) = Op::of(entry.token).filter(|_| entry.token > 0 && !entry.opening) else {
            return;
        };
        let seen = self.begun.entry(entry.token).or_default();
        *seen += 1;
        if *seen == op.entries() && self.done.insert(entry.token) {
            self.apply(op);
        }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Topic { name, value } => drop(self.topics.insert(name, value)),
            Op::DeleteTopic { name } => {
                self.topics.remove(&name);
                let prefix = format!("{name}@");
                self.offsets.retain(|(key, _), _| !key.starts_with(&prefix));
            }
            Op::Group { name, value } => drop(self.groups.insert(name, value)),
            Op::DeleteGroup { name } => drop(self.groups.remove(&name)),
            Op::Offset { key, queue, value } => drop(self.offsets.insert((key, queue), value)),
            Op::Delay { level, value } => drop(self.delays.insert(level, value)),
        }
    }

    /// The tables as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let lines = (self.topics.iter().map(|(name, value)| format!("topic {name} {value}")))
            .chain(self.groups.iter().map(|(name, value)| format!("group {name} {value}")))
            .chain(
                self.offsets.iter().map(|((key, queue), at)| format!("offset {key} {queue} {at}")),
            )
            .chain(self.delays.iter().map(|(level, at)| format!("delay {level} {at}")));
        for line in lines {
            // A string takes every text.
            writeln!(text, "{line}").ok();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_change_comes_and_the_model_does_it() {
        let mut model = Model::default();
        let entry = |token| Entry { token, ..Entry::default() };
        for token in 1..200 {
            model.entry(&entry(token));
            if matches!(Op::of(token), Some(Op::Delay { .. })) {
                assert!(!model.text().contains(&format!(" {token}\n")), "its record is missing");
                model.entry(&entry(token));
            }
        }
        let text = model.text();
        for kind in ["topic X", "group G", "offset X", "delay 1", "delay 2"] {
            assert!(text.contains(kind), "{kind} is not in {text}");
        }
        let deletes = |op: &Op| matches!(op, Op::DeleteTopic { .. } | Op::DeleteGroup { .. });
        assert!((1..200).filter_map(Op::of).filter(deletes).count() > 10);
    }
}
