//! Random numbers for servers; simulators bring their own.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
};

/// A number from the system's source of randomness, never 0. (The standard library seeds the keys of
/// its hash maps from there, and no two states share theirs.)
pub(super) fn draw() -> u64 {
    RandomState::new().build_hasher().finish().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ() {
        assert_ne!(draw(), draw());
    }
}
