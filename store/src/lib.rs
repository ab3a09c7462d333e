//! Messages in a commit log, and everything that is derived from it.

pub mod append_log;
mod batch;
pub mod config_file;
mod consume_queue;
pub mod delay_level;
mod derived;
mod dispatch;
mod get;
mod lookup;
pub mod memory_log;
mod options;
mod placement;
mod queue_table;
mod record;
pub mod retention;
mod store;
pub mod tails;
mod unit;

pub use batch::BatchBuilder;
pub use derived::Counters;
pub use dispatch::{Arrival, ArrivalListener};
pub use get::{GetRequest, GetResult, GetStatus};
pub use lookup::Boundary;
pub use options::{PullLimits, StoreOptions};
pub use store::{OpenError, QueryResult, Store};
pub use tails::Tails;
pub use unit::{UNIT_BYTES, Unit};
