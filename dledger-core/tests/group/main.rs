//! Groups of nodes that speak by hand: every message is passed on by the test, every write to a disk
//! is done by it. The expected text of a transcript is the whole conversation.
//!
//! `elections`, `replication` and `transfer` have a test for each rule and each deviation from Java;
//! the faults that users of DLedger met are named where they are shown.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "small numbers")]

mod elections;
mod harness;
#[cfg(feature = "planted")]
mod planted;
mod replication;
mod storm;
mod telling;
mod transfer;
