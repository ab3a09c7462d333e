//! One member of a group.

use std::collections::VecDeque;

use crate::{
    config::{Config, ConfigError, State, planted},
    cutting::Cutting,
    follower::Follow,
    hard_writes::HardWrites,
    health::Health,
    io::{Input, Output},
    leader::Lead,
    ledger::Ledger,
    message::Message,
    peers::Peers,
    quorum::MEMBERS,
    record::{Event, Record, Violation},
    rng::Rng,
    round::Rounds,
    transfer::{Taking, Transfer},
    types::{CallId, EntryId, LogIndex, Millis, NodeId, Provisional, Role, Term, Vote},
};

/// One member of a group. See the crate's documentation for how it is driven.
#[derive(Debug)]
pub struct Node {
    pub(crate) config: Config,
    pub(crate) rng: Rng,
    pub(crate) now: Millis,
    pub(crate) term: Term,
    pub(crate) vote: Vote,
    pub(crate) role: Role,
    pub(crate) leader: Option<NodeId>,
    pub(crate) hard_writes: HardWrites,
    pub(crate) peers: Peers,
    pub(crate) rounds: Rounds,
    /// When a follower gives its leader up.
    pub(crate) election_due: Millis,
    /// When the leader was heard of.
    pub(crate) leader_heard: Millis,
    pub(crate) ledger: Ledger,
    pub(crate) lead: Option<Lead>,
    pub(crate) follow: Follow,
    pub(crate) cutting: Option<Cutting>,
    pub(crate) taking: Option<Taking>,
    /// A hand-over whose outcome is not known yet.
    pub(crate) handing: Option<Transfer>,
    pub(crate) provisional: Option<Provisional>,
    pub(crate) health: Health,
    stopped: bool,
    pub(crate) outputs: VecDeque<Output>,
}

impl Node {
    /// A node as it starts: a candidate, whatever it was before.
    ///
    /// A term below that of the last entry (its record was lost) is raised to it, with the vote
    /// unknown. A node whose log is empty is provisional, whatever `state` says.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn new(config: Config, state: State) -> Result<Self, ConfigError> {
        check(&config)?;
        let ledger = Ledger::recovered(&state)?;
        let log_term = state.last.map_or(Term(0), |last| last.term);
        let (term, vote) = if state.term < log_term {
            (log_term, Vote::Unknown)
        } else {
            (state.term, state.vote)
        };
        let empty = state.last.is_none().then_some(Provisional::Empty);
        Ok(Self {
            rng: Rng::new(config.seed),
            now: Millis(0),
            term,
            vote,
            role: Role::Candidate,
            leader: None,
            hard_writes: HardWrites::default(),
            peers: Peers::of(&config),
            rounds: Rounds::initial(),
            election_due: Millis(0),
            leader_heard: Millis(0),
            ledger,
            lead: None,
            follow: Follow::default(),
            cutting: None,
            taking: None,
            handing: None,
            provisional: state.provisional.or(empty),
            health: Health { disk: true, room: true, hangs_at: None },
            stopped: false,
            outputs: VecDeque::new(),
            config,
        })
    }

    /// Takes what happened at `now`. What follows from it is then to be polled.
    pub fn handle(&mut self, now: Millis, input: Input) {
        if self.stopped {
            return;
        }
        self.now = self.now.max(now);
        self.take(input);
        self.check_handing();
        self.advance_commit();
        self.check_transfer();
        self.dispatch();
        self.store_vote();
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Tick => self.tick(),
            Input::Propose { count, bytes } => self.propose(count, bytes),
            Input::Received { from, call, message } => self.receive(from, call, message),
            Input::Written { upto } => {
                self.ledger.note_written(upto);
                self.progressed();
            }
            Input::Flushed { upto } => {
                self.ledger.note_flushed(self.left_of(upto));
                self.progressed();
            }
            Input::NotWritten { from } if self.role == Role::Leader => self.withdraw(from),
            Input::NotWritten { from } => self.not_accepted(from),
            Input::VoteStored { term } => {
                if self.hard_writes.end(term, &mut self.outputs) {
                    self.ask_if_settled();
                }
            }
            Input::Truncated { last } => self.truncated(last),
            Input::Trimmed { first } => self.ledger.trim(first),
            Input::RangeRead { peer, first, count, bytes } => {
                self.range_read(&peer, first, count, bytes);
            }
            Input::RangeLost { peer, from } => self.range_lost(&peer, from),
            Input::Peer { id, kind } => self.peer_changed(&id, kind),
            Input::Transfer { call, to } => self.transfer(call, to),
            Input::Disk { healthy } => self.disk_changed(healthy),
            Input::Room { enough } => self.room_changed(enough),
            Input::ReadIndex { call } => self.read_index(call),
        }
    }

    fn receive(&mut self, from: NodeId, call: CallId, message: Message) {
        match message {
            Message::Vote(request) => self.vote_request(from, call, &request),
            Message::VoteReply(reply) => self.vote_reply(&from, &reply),
            Message::Heartbeat(beat) => self.heartbeat(from, call, beat),
            Message::HeartbeatReply(reply) => self.heartbeat_reply(&from, reply),
            Message::Push(push) => self.push(from, call, push),
            Message::PushReply(reply) => self.push_reply(&from, &reply),
            Message::Transfer(request) => self.transfer_request(from, call, &request),
            Message::TransferReply(reply) => self.transfer_reply(&from, reply),
            // Rot is the engines' affair.
            Message::Fetch(_) | Message::FetchReply(_) => {}
        }
    }

    fn tick(&mut self) {
        match self.role {
            Role::Leader => self.leader_tick(),
            Role::Follower => self.follower_tick(),
            Role::Candidate => self.candidate_tick(),
        }
        self.take_lead();
        self.expire_early();
    }

    /// The disk did something.
    fn progressed(&mut self) {
        self.own_progress();
        self.answer_kept();
        self.follow_commit();
        self.take_lead();
    }

    /// Puts out term and vote where they changed. One write holds both, so that a term is never
    /// durable without the vote that was given in it.
    fn store_vote(&mut self) {
        if !self.hard_writes.changed {
            return;
        }
        self.hard_writes.begin(self.term);
        let vote = if planted!(self.config, P2) { Vote::None } else { self.vote.clone() };
        self.outputs.push_back(Output::StoreVote { term: self.term, vote });
    }

    /// What is to be done next, in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front()?;
        if matches!(output, Output::Stop { .. }) {
            self.outputs.clear();
        }
        Some(output)
    }

    /// When [`Input::Tick`] is due, if nothing happens before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Millis> {
        if self.stopped {
            return None;
        }
        let by_role = match (self.role, &self.lead) {
            (Role::Leader, Some(_)) if self.config.members.len() == 1 => None,
            (Role::Leader, Some(lead)) => Some(self.leader_due(lead)),
            (Role::Leader, None) => None,
            (Role::Follower, _) => Some(self.election_due),
            (Role::Candidate, _) => match &self.rounds.running {
                // Without a deadline it waits for the disk.
                Some(round) => round.deadline,
                None => Some(self.rounds.next_time.unwrap_or(Millis(0))),
            },
        };
        let taking = self.taking.as_ref().filter(|taking| !taking.started);
        let others = [
            self.follow.due(),
            taking.map(|taking| taking.deadline),
            self.handing.as_ref().map(|handing| handing.deadline),
        ];
        others.into_iter().chain([by_role]).flatten().min()
    }

    fn leader_due(&self, lead: &Lead) -> Millis {
        let timings = self.timings();
        let mut due = lead.heartbeat_due.min(lead.quorum_heard().after(timings.election_max));
        if let Some(stalled) = lead.stalled.filter(|_| !planted!(self.config, P30)) {
            due = due.min(stalled.after(timings.election_max));
        }
        if let Some(transfer) = &lead.transfer {
            due = due.min(transfer.deadline);
        }
        if !self.config.preferred.is_empty() || !self.health.room {
            due = due.min(lead.preferred_due);
        }
        let dispatchers = lead.dispatchers.iter().map(|peer| peer.due(timings.push_wait));
        dispatchers.fold(due, Millis::min)
    }

    /// The role now.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// The term now.
    #[must_use]
    pub fn term(&self) -> Term {
        self.term
    }

    /// Who leads, where that is known.
    #[must_use]
    pub fn leader(&self) -> Option<&NodeId> {
        self.leader.as_ref()
    }

    /// For whom it voted in this term.
    #[must_use]
    pub fn vote(&self) -> &Vote {
        &self.vote
    }

    /// The last entry of its log, which may not be written yet.
    #[must_use]
    pub fn last(&self) -> Option<EntryId> {
        self.ledger.last()
    }

    /// The last entry known to be committed.
    #[must_use]
    pub fn committed(&self) -> Option<LogIndex> {
        self.ledger.committed()
    }

    /// The last entry of its log that is written.
    #[must_use]
    pub fn written(&self) -> Option<LogIndex> {
        self.ledger.written()
    }

    /// The last entry of its log that is durable.
    #[must_use]
    pub fn flushed(&self) -> Option<LogIndex> {
        self.ledger.flushed()
    }

    /// The first entry that this leader wrote in its term; `None` where it does not lead.
    #[must_use]
    pub fn opening(&self) -> Option<LogIndex> {
        self.lead.as_ref().map(|lead| lead.opening.first)
    }

    pub(crate) fn self_id(&self) -> NodeId {
        self.config.self_id.clone()
    }

    pub(crate) fn send(&mut self, to: NodeId, call: Option<CallId>, message: Message) {
        let output = Output::Send { to, call, message };
        if planted!(self.config, P1) {
            self.outputs.push_back(output);
        } else {
            self.hard_writes.pass(output, &mut self.outputs);
        }
    }

    pub(crate) fn announce(&mut self) {
        self.outputs.push_back(Output::RoleChanged {
            role: self.role,
            term: self.term,
            leader: self.leader.clone(),
        });
    }

    pub(crate) fn record(&mut self, event: Event) {
        let record = Record { at: self.now, term: self.term, event };
        self.outputs.push_back(Output::Recorded(record));
    }

    pub(crate) fn stop(&mut self, violation: Violation) {
        self.stopped = true;
        self.outputs.push_back(Output::Stop { violation });
    }
}

fn check(config: &Config) -> Result<(), ConfigError> {
    let members: Vec<&str> = config.members.iter().map(|id| id.0.as_str()).collect();
    let members = members.join(", ");
    if !config.members.contains(&config.self_id) {
        return Err(ConfigError::NotAMember { self_id: config.self_id.clone(), members });
    }
    let count = config.members.len();
    if count > MEMBERS {
        return Err(ConfigError::TooManyMembers { count, most: MEMBERS });
    }
    if let Some(id) = config.preferred.iter().find(|id| !config.members.contains(id)) {
        return Err(ConfigError::PreferredUnknown { id: id.clone(), members });
    }
    let timings = config.timings;
    if timings.heartbeat == 0
        || timings.heartbeat * 2 > timings.election_min
        || timings.election_min > timings.election_max
    {
        return Err(ConfigError::Timings {
            heartbeat: timings.heartbeat,
            min: timings.election_min,
            max: timings.election_max,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
