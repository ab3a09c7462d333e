//! A follower's way to a leader, as conversations: a client, a follower, and what stands for a leader.

use std::net::{Ipv4Addr, SocketAddr};

use protocol::HeaderEncoding;
use remoting::{Connection, Handler, Responder, Server, ServerOptions};

use super::*;

#[test]
fn an_unknown_outcome_is_an_error_where_clients_take_a_time_out_for_a_success() {
    let sent = |code: i32, name: &'static str, topic: &'static str| {
        unknown_code(&Command::request(code).with_field(name, topic))
    };
    for (code, name) in [(request::SEND_MESSAGE, "topic"), (request::SEND_MESSAGE_V2, "b")] {
        assert_eq!(sent(code, name, "T"), response::FLUSH_SLAVE_TIMEOUT);
        assert_eq!(sent(code, name, "%RETRY%G"), response::SYSTEM_ERROR);
    }
    assert_eq!(sent(request::LOCK_BATCH_MQ, "topic", "T"), response::SYSTEM_ERROR);
}

const PATIENCE: Duration = Duration::from_secs(30);

/// What came in.
type Seen = Arc<Mutex<Vec<Command>>>;

/// Stands for a leader: keeps what comes, and does as it is told.
struct Leader {
    seen: Seen,
    does: fn(&Command, Responder),
}

impl Handler for Leader {
    fn handle(&self, _: &Arc<Connection>, command: Command, responder: Responder) {
        self.seen.lock().unwrap().push(command.clone());
        (self.does)(&command, responder);
    }
}

/// A follower that passes everything on.
struct Follower {
    forwarder: Arc<Forwarder>,
    java: Option<String>,
}

impl Handler for Follower {
    fn handle(&self, connection: &Arc<Connection>, command: Command, responder: Responder) {
        let (forwarder, java) = (Arc::clone(&self.forwarder), self.java.clone());
        let mut call = Call {
            connection: Arc::clone(connection),
            client: connection.remote_addr(),
            command,
            received: Instant::now(),
            patience: Some(PATIENCE),
            origin: Origin::Client,
            responder: Some(responder),
        };
        tokio::spawn(async move {
            let outcome = forwarder.pass_on("n0", &call, || java).await;
            let responder = call.responder.take().unwrap();
            match outcome {
                Ok(Some(answer)) => responder.send(answer),
                Ok(None) => responder.leave_unanswered(),
                Err(NoAnswer::NotSent(why)) => {
                    responder.send(reply::answer(14).with_remark(why));
                }
                Err(NoAnswer::Unknown(error)) => {
                    responder.send(reply::answer(10).with_remark(error.to_string()));
                }
            }
        });
    }
}

fn listen(handler: impl Handler) -> Server {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Server::bind(address, ServerOptions::default(), Arc::new(handler)).unwrap()
}

fn leader(does: fn(&Command, Responder)) -> (Server, Seen) {
    let seen = Seen::default();
    (listen(Leader { seen: Arc::clone(&seen), does }), seen)
}

/// A follower whose leader is to be found there, and a client's connection to it.
async fn follower(peer: SocketAddr, java: Option<SocketAddr>) -> (Server, Arc<Connection>, Client) {
    let text = format!("n0-{peer};n1-127.0.0.1:1");
    let members = Members {
        group: "g".to_owned(),
        self_id: "n1".to_owned(),
        peers: Peers::parse(&text).unwrap(),
    };
    let forwarder = Arc::new(Forwarder::new(Some(members)));
    let java = java.map(|address| address.to_string());
    let server = listen(Follower { forwarder, java });
    let client = Client::new(ClientOptions::default());
    let connection = client.connection(&server.local_addr().to_string()).await.unwrap();
    (server, connection, client)
}

fn send() -> Command {
    let mut send = Command::request(310).with_field("b", "T").with_body("Hello");
    send.encoding = HeaderEncoding::RocketMq;
    send
}

async fn wait_for(seen: &Seen, number: usize) -> Vec<Command> {
    let begun = Instant::now();
    loop {
        let commands = seen.lock().unwrap().clone();
        if commands.len() >= number {
            return commands;
        }
        assert!(begun.elapsed() < PATIENCE, "{commands:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn the_leader_gets_the_clients_frame_and_the_client_the_leaders_answer() {
    let (peer, seen) = leader(|command, responder| {
        assert_eq!(command.code, wire::request::FORWARD);
        let answer = command.response(17).with_remark("topic[T] not exist").with_field("x", "y");
        responder.send(answer.with_body("text"));
    });
    let (_follower, connection, _client) = follower(peer.local_addr(), None).await;
    let answer = connection.call(send(), PATIENCE).await.unwrap();
    assert_eq!((answer.code, answer.remark.as_deref()), (17, Some("topic[T] not exist")));
    assert_eq!((answer.field("x"), &answer.body[..]), (Some("y"), &b"text"[..]));
    let forwarded = Forwarded::decode(&wait_for(&seen, 1).await[0]).unwrap();
    assert_eq!(forwarded.client, connection.local_addr());
    assert_eq!((forwarded.ids.from.as_str(), forwarded.ids.to.as_str()), ("n1", "n0"));
    assert!(forwarded.patience <= PATIENCE);
    assert_eq!(
        (forwarded.command.code, forwarded.command.encoding),
        (310, HeaderEncoding::RocketMq)
    );
    assert_eq!(forwarded.command.field("b"), Some("T"));
    assert_eq!(forwarded.command.body, "Hello");
}

#[tokio::test]
async fn a_oneway_request_stays_oneway() {
    let (peer, seen) = leader(|_, responder| responder.leave_unanswered());
    let (_follower, connection, _client) = follower(peer.local_addr(), None).await;
    connection.oneway(Command::request(15).with_field("topic", "T"));
    let came = wait_for(&seen, 1).await;
    assert!(came[0].is_oneway());
    assert!(Forwarded::decode(&came[0]).unwrap().command.is_oneway());
}

#[tokio::test]
async fn what_has_left_is_not_sent_again() {
    let (peer, seen) = leader(|_, responder| {
        responder.connection().close();
        responder.leave_unanswered();
    });
    let (_follower, connection, _client) = follower(peer.local_addr(), None).await;
    let answer = connection.call(send(), PATIENCE).await.unwrap();
    assert_eq!(answer.code, 10, "the outcome is not known: {:?}", answer.remark);
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_leader_that_cannot_be_reached_is_told_at_once() {
    let (peer, _) = leader(|_, responder| responder.leave_unanswered());
    let address = peer.local_addr();
    peer.shutdown().await;
    let (_follower, connection, _client) = follower(address, None).await;
    let answer = connection.call(send(), PATIENCE).await.unwrap();
    assert_eq!(answer.code, 14, "nothing was sent: {:?}", answer.remark);
}

#[tokio::test]
async fn a_java_leader_gets_the_frame_at_its_client_port() {
    let (peer, refused) = leader(|command, responder| {
        let answer = command.response(response::REQUEST_CODE_NOT_SUPPORTED);
        responder.send(answer.with_remark(format!(" request type {} not supported", command.code)));
    });
    let (port, seen) = leader(|command, responder| responder.send(command.response(0)));
    let (_follower, connection, _client) =
        follower(peer.local_addr(), Some(port.local_addr())).await;
    for _ in 0..2 {
        assert_eq!(connection.call(send(), PATIENCE).await.unwrap().code, 0);
    }
    assert_eq!(refused.lock().unwrap().len(), 1, "it is asked once");
    let came = seen.lock().unwrap().clone();
    assert_eq!((came.len(), came[0].code, came[0].field("b")), (2, 310, Some("T")));
    assert_eq!(came[0].body, "Hello");
}
