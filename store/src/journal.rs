//! The journal: what fails over beside messages, as records of the same log.
//!
//! Topics, groups, consumer offsets and the progress of delayed messages are kept in tables that
//! follow from the records of one system topic, in log order, on every node alike. This module is
//! pure: bytes and positions go in, tables come out. Who writes records, and who reads them from
//! where, is the broker's business.
//!
//! A snapshot lets a node start whose log no longer begins at its first record: a begin, parts and
//! an end. It describes the state at its begin; changes between begin and end apply on top. Without
//! its end it is ignored.

mod files;
mod folder;
mod mark;
mod merge;
mod record;
mod replay;
mod snapshot;
mod tables;
#[cfg(test)]
mod tests;

pub use folder::{Folder, Loaded, OpenJournalError, Recovered, Source};
pub use mark::{FileMark, Mark, MarkError, RecordMark};
pub use record::{Change, DecodeError, PART_BYTES, QueueRange, Record, VERSION, changes, decode};
pub use replay::{Applied, Replay, ReplayError, SnapshotPlace};
pub use snapshot::records as snapshot_records;
pub use tables::{Kind, Tables, Touched, Versions};

/// The system topic that holds the journal. No client reads or writes it.
pub const TOPIC: &str = "rmq_sys_LEDGERMQ_JOURNAL";
