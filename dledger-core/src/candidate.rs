//! Looking for votes (Java: `DLedgerLeaderElector.maintainAsCandidate`).

use crate::{
    codes::VoteAnswer,
    config::planted,
    message::{Message, VoteReply, VoteRequest},
    node::Node,
    record::{Event, StepDown},
    round::{Ballot, Electorate, ParseResult, Pause, Purpose, Round},
    types::{EntryId, Millis, NodeId, Provisional, Role, Term, Vote},
};

impl Node {
    /// Leads and follows no more. The next round of votes begins at `next_time`.
    pub(crate) fn become_candidate(
        &mut self,
        cause: StepDown,
        result: ParseResult,
        next_time: Millis,
    ) {
        let was = (self.role, self.leader.clone());
        if self.role != Role::Candidate {
            self.record(Event::SteppedDown { cause });
        }
        self.role = Role::Candidate;
        self.leader = None;
        self.rounds.end(result, next_time);
        self.stop_leading();
        self.stop_following();
        if was != (self.role, None) || matches!(cause, StepDown::LargerTerm(_)) {
            self.announce();
        }
    }

    /// Goes to a larger term, in which this node has not voted.
    pub(crate) fn adopt_term(&mut self, term: Term) {
        if term <= self.term {
            return;
        }
        self.term = term;
        self.vote = Vote::None;
        self.hard_writes.changed = true;
        self.taking_failed();
        let next_time = self.now.after(self.pause());
        self.become_candidate(StepDown::LargerTerm(term), ParseResult::WaitToVoteNext, next_time);
    }

    pub(crate) fn candidate_tick(&mut self) {
        if let Some(round) = &self.rounds.running {
            if round.deadline.is_some_and(|deadline| deadline <= self.now) {
                self.conclude();
            }
            return;
        }
        let Some(next_time) = self.rounds.next_time else {
            self.rounds.next_time = Some(self.now.after(self.first_pause()));
            return self.candidate_tick();
        };
        if self.now < next_time {
            return;
        }
        if self.may_stand() {
            self.begin_round(false);
        } else {
            self.rounds.next_time = Some(self.now.after(self.pause().max(1)));
        }
    }

    /// Members of a group that start together shall not ask together. Beside Java members a node
    /// that comes back listens for a leader first, as it has no other way not to disturb it.
    fn first_pause(&mut self) -> u64 {
        if self.config.members.len() == 1 {
            0
        } else if self.peers.java_dialect() {
            self.timings().heartbeat + self.pause()
        } else {
            self.rng.between(0, self.config.timings.vote_max)
        }
    }

    /// Begins a round. The term is raised only once a majority has said that it would vote for this
    /// node, or where the leader asked for it. A Java member cannot be asked that, but tells in this
    /// term that it follows a leader or has a longer log. Java refuses a larger term with a shorter log
    /// without going to it: whoever raises its term beside a leader that lives stays outside for ever.
    pub(crate) fn begin_round(&mut self, transfer: bool) {
        let next_term = self.rounds.last_result == ParseResult::WaitToVoteNext
            || !matches!(&self.vote, Vote::None) && self.vote != Vote::For(self.self_id());
        let asks = !(self.peers.java_dialect() && planted!(self.config, P31));
        if !next_term || transfer || self.config.members.len() == 1 || !asks {
            let purpose = if transfer { Purpose::TakeOver } else { Purpose::Lead };
            return self.begin_vote(next_term, purpose);
        }
        let round = if self.peers.java_dialect() {
            Round::new(self.term, Purpose::Sounding)
        } else {
            Round::new(self.term.next(), Purpose::PreVote)
        };
        self.rounds.running = Some(round);
        self.note_own_ballot();
        self.ask_votes();
    }

    /// Votes for itself; the others are asked once that is durable.
    fn begin_vote(&mut self, next_term: bool, purpose: Purpose) {
        if next_term {
            self.term = self.term.next();
            self.vote = Vote::None;
            self.hard_writes.changed = true;
        }
        if !self.give_vote(self.self_id()) {
            return;
        }
        self.rounds.last_result = ParseResult::WaitToRevote;
        self.rounds.running = Some(Round::new(self.term, purpose));
        if next_term {
            self.announce();
        }
        self.ask_if_settled();
    }

    /// Asks for votes once this node's own is durable.
    pub(crate) fn ask_if_settled(&mut self) {
        let waits = self
            .rounds
            .running
            .as_ref()
            .is_some_and(|round| round.deadline.is_none() && round.term == self.term);
        let may = self.hard_writes.settled() || planted!(self.config, P1);
        if waits && may && self.role == Role::Candidate {
            self.note_own_ballot();
            self.ask_votes();
        }
    }

    fn note_own_ballot(&mut self) {
        let provisional = self.provisional.is_some() && !planted!(self.config, P20);
        let self_id = self.self_id();
        if let Some(round) = &mut self.rounds.running {
            let answer = match round.purpose {
                Purpose::Lead | Purpose::TakeOver | Purpose::PreVote => VoteAnswer::Accept,
                Purpose::Sounding => VoteAnswer::RejectAlreadyVoted,
            };
            round.answers.insert(self_id, Ballot { answer, provisional });
        }
    }

    fn ask_votes(&mut self) {
        let wait = self.timings().vote_wait + self.pause();
        let deadline = self.now.after(wait);
        let last = self.last_for_votes();
        let Some(round) = &mut self.rounds.running else { return };
        round.deadline = Some(deadline);
        let request = VoteRequest {
            term: round.term,
            last,
            pre_vote: round.purpose == Purpose::PreVote,
            transfer: round.purpose == Purpose::TakeOver,
        };
        // Each round that is lost is told by its answers.
        let counts = matches!(round.purpose, Purpose::Lead | Purpose::TakeOver);
        if self.config.members.len() > 1 && counts {
            self.record(Event::Candidate { pre_vote: request.pre_vote, last });
        }
        let others: Vec<NodeId> = self.peers.ids().cloned().collect();
        for to in others {
            self.send(to, None, Message::Vote(request.clone()));
        }
        self.count_votes();
    }

    fn last_for_votes(&self) -> Option<EntryId> {
        let last = self.ledger.last();
        if planted!(self.config, P6) {
            return last.map(|last| EntryId { term: self.term, ..last });
        }
        last
    }

    pub(crate) fn vote_reply(&mut self, from: &NodeId, reply: &VoteReply) {
        if reply.term > self.term && reply.answer != VoteAnswer::Accept {
            self.adopt_term(reply.term);
            return;
        }
        let is_member = self.config.members.contains(from);
        let Some(round) = &mut self.rounds.running else { return };
        let asked = round.deadline.is_some()
            && round.term == reply.request_term
            && (round.purpose == Purpose::PreVote) == reply.pre_vote;
        if !asked || !is_member || *from == self.config.self_id {
            return;
        }
        let ballot = Ballot { answer: reply.answer, provisional: reply.provisional };
        // A Java member that goes to this term first answers the same question twice.
        round.answers.insert(from.clone(), ballot);
        self.count_votes();
    }

    /// A log that came back empty from a crash, or that began anew behind others, is not that of a new
    /// member: two that lost theirs must not lead over a third that kept its own.
    pub(crate) fn electorate(&self) -> Electorate {
        let is_new = matches!(self.provisional, None | Some(Provisional::Empty));
        let empty = is_new && self.ledger.is_new();
        Electorate { members: self.config.members.len(), empty }
    }

    fn count_votes(&mut self) {
        let group = self.electorate();
        let Some(round) = &self.rounds.running else { return };
        let passed = match round.purpose {
            Purpose::Sounding => round.is_clear(group),
            Purpose::Lead | Purpose::TakeOver | Purpose::PreVote => round.is_won(group),
        };
        if !passed {
            // Who takes the lead over fails with its round: it waits for the second answer of those
            // that go to the term now.
            let asks_again = round.purpose == Purpose::Lead && round.is_nearly_won(group);
            if round.is_complete(group) || asks_again {
                self.conclude();
            }
            return;
        }
        let Some(round) = self.rounds.running.take() else { return };
        match round.purpose {
            Purpose::PreVote | Purpose::Sounding => self.begin_vote(true, Purpose::Lead),
            Purpose::Lead | Purpose::TakeOver => {
                self.rounds.end(ParseResult::Passed, self.now);
                self.lead(&round);
            }
        }
    }

    /// The round is over and not won.
    fn conclude(&mut self) {
        let group = self.electorate();
        let needed = self.quorum();
        let Some(round) = self.rounds.running.take() else { return };
        let (result, mut pause) = round.parse(group);
        let next = match (round.purpose, result) {
            (Purpose::Sounding, ParseResult::WaitToVoteNext) => {
                return self.begin_vote(true, Purpose::Lead);
            }
            // The term was not raised yet: it is to be, whatever this round came to.
            (Purpose::PreVote | Purpose::Sounding, _) => ParseResult::WaitToVoteNext,
            (Purpose::Lead | Purpose::TakeOver, _) => result,
        };
        let timings = self.timings();
        if !self.peers.java_dialect() {
            // Who only asks how votes would go disturbs nobody and can ask again soon.
            pause = if pause == Pause::Led { Pause::Usual } else { pause };
        }
        let more = match pause {
            Pause::Usual => 0,
            Pause::Led => timings.election_min,
            Pause::Behind => timings.vote_max,
        };
        let wait = match result {
            ParseResult::RevoteImmediately => 10,
            ParseResult::WaitToRevote | ParseResult::WaitToVoteNext | ParseResult::Passed => {
                self.pause() + more
            }
        };
        let answers = round.answers.iter().map(|(id, ballot)| (id.clone(), ballot.answer));
        let event = Event::RoundLost {
            result: if round.purpose == Purpose::PreVote { next } else { result },
            accepted: round.accepted(),
            needed,
            answers: answers.filter(|(id, _)| *id != self.config.self_id).collect(),
        };
        if self.rounds.is_news(&event, self.now) {
            self.record(event);
        }
        self.rounds.end(next, self.now.after(wait));
        if round.purpose == Purpose::TakeOver {
            self.taking_failed();
        }
    }
}
