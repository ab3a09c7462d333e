//! Transcripts: what a broker answers over a real connection.
//!
//! Goal: codes, texts, header fields and bodies that clients and tools rely on. Method: a broker in
//! a temporary folder on a free port, requests as the official clients write them, answers compared
//! field by field.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

mod admin;
mod assignment;
mod broadcast;
mod clients;
mod config;
mod damaged_files;
mod delay;
mod figures;
mod filter;
mod fixture;
mod group;
mod java_slaves;
mod journal;
mod known_faults;
mod light;
mod long_properties;
mod malformed;
mod members;
mod peer;
mod pop;
mod pop_group;
mod pop_more;
mod priority;
mod pull;
mod reply;
mod resets;
mod send;
mod send_back;
mod timer;
mod topics;
mod transaction;
