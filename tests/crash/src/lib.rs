//! Crashes and failing disks, on a simulated one. See docs/testing.md.

pub mod world;
