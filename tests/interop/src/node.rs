//! Name servers and brokers, Apache's and ours, started the same way.

use std::{
    env, fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU16, Ordering},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::{
    APACHE, libraries,
    process::Process,
    question::{self, Answer},
};

/// How long a server may take until it serves.
const READY: Duration = Duration::from_secs(90);

/// Flags of a JVM that starts quickly and stays small.
pub const SMALL_JVM: &[&str] =
    &["-Xmx512m", "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=512m", "-XX:TieredStopAtLevel=1"];

/// Request code GET_BROKER_CLUSTER_INFO.
const CLUSTER_INFO: i32 = 106;

/// Request code GET_BROKER_RUNTIME_INFO.
const RUNTIME_INFO: i32 = 28;

/// Whose program a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// Apache RocketMQ of this version.
    Apache(&'static str),
    /// The binary `ledgermq` of this workspace.
    Ours,
}

impl Product {
    /// What the suites run against: ours, or Apache's where `LEDGERMQ_INTEROP_TARGET=apache`.
    ///
    /// # Errors
    /// Where the variable holds anything else.
    pub fn under_test() -> Result<Self> {
        match env::var("LEDGERMQ_INTEROP_TARGET").as_deref() {
            Ok("apache") => Ok(Self::Apache(APACHE)),
            Ok("ours") | Err(_) => Ok(Self::Ours),
            Ok(other) => bail!("LEDGERMQ_INTEROP_TARGET is `{other}`: say `apache` or `ours`"),
        }
    }
}

/// A running name server.
#[derive(Debug)]
pub struct NameServer {
    /// Its process.
    pub process: Process,
    /// Where it listens on 127.0.0.1.
    pub port: u16,
}

impl NameServer {
    /// Starts a name server of `product` with its files in `folder`.
    ///
    /// # Errors
    /// Where it is not ready in time.
    pub fn start(product: Product, folder: &Path) -> Result<Self> {
        let port = free_port()?;
        let mut command = match product {
            Product::Ours => {
                let mut command = Command::new(libraries::ledgermq()?);
                command.args(["namesrv", "--listen", &format!("127.0.0.1:{port}")]);
                command
            }
            Product::Apache(version) => {
                let text = format!("listenPort={port}\nbindAddress=127.0.0.1\n");
                let conf = write(folder, "namesrv.conf", &text)?;
                let main = "org.apache.rocketmq.namesrv.NamesrvStartup";
                let program =
                    Program { artifact: "rocketmq-namesrv", version, main, jvm: SMALL_JVM };
                java_server(&program, folder, &conf)?
            }
        };
        let mut process = Process::start("name server", &mut command, folder)?;
        process.ready(READY, || question::ask(port, CLUSTER_INFO, &json!({})).is_ok())?;
        Ok(Self { process, port })
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Whether it lists the broker at `port` as master.
    #[must_use]
    pub fn lists_master(&self, port: u16) -> bool {
        let answer = question::ask(self.port, CLUSTER_INFO, &json!({}));
        // fastjson leaves the number unquoted.
        let listed = |body: &str| {
            [format!("0:\"127.0.0.1:{port}\""), format!("\"0\":\"127.0.0.1:{port}\"")]
                .iter()
                .any(|form| body.contains(form.as_str()))
        };
        answer.is_ok_and(|answer| answer.code == 0 && listed(&answer.body))
    }
}

/// How a broker is configured. The keys are those of broker.conf, for either product.
#[derive(Debug, Clone)]
pub struct BrokerOptions {
    /// Where it listens; it also takes port - 2 and port + 1.
    pub port: u16,
    /// Its store directory (`storePathRootDir`).
    pub store: PathBuf,
    /// Whether Apache's broker runs on DLedger too. Ours always does.
    pub dledger: bool,
    /// Flags of the JVM of Apache's broker.
    pub jvm: &'static [&'static str],
    /// Further keys.
    pub keys: Vec<(&'static str, String)>,
}

impl BrokerOptions {
    /// A broker with its store in `store`, and the keys that the suites need.
    ///
    /// # Errors
    /// Where no free port is found.
    pub fn new(store: &Path) -> Result<Self> {
        let on = ["autoCreateTopicEnable", "autoCreateSubscriptionGroup", "enablePropertyFilter"];
        let also = ["traceTopicEnable", "recallMessageEnable", "enableLmq", "enableMultiDispatch"];
        let mut keys: Vec<_> = on.into_iter().chain(also).map(|key| (key, "true".into())).collect();
        // The disk that the tests run on may be nearly full.
        keys.push(("diskSpaceWarningLevelRatio", "99".into()));
        keys.push(("cleanFileForciblyEnable", "false".into()));
        // The transaction case waits for checks.
        keys.push(("transactionTimeOut", "3000".into()));
        keys.push(("transactionCheckInterval", "3000".into()));
        Ok(Self {
            port: free_ports(5)?,
            store: store.to_path_buf(),
            dledger: false,
            jvm: SMALL_JVM,
            keys,
        })
    }

    /// As [`BrokerOptions::new`], on DLedger and with files of `file_size` bytes: what a store
    /// directory needs in order to be opened by both products.
    ///
    /// # Errors
    /// Where no free port is found.
    pub fn shared(store: &Path, file_size: u32) -> Result<Self> {
        let mut options = Self::new(store)?;
        options.dledger = true;
        options.keys.push(("mappedFileSizeCommitLog", file_size.to_string()));
        // Without it Java loses sight of messages after kill -9.
        options.keys.push(("recheckReputOffsetFromCq", "true".into()));
        Ok(options)
    }

    fn text(&self, name_server: &str) -> String {
        let store = self.store.display();
        let port = self.port;
        let mut text = format!(
            "brokerClusterName=DefaultCluster\nbrokerName=broker-a\nlistenPort={port}\n\
             namesrvAddr={name_server}\nbrokerIP1=127.0.0.1\nbrokerIP2=127.0.0.1\n\
             bindAddress=127.0.0.1\nstorePathRootDir={store}\nstorePathCommitLog={store}/commitlog\n"
        );
        if self.dledger {
            let peer = format!("n0-127.0.0.1:{}", port + 2);
            text += "enableDLegerCommitLog=true\ndLegerGroup=broker-a\ndLegerSelfId=n0\n";
            text += &format!("dLegerPeers={peer}\n");
        } else {
            text += "brokerId=0\nbrokerRole=ASYNC_MASTER\nflushDiskType=ASYNC_FLUSH\n";
        }
        for (key, value) in &self.keys {
            text += &format!("{key}={value}\n");
        }
        text
    }
}

/// A running broker.
#[derive(Debug)]
pub struct Broker {
    /// Its process.
    pub process: Process,
    /// Where it listens on 127.0.0.1.
    pub port: u16,
}

impl Broker {
    /// Starts a broker of `product` and waits until `name_server` lists it as master and it
    /// answers.
    ///
    /// # Errors
    /// Where it is not ready in time.
    pub fn start(
        product: Product,
        folder: &Path,
        options: &BrokerOptions,
        name_server: &NameServer,
    ) -> Result<Self> {
        let mut command = broker_command(product, folder, options, &name_server.address())?;
        let mut process = Process::start("broker", &mut command, folder)?;
        let port = options.port;
        process.ready(READY, || name_server.lists_master(port) && answers(port))?;
        Ok(Self { process, port })
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

/// Our name server and broker in one process, as the README starts them.
#[derive(Debug)]
pub struct Standalone {
    /// Its process.
    pub process: Process,
    /// Where the broker listens.
    pub port: u16,
    /// Where the name server listens.
    pub name_server_port: u16,
}

impl Standalone {
    /// Starts `ledgermq standalone` with its data in `folder`.
    ///
    /// # Errors
    /// Where it is not ready in time.
    pub fn start(folder: &Path) -> Result<Self> {
        let (port, name_server_port) = (free_ports(5)?, free_port()?);
        let mut command = Command::new(libraries::ledgermq()?);
        command.arg("standalone").arg("--data").arg(folder.join("data"));
        command.arg("--broker-listen").arg(format!("127.0.0.1:{port}"));
        command.arg("--namesrv-listen").arg(format!("127.0.0.1:{name_server_port}"));
        command.args(["--http-listen", "127.0.0.1:0"]);
        for key in [
            "enableLmq=true",
            "enableMultiDispatch=true",
            "transactionTimeOut=3000",
            "transactionCheckInterval=3000",
        ] {
            command.args(["--set", key]);
        }
        let mut process = Process::start("standalone", &mut command, folder)?;
        process.ready(READY, || answers(port) && answers_cluster(name_server_port))?;
        Ok(Self { process, port, name_server_port })
    }
}

fn answers(port: u16) -> bool {
    question::ask(port, RUNTIME_INFO, &json!({})).is_ok_and(|answer| answer.code == 0)
}

fn answers_cluster(port: u16) -> bool {
    let listed = |answer: Answer| answer.code == 0 && answer.body.contains("broker-a");
    question::ask(port, CLUSTER_INFO, &json!({})).is_ok_and(listed)
}

/// The command that starts a broker of either product with its files in `folder`.
///
/// # Errors
/// Where the program cannot be fetched, or its configuration not written.
pub fn broker_command(
    product: Product,
    folder: &Path,
    options: &BrokerOptions,
    name_server: &str,
) -> Result<Command> {
    let conf = write(folder, "broker.conf", &options.text(name_server))?;
    Ok(match product {
        Product::Ours => {
            let mut command = Command::new(libraries::ledgermq()?);
            command.args(["broker", "-c"]).arg(&conf).args(["--http-listen", "off"]);
            command
        }
        Product::Apache(version) => apache_broker(version, options.jvm, folder, &conf)?,
    })
}

/// The command that starts a Java broker with its files in `folder`. A key that `options.keys` name
/// again is theirs.
///
/// # Errors
/// Where it cannot be fetched, or its configuration not written.
pub fn java_broker(
    version: &'static str,
    folder: &Path,
    options: &BrokerOptions,
    name_server: &str,
) -> Result<Command> {
    let conf = write(folder, "broker.conf", &options.text(name_server))?;
    apache_broker(version, options.jvm, folder, &conf)
}

fn apache_broker(version: &str, jvm: &[&str], folder: &Path, conf: &Path) -> Result<Command> {
    let main = "org.apache.rocketmq.broker.BrokerStartup";
    let program = Program { artifact: "rocketmq-broker", version, main, jvm };
    java_server(&program, folder, conf)
}

/// A server of Apache's.
pub(crate) struct Program<'a> {
    pub(crate) artifact: &'a str,
    pub(crate) version: &'a str,
    pub(crate) main: &'a str,
    /// Flags of the JVM.
    pub(crate) jvm: &'a [&'a str],
}

fn java_server(program: &Program<'_>, folder: &Path, conf: &Path) -> Result<Command> {
    let mut command = java_program(program, folder)?;
    command.arg("-c").arg(conf);
    Ok(command)
}

/// The command of a server of Apache's with its files in `folder`; what is missing are its arguments.
pub(crate) fn java_program(program: &Program<'_>, folder: &Path) -> Result<Command> {
    let home = folder.display();
    let mut command = Command::new("java");
    command.args(libraries::OPENS).args(program.jvm);
    command.arg(format!("-Duser.home={home}")).arg("-Djava.net.preferIPv4Stack=true");
    command.arg("-cp").arg(libraries::class_path(program.artifact, program.version)?);
    command.arg(program.main).env("ROCKETMQ_HOME", folder);
    Ok(command)
}

/// Writes a file of configuration.
pub(crate) fn write(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    use std::io::Write;
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let path = folder.join(name);
    let mut file = fs::File::create(&path).with_context(|| path.display().to_string())?;
    file.write_all(text.as_bytes()).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// A port of 127.0.0.1 that is free now.
///
/// # Errors
/// Where none is found.
pub fn free_port() -> Result<u16> {
    free_ports(1).map(|port| port - 2)
}

/// A port which is free with its neighbours from -2 to `count` - 3, for a broker's other listeners.
///
/// They lie below those that the system gives to outgoing connections, so that no client takes one
/// before the server does.
fn free_ports(count: u16) -> Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let process = u16::try_from(std::process::id() % 1000).context("a remainder below 1000")?;
    for _ in 0..1000 {
        let step = NEXT.fetch_add(count, Ordering::Relaxed) % 6000;
        let first = 20_000 + (process * 6 + step) % 12_000;
        let range = first..first + count;
        let held: Vec<_> =
            range.map_while(|port| TcpListener::bind(("127.0.0.1", port)).ok()).collect();
        if held.len() == usize::from(count) {
            return Ok(first + 2);
        }
    }
    bail!("no {count} free ports side by side from 20000 to 32000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_and_not_given_twice() {
        let (first, second) = (free_ports(5).unwrap(), free_ports(5).unwrap());
        assert!(first.abs_diff(second) >= 5, "{first} and {second} overlap");
        assert!(TcpListener::bind(("127.0.0.1", free_port().unwrap())).is_ok());
    }
}
