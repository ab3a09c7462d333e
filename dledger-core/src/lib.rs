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
//! **Where to begin.** [`io`](Input) is the complete vocabulary. `round` and `vote_table` are the two
//! sides of an election, `dispatcher` and `follower` the two sides of replication, `quorum` the
//! commit rule.

#![deny(missing_docs)]
#![warn(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    clippy::wildcard_enum_match_arm
)]

mod candidate;
mod codes;
mod config;
mod cutting;
mod dispatcher;
mod follower;
mod hard_writes;
mod health;
mod heartbeat;
mod io;
mod leader;
mod ledger;
mod loads;
mod message;
mod node;
mod peers;
mod provisional;
mod quorum;
mod read_index;
mod record;
mod rng;
mod round;
mod search;
mod standing;
mod terms;
mod transfer;
mod types;
mod vote_table;

pub use codes::{HeartbeatCode, PushCode, TransferCode, VoteAnswer};
#[cfg(feature = "planted")]
pub use config::{Bug, Planted};
pub use config::{Config, ConfigError, State, Timings};
pub use io::{Append, Input, Output, Refusal};
pub use leader::Progress;
pub use loads::Load;
pub use message::{
    Fetch, FetchReply, Heartbeat, HeartbeatReply, Lost, Message, Push, PushKind, PushName,
    PushReply, Range, TransferReply, TransferRequest, VoteReply, VoteRequest,
};
pub use node::Node;
pub use record::{Event, Record, StepDown, Violation};
pub use round::ParseResult;
pub use types::{
    CallId, Capability, EntryId, Life, LogIndex, Millis, NodeId, PeerKind, Policy, Provisional,
    Role, Term, Vote,
};
