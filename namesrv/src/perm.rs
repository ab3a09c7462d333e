//! Bits of a topic's permission (`PermName.java`).

/// Clients may read.
pub(crate) const READ: i32 = 4;
/// Clients may write.
pub(crate) const WRITE: i32 = 2;
