//! Apache's gRPC proxy in cluster mode, in front of a broker, and the topics and groups that the gRPC
//! suites need.

use std::{
    net::{SocketAddr, TcpStream},
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::{
    PROXY,
    node::{self, Product, Program, SMALL_JVM, free_port, write},
    process::Process,
    question,
    suite::{Address, Suite},
};

/// How long it may take until it serves.
const READY: Duration = Duration::from_secs(120);
const CONNECT: Duration = Duration::from_secs(1);

/// Request codes.
const UPDATE_AND_CREATE_TOPIC: i32 = 17;
const UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: i32 = 200;

/// A running proxy.
#[derive(Debug)]
pub struct Proxy {
    /// Its process.
    pub process: Process,
    port: u16,
}

impl Proxy {
    /// Starts a proxy with its files in `folder` before the brokers that a name server knows.
    ///
    /// # Errors
    /// Where it is not ready in time.
    pub fn start(folder: &Path, name_server: &str) -> Result<Self> {
        let port = free_port()?;
        let conf = json!({
            "rocketMQClusterName": "DefaultCluster",
            "proxyMode": "CLUSTER",
            "namesrvAddr": name_server,
            "grpcServerPort": port,
            "remotingListenPort": free_port()?,
        });
        let conf = write(folder, "rmq-proxy.json", &conf.to_string())?;
        let main = "org.apache.rocketmq.proxy.ProxyStartup";
        let program = Program { artifact: "rocketmq-proxy", version: PROXY, main, jvm: SMALL_JVM };
        let mut command = node::java_program(&program, folder)?;
        command.arg("-pc").arg(conf);
        let mut process = Process::start("proxy", &mut command, folder)?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        process.ready(READY, || TcpStream::connect_timeout(&address, CONNECT).is_ok())?;
        Ok(Self { process, port })
    }

    /// Where it serves gRPC.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

/// Runs `suite` through a proxy in front of the broker at `address`, on topics and groups with this
/// prefix. The files are in `folder`.
///
/// # Errors
/// Where something cannot be made or started, or a case failed.
pub fn run(
    suite: Suite,
    prefix: &str,
    product: Product,
    folder: &Path,
    address: &Address,
) -> Result<()> {
    prepare(address.broker_port()?, prefix)?;
    let mut proxy = Proxy::start(&folder.join("proxy"), &address.name_server)?;
    suite.through(&proxy.address(), prefix).run(product, folder, address)?;
    proxy.process.stop()?;
    Ok(())
}

/// Makes the topics and groups of a gRPC suite at the broker at `port`: the proxy asks for the type of
/// a topic, and none comes into being by its use.
///
/// # Errors
/// Where the broker refuses one.
pub fn prepare(port: u16, prefix: &str) -> Result<()> {
    for (kind, order) in
        [("normal", false), ("fifo", true), ("delay", false), ("transaction", false)]
    {
        let fields = json!({
            "topic": format!("{prefix}_{kind}"), "defaultTopic": "TBW102", "readQueueNums": "4",
            "writeQueueNums": "4", "perm": "6", "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0", "order": order.to_string(),
            "attributes": format!("+message.type={}", kind.to_uppercase()),
        });
        done(question::ask(port, UPDATE_AND_CREATE_TOPIC, &fields), kind)?;
    }
    let groups = [
        json!({ "groupName": format!("{prefix}_g_fifo"), "consumeMessageOrderly": true }),
        json!({ "groupName": format!("{prefix}_g_dlq"), "retryMaxTimes": 1 }),
    ];
    for group in groups {
        let body = group.to_string();
        let code = UPDATE_AND_CREATE_SUBSCRIPTIONGROUP;
        done(question::ask_with(port, code, &json!({}), body.as_bytes()), &body)?;
    }
    Ok(())
}

fn done(answer: Result<question::Answer>, what: &str) -> Result<()> {
    let answer = answer.with_context(|| format!("making {what}"))?;
    ensure!(answer.code == 0, "making {what}: code {}, {}", answer.code, answer.remark);
    Ok(())
}
