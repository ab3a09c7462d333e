//! How followers get the leader's log, and when an entry is committed.

use dledger_core::{
    CallId, EntryId, Event, Heartbeat, Input, Life, LogIndex, Message, Millis, Node, Output,
    PeerKind, Policy, Provisional, Push, PushCode, PushKind, PushName, PushReply, Range, Refusal,
    Role, State, Term, VoteAnswer, VoteReply,
};

use crate::harness::{Entry, Group, Held, Letter, id, name, runs};

fn says(group: &mut Group, from: &str, to: &str, message: Message) {
    group.give(to, Input::Received { from: name(from), call: CallId(9), message });
}

/// A follower's answer to the push of one entry that it holds and has made durable.
fn appended(term: u64, index: u64, life: u64) -> PushReply {
    PushReply {
        term: Term(term),
        code: PushCode::Success,
        kind: PushName::Append,
        request_term: Term(term),
        first: Some(LogIndex(index)),
        count: 1,
        known: None,
        begin: Some(LogIndex(0)),
        end: Some(LogIndex(index)),
        written: Some(LogIndex(index)),
        flushed: Some(LogIndex(index)),
        life: Life(life),
        provisional: false,
    }
}

fn push(term: u64, commit: Option<u64>, kind: PushKind) -> Message {
    Message::Push(Push {
        term: Term(term),
        commit: commit.map(LogIndex),
        whole: None,
        known: None,
        kind,
    })
}

fn truncate(at: EntryId, next_term: Option<u64>) -> PushKind {
    PushKind::Truncate { id: at, position: 0, same: None, next_term: next_term.map(Term) }
}

/// Entry `first` of term 5 on its way from `n0` to `n1`, in a push that names no entry before it, as Java's do.
fn append_unplaced(commit: Option<u64>, first: u64) -> Letter {
    let range = Range {
        before: None,
        first: LogIndex(first),
        count: 1,
        terms: vec![(Term(5), LogIndex(first))],
        bytes: 100,
    };
    Letter {
        from: "n0".into(),
        to: "n1".into(),
        call: None,
        message: push(5, commit, PushKind::Append(range)),
        entries: vec![Entry { id: id(5, first), body: first }],
    }
}

/// The answers to pushes that lie on the wire, as codes and ends.
fn push_replies(group: &mut Group) -> Vec<(PushCode, Option<u64>)> {
    let letters = std::mem::take(&mut group.wire).into_iter();
    let replies = letters.filter_map(|letter| match letter.message {
        Message::PushReply(reply) => Some((reply.code, reply.end.map(|end| end.0))),
        _ => None,
    });
    replies.collect()
}

/// Bisection and a cut: three questions for a tail of six.
#[test]
fn a_follower_with_another_tail_is_brought_in_step() {
    let states = [(5, runs(&[(1, 10), (3, 4)])), (5, runs(&[(1, 10), (2, 6)])), (5, Vec::new())];
    let mut group = Group::of(&states, |_| {});
    group.cut_off("n2");
    group.tick("n0");
    group.now = 400;
    group.tick("n0");
    // n0 leads; what is said of votes is shown elsewhere.
    while group.node("n0").role() != Role::Leader {
        assert!(group.pass());
    }
    group.hush();
    group.settle();
    group.told(
        "n0 -> n1: heartbeat of term 6
         n1 FOLLOWER of n0 in term 6
         n0 -> n1: COMPARE 6/14
         n1 -> n0: alive
         n1 -> n0: 406 end 15
         n0 -> n1: COMPARE 3/13
         n1 -> n0: 406 end 15
         n0 -> n1: COMPARE 3/11
         n1 -> n0: 406 end 15
         n0 -> n1: COMPARE 1/7
         n1 -> n0: equal up to 7, end 15
         n0 -> n1: COMPARE 1/9
         n1 -> n0: equal up to 9, end 15
         n0 -> n1: COMPARE 3/10
         n1 -> n0: 406 end 15
         n0 -> n1: TRUNCATE behind 1/9
         n1 cuts from 10 on
         n1 -> n0: equal up to 9, end 9
         n0 -> n1: APPEND 10..=14, commit none
         n1 writes 10..=14
         n1 -> n0: equal up to 14, end 14
         n0 has committed 14
         n0 -> n1: COMMIT 14
         n1 has committed 14
         n1 -> n0: equal up to 14, end 14",
    );
    let cut = Event::Truncated { from: LogIndex(10), last: Some(id(2, 15)) };
    assert!(group.members["n1"].records.iter().any(|record| record.event == cut));
}

/// An append in a quiet group, from the sender to the followers' readers. Known fault 14: nothing
/// waits for a timer.
#[test]
fn an_append_is_committed_everywhere_without_any_timer() {
    let mut group = Group::new(3);
    group.elect_first();
    group.settle();
    group.hush();
    group.propose("n0", 2);
    group.settle();
    group.told(
        "n0 appends 1..=2
         n0 -> n1: APPEND 1..=2, commit 0
         n1 writes 1..=2
         n0 -> n2: APPEND 1..=2, commit 0
         n2 writes 1..=2
         n1 -> n0: equal up to 2, end 2
         n0 has committed 2
         n2 -> n0: equal up to 2, end 2
         n0 -> n1: COMMIT 2
         n1 has committed 2
         n0 -> n2: COMMIT 2
         n2 has committed 2
         n1 -> n0: equal up to 2, end 2
         n2 -> n0: equal up to 2, end 2",
    );
}

/// what counts under SYNC_FLUSH is a majority of flushes; the leader's own need not be among
/// them.
#[test]
pub(crate) fn an_entry_is_committed_by_the_flushes_of_a_majority() {
    let mut group = Group::new(3);
    group.elect_first();
    for id in ["n0", "n1", "n2"] {
        group.member(id).held.insert(Held::Flushes);
    }
    group.propose("n0", 1);
    group.settle();
    for id in ["n0", "n1", "n2"] {
        assert_eq!(group.node(id).committed(), Some(LogIndex(0)));
    }
    group.release("n1");
    group.settle();
    assert_eq!(group.node("n0").committed(), Some(LogIndex(0)));
    group.release("n2");
    group.settle();
    assert_eq!(group.node("n0").committed(), Some(LogIndex(1)));
    assert_eq!(group.node("n2").committed(), Some(LogIndex(1)));
}

#[test]
fn under_async_flush_a_majority_of_page_caches_counts() {
    let mut group = Group::with(3, |config| config.policy = Policy::Written);
    group.elect_first();
    for id in ["n0", "n1", "n2"] {
        group.member(id).held.insert(Held::Flushes);
    }
    // A follower learns the leader's policy from its heartbeats; without one its own counts.
    group.propose("n0", 1);
    group.settle();
    assert_eq!(group.node("n0").committed(), Some(LogIndex(1)));
}

/// Known fault 100, figure 8 of the Raft paper: an entry of an older term on a majority is not
/// committed, as another leader can still take its place.
#[test]
pub(crate) fn an_entry_of_an_older_term_is_committed_only_with_one_of_the_leaders_own() {
    // (c) of the figure: S1 leads again, in term 4, and has brought 2/1 to a majority.
    let with = |tail: &[(u64, u64)]| runs(&[&[(1, 1)], tail].concat());
    let states = [
        (3, with(&[(2, 1)])),
        (3, with(&[(2, 1)])),
        (3, with(&[])),
        (3, with(&[])),
        (3, with(&[(3, 1)])),
    ];
    let mut group = Group::of(&states, |_| {});
    group.cut_off("n3");
    group.cut_off("n4");
    group.tick("n0");
    group.now = 400;
    group.tick("n0");
    let mut held_back = Vec::new();
    for _ in 0..200 {
        let Some(letter) = group.wire.pop_front() else { break };
        // Its opening entry gets to nobody.
        let opening = |range: &Range| range.terms.iter().any(|(term, _)| *term == Term(4));
        match &letter.message {
            Message::Push(Push { kind: PushKind::Append(range), .. }) if opening(range) => {
                held_back.push(letter);
            }
            _ => group.deliver(letter),
        }
    }
    assert_eq!(group.node("n0").role(), Role::Leader);
    assert_eq!(group.node("n0").committed(), None);
    // (d): S5 is elected by the others, and overwrites it. Nobody had been told that it is there.
    group.kill("n0");
    group.heal();
    group.kill("n1");
    group.run(3000);
    assert_eq!(group.leader().as_deref(), Some("n4"));
    group.restart("n0");
    group.restart("n1");
    group.run(3000);
    group.assert_equal_logs();
    assert_eq!(group.shape("n0")[..2], [(1, 1), (3, 1)]);
}

/// Known fault 8: the answers are lost, the requests are not. A repeat is answered with how far the
/// logs are equal.
#[test]
fn repeats_are_answered_with_what_is_equal() {
    let mut group = Group::new(3);
    group.elect_first();
    group.run(1000);
    group.cut.insert(("n1".into(), "n0".into()));
    for _ in 0..20 {
        group.propose("n0", 10);
        group.run(50);
    }
    let in_flight = group.node("n0").progress()[0].in_flight;
    assert!(in_flight > 0);
    group.heal();
    group.run(700);
    let progress = &group.node("n0").progress()[0];
    assert_eq!(progress.written, group.node("n0").last().map(|last| last.index));
    assert_eq!(progress.in_flight, 0);
    assert!(!group.said.iter().any(|line| line.contains("413")));
}

/// Known fault 11: no new entry is needed for a wiped follower to be filled.
#[test]
fn a_wiped_follower_is_filled_without_new_entries() {
    for told in [true, false] {
        let mut group = Group::new(3);
        group.elect_first();
        group.propose("n0", 1000);
        group.run(1000);
        if told {
            group.kill("n2");
        }
        group.wipe("n2");
        let end = group.node("n0").last();
        group.run(1500);
        assert_eq!(group.node("n2").last(), end);
        assert_eq!(group.node("n2").committed(), end.map(|end| end.index));
        assert_eq!(group.node("n2").provisional(), None);
        group.assert_equal_logs();
    }
}

/// a wiped follower's word does not count before it has what was committed when it came back.
#[test]
fn a_wiped_follower_counts_once_it_has_what_was_committed() {
    let mut group = Group::with(3, |config| config.push_bytes = 1000);
    group.elect_first();
    group.propose("n0", 100);
    group.run(1000);
    group.kill("n1");
    group.kill("n2");
    group.wipe("n2");
    group.propose("n0", 50);
    // Push by push: the follower vouches for some, and none of them counts.
    for _ in 0..40 {
        let written = group.node("n0").progress()[1].written;
        if written < Some(LogIndex(100)) {
            assert_eq!(group.node("n0").committed(), Some(LogIndex(100)));
            assert!(group.node("n2").provisional().is_some());
        }
        group.pass();
    }
    group.run(1000);
    assert_eq!(group.node("n0").committed(), Some(LogIndex(150)));
    assert_eq!(group.node("n2").provisional(), None);
}

/// Known faults of DLedger 278 and 316: never beyond what this node has, and has in common.
#[test]
pub(crate) fn a_follower_commits_no_more_than_it_has_in_common_with_its_leader() {
    let mut group = Group::of(&vec![(4, runs(&[(2, 10)])); 3], |_| {});
    let compare = PushKind::Compare { id: id(2, 5), same: None };
    says(&mut group, "n0", "n1", push(6, Some(500), PushKind::Commit));
    assert_eq!(group.node("n1").committed(), None);
    says(&mut group, "n0", "n1", push(6, Some(500), compare));
    assert_eq!(group.node("n1").committed(), Some(LogIndex(5)));
}

/// Java cuts what is committed without a word.
#[test]
#[should_panic(expected = "it is committed up to 5")]
fn a_cut_below_what_is_committed_stops_the_node() {
    let mut group = Group::of(&vec![(4, runs(&[(2, 10)])); 3], |_| {});
    let compare = PushKind::Compare { id: id(2, 5), same: None };
    says(&mut group, "n0", "n1", push(6, Some(5), compare));
    assert_eq!(group.node("n1").committed(), Some(LogIndex(5)));
    group.deliver(Letter {
        from: "n2".into(),
        to: "n1".into(),
        call: None,
        message: push(7, None, truncate(id(2, 4), Some(3))),
        entries: vec![group.members["n1"].log[4]],
    });
}

/// R-4 and a network that repeats: what the leader has sent since stays, also after a restart.
#[test]
pub(crate) fn a_cut_that_comes_late_cuts_nothing() {
    let states = [(5, runs(&[(1, 10), (3, 4)])), (5, runs(&[(1, 10), (2, 6)])), (5, Vec::new())];
    let mut group = Group::of(&states, |_| {});
    group.cut_off("n2");
    group.run(1000);
    assert_eq!(group.leader().as_deref(), Some("n0"));
    let log = group.members["n1"].log.clone();
    let term = group.node("n0").term().0;
    for restarted in [false, true] {
        if restarted {
            group.restart("n1");
        }
        let late = truncate(id(1, 9), Some(3));
        group.deliver(Letter {
            from: "n0".into(),
            to: "n1".into(),
            call: None,
            message: push(term, None, late),
            entries: vec![log[9]],
        });
        assert_eq!(group.members["n1"].log, log);
        let replies = push_replies(&mut group);
        assert_eq!(replies, [(PushCode::Success, Some(log.len() as u64 - 1))]);
    }
}

#[test]
fn pushes_that_overtake_each_other_are_put_in_order_within_a_bound() {
    let mut group = Group::with(3, |config| {
        config.push_bytes = 200;
        config.early_bytes = 1000;
    });
    group.elect_first();
    group.run(1500);
    group.cut_off("n2");
    group.propose("n0", 10);
    let mut pushes: Vec<_> = std::mem::take(&mut group.wire).into();
    pushes.retain(|letter| letter.to == "n1");
    assert_eq!(pushes.len(), 5);
    group.hush();
    for letter in pushes.into_iter().rev() {
        group.deliver(letter);
    }
    let written: Vec<&String> = group.said.iter().filter(|line| line.contains("writes")).collect();
    assert_eq!(
        written,
        [
            "n1 writes 1..=2",
            "n1 writes 3..=4",
            "n1 writes 5..=6",
            "n1 writes 7..=8",
            "n1 writes 9..=10"
        ]
    );
    group.settle();
    assert_eq!(group.node("n0").committed(), Some(LogIndex(10)));
    // Too many that come early are refused, not kept.
    group.propose("n0", 20);
    let mut pushes: Vec<_> = std::mem::take(&mut group.wire).into();
    pushes.retain(|letter| letter.to == "n1");
    pushes.remove(0);
    for letter in pushes {
        group.deliver(letter);
    }
    let refused = push_replies(&mut group);
    assert_eq!(refused.len(), 4);
    assert!(refused.iter().all(|(code, _)| *code == PushCode::PushRequestIsFull));
    group.run(3000);
    assert_eq!(group.node("n0").committed(), Some(LogIndex(30)));
}

/// the window bounds what is in flight, and nobody waits for the slow one.
#[test]
fn a_slow_follower_has_a_window_and_delays_nobody() {
    let mut group = Group::with(3, |config| {
        config.push_bytes = 1000;
        config.window_bytes = 3000;
    });
    group.elect_first();
    group.run(1000);
    group.cut.insert(("n2".into(), "n0".into()));
    for _ in 0..20 {
        group.propose("n0", 10);
        group.run(10);
    }
    assert_eq!(group.node("n0").committed(), Some(LogIndex(200)));
    let slow = &group.node("n0").progress()[1];
    assert!(slow.in_flight <= 3000, "{}", slow.in_flight);
    group.heal();
    group.run(3000);
    group.assert_equal_logs();
}

#[test]
fn what_waits_for_a_majority_is_bounded() {
    let mut group = Group::with(3, |config| config.pending_entries = 25);
    group.elect_first();
    group.run(500);
    group.cut_off("n1");
    group.cut_off("n2");
    for _ in 0..3 {
        group.propose("n0", 10);
    }
    let full = Refusal::PendingFull { entries: 20, bytes: 2000 };
    assert_eq!(group.members["n0"].refused, [full]);
    group.heal();
    group.run(600);
    group.propose("n0", 10);
    group.settle();
    assert_eq!(group.members["n0"].refused.len(), 1);
    assert_eq!(group.node("n0").pending(), (0, 0));
}

/// P8: an answer to the leader of an earlier term says nothing about this term's log.
#[test]
pub(crate) fn an_acknowledgement_of_an_older_term_does_not_count() {
    let mut group = Group::of(&vec![(4, runs(&[(2, 10)])); 3], |_| {});
    group.cut_off("n1");
    group.cut_off("n2");
    group.tick("n0");
    group.now = 400;
    group.tick("n0");
    for vote in [(5, true), (5, false)] {
        let reply = VoteReply {
            term: Term(4),
            answer: VoteAnswer::Accept,
            request_term: Term(vote.0),
            pre_vote: vote.1,
            provisional: false,
        };
        says(&mut group, "n1", "n0", Message::VoteReply(reply));
    }
    assert_eq!(group.node("n0").role(), Role::Leader);
    let mut reply = PushReply { request_term: Term(4), ..appended(5, 10, 2) };
    says(&mut group, "n1", "n0", Message::PushReply(reply.clone()));
    assert_eq!(group.node("n0").committed(), None);
    // Nor one for more than the leader has.
    reply.request_term = Term(5);
    reply.written = Some(LogIndex(99));
    says(&mut group, "n1", "n0", Message::PushReply(reply.clone()));
    assert_eq!(group.node("n0").committed(), None);
    reply.written = Some(LogIndex(10));
    says(&mut group, "n1", "n0", Message::PushReply(reply));
    assert_eq!(group.node("n0").committed(), Some(LogIndex(10)));
}

/// The leader's log begins behind the follower's end.
#[test]
fn a_follower_whose_log_lies_before_the_leaders_begins_anew_there() {
    let mut group = Group::new(3);
    group.elect_first();
    group.propose("n0", 100);
    group.run(1000);
    group.kill("n2");
    group.propose("n0", 100);
    group.run(1000);
    for id in ["n0", "n1"] {
        // Retention takes the first 150.
        let member = group.member(id);
        member.log.drain(..150);
        member.first = 150;
        group.give(id, Input::Trimmed { first: LogIndex(150) });
    }
    group.hush();
    group.restart("n2");
    group.member("n2").held.insert(Held::Flushes);
    group.run(700);
    // It has less than it acknowledged until it is filled: it votes provisionally meanwhile.
    assert_eq!(group.node("n2").provisional(), Some(Provisional::RolledBack));
    group.release("n2");
    group.run(1500);
    assert_eq!(group.node("n2").provisional(), None);
    assert!(group.said.contains(&"n2 begins anew with 1/150".to_owned()), "{}", group.history());
    assert_eq!(group.members["n2"].first, 150);
    group.assert_equal_logs();
    assert_eq!(group.node("n2").committed(), Some(LogIndex(200)));
}

/// A new leader hears of a follower's present life before an answer of the one before comes in: that
/// one speaks for a log that may be gone, and what the follower says from then on still counts.
#[test]
fn an_answer_of_an_earlier_life_that_comes_late_neither_counts_nor_silences_the_present_one() {
    let mut group = Group::new(3);
    group.cut_off("n2");
    group.elect_first();
    group.heal();
    group.run(1500);
    group.cut_off("n1");
    group.cut_off("n2");
    group.propose("n0", 1);
    let late = appended(1, 1, 99);
    says(&mut group, "n2", "n0", Message::PushReply(late));
    assert_eq!(group.node("n0").committed(), Some(LogIndex(0)));
    group.heal();
    group.run(5000);
    group.assert_equal_logs();
    assert_eq!(group.node("n2").committed(), Some(LogIndex(1)));
}

/// A follower without room refuses, and takes the same entries once there is some.
#[test]
fn a_follower_whose_disk_is_full_catches_up_when_there_is_room() {
    let mut group = Group::new(3);
    group.elect_first();
    group.run(1000);
    group.member("n1").full = true;
    group.propose("n0", 5);
    group.settle();
    assert!(group.said.contains(&"n1 -> n0: 415 end 0".to_owned()), "{}", group.history());
    assert_eq!(group.node("n0").committed(), Some(LogIndex(5)));
    group.member("n1").full = false;
    group.run(2000);
    group.assert_equal_logs();
}

/// Java names no entry before a push: it is taken only where the whole log is known to be equal.
#[test]
fn entries_of_a_java_leader_are_taken_after_a_comparison() {
    let mut group = Group::of(&vec![(5, runs(&[(2, 10)])); 3], |_| {});
    group.give("n1", Input::Peer { id: name("n0"), kind: PeerKind::Java });
    let beat = Message::Heartbeat(Heartbeat { term: Term(5), round: 0 });
    says(&mut group, "n0", "n1", beat);
    group.wire.clear();
    let append = |first| append_unplaced(Some(0), first);
    group.deliver(append(10));
    assert_eq!(push_replies(&mut group), [(PushCode::InconsistentState, Some(9))]);
    // Its own bytes there differ: not equal, though term and index are.
    let compare = |same| push(5, Some(0), PushKind::Compare { id: id(2, 9), same });
    says(&mut group, "n0", "n1", compare(Some(false)));
    assert_eq!(push_replies(&mut group), [(PushCode::InconsistentState, Some(9))]);
    says(&mut group, "n0", "n1", compare(Some(true)));
    group.deliver(append(10));
    assert_eq!(
        push_replies(&mut group),
        [(PushCode::Success, Some(9)), (PushCode::Success, Some(10))]
    );
}

/// A Java leader counts the answer to a COMPARE as an acknowledgement of all up to that entry, and has
/// no marks to look at: under SYNC_FLUSH the answer waits until the entry is durable.
#[test]
pub(crate) fn an_entry_that_is_not_durable_is_not_told_to_a_java_leader_as_equal() {
    let compare = || push(5, None, PushKind::Compare { id: id(5, 10), same: Some(true) });
    for (kind, early) in [(PeerKind::Unknown, 1), (PeerKind::Java, 0)] {
        let mut group = Group::of(&vec![(5, runs(&[(2, 10)])); 3], |_| {});
        group.member("n1").held.insert(Held::Flushes);
        group.give("n1", Input::Peer { id: name("n0"), kind });
        let before = PushKind::Compare { id: id(2, 9), same: Some(true) };
        says(&mut group, "n0", "n1", push(5, None, before));
        assert_eq!(push_replies(&mut group), [(PushCode::Success, Some(9))]);
        group.deliver(Letter {
            from: "n0".into(),
            to: "n1".into(),
            call: None,
            message: push(
                5,
                None,
                PushKind::Append(Range {
                    before: None,
                    first: LogIndex(10),
                    count: 1,
                    terms: vec![(Term(5), LogIndex(10))],
                    bytes: 100,
                }),
            ),
            entries: vec![Entry { id: id(5, 10), body: 10 }],
        });
        says(&mut group, "n0", "n1", compare());
        assert_eq!(push_replies(&mut group).len(), early, "{kind:?}");
        group.release("n1");
        let told = push_replies(&mut group);
        assert_eq!(told, vec![(PushCode::Success, Some(10)); 2 - early], "{kind:?}");
    }
}

/// A push came early, as the one in front of it was lost, and the leader compares again. A Java leader
/// sends other ranges then, and an answer to the old one would make it wait for ever: it is forgotten.
/// A leader of ours gets both answers.
#[test]
pub(crate) fn what_a_java_leader_pushed_before_it_compares_is_not_answered() {
    let append = |first| append_unplaced(None, first);
    for (kind, answers) in [(PeerKind::Unknown, vec![10, 11]), (PeerKind::Java, vec![10])] {
        let mut group = Group::of(&vec![(5, runs(&[(2, 10)])); 3], |_| {});
        group.give("n1", Input::Peer { id: name("n0"), kind });
        let compare = || push(5, None, PushKind::Compare { id: id(2, 9), same: Some(true) });
        says(&mut group, "n0", "n1", compare());
        group.deliver(append(11));
        says(&mut group, "n0", "n1", compare());
        group.wire.clear();
        group.deliver(append(10));
        let told = push_replies(&mut group);
        let answers: Vec<_> =
            answers.into_iter().map(|end| (PushCode::Success, Some(end))).collect();
        assert_eq!(told.last(), answers.last(), "{kind:?}");
        assert_eq!(told.len(), answers.len(), "{kind:?}");
        assert!(group.node("n1").loads().iter().all(|load| load.amount == 0), "{kind:?}");
    }
}

/// Under SYNC_FLUSH the word of a Java member, which never waits for a flush, counts if that is said.
#[test]
fn acknowledgements_of_java_members_count_if_that_is_said() {
    for counts in [true, false] {
        let mut group = Group::with(3, |config| config.count_java_acks = counts);
        group.elect_first();
        group.cut_off("n1");
        group.cut_off("n2");
        group.give("n0", Input::Peer { id: name("n2"), kind: PeerKind::Java });
        group.propose("n0", 1);
        let reply = PushReply {
            // Sent after the node that ran there before was heard of.
            known: Some(group.members["n2"].config.life),
            flushed: None,
            ..appended(1, 1, 0)
        };
        says(&mut group, "n2", "n0", Message::PushReply(reply));
        let expected = if counts { 1 } else { 0 };
        assert_eq!(group.node("n0").committed(), Some(LogIndex(expected)));
    }
}

/// A Java follower took an entry after it had told a shorter end. TRUNCATE behind that end would cut off
/// what it has acknowledged, as Java asks nothing: the leader looks at the new end first.
#[test]
fn what_a_java_follower_took_meanwhile_is_not_cut() {
    let mut group = Group::new(3);
    group.elect_first();
    group.cut_off("n1");
    group.cut_off("n2");
    group.give("n0", Input::Peer { id: name("n2"), kind: PeerKind::Java });
    group.propose("n0", 2);
    let life = group.members["n2"].config.life;
    let reply = |(kind, code), first: u64, end: u64| PushReply {
        kind,
        code,
        known: Some(life),
        end: Some(LogIndex(end)),
        written: None,
        flushed: None,
        ..appended(1, first, 0)
    };
    let mut pushed = |reply: PushReply| -> Vec<PushName> {
        group.wire.clear();
        says(&mut group, "n2", "n0", Message::PushReply(reply));
        let to_it = group.wire.iter().filter(|letter| letter.to == "n2");
        let kinds = to_it.filter_map(|letter| match &letter.message {
            Message::Push(push) => Some(push.kind.name()),
            _ => None,
        });
        kinds.collect()
    };
    let (same, differs) = (PushCode::Success, PushCode::InconsistentState);
    let (append, compare) = (PushName::Append, PushName::Compare);
    assert_eq!(
        pushed(reply((append, differs), 1, 0)),
        [compare],
        "it is another one: from the end"
    );
    assert_eq!(pushed(reply((compare, differs), 2, 0)), [compare]);
    assert_eq!(pushed(reply((compare, same), 0, 0)), [append]);
    assert_eq!(pushed(reply((append, differs), 1, 0)), [compare], "at the end that it told");
    assert_eq!(pushed(reply((compare, same), 0, 2)), [compare], "at the one that it has now");
    assert_eq!(pushed(reply((compare, same), 2, 2)), [PushName::Commit]);
}

/// a read sees all that was committed before it, and a deposed leader answers none.
#[test]
fn a_read_waits_until_a_majority_confirms_the_leader() {
    let mut group = Group::new(3);
    group.elect_first();
    group.propose("n0", 3);
    group.settle();
    group.give("n0", Input::ReadIndex { call: CallId(1) });
    assert!(group.members["n0"].reads.is_empty());
    group.settle();
    assert_eq!(group.members["n0"].reads, [Ok(Some(LogIndex(3)))]);
    group.give("n1", Input::ReadIndex { call: CallId(2) });
    assert!(matches!(group.members["n1"].reads[..], [Err(Refusal::NotLeader { .. })]));
    group.cut_off("n0");
    group.give("n0", Input::ReadIndex { call: CallId(3) });
    group.run(3000);
    let reads = &group.members["n0"].reads;
    assert!(matches!(reads[..], [Ok(_), Err(Refusal::NotLeader { .. })]), "{reads:?}");
}

/// A thousand proposals in flight: the number of messages is that of groups, not of entries.
#[test]
fn messages_go_by_ranges() {
    let mut group = Group::new(3);
    group.elect_first();
    group.run(500);
    group.hush();
    group.propose("n0", 1000);
    group.settle();
    let lines = group.said.iter().filter(|line| line.contains(" -> ")).count();
    assert!(lines <= 12, "{lines}");
}

/// R-9 at start: a bookmark beyond the end falls to the end; the leader tells what is committed.
#[test]
fn a_commit_index_beyond_the_log_does_not_block_the_group() {
    let mut group = Group::of(&vec![(4, runs(&[(2, 10)])); 3], |_| {});
    for id in ["n0", "n1", "n2"] {
        group.restart_with(id, |state| state.committed = Some(LogIndex(110)));
        assert_eq!(group.node(id).committed(), Some(LogIndex(9)));
    }
    group.elect();
    group.run(1000);
    assert_eq!(group.node("n0").committed(), Some(LogIndex(10)));
}

#[test]
fn terms_that_contradict_the_log_are_refused_at_start() {
    let state =
        State { last: Some(id(3, 9)), terms: vec![(Term(2), LogIndex(0))], ..State::default() };
    let config = Group::new(1).members["n0"].config.clone();
    let refused = Node::new(config, state).unwrap_err().to_string();
    assert!(refused.contains("do not describe a log"), "{refused}");
}

/// What comes from outside never makes a node fall.
#[test]
fn wild_messages_are_answered_or_passed_over() {
    let mut group = Group::new(3);
    group.elect_first();
    group.settle();
    let ends = [0, 1, 7, u64::MAX - 1, u64::MAX];
    for (term, index) in ends.into_iter().flat_map(|term| ends.map(|index| (term, index))) {
        let range = Range {
            before: Some(id(index, term)),
            first: LogIndex(index),
            count: term,
            terms: vec![(Term(term), LogIndex(index)), (Term(0), LogIndex(0))],
            bytes: u64::MAX,
        };
        let kinds = [
            PushKind::Append(range),
            PushKind::Append(Range {
                before: None,
                first: LogIndex(index),
                count: 1,
                terms: Vec::new(),
                bytes: 0,
            }),
            PushKind::Compare { id: id(term, index), same: Some(true) },
            PushKind::Commit,
        ];
        for kind in kinds {
            let node = &mut group.member("n1").node;
            let message = push(1, Some(index), kind);
            node.handle(
                Millis(500),
                Input::Received { from: name("n0"), call: CallId(0), message },
            );
            while let Some(output) = node.poll_output() {
                assert!(!matches!(output, Output::Accept { .. } | Output::TruncateFrom { .. }));
            }
        }
        let node = &mut group.member("n0").node;
        for input in [
            Input::Written { upto: id(term, index) },
            Input::Flushed { upto: id(term, index) },
            Input::RangeRead { peer: name("n1"), first: LogIndex(index), count: term, bytes: term },
            Input::RangeLost { peer: name("n7"), from: LogIndex(index) },
            Input::Truncated { last: Some(id(term, index)) },
            Input::Trimmed { first: LogIndex(index) },
        ] {
            node.handle(Millis(500), input);
            while node.poll_output().is_some() {}
        }
    }
    assert_eq!(group.node("n0").committed(), Some(LogIndex(0)));
}
