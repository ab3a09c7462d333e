//! What answers each request, by subject.

pub(crate) mod config;
pub(crate) mod pull;
pub(crate) mod send;
pub(crate) mod send_back;
pub(crate) mod topics;
