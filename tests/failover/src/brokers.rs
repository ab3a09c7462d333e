//! A group of brokers with its name servers, each a process of its own.

use std::{
    fs::File,
    io::Write,
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use crash::loop_disk::LoopDisk;
use interop::{
    libraries,
    node::{self, BrokerOptions, free_port},
    process::{Process, wait_until},
    question::{self, Answer},
};
use serde_json::{Value, json};

/// How long a group may take until it has a master, and to bring all its members to the same end,
/// with all else that the machine does.
pub const SERVES: Duration = Duration::from_secs(90);

/// How long a server may take to answer a question about itself.
const ANSWERS: Duration = Duration::from_millis(1500);

/// Request code GET_BROKER_CLUSTER_INFO.
const CLUSTER_INFO: i32 = 106;
/// Request code GET_BROKER_RUNTIME_INFO.
const RUNTIME_INFO: i32 = 28;
/// Request code GET_TOPIC_STATS_INFO.
const TOPIC_STATS: i32 = 202;

/// Whose brokers they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// `ledgermq broker`.
    Ours,
    /// Apache's broker of this version in its DLedger mode.
    Apache(&'static str),
}

/// Where servers run.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// Address of each broker, with the network namespace that has it; `None`: all of them are at
    /// 127.0.0.1, of this process's network.
    pub brokers: Option<Vec<Place>>,
    /// The same for the name server.
    pub name_server: Option<Place>,
    /// Whether each broker has a disk of its own, which can be frozen.
    pub disks: bool,
}

/// An address in a network namespace.
#[derive(Debug, Clone)]
pub struct Place {
    /// The address.
    pub ip: String,
    /// The namespace, as `ip netns` names it.
    pub namespace: String,
}

/// One broker.
#[derive(Debug)]
struct Node {
    place: Option<Place>,
    port: u16,
    peer: u16,
    folder: PathBuf,
    process: Option<Process>,
    /// What `folder` lies on; it goes after the process.
    disk: Option<LoopDisk>,
}

/// A group.
#[derive(Debug)]
pub struct Brokers {
    product: Product,
    /// Of the brokers and of their group.
    name: String,
    nodes: Vec<Node>,
    name_servers: Arc<Vec<NameServer>>,
}

#[derive(Debug)]
enum NameServer {
    Ours { address: String, _process: Process },
    Apache(node::NameServer),
}

impl Brokers {
    /// Starts a group of three with its files in `folder`. Beside our name server, Apache's runs
    /// where `apache_name_server` says so.
    ///
    /// # Errors
    /// Where something cannot be started.
    pub fn start(
        product: Product,
        places: &Places,
        apache_name_server: bool,
        folder: &Path,
    ) -> Result<Self> {
        let mut name_servers = vec![our_name_server(places.name_server.as_ref(), folder)?];
        if apache_name_server {
            let apache = node::Product::Apache(interop::APACHE);
            let server = node::NameServer::start(apache, &folder.join("apache-namesrv"))?;
            name_servers.push(NameServer::Apache(server));
        }
        let nodes = nodes(places, folder)?;
        let name_servers = Arc::new(name_servers);
        let mut group = Self { product, name: BROKER.to_owned(), nodes, name_servers };
        group.start_all()?;
        Ok(group)
    }

    /// Starts a second group of the same cluster, of this name and at the same name servers.
    ///
    /// # Errors
    /// Where something cannot be started.
    pub fn beside(&self, name: &str, folder: &Path) -> Result<Self> {
        let nodes = nodes(&Places::default(), folder)?;
        let name_servers = Arc::clone(&self.name_servers);
        let mut group = Self { product: self.product, name: name.to_owned(), nodes, name_servers };
        group.start_all()?;
        Ok(group)
    }

    fn start_all(&mut self) -> Result<()> {
        (0..self.size()).try_for_each(|number| self.restart(number))
    }

    /// Whose brokers they are.
    #[must_use]
    pub fn product(&self) -> Product {
        self.product
    }

    /// The name of the brokers, which is that of the group.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of brokers.
    #[must_use]
    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    /// The name servers, as clients are given them.
    #[must_use]
    pub fn namesrv(&self) -> String {
        let all = self.name_servers.iter().map(NameServer::address);
        all.collect::<Vec<_>>().join(";")
    }

    /// Whether a broker's process was started and not ended.
    #[must_use]
    pub fn runs(&self, number: usize) -> bool {
        self.nodes[number].process.is_some()
    }

    /// Where a broker listens for clients.
    #[must_use]
    pub fn address(&self, number: usize) -> String {
        let node = &self.nodes[number];
        format!("{}:{}", node.ip(), node.port)
    }

    /// A broker's folder of all data.
    #[must_use]
    pub fn store(&self, number: usize) -> PathBuf {
        self.nodes[number].folder.join("store")
    }

    /// Starts a broker that does not run.
    ///
    /// # Errors
    /// Where it runs or cannot be started.
    pub fn restart(&mut self, number: usize) -> Result<()> {
        let (namesrv, peers) = (self.namesrv(), self.peers());
        let product = self.product;
        let node = &mut self.nodes[number];
        ensure!(node.process.is_none(), "n{number} runs");
        let mut command = match product {
            Product::Ours => {
                let conf = node.write_conf(&[
                    ("brokerName", &self.name),
                    ("dLegerGroup", &self.name),
                    ("namesrvAddr", &namesrv),
                    ("dLegerPeers", &peers),
                    ("dLegerSelfId", &format!("n{number}")),
                ])?;
                let mut command = node.command(&libraries::ledgermq()?);
                // Requirement S-2: whatever the faults bring, no program is started.
                command.args(["broker", "--forbid-exec", "-c"]).arg(conf);
                command
            }
            Product::Apache(version) => {
                let mut options = BrokerOptions::shared(&node.folder.join("store"), FILE)?;
                options.port = node.port;
                options.keys.extend([
                    ("dLegerPeers", peers),
                    ("dLegerSelfId", format!("n{number}")),
                    ("dLegerGroup", self.name.clone()),
                    ("brokerName", self.name.clone()),
                ]);
                node::java_broker(version, &node.folder, &options, &namesrv)?
            }
        };
        let folder = node.folder.clone();
        node.process = Some(Process::start(&format!("n{number}"), &mut command, &folder)?);
        Ok(())
    }

    fn peers(&self) -> String {
        let peer =
            |(number, node): (usize, &Node)| format!("n{number}-{}:{}", node.ip(), node.peer);
        self.nodes.iter().enumerate().map(peer).collect::<Vec<_>>().join(";")
    }

    /// Ends a broker with SIGKILL.
    ///
    /// # Errors
    /// Where it does not run, or had ended by itself.
    pub fn kill(&mut self, number: usize) -> Result<()> {
        self.process(number)?.lives()?;
        self.process(number)?.kill()?;
        self.nodes[number].process = None;
        Ok(())
    }

    /// Lets all writes to a broker's disk hang, or go on.
    ///
    /// # Errors
    /// Where it has no disk of its own, or the system refuses.
    pub fn freeze(&self, number: usize, freeze: bool) -> Result<()> {
        let disk =
            self.nodes[number].disk.as_ref().context("a broker without a disk of its own")?;
        disk.freeze(freeze)
    }

    /// Ends a broker with SIGTERM, and returns how long it took.
    ///
    /// # Errors
    /// Where it does not stop in time.
    pub fn stop(&mut self, number: usize) -> Result<Duration> {
        let begun = Instant::now();
        let status = self.process(number)?.stop()?;
        self.nodes[number].process = None;
        // Java's broker says 143 where it stopped in order.
        ensure!(status.success() || self.product != Product::Ours, "n{number} ended with {status}");
        Ok(begun.elapsed())
    }

    /// The process of a broker that runs.
    ///
    /// # Errors
    /// Where it does not run.
    pub fn process(&mut self, number: usize) -> Result<&mut Process> {
        self.nodes[number].process.as_mut().with_context(|| format!("n{number} does not run"))
    }

    /// The broker that name servers list as master, if they agree.
    #[must_use]
    pub fn master(&self) -> Option<usize> {
        let mut masters = self.name_servers.iter().map(|server| {
            let answer = ask(&server.address(), CLUSTER_INFO, &json!({})).ok()?;
            (0..self.size()).find(|number| lists(&answer.body, &self.address(*number)))
        });
        let first = masters.next()??;
        masters.all(|master| master == Some(first)).then_some(first)
    }

    /// Waits until there is a master other than `not`, and returns it.
    ///
    /// # Errors
    /// Where there is none in time.
    pub fn wait_master(&self, not: Option<usize>) -> Result<usize> {
        let mut found = None;
        wait_until("a master is listed", SERVES, || {
            found = self.master().filter(|master| Some(*master) != not && self.runs(*master));
            found.is_some()
        })?;
        found.context("a master was listed, but it is not known which")
    }

    /// Waits until each name server lists each broker once, and one of them as master: clients write
    /// to id 0, and read from any other.
    ///
    /// # Errors
    /// Where a broker is still listed twice or not at all in the end.
    pub fn listed_once(&self) -> Result<()> {
        let mut last = String::new();
        let listed = wait_until("each broker is listed once", SERVES, || {
            self.name_servers.iter().all(|server| {
                let Ok(answer) = ask(&server.address(), CLUSTER_INFO, &json!({})) else {
                    return false;
                };
                last = answer.body;
                let times = |number| last.matches(&format!("\"{}\"", self.address(number))).count();
                let masters = |number: &usize| lists(&last, &self.address(*number));
                (0..self.size()).all(|number| times(number) == 1)
                    && (0..self.size()).filter(masters).count() == 1
            })
        });
        listed.with_context(|| format!("listed is {last}"))
    }

    /// Removes all files of a broker that does not run.
    ///
    /// # Errors
    /// Where it runs, or the system refuses.
    pub fn wipe(&mut self, number: usize) -> Result<()> {
        ensure!(self.nodes[number].process.is_none(), "n{number} runs");
        let store = self.store(number);
        std::fs::remove_dir_all(&store).with_context(|| format!("removing {}", store.display()))
    }

    /// How a broker is, by name; `None` where it does not answer.
    #[must_use]
    pub fn runtime(&self, number: usize) -> Option<Value> {
        let answer = ask(&self.address(number), RUNTIME_INFO, &json!({})).ok()?;
        let body: Value = serde_json::from_str(&answer.body).ok()?;
        (answer.code == 0).then(|| body["table"].clone())
    }

    /// Where each queue of a topic begins and ends at a broker; `None` where it does not say.
    #[must_use]
    pub fn queues(&self, number: usize, topic: &str) -> Option<Vec<(i64, i64)>> {
        let answer = ask(&self.address(number), TOPIC_STATS, &json!({ "topic": topic })).ok()?;
        if answer.code != 0 {
            return None;
        }
        let body = answer.body.replace('\\', "");
        // A key is an object, which JSON does not know: what is wanted is cut out.
        let field = |part: &str, name: &str| -> Option<i64> {
            let (_, rest) = part.split_once(&format!("\"{name}\":"))?;
            let end = rest.find(|c: char| c != '-' && !c.is_ascii_digit()).unwrap_or(rest.len());
            rest[..end].parse().ok()
        };
        let mut queues = Vec::new();
        for part in body.split("\"brokerName\"").skip(1) {
            let ends = (field(part, "minOffset")?, field(part, "maxOffset")?);
            queues.push((field(part, "queueId")?, ends));
        }
        queues.sort_unstable();
        Some(queues.into_iter().map(|(_, ends)| ends).collect())
    }

    /// Waits until all brokers hold what the one that is furthest holds now, while the load goes on.
    ///
    /// # Errors
    /// Where they do not in time.
    pub fn caught_up(&self) -> Result<()> {
        let end =
            |node: usize| self.runtime(node)?["commitLogMaxOffset"].as_str()?.parse::<i64>().ok();
        let mut goal = None;
        let mut last = String::new();
        let reached = wait_until("all brokers catch up", SERVES, || {
            let ends: Vec<_> = (0..self.size()).map(end).collect();
            last = format!("{ends:?}");
            if goal.is_none() && ends.iter().all(Option::is_some) {
                goal = ends.iter().flatten().max().copied();
            }
            goal.is_some() && ends.iter().all(|end| *end >= goal)
        });
        reached.with_context(|| format!("{goal:?} is to be reached, commitLogMaxOffset: {last}"))
    }

    /// Waits until all brokers run, hold the same log, and have its messages in their queues.
    ///
    /// # Errors
    /// Where they do not in time.
    pub fn converged(&self) -> Result<()> {
        let number = |table: &Value, name: &str| table[name].as_str()?.parse::<i64>().ok();
        let mut last = String::new();
        let same = wait_until("all brokers hold the same", SERVES, || {
            let ends: Vec<_> = (0..self.size())
                .map(|node| {
                    let table = self.runtime(node)?;
                    Some((
                        number(&table, "commitLogMaxOffset")?,
                        number(&table, "dispatchBehindBytes")?,
                    ))
                })
                .collect();
            last = format!("{ends:?}");
            let same = ends
                .iter()
                .all(|end| end.is_some() && end.map(|it| it.0) == ends[0].map(|it| it.0));
            same && ends.iter().flatten().all(|(_, behind)| *behind == 0)
        });
        same.with_context(|| format!("commitLogMaxOffset and dispatchBehindBytes: {last}"))
    }
}

impl Node {
    fn ip(&self) -> &str {
        self.place.as_ref().map_or("127.0.0.1", |place| &place.ip)
    }

    fn command(&self, program: &Path) -> Command {
        within(self.place.as_ref(), program)
    }

    fn write_conf(&self, more: &[(&str, &str)]) -> Result<PathBuf> {
        let (ip, port) = (self.ip(), self.port);
        let store = self.folder.join("store");
        let mut text = format!(
            "brokerClusterName=DefaultCluster\nbrokerIP1={ip}\nbindAddress={ip}\n\
             listenPort={port}\nenableDLegerCommitLog=true\n\
             storePathRootDir={}\nflushDiskType=SYNC_FLUSH\nmappedFileSizeCommitLog={FILE}\n\
             autoCreateTopicEnable=true\ndiskSpaceWarningLevelRatio=99\ncleanFileForciblyEnable=false\n\
             slaveReadEnable=true\nflushConsumerOffsetInterval=500\n",
            store.display()
        );
        for (key, value) in more {
            text += &format!("{key}={value}\n");
        }
        std::fs::create_dir_all(&self.folder)
            .with_context(|| format!("creating {}", self.folder.display()))?;
        let path = self.folder.join("broker.conf");
        let mut file = File::create(&path).with_context(|| path.display().to_string())?;
        file.write_all(text.as_bytes()).with_context(|| path.display().to_string())?;
        Ok(path)
    }
}

impl NameServer {
    fn address(&self) -> String {
        match self {
            Self::Ours { address, .. } => address.clone(),
            Self::Apache(server) => server.address(),
        }
    }
}

/// Three brokers that are not started yet.
fn nodes(places: &Places, folder: &Path) -> Result<Vec<Node>> {
    let mut nodes = Vec::new();
    for number in 0..SIZE {
        let place = places.brokers.as_ref().and_then(|all| all.get(number).cloned());
        let disk = if places.disks { Some(LoopDisk::new(DISK)?) } else { None };
        let root = disk.as_ref().map_or_else(|| folder.to_path_buf(), LoopDisk::root);
        let folder = root.join(format!("n{number}"));
        let port = BrokerOptions::new(&folder)?.port;
        nodes.push(Node { place, port, peer: free_port()?, folder, process: None, disk });
    }
    Ok(nodes)
}

fn within(place: Option<&Place>, program: &Path) -> Command {
    let Some(place) = place else { return Command::new(program) };
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &place.namespace]).arg(program);
    command
}

fn our_name_server(place: Option<&Place>, folder: &Path) -> Result<NameServer> {
    let ip = place.map_or("127.0.0.1", |place| &place.ip);
    let address = format!("{ip}:{}", free_port()?);
    let mut command = within(place, &libraries::ledgermq()?);
    command.args(["namesrv", "--listen", &address]);
    let mut process = Process::start("name server", &mut command, &folder.join("namesrv"))?;
    process.ready(SERVES, || ask(&address, CLUSTER_INFO, &json!({})).is_ok())?;
    Ok(NameServer::Ours { address, _process: process })
}

/// Whether the cluster that is listed has this address as id 0. fastjson leaves numbers unquoted.
fn lists(body: &str, address: &str) -> bool {
    [format!("0:\"{address}\""), format!("\"0\":\"{address}\"")]
        .iter()
        .any(|form| body.contains(form.as_str()))
}

/// Asks a server that may not be there.
fn ask(address: &str, code: i32, fields: &Value) -> Result<Answer> {
    let address: SocketAddr = address.parse().context("an address")?;
    let socket = TcpStream::connect_timeout(&address, ANSWERS).context("connecting")?;
    socket.set_read_timeout(Some(ANSWERS)).context("setting a time-out")?;
    question::write(&socket, code, 1, fields)?;
    question::read(&socket)
}

/// Brokers of a group.
const SIZE: usize = 3;
/// Name of the brokers of a first group.
const BROKER: &str = "broker-a";
/// Size of a broker's own disk in mebibytes.
const DISK: u64 = 768;
/// Length of a data file: small enough that runs have several.
const FILE: u32 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_master_is_listed_in_either_form() {
        assert!(lists("{\"brokerAddrs\":{0:\"127.0.0.1:9\",2:\"127.0.0.1:8\"}}", "127.0.0.1:9"));
        assert!(lists("{\"brokerAddrs\":{\"0\":\"127.0.0.1:9\"}}", "127.0.0.1:9"));
        assert!(!lists("{\"brokerAddrs\":{2:\"127.0.0.1:9\"}}", "127.0.0.1:9"));
        assert!(!lists("{\"brokerAddrs\":{0:\"127.0.0.1:90\"}}", "127.0.0.1:9"));
    }
}
