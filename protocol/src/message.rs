//! Messages: the stored record, which is also the wire form of a pulled message, batch bodies,
//! properties, ids and flags.

pub mod batch;
pub mod id;
pub mod properties;
pub mod record;
pub mod sys_flag;
pub mod tags;
