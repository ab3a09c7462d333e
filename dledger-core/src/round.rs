//! A candidate's round of votes and what it comes to.

use std::collections::BTreeMap;

use crate::{
    codes::VoteAnswer,
    record::Event,
    types::{Millis, NodeId, Term},
};

/// What the last round of votes came to (Java: `VoteResponse.ParseResult`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseResult {
    /// Ask again in the same term.
    WaitToRevote,
    /// Ask again in the same term at once: a majority is about to be in it.
    RevoteImmediately,
    /// Raise the term before the next round.
    WaitToVoteNext,
    /// This node leads.
    Passed,
}

impl ParseResult {
    /// Java's name of it.
    #[must_use]
    pub fn java_name(self) -> &'static str {
        match self {
            Self::WaitToRevote => "WAIT_TO_REVOTE",
            Self::RevoteImmediately => "REVOTE_IMMEDIATELY",
            Self::WaitToVoteNext => "WAIT_TO_VOTE_NEXT",
            Self::Passed => "PASSED",
        }
    }
}

/// The rounds of a candidate.
#[derive(Debug, Clone)]
pub(crate) struct Rounds {
    /// What the round before came to.
    pub(crate) last_result: ParseResult,
    /// When the next round may begin; `None` until the clock is known.
    pub(crate) next_time: Option<Millis>,
    /// The round that is running.
    pub(crate) running: Option<Round>,
    /// The last lost round that was recorded, and when: a candidate that nobody answers does not
    /// fill the recorder with it.
    pub(crate) recorded: Option<(Event, Millis)>,
}

impl Rounds {
    /// Java votes again in the term in which it voted before it stopped, and may so lead twice in
    /// one term with two different tails. A term that this node may have led is not used again: the
    /// first round is in the next one.
    pub(crate) fn initial() -> Self {
        Self {
            last_result: ParseResult::WaitToVoteNext,
            next_time: None,
            running: None,
            recorded: None,
        }
    }

    /// Whether a lost round is news.
    pub(crate) fn is_news(&mut self, event: &Event, now: Millis) -> bool {
        let known = self.recorded.as_ref();
        if known.is_some_and(|(last, at)| last == event && now.since(*at) < REPEATED_MILLIS) {
            return false;
        }
        self.recorded = Some((event.clone(), now));
        true
    }

    pub(crate) fn end(&mut self, result: ParseResult, next_time: Millis) {
        self.running = None;
        self.last_result = result;
        self.next_time = Some(next_time);
    }
}

/// What a round is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Votes that count.
    Lead,
    /// Votes that count, as the leader asked for it.
    TakeOver,
    /// How our own members would vote in the next term.
    PreVote,
    /// Whether the next term is to be begun beside Java members: they are asked in this one, in which
    /// this node has no vote left.
    Sounding,
}

/// One round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Round {
    /// The term that votes are asked for.
    pub(crate) term: Term,
    pub(crate) purpose: Purpose,
    /// Until when answers are waited for; `None` until the others are asked.
    pub(crate) deadline: Option<Millis>,
    /// Who answered what, this node among them.
    pub(crate) answers: BTreeMap<NodeId, Ballot>,
}

/// One answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ballot {
    pub(crate) answer: VoteAnswer,
    /// Who answers may lack what it once acknowledged.
    pub(crate) provisional: bool,
}

/// What the rule of counting needs to know of the group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Electorate {
    pub(crate) members: usize,
    /// The candidate's log is empty.
    pub(crate) empty: bool,
}

impl Electorate {
    fn is_quorum(self, count: usize) -> bool {
        count > self.members / 2
    }
}

impl Round {
    pub(crate) fn new(term: Term, purpose: Purpose) -> Self {
        Self { term, purpose, deadline: None, answers: BTreeMap::new() }
    }

    fn count(&self, counts: impl Fn(&Ballot) -> bool) -> usize {
        self.answers.values().filter(|ballot| counts(ballot)).count()
    }

    pub(crate) fn accepted(&self) -> usize {
        self.count(|ballot| ballot.answer == VoteAnswer::Accept)
    }

    /// Whether votes are enough: a majority of members that hold what they acknowledged; or of
    /// all, for a candidate that has nothing; or everybody, so that the winner has all that is left.
    pub(crate) fn is_won(&self, group: Electorate) -> bool {
        let accepted = self.accepted();
        self.is_won_firmly(group)
            || (group.empty && group.is_quorum(accepted))
            || accepted == group.members
    }

    /// By a majority that holds what it acknowledged.
    pub(crate) fn is_won_firmly(&self, group: Electorate) -> bool {
        group.is_quorum(
            self.count(|ballot| ballot.answer == VoteAnswer::Accept && !ballot.provisional),
        )
    }

    /// Whether a majority is in this term or goes to it now, so that it is to be asked again at once (Java:
    /// REVOTE_IMMEDIATELY). A Java member votes for itself within a second: who waits for the others until
    /// then, one of which may be away, never gets its vote.
    pub(crate) fn is_nearly_won(&self, group: Electorate) -> bool {
        let not_ready = self.count(|ballot| ballot.answer == VoteAnswer::RejectTermNotReady);
        not_ready > 0 && group.is_quorum(self.accepted() + not_ready)
    }

    /// Whether a majority would go to the next term with this node, and nobody told of a leader.
    pub(crate) fn is_clear(&self, group: Electorate) -> bool {
        let free = self.count(|ballot| {
            matches!(
                ballot.answer,
                VoteAnswer::Accept
                    | VoteAnswer::RejectAlreadyVoted
                    | VoteAnswer::RejectTermNotReady
            )
        });
        !self.is_led() && group.is_quorum(free)
    }

    /// Whether a member told of a leader.
    fn is_led(&self) -> bool {
        self.count(|ballot| ballot.answer == VoteAnswer::RejectAlreadyHasLeader) > 0
    }

    /// Whether no answer is to come that could change the result.
    pub(crate) fn is_complete(&self, group: Electorate) -> bool {
        self.answers.len() == group.members
    }

    /// Java's table of what a round came to (`DLedgerLeaderElector.maintainAsCandidate`), for one
    /// that is not won. The second value is whether the next round waits longer.
    pub(crate) fn parse(&self, group: Electorate) -> (ParseResult, Pause) {
        let valid = self.count(|ballot| ballot.answer != VoteAnswer::Unknown);
        let bigger = self.count(|ballot| {
            matches!(
                ballot.answer,
                VoteAnswer::RejectExpiredLedgerTerm | VoteAnswer::RejectSmallLedgerEndIndex
            )
        });
        if self.is_led() {
            (ParseResult::WaitToRevote, Pause::Led)
        } else if !group.is_quorum(valid) {
            (ParseResult::WaitToRevote, Pause::Usual)
        } else if !group.is_quorum(valid - bigger) {
            (ParseResult::WaitToRevote, Pause::Behind)
        } else if self.is_nearly_won(group) {
            (ParseResult::RevoteImmediately, Pause::Usual)
        } else {
            (ParseResult::WaitToVoteNext, Pause::Usual)
        }
    }
}

/// How long a candidate waits before it asks again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    Usual,
    /// A member knows a leader: that one should be heard of.
    Led,
    /// Others have longer logs: they should be asking.
    Behind,
}

/// After so long the same lost round is news again.
const REPEATED_MILLIS: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: Electorate = Electorate { members: 3, empty: false };
    const FRESH: Electorate = Electorate { members: 3, empty: true };

    fn round(answers: &[(VoteAnswer, bool)]) -> Round {
        let mut round = Round::new(Term(4), Purpose::Lead);
        for (nth, (answer, provisional)) in answers.iter().enumerate() {
            let ballot = Ballot { answer: *answer, provisional: *provisional };
            round.answers.insert(NodeId(format!("n{nth}")), ballot);
        }
        round
    }

    /// Java's table, row by row.
    #[test]
    fn a_round_comes_to_what_javas_table_says() {
        use VoteAnswer::{
            Accept, RejectAlreadyHasLeader, RejectAlreadyVoted, RejectSmallLedgerEndIndex,
            RejectTermNotReady, Unknown,
        };
        for (answers, expected) in [
            ([Accept, RejectAlreadyHasLeader, Unknown], (ParseResult::WaitToRevote, Pause::Led)),
            ([Accept, Unknown, Unknown], (ParseResult::WaitToRevote, Pause::Usual)),
            (
                [Accept, RejectSmallLedgerEndIndex, RejectSmallLedgerEndIndex],
                (ParseResult::WaitToRevote, Pause::Behind),
            ),
            ([Accept, RejectTermNotReady, Unknown], (ParseResult::RevoteImmediately, Pause::Usual)),
            ([Accept, RejectAlreadyVoted, Unknown], (ParseResult::WaitToVoteNext, Pause::Usual)),
        ] {
            let round = round(&answers.map(|answer| (answer, false)));
            assert!(!round.is_won(THREE), "{answers:?}");
            assert_eq!(round.parse(THREE), expected, "{answers:?}");
        }
    }

    #[test]
    fn provisional_votes_count_for_who_has_nothing_and_if_all_agree() {
        let firm = (VoteAnswer::Accept, false);
        let shaky = (VoteAnswer::Accept, true);
        assert!(round(&[firm, firm]).is_won(THREE));
        assert!(!round(&[firm, shaky]).is_won(THREE));
        assert!(round(&[firm, shaky, shaky]).is_won(THREE));
        assert!(round(&[shaky, shaky]).is_won(FRESH));
        assert!(!round(&[shaky]).is_won(FRESH));
    }
}
