//! Strangers: whoever can reach a broker's ports, and what they may cost.
//!
//! Goal: input never panics, memory has bounds, and only the offender's connection suffers. Method:
//! a broker in a temporary folder, hostile requests and hostile peers over real connections, and
//! beside them a client that goes on sending and receiving. Whatever a broker writes must lie in
//! its folder, under names that are names of topics.

#![expect(clippy::expect_used, reason = "a test stops at the first surprise")]

mod caps;
mod claims;
mod config;
mod data;
mod fields;
mod names;
mod peers;
mod rig;
mod unrecorded;
