//! Who leads, and who must not.

use dledger_core::{
    CallId, Event, Heartbeat, Input, Message, PeerKind, Provisional, Role, StepDown, Term, Vote,
    VoteAnswer, VoteReply, VoteRequest,
};

use crate::harness::{Group, Held, id, name, runs};

/// The whole of an election among our own members: nobody's term is raised before a majority has
/// said that it would vote, and nothing is said that is not durable.
#[test]
fn a_fresh_group_elects_the_first_that_asks() {
    let mut group = Group::new(3);
    group.now = 1000;
    group.tick("n0");
    group.now = 2000;
    group.cut_off("n2");
    group.hush();
    group.tick("n0");
    group.settle();
    group.told(
        "n0 -> n1: pre-vote in term 1, I have nothing
         n1 -> n0: ACCEPT in term 0, provisionally
         n0 CANDIDATE in term 1
         n0 stores term 1, vote for n0
         n0 -> n1: vote in term 1, I have nothing
         n1 CANDIDATE in term 1
         n1 stores term 1, vote for n0
         n1 -> n0: ACCEPT in term 1, provisionally
         n0 LEADER in term 1
         n0 is whole
         n0 opens its term with 0..=0
         n0 -> n1: heartbeat of term 1
         n1 FOLLOWER of n0 in term 1
         n0 -> n1: COMPARE 1/0
         n1 -> n0: alive
         n1 -> n0: 406 end none
         n0 -> n1: APPEND 0..=0, commit none
         n1 writes 0..=0
         n1 -> n0: equal up to 0, end 0
         n0 has committed 0
         n0 -> n1: COMMIT 0
         n1 is whole
         n1 has committed 0
         n1 -> n0: equal up to 0, end 0",
    );
}

fn asks(term: u64, last: Option<(u64, u64)>) -> VoteRequest {
    let last = last.map(|(term, index)| id(term, index));
    VoteRequest { term: Term(term), last, pre_vote: false, transfer: false }
}

fn says(group: &mut Group, from: &str, to: &str, message: Message) {
    group.give(to, Input::Received { from: name(from), call: CallId(1), message });
}

fn answers(term: u64, answer: VoteAnswer) -> VoteReply {
    VoteReply {
        term: Term(term),
        answer,
        request_term: Term(term),
        pre_vote: false,
        provisional: false,
    }
}

/// What a node answered last.
fn answered(group: &mut Group) -> Option<VoteReply> {
    let letter = group.wire.pop_back()?;
    match letter.message {
        Message::VoteReply(reply) => Some(reply),
        other => panic!("{other:?}"),
    }
}

/// Known fault 4: a member that comes back must not unseat a leader that has a majority.
#[test]
fn a_member_that_was_alone_comes_back_and_disturbs_nobody() {
    let mut group = Group::new(3);
    let leader = group.elect();
    group.run(3000);
    let term = group.node(&leader).term();
    let other = group.up().into_iter().find(|id| *id != leader).unwrap();
    for _ in 0..20 {
        group.cut_off(&other);
        group.run(20_000);
        assert_eq!(group.node(&other).role(), Role::Candidate);
        group.heal();
        group.run(2000);
        assert_eq!(group.leader(), Some(leader.clone()));
        assert_eq!((group.node(&leader).term(), group.node(&other).term()), (term, term));
        assert_eq!(group.node(&other).role(), Role::Follower);
    }
}

/// who can send and hears nothing asks again and again, in vain.
#[test]
fn a_member_that_hears_nothing_does_not_raise_the_term() {
    let mut group = Group::new(3);
    let leader = group.elect();
    group.run(3000);
    let term = group.node(&leader).term();
    let deaf = group.up().into_iter().find(|id| *id != leader).unwrap();
    for other in group.up() {
        group.cut.insert((other, deaf.clone()));
    }
    group.run(30_000);
    assert_eq!(group.leader(), Some(leader.clone()));
    assert_eq!(group.node(&leader).term(), term);
}

/// Known fault 5: Java refuses the stray for its log before it looks at the term, for ever.
#[test]
pub(crate) fn a_stray_with_a_larger_term_and_a_short_log_gets_back_into_the_group() {
    let states = [(3, runs(&[(1, 20)])), (3, runs(&[(1, 20)])), (10, runs(&[(1, 4)]))];
    let mut group = Group::of(&states, |_| {});
    group.cut_off("n2");
    group.elect();
    group.heal();
    group.run(4000);
    let leader = group.leader().unwrap();
    assert_ne!(leader, "n2");
    assert!(group.node(&leader).term() > Term(10));
    assert_eq!(group.node("n2").role(), Role::Follower);
    group.assert_equal_logs();
}

/// Known fault 17: the candidate goes to the largest term that it is told of.
#[test]
fn members_of_different_terms_elect_a_leader_beyond_all_of_them() {
    for order in
        [["n0", "n1"], ["n0", "n2"], ["n1", "n0"], ["n1", "n2"], ["n2", "n0"], ["n2", "n1"]]
    {
        for longest in [0, 4] {
            let states =
                [(3, runs(&[(2, 5 + longest)])), (9, runs(&[(2, 5)])), (9, runs(&[(2, 5)]))];
            let mut group = Group::of(&states, |_| {});
            group.down = group.members.keys().cloned().collect();
            for id in order {
                group.down.remove(id);
                group.run(30);
            }
            group.down.clear();
            let leader = group.elect();
            assert!(group.now < 3 * 1200, "{}", group.now);
            assert!(group.node(&leader).term() >= Term(10));
        }
    }
}

/// Known faults 1 and 2: what counts is the term of the last entry, not that of the node.
#[test]
pub(crate) fn a_lagging_member_with_a_large_term_never_leads_and_nobody_cuts_for_it() {
    for seed in 0..20 {
        let full = runs(&[(1, 10), (2, 1000)]);
        let states = [(7, runs(&[(1, 10)])), (2, full.clone()), (2, full.clone())];
        let mut group = Group::of(&states, |config| config.seed += seed);
        for start in ["n0", "n1", "n2"].iter().take(1 + (seed % 3) as usize) {
            group.tick(start);
        }
        group.run(5000);
        let leader = group.leader().unwrap();
        let first_time = group.members["n0"].records.iter().find_map(|record| match record.event {
            Event::Elected { .. } => Some(record.term),
            _ => None,
        });
        assert_eq!(first_time, None, "n0 led");
        assert_ne!(leader, "n0");
        assert_eq!(group.members["n1"].log[..1010], full[..]);
        group.assert_equal_logs();
    }
}

/// Known fault 16, and R-2: one vote in a term, told only when it is durable.
#[test]
pub(crate) fn a_vote_is_told_when_it_is_durable_and_given_once() {
    let mut group =
        Group::of(&[(4, runs(&[(4, 3)])), (4, runs(&[(4, 3)])), (4, runs(&[(4, 3)]))], |_| {});
    group.member("n1").held.insert(Held::Votes);
    says(&mut group, "n0", "n1", Message::Vote(asks(5, Some((4, 2)))));
    assert_eq!(answered(&mut group), None);
    // It falls before the vote is durable: nobody heard of it, and another one may have it.
    group.restart("n1");
    group.member("n1").held.clear();
    says(&mut group, "n2", "n1", Message::Vote(asks(5, Some((4, 2)))));
    assert_eq!(answered(&mut group).unwrap().answer, VoteAnswer::Accept);
    assert_eq!(group.members["n1"].vote, (Term(5), Vote::For(name("n2"))));
    // It falls after that: the vote is given.
    group.restart("n1");
    says(&mut group, "n0", "n1", Message::Vote(asks(5, Some((4, 2)))));
    assert_eq!(answered(&mut group).unwrap().answer, VoteAnswer::RejectAlreadyVoted);
    says(&mut group, "n2", "n1", Message::Vote(asks(5, Some((4, 2)))));
    assert_eq!(answered(&mut group).unwrap().answer, VoteAnswer::Accept);
}

/// Known fault 98: a record that is lost means no vote before a larger term.
#[test]
fn a_member_that_does_not_know_its_vote_gives_none_in_that_term() {
    let states = vec![(4, runs(&[(4, 3)])); 3];
    let mut group = Group::of(&states, |_| {});
    group.restart_with("n1", |state| state.vote = Vote::Unknown);
    says(&mut group, "n0", "n1", Message::Vote(asks(4, Some((4, 2)))));
    assert_eq!(answered(&mut group).unwrap().answer, VoteAnswer::RejectAlreadyVoted);
    says(&mut group, "n0", "n1", Message::Vote(asks(5, Some((4, 2)))));
    assert_eq!(answered(&mut group).unwrap().answer, VoteAnswer::Accept);
}

/// The table of votes, row by row.
#[test]
pub(crate) fn votes_are_answered_as_the_table_says() {
    use VoteAnswer::{
        Accept, RejectAlreadyVoted, RejectExpiredLedgerTerm, RejectExpiredVoteTerm,
        RejectSmallLedgerEndIndex, RejectUnexpectedLeader, RejectUnknownLeader,
    };
    let states = vec![(4, runs(&[(2, 3), (4, 2)])); 3];
    for (candidate, term, last, answer, then) in [
        ("n9", 9, Some((9, 9)), RejectUnknownLeader, 4),
        ("n1", 9, Some((9, 9)), RejectUnexpectedLeader, 4),
        ("n0", 3, Some((4, 4)), RejectExpiredVoteTerm, 4),
        // Unlike Java's, a larger term is taken over before the log is looked at.
        ("n0", 6, Some((2, 40)), RejectExpiredLedgerTerm, 6),
        ("n0", 6, None, RejectExpiredLedgerTerm, 6),
        ("n0", 6, Some((4, 3)), RejectSmallLedgerEndIndex, 6),
        ("n0", 6, Some((4, 4)), Accept, 6),
        ("n0", 4, Some((5, 0)), Accept, 4),
    ] {
        let mut group = Group::of(&states, |_| {});
        says(&mut group, candidate, "n1", Message::Vote(asks(term, last)));
        let reply = answered(&mut group).unwrap();
        assert_eq!((reply.answer, reply.term), (answer, Term(then)), "{candidate} {term} {last:?}");
        assert_eq!(group.members["n1"].vote.0, Term(then), "durable");
        if answer == Accept {
            says(&mut group, "n2", "n1", Message::Vote(asks(term, Some((9, 9)))));
            assert_eq!(answered(&mut group).unwrap().answer, RejectAlreadyVoted);
        }
    }
}

/// Known fault 85.
#[test]
fn one_of_two_members_tells_why_there_is_no_leader() {
    let mut group = Group::new(2);
    group.down.insert("n1".into());
    group.run(5000);
    assert_eq!(group.leader(), None);
    let told = group.members["n0"].records.iter().map(ToString::to_string);
    let lost: Vec<String> = told.filter(|line| line.contains("need")).collect();
    assert_eq!(lost[0], "term 0: 1 votes, need 2, then WAIT_TO_VOTE_NEXT");
    assert_eq!(group.node("n0").term(), Term(0));
}

#[test]
fn a_leader_without_a_majority_steps_down_and_another_one_takes_over() {
    let mut group = Group::new(3);
    let leader = group.elect();
    group.run(3000);
    group.cut_off(&leader);
    group.run(1250);
    assert_eq!(group.node(&leader).role(), Role::Candidate);
    let causes = group.members[&leader].records.iter().map(|record| record.event.clone());
    let quorum_lost = Event::SteppedDown { cause: StepDown::QuorumLost };
    assert!(causes.into_iter().any(|event| event == quorum_lost));
    group.run(1500);
    let second = group.leader().unwrap();
    assert_ne!(second, leader);
    group.heal();
    group.run(1000);
    assert_eq!(group.leader(), Some(second));
    group.assert_equal_logs();
}

/// A larger term in the answer to a heartbeat counts, too.
#[test]
fn a_leader_adopts_a_larger_term_that_a_heartbeat_brings_back() {
    let mut group = Group::new(3);
    group.elect_first();
    let term = group.node("n0").term();
    let reply = dledger_core::HeartbeatReply {
        term: Some(Term(term.0 + 3)),
        code: dledger_core::HeartbeatCode::ExpiredTerm,
        request_term: term,
        round: 1,
        healthy: true,
        roomy: true,
    };
    says(&mut group, "n2", "n0", Message::HeartbeatReply(reply));
    assert_eq!((group.node("n0").role(), group.node("n0").term().0), (Role::Candidate, term.0 + 3));
}

/// R-1 broken by a member with a copied disk, say: nobody goes on as if nothing were.
#[test]
#[should_panic(expected = "n1 leads in term 1, in which this node leads")]
fn a_second_leader_of_one_term_stops_the_node() {
    let mut group = Group::new(3);
    group.elect_first();
    says(&mut group, "n1", "n0", Message::Heartbeat(Heartbeat { term: Term(1), round: 1 }));
}

/// 600 to 1,200 ms, drawn anew with each heartbeat, so that followers seldom give up together.
#[test]
fn a_follower_waits_for_its_leader_for_a_time_that_is_drawn_anew() {
    let mut group = Group::new(3);
    group.elect_first();
    let mut waits = std::collections::BTreeSet::new();
    for round in 1..=40 {
        group.now += 150;
        says(&mut group, "n0", "n1", Message::Heartbeat(Heartbeat { term: Term(1), round }));
        let due = group.node("n1").poll_timeout().unwrap().0;
        waits.insert(due - group.now);
    }
    assert!(waits.first() >= Some(&600) && waits.last() <= Some(&1200), "{waits:?}");
    assert!(waits.len() > 20, "{waits:?}");
}

/// While a member is Java its table holds: no pre-vote, and a larger term unseats a leader.
#[test]
fn beside_a_java_member_javas_rules_hold() {
    let mut group = Group::of(&vec![(4, runs(&[(4, 3)])); 3], |_| {});
    for id in ["n0", "n1"] {
        group.give(id, Input::Peer { id: name("n2"), kind: PeerKind::Java });
        // The connection closes; that it is Java stays known.
        group.give(id, Input::Peer { id: name("n2"), kind: PeerKind::Gone });
    }
    // A node that comes back listens for a heartbeat first: Java sends one each 2 s.
    group.tick("n0");
    assert!(group.wire.is_empty());
    group.now = 3500;
    group.tick("n0");
    group.down.insert("n2".into());
    group.hush();
    group.settle();
    group.told(
        "n0 -> n1: vote in term 4, I have 4/2
         n1 stores term 4, vote for n0
         n1 -> n0: ACCEPT in term 4
         n0 CANDIDATE in term 5
         n0 stores term 5, vote for n0
         n0 -> n1: vote in term 5, I have 4/2
         n1 CANDIDATE in term 5
         n1 stores term 5, vote for n0
         n1 -> n0: ACCEPT in term 5
         n0 LEADER in term 5
         n0 opens its term with 3..=3
         n0 -> n1: heartbeat of term 5
         n1 FOLLOWER of n0 in term 5
         n0 -> n1: COMPARE 5/3
         n1 -> n0: alive
         n1 -> n0: 406 end 2
         n0 -> n1: COMPARE 4/2
         n1 -> n0: equal up to 2, end 2
         n0 -> n1: APPEND 3..=3, commit none
         n1 writes 3..=3
         n1 -> n0: equal up to 3, end 3
         n0 has committed 3
         n0 -> n1: COMMIT 3
         n1 has committed 3
         n1 -> n0: equal up to 3, end 3",
    );
    assert_eq!(group.node("n0").poll_timeout().unwrap().0, group.now + 1000);
    says(&mut group, "n2", "n0", Message::Vote(asks(6, Some((5, 3)))));
    assert_eq!(answered(&mut group).unwrap().answer, VoteAnswer::Accept);
    assert_eq!(group.node("n0").role(), Role::Candidate);
}

/// An isolated candidate beside Java members asks again in the same term, as Java does.
#[test]
fn a_candidate_that_nobody_answers_asks_again_in_the_same_term() {
    let mut group = Group::of(&vec![(4, runs(&[(4, 3)])); 3], |_| {});
    group.give("n0", Input::Peer { id: name("n2"), kind: PeerKind::Java });
    group.cut_off("n0");
    group.run(60_000);
    assert_eq!(group.node("n0").term(), Term(4));
    assert!(!group.said.iter().any(|line| line.contains("n0 stores term")));
    let lost = group.members["n0"].records.iter();
    let lost: Vec<String> =
        lost.map(ToString::to_string).filter(|line| line.contains("votes, need")).collect();
    assert_eq!(lost[3], "term 4: 0 votes, need 2, then WAIT_TO_REVOTE");
}

/// A member with a shorter log than a Java leader comes back and hears no heartbeat in time. Java
/// refuses a larger term with a shorter log without going to it, and its leader goes on with the other
/// member: who raised its term would refuse that leader for ever.
#[test]
pub(crate) fn a_member_that_comes_back_behind_a_java_leader_keeps_its_term() {
    use VoteAnswer::{RejectAlreadyHasLeader, RejectSmallLedgerEndIndex};
    for answer in [RejectSmallLedgerEndIndex, RejectAlreadyHasLeader] {
        let mut group = Group::of(&vec![(4, runs(&[(4, 3)])); 3], |_| {});
        for id in ["n1", "n2"] {
            group.give("n0", Input::Peer { id: name(id), kind: PeerKind::Java });
            group.down.insert(id.into());
        }
        for _ in 0..20 {
            group.run(3000);
            for id in ["n1", "n2"] {
                says(&mut group, id, "n0", Message::VoteReply(answers(4, answer)));
            }
        }
        assert_eq!((group.node("n0").term(), group.node("n0").role()), (Term(4), Role::Candidate));
        says(&mut group, "n1", "n0", Message::Heartbeat(Heartbeat { term: Term(4), round: 1 }));
        assert_eq!(group.node("n0").role(), Role::Follower, "{answer}");
    }
}

/// Beside Java members, too, the next term is begun once a majority has no leader and no longer log.
#[test]
fn beside_java_members_a_majority_without_a_leader_goes_to_the_next_term() {
    let mut group = Group::of(&vec![(4, runs(&[(4, 3)])); 3], |_| {});
    for id in ["n1", "n2"] {
        group.give("n0", Input::Peer { id: name(id), kind: PeerKind::Java });
        group.down.insert(id.into());
    }
    group.run(3500);
    let voted = Message::VoteReply(answers(4, VoteAnswer::RejectAlreadyVoted));
    says(&mut group, "n1", "n0", voted);
    assert_eq!(group.node("n0").term(), Term(5));
    says(&mut group, "n1", "n0", Message::VoteReply(answers(5, VoteAnswer::Accept)));
    assert_eq!(group.node("n0").role(), Role::Leader);
}

/// A Java member goes to a larger term before it votes, and votes for itself within a second. While the
/// third member is away it must be asked again before that: else both go from term to term for ever.
#[test]
fn a_java_member_that_goes_to_the_term_first_is_asked_again_at_once() {
    let mut group = Group::of(&vec![(4, runs(&[(4, 3)])); 3], |_| {});
    for id in ["n1", "n2"] {
        group.give("n0", Input::Peer { id: name(id), kind: PeerKind::Java });
        group.down.insert(id.into());
    }
    group.run(3500);
    let not_ready = |term, told| {
        let answer = VoteAnswer::RejectTermNotReady;
        Message::VoteReply(VoteReply { term: Term(told), ..answers(term, answer) })
    };
    says(&mut group, "n1", "n0", not_ready(4, 3));
    assert_eq!(group.node("n0").term(), Term(5), "it has neither a leader nor a longer log");
    group.wire.clear();
    says(&mut group, "n1", "n0", not_ready(5, 4));
    group.now += 20;
    group.tick("n0");
    let asked: Vec<Message> = group.wire.drain(..).map(|letter| letter.message).collect();
    assert_eq!(asked, vec![Message::Vote(asks(5, Some((4, 2)))); 2]);
    says(&mut group, "n1", "n0", Message::VoteReply(answers(5, VoteAnswer::Accept)));
    assert_eq!(group.node("n0").role(), Role::Leader);
}

/// Known fault 13: a vote never waits for data, nor for a cut.
#[test]
fn votes_are_answered_while_the_disk_does_not_flush() {
    let mut group = Group::new(3);
    let leader = group.elect();
    group.run(3000);
    for id in group.up() {
        group.member(&id).held.extend([Held::Flushes, Held::Cuts]);
    }
    for _ in 0..50 {
        group.propose(&leader, 10);
        group.settle();
    }
    let committed = group.node(&leader).committed();
    group.kill(&leader);
    let mut followers = group.up();
    group.run(3000);
    let second = followers.iter().find(|id| group.node(id).role() == Role::Leader).cloned();
    let second = second.expect("a leader without a flush");
    assert!(group.node(&second).committed() >= committed);
    followers.iter_mut().for_each(|id| group.release(id));
    group.run(2000);
    assert!(group.leader().is_some());
    group.assert_equal_logs();
}

/// a member that lost its disk does not help a member that lacks something to the lead.
#[test]
pub(crate) fn the_vote_of_a_wiped_member_does_not_count_for_a_log() {
    let mut group = Group::new(3);
    group.elect_first();
    group.cut_off("n2");
    group.propose("n0", 50);
    group.run(500);
    let committed = group.node("n0").committed();
    // n0 is away, n1 loses its disk: n2 alone has too little, and nobody knows what.
    group.kill("n0");
    group.kill("n1");
    group.heal();
    group.wipe("n1");
    assert_eq!(group.node("n1").provisional(), Some(Provisional::Empty));
    group.run(10_000);
    assert_eq!(group.leader(), None);
    group.restart("n0");
    group.run(4000);
    let leader = group.leader().unwrap();
    assert_eq!(leader, "n0");
    assert!(group.node("n0").committed() >= committed);
    assert_eq!(group.node("n1").provisional(), None);
    assert!(group.members["n1"].whole);
    group.assert_equal_logs();
}

/// All machines went down with unflushed entries: who has most leads, by the votes of all, and says
/// what may be lost.
#[test]
fn after_an_unclean_boot_of_all_the_longest_log_leads_with_an_alarm() {
    let states = [(2, runs(&[(2, 9)])), (2, runs(&[(2, 12)])), (2, runs(&[(2, 10)]))];
    let mut group = Group::of(&states, |_| {});
    for id in ["n0", "n1", "n2"] {
        group.restart_with(id, |state| state.provisional = Some(Provisional::UncleanBoot));
    }
    group.down.insert("n2".into());
    group.run(5000);
    assert_eq!(group.leader(), None, "two of three may both lack what the third has");
    group.down.clear();
    assert_eq!(group.elect(), "n1");
    let alarm = Event::MayHaveLost { from: dledger_core::LogIndex(12) };
    assert!(group.members["n1"].records.iter().any(|record| record.event == alarm));
    group.run(2000);
    assert!(group.up().iter().all(|id| group.node(id).provisional().is_none()));
    group.assert_equal_logs();
}

/// The power went where nothing was flushed yet, and two of three logs came back empty: they are no
/// new members, and wait for the third.
#[test]
fn two_that_lost_their_logs_do_not_lead_over_a_third_that_kept_its_own() {
    let states = [(2, Vec::new()), (2, Vec::new()), (2, runs(&[(2, 12)]))];
    let mut group = Group::of(&states, |_| {});
    for id in ["n0", "n1"] {
        group.restart_with(id, |state| state.provisional = Some(Provisional::UncleanBoot));
    }
    group.down.insert("n2".into());
    group.run(5000);
    assert_eq!(group.leader(), None);
    group.down.clear();
    assert_eq!(group.elect(), "n2");
    group.run(2000);
    group.assert_equal_logs();
}

/// A member whose log began anew further on and is still empty knows that there are entries: it and a
/// wiped one do not elect each other while the third, which has them, is away.
#[test]
fn a_wiped_member_does_not_lead_by_the_vote_of_one_that_is_being_filled() {
    for cause in [Provisional::RolledBack, Provisional::Empty] {
        let states = [(2, runs(&[(2, 12)])), (2, Vec::new()), (2, Vec::new())];
        let mut group = Group::of(&states, |_| {});
        group.member("n0").log.drain(..5);
        group.member("n0").first = 5;
        group.member("n2").first = 5;
        group.restart("n0");
        group.restart_with("n1", |state| state.provisional = Some(Provisional::Empty));
        group.restart_with("n2", |state| state.provisional = Some(cause));
        group.down.insert("n0".into());
        group.run(10_000);
        assert_eq!(group.leader(), None, "{cause}");
        group.down.clear();
        assert_eq!(group.elect(), "n0");
        group.run(2000);
        assert!(group.up().iter().all(|id| group.node(id).provisional().is_none()));
        group.assert_equal_logs();
    }
}

/// A slow disk: entries of the leader were taken and wait to be written when it is gone. Its first entry
/// as a leader would have to go behind them.
#[test]
fn a_member_does_not_stand_before_all_that_it_took_is_written() {
    let mut group = Group::new(3);
    group.elect_first();
    group.run(1000);
    group.cut_off("n2");
    group.member("n1").held.insert(Held::Writes);
    group.propose("n0", 20);
    group.run(500);
    let end = group.node("n1").last();
    assert!(end > group.node("n2").last() && group.node("n1").written() < end.map(|end| end.index));
    group.kill("n0");
    group.heal();
    group.hush();
    group.run(10_000);
    let led = group.said.iter().any(|line| line.contains("LEADER"));
    assert!(!led, "n2 has less, and n1 has not written what it has: {}", group.history());
    group.release("n1");
    assert_eq!(group.elect(), "n1");
    assert!(group.node("n1").last() > end);
    group.restart("n0");
    group.run(2000);
    group.assert_equal_logs();
}

/// a vote that takes long to store, and a disk that comes to hang meanwhile.
#[test]
fn a_round_is_not_won_by_a_member_whose_disk_fails_meanwhile() {
    let mut group = Group::new(3);
    group.elect_first();
    group.run(1000);
    for id in ["n1", "n2"] {
        group.member(id).held.insert(Held::Votes);
    }
    group.kill("n0");
    group.run(3000);
    for id in ["n1", "n2"] {
        group.give(id, Input::Disk { healthy: false });
    }
    group.hush();
    for id in ["n1", "n2"] {
        group.release(id);
    }
    group.run(10_000);
    assert!(!group.said.iter().any(|line| line.contains("LEADER")), "{}", group.history());
    group.give("n2", Input::Disk { healthy: true });
    assert_eq!(group.elect(), "n2");
}

/// Known fault 7: no lead for a broken disk.
#[test]
fn a_leader_whose_disk_fails_steps_down_and_stays_down() {
    let mut group = Group::with(3, |config| {
        config.preferred.insert(name("n0"));
    });
    group.elect_first();
    group.run(3000);
    assert_eq!(group.leader(), Some("n0".into()));
    group.give("n0", Input::Disk { healthy: false });
    assert_eq!(group.node("n0").role(), Role::Candidate);
    group.run(120_000);
    let leader = group.leader().unwrap();
    assert_ne!(leader, "n0");
    let elected = |group: &Group| {
        let records = group.members.values().flat_map(|member| &member.records);
        records.filter(|record| matches!(record.event, Event::Elected { .. })).count()
    };
    assert_eq!(elected(&group), 2, "one election was enough");
    group.give("n0", Input::Disk { healthy: true });
    group.run(5000);
    assert_eq!(group.leader(), Some("n0".into()));
}

/// heartbeats alone do not make a leader.
#[test]
pub(crate) fn a_leader_whose_disk_hangs_steps_down_within_an_election_timeout() {
    let mut group = Group::new(3);
    group.elect_first();
    group.run(3000);
    group.member("n0").held.insert(Held::Flushes);
    group.propose("n0", 3);
    group.run(1250);
    let hangs = Event::SteppedDown { cause: StepDown::DiskHangs };
    assert!(group.members["n0"].records.iter().any(|record| record.event == hangs));
    group.run(10_000);
    let leader = group.leader().unwrap();
    assert_ne!(leader, "n0");
    // What it proposed was on a majority, and stays.
    assert_eq!(group.node(&leader).last().unwrap().term, group.node(&leader).term());
    assert!(group.shape(&leader).contains(&(1, 4)));
    group.release("n0");
    group.run(1000);
    group.assert_equal_logs();
}
