//! Every kind of message at once, by official clients, while the master is killed.
//!
//! [`session`] runs a group of brokers and the program of a client (`tests/interop/java/Kinds.java`,
//! `GrpcKinds.java`), which keeps a ledger of all that it sent and got; `ledger` reads it, and
//! [`check()`] knows the rules B-1 to B-3, B-6, B-9 to B-12 and the bound on what comes again, B-17.

mod check;
mod ledger;
pub mod session;
#[cfg(test)]
mod tests;

pub use check::{Findings, Rule, Violation, check, missing};
pub use ledger::{Acked, Fate, Got, Key, Kind, Ledger, NotAnEvent, Outcome, Place, Sent};
