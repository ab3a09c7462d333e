//! What a group with Java brokers among its members asks of this one.

pub(crate) mod java_master;
pub(crate) mod java_slave;
mod limits;
mod merge;

pub(crate) use java_master::JavaMaster;
pub(crate) use java_slave::JavaSlaves;
pub(crate) use limits::{Wanted, limits};
