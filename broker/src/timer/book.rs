//! What a master knows of its timers.

use std::time::Instant;

use super::{
    agenda::{Agenda, TakenBack},
    position::Position,
};

/// The timers of one term.
#[derive(Debug)]
pub(super) struct Book {
    /// The term: a new one begins where the journal stands.
    pub(super) term: u64,
    /// What is delivered.
    pub(super) position: Position,
    /// What is due next.
    pub(super) agenda: Agenda,
    /// Messages of the second that is being delivered that were taken back.
    pub(super) taken_back: TakenBack,
    /// When the oldest messages are looked at again.
    pub(super) look_at_oldest: Instant,
}

impl Book {
    pub(super) fn new(term: u64, position: Position) -> Self {
        Self {
            term,
            position,
            agenda: Agenda::default(),
            taken_back: TakenBack::default(),
            look_at_oldest: Instant::now(),
        }
    }

    /// How many wait, of those that were looked at.
    pub(super) fn waiting(&self) -> u64 {
        self.agenda.waiting()
    }
}
