//! The store over a log in memory and a simulated disk.

mod damage;
mod faults;
mod golden;
mod model;
mod reading;
mod retention;
pub(crate) mod rig;
mod tails;
