//! Requests of clients that a follower passes on to this node.

use std::sync::Arc;

use protocol::{Command, code};
use remoting::{Connection, Responder};

use super::{clients::refuse, remote::Shared};
use crate::wire::forward::Forwarded;

/// Serves requests that members pass on for clients of their own: it is up to the owner of the log
/// what a client's request means.
pub trait ForwardService: Send + Sync + 'static {
    /// Serves a request as if its client had sent it here. `connection` and `responder` are those of
    /// the member that passed it on. Must not block.
    fn forwarded(&self, connection: &Arc<Connection>, forwarded: Forwarded, responder: Responder);
}

/// Hands a forwarded request to its service, where it comes from a member.
pub(super) fn serve(
    shared: &Shared,
    connection: &Arc<Connection>,
    command: &Command,
    responder: Responder,
) {
    let Some(service) = shared.forwards() else {
        let remark = format!(" request type {} not supported", command.code);
        return refuse(responder, code::response::REQUEST_CODE_NOT_SUPPORTED, remark);
    };
    let host = connection.remote_addr().ip().to_string();
    let forwarded = match Forwarded::decode(command) {
        Ok(forwarded) => forwarded,
        Err(error) => {
            shared.complain(&host, &error.to_string());
            return refuse(responder, code::response::SYSTEM_ERROR, error.to_string());
        }
    };
    let ids = &forwarded.ids;
    let stranger = ids.from == shared.self_id() || shared.peers().get(&ids.from).is_none();
    if stranger || shared.misdirected(Some(&ids.group), Some(&ids.to)).is_some() {
        let text = format!(
            "a request of {} for {} of group {} was passed on to {} of {}: dLegerPeers differ between nodes",
            ids.from,
            ids.to,
            ids.group,
            shared.self_id(),
            shared.group()
        );
        shared.complain(&host, &text);
        return refuse(responder, code::response::SERVICE_NOT_AVAILABLE, text);
    }
    service.forwarded(connection, forwarded, responder);
}
