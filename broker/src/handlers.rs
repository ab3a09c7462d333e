//! What answers each request, by subject.

pub(crate) mod admin;
pub(crate) mod assignment;
pub(crate) mod clients;
pub(crate) mod cold_data;
pub(crate) mod config;
pub(crate) mod connections;
pub(crate) mod groups;
pub(crate) mod locks;
pub(crate) mod offsets;
pub(crate) mod pop;
pub(crate) mod pull;
pub(crate) mod query;
pub(crate) mod recall;
pub(crate) mod relay;
pub(crate) mod replicas;
pub(crate) mod reset;
pub(crate) mod runtime;
pub(crate) mod send;
pub(crate) mod send_back;
pub(crate) mod stats;
pub(crate) mod topics;
pub(crate) mod transaction;
