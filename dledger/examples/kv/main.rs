//! A replicated key-value server on a DLedger log: put, delete, compare-and-set and get, over HTTP.
//!
//! Every member keeps the log and a hash map. A change is an entry of the log; it is made when the
//! entry is committed, which a majority must agree to, and each member applies the same entries in
//! the same order. A get is answered by the leader alone, once it has heard from a majority that it
//! still leads and has applied all that was committed before. So clients see one map, whichever
//! member is killed. A member that starts makes its map anew from its log.
//!
//! Each request has an id. A client that got no answer asks again with the same id, at any member,
//! and the change is made once.
//!
//! A group of three, in three terminals:
//!
//! ```text
//! export PEERS='n0-127.0.0.1:7100;n1-127.0.0.1:7101;n2-127.0.0.1:7102'
//! export HTTP='n0-127.0.0.1:8100;n1-127.0.0.1:8101;n2-127.0.0.1:8102'
//! cargo run -p dledger --example kv -- server --id n0 --peers $PEERS --http $HTTP --data kv-data
//! cargo run -p dledger --example kv -- server --id n1 --peers $PEERS --http $HTTP --data kv-data
//! cargo run -p dledger --example kv -- server --id n2 --peers $PEERS --http $HTTP --data kv-data
//! ```
//!
//! And in a fourth:
//!
//! ```text
//! cargo run -p dledger --example kv -- put --http $HTTP colour blue
//! cargo run -p dledger --example kv -- cas --http $HTTP colour --expect blue green
//! cargo run -p dledger --example kv -- get --http $HTTP colour
//! cargo run -p dledger --example kv -- status --http $HTTP
//! curl -L -X PUT -H 'request-id: my-1' --data-binary red http://127.0.0.1:8100/kv/colour
//! curl -L -d '{"expect": "red", "value": "blue"}' http://127.0.0.1:8101/kv/colour
//! curl -L http://127.0.0.1:8102/kv/colour
//! curl http://127.0.0.1:8102/local/colour
//! ```
//!
//! `/local/KEY` is what that member has applied, perhaps old. Answers: 200, 404 (no such key), 412 (compare-and-set found something else), 307 (the leader is
//! there), 503 (nothing was done, try again), 504 (it may have been done, ask again with the same
//! request id).
//!
//! Left out for brevity: snapshots. The log is kept whole, and a start reads all of it.

mod client;
mod command;
mod http;
mod map;
mod replica;

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context, bail, ensure};
use clap::{Args, Parser, ValueEnum};
use dledger::{Durability, Options, Peers};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    client::{Answer, Client, Patience, Request, fresh_id},
    http::Member,
    replica::Replica,
};

/// A replicated key-value server on a DLedger log, and its client.
#[derive(Debug, Parser)]
#[command(name = "kv")]
enum Command {
    /// Runs one member until SIGTERM or SIGINT.
    Server(Server),
    /// Sets a key.
    Put {
        #[command(flatten)]
        members: Members,
        /// Letters, digits and '.', '_', ':', '-'.
        key: String,
        /// Any text.
        value: String,
    },
    /// Prints the value of a key.
    Get {
        #[command(flatten)]
        members: Members,
        /// The key.
        key: String,
    },
    /// Removes a key.
    Delete {
        #[command(flatten)]
        members: Members,
        /// The key.
        key: String,
    },
    /// Sets a key if it holds what is expected.
    Cas {
        #[command(flatten)]
        members: Members,
        /// The key.
        key: String,
        /// What it must hold; without it, the key must not be there.
        #[arg(long)]
        expect: Option<String>,
        /// What it is to hold.
        value: String,
    },
    /// Prints what each member says of itself.
    Status(Members),
}

/// Where clients find the members.
#[derive(Debug, Args)]
struct Members {
    /// All members for clients: id-host:port;...
    #[arg(long)]
    http: String,
}

/// One member.
#[derive(Debug, Args)]
struct Server {
    /// Which of the members this is.
    #[arg(long)]
    id: String,
    /// All members for each other: id-host:port;...
    #[arg(long)]
    peers: String,
    /// All members for clients: id-host:port;...
    #[arg(long)]
    http: String,
    /// Folder for the logs; this member's is dledger-ID in it.
    #[arg(long)]
    data: PathBuf,
    /// What makes a change safe: fsync on a majority, or the memory of a majority.
    #[arg(long, value_enum, default_value = "sync")]
    flush: Flush,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Flush {
    Sync,
    Async,
}

#[expect(clippy::print_stderr, reason = "a command says why it failed")]
fn main() -> ExitCode {
    match run(Command::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kv: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Server(server) => serve(&server),
        Command::Put { members, key, value } => members.ask("PUT", &key, &value),
        Command::Get { members, key } => members.ask("GET", &key, ""),
        Command::Delete { members, key } => members.ask("DELETE", &key, ""),
        Command::Cas { members, key, expect, value } => {
            let body = serde_json::json!({ "expect": expect, "value": value });
            members.ask("POST", &key, &body.to_string())
        }
        Command::Status(members) => members.status(),
    }
}

#[tokio::main(worker_threads = 2)]
async fn serve(server: &Server) -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).init();
    let addresses = Arc::new(Peers::parse(&server.http).context("--http")?);
    let own = addresses.get(&server.id);
    let own = own.with_context(|| format!("--http does not name member {}", server.id))?;
    let options = Options {
        group: "kv".to_owned(),
        self_id: server.id.clone(),
        peers: server.peers.clone(),
        file_size: 64 * 1024 * 1024,
        durability: match server.flush {
            Flush::Sync => Durability::Sync,
            Flush::Async => Durability::Async,
        },
        ..Options::one_node(server.data.join(format!("dledger-{}", server.id)))
    };
    let listener = tokio::net::TcpListener::bind(&own.address).await;
    let listener = listener.with_context(|| format!("listening on {}", own.address))?;
    let replica = Replica::start(options)?;
    let member = Member { id: server.id.clone(), replica: Arc::clone(&replica), addresses };
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let failure = tokio::select! {
        served = axum::serve(listener, http::routes(member)).into_future() => Some(format!("HTTP ended: {served:?}")),
        reason = replica.failed() => Some(reason),
        _ = terminate.recv() => None,
        _ = interrupt.recv() => None,
    };
    let stopped = tokio::task::spawn_blocking(move || replica.stop()).await?;
    match failure.or(stopped.err()) {
        Some(reason) => bail!(reason),
        None => Ok(()),
    }
}

impl Members {
    fn addresses(&self) -> anyhow::Result<Vec<String>> {
        let members = Peers::parse(&self.http).context("--http")?;
        Ok(members.iter().map(|member| member.address.clone()).collect())
    }

    #[expect(clippy::print_stdout, reason = "the answer of a command")]
    fn ask(&self, method: &str, key: &str, body: &str) -> anyhow::Result<()> {
        command::check_key(key)?;
        let (id, path) = (fresh_id(), format!("/kv/{key}"));
        let mut client = Client::new(self.addresses()?, Patience::default());
        let Answer { status, body, .. } =
            client.ask(Request { method, path: &path, id: &id, body })?;
        ensure!(status == 200, "{} answered {status}: {body}", client.member());
        println!("{body}");
        Ok(())
    }

    #[expect(clippy::print_stdout, reason = "the answer of a command")]
    fn status(&self) -> anyhow::Result<()> {
        let request = Request { method: "GET", path: "/status", id: "status", body: "" };
        for address in self.addresses()? {
            match client::once(&address, request, Duration::from_secs(2)) {
                Ok(answer) => println!("{address} {}", answer.body),
                Err(broken) => {
                    println!("{address} does not answer: {}", std::io::Error::from(broken));
                }
            }
        }
        Ok(())
    }
}
