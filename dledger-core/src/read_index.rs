//! Reads that see all that was committed before they began: a majority confirms that this node still
//! leads, then what is committed is known (section 6.4 of the Raft thesis). No clock is relied on.

use crate::{
    io::{Output, Refusal},
    node::Node,
    types::CallId,
};

impl Node {
    pub(crate) fn read_index(&mut self, call: CallId) {
        let alone = self.config.members.len() == 1;
        let now = self.now;
        let Some(lead) = &mut self.lead else {
            let cause = Refusal::NotLeader { term: self.term, leader: self.leader.clone() };
            self.outputs.push_back(Output::ReadIndex { call, answer: Err(cause) });
            return;
        };
        if lead.reads.len() == READS {
            let entries = READS as u64;
            let cause = Refusal::PendingFull { entries, bytes: 0 };
            self.outputs.push_back(Output::ReadIndex { call, answer: Err(cause) });
            return;
        }
        // A round that is under way may have been answered before the question came.
        let needed = if alone { 0 } else { lead.round + 1 };
        let idle = lead.reads.is_empty();
        lead.reads.push_back((call, needed));
        if idle {
            lead.heartbeat_due = now;
        }
        self.answer_reads();
        self.send_heartbeats();
    }

    /// Answers what a majority has confirmed. Before the opening entry is committed a leader does not
    /// know what is.
    pub(crate) fn answer_reads(&mut self) {
        let quorum = self.quorum();
        let committed = self.ledger.committed();
        let Some(lead) = &mut self.lead else { return };
        if lead.reads.is_empty() || committed < Some(lead.opening.first) {
            return;
        }
        let mut rounds: Vec<u64> = lead.dispatchers.iter().map(|peer| peer.confirmed).collect();
        rounds.sort_unstable_by(|a, b| b.cmp(a));
        let confirmed = match quorum.checked_sub(2) {
            Some(nth) => rounds.get(nth).copied().unwrap_or(0),
            None => u64::MAX,
        };
        while let Some((call, _)) = lead.reads.pop_front_if(|(_, needed)| *needed <= confirmed) {
            self.outputs.push_back(Output::ReadIndex { call, answer: Ok(committed) });
        }
        if lead.reads.front().is_some_and(|(_, needed)| *needed > lead.round) {
            lead.heartbeat_due = self.now;
        }
    }
}

/// Most questions that wait.
pub(crate) const READS: usize = 10_000;
