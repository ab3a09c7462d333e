//! The rule of order for term and vote: what depends on them leaves only once they are durable.

use std::collections::VecDeque;

use crate::{io::Output, types::Term};

/// Most messages that wait for the disk; the oldest go first, and are asked for again.
const HELD: usize = 1024;

/// Term and vote on their way to the disk, and the messages that wait for them.
#[derive(Debug, Default)]
pub(crate) struct HardWrites {
    /// They changed since they were last put out.
    pub(crate) changed: bool,
    outstanding: VecDeque<Term>,
    begun: u64,
    done: u64,
    held: VecDeque<(u64, Output)>,
}

impl HardWrites {
    /// Puts a message out, or keeps it until all that changed is durable.
    pub(crate) fn pass(&mut self, message: Output, outputs: &mut VecDeque<Output>) {
        let needed = self.begun + u64::from(self.changed);
        if needed == self.done {
            outputs.push_back(message);
            return;
        }
        if self.held.len() == HELD {
            self.held.pop_front();
        }
        self.held.push_back((needed, message));
    }

    pub(crate) fn begin(&mut self, term: Term) {
        self.changed = false;
        self.begun += 1;
        self.outstanding.push_back(term);
    }

    /// One write is durable. `false` where none of this term was the next.
    pub(crate) fn end(&mut self, term: Term, outputs: &mut VecDeque<Output>) -> bool {
        if self.outstanding.pop_front_if(|oldest| *oldest == term).is_none() {
            return false;
        }
        self.done += 1;
        let done = self.done;
        while let Some((_, message)) = self.held.pop_front_if(|(needed, _)| *needed <= done) {
            outputs.push_back(message);
        }
        true
    }

    /// Whether all that was decided is durable.
    pub(crate) fn settled(&self) -> bool {
        !self.changed && self.begun == self.done
    }
}
