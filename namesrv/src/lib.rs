//! The name server: which topic is on which brokers, and which brokers live.
//!
//! Name servers know nothing of each other. Brokers register at all of them and register again
//! every 30 s; clients ask any of them. The route table is a pure value ([`route_table`]), the
//! requests are one table (`requests.rs`), and only `server.rs` knows sockets and clocks.
//!
//! Deliberately absent: the controller that Java can run within its name server (its codes are
//! answered as unsupported), and notices of a changed smallest broker id.

mod config;
mod core;
mod kv;
mod perm;
mod requests;
pub mod route_table;
mod server;
mod zone;

pub use config::{ConfigError, KeyKind, NamesrvOptions, Settings};
pub use kv::{KvConfig, KvError, Namespace, ORDER_TOPIC_CONFIG};
pub use server::Namesrv;
