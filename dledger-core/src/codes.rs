//! Answers, with Java's names and numbers (`VoteResponse.RESULT`, `DLedgerResponseCode`).

use std::fmt;

/// How a vote was answered (Java: `VoteResponse.RESULT`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VoteAnswer {
    /// `UNKNOWN`: the request failed on its way, or the answer is none of Java's.
    Unknown,
    /// `ACCEPT`.
    Accept,
    /// `REJECT_UNKNOWN_LEADER`: the candidate is no member of the group.
    RejectUnknownLeader,
    /// `REJECT_UNEXPECTED_LEADER`: the candidate bears the id of the member that it asks.
    RejectUnexpectedLeader,
    /// `REJECT_EXPIRED_VOTE_TERM`: the answering member is in a larger term.
    RejectExpiredVoteTerm,
    /// `REJECT_ALREADY_VOTED`: for another candidate of this term.
    RejectAlreadyVoted,
    /// `REJECT_ALREADY_HAS_LEADER`: and that leader is alive.
    RejectAlreadyHasLeader,
    /// `REJECT_TERM_NOT_READY`: a Java member goes to this term first; ask again.
    RejectTermNotReady,
    /// `REJECT_TERM_SMALL_THAN_LEDGER`: its last entry is of a larger term.
    RejectTermSmallThanLedger,
    /// `REJECT_EXPIRED_LEDGER_TERM`: the candidate's last entry is of a smaller term.
    RejectExpiredLedgerTerm,
    /// `REJECT_SMALL_LEDGER_END_INDEX`: of the same term, and the candidate has fewer.
    RejectSmallLedgerEndIndex,
    /// `REJECT_TAKING_LEADERSHIP`: the answering member was asked to lead.
    RejectTakingLeadership,
}

impl VoteAnswer {
    /// Every answer, for tables.
    pub const ALL: [Self; 12] = [
        Self::Unknown,
        Self::Accept,
        Self::RejectUnknownLeader,
        Self::RejectUnexpectedLeader,
        Self::RejectExpiredVoteTerm,
        Self::RejectAlreadyVoted,
        Self::RejectAlreadyHasLeader,
        Self::RejectTermNotReady,
        Self::RejectTermSmallThanLedger,
        Self::RejectExpiredLedgerTerm,
        Self::RejectSmallLedgerEndIndex,
        Self::RejectTakingLeadership,
    ];

    /// Java's name of it.
    #[must_use]
    pub fn java_name(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::Accept => "ACCEPT",
            Self::RejectUnknownLeader => "REJECT_UNKNOWN_LEADER",
            Self::RejectUnexpectedLeader => "REJECT_UNEXPECTED_LEADER",
            Self::RejectExpiredVoteTerm => "REJECT_EXPIRED_VOTE_TERM",
            Self::RejectAlreadyVoted => "REJECT_ALREADY_VOTED",
            Self::RejectAlreadyHasLeader => "REJECT_ALREADY_HAS_LEADER",
            Self::RejectTermNotReady => "REJECT_TERM_NOT_READY",
            Self::RejectTermSmallThanLedger => "REJECT_TERM_SMALL_THAN_LEDGER",
            Self::RejectExpiredLedgerTerm => "REJECT_EXPIRED_LEDGER_TERM",
            Self::RejectSmallLedgerEndIndex => "REJECT_SMALL_LEDGER_END_INDEX",
            Self::RejectTakingLeadership => "REJECT_TAKING_LEADERSHIP",
        }
    }
}

impl fmt::Display for VoteAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.java_name())
    }
}

/// How a heartbeat was answered (Java: `DLedgerResponseCode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeartbeatCode {
    /// 200.
    Success,
    /// 401: the leader is no member.
    UnknownMember,
    /// 402: the leader bears the id of the member that it asks.
    UnexpectedMember,
    /// 403: the answering member is in a larger term.
    ExpiredTerm,
    /// 409: it follows another leader in this term.
    InconsistentLeader,
    /// 416: a Java member goes to this term first.
    TermNotReady,
    /// Any other; 302 where the request failed on its way.
    Other(i32),
}

impl HeartbeatCode {
    /// Java's number of it.
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            Self::Success => 200,
            Self::UnknownMember => 401,
            Self::UnexpectedMember => 402,
            Self::ExpiredTerm => 403,
            Self::InconsistentLeader => 409,
            Self::TermNotReady => 416,
            Self::Other(code) => code,
        }
    }

    /// What Java's number means.
    #[must_use]
    pub fn of_code(code: i32) -> Self {
        match code {
            200 => Self::Success,
            401 => Self::UnknownMember,
            402 => Self::UnexpectedMember,
            403 => Self::ExpiredTerm,
            409 => Self::InconsistentLeader,
            416 => Self::TermNotReady,
            other => Self::Other(other),
        }
    }
}

/// How a push was answered (Java: `DLedgerResponseCode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PushCode {
    /// 200.
    Success,
    /// 403: the answering member is in a larger term.
    ExpiredTerm,
    /// 405: it follows nobody.
    NotFollower,
    /// 406: the logs differ there.
    InconsistentState,
    /// 407: it is in another term.
    InconsistentTerm,
    /// 409: it follows another leader in this term.
    InconsistentLeader,
    /// 413: Java has this push already.
    RepeatedPush,
    /// 414.
    DiskError,
    /// 415.
    DiskFull,
    /// 421: it holds too much already; push again later.
    PushRequestIsFull,
    /// Any other; 302 where the request failed on its way.
    Other(i32),
}

impl PushCode {
    /// Java's number of it.
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            Self::Success => 200,
            Self::ExpiredTerm => 403,
            Self::NotFollower => 405,
            Self::InconsistentState => 406,
            Self::InconsistentTerm => 407,
            Self::InconsistentLeader => 409,
            Self::RepeatedPush => 413,
            Self::DiskError => 414,
            Self::DiskFull => 415,
            Self::PushRequestIsFull => 421,
            Self::Other(code) => code,
        }
    }

    /// What Java's number means.
    #[must_use]
    pub fn of_code(code: i32) -> Self {
        match code {
            200 => Self::Success,
            403 => Self::ExpiredTerm,
            405 => Self::NotFollower,
            406 => Self::InconsistentState,
            407 => Self::InconsistentTerm,
            409 => Self::InconsistentLeader,
            413 => Self::RepeatedPush,
            414 => Self::DiskError,
            415 => Self::DiskFull,
            421 => Self::PushRequestIsFull,
            other => Self::Other(other),
        }
    }
}

/// What an answer to a push comes to for the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// As it was asked.
    Done,
    /// The logs differ there.
    Differs,
    /// Java has it already.
    Known,
    /// Not now: after a pause the logs are compared.
    NotNow,
}

impl PushCode {
    pub(crate) fn verdict(self) -> Verdict {
        match self {
            Self::Success => Verdict::Done,
            Self::InconsistentState => Verdict::Differs,
            Self::RepeatedPush => Verdict::Known,
            Self::ExpiredTerm
            | Self::NotFollower
            | Self::InconsistentTerm
            | Self::InconsistentLeader
            | Self::DiskError
            | Self::DiskFull
            | Self::PushRequestIsFull
            | Self::Other(_) => Verdict::NotNow,
        }
    }
}

/// What came of a transfer of leadership (Java: `DLedgerResponseCode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransferCode {
    /// 200: the other member leads.
    Success,
    /// 401: it is no member.
    UnknownMember,
    /// 403: the term is over.
    ExpiredTerm,
    /// 404: this node does not lead.
    NotLeader,
    /// 407: another term.
    InconsistentTerm,
    /// 409: it does not follow who asks.
    InconsistentLeader,
    /// 414: its disk does not take appends.
    DiskError,
    /// 417: it lacks too many entries.
    FallBehindTooMuch,
    /// 418: it did not become leader in time; the old leader goes on.
    TakeLeadershipFailed,
    /// 506: another transfer is running.
    LeaderTransferring,
    /// Any other; 302 where the request failed on its way.
    Other(i32),
}

impl TransferCode {
    /// Java's number of it.
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            Self::Success => 200,
            Self::UnknownMember => 401,
            Self::ExpiredTerm => 403,
            Self::NotLeader => 404,
            Self::InconsistentTerm => 407,
            Self::InconsistentLeader => 409,
            Self::DiskError => 414,
            Self::FallBehindTooMuch => 417,
            Self::TakeLeadershipFailed => 418,
            Self::LeaderTransferring => 506,
            Self::Other(code) => code,
        }
    }

    /// What Java's number means.
    #[must_use]
    pub fn of_code(code: i32) -> Self {
        match code {
            200 => Self::Success,
            401 => Self::UnknownMember,
            403 => Self::ExpiredTerm,
            404 => Self::NotLeader,
            407 => Self::InconsistentTerm,
            409 => Self::InconsistentLeader,
            414 => Self::DiskError,
            417 => Self::FallBehindTooMuch,
            418 => Self::TakeLeadershipFailed,
            506 => Self::LeaderTransferring,
            other => Self::Other(other),
        }
    }
}
