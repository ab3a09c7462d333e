//! Giving votes (Java: `DLedgerLeaderElector.handleVote`).

use crate::{
    codes::VoteAnswer,
    config::planted,
    message::{Message, VoteReply, VoteRequest},
    node::Node,
    record::{Event, Violation},
    types::{CallId, NodeId, Role, Term, Vote},
};

impl Node {
    /// Answers a request for a vote. What the answer depends on is durable before it leaves.
    pub(crate) fn vote_request(&mut self, from: NodeId, call: CallId, request: &VoteRequest) {
        let answer = self.vote_answer(&from, request);
        if answer == VoteAnswer::Accept && !request.pre_vote {
            if !self.give_vote(from.clone()) {
                return;
            }
            self.hard_writes.changed = true;
            // The candidate gets the time that a leader would get.
            let next_time = self.now.after(self.patience());
            self.rounds.next_time = Some(next_time);
            self.record(Event::VoteGranted { candidate: from.clone() });
        } else if answer != VoteAnswer::Accept && !request.pre_vote {
            self.record(Event::VoteRefused {
                candidate: from.clone(),
                asked: request.term,
                answer,
            });
        }
        let reply = VoteReply {
            term: self.term,
            answer,
            request_term: request.term,
            pre_vote: request.pre_vote,
            provisional: self.provisional.is_some() && !planted!(self.config, P20),
        };
        self.send(from, Some(call), Message::VoteReply(reply));
    }

    /// One vote in a term, whatever led here. `false` where another one was given: the node stops.
    pub(crate) fn give_vote(&mut self, candidate: NodeId) -> bool {
        let vote = Vote::For(candidate.clone());
        if self.vote == vote {
            return true;
        }
        if !matches!(self.vote, Vote::None) {
            let given = self.vote.clone();
            self.stop(Violation::SecondVote { term: self.term, candidate, given });
            return false;
        }
        self.vote = vote;
        self.hard_writes.changed = true;
        true
    }

    /// The rows of the table. Java looks at the log before the term, so that a member with a short
    /// log and a larger term never gets back into the group; here the term comes first.
    fn vote_answer(&mut self, candidate: &NodeId, request: &VoteRequest) -> VoteAnswer {
        if !self.config.members.contains(candidate) {
            return VoteAnswer::RejectUnknownLeader;
        }
        if *candidate == self.config.self_id {
            return VoteAnswer::RejectUnexpectedLeader;
        }
        if planted!(self.config, P10)
            && let Some(refused) = self.log_is_better(request)
        {
            return refused;
        }
        if request.term < self.term {
            return VoteAnswer::RejectExpiredVoteTerm;
        }
        if self.leader_is_alive() && !request.transfer && !self.peers.java_dialect() {
            return VoteAnswer::RejectAlreadyHasLeader;
        }
        if request.term > self.term && !request.pre_vote {
            self.adopt_term(request.term);
        }
        if request.term == self.term
            && let Some(refused) = self.vote_is_given(candidate)
        {
            return refused;
        }
        if let Some(refused) = self.log_is_better(request) {
            return refused;
        }
        // Java checks this; here the term is never below that of the last entry.
        if self.ledger.last().is_some_and(|last| request.term < last.term) {
            return VoteAnswer::RejectTermSmallThanLedger;
        }
        if self.is_taking(request.term) {
            return VoteAnswer::RejectTakingLeadership;
        }
        VoteAnswer::Accept
    }

    /// This node leads, or heard of its leader less than an election timeout ago. A leader without a
    /// majority finds that out by itself.
    fn leader_is_alive(&self) -> bool {
        match self.role {
            Role::Leader => true,
            Role::Follower => {
                self.leader.is_some()
                    && self.now.since(self.leader_heard) < self.timings().election_min
            }
            Role::Candidate => false,
        }
    }

    fn vote_is_given(&self, candidate: &NodeId) -> Option<VoteAnswer> {
        match &self.vote {
            Vote::None => None,
            Vote::For(id) if id == candidate => None,
            Vote::For(_) if self.leader.is_some() => Some(VoteAnswer::RejectAlreadyHasLeader),
            Vote::For(_) | Vote::Unknown => Some(VoteAnswer::RejectAlreadyVoted),
        }
    }

    /// The election restriction, by the term of the last entry. A log that began anew behind others
    /// and has none yet is better than one that is new: it knows that there are entries.
    fn log_is_better(&self, request: &VoteRequest) -> Option<VoteAnswer> {
        let Some(mine) = self.ledger.last() else {
            let is_better = request.last.is_none() && !self.ledger.is_new();
            return is_better.then_some(VoteAnswer::RejectExpiredLedgerTerm);
        };
        match request.last {
            Some(theirs) if theirs >= mine => None,
            Some(theirs) if theirs.term == mine.term => Some(VoteAnswer::RejectSmallLedgerEndIndex),
            Some(_) | None => Some(VoteAnswer::RejectExpiredLedgerTerm),
        }
    }

    fn is_taking(&self, term: Term) -> bool {
        self.taking.as_ref().is_some_and(|taking| taking.started && self.term == term)
            && self.role == Role::Candidate
    }
}
