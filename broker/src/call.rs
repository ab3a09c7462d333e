//! What a request handler gets and what it gives back.

use std::{sync::Arc, time::Instant};

use protocol::Command;
use remoting::{Connection, Responder};

/// One request on its way through a handler.
#[derive(Debug)]
pub(crate) struct Call {
    /// The connection it came by.
    pub(crate) connection: Arc<Connection>,
    /// The request.
    pub(crate) command: Command,
    /// When its frame was complete.
    pub(crate) received: Instant,
    /// Present until a handler takes it to answer later.
    pub(crate) responder: Option<Responder>,
}

/// What a handler answers. A refusal is a [`Rejection`].
#[derive(Debug)]
pub(crate) enum Reply {
    /// Answer now.
    Now(Command),
    /// The handler took the responder and answers later (on commit, on arrival, after a relay).
    Later,
    /// Nothing is answered.
    Nothing,
}

/// A refused request: what `reply.rs` turns into a code and a remark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejection {
    /// Response code.
    pub(crate) code: i32,
    /// Text for people: cause and next step; Java's text where clients or tools match it.
    pub(crate) remark: String,
}

impl Rejection {
    /// A refusal with a code of `protocol::code::response` and its text.
    pub(crate) fn new(code: i32, remark: impl Into<String>) -> Self {
        Self { code, remark: remark.into() }
    }
}
