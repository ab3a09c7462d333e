//! Messages and outputs as lines of a conversation.

use dledger_core::{
    Append, HeartbeatCode, Message, Output, PushCode, PushKind, Role, TransferCode, Vote,
};

/// A message that arrives.
pub(crate) fn letter(from: &str, to: &str, message: &Message) -> String {
    format!("{from} -> {to}: {}", text(message))
}

fn text(message: &Message) -> String {
    match message {
        Message::Vote(request) => {
            let what = if request.pre_vote { "pre-vote" } else { "vote" };
            let transfer = if request.transfer { ", as you asked" } else { "" };
            let last = request.last.map_or("nothing".to_owned(), |last| last.to_string());
            format!("{what} in term {}, I have {last}{transfer}", request.term)
        }
        Message::VoteReply(reply) => {
            let doubt = if reply.provisional { ", provisionally" } else { "" };
            format!("{} in term {}{doubt}", reply.answer, reply.term)
        }
        Message::Heartbeat(beat) => format!("heartbeat of term {}", beat.term),
        Message::HeartbeatReply(reply) if reply.code == HeartbeatCode::Success => "alive".into(),
        Message::HeartbeatReply(reply) => {
            let term = reply.term.map_or("?".to_owned(), |term| term.to_string());
            format!("{} in term {term}", reply.code.code())
        }
        Message::Push(push) => match &push.kind {
            PushKind::Compare { id, .. } => format!("COMPARE {id}"),
            PushKind::Truncate { id, .. } => format!("TRUNCATE behind {id}"),
            PushKind::Append(range) => {
                let commit = push.commit.map_or("none".to_owned(), |index| index.to_string());
                format!("APPEND {}..={}, commit {commit}", range.first, range.last_index())
            }
            PushKind::Commit => {
                let commit = push.commit.map_or("none".to_owned(), |index| index.to_string());
                format!("COMMIT {commit}")
            }
        },
        Message::PushReply(reply) => {
            let end = reply.end.map_or("none".to_owned(), |index| index.to_string());
            let mark = reply.flushed.map_or("none".to_owned(), |index| index.to_string());
            match reply.code {
                PushCode::Success => format!("equal up to {mark}, end {end}"),
                code => format!("{} end {end}", code.code()),
            }
        }
        Message::Fetch(fetch) => format!("rot from {} to {}", fetch.first, fetch.last),
        Message::FetchReply(reply) => format!("{} entries", reply.count),
        Message::Transfer(request) => {
            let index = request.index.map_or("none".to_owned(), |index| index.to_string());
            format!("take the lead of term {} from {index} on", request.term)
        }
        Message::TransferReply(reply) => match reply.code {
            TransferCode::Success => "I lead".into(),
            code => format!("transfer {}", code.code()),
        },
    }
}

/// What a node does itself, as far as it belongs into a conversation.
pub(crate) fn output(id: &str, output: &Output, said: &mut Vec<String>) {
    let line = match output {
        Output::StoreVote { term, vote } => match vote {
            Vote::For(candidate) => format!("stores term {term}, vote for {candidate}"),
            Vote::None | Vote::Unknown => format!("stores term {term}"),
        },
        Output::Append(Append { first, count, opening, .. }) => {
            let last = first.0 + count - 1;
            let what = if *opening { "opens its term with" } else { "appends" };
            format!("{what} {first}..={last}")
        }
        Output::Accept { first, count, .. } => format!("writes {first}..={}", first.0 + count - 1),
        Output::TruncateFrom { index } => format!("cuts from {index} on"),
        Output::Restart { at, .. } => format!("begins anew with {at}"),
        Output::Committed { upto } => format!("has committed {upto}"),
        Output::RoleChanged { role, term, leader } => match (role, leader) {
            (Role::Follower, Some(leader)) => format!("FOLLOWER of {leader} in term {term}"),
            _ => format!("{role} in term {term}"),
        },
        Output::Whole => "is whole".into(),
        Output::Stop { violation } => format!("stops: {violation}"),
        Output::Send { .. }
        | Output::Refused { .. }
        | Output::Forget { .. }
        | Output::ReadRange { .. }
        | Output::TransferDone { .. }
        | Output::ReadIndex { .. }
        | Output::Recorded(_) => return,
    };
    said.push(format!("{id} {line}"));
}
