//! Sockets and clocks of a name server.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::Command;
use protocol::code::{request as codes, response};
use remoting::{
    Budget, Connection, Handler, Limits, Quiet, Responder, Server, ServerOptions, TlsServer,
};
use rustix::process::{Resource, getrlimit};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{info, warn};

use crate::config::NamesrvOptions;
use crate::core::{Call, Core};
use crate::kv::KvConfig;
use crate::requests;

/// A name server that runs until it is shut down or dropped.
#[derive(Debug)]
pub struct Namesrv {
    server: Arc<Server>,
    _stop_scan: DropGuard,
}

impl Namesrv {
    /// Reads its values and listens. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The address cannot be listened on, or the file of values cannot be used; the text names
    /// which.
    pub fn start(options: NamesrvOptions) -> io::Result<Self> {
        let kv = KvConfig::load(options.kv_path.clone()).map_err(io::Error::other)?;
        let listen = options.listen;
        let server_options = server_options(&options)?;
        let core = Arc::new(Core::new(options, kv));
        let handler = Arc::new(Requests {
            core: Arc::clone(&core),
            started: Instant::now(),
            audit: Arc::default(),
        });
        let handled = Arc::clone(&handler) as Arc<dyn Handler>;
        let server = Server::bind(listen, server_options, handled).map_err(|error| {
            io::Error::new(error.kind(), format!("name server cannot listen on {listen}: {error}"))
        })?;
        let server = Arc::new(server);
        core.options(|options| options.listen = server.local_addr());
        let stop = CancellationToken::new();
        tokio::spawn(scan(handler, Arc::downgrade(&server), stop.clone()));
        info!(address = %server.local_addr(), "name server listens");
        Ok(Self { server, _stop_scan: stop.drop_guard() })
    }

    /// The address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// Closes its connections and returns when all have ended.
    pub async fn shutdown(&self) {
        self.server.shutdown().await;
    }
}

/// Bytes that all connections together may hold.
const CONNECTION_MEMORY: usize = 256 << 20;

fn server_options(options: &NamesrvOptions) -> io::Result<ServerOptions> {
    let tls = options.effective_tls().map_err(io::Error::other)?;
    // A broker of the same process needs files as well.
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / 8;
    let files = usize::try_from(files).unwrap_or(usize::MAX).max(16);
    if files < options.max_connections {
        warn!(
            maxConnections = options.max_connections,
            taken = files,
            "fewer connections are taken than configured: the process may not open as many files (ulimit -n)"
        );
    }
    Ok(ServerOptions {
        limits: Limits {
            idle: options.idle,
            budget: Some(Budget::new(CONNECTION_MEMORY)),
            ..Limits::default()
        },
        max_connections: options.max_connections.min(files),
        max_connections_of_address: options.max_connections_of_address,
        reserved_connections: RESERVED.min(files / 4),
        reserved_for: vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        tls: TlsServer::new(&tls.of_server()).map_err(io::Error::other)?,
        ..ServerOptions::default()
    })
}

/// Connections for the operator beyond the bound.
const RESERVED: usize = 64;

/// Serves the requests of connections.
#[derive(Clone)]
struct Requests {
    core: Arc<Core>,
    started: Instant,
    audit: Arc<Quiet>,
}

impl Requests {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }
}

impl Requests {
    /// Serves one request and tells of it where others depend on what it changes.
    fn answer(&self, connection: &Connection, request: &Command) -> Command {
        if request.code == codes::UPDATE_NAMESRV_CONFIG && !self.may_configure(connection) {
            let answer = request.response(response::NO_PERMISSION).with_remark(
                "configuration is changed from the name server's own host only: connect to 127.0.0.1, or set updateConfigFromAnywhere=true in its configuration file",
            );
            self.tell(connection, request, &answer);
            return answer;
        }
        let call = Call { request, connection: connection.id(), now: self.now() };
        let answer = self.core.answer(&call);
        self.tell(connection, request, &answer);
        answer
    }

    fn may_configure(&self, connection: &Connection) -> bool {
        let (peer, own) = (connection.remote_addr().ip(), connection.local_addr().ip());
        peer == own
            || peer.to_canonical().is_loopback()
            || self.core.options(|options| options.update_from_anywhere)
    }

    fn tell(&self, connection: &Connection, request: &Command, answer: &Command) {
        if !requests::is_audited(request.code) {
            return;
        }
        let Some(before) = self.audit.line() else { return };
        let name = codes::name(request.code).unwrap_or("unknown");
        let subject = requests::subject(request);
        let (peer, code) = (connection.remote_addr(), answer.code);
        info!(target: "audit", %peer, name, subject, code, before, "administration");
    }
}

impl Handler for Requests {
    fn handle(&self, connection: &Arc<Connection>, request: Command, responder: Responder) {
        if requests::blocks(request.code) {
            let (this, connection) = (self.clone(), Arc::clone(connection));
            tokio::task::spawn_blocking(move || {
                responder.send(this.answer(&connection, &request));
            });
            return;
        }
        responder.send(self.answer(connection, &request));
    }

    /// A broker whose connection has closed is gone at once.
    fn closed(&self, connection: &Arc<Connection>) {
        let count = self.core.table_mut().disconnected(connection.id());
        if count > 0 {
            warn!(peer = %connection.remote_addr(), count, "brokers removed: their connection closed");
        }
    }
}

/// Removes brokers without a sign of life, again and again.
async fn scan(requests: Arc<Requests>, server: std::sync::Weak<Server>, stop: CancellationToken) {
    loop {
        let pause = tokio::time::sleep(requests.core.settings().scan_interval);
        tokio::select! {
            () = stop.cancelled() => return,
            () = pause => {}
        }
        let expired = requests.core.table_mut().expire(requests.now());
        let Some(server) = server.upgrade() else { return };
        for broker in expired {
            warn!(broker.cluster, broker.address, "a broker was removed: no sign of life");
            // A dead connection is not kept for the day it comes back with old news.
            for connection in server.connections() {
                if connection.id() == broker.connection {
                    connection.close();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use protocol::code::{request, response};
    use remoting::{Client, ClientOptions};

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    fn options() -> NamesrvOptions {
        NamesrvOptions {
            listen: "127.0.0.1:0".parse().expect("address"),
            kv_path: None,
            ..NamesrvOptions::default()
        }
    }

    fn registration(address: &str) -> Command {
        let body = concat!(
            r#"{"topicConfigSerializeWrapper":{"topicConfigTable":{"#,
            r#""T":{"topicName":"T","readQueueNums":1,"writeQueueNums":1,"perm":6},"#,
            r#""U":{"topicName":"U","readQueueNums":1,"writeQueueNums":1,"perm":6}}}}"#,
        );
        Command::request(request::REGISTER_BROKER)
            .with_field("brokerName", "a")
            .with_field("brokerAddr", address)
            .with_field("clusterName", "C")
            .with_field("haServerAddr", "h:2")
            .with_field("brokerId", "0")
            .with_body(body)
    }

    async fn route(client: &Client, address: &str) -> i32 {
        let request = Command::request(request::GET_ROUTEINFO_BY_TOPIC).with_field("topic", "T");
        client.call(address, request, LONG).await.expect("an answer").code
    }

    async fn until_gone(client: &Client, address: &str) {
        let begun = Instant::now();
        while route(client, address).await != response::TOPIC_NOT_EXIST {
            assert!(begun.elapsed() < LONG, "the broker is still there");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_broker_whose_connection_closes_is_gone_at_once() {
        let namesrv = Namesrv::start(options()).expect("starts");
        let address = namesrv.local_addr().to_string();
        let broker = Client::new(ClientOptions::default());
        let client = Client::new(ClientOptions::default());
        let answer = broker.call(&address, registration("h:1"), LONG).await.expect("an answer");
        assert_eq!(answer.code, response::SUCCESS);
        assert_eq!(route(&client, &address).await, response::SUCCESS);
        broker.close();
        until_gone(&client, &address).await;
        namesrv.shutdown().await;
    }

    #[tokio::test]
    async fn a_silent_broker_expires_and_its_connection_is_closed() {
        let mut options = options();
        options.settings.scan_interval = Duration::from_millis(100);
        let namesrv = Namesrv::start(options).expect("starts");
        let address = namesrv.local_addr().to_string();
        let broker = Client::new(ClientOptions::default());
        let connection = broker.connection(&address).await.expect("connects");
        let silent = registration("h:1").with_field("heartbeatTimeoutMillis", "200");
        let answer = connection.call(silent, LONG).await.expect("an answer");
        assert_eq!(answer.code, response::SUCCESS);
        until_gone(&Client::new(ClientOptions::default()), &address).await;
        let begun = Instant::now();
        while connection.is_open() {
            assert!(begun.elapsed() < LONG, "the connection is still open");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn values_outlive_a_restart() {
        let directory = tempfile::tempdir().expect("a directory");
        let options =
            || NamesrvOptions { kv_path: Some(directory.path().join("kv.json")), ..options() };
        let client = Client::new(ClientOptions::default());
        let namesrv = Namesrv::start(options()).expect("starts");
        let put = Command::request(request::PUT_KV_CONFIG)
            .with_field("namespace", "ns")
            .with_field("key", "k")
            .with_field("value", "v");
        let address = namesrv.local_addr().to_string();
        assert_eq!(client.call(&address, put, LONG).await.expect("an answer").code, 0);
        namesrv.shutdown().await;
        let namesrv = Namesrv::start(options()).expect("starts");
        let get = Command::request(request::GET_KV_CONFIG)
            .with_field("namespace", "ns")
            .with_field("key", "k");
        let address = namesrv.local_addr().to_string();
        let answer = client.call(&address, get, LONG).await.expect("an answer");
        assert_eq!(answer.field("value"), Some("v"));
    }

    #[tokio::test]
    async fn an_address_in_use_is_named() {
        let namesrv = Namesrv::start(options()).expect("starts");
        let taken = NamesrvOptions { listen: namesrv.local_addr(), ..options() };
        let error = Namesrv::start(taken).expect_err("taken").to_string();
        assert!(error.contains(&namesrv.local_addr().to_string()), "{error}");
    }
}
