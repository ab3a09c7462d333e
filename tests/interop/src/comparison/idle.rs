//! Memory of what does nothing: connections, pulls that wait, queues.

use std::{
    collections::BTreeMap,
    io::Write,
    net::{SocketAddr, TcpStream},
    thread,
    time::Duration,
};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{record::Record, session::Session};
use crate::{question, usage};

/// Name of the part.
pub const PART: &str = "idle";

/// Measures all three on a broker that has the topics `many-0` to `many-(queues - 1)`.
///
/// # Errors
/// Where the broker refuses one of them.
pub fn measure(session: &Session, queues: u32, round: u32) -> Result<Vec<Record>> {
    let port = session.broker.port;
    let mut records = Vec::new();
    let mut note = |what: &str, count: u32, before: f64, after: f64| {
        let each = (after - before).max(0.0) / f64::from(count);
        let figures = BTreeMap::from([
            ("bytes".to_owned(), each),
            ("count".to_owned(), f64::from(count)),
            ("before".to_owned(), before),
            ("after".to_owned(), after),
        ]);
        records.push(session.record(PART, what, round, figures));
    };
    let empty = own_bytes(session)?;
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(asked(port)?);
    }
    note("connection", CONNECTIONS, empty, own_bytes(session)?);
    drop(connections);
    let before = own_bytes(session)?;
    let waiting = wait_for_messages(port)?;
    note("pull that waits", PULLS, before, own_bytes(session)?);
    drop(waiting);
    let before = own_bytes(session)?;
    session.bench(&format!(
        "produce --topic many --topics {queues} --style async --window 100 --body 16 \
         --messages {} --warmup 0 --duration 60s",
        2 * queues
    ))?;
    note("queue with messages", queues, before, own_bytes(session)?);
    Ok(records)
}

/// Anonymous and shared memory once it stands still.
fn own_bytes(session: &Session) -> Result<f64> {
    thread::sleep(SETTLES);
    Ok(usage::memory(session.broker.process.id())?.own as f64 * 1024.0)
}

/// A connection on which a request was answered.
fn asked(port: u16) -> Result<TcpStream> {
    let stream = connect(port)?;
    question::write(&stream, RUNTIME_INFO, 1, &json!({})).context("asking")?;
    question::read(&stream).context("an answer")?;
    Ok(stream)
}

/// Pulls that wait for a message, some on each of a few connections.
fn wait_for_messages(port: u16) -> Result<Vec<TcpStream>> {
    let mut streams = Vec::new();
    let each = PULLS / PULLING;
    for _ in 0..PULLING {
        let mut stream = connect(port)?;
        let mut frames = Vec::new();
        for n in 0..each {
            frames.extend(question::frame(PULL, i64::from(n) + 1, &pull(n))?);
        }
        stream.write_all(&frames).context("pulling")?;
        streams.push(stream);
    }
    Ok(streams)
}

/// A pull with its subscription that may wait (`PullSysFlag.java`: 2 suspend, 4 subscription).
fn pull(n: u32) -> Value {
    json!({
        "consumerGroup": "idle", "topic": format!("many-{n}"), "queueId": "0", "queueOffset": "0",
        "maxMsgNums": "32", "sysFlag": "6", "commitOffset": "0",
        "suspendTimeoutMillis": "120000", "subscription": "*", "subVersion": "0",
        "expressionType": "TAG",
    })
}

fn connect(port: u16) -> Result<TcpStream> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let stream = TcpStream::connect_timeout(&address, TIMEOUT).context("connecting")?;
    stream.set_read_timeout(Some(TIMEOUT)).context("setting a time-out")?;
    Ok(stream)
}

/// Request codes PULL_MESSAGE and GET_BROKER_RUNTIME_INFO.
const PULL: i32 = 11;
const RUNTIME_INFO: i32 = 28;
/// Connections that are opened; below the usual limit of 1,024 files of a process.
const CONNECTIONS: u32 = 800;
/// Pulls that wait, and the connections that they share.
const PULLS: u32 = 4_000;
const PULLING: u32 = 4;
/// Time in which memory comes to rest.
const SETTLES: Duration = Duration::from_secs(3);
const TIMEOUT: Duration = Duration::from_secs(10);
