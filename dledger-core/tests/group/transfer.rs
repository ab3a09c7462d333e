//! Handing the lead over.

use dledger_core::{
    CallId, Event, Heartbeat, Input, LogIndex, Message, Refusal, Role, Term, TransferCode,
    TransferRequest,
};

use crate::harness::{Group, name};

fn transfer(group: &mut Group, from: &str, to: Option<&str>) {
    group.give(from, Input::Transfer { call: CallId(1), to: to.map(name) });
}

/// No pause, no pre-vote, and the old leader forwards what waits to the new one.
#[test]
fn the_lead_goes_to_a_follower_that_has_everything() {
    let mut group = Group::new(3);
    group.elect_first();
    group.propose("n0", 3);
    group.run(1000);
    group.cut_off("n1");
    group.hush();
    transfer(&mut group, "n0", Some("n2"));
    group.propose("n0", 1);
    assert_eq!(group.members["n0"].refused, [Refusal::Transferring { to: name("n2") }]);
    group.settle();
    group.told(
        "n0 -> n2: take the lead of term 1 from 3 on
         n2 CANDIDATE in term 1
         n2 CANDIDATE in term 2
         n2 stores term 2, vote for n2
         n2 -> n0: vote in term 2, I have 1/3, as you asked
         n0 CANDIDATE in term 2
         n0 stores term 2, vote for n2
         n0 -> n2: ACCEPT in term 2
         n2 LEADER in term 2
         n2 opens its term with 4..=4
         n2 -> n0: I lead
         n2 -> n0: heartbeat of term 2
         n0 FOLLOWER of n2 in term 2
         n2 -> n0: COMPARE 2/4
         n0 -> n2: alive
         n0 -> n2: 406 end 3
         n2 -> n0: COMPARE 1/3
         n0 -> n2: equal up to 3, end 3
         n2 -> n0: APPEND 4..=4, commit 3
         n0 writes 4..=4
         n0 -> n2: equal up to 4, end 4
         n2 has committed 4
         n2 -> n0: COMMIT 4
         n0 has committed 4
         n0 -> n2: equal up to 4, end 4",
    );
    assert_eq!(group.members["n0"].transfers, [TransferCode::Success]);
}

/// A rolling restart: the member that stopped a moment ago lacks nothing, and cannot lead.
#[test]
fn the_lead_does_not_go_to_a_member_whose_connection_is_lost() {
    let mut group = Group::new(3);
    group.elect_first();
    group.propose("n0", 3);
    group.run(1000);
    group.kill("n1");
    transfer(&mut group, "n0", Some("n1"));
    assert_eq!(group.members["n0"].transfers, [TransferCode::TakeLeadershipFailed]);
    transfer(&mut group, "n0", None);
    group.settle();
    assert_eq!(group.node("n2").role(), Role::Leader);
    group.restart("n1");
    group.run(2000);
    transfer(&mut group, "n2", Some("n1"));
    group.settle();
    assert_eq!(group.node("n1").role(), Role::Leader, "it answers again");
}

/// The other members do not refuse a candidate that the leader named, though they hear of the leader.
#[test]
fn a_transfer_takes_one_round_of_votes() {
    let mut group = Group::new(5);
    group.elect_first();
    group.run(1000);
    let term = group.node("n0").term();
    transfer(&mut group, "n0", Some("n3"));
    group.settle();
    assert_eq!(group.leader().as_deref(), Some("n3"));
    assert_eq!(group.node("n3").term(), term.next());
    assert!(!group.said.iter().any(|line| line.contains("ALREADY_HAS_LEADER")));
}

#[test]
fn what_was_appended_is_committed_before_the_lead_goes() {
    let mut group = Group::with(3, |config| config.push_bytes = 200);
    group.elect_first();
    group.run(1000);
    group.propose("n0", 20);
    transfer(&mut group, "n0", Some("n1"));
    group.settle();
    assert_eq!(group.leader().as_deref(), Some("n1"));
    assert!(group.node("n1").committed() > Some(LogIndex(20)));
}

#[test]
fn a_transfer_is_refused_with_its_reason() {
    let mut group = Group::new(3);
    group.elect_first();
    group.run(1000);
    group.cut_off("n2");
    for _ in 0..20 {
        group.propose("n0", 100);
    }
    group.run(100);
    transfer(&mut group, "n1", Some("n2"));
    assert_eq!(group.member("n1").transfers.pop(), Some(TransferCode::NotLeader));
    for (to, code) in [
        ("n9", TransferCode::UnknownMember),
        ("n2", TransferCode::FallBehindTooMuch),
        ("n0", TransferCode::Success),
    ] {
        transfer(&mut group, "n0", Some(to));
        assert_eq!(group.member("n0").transfers.pop(), Some(code), "{to}");
    }
    group.give("n1", Input::Disk { healthy: false });
    group.run(400);
    transfer(&mut group, "n0", Some("n1"));
    assert_eq!(group.member("n0").transfers.pop(), Some(TransferCode::DiskError));
    group.give("n1", Input::Disk { healthy: true });
    group.run(400);
    transfer(&mut group, "n0", None);
    transfer(&mut group, "n0", Some("n1"));
    assert_eq!(group.member("n0").transfers.pop(), Some(TransferCode::LeaderTransferring));
    group.run(400);
    assert_eq!(group.leader().as_deref(), Some("n1"));
}

/// A transfer that gets nowhere gives the appends back within an election timeout.
#[test]
fn after_a_failed_transfer_the_leader_takes_appends_again() {
    let mut group = Group::new(3);
    group.elect_first();
    group.run(1000);
    let term = group.node("n0").term();
    group.cut_off("n2");
    transfer(&mut group, "n0", Some("n2"));
    group.propose("n0", 1);
    assert_eq!(group.members["n0"].refused.len(), 1);
    group.run(1300);
    assert_eq!(group.members["n0"].transfers, [TransferCode::TakeLeadershipFailed]);
    assert_eq!((group.node("n0").role(), group.node("n0").term()), (Role::Leader, term));
    group.propose("n0", 1);
    group.settle();
    assert_eq!(group.node("n0").committed(), group.node("n0").last().map(|last| last.index));
    assert_eq!(group.members["n0"].refused.len(), 1);
}

#[test]
fn a_follower_is_not_told_by_just_anybody_to_lead() {
    let mut group = Group::new(3);
    group.elect_first();
    group.run(1000);
    for (from, term, transferee) in [("n2", 1, "n1"), ("n0", 9, "n1"), ("n0", 1, "n2")] {
        let request = TransferRequest {
            term: Term(term),
            transferee: name(transferee),
            index: Some(LogIndex(0)),
        };
        let message = Message::Transfer(request);
        group.give("n1", Input::Received { from: name(from), call: CallId(3), message });
        group.settle();
        assert_eq!(group.leader().as_deref(), Some("n0"), "{from} {term} {transferee}");
    }
}

/// Java's race: a heartbeat of the old term makes a follower of who was just asked to lead.
#[test]
fn a_heartbeat_of_the_old_term_does_not_undo_a_transfer() {
    let mut group = Group::new(3);
    group.elect_first();
    group.run(1000);
    let request =
        TransferRequest { term: Term(1), transferee: name("n1"), index: Some(LogIndex(0)) };
    let message = Message::Transfer(request);
    group.give("n1", Input::Received { from: name("n0"), call: CallId(3), message });
    let message = Message::Heartbeat(Heartbeat { term: Term(1), round: 99 });
    group.give("n1", Input::Received { from: name("n0"), call: CallId(4), message });
    assert_eq!((group.node("n1").role(), group.node("n1").term()), (Role::Candidate, Term(2)));
    group.settle();
    assert_eq!(group.leader().as_deref(), Some("n1"));
}

#[test]
fn a_preferred_leader_gets_the_lead_once_it_has_caught_up() {
    let mut group = Group::with(3, |config| {
        config.preferred.insert(name("n2"));
        config.push_bytes = 1000;
    });
    group.down.insert("n2".into());
    group.elect_first();
    for _ in 0..50 {
        group.propose("n0", 100);
        group.settle();
    }
    group.run(5000);
    let leader = group.leader().unwrap();
    group.restart("n2");
    group.run(3000);
    assert_eq!(group.leader().as_deref(), Some("n2"));
    let ended = |record: &dledger_core::Record| {
        matches!(record.event, Event::TransferEnded { code: TransferCode::Success, .. })
    };
    assert!(group.members[&leader].records.iter().any(ended));
    group.assert_equal_logs();
}

/// Known fault 7, for a disk that takes appends but is too full for those of clients.
#[test]
fn a_leader_without_room_hands_over_to_one_that_has_some() {
    let mut group = Group::with(3, |config| {
        config.preferred.insert(name("n0"));
    });
    group.elect_first();
    group.run(1000);
    // The one that has as much has no room either, and nobody takes the lead back.
    group.give("n1", Input::Room { enough: false });
    group.run(500);
    group.give("n0", Input::Room { enough: false });
    group.run(2000);
    assert_eq!(group.leader().as_deref(), Some("n2"));
    group.run(60_000);
    assert_eq!(group.leader().as_deref(), Some("n2"));
    // Where none has room the leader stays: it can lead, and serves readers.
    group.give("n2", Input::Room { enough: false });
    group.run(60_000);
    assert_eq!(group.leader().as_deref(), Some("n2"));
    group.give("n0", Input::Room { enough: true });
    group.run(10_000);
    assert_eq!(group.leader().as_deref(), Some("n0"));
    group.assert_equal_logs();
}

/// An owner whose clients wait hands the lead over itself, when it is told to whom.
#[test]
fn where_the_owner_hands_over_the_leader_only_tells_to_whom() {
    let mut group = Group::with(3, |config| {
        config.preferred.insert(name("n2"));
        config.advises = true;
    });
    group.elect_first();
    assert_eq!(group.node("n0").advised(), None, "its term is not opened");
    group.run(5000);
    assert_eq!(group.node("n0").advised(), Some(&name("n2")));
    group.propose("n0", 1);
    assert_eq!(group.members["n0"].refused.len(), 0, "it takes appends");
    group.settle();
    // A member that does not take the lead is named ever later.
    group.cut_off("n2");
    transfer(&mut group, "n0", Some("n2"));
    group.run(1300);
    assert_eq!(group.members["n0"].transfers, [TransferCode::TakeLeadershipFailed]);
    assert_eq!(group.node("n0").advised(), None);
    group.heal();
    group.run(5000);
    assert_eq!(group.node("n0").advised(), Some(&name("n2")));
    transfer(&mut group, "n0", Some("n2"));
    group.run(1000);
    assert_eq!(group.leader().as_deref(), Some("n2"));
    assert_eq!(group.node("n0").advised(), None);
    assert_eq!(group.node("n2").advised(), None);
}

/// Known fault 7: each failure doubles the pause before the next try.
#[test]
fn a_preferred_leader_that_cannot_lead_is_asked_ever_less_often() {
    let mut group = Group::with(3, |config| {
        config.preferred.insert(name("n2"));
    });
    group.elect_first();
    // It follows, and is never told to lead.
    let mut started = Vec::new();
    for _ in 0..600 {
        group.wire.retain(|letter| !matches!(letter.message, Message::Transfer(_)));
        group.run_once();
        started = group.members["n0"]
            .records
            .iter()
            .filter(|record| matches!(record.event, Event::TransferStarted { .. }))
            .map(|record| record.at.0)
            .collect();
    }
    let pauses: Vec<u64> = started.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.len() >= 3, "{pauses:?}");
    assert!(pauses.windows(2).skip(1).all(|pair| pair[1] == 2 * pair[0]), "{pauses:?}");
    assert_eq!(group.leader().as_deref(), Some("n0"));
}
