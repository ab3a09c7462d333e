//! One broker under loads: from its start with an empty store to its end.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};

use super::{loads::Generator, record::Record};
use crate::{
    APACHE, libraries,
    node::{Broker, BrokerOptions, NameServer, Product},
    usage,
};

/// The flags of Apache's own `runbroker.sh`, with a heap that suits a small machine.
pub const JVM: &[&str] = &[
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

/// Name of a product in records.
#[must_use]
pub fn name(product: Product) -> &'static str {
    match product {
        Product::Apache(_) => "apache",
        Product::Ours => "ledgermq",
    }
}

/// Seconds that a writer sends before and after those in which is read what comes.
const BESIDE: u32 = 2;

/// How loads are measured.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The binary that makes the load, by `bench` or by `dledger bench`.
    pub binary: PathBuf,
    /// Measured seconds of a load.
    pub seconds: u32,
    /// Seconds of load before them.
    pub warmup: u32,
    /// Folder of the files of brokers or groups, which is made anew for each.
    pub work: PathBuf,
}

/// A broker with its name server.
#[derive(Debug)]
pub struct Session {
    /// The broker.
    pub broker: Broker,
    /// The name server.
    pub name_server: NameServer,
    product: Product,
    durability: &'static str,
    options: BrokerOptions,
    settings: Settings,
}

impl Session {
    /// Starts both with an empty store, in which the topics `many-0` to `many-(topics - 1)` exist.
    ///
    /// # Errors
    /// Where one is not ready in time.
    pub fn start(
        settings: &Settings,
        product: Product,
        durability: &'static str,
        topics: u32,
    ) -> Result<Self> {
        Self::start_with(settings, product, (durability, &[]), topics)
    }

    /// As [`Session::start`], with these keys set to true.
    ///
    /// # Errors
    /// Where one is not ready in time.
    pub fn start_with(
        settings: &Settings,
        product: Product,
        (durability, switches): (&'static str, &[&'static str]),
        topics: u32,
    ) -> Result<Self> {
        let work = &settings.work;
        if work.exists() {
            fs::remove_dir_all(work).context("removing the last run's files")?;
        }
        let store = work.join("store");
        if topics > 0 {
            write_topics(&store, topics)?;
        }
        let name_server = NameServer::start(product, &work.join("namesrv"))?;
        let mut options = BrokerOptions::new(&store)?;
        options.keys = vec![("flushDiskType", durability.to_owned())];
        options.keys.extend(switches.iter().map(|key| (*key, "true".to_owned())));
        options.jvm = JVM;
        let broker = Broker::start(product, &work.join("broker"), &options, &name_server)?;
        Ok(Self { broker, name_server, product, durability, options, settings: settings.clone() })
    }

    /// Stops or kills the broker and starts it again on its store; how long the start took, in
    /// seconds.
    ///
    /// # Errors
    /// Where it does not stop or is not ready in time.
    pub fn restart(&mut self, kill: bool) -> Result<f64> {
        if kill {
            self.broker.process.kill()?;
        } else {
            self.broker.process.stop()?;
        }
        let begun = Instant::now();
        let folder = self.settings.work.join("broker");
        self.broker = Broker::start(self.product, &folder, &self.options, &self.name_server)?;
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Ends both and removes their files.
    ///
    /// # Errors
    /// Where one does not stop.
    pub fn end(mut self) -> Result<()> {
        self.broker.process.stop()?;
        self.name_server.process.stop()?;
        fs::remove_dir_all(&self.settings.work).context("removing this run's files")
    }

    /// Puts a load on the broker and measures what it gave and cost.
    ///
    /// # Errors
    /// Where the load fails.
    pub fn measure(
        &self,
        part: &str,
        load: &str,
        generator: Generator,
        round: u32,
    ) -> Result<Record> {
        let meter = self.meter()?;
        let line = self.generate(generator)?;
        let Spent { used, foreign } = meter.spent()?;
        let memory = usage::memory(self.broker.process.id())?;
        let mut figures = figures(&line)?;
        let messages = ["messagesInAll", "receivedInAll", "received"];
        let messages = messages.iter().find_map(|name| line[*name].as_f64());
        let messages = messages.with_context(|| format!("how many messages had {load}? {line}"))?;
        figures.insert("cpu".to_owned(), used * 1e6 / messages.max(1.0));
        figures.insert("memory".to_owned(), memory.own as f64 / 1024.0);
        figures.insert("resident".to_owned(), memory.resident as f64 / 1024.0);
        Ok(Record { foreign, ..self.record(part, load, round, figures) })
    }

    /// Begins to measure what a load costs.
    ///
    /// # Errors
    /// Where one of the servers is gone.
    pub fn meter(&self) -> Result<Meter> {
        let broker = self.broker.process.id();
        let servers = [broker, self.name_server.process.id()];
        Ok(Meter {
            begun: Instant::now(),
            servers,
            machine: usage::machine_cpu_seconds()?,
            broker: usage::cpu_seconds(broker)?,
            known: known_cpu_seconds(&servers)?,
        })
    }

    /// A record about this broker, of a time in which nobody else worked.
    #[must_use]
    pub fn record(
        &self,
        part: &str,
        load: &str,
        round: u32,
        figures: BTreeMap<String, f64>,
    ) -> Record {
        Record {
            part: part.to_owned(),
            load: load.to_owned(),
            durability: self.durability.to_owned(),
            product: name(self.product).to_owned(),
            round,
            foreign: 0.0,
            figures,
        }
    }

    /// Runs a generator and gives what it measured.
    fn generate(&self, generator: Generator) -> Result<Value> {
        let (mut command, words) = match generator {
            Generator::Native(words) => {
                let mut command = Command::new(&self.settings.binary);
                command.args(["bench", "--json"]);
                (command, words)
            }
            Generator::Java(words) => (java_generator()?, words),
            Generator::Live(writer, reader) => return self.live(writer, reader),
        };
        command.args(words.split_whitespace()).args(["--namesrv", &self.name_server.address()]);
        if !words.starts_with("consume") {
            command.args(["--warmup", &format!("{}s", self.settings.warmup)]);
            command.args(["--duration", &format!("{}s", self.settings.seconds)]);
        }
        run(&mut command)
    }

    /// Sends, and reads what comes for a part of that time; what the reader measured, with how many
    /// messages were sent in all and how long that took each.
    fn live(&self, writer: &str, reader: &str) -> Result<Value> {
        let (warmup, seconds) = (self.settings.warmup, self.settings.seconds);
        // The reader looks for the topic's queues first.
        self.bench(&format!("{writer} --messages 1 --warmup 0"))?;
        let longer = seconds + 2 * BESIDE;
        let writer = format!("{writer} --warmup {warmup}s --duration {longer}s");
        let (sent, read) = thread::scope(|scope| {
            let writing = scope.spawn(|| self.bench(&writer));
            thread::sleep(Duration::from_secs(u64::from(warmup + BESIDE)));
            let read = self.bench(&format!("{reader} --duration {seconds}s"));
            (writing.join(), read)
        });
        let sent = sent.map_err(|_panicked| anyhow!("the writer of a live load panicked"))??;
        let mut line = read?;
        line["messagesInAll"] = sent["messagesInAll"].clone();
        line["sendLatencyMs"] = json!([sent["latencyMs"]]);
        Ok(line)
    }

    /// Runs `ledgermq bench` with these words and nothing more, and gives what it measured.
    ///
    /// # Errors
    /// Where it fails.
    pub fn bench(&self, words: &str) -> Result<Value> {
        let mut command = Command::new(&self.settings.binary);
        command.args(["bench", "--json"]).args(words.split_whitespace());
        run(command.args(["--namesrv", &self.name_server.address()]))
    }
}

/// What had been used when a load began.
#[derive(Debug)]
pub struct Meter {
    begun: Instant,
    /// The broker and its name server.
    servers: [u32; 2],
    machine: f64,
    broker: f64,
    known: f64,
}

/// What a load has cost.
#[derive(Debug, Clone, Copy)]
pub struct Spent {
    /// Seconds of processor time of the broker.
    pub used: f64,
    /// What other programs used of one processor meanwhile.
    pub foreign: f64,
}

impl Meter {
    /// What was spent since it began.
    ///
    /// # Errors
    /// Where one of the servers is gone.
    pub fn spent(&self) -> Result<Spent> {
        let [broker, _] = self.servers;
        let used = usage::cpu_seconds(broker)? - self.broker;
        let known = known_cpu_seconds(&self.servers)? - self.known;
        let foreign = usage::machine_cpu_seconds()? - self.machine - known;
        Ok(Spent { used, foreign: foreign.max(0.0) / self.begun.elapsed().as_secs_f64() })
    }
}

/// Processor time of the servers, and of the loads that have ended.
fn known_cpu_seconds(servers: &[u32]) -> Result<f64> {
    let servers: Result<f64> = servers.iter().map(|server| usage::cpu_seconds(*server)).sum();
    Ok(servers? + usage::children_cpu_seconds()?)
}

/// Fetches Apache's programs and compiles the Java generator, so that no measurement waits for it.
///
/// # Errors
/// Where Maven or the compiler fails.
pub fn prepare() -> Result<()> {
    for artifact in ["rocketmq-namesrv", "rocketmq-broker"] {
        libraries::class_path(artifact, APACHE)?;
    }
    java_generator().map(drop)
}

/// The generator on the official Java client.
fn java_generator() -> Result<Command> {
    let class_path = libraries::class_path("rocketmq-client", APACHE)?;
    let class_path = libraries::compile("load", &["Load.java"], &class_path)?;
    let mut command = Command::new("java");
    command.args(libraries::OPENS).args(["-Xms256m", "-Xmx1g"]);
    let home = std::env::temp_dir();
    command.arg(format!("-Duser.home={}", home.display()));
    command.args(["-Drocketmq.client.logLevel=ERROR", "-Djava.net.preferIPv4Stack=true"]);
    command.args(["-cp", &class_path, "Load"]);
    Ok(command)
}

fn run(command: &mut Command) -> Result<Value> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("starting {command:?}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {complaint}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    // The client library may print lines of its own before.
    let line = text.lines().rfind(|line| line.starts_with('{'));
    let line = line.with_context(|| format!("{command:?} printed no figures: {text}"))?;
    serde_json::from_str(line).with_context(|| format!("output of {command:?}"))
}

/// The figures that a generator measured itself.
fn figures(line: &Value) -> Result<BTreeMap<String, f64>> {
    let number = |value: &Value, name: &str| {
        value.as_f64().with_context(|| format!("{name} is missing in {line}"))
    };
    let mut figures = BTreeMap::from([
        ("rate".to_owned(), number(&line["messagesPerSecond"], "messagesPerSecond")?),
        ("p99".to_owned(), number(&line["latencyMs"]["p99"], "latencyMs.p99")?),
        ("p50".to_owned(), number(&line["latencyMs"]["p50"], "latencyMs.p50")?),
        ("failed".to_owned(), number(&line["failed"], "failed")?),
    ]);
    for (name, value) in [
        ("mib", &line["mibPerSecond"]),
        ("sendP99", &line["sendLatencyMs"][0]["p99"]),
        ("missing", &line["missing"]),
    ] {
        figures.extend(value.as_f64().map(|value| (name.to_owned(), value)));
    }
    Ok(figures)
}

/// A table of topics as both brokers keep it (`TopicConfigManager.java`), written before the start:
/// making ten thousand topics one by one takes longer than the measurement.
fn write_topics(store: &Path, count: u32) -> Result<()> {
    let topics: serde_json::Map<String, Value> = (0..count)
        .map(|n| {
            let name = format!("many-{n}");
            let topic = json!({
                "attributes": {}, "order": false, "perm": 6, "readQueueNums": 1,
                "topicFilterType": "SINGLE_TAG", "topicName": name, "topicSysFlag": 0,
                "writeQueueNums": 1,
            });
            (name, topic)
        })
        .collect();
    let version = json!({ "counter": 1, "stateVersion": 0, "timestamp": 1_700_000_000_000_u64 });
    let table = json!({ "dataVersion": version, "topicConfigTable": topics });
    let folder = store.join("config");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let path = folder.join("topics.json");
    let mut file = fs::File::create(&path).with_context(|| path.display().to_string())?;
    file.write_all(table.to_string().as_bytes()).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_generator_without_a_figure_is_refused() {
        let mut line = json!({
            "messagesPerSecond": 5.0, "latencyMs": { "p50": 1.0, "p99": 1.5 }, "failed": 2,
            "sendLatencyMs": [{ "p99": 0.5 }],
        });
        let found = figures(&line).unwrap();
        assert_eq!((found["rate"], found["p99"], found["failed"]), (5.0, 1.5, 2.0));
        assert_eq!((found["sendP99"], found.get("mib")), (0.5, None));
        line["latencyMs"] = json!({});
        let error = figures(&line).unwrap_err();
        assert!(error.to_string().contains("latencyMs.p99"), "{error}");
    }
}
