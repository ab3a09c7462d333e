//! Each test is a transcript: inputs begin with `>`, what the node puts out follows. The expected
//! text is the whole conversation.

use std::collections::BTreeSet;

use super::*;
use crate::{
    io::{Append, Refusal},
    message::VoteRequest,
    types::Policy,
};

fn node(policy: Policy, state: State) -> Node {
    let self_id = NodeId("n0".into());
    let members = BTreeSet::from([self_id.clone()]);
    Node::new(Config { policy, ..Config::new(self_id, members) }, state).unwrap()
}

fn id(term: u64, index: u64) -> EntryId {
    EntryId { term: Term(term), index: LogIndex(index) }
}

fn input(line: &str) -> Input {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |nth: usize| words[nth].parse::<u64>().unwrap();
    match words[0] {
        "tick" => Input::Tick,
        "propose" => Input::Propose { count: number(1), bytes: 100 },
        "written" => Input::Written { upto: id(number(1), number(2)) },
        "flushed" => Input::Flushed { upto: id(number(1), number(2)) },
        "not-written" => Input::NotWritten { from: LogIndex(number(1)) },
        "vote-stored" => Input::VoteStored { term: Term(number(1)) },
        "vote-asked-by" => Input::Received {
            from: NodeId(words[1].into()),
            call: CallId(7),
            message: Message::Vote(VoteRequest {
                term: Term(number(2)),
                last: None,
                pre_vote: false,
                transfer: false,
            }),
        },
        other => panic!("no such input: {other}"),
    }
}

fn line(output: &Output) -> String {
    let name = |leader: &Option<NodeId>| leader.as_ref().map_or("nobody".into(), |id| id.0.clone());
    match output {
        Output::Send { to, message: Message::VoteReply(reply), call: _ } => {
            format!("send to {to}: {:?} in term {}", reply.answer, reply.term)
        }
        Output::StoreVote { term, vote: Vote::For(id) } => {
            format!("store vote {id} in term {term}")
        }
        Output::Append(Append { first, count, term, opening }) => {
            let what = if *opening { "opening entry" } else { "entries" };
            format!("append {count} {what} of term {term} from {first}")
        }
        Output::Refused { cause: Refusal::NotLeader { term, leader } } => {
            format!("refused: not leader in term {term}, {} leads", name(leader))
        }
        Output::Committed { upto } => format!("committed up to {upto}"),
        Output::RoleChanged { role, term, leader } => {
            format!("{role} in term {term}, {} leads", name(leader))
        }
        other @ (Output::Send { .. }
        | Output::StoreVote { .. }
        | Output::Refused { .. }
        | Output::Accept { .. }
        | Output::Forget { .. }
        | Output::TruncateFrom { .. }
        | Output::Restart { .. }
        | Output::ReadRange { .. }
        | Output::TransferDone { .. }
        | Output::ReadIndex { .. }
        | Output::Whole
        | Output::Recorded(_)
        | Output::Stop { .. }) => format!("{other:?}"),
    }
}

/// Runs the inputs of `expected` and compares the whole conversation.
fn transcript(mut node: Node, expected: &str) {
    let mut heard = String::new();
    let mut now = 0;
    for told in expected.lines().map(str::trim) {
        let Some(told) = told.strip_prefix("> ") else { continue };
        heard += &format!("> {told}\n");
        now += 100;
        node.handle(Millis(now), input(told));
        while let Some(output) = node.poll_output() {
            if matches!(output, Output::Recorded(_)) {
                continue;
            }
            heard += &format!("{}\n", line(&output));
        }
    }
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    assert_eq!(heard.trim(), expected.join("\n"));
}

#[test]
fn a_fresh_node_opens_term_1() {
    transcript(
        node(Policy::Flushed, State::default()),
        "> tick
         CANDIDATE in term 1, nobody leads
         store vote n0 in term 1
         > tick
         > propose 1
         refused: not leader in term 1, nobody leads
         > vote-stored 1
         LEADER in term 1, n0 leads
         Whole
         append 1 opening entry of term 1 from 0
         > written 1 0
         > flushed 1 0
         committed up to 0",
    );
}

#[test]
fn an_entry_is_committed_when_it_is_flushed() {
    transcript(
        leader(Policy::Flushed),
        "> propose 3
         append 3 entries of term 1 from 1
         > written 1 3
         > propose 2
         append 2 entries of term 1 from 4
         > flushed 1 3
         committed up to 3
         > written 1 5
         > flushed 1 5
         committed up to 5
         > flushed 1 5",
    );
}

#[test]
fn or_when_it_is_written_if_the_policy_says_so() {
    transcript(
        leader(Policy::Written),
        "> propose 3
         append 3 entries of term 1 from 1
         > written 1 3
         committed up to 3
         > flushed 1 3",
    );
}

#[test]
fn a_restarted_node_never_leads_twice_in_one_term() {
    let vote = Vote::For(NodeId("n0".into()));
    let committed = Some(LogIndex(9));
    let state = State { term: Term(4), vote, last: Some(id(3, 17)), committed, ..State::default() };
    transcript(
        node(Policy::Flushed, state),
        "> tick
         CANDIDATE in term 5, nobody leads
         store vote n0 in term 5
         > vote-stored 4
         > vote-stored 5
         LEADER in term 5, n0 leads
         append 1 opening entry of term 5 from 18
         > flushed 5 18
         committed up to 18",
    );
}

#[test]
fn what_older_terms_left_is_not_committed_without_the_opening_entry() {
    let state = State { term: Term(1), last: Some(id(1, 7)), ..State::default() };
    transcript(
        node(Policy::Written, state),
        "> tick
         CANDIDATE in term 2, nobody leads
         store vote n0 in term 2
         > vote-stored 2
         LEADER in term 2, n0 leads
         append 1 opening entry of term 2 from 8
         > written 1 7
         > written 2 8
         committed up to 8",
    );
}

#[test]
fn a_lost_record_of_the_term_is_replaced_by_that_of_the_log() {
    let state = State { last: Some(id(6, 2)), ..State::default() };
    transcript(
        node(Policy::Flushed, state),
        "> tick
         CANDIDATE in term 7, nobody leads
         store vote n0 in term 7",
    );
}

#[test]
fn the_indexes_of_a_failed_append_are_used_again() {
    transcript(
        leader(Policy::Flushed),
        "> propose 3
         append 3 entries of term 1 from 1
         > not-written 1
         > written 1 3
         > flushed 1 3
         > propose 1
         append 1 entries of term 1 from 1
         > flushed 1 1
         committed up to 1",
    );
}

#[test]
fn a_leader_that_cannot_write_its_opening_entry_gives_up_the_term() {
    let mut node = node(Policy::Flushed, State::default());
    for told in ["tick", "vote-stored 1"] {
        node.handle(Millis(0), input(told));
    }
    while node.poll_output().is_some() {}
    transcript(
        node,
        "> not-written 0
         CANDIDATE in term 1, nobody leads
         > tick
         > tick
         > tick
         > tick
         > tick
         > tick
         > tick
         > tick
         > tick
         > tick
         CANDIDATE in term 2, nobody leads
         store vote n0 in term 2
         > vote-stored 2
         LEADER in term 2, n0 leads
         append 1 opening entry of term 2 from 0
         > flushed 2 0
         committed up to 0",
    );
}

#[test]
fn strangers_get_no_vote() {
    transcript(
        leader(Policy::Flushed),
        "> vote-asked-by n7 9
         send to n7: RejectUnknownLeader in term 1
         > vote-asked-by n0 9
         send to n0: RejectUnexpectedLeader in term 1",
    );
}

#[test]
fn a_wrong_membership_is_refused_with_its_names() {
    let config = |self_id: &str, members: [&str; 2]| {
        Config::new(NodeId(self_id.into()), members.iter().map(|id| NodeId((*id).into())).collect())
    };
    let refused = Node::new(config("n3", ["n0", "n1"]), State::default()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "self id n3 is not among the members n0, n1: add it to dLegerPeers"
    );
}

/// A leader of term 1 whose opening entry is committed.
fn leader(policy: Policy) -> Node {
    let mut node = node(policy, State::default());
    for told in ["tick", "vote-stored 1", "written 1 0", "flushed 1 0"] {
        node.handle(Millis(0), input(told));
    }
    while node.poll_output().is_some() {}
    assert_eq!(node.committed(), Some(LogIndex(0)));
    node
}

/// what lies before a leader's opening entry is not committed on its own, whoever asks for it.
#[test]
fn a_leader_that_would_commit_what_lies_before_its_opening_entry_stops() {
    let state = State { last: Some(id(1, 4)), term: Term(1), ..State::default() };
    let mut node = node(Policy::Flushed, state);
    for (now, told) in ["tick", "tick", "vote-stored 2"].into_iter().enumerate() {
        node.handle(Millis(now as u64), input(told));
    }
    assert_eq!(node.opening(), Some(LogIndex(5)));
    while node.poll_output().is_some() {}
    node.commit(LogIndex(4));
    let told = line(&node.poll_output().unwrap());
    assert!(told.contains("BeforeOpening { term: Term(2), upto: LogIndex(4)"), "{told}");
    assert_eq!(node.committed(), None);
}

/// a vote that was given, or that is not known, is not given again, whoever asks for it.
#[test]
fn a_second_vote_in_one_term_stops_the_node() {
    let other = Vote::For(NodeId("n1".into()));
    for (given, may) in [(Vote::None, true), (other, false), (Vote::Unknown, false)] {
        let mut node = node(Policy::Flushed, State::default());
        node.vote = given;
        assert_eq!(node.give_vote(NodeId("n2".into())), may);
        assert_eq!(node.give_vote(NodeId("n2".into())), may, "the same again");
        let told = node.poll_output().map(|output| line(&output)).unwrap_or_default();
        assert_eq!(told.contains("SecondVote"), !may, "{told}");
    }
}
