//! A client that has every kind of message under way while the master is killed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result, ensure};
use interop::{
    APACHE, libraries,
    process::{Process, wait_until},
    proxy::{self, Proxy},
    question, suite,
};
use serde_json::json;

use super::{Findings, Kind, Ledger, Outcome, check, missing};
use crate::{
    brokers::{Brokers, Places, Product, SERVES},
    queues::Span,
    tail::Tail,
    traffic::DEFINITE,
};

/// A run.
#[derive(Debug)]
pub struct Outcomes {
    /// What the client did and met.
    pub ledger: Ledger,
    /// The rules that do not hold.
    pub findings: Findings,
}

/// Kills the master so many times, and checks what the clients saw. The first is started again at
/// once, the next when another leads, and so on by turns.
///
/// # Errors
/// Why the group or the clients did not go on. What was lost is in the findings.
pub fn remoting(kills: usize, folder: &Path) -> Result<Outcomes> {
    let class_path = libraries::class_path("rocketmq-client", APACHE)?;
    let class_path = libraries::compile("kinds", &PROGRAM, &class_path)?;
    let brokers = Brokers::start(Product::Ours, &Places::default(), false, folder)?;
    brokers.wait_master(None)?;
    ask_early(&brokers)?;
    let codes: Vec<String> = DEFINITE.iter().map(ToString::to_string).collect();
    let mut command = suite::java(&class_path, "Kinds");
    command.arg(codes.join(",")).env("NAMESRV_ADDR", brokers.namesrv());
    let clients = Clients::start(command, &KINDS, &folder.join("clients"))?;
    under_kills(brokers, clients, kills)
}

/// The same with a producer and simple consumers by gRPC, through Apache's proxy in cluster mode.
///
/// # Errors
/// See [`remoting`].
pub fn grpc(kills: usize, folder: &Path) -> Result<Outcomes> {
    let class_path = libraries::class_path("rocketmq-client-java", suite::GRPC_JAVA)?;
    let class_path = libraries::compile("grpc-kinds", &GRPC_PROGRAM, &class_path)?;
    let brokers = Brokers::start(Product::Ours, &Places::default(), false, folder)?;
    let master = brokers.wait_master(None)?;
    proxy::prepare(port(&brokers.address(master))?, PREFIX)?;
    let proxy = Proxy::start(&folder.join("proxy"), &brokers.namesrv())?;
    let mut command = suite::java(&class_path, "GrpcKinds");
    command.arg(format!("{PREFIX}_normal")).arg(format!("{PREFIX}_g"));
    command.env("PROXY_ADDR", proxy.address());
    let clients = Clients::start(command, &GRPC_KINDS, &folder.join("clients"))?;
    under_kills(brokers, clients, kills)
}

/// Consumers in order by the Go client, and a sender for each of their queues, while the master ends in
/// turn by a kill and in order, by handing over its lead: of each queue something new must come after each
/// time (case 101).
///
/// # Errors
/// See [`remoting`].
pub fn go_in_order(ends: usize, folder: &Path) -> Result<Outcomes> {
    let brokers = Brokers::start(Product::Ours, &Places::default(), false, folder)?;
    let master = brokers.wait_master(None)?;
    let codes: Vec<String> = DEFINITE.iter().map(ToString::to_string).collect();
    let mut command = Command::new(libraries::go_program()?);
    command.args(["ordered", &codes.join(",")]);
    command.env("NAMESRV_ADDR", brokers.namesrv()).env("BROKER_ADDR", brokers.address(master));
    let clients = Clients::start(command, &GO_KINDS, &folder.join("clients"))?;
    let clients = Clients { patience: LEASES, ..clients };
    under_ends(brokers, clients, ends, &[End::Kill, End::Stop])
}

/// How a master ends.
#[derive(Debug, Clone, Copy)]
enum End {
    /// By SIGKILL.
    Kill,
    /// By SIGTERM: it hands over the lead first.
    Stop,
}

fn under_kills(brokers: Brokers, clients: Clients, kills: usize) -> Result<Outcomes> {
    under_ends(brokers, clients, kills, &[End::Kill])
}

fn under_ends(
    mut brokers: Brokers,
    mut clients: Clients,
    count: usize,
    ends: &[End],
) -> Result<Outcomes> {
    clients.ready()?;
    rounds(&mut brokers, &mut clients, count, ends)?;
    let ledger = clients.end()?;
    let findings = check(&ledger);
    Ok(Outcomes { ledger, findings })
}

/// Ends the master so many times under the clients, by these ends in turn.
fn rounds(brokers: &mut Brokers, clients: &mut Clients, count: usize, ends: &[End]) -> Result<()> {
    // A new member that is not filled yet cannot stand in for another.
    brokers.caught_up()?;
    for (number, end) in ends.iter().cycle().take(count).enumerate() {
        clients.goes_on(CALM)?;
        let master = brokers.wait_master(None)?;
        let from = now()?;
        match end {
            End::Kill => brokers.kill(master)?,
            End::Stop => {
                brokers.stop(master)?;
            }
        }
        if number.is_multiple_of(2) {
            brokers.restart(master)?;
        } else {
            brokers.wait_master(Some(master))?;
            brokers.restart(master)?;
        }
        let to =
            clients.all_after(from).with_context(|| format!("{end:?} {number}, of n{master}"))?;
        brokers.caught_up()?;
        brokers.listed_once()?;
        ask_early(brokers)?;
        clients.trouble(Span { from, to })?;
        tell(&format!("{end:?} {number}, of n{master}: all kinds went on after {} ms", to - from));
    }
    clients.goes_on(CALM)
}

/// Lets each broker ask about transactions early and for ever.
fn ask_early(brokers: &Brokers) -> Result<()> {
    let keys =
        "transactionTimeOut=1000\ntransactionCheckInterval=1000\ntransactionCheckMax=1000000\n";
    for number in 0..brokers.size() {
        let port = port(&brokers.address(number))?;
        let mut last = String::new();
        let set = wait_until("a broker takes its configuration", SERVES, || {
            let answer =
                question::ask_with(port, UPDATE_BROKER_CONFIG, &json!({}), keys.as_bytes());
            last = format!("{answer:?}");
            answer.is_ok_and(|answer| answer.code == 0)
        });
        set.with_context(|| format!("n{number}: {last}"))?;
    }
    Ok(())
}

/// A program of clients and what it has noted so far.
#[derive(Debug)]
pub(crate) struct Clients {
    process: Process,
    folder: PathBuf,
    tail: Tail,
    kinds: &'static [Kind],
    ledger: Ledger,
    /// How long it may take until all kinds go on.
    patience: Duration,
}

impl Clients {
    pub(crate) fn start(
        mut command: Command,
        kinds: &'static [Kind],
        folder: &Path,
    ) -> Result<Self> {
        command.env("HOME", folder);
        let process = Process::start("clients", &mut command, folder)?;
        let tail = Tail::new(folder.join(LEDGER));
        let ledger = Ledger::default();
        let (folder, patience) = (folder.to_path_buf(), SERVES);
        Ok(Self { process, folder, tail, kinds, ledger, patience })
    }

    /// Waits until all consumers have their share, and each kind has been consumed.
    pub(crate) fn ready(&mut self) -> Result<()> {
        let ready = self.wait(STARTS, |it| it.ledger.ready)?;
        ensure!(ready, "the consumers do not get their share");
        self.all_after(0).map(drop)
    }

    /// Notes what the program has written since the last time.
    fn note(&mut self) -> Result<()> {
        let text = self.tail.lines()?;
        text.lines().try_for_each(|line| self.ledger.note(line)).map_err(Into::into)
    }

    /// Writes into the ledger from when until when clients may have met a kill: so it is whole.
    fn trouble(&self, span: Span) -> Result<()> {
        let path = self.folder.join(LEDGER);
        let file = File::options().append(true).open(&path);
        let mut file = file.with_context(|| path.display().to_string())?;
        let line = format!("trouble {span}\n");
        file.write_all(line.as_bytes()).with_context(|| path.display().to_string())
    }

    /// Waits until `holds`, as long as the program lives; whether it did in time.
    fn wait(&mut self, limit: Duration, mut holds: impl FnMut(&Self) -> bool) -> Result<bool> {
        let until = now()? + u64::try_from(limit.as_millis())?;
        loop {
            self.note()?;
            if holds(self) {
                return Ok(true);
            }
            self.process.lives().with_context(|| self.process.output().unwrap_or_default())?;
            if now()? > until {
                return Ok(false);
            }
            thread::sleep(LOOKS);
        }
    }

    /// Lets the load go on for a while.
    fn goes_on(&mut self, time: Duration) -> Result<()> {
        self.wait(time, |_| false).map(drop)
    }

    /// Waits until of each kind a message was acknowledged, and one was consumed, that was sent after
    /// `from`, of those in order one of each sender's; when that was.
    fn all_after(&mut self, from: u64) -> Result<u64> {
        let went_on = self.wait(self.patience, |it| it.silent(from).is_empty())?;
        ensure!(went_on, "these do not go on: {:?}", self.silent(from));
        now()
    }

    /// Kinds of which nothing that was sent after `from` was consumed, with the sender where each of them
    /// counts: a queue in order may stand still while others go on.
    fn silent(&self, from: u64) -> Vec<(Kind, Option<u32>)> {
        let sent = self.ledger.sent.iter().rev().take_while(|sent| sent.span.to >= from);
        let stored = sent.filter(|sent| sent.outcome == Outcome::Stored && sent.span.from > from);
        let stored: BTreeSet<_> = stored.map(|sent| sent.key).collect();
        let newer = |(kind, sender): &(Kind, Option<u32>)| {
            let got = self.ledger.got.iter().rev().take_while(|got| got.span.to >= from);
            let mut of_kind = got.filter(|got| got.key.kind == *kind && got.took);
            of_kind.any(|got| {
                sender.is_none_or(|sender| sender == got.key.sender) && stored.contains(&got.key)
            })
        };
        let sent = |kind| self.ledger.sent.iter().filter(move |sent| sent.key.kind == kind);
        let senders = |kind| match kind {
            Kind::Orderly => sent(kind).map(|sent| Some(sent.key.sender)).collect(),
            _ => BTreeSet::from([None]),
        };
        let all = self.kinds.iter().flat_map(|kind| {
            let senders = senders(*kind);
            let none = senders.is_empty().then_some(None);
            senders.into_iter().chain(none).map(|sender| (*kind, sender))
        });
        all.filter(|one| !newer(one)).collect()
    }

    /// Ends the senders, waits until all has come, and for what must not come; all that was noted.
    pub(crate) fn end(mut self) -> Result<Ledger> {
        self.make("stop")?;
        let ended = self.wait(STARTS, |it| it.ledger.ended)?;
        ensure!(ended, "the senders do not end");
        // What is missing then is a finding.
        self.wait(DRAINS, |it| missing(&it.ledger).is_empty())?;
        self.goes_on(QUIET)?;
        self.make("end")?;
        let status = self.process.wait(STARTS)?;
        ensure!(status.success(), "the clients: {status}\n{}", self.process.output()?);
        self.note()?;
        Ok(self.ledger)
    }

    fn make(&self, name: &str) -> Result<()> {
        let path = self.folder.join(name);
        File::create(&path).map(drop).with_context(|| path.display().to_string())
    }
}

impl Outcomes {
    /// Fails where a rule does not hold, or a kind has shown nothing.
    ///
    /// # Errors
    /// The violations.
    pub fn hold(&self, kinds: &[Kind]) -> Result<()> {
        ensure!(self.findings.is_empty(), "{}", self.findings);
        for kind in kinds {
            let came = self.ledger.got.iter().any(|got| got.key.kind == *kind && got.took);
            ensure!(came, "nothing of {kind} was consumed: nothing was shown");
        }
        Ok(())
    }

    /// Takes the deliveries of one message of each kind out of the ledger: the check must name it.
    ///
    /// # Errors
    /// Where it does not.
    pub fn finds_what_is_planted(&self, kinds: &[Kind]) -> Result<()> {
        for kind in kinds {
            let of_kind = self.ledger.got.iter().filter(|got| got.key.kind == *kind && got.took);
            let acknowledged = |key| {
                let mut sent = self.ledger.sent.iter().filter(|sent| sent.key == key);
                sent.any(|sent| sent.outcome == Outcome::Stored)
            };
            let key = of_kind.map(|got| got.key).find(|key| acknowledged(*key));
            let key = key.with_context(|| format!("nothing of {kind} came"))?;
            let mut ledger = self.ledger.clone();
            ledger.got.retain(|got| got.key != key);
            let findings = check(&ledger);
            let text = format!("{key} was acknowledged and did not come");
            let found = findings.violations.iter().any(|one| one.text.starts_with(&text));
            ensure!(found, "{key} was taken out, and the check found: {findings}");
        }
        Ok(())
    }
}

impl fmt::Display for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds: BTreeMap<Kind, [usize; 4]> = BTreeMap::new();
        for sent in &self.ledger.sent {
            let counts = kinds.entry(sent.key.kind).or_default();
            let which = match sent.outcome {
                Outcome::Stored => 0,
                Outcome::Refused => 1,
                Outcome::Unknown => 2,
            };
            counts[which] += 1;
        }
        for got in &self.ledger.got {
            kinds.entry(got.key.kind).or_default()[3] += 1;
        }
        for (kind, [stored, refused, unknown, got]) in kinds {
            writeln!(
                f,
                "{kind}: {stored} acknowledged, {refused} refused, {unknown} without an answer, {got} deliveries"
            )?;
        }
        write!(f, "{} kills; {}", self.ledger.troubles.len(), self.findings)
    }
}

fn port(address: &str) -> Result<u16> {
    let (_, port) = address.rsplit_once(':').context("an address without a port")?;
    port.parse().with_context(|| format!("the port of {address}"))
}

fn now() -> Result<u64> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Ok(u64::try_from(since.context("a clock behind 1970")?.as_millis())?)
}

#[expect(clippy::print_stdout, reason = "a test tells how far it is")]
fn tell(text: &str) {
    println!("{text}");
}

/// The kinds that the remoting client has under way.
pub const KINDS: [Kind; 7] = [
    Kind::Plain,
    Kind::Orderly,
    Kind::Transaction,
    Kind::Delay,
    Kind::Timer,
    Kind::Pop,
    Kind::Retry,
];

/// What the Go client has under way.
pub const GO_KINDS: [Kind; 1] = [Kind::Orderly];

/// What goes by gRPC.
pub const GRPC_KINDS: [Kind; 1] = [Kind::Grpc];

/// Sources of the programs.
const PROGRAM: [&str; 4] = ["Kinds.java", "KindSenders.java", "KindConsumers.java", "Noted.java"];
const GRPC_PROGRAM: [&str; 2] = ["GrpcKinds.java", "Noted.java"];

/// Of the topics behind the proxy.
const PREFIX: &str = "kinds_grpc";

/// Name of its ledger.
const LEDGER: &str = "ledger";

/// Request code UPDATE_BROKER_CONFIG.
const UPDATE_BROKER_CONFIG: i32 = 25;

/// The Go client never gives back the lease of a queue that goes to another member: the minute of a lease
/// has to pass, and then the client's interval.
const LEASES: Duration = Duration::from_secs(300);

/// Load before a kill, and after the last one.
const CALM: Duration = Duration::from_secs(10);

/// Pause between two looks at the ledger.
const LOOKS: Duration = Duration::from_millis(100);

/// How long the program may take to start with all its consumers, and to end.
const STARTS: Duration = Duration::from_secs(240);

/// How long it may take until all that is missing has come.
const DRAINS: Duration = Duration::from_secs(300);

/// Time in which nothing must come any more: more than twice that for which a pop has its messages.
const QUIET: Duration = Duration::from_secs(25);
