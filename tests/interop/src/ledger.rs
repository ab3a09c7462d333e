//! A ledger of what a broker acknowledged, written and checked by the official Java client.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use crate::{libraries, process::Process, suite};

/// Version of the client that writes and checks ledgers.
const CLIENT: &str = "5.5.0";

/// How long one run of the program may take.
const LIMIT: Duration = Duration::from_secs(180);

/// How a sample of a ledger is looked up beside its queue offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookUp {
    /// By key in the key index, where each must be found once, and by message id.
    KeysAndIds,
    /// By message id alone: after kill -9 the Java broker loses and doubles entries of its key
    /// index.
    Ids,
    /// By key, and by the message id that the stored message has now: a copy has other ids.
    MovedIds,
}

/// The ledger of one topic.
#[derive(Debug)]
pub struct Ledger {
    class_path: String,
    folder: PathBuf,
    topic: String,
}

impl Ledger {
    /// A ledger that begins empty; it is kept in `folder`.
    ///
    /// # Errors
    /// Where the client cannot be fetched or the program not compiled.
    pub fn new(folder: &Path, topic: &str) -> Result<Self> {
        let class_path = libraries::class_path("rocketmq-client", CLIENT)?;
        let class_path = libraries::compile("ledger", &["Ledger.java"], &class_path)?;
        let folder = folder.join("ledger");
        fs::create_dir_all(&folder).context("creating the ledger's folder")?;
        Ok(Self { class_path, folder, topic: topic.to_owned() })
    }

    /// Sends until `count` more messages are acknowledged.
    ///
    /// # Errors
    /// Where sends fail.
    pub fn produce(&self, name_server: &str, count: u32) -> Result<()> {
        let mut process = self.start_producing(name_server, count)?;
        let status = process.wait(LIMIT)?;
        ensure!(status.success(), "producer: {status}\n{}", process.output()?);
        Ok(())
    }

    /// Starts to send; the process ends when `count` are acknowledged, or the broker is gone.
    ///
    /// # Errors
    /// Where the process cannot be started.
    pub fn start_producing(&self, name_server: &str, count: u32) -> Result<Process> {
        self.start_pacing(name_server, count, Duration::ZERO)
    }

    /// As [`Ledger::start_producing`], by eight threads that pause after each message. Its output has a
    /// line `failed MILLIS` for each send that failed, with the time since 1970.
    ///
    /// # Errors
    /// Where the process cannot be started.
    pub fn start_pacing(&self, name_server: &str, count: u32, pause: Duration) -> Result<Process> {
        self.start(name_server, count, pause, Duration::ZERO)
    }

    /// As [`Ledger::start_pacing`], without an end, each message by a timer of so many seconds.
    ///
    /// # Errors
    /// Where the process cannot be started.
    pub fn start_timers(
        &self,
        name_server: &str,
        pause: Duration,
        delay: Duration,
    ) -> Result<Process> {
        self.start(name_server, u32::MAX >> 1, pause, delay)
    }

    fn start(
        &self,
        name_server: &str,
        count: u32,
        pause: Duration,
        delay: Duration,
    ) -> Result<Process> {
        let mut command = self.command(name_server);
        command.args(["produce", &self.topic]).arg(self.path());
        command.args([&count.to_string(), "8", &pause.as_millis().to_string()]);
        command.arg(delay.as_secs().to_string());
        Process::start("producer", &mut command, &self.folder)
    }

    /// Waits until every timer of the ledger has come, none before its time; gives how many came, and
    /// of each that came more than once when it did first and last, in milliseconds since 1970.
    ///
    /// # Errors
    /// With those that never came, or came too early.
    pub fn verify_timers(
        &self,
        name_server: &str,
        delay: Duration,
    ) -> Result<(usize, Vec<(u128, u128)>)> {
        let mut command = self.command(name_server);
        command.args(["timers", &self.topic]).arg(self.path()).arg(delay.as_secs().to_string());
        let told = self.run("timer verifier", &mut command)?;
        Ok((self.len()?, told.iter().rev().filter_map(|line| times(line)).collect()))
    }

    /// Number of messages that were acknowledged so far.
    ///
    /// # Errors
    /// Where the ledger cannot be read.
    pub fn len(&self) -> Result<usize> {
        if !self.path().exists() {
            return Ok(0);
        }
        Ok(fs::read_to_string(self.path()).context("reading the ledger")?.lines().count())
    }

    /// Whether nothing was acknowledged so far.
    ///
    /// # Errors
    /// Where the ledger cannot be read.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads back all queues: every message of the ledger must be there, byte-equal, at its queue
    /// offset, without a hole between offsets; a sample must be found as `look_up` says.
    ///
    /// # Errors
    /// With what is missing.
    pub fn verify(&self, name_server: &str, look_up: LookUp) -> Result<()> {
        let mut command = self.command(name_server);
        command.args(["verify", &self.topic]).arg(self.path());
        command.arg(match look_up {
            LookUp::KeysAndIds => "keys",
            LookUp::Ids => "ids",
            LookUp::MovedIds => "moved",
        });
        self.run("verifier", &mut command).map(drop)
    }

    /// Consumes by a push consumer of `group`; exactly `count` messages must come.
    ///
    /// # Errors
    /// Where fewer or more come.
    pub fn consume(&self, name_server: &str, group: &str, count: usize) -> Result<()> {
        let mut command = self.command(name_server);
        command.args(["consume", &self.topic, group, &count.to_string()]);
        self.run("consumer", &mut command).map(drop)
    }

    /// Runs the program to its end; gives the lines that it printed, last one first.
    fn run(&self, name: &str, command: &mut Command) -> Result<Vec<String>> {
        let mut process = Process::start(name, command, &self.folder.join(name))?;
        let status = process.wait(LIMIT)?;
        let output = process.output()?;
        let lines: Vec<String> = output.lines().rev().map(str::to_owned).collect();
        let last = lines.get(..20).unwrap_or(&lines);
        ensure!(status.success(), "{name}: {status}, last lines first:\n{}", last.join("\n"));
        crate::show(&format!("{name}: {}", lines.first().map_or("", String::as_str)));
        Ok(lines)
    }

    fn command(&self, name_server: &str) -> Command {
        let mut command = suite::java(&self.class_path, "Ledger");
        command.env("NAMESRV_ADDR", name_server);
        command
    }

    fn path(&self) -> PathBuf {
        self.folder.join("ledger.txt")
    }
}

/// First and last time of a line `came MILLIS came MILLIS ...`.
fn times(line: &str) -> Option<(u128, u128)> {
    let mut all = line.strip_prefix("came ")?.split(" came ").map(str::trim);
    let first = all.next()?.parse().ok()?;
    Some((first, all.last()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_that_came_again_tells_when() {
        assert_eq!(times("came 5 came 7 came 9 "), Some((5, 9)));
        assert_eq!(times("came 5 "), None);
        assert_eq!(times("timers 3, faults 0, came again 1"), None);
    }
}
