//! Runs official clients, tools and brokers, unmodified, against our processes, and the same cases
//! against the Apache broker.
//!
//! Goal: whoever runs RocketMQ today can put LedgerMQ in its place. Method: libraries come from
//! Maven Central, the Go module proxy, PyPI and npm into `target/interop`; the programs in `java/`,
//! `go/`, `python/` and `node/` use them as an application would; every server listens on free ports of 127.0.0.1, lives in a
//! folder of its own, and is ended by its process id. Every wait has an end.
//!
//! The tests are ignored by plain `cargo test`, because they need a JDK, Maven and Go;
//! `cargo xtask ci` runs them. See docs/testing.md.
#![allow(clippy::disallowed_methods, reason = "this is no server: it starts processes")]
#![expect(clippy::print_stdout, reason = "tests report on standard output")]

pub mod answers;
pub mod appender;
pub mod comparison;
pub mod copies;
pub mod folder;
pub mod group;
pub mod ledger;
pub mod libraries;
pub mod log_files;
pub mod mixed;
pub mod node;
pub mod process;
pub mod proxy;
pub mod question;
pub mod records;
pub mod suite;
pub mod toolchain;
pub mod usage;

/// Version of the Apache broker and name server that run beside ours.
pub const APACHE: &str = "5.5.0";

/// Version of the Apache broker that shares store directories with ours.
pub const APACHE_STORE: &str = "5.3.3";

/// Version of the proxy of Apache's.
pub const PROXY: &str = "5.3.3";

/// Version of mqadmin.
pub const TOOLS: &str = "5.3.3";

fn show(output: &str) {
    println!("{output}");
}
