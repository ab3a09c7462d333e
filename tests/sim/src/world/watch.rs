//! The checkers and what they know.

use crate::{
    ghost::{Ghost, Seen},
    invariants::{self, Invariant, Violation},
    plan::Plan,
};

/// Shows everything to every checker and keeps the first violation.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) ghost: Ghost,
    checkers: Vec<Box<dyn Invariant>>,
    pub(super) violation: Option<Violation>,
    pub(super) now: u64,
}

impl Watch {
    pub(super) fn new(plan: &Plan) -> Self {
        let (ghost, checkers) = (Ghost::new(plan.members), invariants::all(plan.java));
        Self { ghost, checkers, violation: None, now: 0 }
    }

    pub(super) fn see(&mut self, seen: &Seen) {
        if self.violation.is_some() {
            return;
        }
        for checker in &mut self.checkers {
            if let Err(text) = checker.check(&self.ghost, seen) {
                let invariant = checker.name();
                self.violation = Some(Violation { invariant, at: self.now, text });
                return;
            }
        }
        self.ghost.learn(seen);
    }

    /// A property that is judged by the world itself.
    pub(super) fn break_by(&mut self, invariant: &'static str, text: String) {
        let at = self.now;
        self.violation.get_or_insert(Violation { invariant, at, text });
    }
}
