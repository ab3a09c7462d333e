//! Servers, clients and raw sockets on 127.0.0.1.

mod bounds;
mod calls;
mod certificates;
mod frames;
mod memory;
mod tls;

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use protocol::{Command, frame};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::{Client, ClientOptions, Connection, Handler, Limits, Responder, Server, ServerOptions};

/// Far above what anything here takes.
const LONG: Duration = Duration::from_secs(30);

/// Answers with the request's body.
const ECHO: i32 = 1;
/// Keeps the responder until the test answers.
const HOLD: i32 = 2;
/// Drops the responder.
const DROP: i32 = 3;
/// Panics.
const PANIC: i32 = 4;
/// Answers with as many bytes as the remark says.
const BYTES: i32 = 5;
/// Answers with what the caller itself answers to `ECHO`.
const ASK_BACK: i32 = 6;

/// Serves the codes above and remembers what happened.
#[derive(Default)]
struct Rig {
    held: Mutex<Vec<Responder>>,
    connections: Mutex<HashMap<u64, Arc<Connection>>>,
    served: AtomicUsize,
    closed: AtomicUsize,
}

impl Handler for Rig {
    fn handle(&self, connection: &Arc<Connection>, request: Command, responder: Responder) {
        self.served.fetch_add(1, Ordering::SeqCst);
        match request.code {
            ECHO => {
                responder.send(request.response(0).with_body(request.body));
            }
            HOLD => self.held.lock().expect("lock").push(responder),
            DROP => drop(responder),
            PANIC => panic!("asked to"),
            BYTES => {
                let count = request.remark.as_deref().and_then(|text| text.parse().ok());
                responder.send(request.response(0).with_body(vec![7; count.unwrap_or(0)]));
            }
            ASK_BACK => {
                let connection = Arc::clone(connection);
                tokio::spawn(async move {
                    let back = Command::request(ECHO).with_body(request.body.clone());
                    let answer = match connection.call(back, LONG).await {
                        Ok(answer) => request.response(0).with_body(answer.body),
                        Err(error) => request.response(1).with_remark(error.to_string()),
                    };
                    responder.send(answer);
                });
            }
            other => panic!("no such code: {other}"),
        }
    }

    fn opened(&self, connection: &Arc<Connection>) {
        self.connections.lock().expect("lock").insert(connection.id(), Arc::clone(connection));
    }

    fn closed(&self, connection: &Arc<Connection>) {
        self.connections.lock().expect("lock").remove(&connection.id());
        self.closed.fetch_add(1, Ordering::SeqCst);
    }
}

impl Rig {
    fn served(&self) -> usize {
        self.served.load(Ordering::SeqCst)
    }

    fn answer_held(&self, count: usize) {
        let held: Vec<_> = self.held.lock().expect("lock").drain(..count).collect();
        for responder in held {
            responder.send(Command::request(0));
        }
    }
}

fn serve(limits: Limits) -> (Arc<Rig>, Server) {
    let rig = Arc::new(Rig::default());
    let options = ServerOptions { limits, ..ServerOptions::default() };
    let address = "127.0.0.1:0".parse().expect("address");
    let handler = Arc::clone(&rig) as Arc<dyn Handler>;
    (rig, Server::bind(address, options, handler).expect("a free port"))
}

fn client() -> Client {
    let handler = Arc::new(Rig::default()) as Arc<dyn Handler>;
    Client::new(ClientOptions { handler: Some(handler), ..ClientOptions::default() })
}

fn request(code: i32, opaque: i32, body: &str) -> Command {
    let mut command = Command::request(code).with_body(body.to_owned());
    command.opaque = opaque;
    command
}

fn bytes_of(commands: &[Command]) -> BytesMut {
    let mut bytes = BytesMut::new();
    for command in commands {
        frame::encode(command, &mut bytes);
    }
    bytes
}

/// A socket without any of our client code.
struct Raw {
    stream: TcpStream,
    buffer: BytesMut,
}

impl Raw {
    async fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(server.local_addr()).await.expect("connects");
        Self { stream, buffer: BytesMut::new() }
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("writes");
    }

    /// The next frame, or `None` when the server has closed.
    async fn receive(&mut self) -> Option<Command> {
        tokio::time::timeout(LONG, async {
            loop {
                if let Some(command) = frame::decode(&mut self.buffer, 1 << 24).expect("frames") {
                    return Some(command);
                }
                match self.stream.read_buf(&mut self.buffer).await {
                    Ok(0) => return None,
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return None,
                    Err(error) => panic!("{error}"),
                }
            }
        })
        .await
        .expect("the server answers or closes")
    }
}

/// Waits until something holds; the deadline is far above what it takes.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LONG, "{what} did not come about");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
