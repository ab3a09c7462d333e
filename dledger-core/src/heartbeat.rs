//! Who leads, and whether it lives (Java: `handleHeartBeat`, `sendHeartbeats`).

use crate::{
    codes::HeartbeatCode,
    message::{Heartbeat, HeartbeatReply, Message},
    node::Node,
    record::{Event, StepDown, Violation},
    round::ParseResult,
    types::{CallId, NodeId, Role, Term},
};

/// Why a member that claims to lead is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotFollowed {
    UnknownMember,
    UnexpectedMember,
    ExpiredTerm,
    OtherLeader,
}

impl Node {
    pub(crate) fn heartbeat(&mut self, from: NodeId, call: CallId, beat: Heartbeat) {
        let code = match self.hear_leader(&from, beat.term) {
            Ok(()) => HeartbeatCode::Success,
            Err(NotFollowed::UnknownMember) => HeartbeatCode::UnknownMember,
            Err(NotFollowed::UnexpectedMember) => HeartbeatCode::UnexpectedMember,
            Err(NotFollowed::ExpiredTerm) => HeartbeatCode::ExpiredTerm,
            Err(NotFollowed::OtherLeader) => HeartbeatCode::InconsistentLeader,
        };
        let reply = HeartbeatReply {
            term: Some(self.term),
            code,
            request_term: beat.term,
            round: beat.round,
            healthy: self.is_electable(),
            roomy: self.health.room,
        };
        self.send(from, Some(call), Message::HeartbeatReply(reply));
    }

    /// `from` says that it leads in `term`: this node follows it where that can be. A larger term is
    /// adopted at once (Java first answers TERM_NOT_READY and goes through a round of its own).
    pub(crate) fn hear_leader(&mut self, from: &NodeId, term: Term) -> Result<(), NotFollowed> {
        if !self.config.members.contains(from) {
            return Err(NotFollowed::UnknownMember);
        }
        if *from == self.config.self_id {
            return Err(NotFollowed::UnexpectedMember);
        }
        if term < self.term {
            return Err(NotFollowed::ExpiredTerm);
        }
        if term > self.term {
            self.adopt_term(term);
        }
        match self.role {
            Role::Leader => {
                self.stop(Violation::TwoLeaders { other: from.clone(), term });
                return Err(NotFollowed::OtherLeader);
            }
            Role::Follower if self.leader.as_ref() != Some(from) => {
                return Err(NotFollowed::OtherLeader);
            }
            Role::Follower => {}
            Role::Candidate => self.follow(from.clone()),
        }
        self.leader_heard = self.now;
        let due = self.now.after(self.patience());
        self.election_due = due;
        Ok(())
    }

    fn follow(&mut self, leader: NodeId) {
        self.role = Role::Follower;
        self.leader = Some(leader.clone());
        self.rounds.end(ParseResult::WaitToVoteNext, self.now);
        self.rounds.recorded = None;
        self.follow.begin();
        self.taking_overtaken();
        self.announce();
        self.record(Event::Follows { leader });
    }

    pub(crate) fn follower_tick(&mut self) {
        if self.now < self.election_due {
            return;
        }
        self.become_candidate(StepDown::LeaderSilent, ParseResult::WaitToVoteNext, self.now);
        self.candidate_tick();
    }

    /// Heartbeats to all, where they are due.
    pub(crate) fn send_heartbeats(&mut self) {
        let interval = self.timings().heartbeat;
        let Some(lead) = &mut self.lead else { return };
        if self.now < lead.heartbeat_due {
            return;
        }
        lead.heartbeat_due = self.now.after(interval);
        lead.round += 1;
        let beat = Heartbeat { term: self.term, round: lead.round };
        let others: Vec<NodeId> = self.peers.ids().cloned().collect();
        for to in others {
            self.send(to, None, Message::Heartbeat(beat));
        }
    }

    pub(crate) fn heartbeat_reply(&mut self, from: &NodeId, reply: HeartbeatReply) {
        if let Some(term) = reply.term
            && term > self.term
        {
            self.adopt_term(term);
            return;
        }
        if reply.request_term != self.term {
            return;
        }
        let now = self.now;
        let Some(lead) = &mut self.lead else { return };
        let Some(peer) = lead.dispatchers.iter_mut().find(|peer| peer.peer == *from) else {
            return;
        };
        match reply.code {
            HeartbeatCode::Success => {
                peer.heard = now;
                peer.healthy = reply.healthy;
                peer.roomy = reply.roomy;
                peer.confirmed = peer.confirmed.max(reply.round.min(lead.round));
                self.answer_reads();
            }
            HeartbeatCode::InconsistentLeader => {
                let next_time = now.after(self.pause());
                self.become_candidate(
                    StepDown::OtherLeader,
                    ParseResult::WaitToVoteNext,
                    next_time,
                );
            }
            HeartbeatCode::UnknownMember
            | HeartbeatCode::UnexpectedMember
            | HeartbeatCode::ExpiredTerm
            | HeartbeatCode::TermNotReady
            | HeartbeatCode::Other(_) => {}
        }
    }

    /// A leader that a majority has not answered for an election timeout may be alone.
    pub(crate) fn check_quorum(&mut self) {
        let timeout = self.timings().election_max;
        let Some(lead) = &self.lead else { return };
        if self.config.members.len() > 1 && self.now.since(lead.quorum_heard()) >= timeout {
            let next_time = self.now.after(self.pause());
            self.become_candidate(StepDown::QuorumLost, ParseResult::WaitToVoteNext, next_time);
        }
    }
}
