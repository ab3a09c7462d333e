//! Bytes of Apache RocketMQ in `data/`, and the tests that read and write them.
//!
//! `remoting-frames.jsonl` holds 172 requests with their answers, recorded between the official
//! clients (Java 5.5.0 and 4.9.8, Go, mqadmin) and an Apache 5.5.0 name server and broker. The
//! store files were written by Apache 5.3.3, the DLedger files by DLedger 0.3.1.2; `data/README.md`
//! says what each holds.

#[cfg(test)]
mod bodies;
#[cfg(test)]
mod data;
#[cfg(test)]
mod dledger;
#[cfg(test)]
mod frames;
#[cfg(test)]
mod headers;
#[cfg(test)]
mod store;
