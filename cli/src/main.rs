//! The `ledgermq` binary.
fn main() {}
