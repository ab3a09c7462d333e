//! The commit rule (Java: `DLedgerEntryPusher.QuorumAckChecker`).

use crate::{config::planted, io::Output, node::Node, record::Violation, types::LogIndex};

impl Node {
    /// An entry is committed once a majority keeps it and it is of the leader's own term; with it
    /// goes everything before it. (Java counts entries of older terms, too, and can so lose one that
    /// it acknowledged.)
    pub(crate) fn advance_commit(&mut self) {
        let Some(lead) = &self.lead else { return };
        let mut marks: [Option<LogIndex>; MEMBERS] = [None; MEMBERS];
        let own = self.ledger.kept(self.config.policy);
        let others = lead
            .dispatchers
            .iter()
            .map(|peer| peer.vouched(self.peers.is_java(&peer.peer), &self.config));
        let mut count = 0;
        for (slot, mark) in marks.iter_mut().zip(std::iter::once(own).chain(others)) {
            *slot = mark;
            count += 1;
        }
        let Some(marks) = marks.get_mut(..count) else { return };
        marks.sort_unstable_by(|a, b| b.cmp(a));
        // A commit may rest on followers alone, but only for what can be read here.
        let reached = marks.get(self.quorum() - 1).copied().flatten().min(self.ledger.written());
        let Some(reached) = reached else { return };
        let of_own_term = reached >= lead.opening.first || planted!(self.config, P3);
        if of_own_term {
            self.commit(reached);
        }
    }

    /// Commits up to `upto`, never beyond the end of the log and never backwards; a leader nothing
    /// that lies before its opening entry.
    pub(crate) fn commit(&mut self, upto: LogIndex) {
        if self.ledger.committed() >= Some(upto) {
            return;
        }
        let opening = self.opening().filter(|opening| upto < *opening);
        if let Some(opening) = opening.filter(|_| !planted!(self.config, P3)) {
            return self.stop(Violation::BeforeOpening { term: self.term, upto, opening });
        }
        if !self.ledger.commit(upto) {
            let (committed, last) = (Some(upto), self.ledger.last());
            return self.stop(Violation::Commit { committed, last });
        }
        if let Some(lead) = &mut self.lead {
            lead.note_committed(upto);
        }
        self.outputs.push_back(Output::Committed { upto });
        self.answer_reads();
    }
}

/// Most members of a group.
pub(crate) const MEMBERS: usize = 15;
