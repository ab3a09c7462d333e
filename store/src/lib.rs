//! Messages in a commit log, and everything that is derived from it.

pub mod append_log;
