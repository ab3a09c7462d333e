//! A server or program that a test started: its log, and its end.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// How long a server may take to stop.
const GRACE: Duration = Duration::from_secs(120);

/// Pause between two looks at something that is awaited.
const PAUSE: Duration = Duration::from_millis(25);

/// A running process. It is killed when this goes out of scope.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    child: Child,
}

impl Process {
    /// Starts `command` with its output appended to `out.log` in `folder`.
    ///
    /// # Errors
    /// Where the log or the process cannot be made.
    pub fn start(name: &str, command: &mut Command, folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        let log = folder.join("out.log");
        let out = File::options().create(true).append(true).open(&log);
        let out = out.with_context(|| format!("opening {}", log.display()))?;
        let copy = out.try_clone().context("a second handle of the log")?;
        command.stdin(Stdio::null()).stdout(out).stderr(copy).current_dir(folder);
        let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        Ok(Self { name: name.to_owned(), log, child })
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed so far.
    ///
    /// # Errors
    /// Where its log cannot be read.
    pub fn output(&self) -> Result<String> {
        let bytes = fs::read(&self.log).with_context(|| self.log.display().to_string())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Says whether it goes on.
    ///
    /// # Errors
    /// Where it has ended.
    pub fn lives(&mut self) -> Result<()> {
        match self.child.try_wait().context("looking at a process")? {
            Some(status) => bail!("{} ended with {status}", self.name),
            None => Ok(()),
        }
    }

    /// Waits until `ready` holds, as long as the process lives and `limit` is not over.
    ///
    /// # Errors
    /// When it ended or took too long.
    pub fn ready(&mut self, limit: Duration, mut ready: impl FnMut() -> bool) -> Result<()> {
        let start = Instant::now();
        while !ready() {
            if let Some(status) = self.child.try_wait().context("looking at a process")? {
                bail!("{} ended with {status} before it was ready", self.name);
            }
            if start.elapsed() > limit {
                bail!("{} was not ready within {} s", self.name, limit.as_secs());
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Waits for its end, at most `limit`; then kills it.
    ///
    /// # Errors
    /// When it had to be killed.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().context("waiting for a process")? {
                return Ok(status);
            }
            if start.elapsed() > limit {
                self.kill()?;
                bail!("{} did not end within {} s and was killed", self.name, limit.as_secs());
            }
            thread::sleep(PAUSE);
        }
    }

    /// Ends it with SIGTERM.
    ///
    /// # Errors
    /// When it did not stop in time and had to be killed.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        if let Some(status) = self.child.try_wait().context("looking at a process")? {
            bail!("{} had already ended with {status}", self.name);
        }
        self.signal(Signal::TERM)?;
        self.wait(GRACE)
    }

    /// Halts it with SIGSTOP: it does nothing more, and its connections stay open.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn halt(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on with SIGCONT.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn go_on(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.context("the process id is out of range")?;
        kill_process(pid, signal).with_context(|| format!("signal {signal:?} to {}", self.name))
    }

    /// Ends it with SIGKILL.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill().with_context(|| format!("killing {}", self.name))?;
        self.child.wait().with_context(|| format!("waiting for {}", self.name))?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None))
            && let Err(error) = self.kill()
        {
            println!("{} (process {}) was left behind: {error:#}", self.name, self.id());
        }
    }
}

/// Waits until `holds` is true.
///
/// # Errors
/// After `limit`, with `what` was awaited.
pub fn wait_until(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) -> Result<()> {
    let start = Instant::now();
    while !holds() {
        if start.elapsed() > limit {
            bail!("{what}: not within {} s", limit.as_secs());
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}
