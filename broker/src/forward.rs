//! Requests that another node serves: passed on to the leader, and taken from followers.
//!
//! Stock clients ask for routes every 30 s only. Until then they send to a master that was, and a
//! killed one that is restarted at its address is useful at once: it comes back as a follower and
//! passes on what its clients send. A request takes one hop, and is never sent again once bytes of
//! it have left: the leader may have acted on it.

mod incoming;
mod load;

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use dledger::{
    Peers,
    wire::{self, forward::Forwarded, message::Ids},
};
use protocol::{
    Command,
    code::{request, response},
    header::SendMessageResponse,
};
use remoting::{CallError, Client, ClientOptions, Limits};

use crate::{
    broker::Broker,
    call::{Call, Rejection},
    dispatcher::{self, Serving},
    lanes::Lane,
    pending, reply,
    switch::{Origin, RECENT, Way, unavailable},
};

pub(crate) use incoming::Incoming;
use load::Load;

/// Time for one attempt to connect to the leader.
const CONNECT: Duration = Duration::from_secs(1);
/// How long the client of a send, a commit or a query is taken to wait (Java: `sendMsgTimeout`).
const PATIENCE: Duration = Duration::from_secs(3);
/// How long an administrator waits: a new topic is registered before it is answered.
const ADMIN_PATIENCE: Duration = Duration::from_secs(10);
/// How long the client of a pop is taken to wait for messages, at most.
const LONGEST_POLL: Duration = Duration::from_secs(50);

/// How long a request that a member passed on waits for this node to become the master: then the member
/// looks again who leads. In two hand-overs one after the other each of the two may take the other
/// one for the leader.
const HAND_OVER: Duration = Duration::from_millis(300);
/// Pause before a request that was not served is passed on again.
const PAUSE: Duration = Duration::from_millis(20);

/// The members of the group, as this node passes requests on to them.
#[derive(Debug)]
pub(crate) struct Members {
    /// Name of the group.
    pub(crate) group: String,
    /// Id of this node.
    pub(crate) self_id: String,
    /// All members.
    pub(crate) peers: Peers,
}

/// Passes requests on.
#[derive(Debug)]
pub(crate) struct Forwarder {
    /// None in a group of one.
    members: Option<Members>,
    client: Client,
    load: Load,
    /// Members that do not know our request code: Java.
    java: Mutex<HashSet<String>>,
    passed_on: AtomicU64,
}

/// Why the leader gave no answer.
#[derive(Debug)]
enum NoAnswer {
    /// Nothing was sent; another node may be asked.
    NotSent(String),
    /// It may have acted on the request.
    Unknown(CallError),
}

impl Forwarder {
    /// Passes requests on within the group, where there is one.
    pub(crate) fn new(members: Option<Members>) -> Self {
        let limits = Limits { max_pending_calls: load::REQUESTS, ..Limits::default() };
        let options =
            ClientOptions { limits, connect_timeout: CONNECT, ..ClientOptions::default() };
        Self {
            members,
            client: Client::new(options),
            load: Load::default(),
            java: Mutex::default(),
            passed_on: AtomicU64::new(0),
        }
    }

    /// Whether the group has other members.
    pub(crate) fn has_members(&self) -> bool {
        self.members.is_some()
    }

    /// Requests that were passed on so far.
    pub(crate) fn passed_on(&self) -> u64 {
        self.passed_on.load(Ordering::Relaxed)
    }

    /// Waits until nothing is on its way, for `limit` at most; gives whether nothing is.
    pub(crate) async fn drained(&self, limit: Duration) -> bool {
        let begun = Instant::now();
        while self.load.requests() > 0 {
            if begun.elapsed() >= limit {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        true
    }

    /// Carries no more: what is on its way is answered as not known.
    pub(crate) fn close(&self) {
        self.client.close();
    }

    fn is_java(&self, id: &str) -> bool {
        self.java.lock().unwrap_or_else(PoisonError::into_inner).contains(id)
    }

    /// A member that was Java and runs ours now takes requests on its peer port, where one hop is all.
    fn notice_taken_over(&self, broker: &Broker, id: &str) {
        let is_ours = || broker.group.as_ref().is_some_and(|group| !group.is_java(id));
        if self.is_java(id) && is_ours() {
            self.java.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        }
    }

    /// Asks the leader in place of the client; `None` is the answer to a oneway request.
    /// `client_address` gives where the leader serves clients.
    async fn pass_on(
        &self,
        leader: &str,
        call: &Call,
        client_address: impl FnOnce() -> Option<String>,
    ) -> Result<Option<Command>, NoAnswer> {
        let left = patience_left(call, Instant::now());
        if !self.is_java(leader) {
            let answer = self.to_peer_port(leader, call, left).await?;
            if !answer.as_ref().is_some_and(is_unknown_code) {
                return Ok(answer);
            }
            // It has served nothing of it.
            tracing::info!(leader, "requests are passed on to the client port of a Java leader");
            self.java.lock().unwrap_or_else(PoisonError::into_inner).insert(leader.to_owned());
        }
        let address = client_address().ok_or_else(|| {
            NoAnswer::NotSent(format!("the address of the leader {leader} is not known yet"))
        })?;
        self.exchange(&address, call.command.clone(), left).await
    }

    async fn to_peer_port(
        &self,
        leader: &str,
        call: &Call,
        left: Duration,
    ) -> Result<Option<Command>, NoAnswer> {
        let known = self
            .members
            .as_ref()
            .and_then(|members| Some((members, members.peers.get(leader)?.address.as_str())));
        let (members, address) = known.ok_or_else(|| {
            NoAnswer::NotSent(format!("the leader {leader} is no member in dLegerPeers"))
        })?;
        let forwarded = Forwarded {
            ids: Ids {
                group: members.group.clone(),
                from: members.self_id.clone(),
                to: leader.to_owned(),
            },
            client: call.client,
            patience: left,
            command: call.command.clone(),
        };
        self.exchange(address, forwarded.encode(), left).await
    }

    async fn exchange(
        &self,
        address: &str,
        request: Command,
        left: Duration,
    ) -> Result<Option<Command>, NoAnswer> {
        let outcome = if request.is_oneway() {
            self.client.oneway(address, request).await.map(|()| None)
        } else {
            self.client.call(address, request, left).await.map(Some)
        };
        match outcome {
            Ok(answer) => {
                self.passed_on.fetch_add(1, Ordering::Relaxed);
                Ok(answer)
            }
            Err(error) if error.may_have_been_sent() => Err(NoAnswer::Unknown(error)),
            Err(error) => Err(NoAnswer::NotSent(error.to_string())),
        }
    }
}

/// Serves a request elsewhere, or here once that may be: in a task of its own.
pub(crate) fn carry(broker: &Arc<Broker>, serving: Serving, call: Call) {
    let Some(share) = broker.forwarder.load.share(call.command.body.len()) else {
        let busy = "[OVERLOAD]system busy, start flow control for a while: too many requests wait for the master";
        let rejection = Rejection::new(response::SYSTEM_BUSY, busy);
        return dispatcher::refuse(broker, call, &rejection);
    };
    let broker = Arc::clone(broker);
    let runtime = broker.runtime.clone();
    runtime.spawn(async move {
        find_way(&broker, serving, call).await;
        drop(share);
    });
}

async fn find_way(broker: &Arc<Broker>, serving: Serving, mut call: Call) {
    if call.patience.is_none() {
        call.patience = Some(patience(serving.lane, &call.command));
    }
    let mut changes = broker.switch.changes();
    let mut unreached: Option<(String, String)> = None;
    loop {
        changes.borrow_and_update();
        let way = broker.way(serving.serves, &call.origin);
        match way {
            Way::Here => return dispatcher::serve(broker, serving, call),
            Way::Nowhere => {
                let rejection = unserved(broker, &call);
                return dispatcher::refuse(broker, call, &rejection);
            }
            Way::Leader(leader) => match &unreached {
                Some((tried, why)) if *tried == leader => {
                    let remark = format!(
                        "service not available now: the master {leader} cannot be reached: {why}; send again"
                    );
                    return dispatcher::refuse(broker, call, &unavailable(remark));
                }
                _ => {
                    broker.forwarder.notice_taken_over(broker, &leader);
                    let address = || broker.leader_address();
                    match broker.forwarder.pass_on(&leader, &call, address).await {
                        // The other one does not lead and has served nothing: a change is under way.
                        Ok(Some(answer)) if is_unserved(&answer) && has_time(&call) => {
                            drop(tokio::time::timeout(PAUSE, changes.changed()).await);
                        }
                        Ok(answer) => return give(broker, call, answer),
                        Err(NoAnswer::Unknown(error)) => return give_unknown(broker, call, &error),
                        Err(NoAnswer::NotSent(why)) => unreached = Some((leader, why)),
                    }
                }
            },
            Way::Soon => {
                let mut left = patience_left(&call, Instant::now());
                if matches!(call.origin, Origin::Member(_)) {
                    left = left.min(HAND_OVER.saturating_sub(call.received.elapsed()));
                }
                if left.is_zero() {
                    let rejection = unserved(broker, &call);
                    return dispatcher::refuse(broker, call, &rejection);
                }
                // Over or changed: the next look tells.
                drop(tokio::time::timeout(left.min(RECENT), changes.changed()).await);
            }
        }
    }
}

/// Gives the client the leader's answer as it is.
fn give(broker: &Broker, mut call: Call, answer: Option<Command>) {
    let refused = answer.as_ref().is_some_and(|answer| answer.code != response::SUCCESS);
    tracing::debug!(code = call.command.code, peer = %call.client, refused, "passed on");
    broker.requests.passed_on(call.command.code);
    match (call.responder.take(), answer) {
        (Some(responder), Some(answer)) => responder.send(answer),
        (Some(responder), None) => responder.leave_unanswered(),
        (None, _) => tracing::error!(code = call.command.code, "a request was answered twice"),
    }
}

/// The answer to a request of which nobody knows whether it was served: to a send the code of the
/// time-out, as for an append whose commit is not known.
fn give_unknown(broker: &Broker, mut call: Call, error: &CallError) {
    let remark = format!(
        "the request was passed on to the master, and what came of it is not known: {error}"
    );
    tracing::debug!(code = call.command.code, peer = %call.client, %error, "outcome unknown");
    broker.requests.passed_on(call.command.code);
    let code = unknown_code(&call.command);
    let answer = if code == response::FLUSH_SLAVE_TIMEOUT {
        let header = SendMessageResponse { queue_offset: -1, ..SendMessageResponse::default() };
        reply::answer(code).with_header(&header)
    } else {
        reply::answer(code)
    };
    if let Some(responder) = call.responder.take() {
        responder.send(answer.with_remark(remark));
    }
}

/// The code at which a client learns that the outcome of its request is not known.
fn unknown_code(command: &Command) -> i32 {
    let sends = [request::SEND_MESSAGE, request::SEND_MESSAGE_V2, request::SEND_BATCH_MESSAGE];
    let topic = command.field("b").or_else(|| command.field("topic")).unwrap_or_default();
    if sends.contains(&command.code) {
        pending::unconfirmed_code(topic, true)
    } else {
        response::SYSTEM_ERROR
    }
}

/// The refusal of a request that this node cannot serve now; a member that passed it on is told that
/// nothing of it was served.
pub(crate) fn unserved(broker: &Broker, call: &Call) -> Rejection {
    match call.origin {
        Origin::Client => broker.not_served(),
        Origin::Member(_) => broker.not_served().with_field(UNSERVED, "true"),
    }
}

/// The field of an answer by which a member says that it has served nothing of a request.
const UNSERVED: &str = "ledgermqUnserved";

fn is_unserved(answer: &Command) -> bool {
    answer.field(UNSERVED).is_some()
}

/// Whether the client waits long enough for one more look.
fn has_time(call: &Call) -> bool {
    patience_left(call, Instant::now()) > PAUSE
}

/// How long the client is taken to wait, from its request on.
fn patience(lane: Lane, command: &Command) -> Duration {
    let waits = [request::POP_MESSAGE, request::NOTIFICATION].contains(&command.code);
    let asked = command.field("pollTime").filter(|_| waits).and_then(|text| text.parse().ok());
    match lane {
        Lane::Admin => ADMIN_PATIENCE,
        Lane::Inline | Lane::Pull | Lane::Query => {
            PATIENCE + Duration::from_millis(asked.unwrap_or(0)).min(LONGEST_POLL)
        }
    }
}

/// How long the client still waits.
fn patience_left(call: &Call, now: Instant) -> Duration {
    let patience = call.patience.unwrap_or(PATIENCE);
    patience.saturating_sub(now.saturating_duration_since(call.received))
}

/// Whether a member does not know the code by which requests are passed on.
fn is_unknown_code(answer: &Command) -> bool {
    let code = wire::request::FORWARD.to_string();
    answer.code == response::REQUEST_CODE_NOT_SUPPORTED
        && answer.remark.as_deref().is_some_and(|remark| remark.contains(&code))
}

#[cfg(test)]
mod tests;
