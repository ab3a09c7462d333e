//! A whole broker with its name server, spoken to by the commands of its binary.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use crate::traced::traced;

/// How long a start, a stop or an awaited state may take.
pub const LONG: Duration = Duration::from_secs(90);

/// A running `ledgermq standalone`. It is killed when this is dropped.
#[derive(Debug)]
pub struct Node {
    child: Child,
    program: PathBuf,
    errors: PathBuf,
    addresses: String,
}

impl Node {
    /// Starts it with its data in `data` and its other files in `folder`, and waits until it is
    /// ready. `sets` are keys of its configuration.
    ///
    /// # Errors
    /// Where it ends before, with what it said.
    pub fn start(data: &Path, folder: &Path, sets: &[&str]) -> Result<Self> {
        Self::start_traced("", data, folder, sets)
    }

    /// As [`Node::start`], with system calls that fail or kill; see [`traced`].
    ///
    /// # Errors
    /// Where it ends before it is ready, with what it said.
    pub fn start_traced(
        injection: &str,
        data: &Path,
        folder: &Path,
        sets: &[&str],
    ) -> Result<Self> {
        let program = interop::libraries::ledgermq()?;
        let ready = folder.join("ready");
        drop(fs::remove_file(&ready));
        let errors = folder.join("err");
        let mut command = traced(injection, &program);
        command.arg("standalone").arg("--data").arg(data).arg("--ready-file").arg(&ready);
        for flag in ["--broker-listen", "--namesrv-listen", "--http-listen"] {
            command.args([flag, "127.0.0.1:0"]);
        }
        command.args(sets.iter().flat_map(|set| ["--set", set]));
        command
            .stdin(Stdio::null())
            .stdout(File::create(folder.join("out")).context("its output")?);
        command.stderr(File::options().create(true).append(true).open(&errors).context("its log")?);
        let mut child = command.spawn().context("starting the broker")?;
        let begun = Instant::now();
        loop {
            if let Ok(addresses) = fs::read_to_string(&ready)
                && addresses.contains("namesrv=")
            {
                return Ok(Self { child, program, errors, addresses });
            }
            let ended = child.try_wait().context("looking at the broker")?;
            if ended.is_some() || begun.elapsed() > LONG {
                drop(child.kill());
                drop(child.wait());
                let said = fs::read_to_string(&errors).unwrap_or_default();
                bail!("the broker was not ready ({ended:?}): {}", tail(&said));
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn address(&self, name: &str) -> Result<&str> {
        let mut lines = self.addresses.lines();
        let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        found.with_context(|| format!("{name} in {}", self.addresses))
    }

    /// A client command against it.
    ///
    /// # Errors
    /// Where its addresses are not known.
    pub fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(&self.program);
        command.args(arguments).args(["--namesrv", self.address("namesrv")?]).stdin(Stdio::null());
        Ok(command)
    }

    /// Runs a client command: whether it succeeded, its output, its errors.
    ///
    /// # Errors
    /// Where it cannot be run.
    pub fn run(&self, arguments: &[&str]) -> Result<(bool, String, String)> {
        let output = self.command(arguments)?.output().context("a client command")?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((output.status.success(), text(&output.stdout), text(&output.stderr)))
    }

    /// Sends `count` messages; the places of those that were acknowledged, and the errors.
    ///
    /// # Errors
    /// Where the command cannot be run.
    pub fn send(&self, topic: &str, body: &str, count: u32) -> Result<(BTreeSet<String>, String)> {
        let (_, out, errors) =
            self.run(&["send", topic, body, "--count", &count.to_string(), "--json"])?;
        Ok((places(&out), errors))
    }

    /// Reads a topic until all of `wanted` was seen.
    ///
    /// # Errors
    /// What was not found in time.
    pub fn must_read(&self, topic: &str, wanted: &BTreeSet<String>) -> Result<()> {
        if wanted.is_empty() {
            return Ok(());
        }
        let begun = Instant::now();
        loop {
            let (fine, out, errors) = self.run(&["consume", topic, "--json"])?;
            let seen = places(&out);
            if fine && wanted.is_subset(&seen) {
                return Ok(());
            }
            if begun.elapsed() > LONG {
                let lost: Vec<_> = wanted.difference(&seen).take(5).collect();
                bail!("{} of {} messages read; not {lost:?}; {errors}", seen.len(), wanted.len());
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// The value of a figure on its page.
    ///
    /// # Errors
    /// Where there is none.
    pub fn figure(&self, name: &str) -> Result<f64> {
        let mut stream = TcpStream::connect(self.address("http")?).context("the page")?;
        let request = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).context("asking the page")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).context("reading the page")?;
        let line = answer.lines().find(|line| line.starts_with(&format!("rocketmq_{name}{{")));
        let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
        value.with_context(|| format!("{name} is not in\n{answer}"))
    }

    /// Waits until a figure has a value.
    ///
    /// # Errors
    /// What it is at last.
    pub fn await_figure(&self, name: &str, wanted: f64) -> Result<()> {
        self.await_that(name, &format!("not {wanted}"), |now| (now - wanted).abs() < 0.001)
    }

    /// Waits until a figure is below a value.
    ///
    /// # Errors
    /// What it is at last.
    pub fn await_below(&self, name: &str, bound: f64) -> Result<()> {
        self.await_that(name, &format!("not below {bound}"), |now| now < bound)
    }

    /// Waits until a figure is above a value.
    ///
    /// # Errors
    /// What it is at last.
    pub fn await_above(&self, name: &str, bound: f64) -> Result<()> {
        self.await_that(name, &format!("not above {bound}"), |now| now > bound)
    }

    fn await_that(&self, name: &str, otherwise: &str, holds: impl Fn(f64) -> bool) -> Result<()> {
        let begun = Instant::now();
        loop {
            let now = self.figure(name)?;
            if holds(now) {
                return Ok(());
            }
            ensure!(begun.elapsed() < LONG, "{name} is {now}, {otherwise}\n{}", self.log_tail());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// All that it logged.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(&self.errors).unwrap_or_default()
    }

    fn log_tail(&self) -> String {
        tail(&self.log())
    }

    /// Whether it runs.
    ///
    /// # Errors
    /// Where the system does not tell.
    pub fn lives(&mut self) -> Result<bool> {
        Ok(self.child.try_wait().context("looking at the broker")?.is_none())
    }

    /// Waits for its end by itself: whether it ended well.
    ///
    /// # Errors
    /// Where it goes on.
    pub fn ended(&mut self) -> Result<bool> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().context("looking at the broker")? {
                return Ok(status.success());
            }
            ensure!(begun.elapsed() < LONG, "the broker goes on\n{}", self.log_tail());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it by SIGTERM: whether it ended well.
    ///
    /// # Errors
    /// Where it does not.
    pub fn stop(mut self) -> Result<bool> {
        let pid = self.child.id().to_string();
        let told = Command::new("kill").args(["-s", "TERM", &pid]).status().context("kill")?;
        ensure!(told.success(), "SIGTERM could not be sent");
        self.ended()
    }

    /// Ends it by SIGKILL.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill().context("killing the broker")?;
        self.child.wait().context("waiting for the broker")?;
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Queue, offset and id of each message that a JSON output tells of; the last line may be cut off.
#[must_use]
pub fn places(out: &str) -> BTreeSet<String> {
    out.lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|told| told["queueOffset"].is_i64())
        .map(|told| format!("{} {} {}", told["queueId"], told["queueOffset"], told["msgId"]))
        .collect()
}

fn tail(text: &str) -> String {
    let lines: Vec<_> = text.lines().rev().take(12).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}
