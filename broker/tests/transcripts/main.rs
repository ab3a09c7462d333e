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

mod clients;
mod config;
mod delay;
mod fixture;
mod known_faults;
mod malformed;
mod pull;
mod send;
mod send_back;
mod topics;
