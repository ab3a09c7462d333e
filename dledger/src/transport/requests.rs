//! Requests of other members: who they are, whether they may speak, and their way to the engine.

use std::{sync::Arc, time::Instant};

use dledger_core::{Message, VoteAnswer};
use protocol::{Command, code};
use remoting::{Connection, Handler, Responder};

use super::{
    Incoming,
    claims::ClaimError,
    clients::{self, refuse, reply},
    forwarded,
    held::Held,
    remote::Shared,
};
use crate::wire::{
    ResponseCode,
    body::{Base, PushReplyBody, TransferBody, VoteReplyBody},
    json,
    message::{self, Ids, Request},
    request,
};

/// Serves the peer port.
pub(super) struct PeerPort(pub(super) Arc<Shared>);

impl Handler for PeerPort {
    fn handle(&self, connection: &Arc<Connection>, command: Command, responder: Responder) {
        match command.code {
            request::METADATA | request::APPEND | request::GET | request::STATUS => {
                clients::serve(&self.0, &command, responder);
            }
            request::LEADERSHIP_TRANSFER if self.0.is_for_leader(&command) => {
                clients::serve(&self.0, &command, responder);
            }
            request::FORWARD => forwarded::serve(&self.0, connection, &command, responder),
            request::VOTE
            | request::PRE_VOTE
            | request::HEART_BEAT
            | request::PUSH
            | request::BINARY_PUSH
            | request::FETCH
            | request::LEADERSHIP_TRANSFER
            | request::INSTALL_SNAPSHOT => self.0.member_asks(connection, &command, responder),
            other => {
                let remark = format!(" request type {other} not supported");
                refuse(responder, code::response::REQUEST_CODE_NOT_SUPPORTED, remark);
            }
        }
    }

    fn closed(&self, connection: &Arc<Connection>) {
        self.0.claims().forget(connection.id());
    }
}

impl Shared {
    /// Whether an operator asks this node, as the leader, to hand over; else the leader asks this
    /// node to take over.
    fn is_for_leader(&self, command: &Command) -> bool {
        json::read::<TransferBody>(&command.body)
            .is_ok_and(|body| body.transfer_id.as_deref() == Some(self.self_id()))
    }

    /// Why a request is not meant for this node, if so (Java: `DLedgerServer.reviewPreCheck`).
    pub(super) fn misdirected(
        &self,
        group: Option<&str>,
        to: Option<&str>,
    ) -> Option<ResponseCode> {
        if to != Some(self.self_id()) {
            Some(ResponseCode::UNKNOWN_MEMBER)
        } else if group != Some(self.group()) {
            Some(ResponseCode::UNKNOWN_GROUP)
        } else {
            None
        }
    }

    fn member_asks(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        command: &Command,
        responder: Responder,
    ) {
        let asked = match message::decode_request(command) {
            Ok(asked) => asked,
            Err(error) => {
                self.complain(&connection.remote_addr().ip().to_string(), &error.to_string());
                return refuse(responder, code::response::SYSTEM_ERROR, error.to_string());
            }
        };
        let Request { ids, .. } = &asked;
        if let Some(code) = self.misdirected(Some(&ids.group), Some(&ids.to)) {
            let text = format!(
                "a request for member {} of group {} came to {} of {}: {code}",
                ids.to,
                ids.group,
                self.self_id(),
                self.group()
            );
            self.complain(&connection.remote_addr().ip().to_string(), &text);
            return self.refuse_member(&asked, code, responder);
        }
        if let Err(error) = self.claim(&ids.from, connection) {
            self.complain(&connection.remote_addr().ip().to_string(), &error.to_string());
            let code = match error {
                ClaimError::Ourselves(_) => ResponseCode::UNEXPECTED_MEMBER,
                ClaimError::Stranger(_) | ClaimError::Taken(_) => ResponseCode::UNKNOWN_MEMBER,
            };
            return self.refuse_member(&asked, code, responder);
        }
        if matches!(asked.message, Message::Vote(_) | Message::Heartbeat(_))
            && let Err(mismatch) = self.learn(&ids.from, asked.own.as_ref())
        {
            return refuse(responder, code::response::SYSTEM_ERROR, mismatch.to_string());
        }
        self.pass_on(asked, command.body.len(), responder);
    }

    fn claim(&self, id: &str, connection: &Connection) -> Result<(), ClaimError> {
        if id == self.self_id() {
            return Err(ClaimError::Ourselves(id.to_owned()));
        }
        if self.peers().get(id).is_none() {
            let id = id.chars().take(64).collect();
            return Err(ClaimError::Stranger(id));
        }
        self.claims().note(id, connection.id(), Instant::now())
    }

    /// Gives the request to the engine, whose answer comes back by its call.
    fn pass_on(&self, asked: Request, bytes: usize, responder: Responder) {
        let Some(inbox) = self.inbox() else {
            return refuse(responder, code::response::SYSTEM_BUSY, "not started yet".to_owned());
        };
        if let Message::Push(push) = &asked.message
            && !self.held().has_room(push.kind.name(), bytes)
        {
            return self.refuse_member(&asked, ResponseCode::PUSH_REQUEST_IS_FULL, responder);
        }
        let Request { ids, form, message, entries, .. } = asked;
        let from = ids.from.clone();
        let held = Held { responder, ids, form, bytes, since: Instant::now() };
        let call = self.held().insert(held);
        if !inbox.deliver(Incoming::Message { from, call, message, entries })
            && let Some(held) = self.held().take(call)
        {
            held.responder.leave_unanswered();
        }
    }

    /// Answers in Java's form of an answer to this request that it is not taken.
    fn refuse_member(&self, asked: &Request, code: ResponseCode, responder: Responder) {
        let Ids { group, from, to } = asked.ids.clone();
        let own = Some(self.own().clone());
        let body = match &asked.message {
            Message::Vote(vote) => reply(&VoteReplyBody {
                code: code.0,
                group: Some(group),
                leader_id: Some(from.clone()),
                ledgermq: own,
                local_id: Some(from),
                remote_id: Some(to),
                term: message::long(vote.term),
                vote_result: Some(vote_result(code).java_name().to_owned()),
            }),
            Message::Push(push) => reply(&PushReplyBody {
                begin_index: -1,
                code: code.0,
                count: 0,
                end_index: -1,
                group: Some(group),
                index: None,
                leader_id: None,
                term: message::long(push.term),
            }),
            _ => reply(&Base {
                code: code.0,
                group: Some(group),
                ledgermq: own,
                local_id: Some(from),
                remote_id: Some(to),
                ..Base::default()
            }),
        };
        match asked.form {
            message::Form::Java => responder.send(body),
            message::Form::Own => refuse(responder, code::response::SYSTEM_ERROR, code.to_string()),
        }
    }
}

fn vote_result(code: ResponseCode) -> VoteAnswer {
    match code {
        ResponseCode::UNKNOWN_MEMBER => VoteAnswer::RejectUnknownLeader,
        ResponseCode::UNEXPECTED_MEMBER => VoteAnswer::RejectUnexpectedLeader,
        _ => VoteAnswer::Unknown,
    }
}
