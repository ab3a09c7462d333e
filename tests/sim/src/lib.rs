//! A deterministic simulator of whole groups.
//!
//! A run is drawn from one number: the members run the real [`dledger::Engine`] on a simulated disk,
//! the network, the clocks and the faults are made up here, and one thread takes one happening after
//! another from a heap ordered by virtual time. After each step an observer reads what lies on the
//! disks and shows it to the checkers in [`invariants`].
#![allow(clippy::disallowed_methods, reason = "this is no server: it starts processes")]
#![warn(missing_docs)]

pub mod bare;
pub mod batch;
pub mod ci;
pub mod coverage;
pub mod ghost;
pub mod invariants;
pub mod java;
pub mod member;
pub mod model;
pub mod network;
pub mod plan;
#[cfg(feature = "planted")]
pub mod planted;
pub mod process;
pub mod random;
pub mod schedule;
pub mod shrink;
pub mod trace;
pub mod world;
