//! One request and its answer.

use std::time::Duration;

use protocol::{
    Command,
    code::{request, response},
    header::{Header, SendMessageRequest},
};

use crate::error::{RequestError, Unreadable};

/// A request on its way to one address.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    connections: &'a remoting::Client,
    /// What it does, for errors.
    operation: &'static str,
    address: &'a str,
    timeout: Duration,
    command: Command,
}

/// An answer that was taken.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) command: Command,
    operation: &'static str,
    address: String,
}

impl<'a> Request<'a> {
    /// A request without header fields to `address`.
    pub(crate) fn new(
        connections: &'a remoting::Client,
        operation: &'static str,
        address: &'a str,
        code: i32,
    ) -> Self {
        let timeout = Duration::from_secs(3);
        Self { connections, operation, address, timeout, command: Command::request(code) }
    }

    /// With a typed header.
    pub(crate) fn header(mut self, header: &impl Header) -> Self {
        self.command = self.command.with_header(header);
        self
    }

    /// With the header of a send, in the spelling of the request's code.
    pub(crate) fn send_header(mut self, header: &SendMessageRequest) -> Self {
        let code = self.command.code;
        header.encode_for(code, self.command.ext_fields.get_or_insert_default());
        self
    }

    /// With a body.
    pub(crate) fn body(mut self, body: impl Into<bytes::Bytes>) -> Self {
        self.command = self.command.with_body(body);
        self
    }

    /// With another time to wait than 3 s, which is Java's.
    pub(crate) fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sends it and takes the answer if it has the code SUCCESS.
    pub(crate) async fn send(self) -> Result<Answer, RequestError> {
        self.send_accepting(&[response::SUCCESS]).await
    }

    /// Sends it and takes the answer if it has one of `codes`.
    pub(crate) async fn send_accepting(self, codes: &[i32]) -> Result<Answer, RequestError> {
        let Self { connections, operation, address, timeout, command } = self;
        let command = connections
            .call(address, command, timeout)
            .await
            .map_err(|cause| RequestError::Call { operation, cause })?;
        if codes.contains(&command.code) {
            return Ok(Answer { command, operation, address: address.to_owned() });
        }
        Err(RequestError::Refused {
            operation,
            address: address.to_owned(),
            code: command.code,
            name: response::name(command.code).unwrap_or_default(),
            remark: command.remark.unwrap_or_else(|| "no reason was given".to_owned()),
        })
    }

    /// Sends it without an answer.
    pub(crate) async fn send_oneway(self) -> Result<(), RequestError> {
        let Self { connections, operation, address, command, .. } = self;
        connections
            .oneway(address, command)
            .await
            .map_err(|cause| RequestError::Call { operation, cause })
    }
}

impl Answer {
    /// Its typed header.
    pub(crate) fn header<H: Header>(&self) -> Result<H, RequestError> {
        self.read(|command| Ok(command.header()?))
    }

    /// What `read` makes of it; an error of `read` names the answer.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&Command) -> Result<T, Unreadable>,
    ) -> Result<T, RequestError> {
        read(&self.command).map_err(|error| self.malformed(error.to_string()))
    }

    /// An error that names this answer.
    pub(crate) fn malformed(&self, reason: String) -> RequestError {
        RequestError::Answer { operation: self.operation, address: self.address.clone(), reason }
    }
}

/// Java's name of a request code, for logs.
pub(crate) fn code_name(code: i32) -> &'static str {
    request::name(code).unwrap_or("unknown request")
}
