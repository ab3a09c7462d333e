//! Goal: a live group of three Java brokers on DLedger becomes one of ours, node by node, and Java's
//! again, and nobody misses anything.
//! Method: real processes on loopback, each product on the same folders with the same broker.conf,
//! under the load of the official Java client. Every acknowledged message is read back at its offset, the
//! logs of all members are compared entry by entry, a group goes on where it was, topics stay, and sends
//! fail only while the master changes.
#![expect(clippy::print_stdout, reason = "tests report on standard output")]

use std::{
    path::Path,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, ensure};
use interop::{
    APACHE, APACHE_STORE, folder,
    ledger::{Ledger, LookUp},
    log_files,
    mixed::{MixedGroup, PATIENCE},
    node::{NameServer, Product},
    process::{Process, wait_until},
    toolchain,
};
use serde_json::json;

/// Bytes of a data file.
const FILE_SIZE: u32 = 16 << 20;
/// Pause of each of eight threads between two sends.
const PAUSE: Duration = Duration::from_millis(20);
/// The group whose progress is watched.
const GROUP: &str = "G_progress";
/// A topic with an attribute, which Java 5.3.3 loses on its own slaves.
const TYPED: &str = "Typed";

/// Request code UPDATE_AND_CREATE_TOPIC.
const CREATE_TOPIC: i32 = 17;
/// Request code GET_TOPIC_CONFIG.
const TOPIC_CONFIG: i32 = 351;

/// A group under load.
struct Scene {
    group: MixedGroup,
    /// What the load writes.
    load: Ledger,
    /// What a group consumes piece by piece.
    held: Ledger,
    producer: Process,
    /// From when to when the master changed, in milliseconds since 1970.
    switches: Vec<(u128, u128)>,
}

fn now() -> Result<u128> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH).context("after 1970")?.as_millis())
}

impl Scene {
    /// Three Java brokers, a group that has consumed 200 messages, and a load.
    fn new(folder: &Path, java: &'static str) -> Result<Self> {
        let name_server = NameServer::start(Product::Ours, &folder.join("namesrv"))?;
        let mut group = MixedGroup::new(folder, name_server, FILE_SIZE)?;
        for id in ["n0", "n1", "n2"] {
            group.start(id, Product::Apache(java))?;
        }
        let master = group.wait_master()?;
        println!("{master} is the Java master");
        let held = Ledger::new(&folder.join("held"), "held")?;
        held.produce(&group.name_server(), 200)?;
        held.consume(&group.name_server(), GROUP, held.len()?)?;
        let load = Ledger::new(&folder.join("load"), "load")?;
        let producer = load.start_pacing(&group.name_server(), 10_000_000, PAUSE)?;
        let scene = Self { group, load, held, producer, switches: Vec::new() };
        scene.go_on()?;
        Ok(scene)
    }

    /// Waits for more acknowledged messages.
    fn go_on(&self) -> Result<()> {
        let before = self.load.len()?;
        wait_until("300 more acknowledged messages", PATIENCE, || {
            self.load.len().is_ok_and(|acknowledged| acknowledged >= before + 300)
        })
    }

    /// Another product takes the place of each member; the master comes last.
    fn replace_all(&mut self, product: Product) -> Result<()> {
        for id in self.group.followers()? {
            self.group.stop(&id).with_context(|| format!("stopping {id}"))?;
            self.group.start(&id, product)?;
            self.group.wait_follower(&id)?;
            self.go_on().with_context(|| format!("{id} runs {product:?}"))?;
            println!("{id} runs {product:?} and follows");
        }
        self.settle()?;
        let master = self.group.wait_master()?;
        let begun = now()?;
        self.group.stop(&master).with_context(|| format!("stopping the master {master}"))?;
        let next = self.group.wait_master()?;
        ensure!(next != master, "{master} was stopped");
        self.go_on().with_context(|| format!("{next} leads"))?;
        let over = now()?;
        println!("{next} runs {product:?} and leads; the switch took {} ms", over - begun);
        self.switches.push((begun, over));
        self.group.start(&master, product)?;
        self.group.wait_follower(&master)?;
        self.go_on().with_context(|| format!("{master} runs {product:?}"))
    }

    /// Java slaves copy the tables of the master every ten seconds, once they know it.
    fn settle(&self) -> Result<()> {
        let master = self.group.wait_master()?;
        let followers = self.group.followers()?;
        let topic = if self.has(&master, TYPED) { TYPED } else { "held" };
        for id in followers {
            wait_until(&format!("{id} knows the topic {topic}"), PATIENCE, || {
                self.has(&id, topic)
            })?;
        }
        Ok(())
    }

    /// Whether a member knows a topic.
    fn has(&self, id: &str, topic: &str) -> bool {
        let answer = self.group.ask(id, TOPIC_CONFIG, &json!({ "topic": topic }));
        answer.is_ok_and(|answer| answer.code == 0)
    }

    /// The group that consumed before goes on where it was: it gets what is new and nothing else.
    fn progress_is_kept(&self) -> Result<()> {
        let before = self.held.len()?;
        self.held.produce(&self.group.name_server(), 50)?;
        let new = self.held.len()? - before;
        self.held.consume(&self.group.name_server(), GROUP, new).context("progress of a group")
    }

    fn make_topic(&self, attributes: &str) -> Result<()> {
        let master = self.group.wait_master()?;
        let fields = json!({
            "topic": TYPED, "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4",
            "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
            "attributes": attributes,
        });
        let answer = self.group.ask(&master, CREATE_TOPIC, &fields)?;
        ensure!(answer.code == 0, "{answer:?}");
        Ok(())
    }

    fn typed_is_kept(&self) -> Result<()> {
        let master = self.group.wait_master()?;
        let answer = self.group.ask(&master, TOPIC_CONFIG, &json!({ "topic": TYPED }))?;
        ensure!(answer.code == 0, "{TYPED} at {master}: {answer:?}");
        ensure!(answer.body.contains("\"message.type\":\"FIFO\""), "{}", answer.body);
        Ok(())
    }

    /// Ends the load, and looks at everything that was acknowledged and at every failure.
    fn end(mut self) -> Result<()> {
        self.producer.kill()?;
        let output = self.producer.output()?;
        let failures: Vec<u128> =
            output.lines().filter_map(|line| line.strip_prefix("failed ")?.parse().ok()).collect();
        let outside = |at: &&u128| !self.switches.iter().any(|(from, to)| (from..=to).contains(at));
        let strangers = failures.iter().filter(outside).count();
        println!("{} sends failed, {strangers} of them apart from switches", failures.len());
        ensure!(strangers == 0, "{strangers} sends failed while the master stayed: {output}");
        self.load.verify(&self.group.name_server(), LookUp::Ids)?;
        self.held.verify(&self.group.name_server(), LookUp::Ids)?;
        // What is written last reaches all members.
        thread::sleep(Duration::from_secs(5));
        self.group.kill_all()?;
        let mut logs = Vec::new();
        for id in ["n0", "n1", "n2"] {
            logs.push((id, log_files::entries(&self.group.data(id)?)?));
        }
        let common = log_files::compare(&logs)?;
        println!("{common} entries are the same in all logs");
        ensure!(common >= self.load.len()?, "{common} entries are in all logs");
        Ok(())
    }
}

/// A group of Java brokers of this version is taken over and given back.
fn there_and_back(name: &str, java: &'static str) -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    folder::scenario(name, |folder| {
        let mut scene = Scene::new(folder, java)?;
        scene.replace_all(Product::Ours).context("taken over")?;
        scene.progress_is_kept().context("taken over")?;
        scene.make_topic("+message.type=FIFO")?;
        scene.replace_all(Product::Apache(java)).context("given back")?;
        scene.typed_is_kept().context("given back")?;
        scene.progress_is_kept().context("given back")?;
        scene.end()
    })
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci --long runs it"]
fn java_5_3_3_is_taken_over_and_given_back() -> Result<()> {
    there_and_back("takeover-5.3.3", APACHE_STORE)
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci --long runs it"]
fn java_5_5_0_is_taken_over_and_given_back() -> Result<()> {
    there_and_back("takeover-5.5.0", APACHE)
}
