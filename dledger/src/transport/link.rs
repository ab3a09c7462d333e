//! The way to one member: a bounded queue, one connection, calls that are matched with their
//! answers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use dledger_core::{CallId, Message};
use protocol::{Command, code};
use remoting::{CallError, Client, ClientOptions, Connection, Handler, Limits, Responder};
use tokio::sync::mpsc;

use super::{Incoming, Outgoing, clients::refuse, remote::Shared};
use crate::wire::{
    ResponseCode,
    message::{self, Form, Ids},
};

/// Time for one call (Java: `DLedgerRpcNettyService`).
const CALL: Duration = Duration::from_secs(3);
/// Time for one attempt to connect.
const CONNECT: Duration = Duration::from_secs(1);
/// Messages that wait for the link's task.
const QUEUE: usize = 4096;
/// Bytes of entries that wait, or whose answer is awaited. A message that carries none is let in
/// beyond it.
const BYTES: usize = 64 << 20;
/// Calls whose answer is awaited.
const CALLS: usize = 4096;
/// Pause after a failed attempt to connect; doubled up to the longest.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(800);

/// The sending end of a link.
#[derive(Debug)]
pub(super) struct Link {
    queue: mpsc::Sender<Outgoing>,
    load: Arc<Load>,
}

/// What is on its way to one member.
#[derive(Debug, Default)]
struct Load {
    bytes: AtomicUsize,
    calls: AtomicUsize,
    /// Answers that came so far.
    answers: AtomicU64,
}

impl Link {
    /// Starts the task of the link to `peer`. Must be called within a runtime.
    pub(super) fn start(shared: Arc<Shared>, peer: String, address: String) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let load = Arc::new(Load::default());
        let side = Arc::new(OtherSide { shared: Arc::clone(&shared), peer: peer.clone() });
        let limits = Limits { max_pending_calls: 2 * CALLS, ..Limits::default() };
        let options = ClientOptions {
            limits,
            connect_timeout: CONNECT,
            handler: Some(side),
            ..ClientOptions::default()
        };
        let task = Task {
            client: Client::new(options),
            ids: Ids {
                group: shared.group().to_owned(),
                from: shared.self_id().to_owned(),
                to: peer,
            },
            shared,
            address,
            load: Arc::clone(&load),
            next_attempt: Instant::now(),
            pause: PAUSE_MIN,
        };
        tokio::spawn(task.run(waiting));
        Self { queue, load }
    }

    /// Queues a request, or drops it where too much waits.
    pub(super) fn send(&self, outgoing: Outgoing) {
        let bytes = carried(&outgoing.entries);
        let waiting = self.load.bytes.fetch_add(bytes, Ordering::Relaxed);
        if bytes > 0 && waiting > 0 && waiting + bytes > BYTES {
            self.load.bytes.fetch_sub(bytes, Ordering::Relaxed);
            tracing::debug!(peer = outgoing.to, waiting, "a push is dropped: too much waits");
            return;
        }
        if let Err(error) = self.queue.try_send(outgoing) {
            self.load.bytes.fetch_sub(bytes, Ordering::Relaxed);
            tracing::debug!(%error, "a message to a member is dropped");
        }
    }
}

fn carried(entries: &[Bytes]) -> usize {
    entries.iter().map(Bytes::len).sum()
}

struct Task {
    shared: Arc<Shared>,
    client: Client,
    ids: Ids,
    /// Resolved anew at each connect.
    address: String,
    load: Arc<Load>,
    next_attempt: Instant,
    pause: Duration,
}

impl Task {
    async fn run(mut self, mut waiting: mpsc::Receiver<Outgoing>) {
        while let Some(outgoing) = waiting.recv().await {
            let bytes = carried(&outgoing.entries);
            let connection = self.connection().await;
            let sent = connection.is_some_and(|connection| self.call(&connection, outgoing, bytes));
            if !sent {
                self.load.bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
        }
        self.client.close();
    }

    /// The open connection; `None` where there is none and the time for an attempt has not come, or
    /// the attempt failed.
    async fn connection(&mut self) -> Option<Arc<Connection>> {
        // An open connection is given at once, so a pause concerns attempts only.
        if Instant::now() < self.next_attempt {
            return None;
        }
        match self.client.connection(&self.address).await {
            Ok(connection) => {
                self.pause = PAUSE_MIN;
                Some(connection)
            }
            Err(error) => {
                let text = format!("member {} cannot be reached: {error}", self.ids.to);
                self.shared.complain(&self.ids.to, &text);
                self.next_attempt = Instant::now() + self.pause;
                self.pause = (self.pause * 2).min(PAUSE_MAX);
                None
            }
        }
    }

    /// Sends a request; a task of its own waits for the answer.
    fn call(&self, connection: &Arc<Connection>, outgoing: Outgoing, bytes: usize) -> bool {
        let Outgoing { message, entries, .. } = outgoing;
        if self.load.calls.load(Ordering::Relaxed) >= CALLS {
            tracing::debug!(peer = self.ids.to, "a message is dropped: too many wait for answers");
            return false;
        }
        let form = if self.shared.is_java(&self.ids.to) { Form::Java } else { Form::Own };
        let own = self.shared.own();
        let request = match message::encode_request(&self.ids, form, &message, &entries, own) {
            Ok(request) => request,
            Err(error) => {
                tracing::error!(peer = self.ids.to, %error, "a message cannot be encoded");
                return false;
            }
        };
        self.load.calls.fetch_add(1, Ordering::Relaxed);
        let answers = self.load.answers.load(Ordering::Relaxed);
        let answer = connection.call(request, CALL);
        let (shared, load) = (Arc::clone(&self.shared), Arc::clone(&self.load));
        let (peer, connection) = (self.ids.to.clone(), Arc::clone(connection));
        tokio::spawn(async move {
            let outcome = answer.await;
            load.calls.fetch_sub(1, Ordering::Relaxed);
            load.bytes.fetch_sub(bytes, Ordering::Relaxed);
            match outcome {
                Ok(answer) => {
                    load.answers.fetch_add(1, Ordering::Relaxed);
                    shared.answered(&peer, &message, form, answer);
                }
                // Nothing at all came back in that time: a new connection finds a new address.
                Err(error @ CallError::Timeout { .. })
                    if load.answers.load(Ordering::Relaxed) == answers =>
                {
                    tracing::info!(peer, %error, "the connection is given up");
                    connection.close();
                }
                Err(error) => tracing::debug!(peer, %error, "no answer"),
            }
        });
        true
    }
}

impl Shared {
    /// Takes the answer of a member.
    fn answered(&self, peer: &str, asked: &Message, form: Form, answer: Command) {
        if answer.code != ResponseCode::SUCCESS.0 {
            return self.unserved(peer, asked, form, &answer);
        }
        let answer = message::decode_reply(asked, form, &answer.body);
        let message::Answer { message, entries, own } = match answer {
            Ok(read) => read,
            Err(error) => {
                return self
                    .complain(peer, &format!("an answer of {peer} cannot be read: {error}"));
            }
        };
        let teaches = matches!(asked, Message::Vote(_) | Message::Heartbeat(_));
        if teaches && self.learn(peer, own.as_ref()).is_err() {
            return;
        }
        let from = peer.to_owned();
        self.deliver(Incoming::Message { from, call: CallId::default(), message, entries });
    }

    /// The member did not serve the frame at all.
    fn unserved(&self, peer: &str, asked: &Message, form: Form, answer: &Command) {
        let ours = match asked {
            Message::Push(_) => form == Form::Own,
            Message::Vote(vote) => vote.pre_vote,
            Message::Fetch(_) => true,
            _ => false,
        };
        if ours && answer.code == code::response::REQUEST_CODE_NOT_SUPPORTED {
            return self.learn_java(peer);
        }
        let remark = answer.remark.as_deref().unwrap_or("no reason given");
        self.complain(peer, &format!("member {peer} refused a request: {remark}"));
    }
}

/// What happens on connections that this side made.
struct OtherSide {
    shared: Arc<Shared>,
    peer: String,
}

impl Handler for OtherSide {
    fn handle(&self, _connection: &Arc<Connection>, request: Command, responder: Responder) {
        let remark = format!(" request type {} not supported", request.code);
        refuse(responder, code::response::REQUEST_CODE_NOT_SUPPORTED, remark);
    }

    fn closed(&self, _connection: &Arc<Connection>) {
        self.shared.gone(&self.peer);
    }
}
