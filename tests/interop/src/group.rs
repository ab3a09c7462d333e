//! A DLedger group of processes on this machine: members of ours, and Java brokers.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use crate::{
    APACHE,
    appender::Members,
    libraries,
    node::{BrokerOptions, NameServer, free_port, java_broker},
    process::{Process, wait_until},
};

/// How long a group may take to have a leader that serves.
pub const ELECTED: Duration = Duration::from_secs(150);

/// What a member runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// `ledgermq dledger server`.
    Server,
    /// The same with `--flush async`.
    AsyncServer,
    /// A server of Java's DLedger library alone.
    JavaServer,
    /// `record-node` at this path: as the server, but its opening entries are message records.
    RecordNode(&'static str),
    /// A Java broker of this version.
    Java(&'static str),
}

/// One member and its process.
#[derive(Debug)]
pub struct Member {
    runs: Runs,
    folder: PathBuf,
    starts: u32,
    process: Option<Process>,
    /// The members as this one is told, where that is not what clients see.
    peers: Option<String>,
    /// What stands in front of its command.
    wrapper: Vec<String>,
}

/// A group.
#[derive(Debug)]
pub struct Group {
    /// Its members as clients see them.
    pub members: Members,
    nodes: BTreeMap<String, Member>,
    /// Bytes of a data file.
    file_size: u32,
    name_server: Option<NameServer>,
}

impl Group {
    /// A group whose members n0, n1, ... run what `runs` says; none is started yet. Java members
    /// register at `name_server`.
    ///
    /// # Errors
    /// Where no free ports are found.
    pub fn new(
        folder: &Path,
        runs: &[Runs],
        file_size: u32,
        name_server: Option<NameServer>,
    ) -> Result<Self> {
        let mut ports = BTreeMap::new();
        let mut nodes = BTreeMap::new();
        for (number, runs) in runs.iter().enumerate() {
            let id = format!("n{number}");
            ports.insert(id.clone(), free_port()?);
            let folder = folder.join(&id);
            nodes.insert(
                id,
                Member {
                    runs: *runs,
                    folder,
                    starts: 0,
                    process: None,
                    peers: None,
                    wrapper: Vec::new(),
                },
            );
        }
        // The name of Java's brokers and that of their group are one here.
        let members = Members { group: "broker-a".to_owned(), ports, hosts: BTreeMap::new() };
        Ok(Self { members, nodes, file_size, name_server })
    }

    /// Ids of all members.
    #[must_use]
    pub fn ids(&self) -> Vec<String> {
        self.nodes.keys().cloned().collect()
    }

    /// Address of the name server.
    ///
    /// # Errors
    /// Where there is none.
    pub fn name_server(&self) -> Result<String> {
        Ok(self.name_server.as_ref().context("a group without a name server")?.address())
    }

    /// From its next start on a member is told other addresses, and its command stands behind
    /// `wrapper`.
    ///
    /// # Errors
    /// Where there is no such member.
    pub fn tell(&mut self, id: &str, peers: String, wrapper: &[String]) -> Result<()> {
        let member = self.nodes.get_mut(id).with_context(|| format!("no member {id}"))?;
        (member.peers, member.wrapper) = (Some(peers), wrapper.to_vec());
        Ok(())
    }

    /// Starts a member that does not run.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start(&mut self, id: &str) -> Result<()> {
        let (peers, bind) = (self.members.text(), self.members.host(id).to_string());
        let group = self.members.group.clone();
        let file_size = self.file_size;
        let name_server = self.name_server.as_ref().map(NameServer::address);
        let member = self.nodes.get_mut(id).with_context(|| format!("no member {id}"))?;
        ensure!(member.process.is_none(), "{id} runs already");
        member.starts += 1;
        let peers = member.peers.clone().unwrap_or(peers);
        let home = member.folder.join(format!("run-{}", member.starts));
        let own = |program: PathBuf, arguments: &[&str]| {
            let mut command = match member.wrapper.split_first() {
                Some((first, rest)) => {
                    let mut command = Command::new(first);
                    command.args(rest).arg(program);
                    command
                }
                None => Command::new(program),
            };
            command.args(arguments).args(["--id", id, "--group", &group, "--peers", &peers]);
            command.arg("--dir").arg(member.folder.join(format!("dledger-{id}")));
            command.args(["--bind", &bind, "--file-size", &file_size.to_string()]);
            command
        };
        let mut command = match member.runs {
            Runs::Server => own(libraries::ledgermq()?, &["dledger", "server"]),
            Runs::AsyncServer => {
                own(libraries::ledgermq()?, &["dledger", "server", "--flush", "async"])
            }
            Runs::JavaServer => {
                let mut command = libraries::dledger_server(APACHE)?;
                command.args([id, &group, &peers]).arg(&member.folder);
                command.arg(file_size.to_string());
                command
            }
            Runs::RecordNode(program) => own(program.into(), &[]),
            Runs::Java(version) => {
                let mut options = BrokerOptions::shared(&member.folder, file_size)?;
                let own_keys = [
                    ("dLegerSelfId", id.to_owned()),
                    ("dLegerPeers", peers),
                    ("dLegerGroup", group),
                ];
                options.keys.extend(own_keys);
                let name_server = name_server.context("a Java member needs a name server")?;
                java_broker(version, &home, &options, &name_server)?
            }
        };
        member.process = Some(Process::start(id, &mut command, &home)?);
        Ok(())
    }

    /// Starts all members.
    ///
    /// # Errors
    /// Where one cannot be started.
    pub fn start_all(&mut self) -> Result<()> {
        self.ids().iter().try_for_each(|id| self.start(id))
    }

    /// The process of a member that runs.
    ///
    /// # Errors
    /// Where it does not run.
    pub fn process(&mut self, id: &str) -> Result<&mut Process> {
        let process = self.nodes.get_mut(id).and_then(|member| member.process.as_mut());
        process.with_context(|| format!("{id} does not run"))
    }

    /// Ends a member with SIGKILL.
    ///
    /// # Errors
    /// Where it does not run.
    pub fn kill(&mut self, id: &str) -> Result<()> {
        self.process(id)?.kill()?;
        self.forget(id);
        Ok(())
    }

    /// Ends a member with SIGTERM.
    ///
    /// # Errors
    /// Where it does not stop in time.
    pub fn stop(&mut self, id: &str) -> Result<()> {
        self.process(id)?.stop()?;
        self.forget(id);
        Ok(())
    }

    /// Ends all that run.
    ///
    /// # Errors
    /// Where one does not stop in time.
    pub fn stop_all(&mut self) -> Result<()> {
        for id in self.ids() {
            if self.process(&id).is_ok() {
                self.stop(&id)?;
            }
        }
        Ok(())
    }

    /// Kills all that run: a Java broker takes long to stop in order.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn kill_all(&mut self) -> Result<()> {
        for id in self.ids() {
            if self.process(&id).is_ok() {
                self.kill(&id)?;
            }
        }
        Ok(())
    }

    /// Waits until a member leads by its own account, and returns it.
    ///
    /// # Errors
    /// Where there is none in time.
    pub fn leader(&self) -> Result<String> {
        let mut leader = String::new();
        wait_until("a leader", ELECTED, || match self.members.leader() {
            Ok(found) => {
                leader = found;
                true
            }
            Err(_) => false,
        })?;
        Ok(leader)
    }

    /// Waits until this member leads.
    ///
    /// # Errors
    /// Where it does not in time.
    pub fn wait_leader(&self, id: &str) -> Result<()> {
        wait_until(&format!("{id} leads"), ELECTED, || {
            self.members.leader_by(id).is_ok_and(|leader| leader == id)
        })
    }

    /// Waits until a member of ours has everything up to this index.
    ///
    /// # Errors
    /// Where it does not in time.
    pub fn wait_end(&self, id: &str, index: u64) -> Result<()> {
        wait_until(&format!("{id} has entry {index}"), ELECTED, || {
            self.members.status(id).is_ok_and(|status| status["end"].as_u64() >= Some(index))
        })
    }

    /// Waits until all members of ours are in no doubt of what they hold: one that is new, or was
    /// wiped, cannot stand in for another before that.
    ///
    /// # Errors
    /// Where one is not in time.
    pub fn wait_whole(&self) -> Result<()> {
        for id in self.ids() {
            wait_until(&format!("{id} is whole"), ELECTED, || {
                self.members.status(&id).is_ok_and(|status| status["doubt"].is_null())
            })?;
        }
        Ok(())
    }

    /// Folder of a member's data files.
    ///
    /// # Errors
    /// Where there is no such member.
    pub fn data(&self, id: &str) -> Result<PathBuf> {
        let member = self.nodes.get(id).with_context(|| format!("no member {id}"))?;
        Ok(member.folder.join(format!("dledger-{id}")).join("data"))
    }

    fn forget(&mut self, id: &str) {
        if let Some(member) = self.nodes.get_mut(id) {
            member.process = None;
        }
    }
}
