//! The way of a request from its connection to its handler, by the table of routes.
//!
//! Role check, span and counters are here, once: what another node serves goes to `forward.rs`. A code that Java does not know gets Java's answer
//! for it.

use std::{sync::Arc, time::Instant};

use protocol::{
    Command,
    code::{request, response},
};
use remoting::{Connection, Handler, Responder};

use crate::{
    audit::Audit,
    broker::Broker,
    call::{Call, Rejection},
    forward,
    lanes::Lane,
    reply,
    routes::{self, Does, Serve, Serves},
    switch::{Origin, Way},
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

/// How a request is served, by its line of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Serving {
    /// The line.
    pub(crate) at: usize,
    /// Where its handler runs.
    pub(crate) lane: Lane,
    /// Who serves it.
    pub(crate) serves: Serves,
    handler: Serve,
}

impl Dispatcher {
    /// A dispatcher of one listener.
    pub(crate) fn new(broker: Arc<Broker>, port: Port) -> Self {
        Self { broker, port }
    }
}

/// How a request of this code is served.
///
/// # Errors
/// Nobody serves it, and why.
pub(crate) fn serving(code: i32, port: Port) -> Result<Serving, Rejection> {
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
        Does::Serve { .. } if port == Port::Fast && NOT_FAST.contains(&code) => Err(unknown()),
        Does::Serve { lane, serves, handler } => {
            Ok(Serving { at, lane: *lane, serves: *serves, handler: *handler })
        }
    }
}

/// Takes a request to where it is served: here, or elsewhere.
pub(crate) fn enter(broker: &Arc<Broker>, serving: Serving, call: Call) {
    match broker.way(serving.serves, &call.origin) {
        Way::Here => serve(broker, serving, call),
        Way::Nowhere => {
            let rejection = forward::unserved(broker, &call);
            refuse(broker, call, &rejection);
        }
        Way::Leader(_) | Way::Soon => forward::carry(broker, serving, call),
    }
}

/// Serves a request here, on its lane.
pub(crate) fn serve(broker: &Arc<Broker>, serving: Serving, call: Call) {
    match broker.lanes.place(serving.lane) {
        Ok(place) => {
            let broker = Arc::clone(broker);
            place.run(move || run(&broker, serving, call));
        }
        Err(rejection) => refuse(broker, call, &rejection),
    }
}

fn run(broker: &Arc<Broker>, serving: Serving, mut call: Call) {
    let code = call.command.code;
    let span = tracing::debug_span!(
        "request",
        code,
        name = request::name(code).unwrap_or("unknown"),
        peer = %call.client,
        opaque = call.command.opaque,
    );
    let _entered = span.enter();
    let audit = Audit::of(&call.command);
    let result = (serving.handler)(broker, &mut call);
    if let Err(rejection) = &result
        && has_lost_the_lead(broker, serving, &call, rejection)
    {
        return forward::carry(broker, serving, call);
    }
    if let Some(audit) = &audit {
        broker.audit.tell(audit, call.client, result.as_ref().err());
    }
    if let Err(rejection) = &result {
        tracing::debug!(code = rejection.code, remark = rejection.remark, "refused");
    }
    broker.requests.served(serving.at, call.received.elapsed(), result.is_err());
    reply::give(&mut call, result);
}

/// Whether the lead went while the request was on its way to the log, which has taken nothing of
/// it: then it goes where it had gone a moment later.
fn has_lost_the_lead(
    broker: &Broker,
    serving: Serving,
    call: &Call,
    rejection: &Rejection,
) -> bool {
    rejection.code == response::SERVICE_NOT_AVAILABLE
        && call.responder.is_some()
        && matches!(broker.way(serving.serves, &call.origin), Way::Leader(_) | Way::Soon)
}

/// Refuses a request that reaches no handler.
pub(crate) fn refuse(broker: &Broker, mut call: Call, rejection: &Rejection) {
    let code = call.command.code;
    tracing::debug!(code, peer = %call.client, remark = rejection.remark, "refused");
    broker.requests.refused_unserved();
    answer_refusal(&mut call, rejection);
}

/// Gives a refusal to whoever waits for an answer.
pub(crate) fn answer_refusal(call: &mut Call, rejection: &Rejection) {
    if let Some(responder) = call.responder.take() {
        responder.send(reply::refusal(rejection));
    }
}

impl Handler for Dispatcher {
    fn handle(&self, connection: &Arc<Connection>, command: Command, responder: Responder) {
        let call = Call {
            connection: Arc::clone(connection),
            client: connection.remote_addr(),
            command,
            received: Instant::now(),
            patience: None,
            origin: Origin::Client,
            responder: Some(responder),
        };
        if self.broker.switch.sends_away(call.command.version) {
            let rejection = Rejection::new(response::GO_AWAY, "please go away");
            return refuse(&self.broker, call, &rejection);
        }
        match serving(call.command.code, self.port) {
            Ok(serving) => enter(&self.broker, serving, call),
            Err(rejection) => refuse(&self.broker, call, &rejection),
        }
    }

    fn closed(&self, connection: &Arc<Connection>) {
        self.broker.connection_closed(connection);
    }
}
