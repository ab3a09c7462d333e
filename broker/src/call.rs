//! What a request handler gets and what it gives back.

use std::{
    future::Future,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use protocol::{Command, code::response, header::Header};
use remoting::{Connection, Responder};

use crate::{reply, switch::Origin};

/// One request on its way through a handler.
#[derive(Debug)]
pub(crate) struct Call {
    /// The connection it came by: the client's, or that of the member that passed it on.
    pub(crate) connection: Arc<Connection>,
    /// The client's address.
    pub(crate) client: SocketAddr,
    /// The request.
    pub(crate) command: Command,
    /// When its frame was complete.
    pub(crate) received: Instant,
    /// How long the client waits from then on, where it is known.
    pub(crate) patience: Option<Duration>,
    /// How it came here.
    pub(crate) origin: Origin,
    /// Present until a handler takes it to answer later.
    pub(crate) responder: Option<Responder>,
}

impl Call {
    /// The request's header.
    pub(crate) fn header<H: Header>(&self) -> Result<H, Rejection> {
        Ok(self.command.header()?)
    }

    /// An answer with code 0, to be filled.
    pub(crate) fn success(&self) -> Command {
        self.command.response(response::SUCCESS)
    }

    /// Takes the responder, for an answer that is given later. A handler that takes it returns
    /// [`Reply::Later`].
    ///
    /// # Errors
    /// Taken already: a fault of the handler.
    pub(crate) fn take_responder(&mut self) -> Result<Responder, Rejection> {
        self.responder.take().ok_or_else(|| {
            Rejection::new(response::SYSTEM_ERROR, "the request is being answered already")
        })
    }

    /// The same request for a task of its own, which answers it.
    ///
    /// # Errors
    /// The responder is taken already.
    pub(crate) fn detach(&mut self) -> Result<Self, Rejection> {
        Ok(Self {
            connection: Arc::clone(&self.connection),
            client: self.client,
            command: self.command.clone(),
            received: self.received,
            patience: self.patience,
            origin: self.origin.clone(),
            responder: Some(self.take_responder()?),
        })
    }

    /// Answers with what `work` gives, once it is done: for what waits for another process.
    pub(crate) fn answer_with(
        &mut self,
        work: impl Future<Output = Result<Command, Rejection>> + Send + 'static,
    ) -> Result<Reply, Rejection> {
        let responder = self.take_responder()?;
        tokio::spawn(async move {
            responder.send(work.await.unwrap_or_else(|rejection| reply::refusal(&rejection)));
        });
        Ok(Reply::Later)
    }
}

/// What a handler answers. A refusal is a [`Rejection`].
#[derive(Debug)]
pub(crate) enum Reply {
    /// Answer now.
    Now(Command),
    /// The handler took the responder and answers later (on commit, on arrival, after a relay).
    Later,
}

impl Reply {
    /// Code 0 and nothing else.
    pub(crate) fn done(call: &Call) -> Result<Self, Rejection> {
        Ok(Self::Now(call.success()))
    }

    /// Code 0 and a header.
    pub(crate) fn header(call: &Call, header: &impl Header) -> Result<Self, Rejection> {
        Ok(Self::Now(call.success().with_header(header)))
    }

    /// Code 0 and a body.
    pub(crate) fn body(call: &Call, body: impl Into<Bytes>) -> Result<Self, Rejection> {
        Ok(Self::Now(call.success().with_body(body)))
    }
}

/// A refused request: what `reply.rs` turns into a code and a remark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejection {
    /// Response code.
    pub(crate) code: i32,
    /// Text for people: cause and next step; Java's text where clients or tools match it.
    pub(crate) remark: String,
    /// Fields of the response header, where a refusal has some.
    pub(crate) fields: Vec<(&'static str, String)>,
}

impl Rejection {
    /// A refusal with a code of `protocol::code::response` and its text.
    pub(crate) fn new(code: i32, remark: impl Into<String>) -> Self {
        Self { code, remark: remark.into(), fields: Vec::new() }
    }

    /// The same refusal with one more header field.
    pub(crate) fn with_field(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }
}
