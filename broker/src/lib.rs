//! The broker: the only composition root of store, log, name-server client and request handlers.
//!
//! [`Broker::start`] opens everything and gives a [`RunningBroker`]. A request goes from its
//! connection through the route table (`routes.rs`) to a handler, which answers now, on commit, or
//! when what it waits for has come.

mod assignment;
mod audit;
mod broadcast;
mod broker;
mod call;
mod clock;
mod cold_data;
mod compat;
pub mod config;
mod consumers;
mod delay;
mod disk;
mod dispatcher;
mod dledger_log;
mod drafts;
mod figures;
mod filter;
mod forward;
mod group;
mod groups;
mod hand_over;
mod handlers;
mod held_requests;
mod hold;
mod housekeeping;
mod journal;
mod keeping;
mod lanes;
mod locks;
mod native_front;
mod network;
mod offline;
mod offsets;
mod operator;
mod pending;
mod pop;
mod presence;
mod priority;
mod produced;
mod producers;
mod protocol_status;
mod quota;
mod registration;
mod reply;
mod requests;
mod reserve;
mod role;
mod routes;
mod start;
mod stats;
mod switch;
mod timer;
mod topic_queues;
mod topics;
mod transaction;
mod waiting;

pub use broker::Broker;
pub use figures::Figures;
pub use group::Group;
pub use offline::{
    Conversion, ConvertError, LostTopic, NativeOffline, Offline, OfflineError, Progress,
    StoreSurvey,
};
pub use protocol_status::protocol_status;
pub use requests::RequestFigures;
pub use start::{BrokerOptions, RunningBroker, StartError, StopError};
