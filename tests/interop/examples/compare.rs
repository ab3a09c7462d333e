//! Apache's broker and ours in turn on this machine, under loads of `ledgermq bench`:
//! `cargo xtask bench --compare apache`.
#![expect(clippy::print_stdout, reason = "a command line tool reports on its standard output")]

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use interop::{
    APACHE,
    comparison::{Figures, Row, median, replace_section, tables},
    folder,
    node::{Broker, BrokerOptions, NameServer, Product},
    usage,
};
use serde_json::Value;

/// Durabilities that both brokers know by the same name.
const DURABILITIES: [&str; 2] = ["ASYNC_FLUSH", "SYNC_FLUSH"];

/// A load: its name and its `ledgermq bench` command, to which time and address are added. Those
/// of one topic build on each other.
const LOADS: [(&str, &str); 5] = [
    ("send 1 KiB, 32 senders", "produce --topic s1 --style sync --senders 32 --body 1024"),
    ("send 1 KiB, window 1,000", "produce --topic a1 --style async --window 1000 --body 1024"),
    ("send 16 KiB, window 1,000", "produce --topic a16 --style async --window 1000 --body 16384"),
    ("read those of 1 KiB from the first", "consume --topic a1"),
    ("end to end, 1 KiB, 1,000 a second", "e2e --topic e1 --rate 1000 --body 1024"),
];

/// The flags of Apache's own `runbroker.sh`, with a heap that suits a small machine.
const JVM: &[&str] = &[
    "-server",
    "-Xms1g",
    "-Xmx1g",
    "-XX:+UseG1GC",
    "-XX:G1HeapRegionSize=16m",
    "-XX:G1ReservePercent=25",
    "-XX:InitiatingHeapOccupancyPercent=30",
    "-XX:SoftRefLRUPolicyMSPerMB=0",
    "-XX:MaxDirectMemorySize=1g",
];

/// Share of one processor that others may use in the median run, if figures are to be kept.
const FOREIGN_MAX: f64 = 0.05;

const HEADING: &str = "## Beside Apache RocketMQ 5.5.0";

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |what: &str| -> Result<u32> {
        let text = arguments.next().with_context(|| format!("say the {what}"))?;
        text.parse().with_context(|| format!("{what}: {text}"))
    };
    let (rounds, seconds) = (number("rounds")?, number("seconds")?);
    let target = folder::target()?;
    let default = target.join("release").join("ledgermq");
    let binary = std::env::var_os("LEDGERMQ_BIN").map_or(default, PathBuf::from);
    let mut comparison =
        Comparison { binary, seconds, work: target.join("compare"), foreign: Vec::new() };
    let mut rows = Vec::new();
    for durability in DURABILITIES {
        rows.extend(comparison.durability(durability, rounds)?);
    }
    let tables = tables(&rows);
    println!("{tables}");
    let foreign = median(&comparison.foreign).context("nothing was measured")?;
    ensure!(
        foreign <= FOREIGN_MAX,
        "other programs used {:.0} % of one processor in the median run, more than {:.0} %: these \
         figures are not written; run again on a quiet machine",
        foreign * 100.0,
        FOREIGN_MAX * 100.0
    );
    write(&section(&tables, rounds, seconds, foreign))
}

struct Comparison {
    binary: PathBuf,
    seconds: u32,
    work: PathBuf,
    /// What others used of one processor in each run.
    foreign: Vec<f64>,
}

impl Comparison {
    fn durability(&mut self, durability: &'static str, rounds: u32) -> Result<Vec<Row>> {
        let row = |(load, _): (&'static str, _)| Row { durability, load, rounds: Vec::new() };
        let mut rows: Vec<Row> = LOADS.into_iter().map(row).collect();
        for round in 0..rounds {
            // Who is first takes turns, so that neither always meets the warmer machine.
            let (apache, ours) = if round % 2 == 0 {
                let apache = self.product(Product::Apache(APACHE), durability)?;
                (apache, self.product(Product::Ours, durability)?)
            } else {
                let ours = self.product(Product::Ours, durability)?;
                (self.product(Product::Apache(APACHE), durability)?, ours)
            };
            for (row, pair) in rows.iter_mut().zip(apache.into_iter().zip(ours)) {
                row.rounds.push(pair);
            }
        }
        Ok(rows)
    }

    /// All loads on one broker that starts with an empty store.
    fn product(&mut self, product: Product, durability: &str) -> Result<Vec<Figures>> {
        if self.work.exists() {
            fs::remove_dir_all(&self.work).context("removing the last run's files")?;
        }
        let mut name_server = NameServer::start(product, &self.work.join("namesrv"))?;
        let mut options = BrokerOptions::new(&self.work.join("store"))?;
        options.keys = vec![("flushDiskType", durability.to_owned())];
        options.jvm = JVM;
        let mut broker = Broker::start(product, &self.work.join("broker"), &options, &name_server)?;
        let servers = [broker.process.id(), name_server.process.id()];
        let mut all = Vec::new();
        for (load, command) in LOADS {
            let figures = self.load(command, &name_server.address(), servers)?;
            println!("{product:?} {durability} {load}: {figures:?}");
            all.push(figures);
        }
        broker.process.stop()?;
        name_server.process.stop()?;
        fs::remove_dir_all(&self.work).context("removing this run's files")?;
        Ok(all)
    }

    fn load(&mut self, command: &str, namesrv: &str, servers: [u32; 2]) -> Result<Figures> {
        let [broker, _] = servers;
        let servers_cpu =
            || -> Result<f64> { servers.iter().map(|server| usage::cpu_seconds(*server)).sum() };
        let begun = Instant::now();
        let machine = usage::machine_cpu_seconds()?;
        let (before, ours) = (usage::cpu_seconds(broker)?, servers_cpu()?);
        let children = usage::children_cpu_seconds()?;
        let line = self.bench(command, namesrv)?;
        let used = usage::cpu_seconds(broker)? - before;
        let known = servers_cpu()? - ours + usage::children_cpu_seconds()? - children;
        let machine = usage::machine_cpu_seconds()? - machine;
        self.foreign.push((machine - known).max(0.0) / begun.elapsed().as_secs_f64());
        let memory = usage::memory(broker)?;
        let messages = ["messagesInAll", "receivedInAll", "received"];
        let messages = messages.iter().find_map(|name| line[*name].as_f64());
        let messages = messages.context("the bench does not say how many messages it had")?;
        Ok(Figures {
            cpu: used * 1e6 / messages.max(1.0),
            memory: memory.own as f64 / 1024.0,
            resident: memory.resident as f64 / 1024.0,
            ..Figures::of_line(&line)?
        })
    }

    /// Runs `ledgermq bench` and gives what it measured.
    fn bench(&self, words: &str, namesrv: &str) -> Result<Value> {
        let mut command = Command::new(&self.binary);
        command.arg("bench").args(words.split_whitespace()).args(["--json", "-n", namesrv]);
        if !words.starts_with("consume") {
            command.args(["--warmup", "3s", "--duration", &format!("{}s", self.seconds)]);
        }
        let output = command.stdin(Stdio::null()).output();
        let output = output.with_context(|| format!("starting {command:?}"))?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{command:?} ended with {}: {complaint}", output.status);
        serde_json::from_slice(&output.stdout).with_context(|| format!("output of {command:?}"))
    }
}

fn section(tables: &str, rounds: u32, seconds: u32, foreign: f64) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let loads: String =
        LOADS.iter().map(|(name, words)| format!("- {name}: `bench {words}`\n")).collect();
    format!(
        "    cargo xtask bench --compare apache --rounds {rounds} --seconds {seconds}\n\n\
         {cores} cores, shared by broker, name server and load generator, all on 127.0.0.1; \
         {rounds} rounds in which the\nbrokers take turns, each with an empty store; 3 s of warm-up \
         and {seconds} s measured a load. Both brokers have the\nsame `flushDiskType`: with \
         `SYNC_FLUSH` an answer means that the message is fsynced, with `ASYNC_FLUSH` that it\nis in \
         the page cache. Apache's broker has its ordinary commit log and `{}`.\nCPU time is that of \
         the broker, for each message of the whole run; memory is RssAnon + RssShmem of the\nbroker \
         after the load. Other programs used {:.1} % of one core in the median run.\n\n{loads}\n{tables}",
        JVM.join(" "),
        foreign * 100.0
    )
}

fn write(section: &str) -> Result<()> {
    let root =
        folder::sources().ancestors().nth(2).context("tests/interop lies in the workspace")?;
    let path: &Path = &root.join("docs").join("performance.md");
    let document = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let document = replace_section(&document, HEADING, section);
    let mut file = fs::File::create(path).with_context(|| path.display().to_string())?;
    file.write_all(document.as_bytes()).with_context(|| path.display().to_string())?;
    println!("wrote {}", path.display());
    Ok(())
}
