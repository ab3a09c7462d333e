//! A network of its own for each broker, which can be cut.
//!
//! A test goes into a network namespace with a bridge, in which its clients are, and makes one
//! namespace for each broker and one for the name server, all in a mount namespace of their own:
//! when the processes have ended, nothing is left. A cut is made by neighbour entries: what is to be
//! lost goes to a hardware address that nobody has. Only `ip` and `unshare` are needed.

use std::{
    env,
    io::Write,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use crate::brokers::{Place, Places};

/// Variable that is set for a test that is in a network of its own.
const INSIDE: &str = "LEDGERMQ_OWN_NETWORK";

/// Brokers; the name server is the one behind them.
const BROKERS: usize = 3;

/// A hardware address that nobody has.
const NOBODY: &str = "02:00:00:00:ff:ff";

/// What is lost of what a broker sends and is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// All between it and the other brokers.
    Members,
    /// All.
    Everybody,
    /// What it sends to the other brokers.
    Sending,
    /// What the other brokers send to it.
    Receiving,
    /// All between it and this broker.
    Link(usize),
    /// All between it, with the name server beside it, and all others.
    WithNames,
}

/// Runs the test `name` of this program in a network of its own: it is started once more there.
/// Where that cannot be done, it says so and passes; where `CI` is `true` it fails.
///
/// # Errors
/// That of the test.
pub fn within(name: &str, test: impl FnOnce() -> Result<()>) -> Result<()> {
    let again = ["--exact", name, "--include-ignored", "--nocapture", "--test-threads=1"];
    inside(&again, test)
}

/// As [`within`], for a program that is started once more with the arguments `again`.
///
/// # Errors
/// What the work there ends with.
pub fn inside(again: &[&str], test: impl FnOnce() -> Result<()>) -> Result<()> {
    if env::var_os(INSIDE).is_some() {
        // A new network has not even a loopback.
        run(Command::new("ip").args(["link", "set", "lo", "up"]))?;
        return test();
    }
    if let Some(missing) = missing() {
        ensure!(env::var("CI").as_deref() != Ok("true"), "{missing}, and CI=true");
        skipped(missing);
        return Ok(());
    }
    let program = env::current_exe().context("the path of this test")?;
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--"]).arg(program);
    command.args(again);
    let status = command.env(INSIDE, "yes").status().context("starting unshare")?;
    ensure!(status.success(), "{again:?} in a network of its own ended with {status}");
    Ok(())
}

fn missing() -> Option<&'static str> {
    let answers = |program: &str, question: &str| {
        let mut command = Command::new(program);
        command.arg(question).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !rustix::process::geteuid().is_root() {
        Some("not root, which a network of its own needs")
    } else if !answers("ip", "-V") {
        Some("ip is missing (package iproute2)")
    } else if !answers("unshare", "-V") {
        Some("unshare is missing (package util-linux)")
    } else {
        None
    }
}

#[expect(clippy::print_stdout, reason = "who runs the test must see that it did nothing")]
fn skipped(missing: &str) {
    println!("skipped: {missing}");
}

/// Namespaces for brokers and name server around the bridge of this one.
#[derive(Debug)]
pub struct Network;

impl Network {
    /// Makes them; this process must be in a network of its own.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn make() -> Result<Self> {
        ensure!(env::var_os(INSIDE).is_some(), "this is the network of the machine");
        std::fs::create_dir_all("/run/netns").context("creating /run/netns")?;
        // The names are for these processes only.
        run(Command::new("mount").args(["-t", "tmpfs", "none", "/run/netns"]))?;
        let mut lines = vec![
            "link add hub type bridge".to_owned(),
            format!("link set hub address {}", hardware(HUB)),
            format!("address add {}/24 dev hub", ip(HUB)),
            "link set hub up".to_owned(),
        ];
        for number in 0..=BROKERS {
            let name = namespace(number);
            lines.extend([
                format!("netns add {name}"),
                format!("link add {name} type veth peer name eth netns {name}"),
                format!("link set {name} master hub up"),
            ]);
        }
        ip_batch(None, &lines)?;
        for number in 0..=BROKERS {
            let lines = [
                "link set lo up".to_owned(),
                format!("link set eth address {}", hardware(number)),
                format!("address add {}/24 dev eth", ip(number)),
                "link set eth up".to_owned(),
            ];
            ip_batch(Some(number), &lines)?;
        }
        Self.heal()?;
        Ok(Self)
    }

    /// Where brokers and name server are.
    #[must_use]
    pub fn places(&self) -> Places {
        let place = |number| Place { ip: ip(number), namespace: namespace(number) };
        Places {
            brokers: Some((0..BROKERS).map(place).collect()),
            name_server: Some(place(BROKERS)),
            disks: false,
        }
    }

    /// Cuts a broker off.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn cut(&self, broker: usize, cut: Cut) -> Result<()> {
        let others = |all: bool| {
            let last = if all { HUB } else { BROKERS - 1 };
            (0..=last).filter(move |other| *other != broker)
        };
        let pairs: Vec<(usize, usize)> = match cut {
            Cut::Members => both(broker, others(false)),
            Cut::Everybody => both(broker, others(true)),
            Cut::Sending => others(false).map(|other| (broker, other)).collect(),
            Cut::Receiving => others(false).map(|other| (other, broker)).collect(),
            Cut::Link(other) => both(broker, std::iter::once(other)),
            Cut::WithNames => {
                let rest = || others(true).filter(|other| *other != BROKERS);
                [both(broker, rest()), both(BROKERS, rest())].concat()
            }
        };
        for (from, to) in pairs {
            neighbour(from, to, NOBODY)?;
        }
        Ok(())
    }

    /// Makes everybody reach everybody.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn heal(&self) -> Result<()> {
        for from in 0..=HUB {
            for to in (0..=HUB).filter(|to| *to != from) {
                neighbour(from, to, &hardware(to))?;
            }
        }
        Ok(())
    }
}

fn both(broker: usize, others: impl Iterator<Item = usize>) -> Vec<(usize, usize)> {
    others.flat_map(|other| [(broker, other), (other, broker)]).collect()
}

/// What `from` sends to `to` goes to this hardware address.
fn neighbour(from: usize, to: usize, hardware: &str) -> Result<()> {
    let (inside, device) = if from == HUB { (None, "hub") } else { (Some(from), "eth") };
    let to = ip(to);
    let line = format!("neighbour replace {to} lladdr {hardware} dev {device} nud permanent");
    ip_batch(inside, &[line])
}

/// The number of the bridge.
const HUB: usize = BROKERS + 1;

fn namespace(number: usize) -> String {
    if number == BROKERS { "names".to_owned() } else { format!("n{number}") }
}

/// From the addresses that are for documents: they lead nowhere.
fn ip(number: usize) -> String {
    format!("203.0.113.{}", number + 1)
}

fn hardware(number: usize) -> String {
    format!("02:00:00:00:00:{:02x}", number + 1)
}

fn ip_batch(inside: Option<usize>, lines: &[String]) -> Result<()> {
    let mut command = Command::new("ip");
    if let Some(number) = inside {
        command.args(["-netns", &namespace(number)]);
    }
    command.args(["-batch", "-"]).stdin(Stdio::piped());
    let mut child = command.spawn().context("starting ip")?;
    let mut input = child.stdin.take().context("the input of ip")?;
    input.write_all(lines.join("\n").as_bytes()).context("telling ip")?;
    drop(input);
    let status = child.wait().context("waiting for ip")?;
    if !status.success() {
        bail!("ip ended with {status} after\n{}", lines.join("\n"));
    }
    Ok(())
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}
