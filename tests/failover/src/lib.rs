//! Servers on a DLedger group under faults, and what their clients saw, checked.
//!
//! [`linearizable`] says whether a history of operations on registers is one that a single copy,
//! used by one client at a time, could have given. [`cluster`] runs the key-value servers of
//! `dledger/examples/kv`, [`load`] is their clients, which record histories, and [`rounds`] kills
//! and pauses members meanwhile.
//!
//! [`queues`] says whether what was sent to queues, what was read there and what each node holds in
//! the end agree. [`brokers`] runs a group of brokers with name servers, [`traffic`] is their
//! clients, [`network`] gives each broker a network that can be cut, [`held`] reads the files of
//! brokers that are stopped, [`alike`] compares the tables of nodes
//! that run, [`foreign`] has official clients as load, [`faults`] is what is done to a group, and
//! [`failovers`] puts them together. [`kinds`] has every kind of message under way at once, by
//! official clients.

#![expect(clippy::disallowed_methods, reason = "a test starts processes and keeps what failed")]

#[path = "../../../dledger/examples/kv/client.rs"]
mod client;

pub mod alike;
pub mod brokers;
pub mod cluster;
pub mod failovers;
pub mod faults;
pub mod figures;
pub mod foreign;
pub mod held;
pub mod history;
pub mod kinds;
pub mod linearizable;
pub mod load;
pub mod network;
pub mod queues;
pub mod rounds;
mod tail;
pub mod traffic;
