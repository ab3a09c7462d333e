//! DLedger consensus as a value.
//!
//! A [`Node`] is driven from outside: [`Node::handle`] takes the time and one [`Input`],
//! [`Node::poll_output`] gives what is to be done, in order, and [`Node::poll_timeout`] says when it
//! wants to be woken with [`Input::Tick`]. It reads no clock, draws no random number of its own and
//! does no IO, so a run is repeated by repeating its inputs.
//!
//! **Rule of order.** A vote counts, and is answered, only after [`Input::VoteStored`]; an entry
//! counts for this node only after [`Input::Written`] or [`Input::Flushed`], as the [`Policy`] says.
//!
//! **What is here.** A group of one: self-election, opening entry, commit. Votes from and entries of
//! other members come with more variants of [`Message`]; the inputs and outputs stay.

#![deny(missing_docs)]
#![warn(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    clippy::wildcard_enum_match_arm
)]

mod election;
mod io;
mod marks;
mod node;
mod types;

pub use election::{ParseResult, VoteAnswer, VoteReply, VoteRequest};
pub use io::{Append, Input, Message, Output, Refusal};
pub use node::{Config, ConfigError, Node, State};
pub use types::{EntryId, LogIndex, Millis, NodeId, Policy, Role, Term, Vote};
