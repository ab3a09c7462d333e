//! The right and the duty to answer one request.

use std::fmt;
use std::sync::Arc;

use protocol::{Command, ExtFields, HeaderEncoding, code, flag};
use tracing::debug;

use crate::connection::Connection;

/// Answers one request, once. Held as long as the work takes; it counts as in flight until then.
///
/// Dropped unanswered, it answers a two-way request with `SYSTEM_ERROR`, so that no client waits
/// for its time-out.
#[must_use = "a request that is dropped is answered with SYSTEM_ERROR"]
pub struct Responder {
    connection: Arc<Connection>,
    opaque: i32,
    code: i32,
    encoding: HeaderEncoding,
    oneway: bool,
    held_bytes: usize,
    done: bool,
}

/// Bytes that a request holds until it is answered: its body, and the fields of its header, which a
/// waiting pull keeps as well.
pub(crate) fn held_bytes(request: &Command) -> usize {
    request.body.len() + request.ext_fields.as_ref().map_or(0, ExtFields::held_bytes)
}

impl Responder {
    pub(crate) fn new(connection: &Arc<Connection>, request: &Command) -> Self {
        Self {
            connection: Arc::clone(connection),
            opaque: request.opaque,
            code: request.code,
            encoding: request.encoding,
            oneway: request.is_oneway(),
            held_bytes: held_bytes(request),
            done: false,
        }
    }

    /// Sends the answer. Its opaque, flag and encoding become those that the request asks for; for
    /// a oneway request it is dropped, as Java does.
    pub fn send(mut self, response: Command) {
        let answer = self.finish(response);
        self.connection.outbox().finish(self.held_bytes, answer);
    }

    /// Queues the answer without waking the connection. The [`Flush`] wakes it when dropped; there
    /// is one per connection at a time, so that a group of answers wakes each connection once.
    pub fn send_unflushed(mut self, response: Command) -> Option<Flush> {
        match self.finish(response) {
            Some(answer) => self
                .connection
                .outbox()
                .finish_unflushed(self.held_bytes, answer)
                .then(|| Flush { connection: Arc::clone(&self.connection) }),
            None => {
                self.connection.outbox().finish(self.held_bytes, None);
                None
            }
        }
    }

    /// Ends the request without an answer, for the few requests that Java leaves unanswered.
    pub fn leave_unanswered(mut self) {
        self.done = true;
        self.connection.outbox().finish(self.held_bytes, None);
    }

    /// Whether the request wants no answer.
    pub fn is_oneway(&self) -> bool {
        self.oneway
    }

    /// The connection that the request came by.
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    fn finish(&mut self, mut response: Command) -> Option<Command> {
        self.done = true;
        if self.oneway {
            return None;
        }
        response.opaque = self.opaque;
        response.flag = flag::RESPONSE;
        response.encoding = self.encoding;
        Some(response)
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let cause = if std::thread::panicking() { "its handler failed" } else { "it was dropped" };
        if !self.oneway {
            debug!(code = self.code, peer = %self.connection.remote_addr(), cause, "request unanswered");
        }
        let mut request = Command::request(self.code);
        request.opaque = self.opaque;
        let response = request.response(code::response::SYSTEM_ERROR).with_remark(format!(
            "request code {} was not served: {cause}; see the log",
            self.code
        ));
        let answer = self.finish(response);
        self.connection.outbox().finish(self.held_bytes, answer);
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Responder")
            .field("code", &self.code)
            .field("opaque", &self.opaque)
            .field("oneway", &self.oneway)
            .field("connection", &self.connection.id())
            .finish_non_exhaustive()
    }
}

/// Wakes a connection for answers that were queued without a wake, when it is dropped.
#[derive(Debug)]
#[must_use = "dropping it wakes the connection; keep it until the group of answers is complete"]
pub struct Flush {
    connection: Arc<Connection>,
}

impl Drop for Flush {
    fn drop(&mut self) {
        self.connection.outbox().flush();
    }
}
