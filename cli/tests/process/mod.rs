//! Processes of the binary under test.
#![allow(
    dead_code,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "these are parts of tests, of which each uses its own and which start processes; clippy knows only \
              functions marked as tests"
)]

pub(crate) mod memory_group;
pub(crate) mod raw;
pub(crate) mod world;

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const BINARY: &str = env!("CARGO_BIN_EXE_ledgermq");
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Runs a command to its end: whether it succeeded, its output, its errors.
pub(crate) fn ledgermq<A: AsRef<str>>(arguments: &[A], input: &str) -> (bool, String, String) {
    let mut child = Command::new(BINARY)
        .args(arguments.iter().map(AsRef::as_ref))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that does not read has closed its end already.
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    (
        output.status.success(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

/// Whether this machine lets the test mount.
pub(crate) fn can_mount() -> bool {
    let mount = "mount -t tmpfs -o size=1m none /mnt";
    let done =
        Command::new("unshare").args(["-m", "sh", "-c", mount]).stderr(Stdio::null()).status();
    let can = done.is_ok_and(|status| status.success());
    assert!(can || std::env::var("CI").as_deref() != Ok("true"), "no tmpfs in CI");
    if !can {
        println!("left out: no tmpfs can be mounted");
    }
    can
}

/// Keys of small files, so that there are several of each kind.
pub(crate) const SMALL: [&str; 5] = [
    // The disk that the tests run on may be nearly full.
    "cleanFileForciblyEnable=false",
    "mappedFileSizeCommitLog=65536",
    "mappedFileSizeConsumeQueue=2000",
    "maxHashSlotNum=64",
    "maxIndexNum=200",
];

/// The arguments that set them.
pub(crate) fn small_files() -> Vec<String> {
    SMALL.iter().flat_map(|set| ["--set".to_owned(), (*set).to_owned()]).collect()
}

/// Queue, offset and id of each message that a JSON output tells of.
pub(crate) fn places(out: &str) -> BTreeSet<(i64, i64, String)> {
    // The last line may be cut off where its process was killed.
    out.lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .map(|told| {
            let number = |name: &str| told[name].as_i64().unwrap();
            (number("queueId"), number("queueOffset"), told["msgId"].as_str().unwrap().to_owned())
        })
        .collect()
}

/// A server on free ports; it is killed when the test ends.
pub(crate) struct Server {
    child: Child,
    folder: PathBuf,
    /// `name=address` lines of its ready file.
    addresses: String,
}

impl Server {
    /// Starts a standalone with data in `folder/ledgermq-data` and waits until it is ready.
    pub(crate) fn standalone(folder: &Path) -> Self {
        Self::start(folder, &Self::standalone_arguments(folder))
    }

    /// A standalone as [`Server::standalone`], with small files.
    pub(crate) fn with_small_files(folder: &Path) -> Self {
        Self::start(folder, &[Self::standalone_arguments(folder), small_files()].concat())
    }

    /// The arguments of [`Server::standalone`].
    pub(crate) fn standalone_arguments(folder: &Path) -> Vec<String> {
        let data = folder.join("ledgermq-data").to_str().unwrap().to_owned();
        let any = "127.0.0.1:0".to_owned();
        let mut arguments = vec!["standalone".to_owned()];
        for (flag, value) in [
            ("--data", data),
            ("--broker-listen", any.clone()),
            ("--namesrv-listen", any.clone()),
            ("--http-listen", any),
        ] {
            arguments.extend([flag.to_owned(), value]);
        }
        // The disk that the tests run on may be nearly full.
        for set in ["diskSpaceWarningLevelRatio=99", "cleanFileForciblyEnable=false"] {
            arguments.extend(["--set".to_owned(), set.to_owned()]);
        }
        arguments
    }

    /// Starts a server that keeps its output in `folder`, and waits until it is ready.
    pub(crate) fn start<A: AsRef<str>>(folder: &Path, arguments: &[A]) -> Self {
        Self::start_by(&[], folder, arguments)
    }

    /// The same by a command that runs what follows it, such as `setpriv` with its flags.
    pub(crate) fn start_by<A: AsRef<str>>(by: &[&str], folder: &Path, arguments: &[A]) -> Self {
        let mut server = Self::spawn_by(by, folder, arguments);
        server.wait_ready();
        server
    }

    /// Starts a server that keeps its output in `folder`. It is ready after [`Server::wait_ready`].
    pub(crate) fn spawn<A: AsRef<str>>(folder: &Path, arguments: &[A]) -> Self {
        Self::spawn_by(&[], folder, arguments)
    }

    fn spawn_by<A: AsRef<str>>(by: &[&str], folder: &Path, arguments: &[A]) -> Self {
        let ready = folder.join("ready");
        drop(std::fs::remove_file(&ready));
        let file = |name| std::fs::File::create(folder.join(name)).unwrap();
        let words = [by, &[BINARY]].concat();
        let child = Command::new(words[0])
            .args(&words[1..])
            .args(arguments.iter().map(AsRef::as_ref))
            .arg("--ready-file")
            .arg(&ready)
            .stdin(Stdio::null())
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .unwrap();
        Self { child, folder: folder.to_owned(), addresses: String::new() }
    }

    /// Waits until it is ready.
    pub(crate) fn wait_ready(&mut self) {
        let begun = Instant::now();
        self.addresses = loop {
            if let Ok(text) = std::fs::read_to_string(self.folder.join("ready")) {
                break text;
            }
            let ended = self.child.try_wait().unwrap();
            if ended.is_some() || begun.elapsed() > LONG {
                drop(self.child.kill());
                panic!("not ready: {ended:?}\n{}", self.errors());
            }
            std::thread::sleep(Duration::from_millis(10));
        };
    }

    /// An address of its ready file.
    pub(crate) fn address(&self, name: &str) -> String {
        let mut lines = self.addresses.lines();
        let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        found.unwrap_or_else(|| panic!("{name} is missing in {}", self.addresses)).to_owned()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it printed so far.
    pub(crate) fn output(&self) -> String {
        std::fs::read_to_string(self.folder.join("out")).unwrap()
    }

    /// A client command against it.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.args(arguments).arg("--namesrv").arg(self.address("namesrv")).stdin(Stdio::null());
        command
    }

    /// What it logged so far.
    pub(crate) fn errors(&self) -> String {
        std::fs::read_to_string(self.folder.join("err")).unwrap()
    }

    /// Runs a client command against it, which must succeed.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        self.run_with_input(arguments, "")
    }

    /// Runs a client command again and again until its output is as wanted: an acknowledged
    /// message reaches its queue a moment later.
    pub(crate) fn run_until(&self, arguments: &[&str], wanted: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let output = self.run(arguments);
            if wanted(&output) {
                return output;
            }
            assert!(begun.elapsed() < LONG, "{arguments:?} still gives\n{output}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// As [`Server::run`], with standard input.
    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> String {
        let namesrv = self.address("namesrv");
        let all = [arguments, &["--namesrv", &namesrv]].concat();
        let (succeeded, output, errors) = ledgermq(&all, input);
        if !succeeded {
            panic!("{arguments:?} failed: {errors}\n{output}\nserver:\n{}", self.errors());
        }
        output
    }

    /// Body of a page.
    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.address("http")).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// Stops it by SIGTERM, which must end well.
    pub(crate) fn stop(&mut self) {
        self.signal("TERM");
        let begun = Instant::now();
        while begun.elapsed() < LONG {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert!(status.success(), "{status}\n{}", self.errors());
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("SIGTERM did not stop it");
    }

    /// Stands still for a while, as a machine without a network does.
    pub(crate) fn pause(&mut self, time: Duration) {
        self.signal("STOP");
        std::thread::sleep(time);
        self.signal("CONT");
    }

    /// Stands still until [`Server::go_on`].
    pub(crate) fn halt(&self) {
        self.signal("STOP");
    }

    /// Goes on.
    pub(crate) fn go_on(&self) {
        self.signal("CONT");
    }

    /// Ends it by SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
