//! Messages of the consensus core as frames, and back.
//!
//! What an answer lacks in Java's form (the kind, the term, the entries that were asked for) is
//! taken from the request, which the sender keeps until the answer is there.

use bytes::Bytes;
use dledger_core::{
    EntryId, Heartbeat, HeartbeatCode, HeartbeatReply, LogIndex, Message, NodeId, Term,
    TransferCode, TransferReply, TransferRequest, VoteAnswer, VoteReply, VoteRequest,
};
use protocol::Command;

use super::{
    ResponseCode, WireError, binary,
    body::{Base, TransferBody, VoteBody, VoteReplyBody},
    capability::Own,
    json, push, request,
};

/// Names of header fields of a binary push.
const GROUP: &str = "group";
const FROM: &str = "localId";
const TO: &str = "remoteId";

/// Who speaks to whom.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ids {
    /// The group.
    pub group: String,
    /// Who sends the request.
    pub from: String,
    /// Who is meant.
    pub to: String,
}

/// Which form a request has, and so its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Java's JSON.
    Java,
    /// Ours: pushes are binary, pre-votes have a code of their own.
    Own,
}

/// A request of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Who asks whom.
    pub ids: Ids,
    /// Its form.
    pub form: Form,
    /// What it asks.
    pub message: Message,
    /// The entries that came with it, as they lie in the log.
    pub entries: Option<Bytes>,
    /// What the member says of itself.
    pub own: Option<Own>,
}

/// The frame of a request. `entries` go with pushes that carry some.
///
/// # Errors
/// It is no request, or `entries` are none.
pub fn encode_request(
    ids: &Ids,
    form: Form,
    message: &Message,
    entries: &[Bytes],
    own: &Own,
) -> Result<Command, WireError> {
    Ok(match message {
        Message::Vote(vote) => {
            let code = if vote.pre_vote { request::PRE_VOTE } else { request::VOTE };
            let transfer = vote.transfer.then_some(true);
            let own = Own { transfer, ..own.clone() };
            Command::request(code).with_body(json::write(&vote_body(ids, vote, own)))
        }
        Message::Heartbeat(Heartbeat { term, .. }) => {
            let body = Base { term: signed(term.0), ledgermq: Some(own.clone()), ..base(ids) };
            Command::request(request::HEART_BEAT).with_body(json::write(&body))
        }
        Message::Push(push) if form == Form::Own => {
            with_ids(Command::request(request::BINARY_PUSH), ids)
                .with_body(binary::encode_request(push, entries))
        }
        Message::Push(push) => {
            let body = push::to_body(ids, push, entries)?;
            Command::request(request::PUSH).with_body(json::write(&body))
        }
        Message::Transfer(transfer) => {
            let body = transfer_body(ids, transfer);
            Command::request(request::LEADERSHIP_TRANSFER).with_body(json::write(&body))
        }
        Message::Fetch(fetch) => {
            with_ids(Command::request(request::FETCH), ids).with_body(binary::encode_fetch(*fetch))
        }
        _ => return Err(WireError::Missing("a request")),
    })
}

/// Reads a request of a member.
///
/// # Errors
/// It cannot be read, is of DLedger 0.4, or its code is none of a member's requests.
pub fn decode_request(command: &Command) -> Result<Request, WireError> {
    let body = &command.body;
    let mut form = Form::Java;
    let mut entries = None;
    let (ids, message, own) = match command.code {
        request::VOTE | request::PRE_VOTE => {
            let vote: VoteBody = json::read(body)?;
            let ids = ids_of(vote.group.as_deref(), &vote.local_id, &vote.remote_id);
            let own = vote.ledgermq.clone();
            (ids, Message::Vote(vote_of(&vote, command.code == request::PRE_VOTE)?), own)
        }
        request::HEART_BEAT => {
            let base: Base = json::read(body)?;
            let ids = ids_of(base.group.as_deref(), &base.local_id, &base.remote_id);
            let heartbeat = Heartbeat { term: term("term", base.term)?, round: 0 };
            (ids, Message::Heartbeat(heartbeat), base.ledgermq)
        }
        request::PUSH => {
            let push: push::PushBody = json::read(body)?;
            let ids = ids_of(push.group.as_deref(), &push.local_id, &push.remote_id);
            let (push, carried) = push::from_body(push)?;
            entries = carried;
            (ids, Message::Push(push), None)
        }
        request::BINARY_PUSH => {
            form = Form::Own;
            let ids = header_ids(command);
            let (push, carried) = binary::decode_request(body.clone())?;
            entries = carried;
            (ids, Message::Push(push), None)
        }
        request::FETCH => {
            form = Form::Own;
            (header_ids(command), Message::Fetch(binary::decode_fetch(body)?), None)
        }
        request::LEADERSHIP_TRANSFER => {
            let transfer: TransferBody = json::read(body)?;
            let ids = ids_of(transfer.group.as_deref(), &transfer.local_id, &transfer.remote_id);
            (ids, Message::Transfer(transfer_of(transfer)?), None)
        }
        request::INSTALL_SNAPSHOT => return Err(WireError::Dialect04),
        other => return Err(WireError::Field { name: "request code", value: other.into() }),
    };
    Ok(Request { ids, form, message, entries, own })
}

/// The body of an answer, for the request whose ids and form are given.
///
/// # Errors
/// It is no answer.
pub fn encode_reply(
    ids: &Ids,
    form: Form,
    message: &Message,
    entries: &[Bytes],
    own: &Own,
) -> Result<Bytes, WireError> {
    let body = match message {
        Message::VoteReply(reply) => {
            let provisional = reply.provisional.then_some(true);
            json::write(&VoteReplyBody {
                code: ResponseCode::SUCCESS.0,
                group: Some(ids.group.clone()),
                leader_id: Some(ids.from.clone()),
                ledgermq: Some(Own { provisional, ..own.clone() }),
                local_id: Some(ids.from.clone()),
                remote_id: Some(ids.to.clone()),
                term: signed(reply.term.0),
                vote_result: Some(reply.answer.java_name().to_owned()),
            })
        }
        Message::HeartbeatReply(reply) => json::write(&Base {
            code: reply.code.code(),
            ledgermq: Some(Own {
                healthy: Some(reply.healthy),
                room: Some(reply.roomy),
                ..own.clone()
            }),
            term: reply.term.map_or(-1, |term| signed(term.0)),
            ..Base::default()
        }),
        Message::PushReply(reply) if form == Form::Own => return Ok(binary::encode_reply(reply)),
        Message::PushReply(reply) => json::write(&push::to_reply_body(ids, reply)),
        Message::TransferReply(reply) => json::write(&Base {
            code: reply.code.code(),
            group: Some(ids.group.clone()),
            term: signed(reply.term.0),
            ..Base::default()
        }),
        Message::FetchReply(reply) => return Ok(binary::encode_fetched(*reply, entries)),
        _ => return Err(WireError::Missing("an answer")),
    };
    Ok(body.into())
}

/// The answer of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What it says.
    pub message: Message,
    /// The entries that came with it, as they lie in the log.
    pub entries: Option<Bytes>,
    /// What the member says of itself.
    pub own: Option<Own>,
}

/// Reads the answer to `asked`.
///
/// # Errors
/// It cannot be read.
pub fn decode_reply(asked: &Message, form: Form, body: &Bytes) -> Result<Answer, WireError> {
    let (message, own) = match asked {
        Message::Vote(vote) => {
            let reply: VoteReplyBody = json::read(body)?;
            let provisional = reply.ledgermq.as_ref().and_then(|own| own.provisional);
            let message = VoteReply {
                term: Term(u64::try_from(reply.term).unwrap_or(0)),
                answer: answer(reply.vote_result.as_deref()),
                request_term: vote.term,
                pre_vote: vote.pre_vote,
                provisional: provisional.unwrap_or(false),
            };
            (Message::VoteReply(message), reply.ledgermq)
        }
        Message::Heartbeat(Heartbeat { term, round }) => {
            let reply: Base = json::read(body)?;
            let healthy = reply.ledgermq.as_ref().and_then(|own| own.healthy);
            let room = reply.ledgermq.as_ref().and_then(|own| own.room);
            let message = HeartbeatReply {
                term: u64::try_from(reply.term).ok().map(Term),
                code: HeartbeatCode::of_code(reply.code),
                request_term: *term,
                round: *round,
                healthy: healthy.unwrap_or(true),
                roomy: room.unwrap_or(true),
            };
            (Message::HeartbeatReply(message), reply.ledgermq)
        }
        Message::Push(push) if form == Form::Own => {
            let reply = binary::decode_reply(body.clone())?;
            (Message::PushReply(push::of_request(reply, push)), None)
        }
        Message::Push(push) => {
            let reply = push::from_reply_body(json::read(body)?, push);
            (Message::PushReply(reply), None)
        }
        Message::Transfer(TransferRequest { term, .. }) => {
            let reply: Base = json::read(body)?;
            let message = TransferReply {
                term: Term(u64::try_from(reply.term).unwrap_or(0)),
                request_term: *term,
                code: TransferCode::of_code(reply.code),
            };
            (Message::TransferReply(message), None)
        }
        Message::Fetch(_) => {
            let (reply, entries) = binary::decode_fetched(body)?;
            return Ok(Answer { message: Message::FetchReply(reply), entries, own: None });
        }
        _ => return Err(WireError::Missing("a request")),
    };
    Ok(Answer { message, entries: None, own })
}

/// A number as Java's `long`.
pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A term as Java's `long`.
pub(crate) fn long(term: Term) -> i64 {
    signed(term.0)
}

/// An index as Java's `long`, -1 for none.
pub(super) fn signed_index(index: Option<LogIndex>) -> i64 {
    index.map_or(-1, |index| signed(index.0))
}

/// Java's `long`, where a negative number is none.
pub(super) fn index(value: i64) -> Option<LogIndex> {
    u64::try_from(value).ok().map(LogIndex)
}

/// A term that must be there.
pub(super) fn term(name: &'static str, value: i64) -> Result<Term, WireError> {
    u64::try_from(value).map(Term).map_err(|_negative| WireError::Field { name, value })
}

pub(super) fn base(ids: &Ids) -> Base {
    Base {
        group: Some(ids.group.clone()),
        leader_id: Some(ids.from.clone()),
        local_id: Some(ids.from.clone()),
        remote_id: Some(ids.to.clone()),
        ..Base::default()
    }
}

fn ids_of(group: Option<&str>, from: &Option<String>, to: &Option<String>) -> Ids {
    Ids {
        group: group.unwrap_or_default().to_owned(),
        from: from.clone().unwrap_or_default(),
        to: to.clone().unwrap_or_default(),
    }
}

fn header_ids(command: &Command) -> Ids {
    let field = |name| command.field(name).map(str::to_owned);
    ids_of(command.field(GROUP), &field(FROM), &field(TO))
}

fn with_ids(command: Command, ids: &Ids) -> Command {
    command
        .with_field(GROUP, ids.group.as_str())
        .with_field(FROM, ids.from.as_str())
        .with_field(TO, ids.to.as_str())
}

fn vote_body(ids: &Ids, vote: &VoteRequest, own: Own) -> VoteBody {
    VoteBody {
        code: ResponseCode::SUCCESS.0,
        group: Some(ids.group.clone()),
        leader_id: Some(ids.from.clone()),
        ledger_end_index: vote.last.map_or(-1, |last| signed(last.index.0)),
        ledger_end_term: vote.last.map_or(-1, |last| signed(last.term.0)),
        ledgermq: Some(own),
        local_id: Some(ids.from.clone()),
        remote_id: Some(ids.to.clone()),
        term: signed(vote.term.0),
    }
}

fn vote_of(body: &VoteBody, pre_vote: bool) -> Result<VoteRequest, WireError> {
    let last = match index(body.ledger_end_index) {
        Some(index) => Some(EntryId { term: term("ledgerEndTerm", body.ledger_end_term)?, index }),
        None => None,
    };
    let transfer = body.ledgermq.as_ref().and_then(|own| own.transfer).unwrap_or(false);
    Ok(VoteRequest { term: term("term", body.term)?, last, pre_vote, transfer })
}

fn answer(name: Option<&str>) -> VoteAnswer {
    let known = VoteAnswer::ALL.into_iter().find(|answer| Some(answer.java_name()) == name);
    known.unwrap_or(VoteAnswer::Unknown)
}

fn transfer_body(ids: &Ids, transfer: &TransferRequest) -> TransferBody {
    TransferBody {
        code: ResponseCode::SUCCESS.0,
        group: Some(ids.group.clone()),
        leader_id: Some(ids.from.clone()),
        local_id: Some(ids.from.clone()),
        remote_id: Some(ids.to.clone()),
        take_leadership_ledger_index: signed_index(transfer.index),
        term: signed(transfer.term.0),
        transfer_id: Some(ids.from.clone()),
        transferee_id: Some(transfer.transferee.0.clone()),
    }
}

fn transfer_of(body: TransferBody) -> Result<TransferRequest, WireError> {
    Ok(TransferRequest {
        term: term("term", body.term)?,
        transferee: NodeId(body.transferee_id.ok_or(WireError::Missing("transfereeId"))?),
        index: index(body.take_leadership_ledger_index),
    })
}
