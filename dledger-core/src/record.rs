//! What a flight recorder keeps: the turns of a group's life, with their reasons.

use std::fmt;

use crate::{
    codes::{TransferCode, VoteAnswer},
    round::ParseResult,
    types::{EntryId, LogIndex, Millis, NodeId, Provisional, Term, Vote},
};

/// One turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// When.
    pub at: Millis,
    /// In which term.
    pub term: Term,
    /// What.
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// This node asks for votes.
    Candidate {
        /// Whether it only asks how votes would go.
        pre_vote: bool,
        /// Its last entry.
        last: Option<EntryId>,
    },
    /// A round of votes was not won.
    RoundLost {
        /// What the next round does.
        result: ParseResult,
        /// Votes for this node, its own among them.
        accepted: usize,
        /// Votes that it needs.
        needed: usize,
        /// How members answered.
        answers: Vec<(NodeId, VoteAnswer)>,
    },
    /// This node leads.
    Elected {
        /// By whose votes.
        votes: Vec<NodeId>,
    },
    /// This node follows another leader than before.
    Follows {
        /// Whom.
        leader: NodeId,
    },
    /// This node refused its vote.
    VoteRefused {
        /// To whom.
        candidate: NodeId,
        /// The term that was asked for.
        asked: Term,
        /// How.
        answer: VoteAnswer,
    },
    /// This node gave its vote.
    VoteGranted {
        /// To whom.
        candidate: NodeId,
    },
    /// This node leads or follows no more.
    SteppedDown {
        /// Why.
        cause: StepDown,
    },
    /// The end of this node's log was cut off: another leader had written something else.
    Truncated {
        /// The first entry that went.
        from: LogIndex,
        /// The last one that went.
        last: Option<EntryId>,
    },
    /// This node's log was removed and begins anew where the leader's begins.
    Restarted {
        /// With this entry.
        at: EntryId,
        /// The last entry that went.
        last: Option<EntryId>,
    },
    /// Leadership is to go to another member.
    TransferStarted {
        /// To whom.
        to: NodeId,
    },
    /// What came of it.
    TransferEnded {
        /// To whom.
        to: NodeId,
        /// What.
        code: TransferCode,
    },
    /// This node was asked to lead.
    TakesLead {
        /// By whom.
        from: NodeId,
    },
    /// A node that may lack what it once acknowledged: this one (`None`) or a follower.
    Provisional {
        /// Which one.
        node: Option<NodeId>,
        /// Why, where this is known.
        cause: Option<Provisional>,
    },
    /// It holds again what was committed when it came back.
    Whole {
        /// Which one; `None` is this one.
        node: Option<NodeId>,
    },
    /// An alarm: this provisional node leads by the votes of all. What is behind `from` and was
    /// acknowledged by machines that went down may be lost.
    MayHaveLost {
        /// The first index that may have been another entry.
        from: LogIndex,
    },
    /// This node's disk takes no appends, or does again.
    Disk {
        /// It does.
        healthy: bool,
    },
}

/// Why a node stopped leading or following.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepDown {
    /// It was told of a larger term.
    LargerTerm(Term),
    /// The leader was not heard of in time.
    LeaderSilent,
    /// Too few members answered the leader's heartbeats in time.
    QuorumLost,
    /// A member follows another leader in this term.
    OtherLeader,
    /// The disk does not take appends.
    DiskFailed,
    /// An append of its own was not durable within one election timeout.
    DiskHangs,
    /// The opening entry could not be written.
    NotOpened,
    /// The leader asked it to take over.
    TakesLead,
}

/// What must never be. The node that sees it stops.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A leader wants committed entries to be cut (Java does it silently).
    #[error(
        "leader {leader} of term {term} wants the log to be cut at index {index}, but it is committed up to {committed}: keep this node's data directory, its log and the leader's differ in what was acknowledged"
    )]
    CutBelowCommit {
        /// Who.
        leader: NodeId,
        /// In which term.
        term: Term,
        /// The first entry to go.
        index: LogIndex,
        /// What is committed.
        committed: LogIndex,
    },
    /// Two members lead in one term.
    #[error(
        "{other} leads in term {term}, in which this node leads: two members have one id, or a vote was lost from a disk"
    )]
    TwoLeaders {
        /// The other one.
        other: NodeId,
        /// The term.
        term: Term,
    },
    /// The log on disk is not what the node was told.
    #[error("the log ends with {found:?} after a cut behind {expected:?}")]
    WrongEnd {
        /// What should be last.
        expected: Option<EntryId>,
        /// What is.
        found: Option<EntryId>,
    },
    /// A second vote in one term.
    #[error("this node would vote for {candidate} in term {term}, in which its vote is {given:?}")]
    SecondVote {
        /// The term.
        term: Term,
        /// Who would get it.
        candidate: NodeId,
        /// The vote that there is.
        given: Vote,
    },
    /// A leader would commit what others wrote before its own first entry: another one may still
    /// replace that.
    #[error(
        "as leader of term {term} this node would commit entry {upto}, which lies before its opening entry {opening}"
    )]
    BeforeOpening {
        /// The term.
        term: Term,
        /// The commit index.
        upto: LogIndex,
        /// The first entry of the term.
        opening: LogIndex,
    },
    /// The commit index would pass what is written.
    #[error("commit index {committed:?} and end of the log {last:?} contradict each other")]
    Commit {
        /// The commit index.
        committed: Option<LogIndex>,
        /// The last entry.
        last: Option<EntryId>,
    },
}

impl fmt::Display for StepDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LargerTerm(term) => write!(f, "a member is in term {term}"),
            Self::LeaderSilent => f.write_str("the leader was not heard of in time"),
            Self::QuorumLost => f.write_str("too few members answered in time"),
            Self::OtherLeader => f.write_str("a member follows another leader in this term"),
            Self::DiskFailed => f.write_str("the disk does not take appends"),
            Self::DiskHangs => f.write_str("an append was not durable within the election timeout"),
            Self::NotOpened => f.write_str("the opening entry could not be written"),
            Self::TakesLead => f.write_str("the leader asked this node to take over"),
        }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "term {}: {}", self.term, self.event)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Candidate { pre_vote: true, last } => {
                write!(f, "asks how votes would go, last entry {}", Shown(last))
            }
            Self::Candidate { pre_vote: false, last } => {
                write!(f, "asks for votes, last entry {}", Shown(last))
            }
            Self::RoundLost { result, accepted, needed, answers } => {
                write!(f, "{accepted} votes, need {needed}, then {}", result.java_name())?;
                answers.iter().try_for_each(|(id, answer)| write!(f, "; {id} {answer}"))
            }
            Self::Elected { votes } => {
                f.write_str("elected by")?;
                votes.iter().try_for_each(|id| write!(f, " {id}"))
            }
            Self::Follows { leader } => write!(f, "follows {leader}"),
            Self::VoteRefused { candidate, asked, answer } => {
                write!(f, "refuses {candidate} its vote in term {asked}: {answer}")
            }
            Self::VoteGranted { candidate } => write!(f, "votes for {candidate}"),
            Self::SteppedDown { cause } => write!(f, "steps down: {cause}"),
            Self::Truncated { from, last } => {
                write!(f, "cuts its log from {from} on, it ended with {}", Shown(last))
            }
            Self::Restarted { at, last } => {
                write!(f, "starts its log anew at {at}, it ended with {}", Shown(last))
            }
            Self::TransferStarted { to } => write!(f, "hands the lead to {to}"),
            Self::TransferEnded { to, code } => {
                write!(f, "transfer to {to} ended with {}", code.code())
            }
            Self::TakesLead { from } => write!(f, "is asked by {from} to lead"),
            Self::Provisional { node, cause } => {
                write!(f, "{} may lack what it acknowledged", Name(node))?;
                cause.iter().try_for_each(|cause| write!(f, ": {cause}"))
            }
            Self::Whole { node } => write!(f, "{} holds all that was committed", Name(node)),
            Self::MayHaveLost { from } => {
                write!(f, "ALARM: acknowledged entries from index {from} on may be lost")
            }
            Self::Disk { healthy: true } => f.write_str("disk takes appends"),
            Self::Disk { healthy: false } => f.write_str("disk takes no appends"),
        }
    }
}

struct Shown<'a>(&'a Option<EntryId>);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(id) => id.fmt(f),
            None => f.write_str("none"),
        }
    }
}

struct Name<'a>(&'a Option<NodeId>);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(id) => id.fmt(f),
            None => f.write_str("this node"),
        }
    }
}
