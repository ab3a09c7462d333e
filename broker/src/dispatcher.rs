//! The way of a request from its connection to its handler, by the table of routes.
//!
//! Role check, span and counters are here, once. A code that Java does not know gets Java's answer
//! for it.

use std::{sync::Arc, time::Instant};

use protocol::{
    Command,
    code::{request, response},
};
use remoting::{Connection, Handler, Responder};

use crate::{
    broker::Broker,
    call::{Call, Rejection},
    lanes::Lane,
    reply,
    routes::{self, Does, Serve, Serves},
};

/// What the fast port lacks (`BrokerController.registerProcessor`).
const NOT_FAST: [i32; 6] = [
    request::PULL_MESSAGE,
    request::LITE_PULL_MESSAGE,
    request::PEEK_MESSAGE,
    request::POP_MESSAGE,
    request::NOTIFICATION,
    request::POLLING_INFO,
];

/// What a listener does with its requests.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    broker: Arc<Broker>,
    port: Port,
}

/// Which listener a request came by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    /// `listenPort`.
    Main,
    /// `listenPort` - 2, which serves all but what waits for messages.
    Fast,
}

impl Dispatcher {
    /// A dispatcher of one listener.
    pub(crate) fn new(broker: Arc<Broker>, port: Port) -> Self {
        Self { broker, port }
    }

    fn route(&self, code: i32) -> Result<(usize, Lane, Serves, Serve), Rejection> {
        let unknown = || {
            let remark = format!(" request type {code} not supported");
            Rejection::new(response::REQUEST_CODE_NOT_SUPPORTED, remark)
        };
        let (at, route) = routes::find(code).ok_or_else(unknown)?;
        match &route.does {
            Does::Decline { reason, for_good } => {
                let stays = if *for_good { "; it stays so" } else { "" };
                let remark = format!(" request type {code} not supported: {reason}{stays}");
                Err(Rejection::new(response::REQUEST_CODE_NOT_SUPPORTED, remark))
            }
            Does::Serve { .. } if self.port == Port::Fast && NOT_FAST.contains(&code) => {
                Err(unknown())
            }
            Does::Serve { lane, serves, handler } => Ok((at, *lane, *serves, *handler)),
        }
    }
}

impl Handler for Dispatcher {
    fn handle(&self, connection: &Arc<Connection>, command: Command, responder: Responder) {
        let code = command.code;
        let placed = self.route(code).and_then(|(at, lane, serves, handler)| {
            if serves == Serves::Master {
                self.broker.require_master()?;
            }
            Ok((at, self.broker.lanes.place(lane)?, handler))
        });
        let (at, place, handler) = match placed {
            Ok(placed) => placed,
            Err(rejection) => {
                tracing::debug!(code, peer = %connection.remote_addr(), remark = rejection.remark, "refused");
                self.broker.requests.refused_unserved();
                responder.send(reply::refusal(&rejection));
                return;
            }
        };
        let mut call = Call {
            connection: Arc::clone(connection),
            command,
            received: Instant::now(),
            responder: Some(responder),
        };
        let broker = Arc::clone(&self.broker);
        place.run(move || {
            let span = tracing::debug_span!(
                "request",
                code,
                name = request::name(code).unwrap_or("unknown"),
                peer = %call.connection.remote_addr(),
                opaque = call.command.opaque,
            );
            let _entered = span.enter();
            let result = handler(&broker, &mut call);
            if let Err(rejection) = &result {
                tracing::debug!(code = rejection.code, remark = rejection.remark, "refused");
            }
            broker.requests.served(at, call.received.elapsed(), result.is_err());
            reply::give(&mut call, result);
        });
    }

    fn closed(&self, connection: &Arc<Connection>) {
        self.broker.connection_closed(connection);
    }
}
