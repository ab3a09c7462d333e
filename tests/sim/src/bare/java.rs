//! Java's form of what members say to each other, and Java's manners where ours differ.

use bytes::Bytes;
use dledger_core::{
    EntryId, HeartbeatCode, HeartbeatReply, Life, LogIndex, Message, PushCode, PushKind, PushReply,
    Role, Term, VoteAnswer, VoteReply, VoteRequest,
};

use super::{Bare, MemoryDisk};
use crate::{ghost::Entry, process::Parcel};

impl Bare {
    /// What this member hears of a message of another with which it speaks in Java's form; nothing
    /// where Java does not go into it as ours do.
    pub(super) fn hear_java(
        &mut self,
        from: usize,
        call: u64,
        message: Message,
        carried: &[Entry],
    ) -> Option<Message> {
        let heard = as_heard(message, carried, &self.disk);
        if !self.java.stands_in(self.number) {
            return Some(heard);
        }
        match &heard {
            Message::Vote(request) => {
                let Some(answer) = log_is_better(self.node.last(), request) else {
                    return Some(heard);
                };
                // A term is told once it is durable.
                let term = Term(self.disk.stored_term());
                let request_term = request.term;
                let reply =
                    VoteReply { term, answer, request_term, pre_vote: false, provisional: false };
                let message = Message::VoteReply(reply);
                let entries = Bytes::new();
                self.sends.push_back(Parcel { to: from, call: Some(call), message, entries });
                None
            }
            // A leader with a majority does not look at the larger term of a single member.
            Message::HeartbeatReply(reply)
                if self.node.role() == Role::Leader && reply.code == HeartbeatCode::ExpiredTerm =>
            {
                None
            }
            _ => Some(heard),
        }
    }

    /// The entry that goes along with a comparison or a cut in Java's form.
    ///
    /// # Errors
    /// This member does not have it: nothing is sent then.
    pub(super) fn entry_for_java(&self, kind: &PushKind) -> Result<Option<Entry>, Missing> {
        match kind {
            PushKind::Compare { id, .. } | PushKind::Truncate { id, .. } => {
                self.disk.entry(id.index.0).map(Some).ok_or(Missing)
            }
            PushKind::Append(_) | PushKind::Commit => Ok(None),
        }
    }
}

/// An entry is not in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Missing;

/// The first rows of Java's table of votes (`DLedgerLeaderElector.handleVote`): the log is looked at
/// before the term, so that the term of a candidate with a shorter log is not gone to.
fn log_is_better(mine: Option<EntryId>, request: &VoteRequest) -> Option<VoteAnswer> {
    let mine = mine?;
    match request.last {
        Some(theirs) if theirs >= mine => None,
        Some(theirs) if theirs.term == mine.term => Some(VoteAnswer::RejectSmallLedgerEndIndex),
        Some(_) | None => Some(VoteAnswer::RejectExpiredLedgerTerm),
    }
}

/// A message without what Java's form does not carry, read as our transport reads it
/// (`dledger/src/wire`).
fn as_heard(message: Message, carried: &[Entry], disk: &MemoryDisk) -> Message {
    match message {
        Message::Vote(vote) => Message::Vote(VoteRequest { transfer: false, ..vote }),
        Message::VoteReply(reply) => Message::VoteReply(VoteReply { provisional: false, ..reply }),
        Message::HeartbeatReply(reply) => {
            let term = reply.term.filter(|_| reply.code == HeartbeatCode::ExpiredTerm);
            let (healthy, roomy) = (true, true);
            Message::HeartbeatReply(HeartbeatReply { term, healthy, roomy, ..reply })
        }
        Message::Push(mut push) => {
            push.whole = None;
            let equal = carried.first().map(|entry| disk.entry(entry.index) == Some(*entry));
            match &mut push.kind {
                PushKind::Compare { same, .. } => *same = equal,
                PushKind::Truncate { same, next_term, .. } => (*same, *next_term) = (equal, None),
                PushKind::Append(range) => range.before = None,
                PushKind::Commit => {}
            }
            Message::Push(push)
        }
        Message::PushReply(reply) => Message::PushReply(answer_of_java(reply)),
        other => other,
    }
}

/// The term is that of the request, and of what is kept the request itself is all that is told.
fn answer_of_java(reply: PushReply) -> PushReply {
    let code = PushCode::of_code(reply.code.code());
    let last = |first: LogIndex| first.plus(reply.count.saturating_sub(1));
    let written = reply.first.filter(|_| code == PushCode::Success).map(last);
    PushReply {
        term: reply.request_term,
        code,
        written,
        flushed: None,
        life: Life::default(),
        provisional: false,
        ..reply
    }
}
