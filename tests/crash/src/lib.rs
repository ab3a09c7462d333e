//! Crashes and failing disks: simulated ones, and real ext4 on loop devices. See docs/testing.md.
#![allow(clippy::disallowed_methods, reason = "this is no server: it starts processes")]

pub mod acknowledged;
pub mod loop_disk;
pub mod node;
pub mod plain;
pub mod traced;
pub mod world;
