//! The client protocol of the original library on the peer port: METADATA, APPEND, GET, a transfer
//! that an operator asks for, and our STATUS (Java: `DLedgerClientProtocolHandler`).

use std::{fmt, net::IpAddr, sync::Arc};

use bytes::Bytes;
use protocol::{Command, code};
use remoting::{Flush, Responder};
use serde::Serialize;

use super::remote::Shared;
use crate::wire::{
    ResponseCode, WireError,
    body::{
        AppendBody, AppendReplyBody, Base, GetBody, GetReplyBody, MetadataReplyBody, TransferBody,
    },
    entry::JsonEntry,
    json, request,
};

/// Serves clients of the log itself, and operators. A broker's log takes no bodies from clients: they
/// are message records.
pub trait ClientService: Send + Sync + 'static {
    /// The term, and the leader where one is known.
    fn leader(&self) -> (u64, Option<String>);

    /// Appends bodies one behind another and answers once they are committed. Must not block.
    fn append(&self, bodies: Vec<Bytes>, answer: AppendAnswer);

    /// The committed entry of this index. May wait for the disk.
    ///
    /// # Errors
    /// `NOT_LEADER`, `LEADER_NOT_READY`, `INDEX_OUT_OF_RANGE` or `DISK_ERROR`.
    fn get(&self, index: u64) -> Result<JsonEntry, ResponseCode>;

    /// Hands the leadership to a member and answers when it is known what came of it. Must not
    /// block.
    fn transfer(&self, to: String, answer: TransferAnswer);

    /// Answers with role, marks and last events of this node, as a JSON object. Must not block.
    fn status(&self, answer: StatusAnswer);
}

/// What goes into every answer to a client.
#[derive(Debug, Clone)]
struct Asked {
    group: Option<String>,
    from: Option<String>,
    to: Option<String>,
}

/// The answer that an append waits for. Dropped, it says that the outcome is unknown.
#[derive(Debug)]
pub struct AppendAnswer {
    responder: Option<Responder>,
    asked: Asked,
}

impl AppendAnswer {
    /// Answers that the last of the bodies has this index, position and term. Keep the [`Flush`]
    /// until a group of answers is complete.
    pub fn committed(mut self, index: u64, position: u64, term: u64) -> Option<Flush> {
        let long = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        self.finish(ResponseCode::SUCCESS, [index, position, term].map(long), None)
    }

    /// Answers why nothing was appended, or why the outcome is unknown.
    pub fn refused(mut self, code: ResponseCode, leader: Option<String>) -> Option<Flush> {
        self.finish(code, [-1; 3], leader)
    }

    fn finish(
        &mut self,
        code: ResponseCode,
        [index, pos, term]: [i64; 3],
        leader_id: Option<String>,
    ) -> Option<Flush> {
        let Asked { group, from, to } = self.asked.clone();
        let body = AppendReplyBody {
            code: code.0,
            group,
            index,
            leader_id,
            local_id: from,
            pos,
            remote_id: to,
            term,
        };
        self.responder.take()?.send_unflushed(reply(&body))
    }
}

impl Drop for AppendAnswer {
    fn drop(&mut self) {
        // The wake-up, if one is owed, follows at once.
        drop(self.finish(ResponseCode::WAIT_QUORUM_ACK_TIMEOUT, [-1; 3], None));
    }
}

/// The answer that an operator waits for.
#[derive(Debug)]
pub struct TransferAnswer {
    responder: Option<Responder>,
    group: Option<String>,
}

impl TransferAnswer {
    /// Who asked.
    #[must_use]
    pub fn asked_by(&self) -> Option<IpAddr> {
        let responder = self.responder.as_ref()?;
        Some(responder.connection().remote_addr().ip())
    }

    /// Answers what came of it.
    pub fn done(mut self, code: ResponseCode, term: u64) {
        self.finish(code, i64::try_from(term).unwrap_or(i64::MAX));
    }

    fn finish(&mut self, code: ResponseCode, term: i64) {
        if let Some(responder) = self.responder.take() {
            let group = self.group.take();
            responder.send(reply(&Base { code: code.0, group, term, ..Base::default() }));
        }
    }
}

impl Drop for TransferAnswer {
    fn drop(&mut self) {
        self.finish(ResponseCode::TAKE_LEADERSHIP_FAILED, -1);
    }
}

/// The answer that who asks for the status waits for.
#[derive(Debug)]
pub struct StatusAnswer {
    responder: Option<Responder>,
}

impl StatusAnswer {
    /// Answers with a JSON object.
    pub fn done(mut self, text: String) {
        if let Some(responder) = self.responder.take() {
            responder.send(success().with_body(text));
        }
    }
}

impl Drop for StatusAnswer {
    fn drop(&mut self) {
        if let Some(responder) = self.responder.take() {
            let remark = "the log stopped before it could answer".to_owned();
            refuse(responder, code::response::SYSTEM_BUSY, remark);
        }
    }
}

/// Serves a request of a client, or says why not.
pub(super) fn serve(shared: &Arc<Shared>, command: &Command, responder: Responder) {
    let Some(service) = shared.clients() else {
        let remark = "the log of a broker takes no appends of DLedger clients";
        return refuse(responder, code::response::REQUEST_CODE_NOT_SUPPORTED, remark.to_owned());
    };
    let served = match command.code {
        request::METADATA => metadata(shared, &*service, command, responder),
        request::APPEND => append(shared, &*service, command, responder),
        request::GET => get(shared, service, command, responder),
        request::STATUS => status(shared, &*service, command, responder),
        _ => transfer(shared, &*service, command, responder),
    };
    if let Err((responder, error)) = served {
        refuse(responder, code::response::SYSTEM_ERROR, error.to_string());
    }
}

type Served = Result<(), (Responder, WireError)>;

fn metadata(
    shared: &Shared,
    service: &dyn ClientService,
    command: &Command,
    responder: Responder,
) -> Served {
    let base: Base = match json::read(&command.body) {
        Ok(base) => base,
        Err(error) => return Err((responder, error)),
    };
    let (term, leader_id) = service.leader();
    let refused = shared.misdirected(base.group.as_deref(), base.remote_id.as_deref());
    let members = shared.peers().iter().map(|peer| (peer.id.clone(), peer.address.clone()));
    responder.send(reply(&MetadataReplyBody {
        code: refused.unwrap_or(ResponseCode::SUCCESS).0,
        group: base.group,
        leader_id,
        local_id: base.local_id,
        peers: if refused.is_none() { members.collect() } else { Default::default() },
        remote_id: base.remote_id,
        term: i64::try_from(term).unwrap_or(i64::MAX),
    }));
    Ok(())
}

fn append(
    shared: &Shared,
    service: &dyn ClientService,
    command: &Command,
    responder: Responder,
) -> Served {
    let body: AppendBody = match json::read(&command.body) {
        Ok(body) => body,
        Err(error) => return Err((responder, error)),
    };
    let refused = shared.misdirected(body.group.as_deref(), body.remote_id.as_deref());
    let asked = Asked { group: body.group, from: body.local_id, to: body.remote_id };
    let answer = AppendAnswer { responder: Some(responder), asked };
    let bodies: Vec<Bytes> = match (body.batch_msgs, body.body) {
        (Some(batch), _) => batch.into_iter().map(|body| body.0).collect(),
        (None, Some(body)) => vec![body.0],
        (None, None) => Vec::new(),
    };
    if let Some(code) = refused {
        let (_, leader) = service.leader();
        drop(answer.refused(code, leader));
    } else if bodies.is_empty() || bodies.iter().any(Bytes::is_empty) {
        drop(answer.refused(ResponseCode::REQUEST_WITH_EMPTY_BODYS, None));
    } else {
        service.append(bodies, answer);
    }
    Ok(())
}

fn get(
    shared: &Shared,
    service: Arc<dyn ClientService>,
    command: &Command,
    responder: Responder,
) -> Served {
    let body: GetBody = match json::read(&command.body) {
        Ok(body) => body,
        Err(error) => return Err((responder, error)),
    };
    let refused = shared.misdirected(body.group.as_deref(), body.remote_id.as_deref());
    let answer = move || {
        let index = body.begin_index.and_then(|index| u64::try_from(index).ok());
        let found = match (refused, index) {
            (Some(code), _) => Err(code),
            (None, None) => Err(ResponseCode::UNEXPECTED_ARGUMENT),
            (None, Some(index)) => service.get(index),
        };
        let (code, entries) = match found {
            Ok(entry) => (ResponseCode::SUCCESS, vec![entry]),
            Err(code) => (code, Vec::new()),
        };
        let (_, leader_id) = service.leader();
        responder.send(reply(&GetReplyBody {
            code: code.0,
            entries,
            group: body.group,
            leader_id,
            local_id: body.local_id,
            remote_id: body.remote_id,
            term: -1,
        }));
    };
    // Its end is its answer.
    drop(tokio::task::spawn_blocking(answer));
    Ok(())
}

fn status(
    shared: &Shared,
    service: &dyn ClientService,
    command: &Command,
    responder: Responder,
) -> Served {
    match json::read::<Base>(&command.body) {
        Ok(base) => {
            let refused = shared.misdirected(base.group.as_deref(), base.remote_id.as_deref());
            match refused {
                Some(code) => {
                    refuse(responder, code::response::SYSTEM_ERROR, code.to_string());
                }
                None => service.status(StatusAnswer { responder: Some(responder) }),
            }
            Ok(())
        }
        Err(error) => Err((responder, error)),
    }
}

fn transfer(
    shared: &Shared,
    service: &dyn ClientService,
    command: &Command,
    responder: Responder,
) -> Served {
    let body: TransferBody = match json::read(&command.body) {
        Ok(body) => body,
        Err(error) => return Err((responder, error)),
    };
    let refused = shared.misdirected(body.group.as_deref(), body.remote_id.as_deref());
    let answer = TransferAnswer { responder: Some(responder), group: body.group };
    let (term, _) = service.leader();
    match (refused, body.transferee_id) {
        (Some(code), _) => answer.done(code, term),
        (None, None) => answer.done(ResponseCode::UNEXPECTED_ARGUMENT, term),
        (None, Some(to)) if shared.peers().get(&to).is_none() => {
            answer.done(ResponseCode::UNKNOWN_MEMBER, term);
        }
        // The request was meant for another term (Java: `INCONSISTENT_TERM`); -1 is any.
        (None, Some(_)) if body.term >= 0 && u64::try_from(body.term) != Ok(term) => {
            answer.done(ResponseCode::INCONSISTENT_TERM, term);
        }
        (None, Some(to)) => service.transfer(to, answer),
    }
    Ok(())
}

/// A frame with code 200 and this body.
pub(super) fn reply<T: Serialize>(body: &T) -> Command {
    success().with_body(json::write(body))
}

pub(super) fn success() -> Command {
    Command::request(ResponseCode::SUCCESS.0)
}

/// Answers that the frame is not served; the text says why.
pub(super) fn refuse(responder: Responder, code: i32, remark: String) {
    responder.send(Command::request(code).with_remark(remark));
}

impl fmt::Debug for dyn ClientService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientService")
    }
}
