//! Who serves requests.

use std::sync::Arc;

use protocol::Command;

use crate::connection::Connection;
use crate::responder::Responder;

/// Serves the requests of connections.
///
/// To ensure correctness:
/// - [`Handler::handle`] must not block; it runs in the task of the connection. Long work goes
///   elsewhere and answers later through the [`Responder`].
/// - `opened` is called before the first request, `closed` once after the last one; after `closed`
///   answers of requests still held are dropped.
/// - A panic is caught and logged; a two-way request is then answered with `SYSTEM_ERROR`.
pub trait Handler: Send + Sync + 'static {
    /// Serves one request, now or later.
    fn handle(&self, connection: &Arc<Connection>, request: Command, responder: Responder);

    /// A connection was made.
    fn opened(&self, _connection: &Arc<Connection>) {}

    /// A connection has ended; its pending calls have failed already.
    fn closed(&self, _connection: &Arc<Connection>) {}
}
