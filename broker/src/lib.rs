//! The broker: the only composition root of store, log, name-server client and request handlers.
//!
//! [`Broker::start`] opens everything and gives a [`RunningBroker`]. A request goes from its
//! connection through the route table (`routes.rs`) to a handler, which answers now, on commit, or
//! when what it waits for has come.

mod broker;
mod call;
mod clock;
pub mod config;
mod consumers;
mod delay;
mod dispatcher;
mod dledger_log;
mod drafts;
mod figures;
mod groups;
mod handlers;
mod hold;
mod housekeeping;
mod lanes;
mod locks;
mod offsets;
mod pending;
mod presence;
mod producers;
mod registration;
mod reply;
mod requests;
mod role;
mod routes;
mod start;
mod stats;
mod topics;

pub use broker::Broker;
pub use figures::Figures;
pub use requests::RequestFigures;
pub use start::{BrokerOptions, RunningBroker, StartError, StopError};
