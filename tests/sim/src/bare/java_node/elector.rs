//! `DLedgerLeaderElector`: votes and heartbeats.

use std::collections::BTreeMap;

use dledger_core::{
    CallId, Heartbeat, HeartbeatCode, HeartbeatReply, Message, NodeId, Output, Role, State, Term,
    Vote, VoteAnswer, VoteReply, VoteRequest,
};

use super::{JavaNode, pusher::Pusher};

/// Who leads, and who shall.
#[derive(Debug)]
pub(super) struct Elector {
    pub(super) term: u64,
    pub(super) vote: Option<NodeId>,
    pub(super) role: Role,
    pub(super) leader: Option<NodeId>,
    known_max: u64,
    raises_at_once: bool,
    raises_next: bool,
    next_vote: u64,
    round: Option<Round>,
    /// When its leader was heard of.
    heard: u64,
    beat: Beat,
}

/// Votes that are asked for.
#[derive(Debug)]
struct Round {
    answers: BTreeMap<NodeId, (VoteAnswer, u64)>,
    deadline: u64,
}

/// Heartbeats of a leader.
#[derive(Debug, Default)]
struct Beat {
    number: u64,
    due: u64,
    answers: BTreeMap<NodeId, (HeartbeatCode, u64)>,
    judged: bool,
    succeeded: u64,
}

impl Elector {
    pub(super) fn new(state: &State) -> Self {
        let vote = match &state.vote {
            Vote::For(id) => Some(id.clone()),
            Vote::None | Vote::Unknown => None,
        };
        Self {
            term: state.term.0,
            vote,
            role: Role::Candidate,
            leader: None,
            known_max: state.term.0,
            raises_at_once: false,
            raises_next: false,
            next_vote: 0,
            round: None,
            heard: 0,
            beat: Beat::default(),
        }
    }

    pub(super) fn due(&self) -> u64 {
        match self.role {
            Role::Leader => self.beat.due,
            Role::Follower => self.heard + LEAK_MILLIS + 1,
            Role::Candidate if self.raises_at_once => 0,
            Role::Candidate => self.round.as_ref().map_or(self.next_vote, |round| round.deadline),
        }
    }
}

impl JavaNode {
    pub(super) fn elect(&mut self) {
        match self.elector.role {
            Role::Leader if self.now >= self.elector.beat.due => {
                self.judge_beat(true);
                if self.elector.role == Role::Leader {
                    self.send_beats();
                }
            }
            Role::Leader => {}
            Role::Follower if self.now > self.elector.heard + LEAK_MILLIS => {
                self.become_candidate(self.elector.term);
                self.candidate_step();
            }
            Role::Follower => {}
            Role::Candidate => self.candidate_step(),
        }
    }

    fn is_quorum(&self, count: usize) -> bool {
        let members = self.others.len() + 1;
        count > members / 2
    }

    fn announce(&mut self) {
        let (role, term) = (self.elector.role, self.term());
        let leader = self.elector.leader.clone();
        self.outputs.push_back(Output::RoleChanged { role, term, leader });
    }

    fn become_candidate(&mut self, known: u64) {
        let elector = &mut self.elector;
        let was = elector.role;
        elector.known_max = elector.known_max.max(known);
        elector.role = Role::Candidate;
        elector.leader = None;
        elector.round = None;
        self.pushers.clear();
        if was != Role::Candidate {
            self.announce();
        }
    }

    fn pause(&mut self) -> u64 {
        self.now + 300 + self.random.below(700)
    }

    fn candidate_step(&mut self) {
        if let Some(round) = &self.elector.round {
            if self.now >= round.deadline && !self.elector.raises_at_once {
                self.end_round();
            }
            if !self.elector.raises_at_once {
                return;
            }
            self.elector.round = None;
        }
        if self.now < self.elector.next_vote && !self.elector.raises_at_once {
            return;
        }
        if self.elector.raises_next || self.elector.raises_at_once {
            self.elector.term = self.elector.known_max.max(self.elector.term + 1);
            self.elector.known_max = self.elector.term;
            self.elector.vote = None;
            self.elector.raises_next = false;
            self.store();
            self.announce();
        }
        if self.elector.raises_at_once {
            self.elector.raises_at_once = false;
            self.elector.next_vote = self.pause();
            return;
        }
        self.begin_round();
    }

    fn begin_round(&mut self) {
        let own = match &self.elector.vote {
            Some(other) if *other != self.id => VoteAnswer::RejectAlreadyVoted,
            Some(_) => VoteAnswer::Accept,
            None => {
                self.elector.vote = Some(self.id.clone());
                self.store();
                VoteAnswer::Accept
            }
        };
        let deadline = self.now + 2000 + self.random.below(1000);
        let answers = BTreeMap::from([(self.id.clone(), (own, self.elector.term))]);
        self.elector.round = Some(Round { answers, deadline });
        let request = VoteRequest {
            term: self.term(),
            last: self.log.last(),
            pre_vote: false,
            transfer: false,
        };
        for to in self.others.clone() {
            self.say(to, None, Message::Vote(request.clone()));
        }
    }

    pub(super) fn vote_reply(&mut self, from: &NodeId, reply: &VoteReply) {
        if reply.request_term != self.term() {
            return;
        }
        let members = self.others.len() + 1;
        let Some(round) = &mut self.elector.round else { return };
        round.answers.insert(from.clone(), (reply.answer, reply.term.0));
        let count = |answers: &[VoteAnswer]| {
            round.answers.values().filter(|(answer, _)| answers.contains(answer)).count()
        };
        let done = count(&[VoteAnswer::RejectAlreadyHasLeader]) > 0
            || count(&[VoteAnswer::Accept, VoteAnswer::RejectTermNotReady]) > members / 2
            || round.answers.len() == members;
        if done {
            self.end_round();
        }
    }

    fn end_round(&mut self) {
        let Some(round) = self.elector.round.take() else { return };
        let count = |answers: &[VoteAnswer]| {
            round.answers.values().filter(|(answer, _)| answers.contains(answer)).count()
        };
        let beyond = round.answers.values().filter(|(answer, _)| {
            matches!(
                answer,
                VoteAnswer::RejectExpiredVoteTerm | VoteAnswer::RejectTermSmallThanLedger
            )
        });
        let max_term = beyond.map(|(_, term)| *term).max().unwrap_or(0);
        let accepted = count(&[VoteAnswer::Accept]);
        let not_ready = count(&[VoteAnswer::RejectTermNotReady]);
        let bigger =
            count(&[VoteAnswer::RejectExpiredLedgerTerm, VoteAnswer::RejectSmallLedgerEndIndex]);
        let pause = self.pause();
        let (raises, next) = if max_term > self.elector.term {
            self.become_candidate(max_term);
            (true, pause)
        } else if count(&[VoteAnswer::RejectAlreadyHasLeader]) > 0 {
            (false, pause + LEAK_MILLIS)
        } else if !self.is_quorum(round.answers.len()) {
            (false, pause)
        } else if !self.is_quorum(round.answers.len() - bigger) {
            (false, pause + 1000)
        } else if self.is_quorum(accepted) {
            return self.become_leader();
        } else if self.is_quorum(accepted + not_ready) {
            (false, self.now + 10)
        } else {
            (true, pause)
        };
        (self.elector.raises_next, self.elector.next_vote) = (raises, next);
    }

    fn become_leader(&mut self) {
        self.elector.role = Role::Leader;
        self.elector.leader = Some(self.id.clone());
        self.elector.beat = Beat { succeeded: self.now, ..Beat::default() };
        self.pushers = self.others.iter().cloned().map(Pusher::new).collect();
        self.announce();
        self.send_beats();
    }

    /// The rows of the table, in Java's order.
    pub(super) fn vote_request(&mut self, from: NodeId, call: CallId, request: &VoteRequest) {
        let asked = request.term.0;
        let (mine, term) = (self.log.last(), self.elector.term);
        let behind = mine.filter(|mine| request.last < Some(*mine));
        let answer = if let Some(mine) = behind {
            if request.last.is_some_and(|last| last.term == mine.term) {
                VoteAnswer::RejectSmallLedgerEndIndex
            } else {
                VoteAnswer::RejectExpiredLedgerTerm
            }
        } else if asked < term {
            VoteAnswer::RejectExpiredVoteTerm
        } else if asked > term {
            self.become_candidate(asked);
            self.elector.raises_at_once = true;
            VoteAnswer::RejectTermNotReady
        } else if self.elector.vote.as_ref().is_some_and(|vote| *vote != from) {
            if self.elector.leader.is_some() {
                VoteAnswer::RejectAlreadyHasLeader
            } else {
                VoteAnswer::RejectAlreadyVoted
            }
        } else if mine.is_some_and(|mine| asked < mine.term.0) {
            VoteAnswer::RejectTermSmallThanLedger
        } else {
            if self.elector.vote.is_none() {
                self.elector.vote = Some(from.clone());
                self.store();
            }
            VoteAnswer::Accept
        };
        let (term, request_term) = (Term(term), request.term);
        let reply = VoteReply { term, answer, request_term, pre_vote: false, provisional: false };
        self.say(from, Some(call), Message::VoteReply(reply));
    }

    pub(super) fn heartbeat(&mut self, from: NodeId, call: CallId, beat: Heartbeat) {
        let (asked, term) = (beat.term.0, self.elector.term);
        let mut told = None;
        let code = if asked < term {
            told = Some(Term(term));
            HeartbeatCode::ExpiredTerm
        } else if asked > term {
            self.become_candidate(asked);
            self.elector.raises_at_once = true;
            HeartbeatCode::TermNotReady
        } else {
            match &self.elector.leader {
                Some(leader) if *leader == from => {
                    self.elector.heard = self.now;
                    HeartbeatCode::Success
                }
                Some(_) => HeartbeatCode::InconsistentLeader,
                None => {
                    self.follow(from.clone());
                    HeartbeatCode::Success
                }
            }
        };
        let reply = HeartbeatReply {
            term: told,
            code,
            request_term: beat.term,
            round: beat.round,
            healthy: true,
            roomy: true,
        };
        self.say(from, Some(call), Message::HeartbeatReply(reply));
    }

    fn follow(&mut self, leader: NodeId) {
        self.elector.role = Role::Follower;
        self.elector.leader = Some(leader);
        self.elector.round = None;
        self.elector.raises_next = false;
        self.elector.heard = self.now;
        self.announce();
    }

    fn send_beats(&mut self) {
        let beat = &mut self.elector.beat;
        beat.number += 1;
        beat.due = self.now + BEAT_MILLIS;
        beat.answers.clear();
        beat.judged = false;
        let message = Heartbeat { term: Term(self.elector.term), round: beat.number };
        for to in self.others.clone() {
            self.say(to, None, Message::Heartbeat(message));
        }
    }

    pub(super) fn heartbeat_reply(&mut self, from: &NodeId, reply: &HeartbeatReply) {
        let leads = self.elector.role == Role::Leader && reply.request_term == self.term();
        if !leads || reply.round != self.elector.beat.number {
            return;
        }
        let term = reply.term.map_or(0, |term| term.0);
        self.elector.beat.answers.insert(from.clone(), (reply.code, term));
        self.judge_beat(false);
    }

    /// What a round of heartbeats came to: once it is clear, or at its end.
    fn judge_beat(&mut self, ended: bool) {
        let beat = &self.elector.beat;
        if beat.judged {
            return;
        }
        let count = |code: HeartbeatCode| {
            beat.answers.values().filter(|(answer, _)| *answer == code).count()
        };
        let succeeded = 1 + count(HeartbeatCode::Success);
        let not_ready = count(HeartbeatCode::TermNotReady);
        let all = beat.answers.len() == self.others.len();
        let clear = self.is_quorum(succeeded) || self.is_quorum(succeeded + not_ready) || all;
        if !(ended || clear) {
            return;
        }
        let max_term = beat.answers.values().map(|(_, term)| *term).max().unwrap_or(0);
        let other = count(HeartbeatCode::InconsistentLeader) > 0;
        self.elector.beat.judged = true;
        if self.is_quorum(succeeded) {
            self.elector.beat.succeeded = self.now;
        } else if self.is_quorum(succeeded + not_ready) {
            // Java sends the next at once; a little time must pass here.
            self.elector.beat.due = self.now + 10;
        } else if max_term > self.elector.term {
            self.become_candidate(max_term);
        } else if other || self.now - self.elector.beat.succeeded > LEAK_MILLIS {
            self.become_candidate(self.elector.term);
        }
    }
}

/// Between two heartbeats.
const BEAT_MILLIS: u64 = 2000;

/// A leader that was silent for so long is given up: three heartbeats.
const LEAK_MILLIS: u64 = 3 * BEAT_MILLIS;
