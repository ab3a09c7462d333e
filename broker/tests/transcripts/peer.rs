//! A client that the broker sends requests to.

use std::sync::{Arc, Mutex};

use protocol::{
    Command,
    body::{HeartbeatData, ProducerData},
    code::request,
};
use remoting::{Client, ClientOptions, Connection, Handler, Responder};
use tokio::time::{Duration, Instant};

use crate::fixture::LIMIT;

/// A producer that is online under a client id.
pub(crate) struct Peer {
    address: String,
    client: Client,
    inbox: Arc<Inbox>,
}

/// Requests that the broker sent; each is answered with one code.
#[derive(Default)]
struct Inbox {
    seen: Mutex<Vec<Command>>,
    code: Mutex<i32>,
}

impl Handler for Inbox {
    fn handle(&self, _connection: &Arc<Connection>, request: Command, responder: Responder) {
        let answer = request.response(*self.code.lock().unwrap());
        self.seen.lock().unwrap().push(request);
        responder.send(answer);
    }
}

impl Peer {
    /// A member of producer group `P` at the broker of an address.
    pub(crate) async fn producer(address: &str, client_id: &str) -> Self {
        let inbox = Arc::new(Inbox::default());
        let handler = Arc::<Inbox>::clone(&inbox);
        let client = Client::new(ClientOptions { handler: Some(handler), ..Default::default() });
        let peer = Self { address: address.to_owned(), client, inbox };
        let heartbeat = HeartbeatData {
            client_id: client_id.to_owned(),
            producer_data_set: vec![ProducerData { group_name: "P".to_owned() }],
            ..HeartbeatData::default()
        };
        let beat = Command::request(request::HEART_BEAT).with_body(heartbeat.encode());
        assert_eq!(peer.ask(beat).await.code, 0);
        peer
    }

    /// What requests of the broker are answered with from now on.
    pub(crate) fn answer_with(&self, code: i32) {
        *self.inbox.code.lock().unwrap() = code;
    }

    pub(crate) async fn ask(&self, request: Command) -> Command {
        self.client.call(&self.address, request, LIMIT).await.expect("an answer")
    }

    /// The requests of a code so far.
    pub(crate) fn seen(&self, code: i32) -> Vec<Command> {
        let seen = self.inbox.seen.lock().unwrap();
        seen.iter().filter(|request| request.code == code).cloned().collect()
    }

    /// Waits for the next request of a code behind the first `known`.
    pub(crate) async fn heard(&self, code: i32, known: usize) -> Command {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(request) = self.seen(code).get(known) {
                return request.clone();
            }
            assert!(Instant::now() < deadline, "no request {code} behind {known}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
