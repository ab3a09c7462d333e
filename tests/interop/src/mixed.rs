//! A group of brokers of which each may run Apache's product or ours on the same folder, with the same
//! ports and the same broker.conf.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{
    appender::Members,
    libraries, log_files,
    node::{BrokerOptions, NameServer, Product, broker_command},
    process::{Process, wait_until},
    question,
};

/// How long anything in a group may take: JVMs that start take both cores of a small machine.
pub const PATIENCE: Duration = Duration::from_secs(150);

/// Request code GET_BROKER_CLUSTER_INFO.
const CLUSTER_INFO: i32 = 106;

/// A group of three brokers.
#[derive(Debug)]
pub struct MixedGroup {
    /// The peer ports of its members.
    pub members: Members,
    name_server: NameServer,
    nodes: BTreeMap<String, Node>,
}

#[derive(Debug)]
struct Node {
    options: BrokerOptions,
    folder: PathBuf,
    starts: u32,
    running: Option<(Product, Process)>,
}

impl MixedGroup {
    /// A group of n0, n1 and n2 with files of `file_size` bytes, none of which is started.
    ///
    /// # Errors
    /// Where no free ports are found.
    pub fn new(folder: &Path, name_server: NameServer, file_size: u32) -> Result<Self> {
        let mut nodes = BTreeMap::new();
        let mut ports = BTreeMap::new();
        for id in ["n0", "n1", "n2"] {
            let folder = folder.join(id);
            let options = BrokerOptions::shared(&folder.join("store"), file_size)?;
            ports.insert(id.to_owned(), options.port + 2);
            nodes.insert(id.to_owned(), Node { options, folder, starts: 0, running: None });
        }
        let members = Members { group: "broker-a".to_owned(), ports, hosts: BTreeMap::new() };
        for (id, node) in &mut nodes {
            node.options.keys.push(("dLegerSelfId", id.clone()));
            node.options.keys.push(("dLegerPeers", members.text()));
            // On a busy machine Java refuses sends that wait for its own threads or page cache.
            for key in ["waitTimeMillsInSendQueue", "osPageCacheBusyTimeOutMills"] {
                node.options.keys.push((key, "20000".to_owned()));
            }
        }
        Ok(Self { members, name_server, nodes })
    }

    /// Address of the name server.
    #[must_use]
    pub fn name_server(&self) -> String {
        self.name_server.address()
    }

    /// Starts a member that does not run.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start(&mut self, id: &str, product: Product) -> Result<()> {
        let address = self.name_server.address();
        let node = self.nodes.get_mut(id).with_context(|| format!("no member {id}"))?;
        ensure!(node.running.is_none(), "{id} runs already");
        node.starts += 1;
        let home = node.folder.join(format!("run-{}", node.starts));
        let mut command = broker_command(product, &home, &node.options, &address)?;
        node.running = Some((product, Process::start(id, &mut command, &home)?));
        Ok(())
    }

    /// Starts all members with `product`, waits until one is the master and the others are in the routes
    /// as slaves, and returns the master.
    ///
    /// # Errors
    /// Where that is not so in time.
    pub fn start_all(&mut self, product: Product) -> Result<String> {
        let ids: Vec<String> = self.nodes.keys().cloned().collect();
        ids.iter().try_for_each(|id| self.start(id, product))?;
        let master = self.wait_master()?;
        ids.iter().filter(|id| **id != master).try_for_each(|id| self.wait_listed(id))?;
        Ok(master)
    }

    /// Stops a member in order.
    ///
    /// # Errors
    /// Where it does not run or does not stop in time.
    pub fn stop(&mut self, id: &str) -> Result<()> {
        let node = self.nodes.get_mut(id).with_context(|| format!("no member {id}"))?;
        let (_, mut process) = node.running.take().with_context(|| format!("{id} is away"))?;
        process.stop()?;
        Ok(())
    }

    /// Kills all that run.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn kill_all(&mut self) -> Result<()> {
        for node in self.nodes.values_mut() {
            if let Some((_, mut process)) = node.running.take() {
                process.kill()?;
            }
        }
        Ok(())
    }

    /// The member that name servers list as master, and that takes itself for the leader.
    #[must_use]
    pub fn master(&self) -> Option<String> {
        let leads = |id: &String| self.members.leader_by(id).is_ok_and(|leader| leader == *id);
        let master = |(id, node): (&String, &Node)| {
            self.name_server.lists_master(node.options.port).then(|| id.clone())
        };
        self.nodes.iter().find_map(master).filter(leads)
    }

    /// Waits for a master.
    ///
    /// # Errors
    /// Where there is none in time.
    pub fn wait_master(&self) -> Result<String> {
        let mut found = None;
        wait_until("a master", PATIENCE, || {
            found = self.master();
            found.is_some()
        })?;
        found.context("a master")
    }

    /// The members that do not lead.
    ///
    /// # Errors
    /// Where no master is there in time.
    pub fn followers(&self) -> Result<Vec<String>> {
        let master = self.wait_master()?;
        Ok(self.nodes.keys().filter(|id| **id != master).cloned().collect())
    }

    /// Waits until a member that has started follows, holds what is committed now, and is in the routes
    /// as a slave.
    ///
    /// # Errors
    /// Where it does not in time.
    pub fn wait_follower(&mut self, id: &str) -> Result<()> {
        let node = self.nodes.get(id).with_context(|| format!("no member {id}"))?;
        let (product, _) = node.running.as_ref().with_context(|| format!("{id} is away"))?;
        let product = *product;
        wait_until(&format!("{id} follows"), PATIENCE, || {
            self.members.leader_by(id).is_ok_and(|leader| leader != id)
        })?;
        if product == Product::Ours {
            self.wait_caught_up(id)?;
        }
        self.wait_listed(id)
    }

    /// Waits until a member is in the routes as a slave.
    ///
    /// # Errors
    /// Where it is not in time.
    pub fn wait_listed(&self, id: &str) -> Result<()> {
        let node = self.nodes.get(id).with_context(|| format!("no member {id}"))?;
        let slave: i64 = id.trim_start_matches('n').parse::<i64>().context("a number")? + 1;
        wait_until(&format!("{id} is listed as slave {slave}"), PATIENCE, || {
            self.is_listed(slave, node.options.port)
        })
    }

    fn wait_caught_up(&self, id: &str) -> Result<()> {
        let mut seen: Option<u64> = None;
        let mut moves = 0;
        wait_until(&format!("{id} has caught up"), PATIENCE, || {
            let Ok(status) = self.members.status(id) else { return false };
            let (end, committed) = (status["end"].as_u64(), status["committed"].as_u64());
            let close =
                matches!((end, committed), (Some(end), Some(committed)) if end - committed < 2_000);
            if committed > seen {
                (seen, moves) = (committed, moves + 1);
            }
            // Its log has moved with the leader's more than once: it is at the end of it.
            status["doubt"].is_null() && status["tables"] == true && close && moves > 3
        })
    }

    fn is_listed(&self, broker: i64, port: u16) -> bool {
        let answer = question::ask(self.name_server.port, CLUSTER_INFO, &json!({}));
        let forms = [
            format!("{broker}:\"127.0.0.1:{port}\""),
            format!("\"{broker}\":\"127.0.0.1:{port}\""),
        ];
        answer.is_ok_and(|answer| forms.iter().any(|form| answer.body.contains(form.as_str())))
    }

    /// Waits until every member, all of ours, has what the master has now; kills all; and returns how many
    /// entries are the same in all logs.
    ///
    /// # Errors
    /// Where a member lacks something or has something else.
    pub fn end_alike(&mut self) -> Result<usize> {
        let master = self.wait_master()?;
        let end = self.members.status(&master)?["end"].as_u64().context("the end of its log")?;
        for id in self.nodes.keys() {
            wait_until(&format!("{id} has entry {end}"), PATIENCE, || {
                self.members.status(id).is_ok_and(|status| status["end"].as_u64() >= Some(end))
            })?;
        }
        self.kill_all()?;
        let mut logs = Vec::new();
        for id in self.nodes.keys() {
            logs.push((id.as_str(), log_files::entries(&self.data(id)?)?));
        }
        let common = log_files::compare(&logs)?;
        ensure!(common as u64 > end, "{common} entries are in all logs, whose last was {end}");
        Ok(common)
    }

    /// The command `ledgermq admin group takeover` on this group.
    ///
    /// # Errors
    /// Where the binary is missing.
    pub fn guide(&self, back: bool) -> Result<Command> {
        let mut command = self.admin("takeover")?;
        if back {
            command.arg("--back");
        }
        command.arg("--json");
        Ok(command)
    }

    /// Hands the lead to a member by `ledgermq admin group transfer`.
    ///
    /// # Errors
    /// Where it does not go there.
    pub fn transfer(&self, to: &str) -> Result<()> {
        let mut command = self.admin("transfer")?;
        let output = command.args(["--to", to, "--timeout", "60s"]).output().context("transfer")?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "transfer to {to}: {}: {errors}", output.status);
        Ok(())
    }

    fn admin(&self, what: &str) -> Result<Command> {
        let node = self.nodes.values().next().context("a member")?;
        let conf = node.folder.join(format!("run-{}", node.starts)).join("broker.conf");
        let mut command = Command::new(libraries::ledgermq()?);
        command.args(["admin", "-n", &self.name_server(), "group", what, "-c"]).arg(conf);
        Ok(command)
    }

    /// Asks a member at its main port.
    ///
    /// # Errors
    /// Where it does not answer.
    pub fn ask(&self, id: &str, code: i32, fields: &Value) -> Result<question::Answer> {
        let node = self.nodes.get(id).with_context(|| format!("no member {id}"))?;
        question::ask(node.options.port, code, fields)
    }

    /// Where a member listens for clients.
    ///
    /// # Errors
    /// Where there is no such member.
    pub fn address(&self, id: &str) -> Result<String> {
        let node = self.nodes.get(id).with_context(|| format!("no member {id}"))?;
        Ok(format!("127.0.0.1:{}", node.options.port))
    }

    /// The store of a member.
    ///
    /// # Errors
    /// Where there is no such member.
    pub fn store(&self, id: &str) -> Result<&Path> {
        let node = self.nodes.get(id).with_context(|| format!("no member {id}"))?;
        Ok(&node.options.store)
    }

    /// Folder of a member's data files.
    ///
    /// # Errors
    /// Where there is no such member.
    pub fn data(&self, id: &str) -> Result<PathBuf> {
        Ok(self.store(id)?.join(format!("dledger-{id}")).join("data"))
    }
}
