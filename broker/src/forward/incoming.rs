//! Requests that followers pass on to this node.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use dledger::{transport::ForwardService, wire::forward::Forwarded};
use remoting::{Connection, Responder};

use crate::{
    broker::Broker,
    call::Call,
    dispatcher::{self, Port},
    routes::Serves,
    switch::{Origin, unavailable},
};

/// However long a client is said to wait, this node does not keep its request for longer.
const LONGEST: Duration = Duration::from_secs(60);

/// Serves what followers pass on as if its client had sent it here.
#[derive(Debug)]
pub(crate) struct Incoming(pub(crate) Weak<Broker>);

impl ForwardService for Incoming {
    fn forwarded(&self, connection: &Arc<Connection>, forwarded: Forwarded, responder: Responder) {
        let Forwarded { ids, client, patience, command } = forwarded;
        let mut call = Call {
            connection: Arc::clone(connection),
            client,
            command,
            received: Instant::now(),
            patience: Some(patience.min(LONGEST)),
            origin: Origin::Member(ids.from),
            responder: Some(responder),
        };
        let Some(broker) = self.0.upgrade() else {
            let rejection = unavailable("service not available now: this broker has stopped");
            return dispatcher::answer_refusal(&mut call, &rejection);
        };
        match dispatcher::serving(call.command.code, Port::Main) {
            Ok(serving) if serving.serves == Serves::Master => {
                dispatcher::enter(&broker, serving, call);
            }
            // What a follower serves itself hangs on the client's own connection.
            Ok(_) => {
                let remark = format!(
                    "service not available now: request code {} is not passed on; ask the master itself",
                    call.command.code
                );
                dispatcher::refuse(&broker, call, &unavailable(remark));
            }
            Err(rejection) => dispatcher::refuse(&broker, call, &rejection),
        }
    }
}
