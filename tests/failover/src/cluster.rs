//! Key-value servers on loopback, each a process of its own.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use interop::{
    folder,
    node::free_port,
    process::{Process, wait_until},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::client::{Request, once};

/// How long a group may take until a member serves, with all else that the machine does.
const SERVES: Duration = Duration::from_secs(60);

/// How long a member may take to say how it is.
const STATUS: Duration = Duration::from_millis(500);

/// The program: what `LEDGERMQ_KV` names, else the example `kv`, built if need be.
///
/// # Errors
/// Where cargo cannot build it.
pub fn program() -> Result<PathBuf> {
    if let Some(program) = std::env::var_os("LEDGERMQ_KV") {
        return Ok(program.into());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // With all members, as `cargo test --workspace` has it: then nothing is built a second time.
    let arguments = ["build", "--quiet", "--workspace", "--example", "kv"];
    let built = Command::new(cargo).args(arguments).current_dir(folder::sources()).status();
    let built = built.context("starting cargo")?;
    ensure!(built.success(), "cargo build --example kv ended with {built}");
    let program = folder::target()?.join("debug/examples/kv");
    ensure!(program.is_file(), "there is no {}", program.display());
    Ok(program)
}

/// What a member says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// It leads, and may answer.
    pub serves: bool,
    /// It holds all that was committed when it joined: until then its vote may not count.
    pub whole: bool,
    /// Position behind the last entry that it has applied.
    pub applied: u64,
    /// Number of keys.
    pub keys: u64,
}

/// One request of a client, sent once.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// GET, PUT, POST or DELETE.
    pub method: &'a str,
    /// Which key.
    pub key: &'a str,
    /// Its request id.
    pub id: &'a str,
    /// Its body.
    pub body: &'a str,
}

/// What a member answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// HTTP status.
    pub status: u16,
    /// Where the leader is, if that is another.
    pub location: Option<String>,
    /// The rest.
    pub body: String,
}

/// A group.
#[derive(Debug)]
pub struct Cluster {
    program: PathBuf,
    folder: PathBuf,
    peers: String,
    http: String,
    /// Where each member listens for clients.
    addresses: Vec<String>,
    members: Vec<Option<Process>>,
}

impl Cluster {
    /// Starts `size` members with their files in `folder`.
    ///
    /// # Errors
    /// Where one cannot be started.
    pub fn start(size: usize, folder: &Path) -> Result<Self> {
        let addresses = |size: usize| -> Result<Vec<String>> {
            (0..size).map(|_| Ok(format!("127.0.0.1:{}", free_port()?))).collect()
        };
        let (peers, addresses) = (addresses(size)?, addresses(size)?);
        let list = |all: &[String]| {
            let members = all.iter().enumerate().map(|(id, address)| format!("n{id}-{address}"));
            members.collect::<Vec<_>>().join(";")
        };
        let mut cluster = Self {
            program: program()?,
            folder: folder.to_path_buf(),
            peers: list(&peers),
            http: list(&addresses),
            addresses,
            members: (0..size).map(|_| None).collect(),
        };
        for member in 0..size {
            cluster.restart(member)?;
        }
        Ok(cluster)
    }

    /// Where clients find the members.
    #[must_use]
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Number of members.
    #[must_use]
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Starts a member that does not run.
    ///
    /// # Errors
    /// Where it runs or cannot be started.
    pub fn restart(&mut self, member: usize) -> Result<()> {
        ensure!(self.members[member].is_none(), "member {member} runs");
        let name = format!("n{member}");
        let folder = self.folder.join(&name);
        let mut command = Command::new(&self.program);
        command.args(["server", "--id", &name, "--peers", &self.peers, "--http", &self.http]);
        command.arg("--data").arg(&folder);
        self.members[member] = Some(Process::start(&name, &mut command, &folder)?);
        Ok(())
    }

    /// Starts all that do not run.
    ///
    /// # Errors
    /// Where one cannot be started.
    pub fn restart_all(&mut self) -> Result<()> {
        for member in 0..self.size() {
            if self.members[member].is_none() {
                self.restart(member)?;
            }
        }
        Ok(())
    }

    /// Ends a member by SIGKILL.
    ///
    /// # Errors
    /// Where it does not run, or had ended by itself.
    pub fn kill(&mut self, member: usize) -> Result<()> {
        self.signal(member, Signal::KILL)?;
        let Some(mut process) = self.members[member].take() else { bail!("it is gone") };
        process.wait(SERVES)?;
        Ok(())
    }

    /// Sends a signal to a member: STOP pauses it, CONT lets it go on.
    ///
    /// # Errors
    /// Where it does not run, or has ended by itself.
    pub fn signal(&mut self, member: usize, signal: Signal) -> Result<()> {
        let Some(process) = &mut self.members[member] else {
            bail!("member {member} does not run")
        };
        process.ready(Duration::ZERO, || true)?;
        let pid = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
        let pid = pid.context("the process id is out of range")?;
        kill_process(pid, signal).with_context(|| format!("signal to member {member}"))
    }

    /// What a member says of itself; `None` where it does not answer.
    #[must_use]
    pub fn report(&self, member: usize) -> Option<Report> {
        let request = Request { method: "GET", path: "/status", id: "status", body: "" };
        let answer = once(&self.addresses[member], request, STATUS).ok()?;
        let status: Value = serde_json::from_str(&answer.body).ok()?;
        Some(Report {
            serves: status["serves"].as_bool()?,
            whole: status["whole"].as_bool()?,
            applied: status["applied"].as_u64()?,
            keys: status["keys"].as_u64()?,
        })
    }

    /// Asks one member once.
    ///
    /// # Errors
    /// Where it does not answer.
    pub fn ask(&self, member: usize, ask: Ask<'_>) -> Result<Told> {
        let Ask { method, key, id, body } = ask;
        let path = format!("/kv/{key}");
        let request = Request { method, path: &path, id, body };
        let answer = once(&self.addresses[member], request, SERVES).map_err(std::io::Error::from);
        let answer = answer.with_context(|| format!("{method} {path} at member {member}"))?;
        Ok(Told { status: answer.status, location: answer.location, body: answer.body })
    }

    /// Removes all files of a member that does not run.
    ///
    /// # Errors
    /// Where it runs, or the system refuses.
    pub fn wipe(&mut self, member: usize) -> Result<()> {
        ensure!(self.members[member].is_none(), "member {member} runs");
        let log = self.folder.join(format!("n{member}/dledger-n{member}"));
        std::fs::remove_dir_all(&log).with_context(|| format!("removing {}", log.display()))
    }

    /// The value of a key as this member alone has it.
    #[must_use]
    pub fn local(&self, member: usize, key: &str) -> Option<String> {
        let path = format!("/local/{key}");
        let request = Request { method: "GET", path: &path, id: "local", body: "" };
        let answer = once(&self.addresses[member], request, STATUS).ok()?;
        (answer.status == 200).then_some(answer.body)
    }

    /// A member that serves, other than `not`.
    ///
    /// # Errors
    /// Where there is none in time.
    pub fn leader(&self, not: Option<usize>) -> Result<usize> {
        let start = Instant::now();
        loop {
            let serves = |member: &usize| self.report(*member).is_some_and(|report| report.serves);
            let others = (0..self.size()).filter(|member| Some(*member) != not);
            if let Some(leader) = others.into_iter().find(serves) {
                return Ok(leader);
            }
            ensure!(start.elapsed() < SERVES, "no member serves within {} s", SERVES.as_secs());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until all members hold all that was committed when they joined. A group of three with
    /// one that does not can spare no other.
    ///
    /// # Errors
    /// Where they do not in time.
    pub fn whole(&self) -> Result<()> {
        let whole = |member| self.report(member).is_some_and(|report| report.whole);
        wait_until("all members are filled", SERVES, || (0..self.size()).all(whole))
    }

    /// Waits until all members have applied the same.
    ///
    /// # Errors
    /// Where they do not in time.
    pub fn converged(&self) -> Result<Report> {
        let mut common = None;
        wait_until("all members have applied the same", SERVES, || {
            let reports: Option<Vec<Report>> = (0..self.size()).map(|at| self.report(at)).collect();
            let Some(reports) = reports else { return false };
            let same = reports.iter().all(|report| {
                (report.applied, report.keys) == (reports[0].applied, reports[0].keys)
            });
            common = same.then(|| reports[0].clone());
            same
        })?;
        common.context("all members have applied the same, but it is not known what")
    }
}
